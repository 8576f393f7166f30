"""The running program: its status socket, its signals, and what a reload does (S25)."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import stat
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.to_thread import run_sync

from racer.errors import ConfigError
from transports.soar import ServerKey
from transports.soar.program import serving
from transports.soar.program.grants_file import add_grant, revoke_grant
from transports.soar.program.serving import ask_status, run, show_status
from transports.soar.program.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from transports.soar import SoarServer


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "key").write_text(ServerKey.generate(os.urandom).to_text(), encoding="ascii")
    return Settings(
        domain=("t.example.com",),
        key=tmp_path / "key",
        host="127.0.0.1",
        port=0,
        status=tmp_path / "status",
    )


class Program:
    """One that runs in this process, and is told by signals."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.began = anyio.Event()
        self.server: SoarServer | None = None

    def load(self) -> Settings:
        return self.settings

    def announce(self, settings: Settings, server: SoarServer) -> None:
        self.server = server
        self.began.set()

    async def tell(self, number: signal.Signals, caplog: pytest.LogCaptureFixture) -> str:
        """Send a signal, and return the next line of the log."""
        caplog.clear()
        os.kill(os.getpid(), number)
        with anyio.fail_after(20):
            while not caplog.messages:  # noqa: ASYNC110 - nobody tells
                await anyio.sleep(0.001)
        return caplog.messages[0]


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Program]:
    program = Program(settings)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, program.load, program.announce)
        await program.began.wait()
        await anyio.sleep(0.001)
        yield program
        os.kill(os.getpid(), signal.SIGTERM)


async def test_the_status_is_told_to_who_may_ask_and_the_socket_goes_with_the_server(
    settings: Settings,
) -> None:
    path = settings.status
    assert path is not None
    async with running(settings):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        table = await ask_status(path)
        assert table["sessions"] == []
        assert show_status(table).splitlines()[0].endswith("0 ended lately")
    assert not path.exists()


async def test_what_a_killed_server_left_is_replaced_and_a_living_ones_socket_is_not(
    settings: Settings,
) -> None:
    path = settings.status
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with running(settings):
        with pytest.raises(ConfigError, match="another server answers there already"):
            await serving._status_socket(path).__aenter__()
        assert path is not None
        await ask_status(path)  # and still does


async def test_what_is_no_socket_is_left_alone(settings: Settings) -> None:
    path = settings.status
    assert path is not None
    path.write_text("letters", encoding="utf-8")
    with pytest.raises(ConfigError, match="there is something that is no socket"):
        await run(lambda: settings, lambda settings, server: None)
    assert path.read_text(encoding="utf-8") == "letters"


async def test_a_reload_does_as_the_files_say_now_or_nothing(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "racer.soar")
    grants = tmp_path / "grants"
    first = await run_sync(add_grant, grants)
    settings = settings.over(grants=grants)
    async with running(settings) as program:
        server = program.server
        assert server is not None
        await run_sync(add_grant, grants)
        program.settings = settings.over(allow=("example.org",), port=5353)
        assert await program.tell(signal.SIGHUP, caplog) == "reloaded: 2 grants"
        await anyio.sleep(0.001)
        assert caplog.messages[1:] == ["only a restart changes: port"]
        policy = server._connector.policy
        assert policy.refuses_name("example.net", 443) == "the name is not allowed"

        grants.write_bytes(grants.read_bytes()[:-20])
        program.settings = settings.over(allow=("example.net",))
        assert (await program.tell(signal.SIGHUP, caplog)).startswith(f"not reloaded: {grants}: ")
        program.settings = settings.over(allow=("*",))
        assert (await program.tell(signal.SIGHUP, caplog)).startswith("not reloaded: ")
        assert server._connector.policy is policy
        book = server._running()._keeper._book
        assert len(book._grants) == 2

        grants.unlink()
        program.settings = settings
        assert "No such file" in await program.tell(signal.SIGHUP, caplog)
        assert book is server._running()._keeper._book
        entry = await run_sync(add_grant, grants)
        await run_sync(revoke_grant, grants, entry.id)
        assert await program.tell(signal.SIGHUP, caplog) == "reloaded: 1 grants"
        book = server._running()._keeper._book
        assert book.get(first.grant.id) is None
        assert book.get(entry.grant.id).is_revoked  # type: ignore[union-attr]


async def test_a_status_that_can_not_be_told_leaves_the_server_be(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(serving, "_PAUSE", 0.001)
    path, failures = settings.status, [1]
    assert path is not None

    real = serving._tell_status

    async def tell(listener: Any, server: Any) -> None:
        serve = listener.serve

        async def fail_once(handler: Any) -> None:
            if failures.pop():
                failures.append(0)
                raise OSError(24, "Too many open files")
            await serve(handler)

        monkeypatch.setattr(listener, "serve", fail_once)
        await real(listener, server)

    monkeypatch.setattr(serving, "_tell_status", tell)
    async with running(settings):
        assert "sessions" in await ask_status(path)
    assert caplog.messages == ["the status could not be told: [Errno 24] Too many open files"]


@pytest.mark.parametrize("said", [b"", b"[]", b"{}", b"\xff", b'{"sessions": []}'])
async def test_what_is_no_status_is_said(tmp_path: Path, said: bytes) -> None:
    path = tmp_path / "other"
    listener = await anyio.create_unix_listener(path)

    async def tell(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            if said:
                await stream.send(said)

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, tell)
        with pytest.raises(ValueError, match="what answers there is no Soar server"):
            await ask_status(path)
        tasks.cancel_scope.cancel()


async def test_where_nobody_answers_is_said(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no server answers there: No such file") as caught:
        await ask_status(tmp_path / "nobody")
    assert str(tmp_path / "nobody") in str(caught.value)


def test_a_status_is_shown_to_people() -> None:
    session = {
        "sid": "0a0b0c0d", "grant_id": None, "age": 61.2, "idle": 0.26, "lease": 3600.0,
        "streams": 2, "parked": 1, "octets": 10, "is_confirmed": True,
    }  # fmt: skip
    table = {
        "uptime": 90.4, "is_shutting_down": True, "sessions": [session], "octets": 10,
        "tombstones": 3, "questions": {"packet": 7, "other": 0}, "handshakes": {"welcome": 1},
        "answers": {"sealed": 7}, "ends": {"closed": 2},
    }  # fmt: skip
    assert show_status(json.loads(json.dumps(table))) == (
        "up 90 s, shutting down; 1 sessions hold 10 octets; 3 ended lately\n"
        "questions: 7 packet\n"
        "handshakes: 1 welcome\n"
        "answers: 7 sealed\n"
        "ends: 2 closed\n"
        "\n"
        "session    grant               age    idle    lease streams\n"
        "0a0b0c0d   -                  61 s   0.3 s   3600 s       2\n"
    )
