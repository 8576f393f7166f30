"""`racer proxy` as a program: what it says, what signals do, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from racer.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
PATIENCE = 40.0
CONFIG = """
[[entrant]]
transport = "direct"
"""


class Echo:
    """Says back what it hears, one thread for each connection."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            sock, _ = self._listener.accept()
            if self._over:
                sock.close()
                return
            self._threads.append(threading.Thread(target=self._serve, args=(sock,)))
            self._threads[-1].start()

    def _serve(self, sock: socket.socket) -> None:
        with sock:
            try:
                while data := sock.recv(65536):
                    sock.sendall(data)
            except OSError:
                pass

    _over = False

    def stop(self) -> None:
        self._over = True
        socket.create_connection(("127.0.0.1", self.port)).close()
        for thread in self._threads:
            thread.join()
        self._listener.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.stop()


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration of `direct` alone, and nobody's settings."""
    monkeypatch.delenv("RACER_CONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "racer.toml"
    file.write_text(CONFIG, encoding="utf-8")
    return file


class Program:
    """`racer proxy`, running."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self._out = process.stdout
        self.port = 0
        self.listening: dict[str, Any] = {}

    def event(self) -> dict[str, Any]:
        line = self._out.readline()
        assert line, f"it ended: {self.end()}"
        told: dict[str, Any] = json.loads(line)
        return told

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err

    def tunnel(self, port: int) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        sock.sendall(b"\x05\x01\x00")
        assert sock.recv(2, socket.MSG_WAITALL) == b"\x05\x00"
        sock.sendall(b"\x05\x01\x00\x01\x7f\x00\x00\x01" + port.to_bytes(2, "big"))
        assert sock.recv(10, socket.MSG_WAITALL)[1] == 0
        return sock


@contextmanager
def running(*arguments: str, json_: bool = True) -> Iterator[Program]:
    command = [sys.executable, "-m", "racer", "proxy", "--listen", "127.0.0.1:0", *arguments]
    with subprocess.Popen(
        [*command, "--json"] if json_ else command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "ALICE": "s3cret"},
    ) as process:
        try:
            program = Program(process)
            if json_:
                program.listening = told = program.event()
                assert told["event"] == "listening"
                program.port = told["port"]
            yield program
        finally:
            process.kill()


def ping(sock: socket.socket) -> None:
    sock.sendall(b"ping")
    assert sock.recv(4, socket.MSG_WAITALL) == b"ping"


def test_it_serves_reloads_and_stops_when_its_last_stream_has_ended(
    config: Path, echo: Echo
) -> None:
    with running("--config", str(config)) as program, program.tunnel(echo.port) as sock:
        ping(sock)
        with socket.create_connection(("127.0.0.1", program.port)) as wrong:
            wrong.sendall(b"hello\n")
            assert wrong.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 400"
        failure = program.event()
        assert (failure["event"], failure["target"]) == ("failure", None)

        config.write_text(f"{CONFIG}\n[proxy.users]\nalice = '${{ALICE}}'\n", encoding="utf-8")
        program.signal(signal.SIGHUP)
        assert program.event() == {"event": "reload", "words": "reloaded"}
        ping(sock)
        with socket.create_connection(("127.0.0.1", program.port)) as stranger:
            stranger.sendall(b"\x05\x01\x00")
            assert stranger.recv(2, socket.MSG_WAITALL) == b"\x05\xff"
        assert program.event()["event"] == "failure"

        config.write_text("[[entrant]]\ntransport = 'direkt'\n", encoding="utf-8")
        program.signal(signal.SIGHUP)
        words = program.event()["words"]
        assert words.startswith("not reloaded: ")
        assert "direkt" in words
        ping(sock)

        program.signal(signal.SIGTERM)
        assert program.event() == {"event": "stopping", "clients": 1, "grace": 30.0}
        ping(sock)
        with pytest.raises(OSError):
            while True:  # until it has let go of its port
                socket.create_connection(("127.0.0.1", program.port)).close()
        ping(sock)
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b""
        assert program.event() == {"event": "stopped", "cut": 0}
        assert program.end() == (0, "", "")


def test_who_was_chosen_is_chosen_after_a_reload_too(config: Path, echo: Echo) -> None:
    def listing(*names: str) -> str:
        return "".join(f'[[entrant]]\ntransport = "direct"\nname = "{name}"\n' for name in names)

    config.write_text(listing("a", "b", "c"), encoding="utf-8")
    with running(
        "--config", str(config), "--only=a", "--only=b", "--exclude=b", "--admin"
    ) as program:
        assert program.listening["entrants"] == ["a"]

        def races() -> set[str]:
            """Return who has raced so far, as the metrics name them."""
            with program.tunnel(echo.port) as sock:
                ping(sock)
            with socket.create_connection(("127.0.0.1", program.port), timeout=PATIENCE) as sock:
                sock.sendall(
                    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                )
                text = b"".join(iter(lambda: sock.recv(65536), b"")).decode()
            return set(re.findall(r'racer_proxy_attempts_total{transport="(\w)"', text))

        assert races() == {"a"}
        config.write_text(listing("d", "b", "a"), encoding="utf-8")
        program.signal(signal.SIGHUP)
        assert program.event() == {"event": "reload", "words": "reloaded"}
        assert races() == {"a"}

        for names, words in (
            ("cb", "not reloaded: no entrant is called 'a'; there are 'c', 'b'"),
            ("ac", "not reloaded: no entrant is called 'b'; there are 'a', 'c'"),
        ):
            config.write_text(listing(*names), encoding="utf-8")
            program.signal(signal.SIGHUP)
            assert program.event() == {"event": "reload", "words": words}
            assert races() == {"a"}
        program.signal(signal.SIGTERM)
        assert program.event()["event"] == "stopping"


def test_a_second_signal_ends_it_at_once(config: Path, echo: Echo) -> None:
    with running("--config", str(config)) as program, program.tunnel(echo.port) as sock:
        ping(sock)
        program.signal(signal.SIGINT)
        assert program.event()["event"] == "stopping"
        ping(sock)
        program.signal(signal.SIGINT)
        with pytest.raises(ConnectionResetError):
            sock.recv(1)
        code, _, err = program.end()
        assert (code, err) == (130, "")


def test_a_person_is_told_how_to_use_it_and_why_a_client_got_nothing(config: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dark = listener.getsockname()[1]
    with running(
        "--config", str(config), "--user", "alice:${ALICE}", "--admin", json_=False
    ) as program:
        assert program.process.stdout is not None
        lines = [program.process.stdout.readline() for _ in range(9)]
        text = "".join(lines)
        assert "racer proxy listens on 127.0.0.1:" in text
        assert "curl -x socks5h://NAME:PASSWORD@127.0.0.1:" in text
        assert "/readyz" in text
        assert lines[-1] == "Ctrl-C stops it.\n"
        assert "s3cret" not in text
        port = int(text.partition("listens on 127.0.0.1:")[2].partition(":")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as sock:
            sock.sendall(
                f"CONNECT 127.0.0.1:{dark} HTTP/1.1\r\nHost: x\r\n"
                "Proxy-Authorization: Basic YWxpY2U6czNjcmV0\r\n\r\n".encode()
            )
            assert sock.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 502"
        assert program.process.stderr is not None
        line = program.process.stderr.readline()
        assert line.startswith(f"racer: could not connect to 127.0.0.1:{dark}: direct: ")
        program.signal(signal.SIGTERM)
        assert program.end() == (0, "", "")


def full_pipe() -> tuple[int, int]:
    """Return both ends of a pipe that takes no more."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(write_end, b"x" * 4096)
    os.set_blocking(write_end, True)
    return read_end, write_end


@pytest.mark.soak
@pytest.mark.parametrize("is_read", [False, True], ids=["unread", "closed"])
def test_an_output_that_nobody_reads_holds_up_nothing(
    config: Path, echo: Echo, is_read: bool
) -> None:
    read_end, write_end = full_pipe()
    if is_read:
        os.close(read_end)
    command = [sys.executable, "-m", "racer", "proxy", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        [*command, "--config", str(config)],
        stdout=subprocess.PIPE,
        stderr=write_end,
        text=True,
        cwd=ROOT,
    ) as process:
        try:
            program = Program(process)
            assert process.stdout is not None
            program.port = int(process.stdout.readline().split(":")[1])
            process.stdout.close()
            for _ in range(100):
                with socket.create_connection(("127.0.0.1", program.port)) as wrong:
                    wrong.sendall(b"hello\n")
                    assert wrong.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 400"
            with program.tunnel(echo.port) as sock:
                ping(sock)
                program.signal(signal.SIGHUP)
                program.signal(signal.SIGTERM)
                ping(sock)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            os.close(write_end)
            if not is_read:
                os.close(read_end)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--listen", "0.0.0.0:0"], 2, "others than this machine"),
        (["--listen", "nowhere"], 2, "--listen must be an address and a port"),
        (["--user", "alice"], 2, "NAME:PASSWORD"),
        (["--user", "alice:${NOT_SET_ANYWHERE}"], 2, "NOT_SET_ANYWHERE is not set"),
        (["--user", "alice:s3cret", "--user", "alice:s3cret"], 2, "named twice"),
        (["--user", f"alice:{'s3cret' * 50}"], 2, "255 octets"),
        (["--grace", "-1"], 2, "--grace must be"),
        (["--max-connections", "0"], 2, "max-connections"),
        (["--only", "direkt"], 2, "no entrant is called 'direkt'; did you mean 'direct'?"),
        (["--exclude", "direct"], 2, "only and exclude leave none of 'direct'"),
    ],
)
def test_wrong_use_is_told_in_a_line_and_without_passwords(
    config: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    assert main(["proxy", "--config", str(config), *arguments]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("racer: ")
    assert err.count("\n") == 1
    assert words in err
    assert "s3cret" not in err


def test_a_port_that_is_taken_is_this_machines_refusal(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["proxy", "--config", str(config), "--listen", place]) == 5
    assert "another program listens there already" in capsys.readouterr().err
