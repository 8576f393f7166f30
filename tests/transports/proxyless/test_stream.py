"""A first flight leaves in the segments of its strategy; everything after it is the stream's own."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream, SocketAttribute

from racer.errors import NetworkError
from tests.transports.proxyless.hellos import client_hello
from transports._net.tcp import connect_socket, wrap_socket
from transports.proxyless import _stream
from transports.proxyless._strategies import parse_strategy
from transports.proxyless._stream import Shaped, hop_limit_of, shaped

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable, Mapping

    from transports.proxyless._stages import Flight

HELLO = client_hello("news.example")
AT = HELLO.index(b"news.example")


def flight(text: str) -> Flight:
    begun = parse_strategy(text).begin()
    assert begun is not None
    return begun


class Recorder(ByteStream):
    """A stream that keeps what it is given, and answers when it is told to."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.answers: list[bytes] = []
        self.closed = self.ended = False

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {SocketAttribute.remote_port: lambda: 443}

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        self.sent.append(item)

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        await anyio.lowlevel.checkpoint()
        if not self.answers:
            raise anyio.EndOfStream
        return self.answers.pop(0)[:max_bytes]

    async def send_eof(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.ended = True

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.closed = True


async def test_each_write_of_the_first_flight_is_a_send_of_its_own() -> None:
    inner = Recorder()
    stream = shaped(inner, flight("split:sni"), None)
    await stream.send(HELLO)
    assert inner.sent == [HELLO[: AT + 2], HELLO[AT + 2 : AT + 8], HELLO[AT + 8 :]]
    assert stream.extra(SocketAttribute.remote_port) == 443


async def test_the_flight_ends_with_the_first_answer() -> None:
    inner = Recorder()
    stream = shaped(inner, flight("split:2,9*3"), None)
    await stream.send(b"abcdefg")
    await stream.send(b"hijk")
    inner.answers.append(b"answer")
    assert await stream.receive(3) == b"ans"
    await stream.send(b"lmnopqrstu")
    assert inner.sent == [b"ab", b"cde", b"fg", b"h", b"ijk", b"lmnopqrstu"]


async def test_an_end_without_an_answer_leaves_the_flight_as_it_is() -> None:
    inner = Recorder()
    stream = shaped(inner, flight("split:1"), None)
    with pytest.raises(anyio.EndOfStream):
        await stream.receive()
    await stream.send(b"abc")
    assert inner.sent == [b"a", b"bc"]


@pytest.mark.parametrize("then", ["receive", "send_eof"])
async def test_what_is_held_back_goes_before_anything_else(then: str) -> None:
    inner = Recorder()
    inner.answers.append(b"answer")
    stream = shaped(inner, flight("tlsfrag:1"), None)
    await stream.send(HELLO[:40])
    assert inner.sent == []
    await getattr(stream, then)()
    assert inner.sent == [HELLO[:40]]
    assert inner.ended is (then == "send_eof")


async def test_closing_closes_within() -> None:
    inner = Recorder()
    stream = shaped(inner, flight("tlsfrag:1"), None)
    await stream.send(HELLO[:40])
    await stream.aclose()
    assert (inner.closed, inner.sent) == (True, [])


def test_disorder_needs_a_socket() -> None:
    with pytest.raises(NetworkError, match="the connection made by dial_tcp is none"):
        shaped(Recorder(), flight("disorder:0|split:1"), None)


@pytest.mark.every_loop
async def test_a_plain_tcp_stream_of_a_hooks_will_do_for_disorder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with (
        connected() as (_, other, _),
        await anyio.connect_tcp(*other.getpeername()) as inner,
    ):
        sock = inner.extra(SocketAttribute.raw_socket)
        limit = hop_limit_of(sock.family)
        usual = sock.getsockopt(*limit)
        sends: list[tuple[bytes, int]] = []
        send = inner.send

        async def spy(item: bytes) -> None:
            sends.append((item, sock.getsockopt(*limit)))
            await send(item)

        monkeypatch.setattr(inner, "send", spy)
        stream = shaped(inner, flight("disorder:0|split:2,3"), None)
        await stream.send(b"abcdefgh")
        assert sends == [(b"ab", 1), (b"cde", usual), (b"fgh", usual)]
        assert sock.getsockopt(*limit) == usual > 1


class Spy:
    """A socket that keeps what is sent at once, and the hop limit that it had then."""

    def __init__(self, sock: socket.socket, *, takes: int | None = None) -> None:
        self._sock = sock
        self._takes = takes
        self.sends: list[tuple[bytes, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def send(self, data: bytes) -> int:
        self.sends.append((data, self._sock.getsockopt(*hop_limit_of(self._sock.family))))
        if self._takes == 0:
            raise BlockingIOError
        return self._sock.send(data if self._takes is None else data[: self._takes])


@asynccontextmanager
async def connected(
    host: str = "127.0.0.1", *, takes: int | None = None, text: str = "split:2,3"
) -> AsyncIterator[tuple[Shaped, Spy, ByteStream]]:
    """Yield a shaped stream over a real connection, its socket, and the other end."""
    async with await anyio.create_tcp_listener(local_host=host) as listener:
        far: list[ByteStream] = []
        arrived = anyio.Event()

        async def take(stream: ByteStream) -> None:
            async with stream:
                far.append(stream)
                arrived.set()
                await anyio.sleep_forever()

        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, take)
            sock = await connect_socket(host, listener.extra(SocketAttribute.local_port))
            spy: Any = Spy(sock, takes=takes)
            stream = shaped(await wrap_socket(sock), flight(text), spy)
            await arrived.wait()
            async with stream:
                yield stream, spy, far[0]
            group.cancel_scope.cancel()


async def read(stream: ByteStream, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += await stream.receive()
    return data


@pytest.mark.every_loop
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_on_a_socket_each_segment_is_one_send_and_one_dies_young(host: str) -> None:
    async with connected(host, text="disorder:1|split:2,3") as (stream, spy, far):
        usual = spy.getsockopt(*hop_limit_of(spy.family))
        await stream.send(b"abcdefgh")
        assert spy.sends == [(b"ab", usual), (b"cde", 1), (b"fgh", usual)]
        assert spy.getsockopt(*hop_limit_of(spy.family)) == usual > 1
        assert await read(far, 8) == b"abcdefgh"
        await far.send(b"answer")
        assert await stream.receive() == b"answer"
        await stream.send(b"the rest")
        assert await read(far, 8) == b"the rest"
        assert len(spy.sends) == 3


@pytest.mark.every_loop
@pytest.mark.parametrize("takes", [0, 1])
async def test_what_the_system_does_not_take_goes_by_the_stream(takes: int) -> None:
    async with connected(takes=takes) as (stream, spy, far):
        await stream.send(b"abcdefgh")
        assert await read(far, 8) == b"abcdefgh"
        assert [data for data, _ in spy.sends] == [b"ab"]


async def test_the_next_segment_waits_until_the_last_has_been_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = [3, 2, 0, 0, 0]
    sends: list[int] = []
    monkeypatch.setattr(_stream, "_LOOK_AGAIN", 0.0)
    async with connected() as (stream, spy, _):

        def unsent(_: object) -> int:
            sends.append(len(spy.sends))
            return left.pop(0)

        monkeypatch.setattr(_stream, "_unsent", unsent)
        await stream.send(b"abcdefgh")
    assert sends == [1, 1, 1, 2, 3]


async def test_a_network_that_does_not_move_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_stream, "_LOOK_AGAIN", 0.0)
    monkeypatch.setattr(_stream, "_unsent", lambda _: 1)
    async with connected() as (stream, spy, _):
        await stream.send(b"abcdefgh")
        assert len(spy.sends) == 3


async def test_a_hop_limit_is_restored_when_the_send_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_stream, "_unsent", lambda _: 1)
    monkeypatch.setattr(_stream, "_until_sent", lambda _: anyio.sleep_forever())
    async with connected(text="disorder:0|split:2") as (stream, spy, _):
        usual = spy.getsockopt(*hop_limit_of(spy.family))
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(stream.send, b"abcdef")
                await anyio.wait_all_tasks_blocked()
                assert spy.getsockopt(*hop_limit_of(spy.family)) == 1
                scope.cancel()
        assert spy.getsockopt(*hop_limit_of(spy.family)) == usual


async def test_a_connection_that_is_gone_is_told() -> None:
    async with connected(text="split:1") as (stream, _, far):
        await anyio.aclose_forcefully(far)
        with pytest.raises(anyio.BrokenResourceError):
            for _ in range(1000):
                await stream.send(b"abc")
        await stream.aclose()
        with pytest.raises(anyio.ClosedResourceError):
            await stream.send(b"abc")


async def test_a_closed_socket_is_told() -> None:
    async with connected(text="disorder:5|split:1") as (stream, spy, _):
        await stream._stream.aclose()
        assert spy.fileno() == -1
        with pytest.raises(anyio.ClosedResourceError):
            await stream.send(b"abc")


async def test_the_system_says_what_it_has_not_sent() -> None:
    async with connected() as (_, spy, _):
        assert _stream._unsent(spy) == 0  # type: ignore[arg-type]
        spy.close()
        assert _stream._unsent(spy) == 0  # type: ignore[arg-type]
