"""`racer doctor`: what a person reads, what a program reads, and the exit codes."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

from racer import lab
from racer.cli import main
from racer.cli._doctor import render
from racer.cli._screen import Screen
from racer.doctor import Diagnosis, Finding, Verdict, _configuration

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOSTS = {"example.com": ["192.0.2.7"]}


@pytest.fixture
def resolver() -> Iterator[str]:
    """A resolver on loopback, which runs in a thread of its own; its URL."""
    server = lab.NameServer(lab.Zone(HOSTS))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(server):
        yield server.url


@pytest.fixture
def port() -> Iterator[int]:
    """A port of loopback on which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's own resolvers are out of bounds, and no collector is named."""
    monkeypatch.setattr(_configuration, "system_resolvers", list)
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"):
        monkeypatch.delenv(name, raising=False)


def configured(folder: Path, resolver: str) -> str:
    path = folder / "racer.toml"
    path.write_text(
        f'[[entrant]]\ntransport = "direct"\n[entrant.options]\nresolver = "{resolver}"\n'
    )
    return str(path)


def doctor(*arguments: str) -> int:
    return main(["doctor", "--times", "1", *arguments])


def test_all_is_well(
    resolver: str, port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = configured(tmp_path, resolver)
    assert doctor(f"127.0.0.1:{port}", "--config", path, "--plain") == 0
    out = capsys.readouterr().out
    assert "ok   direct connected once of 1, in " in out
    assert f"ok   {resolver} answers in " in out
    assert out.endswith(f"\n\nVerdict: all is well; 127.0.0.1:{port} is reached.\n")
    assert out.isascii()


def test_something_is_wrong(
    resolver: str, port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    free = socket.create_server(("127.0.0.1", 0))
    refused = free.getsockname()[1]
    free.close()
    path = configured(tmp_path, resolver)
    assert doctor(f"127.0.0.1:{refused}", "--config", path, "--plain") == 1
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("FAIL direct did not connect, tried once. The connection was refused (")
    assert "     - Check the port." in rest
    assert rest[-1] == f"Verdict: 127.0.0.1:{refused} is not reached; wrong: transport direct."


def test_a_configuration_that_cannot_be_is_the_first_thing_to_hear_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "racer.toml"
    path.write_text("timout = 5\n")
    assert doctor("127.0.0.1:9", "--config", str(path), "--plain") == 2
    out = capsys.readouterr().out
    assert out.split()[:5] == ["FAIL", "The", "configuration", "cannot", "be"]
    assert "did you mean 'timeout'?" in " ".join(out.split())
    assert out.endswith("\nVerdict: wrong: configuration.\n")


def test_a_host_that_cannot_be_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor("https://example.com/") == 2
    assert capsys.readouterr().err.startswith("racer: ")


@pytest.mark.parametrize("times", ["0", "21"])
def test_times_that_cannot_be(times: str, tmp_path: Path, resolver: str) -> None:
    path = configured(tmp_path, resolver)
    assert main(["doctor", "127.0.0.1:9", "--config", path, "--times", times]) == 2


def test_json_for_a_bug_report_has_no_hosts_in_it(
    resolver: str, port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = configured(tmp_path, resolver)
    assert doctor(f"127.0.0.1:{port}", "--config", path, "--json") == 0
    text = capsys.readouterr().out
    data: dict[str, Any] = json.loads(text)
    assert data["verdict"] == "ok"
    assert data["target"].startswith("addr-")
    for secret in ("127.0.0.1", "192.0.2.7", "example.com"):
        assert secret not in text


def test_json_with_everything_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "racer.toml"
    path.write_text("timout = 5\n")
    assert doctor("127.0.0.1:9", "--config", str(path), "--json", "--full") == 2
    assert json.loads(capsys.readouterr().out)["target"] == "127.0.0.1:9"


def test_it_is_interrupted_in_order(
    resolver: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def interrupts(*_: object, **__: object) -> Diagnosis:
        await anyio.lowlevel.checkpoint()
        raise KeyboardInterrupt

    monkeypatch.setattr("racer.doctor.examine", interrupts)
    assert doctor("127.0.0.1:9", "--config", configured(tmp_path, resolver)) == 130
    assert capsys.readouterr().err == "racer: interrupted\n"


# --- for a person ---------------------------------------------------------------------------------

FOUND = Diagnosis(
    target="news.example:443",
    findings=(
        Finding(check="clock", verdict=Verdict.OK, words="The clock is right."),
        Finding(
            check="transport direct",
            verdict=Verdict.FAIL,
            words="direct did not connect, tried once. " + "Nothing answered. " * 4,
            advice=("Add a way. " + "Really do. " * 7,),
        ),
        Finding(check="export", verdict=Verdict.SKIPPED, words="None is \x1b[2Jasked for."),
        Finding(check="resolver x", verdict=Verdict.WARN, words="It is odd."),
    ),
    seconds=1.0,
)


def screen(capsys: pytest.CaptureFixture[str], *, fancy: bool) -> Screen:
    import sys

    return Screen(out=sys.stdout, is_terminal=False, redraws=False, colour=fancy, unicode=fancy)


def test_what_matters_most_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert render(FOUND, screen(capsys, fancy=False)) == [
        "FAIL direct did not connect, tried once. Nothing answered. Nothing answered.",
        "     Nothing answered. Nothing answered.",
        "     - Add a way. Really do. Really do. Really do. Really do. Really do. Really",
        "       do. Really do.",
        "WARN It is odd.",
        "ok   The clock is right.",
        "skip None is \\x1b[2Jasked for.",
        "",
        "Verdict: news.example:443 is not reached; wrong: transport direct.",
    ]


def test_a_terminal_gets_marks_and_colours(capsys: pytest.CaptureFixture[str]) -> None:
    lines = render(FOUND, screen(capsys, fancy=True))
    assert lines[0].startswith("\x1b[31m✗\x1b[0m direct did not connect")
    assert "\x1b[32m✓\x1b[0m The clock is right." in lines
    assert lines[-1].startswith("\x1b[1mVerdict: ")
