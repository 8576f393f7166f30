"""The story that `make race` tells: on real sockets, so what is compared is who did what and why, never how fast."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import transports.demo
from racer import Outcome, RaceReport, lab
from racer.cli._live import Unwatched
from racer.errors import ErrorType, Stage
from tests.racer.cli.terminal import Terminal
from transports.demo import _story as demo

ROOT = Path(__file__).parents[3]
PROGRAM = (sys.executable, "-m", "benchmarks.demo")
ENV = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "PYTHONUTF8": "1"}
TIMES = re.compile(r"\d[\d.e-]* m?s\b")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "LC_ALL", "LC_CTYPE", "PYTHONIOENCODING"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)


def run(*options: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*PROGRAM, "--fast", *options],
        capture_output=True,
        cwd=ROOT,
        env=os.environ | env,
        timeout=50,
        check=False,
    )


def timeless(text: str) -> str:
    return TIMES.sub("T", text)


class Pipe(io.StringIO):
    encoding = "utf-8"


def played(*options: str) -> str:
    """Return what the demonstration prints in this process."""
    out = Pipe()
    with contextlib.redirect_stdout(out):
        assert transports.demo.main(["--fast", *options]) == 0
    return out.getvalue()


def check_story(report: RaceReport) -> None:
    """Hold the race to its story: who started when, what became of them and why."""
    assert (report.target, report.tls) == ("news.example:443", True)
    assert (report.outcome, report.winner) == (Outcome.CONNECTED, "soar")
    direct, mirror, soar = report.attempts
    starts = [attempt.started_at for attempt in report.attempts]
    assert [attempt.transport for attempt in report.attempts] == ["direct", "mirror", "soar"]
    assert None not in starts
    assert starts == sorted(starts, key=lambda at: at or 0.0)

    assert (direct.outcome, direct.stage) == (Outcome.LOST_RACE, Stage.CONNECT)
    assert direct.peer == f"{demo.ADDRESS}:443"

    assert (mirror.outcome, mirror.stage) == (Outcome.CONNECT_FAILED, Stage.TLS)
    assert mirror.error_type is ErrorType.CONNECTION_RESET
    assert mirror.peer == f"{demo.MIRROR}:443"

    assert soar.outcome is Outcome.CONNECTED
    assert mirror.finished_at is not None
    assert soar.finished_at is not None
    assert mirror.finished_at < soar.finished_at


@pytest.mark.parametrize("seed", [1, 77])
def test_the_story_is_the_same_with_any_seed(seed: int) -> None:
    report = RaceReport.from_json(played("--json", f"--seed={seed}"))
    check_story(report)
    assert report["mirror"].start_delay == pytest.approx(0.08)
    assert report["soar"].start_delay == pytest.approx(0.16)


@pytest.mark.parametrize("found", [None, "/bin/false"], ids=["not-there", "ends-at-once"])
def test_without_unbound_a_forwarder_of_our_own_answers(
    found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transports.demo._dns_path.shutil.which", lambda *_, **__: found)
    assert "Soar goes through a forwarding resolver." in " ".join(played().split())


@pytest.fixture(scope="module")
def authority() -> lab.Authority:
    return lab.Authority()


async def test_the_site_is_talked_to_over_the_connection_that_won(
    authority: lab.Authority,
) -> None:
    shown: list[RaceReport] = []

    class Seen(Unwatched):
        def show(self, report: RaceReport) -> None:
            shown.append(report)

    done = await demo.play(Seen(), authority, seed=1, pace=demo.FAST)
    check_story(done.report)
    assert done.answer == ("200 OK", "hello from the lab")
    assert [attempt.transport for attempt in shown[0].attempts] == ["direct", "mirror", "soar"]
    assert shown[0].outcome is Outcome.NOT_STARTED


@pytest.fixture(scope="module")
def piped() -> str:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENV.items():
            patch.setenv(name, value)
        done = run("--seed=5")
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def test_a_pipe_gets_text_journal_waterfall_and_hello(piped: str) -> None:
    text, journal, headline, picture, causes, hello = timeless(piped).rstrip().split("\n\n")
    assert 2 <= len(text.splitlines()) <= 3
    assert "news.example" in text
    assert "(seed 5)" in text

    # How the mirror's end and soar's start fall is up to the machine's load; the rest follows from the story.
    events = [line.split("T  ")[1] for line in journal.splitlines() if "T  " in line]
    (failed,) = (event for event in events if event.startswith("mirror failed (tls): "))
    assert events.index(failed) > events.index("mirror starts")
    assert [event for event in events if event != failed] == [
        "direct starts",
        "mirror starts",
        "soar starts",
        "soar connected",
        "direct lost the race (connect)",
    ]
    assert "reset" in journal

    assert headline == "news.example:443 connected by soar in T"
    rows = picture.splitlines()[-3:]
    assert re.fullmatch(r"  direct ─+· lost the race \(connect\)", rows[0])
    assert re.fullmatch(r"  mirror  *─*✗ +connection_reset at T", rows[1])
    assert re.fullmatch(r"▶ soar  *━*✓ +connected at T", rows[2])
    assert causes.startswith("mirror (tls, 198.51.100.7:443): ")
    assert hello == 'hello over soar: 200 OK, "hello from the lab"'


def test_a_pipe_gets_no_escape_sequences_and_80_columns(piped: str) -> None:
    assert "\x1b" not in piped
    assert max(map(len, piped.splitlines())) <= 80


def check_ascii(text: str) -> None:
    assert text.isascii()
    assert "\x1b" not in text
    assert re.search(r"^> soar +=*\* +connected at ", text, re.MULTILINE)
    assert re.search(r"^  mirror +-*x +connection_reset at ", text, re.MULTILINE)


def test_plain_is_ascii_on_any_output() -> None:
    check_ascii(played("--plain"))


def test_a_locale_without_unicode_gets_ascii() -> None:
    # A process of its own: Python changes what such a locale says before any program runs (PEP 538).
    done = run(LANG="C", PYTHONUTF8="0")
    assert (done.returncode, done.stderr) == (0, b"")
    check_ascii(done.stdout.decode())


def test_a_terminal_shows_the_race_alive_and_keeps_only_its_end() -> None:
    terminal = Terminal()
    frames: list[str] = []

    class Watched(Terminal):
        def write(self, text: str) -> int:
            written = terminal.write(text)
            frames.append(terminal.seen)
            return written

    with contextlib.redirect_stdout(Watched()):
        assert transports.demo.main(["--fast"]) == 0
    assert any("still racing" in frame for frame in frames)
    assert "still racing" not in terminal.seen
    assert terminal.seen.count("direct") == 1
    assert 'hello over soar: 200 OK, "hello from the lab"' in terminal.seen


def interrupted_on_a_terminal() -> str:
    """Return what a real terminal is shown of a slow race that is interrupted once it is drawn."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        PROGRAM, stdout=theirs, stderr=theirs, cwd=ROOT, env=os.environ | {"COLUMNS": "80"}
    )
    os.close(theirs)
    shown, is_interrupted = "", False
    try:
        while piece := os.read(ours, 65536):
            shown += piece.decode()
            if "still racing" in shown and not is_interrupted:
                process.send_signal(signal.SIGINT)
                is_interrupted = True
    except OSError:  # how a terminal on Linux says that its other side is gone
        pass
    os.close(ours)
    assert process.wait(timeout=50) == 130
    return shown


def test_an_interrupt_ends_it_without_a_traceback() -> None:
    shown = interrupted_on_a_terminal()
    assert "\x1b[1mnews.example:443 still racing" in shown
    assert shown.endswith("interrupted\r\n")
    assert "Traceback" not in shown


def test_who_stops_reading_is_not_told_off() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*PROGRAM, "--fast"],
        stdout=writer,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        timeout=50,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_without_a_winner_it_fails_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    routes = demo.entrants
    monkeypatch.setattr(demo, "entrants", lambda network, pace: routes(network, pace=pace)[1:2])
    out = Pipe()
    with contextlib.redirect_stdout(out):
        assert transports.demo.main(["--fast"]) == 1
    assert "news.example:443 not connected: every attempt failed" in out.getvalue()
    assert "connection_reset" in out.getvalue()
    assert "hello" not in out.getvalue()
