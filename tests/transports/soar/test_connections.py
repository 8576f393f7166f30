"""Connections of resolvers, the slow, the greedy and the many among them (S27, RFC 7766)."""

from __future__ import annotations

import errno
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from racer.errors import RemoteProtocolError
from transports.soar import _connections
from transports.soar._connections import IDLE, Questions, StreamListener
from transports.soar._listeners import bind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from transports.soar.core.server.source import Source

QUESTION = b"a question of a resolver"


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(2) + message


class Echo:
    """Answers each message with itself, so many times."""

    def __init__(self, times: int = 1) -> None:
        self.times = times
        self.listener: StreamListener | None = None
        self.sources: list[Source] = []

    def receive(self, messages: Sequence[tuple[bytes, Source]]) -> None:
        assert self.listener is not None
        for message, source in messages:
            self.sources.append(source)
            for _ in range(self.times):
                self.listener.send(message, source)


class Served:
    def __init__(self, taker: Echo, port: int) -> None:
        self.taker = taker
        self.port = port

    @property
    def listener(self) -> StreamListener:
        assert self.taker.listener is not None
        return self.taker.listener

    async def connect(self) -> anyio.abc.SocketStream:
        return await anyio.connect_tcp("127.0.0.1", self.port)

    async def settled(self, count: int) -> None:
        while len(self.listener) != count:
            await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def served(times: int = 1, *, wrap: Any = None) -> AsyncIterator[Served]:
    datagrams, sock = bind("127.0.0.1", 0)
    datagrams.close()
    with sock:
        taker = Echo(times)
        taker.listener = StreamListener(sock if wrap is None else wrap(sock), taker)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(taker.listener.run)
            yield Served(taker, sock.getsockname()[1])
            tasks.cancel_scope.cancel()
        assert len(taker.listener) == taker.listener._backlog == 0


async def closed(stream: anyio.abc.SocketStream) -> None:
    """Return once the other side has closed."""
    with anyio.fail_after(20):
        try:
            while True:
                await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            pass


async def test_questions_are_answered_on_their_connection_wherever_octets_are_cut() -> None:
    async with served() as it, await it.connect() as stream:
        for octet in framed(QUESTION):
            await stream.send(bytes([octet]))
        await stream.send(framed(QUESTION) * 3)
        received = b""
        while len(received) < 4 * len(framed(QUESTION)):
            received += await stream.receive()
        assert received == framed(QUESTION) * 4
        source = it.taker.sources[0]
        assert (source.address, source.tcp) == (bytes([127, 0, 0, 1]), True)


@settings(max_examples=50)
@given(st.lists(st.binary(min_size=12, max_size=60)), st.data())
def test_any_cut_gives_the_same_messages(messages: list[bytes], data: st.DataObject) -> None:
    octets, found, questions = b"".join(map(framed, messages)), [], Questions()
    while octets:
        size = data.draw(st.integers(1, len(octets)))
        found += questions.receive_data(octets[:size])
        octets = octets[size:]
    assert found == messages


@given(st.binary(max_size=300))
def test_garbage_is_messages_or_one_named_error(octets: bytes) -> None:
    questions = Questions()
    try:
        for octet in octets:
            questions.receive_data(bytes([octet]))
    except RemoteProtocolError:
        return
    assert len(questions._received) <= 4096 + 2


@pytest.mark.parametrize("length", [b"\0\0", b"\0\x0b", b"\x10\x01", b"\xff\xff"])
async def test_a_length_that_no_question_has_ends_its_connection_alone(length: bytes) -> None:
    async with served() as it, await it.connect() as other, await it.connect() as stream:
        await stream.send(length)
        await closed(stream)
        await other.send(framed(QUESTION))
        assert await other.receive() == framed(QUESTION)


async def test_an_octet_now_and_then_buys_no_time() -> None:
    async with served() as it, await it.connect() as stream:
        await it.settled(1)
        (connection,) = it.listener._open
        before = connection.scope.deadline
        await stream.send(framed(QUESTION)[:5])
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        assert connection.scope.deadline == before
        await stream.send(framed(QUESTION)[5:])
        await stream.receive()
        assert connection.scope.deadline > before
        assert connection.scope.deadline <= anyio.current_time() + IDLE
        connection.scope.deadline = anyio.current_time()  # its time is over
        await closed(stream)


async def test_where_there_are_too_many_the_one_silent_for_longest_gives_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_connections, "MAX_CONNECTIONS", 3)
    async with served() as it:
        streams = []
        for count in (1, 2, 3):
            streams.append(await it.connect())
            await it.settled(count)
        await streams[0].send(framed(QUESTION))
        assert await streams[0].receive() == framed(QUESTION)
        streams.append(await it.connect())
        await closed(streams[1])
        for stream in (streams[0], streams[2], streams[3]):
            await stream.send(framed(QUESTION))
            assert await stream.receive() == framed(QUESTION)
        for stream in streams:
            await stream.aclose()
        await it.settled(0)


async def test_who_asks_and_does_not_read_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_connections, "MAX_BACKLOG", 64 << 10)
    async with served(times=400) as it, await it.connect() as stream:
        question = framed(bytes(4096))
        with anyio.move_on_after(20) as patience:
            try:
                while True:
                    await stream.send(question)
                    assert it.listener._backlog <= (64 << 10) + 400 * len(question)
            except anyio.BrokenResourceError:
                pass
        assert not patience.cancelled_caught
        await it.settled(0)


async def test_where_many_do_not_read_each_may_leave_only_a_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_connections, "MAX_BACKLOGS", 0)
    async with served(times=100) as it, await it.connect() as stream:
        await stream.send(framed(bytes(4096)))
        await closed(stream)


async def test_an_answer_to_a_connection_that_is_gone_is_dropped() -> None:
    async with served() as it:
        async with await it.connect() as stream:
            await stream.send(framed(QUESTION))
            await stream.receive()
        await it.settled(0)
        it.listener.send(QUESTION, it.taker.sources[0])


class Full:
    """A listening socket of a process that has as many files as it may, for a while."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.refusals = 2

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def accept(self) -> Any:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._sock.accept()


async def test_without_files_left_accepting_pauses_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_connections, "_PAUSE", 0.001)
    async with served(wrap=Full) as it, await it.connect() as stream:
        await stream.send(framed(QUESTION))
        assert await stream.receive() == framed(QUESTION)
    assert caplog.messages == ["no connection can be accepted: Too many open files"] * 2


async def test_a_connection_that_was_given_up_before_it_was_accepted_is_passed_over() -> None:
    class Aborted(Full):
        def accept(self) -> Any:
            if self.refusals:
                self.refusals -= 1
                raise ConnectionAbortedError(errno.ECONNABORTED, "Software caused connection abort")
            return self._sock.accept()

    async with served(wrap=Aborted) as it, await it.connect() as stream:
        await stream.send(framed(QUESTION))
        assert await stream.receive() == framed(QUESTION)


async def test_a_connection_that_is_reset_ends_alone() -> None:
    async with served() as it, await it.connect() as other:
        stream = await it.connect()
        await it.settled(2)
        raw: Any = stream.extra(anyio.abc.SocketAttribute.raw_socket)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await stream.aclose()
        await it.settled(1)
        await other.send(framed(QUESTION))
        assert await other.receive() == framed(QUESTION)
