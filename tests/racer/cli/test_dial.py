from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from racer import Outcome, RaceReport
from racer.cli import main
from tests.racer.cli import guests

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[3]
PROGRAM = (sys.executable, "-m", "racer", "dial")


class Server:
    """Accepts on loopback, and tells when each peer has closed."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.closed: list[bytes] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            peer, _ = self._listener.accept()
            with peer:
                received = peer.recv(100)
                if received == b"stop":
                    return
                self.closed.append(received)

    def stop(self) -> None:
        """Stop when every connection made so far has been served; may be called twice."""
        if not self._thread.is_alive():
            return
        with socket.create_connection(("127.0.0.1", self.port)) as last:
            last.sendall(b"stop")
        self._thread.join()
        self._listener.close()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.stop()


@pytest.fixture
def dark_port() -> int:
    """A port of loopback on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without configuration, in which the test's guests are installed, for this process and its children."""
    guests.install(tmp_path)
    for name in ("RACER_CONFIG", "NO_COLOR", "COLUMNS", "PYTHONIOENCODING"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT)]))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def configuration(place: Path, *names: str, more: str = "") -> str:
    """Write a configuration of these guests, and return the option that names it."""
    file = place / "racer.toml"
    file.write_text(more + "".join(f'[[entrant]]\ntransport = "{name}"\n' for name in names))
    return f"--config={file}"


class Done(NamedTuple):
    """How a program ended, and what it wrote."""

    returncode: int
    stdout: bytes
    stderr: bytes


def run(*argv: str) -> Done:
    """Run the program in this process, which saves most of the time, with pipes for its output."""
    out, errors = (TextIOWrapper(BytesIO(), encoding="utf-8") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(errors):
        code = main(["dial", *argv])
    out.flush()
    errors.flush()
    return Done(code, *(each.buffer.getvalue() for each in (out, errors)))


def run_alone(*argv: str, **env: str) -> Done:
    """Run the program in a process of its own."""
    done = subprocess.run(
        [*PROGRAM, *argv], capture_output=True, env=os.environ | env, timeout=50, check=False
    )
    return Done(done.returncode, done.stdout, done.stderr)


def plain(text: str) -> str:
    """Return the text with every time replaced, so that pictures can be compared."""
    return re.sub(r"\d[\d.e-]* m?s", "T", text)


def waterfall(done: Done) -> list[str]:
    """Return the lines behind the journal, without times."""
    return plain(done.stdout.decode()).partition("\n\n")[2].splitlines()


# --- what it shows --------------------------------------------------------------------------


def test_a_win_is_drawn_and_the_connection_closed(place: Path, server: Server) -> None:
    done = run(f"example.com:{server.port}", configuration(place, "fails", "loops", "shy", "hangs"))
    assert done.returncode == 0
    out = done.stdout.decode()
    journal, _, picture = plain(out).partition("\n\n")
    assert {
        "fails starts",
        "loops starts",
        "loops connected",
        "hangs lost the race (handshake)",
    } <= {line.split("T  ")[-1] for line in journal.splitlines()}
    lines = picture.splitlines()
    assert lines[0] == f"example.com:{server.port} connected by loops in T"
    rows = {line.strip("▶ ").split()[0]: line for line in lines[4:8]}
    assert list(rows) == ["fails", "loops", "hangs", "shy"]
    assert re.fullmatch(r"  fails ─*✗ +session_lost at T", rows["fails"])
    assert re.fullmatch(r"▶ loops  *━*✓ +connected at T", rows["loops"])
    assert rows["hangs"].endswith("lost the race (handshake)")
    assert rows["shy"] == "  shy   ineligible: serves nobody"
    assert lines[8:] == [
        "",
        r"fails (handshake): SessionLost: server lost the \x1b[31msession",
        f"loops: peer 127.0.0.1:{server.port}",
    ]
    assert done.stderr.decode() == "hanging\n"
    assert "\x1b" not in out
    assert all(len(line) <= 80 for line in out.splitlines())
    server.stop()
    assert server.closed == [b""]


def test_the_default_is_direct(place: Path, dark_port: int) -> None:
    done = run(f"127.0.0.1:{dark_port}")
    assert done.returncode == 1
    assert "direct" in done.stdout.decode()
    assert "connection_refused" in done.stdout.decode()


def test_failures_are_drawn_with_all_causes(place: Path) -> None:
    done = run_alone("example.com", configuration(place, "fails", "crashes"))
    assert done.returncode == 1
    lines = waterfall(done)
    assert lines[0] == "example.com:443 not connected: every attempt failed, after T"
    assert lines[-8:] == [
        r"fails (handshake): SessionLost: server lost the \x1b[31msession",
        "crashes (connect): KeyError: 'a bug'",
        "",
        "most likely: The server restarted, or ended the session.",
        "most likely: A transport has a bug; the log has its traceback.",
        "try: Try again: the next dial makes a new session.",
        "try: Report it to whoever made the transport, with the traceback, and leave it",
        "  out until then.",
    ]
    error = done.stderr.decode()
    assert error.splitlines()[-1] == "racer: every attempt to reach example.com:443 failed"
    assert "transport 'crashes' crashed" in error


def test_json_is_the_report_on_success_and_on_failure(place: Path, server: Server) -> None:
    done = run("example.com", "--port", str(server.port), configuration(place, "loops"), "--json")
    assert done.returncode == 0
    report = RaceReport.from_json(done.stdout)
    assert report.winner == "loops"
    assert report.tls is False
    assert report["loops"].peer == f"127.0.0.1:{server.port}"

    done = run("example.com", configuration(place, "fails"), "--json")
    assert done.returncode == 1
    report = RaceReport.from_json(done.stdout)
    assert (report.outcome, report.tls) == (Outcome.CONNECT_FAILED, True)
    assert report["fails"].error_type == "session_lost"
    assert done.stderr.decode() == "racer: every attempt to reach example.com:443 failed\n"

    done = run("example.com", configuration(place, "hangs"), "--json", "--timeout=0.05")
    assert done.returncode == 3
    report = RaceReport.from_json(done.stdout)
    assert report.timeout == 0.05
    assert report["hangs"].outcome is Outcome.TIMED_OUT


def test_tls_is_part_of_the_race_when_asked_for(place: Path, server: Server) -> None:
    # The server closes at the first bytes of the handshake: usable without TLS, not with it.
    host, setup = f"localhost:{server.port}", configuration(place, "loops")
    assert run(host, setup, "--no-tls").returncode == 0
    done = run(host, setup, "--tls", "--json")
    assert done.returncode == 1
    assert RaceReport.from_json(done.stdout)["loops"].stage == "tls"


@pytest.mark.parametrize(
    "encoding", [{"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}, {}], ids=str
)
def test_output_that_cannot_be_encoded_becomes_ascii(place: Path, encoding: dict[str, str]) -> None:
    locale = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    done = run_alone("example.com", configuration(place, "fails"), **locale, **encoding)
    assert done.returncode == 1
    assert done.stdout.isascii()
    assert done.stderr.isascii()
    assert re.search(rb"-x +session_lost at", done.stdout)


def test_plain_is_ascii_on_any_output(place: Path) -> None:
    done = run("example.com", configuration(place, "fails"), "--plain")
    assert done.stdout.isascii()
    assert re.search(rb"-x +session_lost at", done.stdout)


def test_who_stops_reading_is_not_told_off(place: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*PROGRAM, "example.com", configuration(place, "fails")],
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=50,
        check=False,
    )
    os.close(writer)
    assert done.returncode == 1
    assert done.stderr.decode() == "racer: every attempt to reach example.com:443 failed\n"


# --- a terminal -----------------------------------------------------------------------------


def on_terminal(argv: Sequence[str], **env: str) -> str:
    """Return what a terminal of 100 columns is shown."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, *argv],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"COLUMNS": "100"} | env,
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # how a terminal on Linux says that its other side is gone
        pass
    os.close(ours)
    process.wait(timeout=50)
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("options", "env", "coloured", "mark"),
    [
        ([], {}, True, "✗"),
        ([], {"NO_COLOR": "1"}, False, "✗"),
        ([], {"NO_COLOR": ""}, True, "✗"),
        ([], {"TERM": "dumb"}, False, "✗"),
        (["--plain"], {}, False, "x"),
    ],
    ids=str,
)
def test_a_terminal_gets_colour_unless_it_is_unwanted(
    place: Path, options: list[str], env: dict[str, str], coloured: bool, mark: str
) -> None:
    shown = on_terminal(["example.com", configuration(place, "fails"), *options], **env)
    assert ("\x1b[31m" in shown) is coloured
    assert re.search(f"{mark} +session_lost at", shown)
    widths = [len(re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", line)) for line in shown.splitlines()]
    assert 80 < max(widths) <= 100


# --- how it ends ----------------------------------------------------------------------------


def test_an_interrupt_shows_how_far_it_came(place: Path) -> None:
    process = subprocess.Popen(
        [*PROGRAM, "example.com", configuration(place, "hangs")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == b"hanging\n"
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=50)
    assert process.returncode == 130
    assert "\n\nexample.com:443 cancelled after " in out.decode()
    assert "cancelled (handshake)" in out.decode()
    assert error.decode() == "racer: interrupted\n"


@pytest.mark.parametrize(
    ("argv", "code", "error"),
    [
        (["example.com", "{fails}"], 1, "every attempt to reach example.com:443 failed"),
        (["example.com", "{hangs}", "--timeout=0.05"], 3, "was not reached within 50 ms"),
        (["example.com", "{shy}"], 4, "no transport serves example.com:443: shy: serves nobody"),
        (["example.com", "{fails}", "--exclude=fails"], 2, "leave none of 'fails'"),
        (["example.com", "{fails}", "--only=nobody"], 2, "nobody"),
        (["example.com", "{fails}", "--only"], 2, "requires an argument (see racer dial --help)"),
        (["example.com", "{fails}", "--timeout=nan"], 2, "--timeout must be a finite, positive"),
        (["example.com", "{fails}", "--timeout=-1"], 2, "--timeout must be a finite, positive"),
        (
            ["example.com", "{fails}", "--timeout=soon"],
            2,
            "'soon' is not a valid number of seconds",
        ),
        (["example.com", "{fails}", "--port=0"], 2, "port 0 is not in 1 to 65535"),
        (["example.com", "{fails}", "--port=65536"], 2, "port 65536 is not in 1 to 65535"),
        (["example.com", "{fails}", "--port=x"], 2, "'x' is not a port from 1 to 65535"),
        (["example.com", "{fails}", "--port=\u0664"], 2, "is not a port from 1 to 65535"),
        (["example.com", "{fails}", "--port=" + "9" * 9999], 2, "is not a port from 1 to 65535"),
        (["example.com:80", "{fails}", "--port=81"], 2, "has port 80 in it, and port=81"),
        (["my_host", "{fails}"], 2, "'_' cannot be in a host name"),
        (["https://example.com/x", "{fails}"], 2, "is a URL; dial takes a host"),
        (["a\x1b[31m\nb", "{fails}"], 2, "cannot be in a host name"),
        (["", "{fails}"], 2, "the host is empty"),
        ([], 2, "Missing argument 'HOST' (see racer dial --help)"),
        (["example.com", "more", "{fails}"], 2, "unexpected extra argument (more)"),
        (["example.com", "--bogus"], 2, "--bogus"),
        (["example.com", "--js"], 2, "--js"),
        (["example.com", "--config=missing.toml"], 2, "missing.toml: cannot be read"),
        (["example.com", "{nosuch}"], 2, "nosuch"),
        (["example.com", "--config={broken}"], 2, "broken.toml:1: not TOML"),
    ],
    ids=lambda value: " ".join(value)[:50] if isinstance(value, list) else "",
)
def test_each_end_has_its_code_and_one_line(
    place: Path, capsys: pytest.CaptureFixture[str], argv: list[str], code: int, error: str
) -> None:
    (place / "broken.toml").write_text("[[entrant")
    filled = [
        configuration(place, part[1:-1])
        if part.startswith("{")
        else part.replace("{broken}", str(place / "broken.toml"))
        for part in argv
    ]
    ended = main(["dial", *filled])
    out, errors = capsys.readouterr()
    assert ended == code
    assert error in errors
    told = [line for line in errors.splitlines() if line != "hanging"]
    assert len(told) == 1
    assert told[0].startswith("racer: ")
    assert told[0].isprintable()
    assert (out == "") is (code == 2)


def test_nothing_installed_is_not_the_users_fault(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("racer._registry.entry_points", lambda group: ())
    assert main(["dial", "example.com"]) == 4
    assert "no transport is installed" in capsys.readouterr().err


def test_names_of_entrants_choose_who_races(place: Path, server: Server) -> None:
    setup = configuration(place, "fails", "loops", "crashes")
    done = run(
        f"localhost:{server.port}", setup, "--only=loops", "--only=crashes", "--exclude=crashes"
    )
    assert done.returncode == 0
    rows = waterfall(done)[4:7]
    assert rows[0].startswith("▶ loops")
    assert rows[1:] == [
        "  fails   ineligible: left out by the caller",
        "  crashes ineligible: left out by the caller",
    ]


def test_the_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dial", "--help"]) == 0
    text = capsys.readouterr().out
    options = [
        *("--port", "--tls / --no-tls", "--timeout", "--only", "--exclude"),
        *("--html", "--save", "--config", "--no-memory", "--json", "--plain"),
    ]
    assert re.findall(r"^  (?:-h, )?(--[a-z-]+(?: / --no-tls)?)", text, re.MULTILINE) == [
        *options,
        "--help",
    ]
    assert all(len(line) <= 80 for line in text.splitlines())


def test_a_race_can_be_kept_as_a_report_and_as_a_page(place: Path) -> None:
    files = ["--save=race.json", "--html=race.html"]
    with contextlib.chdir(place):
        assert run("example.com", configuration(place, "fails"), *files).returncode == 1
    report = RaceReport.from_json((place / "race.json").read_text())
    assert report["fails"].error_type == "session_lost"
    page = (place / "race.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "example.com:443 not connected" in page


def test_a_file_that_cannot_be_written_is_said_before_the_race(place: Path) -> None:
    for option in ("--save", "--html"):
        for file in (place, place / "none" / "race"):
            done = run("example.com", configuration(place, "fails"), f"{option}={file}")
            assert (done.returncode, done.stdout) == (5, b"")
            assert done.stderr.startswith(f"racer: {file}: ".encode())
    done = run("example.com", configuration(place, "fails"), "--save=/dev/full", "--json")
    assert (done.returncode, done.stderr) == (5, b"racer: No space left on device\n")


def test_json_can_be_read_by_other_programs(place: Path) -> None:
    done = run("example.com", configuration(place, "fails"), "--json")
    assert done.stdout.isascii()
    assert json.loads(done.stdout)["attempts"][0]["error"] == {
        "type": "SessionLost",
        "text": r"server lost the \x1b[31msession",
    }
