"""`python -m transports.soar` from outside: what it prints, says and returns (S25)."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from transports.soar.__main__ import main
from transports.soar.core.crypto.keys import ServerKey
from transports.soar.program.grants_file import read_grants

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_config(here: Path, text: str = "") -> None:
    (here / "key").write_text(ServerKey.generate(os.urandom).to_text(), encoding="ascii")
    (here / "soar.toml").write_text(
        f'domain = "t.example.com"\nkey = "key"\nhost = "127.0.0.1"\nport = 0\n{text}',
        encoding="utf-8",
    )


def test_a_key_is_made_once_for_its_owner_alone(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keygen", "key"]) == 0
    out = capsys.readouterr().out
    text = (here / "key").read_text(encoding="ascii")
    assert out == ServerKey.parse(text.strip()).public.to_text() + "\n"
    assert stat.S_IMODE((here / "key").stat().st_mode) == 0o600
    assert main(["keygen", "key"]) == 2
    assert capsys.readouterr().err == "keygen: key exists; a key is never overwritten\n"
    assert (here / "key").read_text(encoding="ascii") == text


def test_a_grant_is_made_listed_and_revoked(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = ["grant", "grants", "--name", "alice", "--days", "30", "--allow", "example.com:443"]
    assert main(made) == 0
    said = capsys.readouterr()
    (entry,) = read_grants(here / "grants")
    assert said.out == entry.grant.to_text() + "\n"
    assert said.err == f"grant {entry.id} is in grants; a running server takes it on SIGHUP\n"
    assert main(["grants", "grants"]) == 0
    assert capsys.readouterr().out == f"{entry.id}  30.0 days left   alice  example.com:443\n"
    assert main(["revoke", "grants", entry.id[:4]]) == 0
    capsys.readouterr()
    assert main(["grants", "grants"]) == 0
    assert capsys.readouterr().out == f"{entry.id}  revoked          alice  example.com:443\n"


SERVE = ["serve", "--config", "soar.toml"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["keygen", "missing/key"], "missing/key: No such file or directory"),
        (["grant", "g", "--days", "0"], "--days is 0.0; it must be above 0, and at most 36500"),
        (["grant", "g", "--days", "nan"], "--days is nan; it must be above 0, and at most 36500"),
        (["grant", "g", "--allow", "x"], "the target 'x' is not of the form host:port, with * for"),
        (["revoke", "g", "00"], "g: No such file or directory"),
        (["grants", "g"], "g: No such file or directory"),
        (["serve"], "domain: no zone is named"),
        (["serve", "--domain", "t.example"], "key: no file is named; make one with: keygen FILE"),
        (["serve", "--config", "none.toml"], "none.toml: No such file or directory"),
        ([*SERVE, "--domain", "a..b"], "the name 'a..b' has the label '': labels are 1 to 63"),
        ([*SERVE, "--key", "soar.toml"], "soar.toml: no secret key of a Soar server"),
        ([*SERVE, "--key", "none"], "none: No such file or directory"),
        ([*SERVE, "--host", "here"], "host: 'here' is no IP address"),
        ([*SERVE, "--port", "70000"], "port is 70000; it must be from 0, for any that is free,"),
        ([*SERVE, "--allow", "a b"], "allow[0]: 'a b' is no host, *.domain, IP address or network"),
        ([*SERVE, "--idle-timeout", "0"], "idle_timeout is 0.0 s; it must be from 0.1 to 600"),
        ([*SERVE, "--grants", "soar.toml"], "soar.toml: unknown key 'domain'"),
        ([*SERVE, "--status", "missing/status"], "missing/status: No such file or directory"),
        (["status", "status"], "status: no server answers there: No such file or directory"),
    ],
)
def test_what_can_not_begin_is_said_in_one_sentence(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    write_config(here)
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"{arguments[0]}: {words}")
    assert said.err.count("\n") == 1


def test_a_port_that_is_taken_is_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_config(here)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main([*SERVE, "--port", str(port)]) == 2
    assert capsys.readouterr().err == (
        f"serve: cannot listen on 127.0.0.1:{port}: Address already in use\n"
    )


@contextmanager
def child(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the program, until it listens and after."""
    with subprocess.Popen(
        [sys.executable, "-m", "transports.soar", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("listening on 127.0.0.1, port ")
            yield process
        finally:
            process.kill()


def test_a_server_runs_from_start_to_sigterm_and_after_a_kill(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_config(here, 'status = "status"\ngrants = "grants"\n')
    assert main(["grant", "grants"]) == 0
    capsys.readouterr()
    with child(*SERVE) as process:
        process.kill()
        process.wait(20)
    assert (here / "status").is_socket()  # as a kill leaves it
    with child(*SERVE) as process:
        assert main(["status", "status"]) == 0
        assert capsys.readouterr().out.startswith("up ")
        assert main(["status", "status", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["sessions"] == []
        assert main(["revoke", "grants", read_grants(here / "grants")[0].id]) == 0
        process.send_signal(signal.SIGHUP)
        assert process.stderr is not None
        assert process.stderr.readline().endswith("INFO reloaded: 1 grants\n")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert process.stdout is not None
        out, err = process.stdout.read(), process.stderr.read()
    assert err == ""
    assert "t.example.com. 3600 IN NS ns.t.example.com." in out
    assert 'transport = "soar"' in out
    assert not (here / "status").exists()
