"""Sockets for datagrams: bound, read in batches, and answered from where they were asked (S25)."""

from __future__ import annotations

import errno
import socket
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from transports.soar import _listeners
from transports.soar._listeners import DatagramListener, bind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from transports.soar.core.server.source import Source


class Echo:
    """Answers each message with itself, and remembers how they came."""

    def __init__(self) -> None:
        self.listener: DatagramListener | None = None
        self.batches: list[Sequence[tuple[bytes, Source]]] = []

    def receive(self, messages: Sequence[tuple[bytes, Source]]) -> None:
        self.batches.append(messages)
        assert self.listener is not None
        for message, source in messages:
            self.listener.send(message, source)


@contextmanager
def bound(host: str, port: int = 0) -> Iterator[tuple[socket.socket, socket.socket]]:
    datagrams, listener = bind(host, port)
    with datagrams, listener:
        yield datagrams, listener


@asynccontextmanager
async def echo(sock: Any) -> AsyncIterator[Echo]:
    taker = Echo()
    taker.listener = DatagramListener(sock, taker)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(taker.listener.run)
        yield taker
        tasks.cancel_scope.cancel()


def client(host: str, port: int) -> socket.socket:
    """Return a socket that takes nothing but what comes from there."""
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    sock.setblocking(False)
    sock.connect((host, port))
    return sock


async def ask(sock: socket.socket, message: bytes) -> bytes:
    sock.send(message)
    with anyio.fail_after(20):
        await anyio.wait_readable(sock)
    return sock.recv(4096)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0", "::"])
def test_both_sockets_have_one_port(host: str) -> None:
    with bound(host) as (datagrams, listener):
        assert datagrams.getsockname()[:2] == listener.getsockname()[:2]
        assert datagrams.getsockname()[1] > 0
        assert not datagrams.getblocking()
        assert not listener.getblocking()


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
def test_a_port_that_is_taken_is_said_and_nothing_stays_open(kind: socket.SocketKind) -> None:
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{port}: ") as caught:
            bind("127.0.0.1", port)
        assert caught.value.errno == errno.EADDRINUSE


def test_port_0_takes_another_where_one_of_the_two_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, failures = _listeners._bound, [1, 2, 3]
    made: list[socket.socket] = []

    def bound_(kind: socket.SocketKind, host: str, port: int) -> socket.socket:
        if kind == socket.SOCK_STREAM and failures:
            failures.pop()
            raise OSError(errno.EADDRINUSE, "Address already in use")
        made.append(real(kind, host, port))
        return made[-1]

    monkeypatch.setattr(_listeners, "_bound", bound_)
    with bound("127.0.0.1"):
        assert [sock.fileno() < 0 for sock in made] == [True, True, True, False, False]


def test_a_port_may_be_taken_again_at_once() -> None:
    with bound("127.0.0.1") as (_, listener):
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as one, listener.accept()[0] as other:
            other.close()
            one.close()
    with bound("127.0.0.1", port):
        pass


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_datagrams_are_answered(host: str) -> None:
    with bound(host) as (datagrams, _), client(host, datagrams.getsockname()[1]) as sock:
        async with echo(datagrams) as taker:
            assert await ask(sock, b"ping") == b"ping"
            ((_, source),) = taker.batches[0]
            assert source.address == socket.inet_pton(sock.family, host)
            assert source.port == sock.getsockname()[1]
            assert not source.tcp


@pytest.mark.parametrize(("host", "asked"), [("0.0.0.0", "127.0.0.7"), ("::", "::1")])
async def test_an_answer_leaves_from_the_address_that_was_asked(host: str, asked: str) -> None:
    """A resolver would take it from no other, and a machine may have many."""
    with bound(host) as (datagrams, _), client(asked, datagrams.getsockname()[1]) as sock:
        async with echo(datagrams):
            assert await ask(sock, b"ping") == b"ping"


async def test_what_waits_is_read_in_batches() -> None:
    with bound("127.0.0.1") as (datagrams, _), client(*datagrams.getsockname()) as sock:
        for number in range(150):
            sock.send(b"%d" % number)
        async with echo(datagrams) as taker:
            while sum(map(len, taker.batches)) < 150:
                await anyio.lowlevel.checkpoint()
            assert [len(batch) for batch in taker.batches] == [64, 64, 22]


class Faulty:
    """A socket whose calls fail as scripted."""

    def __init__(self, sock: socket.socket, *, reads: int = 0, writes: int = 0) -> None:
        self._sock = sock
        self.reads = reads
        self.writes = writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def recvfrom(self, size: int) -> Any:
        if self.reads:
            self.reads -= 1
            raise OSError(errno.ECONNREFUSED, "an ICMP error of an earlier answer")
        return self._sock.recvfrom(size)

    def sendto(self, message: bytes, peer: Any) -> int:
        if self.writes:
            self.writes -= 1
            raise OSError(errno.EPERM, "a firewall's")
        return self._sock.sendto(message, peer)


async def test_errors_of_the_system_lose_an_answer_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_listeners, "_PAUSE", 0.001)
    with bound("127.0.0.1") as (datagrams, _), client(*datagrams.getsockname()) as sock:
        async with echo(Faulty(datagrams, reads=3, writes=1)) as taker:
            sock.send(b"lost")
            while not taker.batches:
                await anyio.lowlevel.checkpoint()
            assert await ask(sock, b"ping") == b"ping"
            assert taker.listener is not None
            assert taker.listener.dropped == 1
