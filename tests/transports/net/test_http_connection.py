"""HTTP over one stream of bytes: early answers, hung-up peers, and bodies larger than any window."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import h2.config
import h2.connection
import h2.events
import pytest

from racer.errors import NetworkError
from racer.testing import StreamLedger, stream_pair
from transports._net.http_client import RequestHead
from transports._net.http_connection import HTTPConnection
from transports._net.tcp import connect_socket, wrap_socket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

GET = RequestHead(method="GET", authority="h", target="/")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def upload(length: int | None) -> RequestHead:
    return RequestHead(method="PUT", authority="h", target="/", body_length=length)


async def parts(count: int, size: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield bytes(size)


async def play(
    story: Callable[[HTTPConnection], Awaitable[None]],
    serve: Callable[[Any], Awaitable[None]],
    *,
    http2: bool = False,
    **options: Any,
) -> None:
    """Run both sides over a pair of streams; afterwards both are closed."""
    ledger = StreamLedger()
    near, far = stream_pair(ledger=ledger, **options)
    connection = HTTPConnection(near, http2=http2, peer="the peer")

    async def serve_until_gone() -> None:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await serve(far)

    async with anyio.create_task_group() as group:
        group.start_soon(serve_until_gone)
        try:
            await story(connection)
        finally:
            await connection.aclose()
            await connection.aclose()
            group.cancel_scope.cancel()
            await far.aclose()
    ledger.assert_all_closed()


async def whole(connection: HTTPConnection) -> bytes:
    body = b""
    while chunk := await connection.receive_body():
        body += chunk
    return body


async def test_requests_one_after_the_other() -> None:
    async def serve(far: Any) -> None:
        while True:
            heard = b""
            while not heard.endswith(b"\r\n\r\n"):
                heard += await far.receive()
            await far.send(OK)

    async def story(connection: HTTPConnection) -> None:
        for _ in range(3):
            assert connection.is_idle
            assert (await connection.request(GET, b"")).status == 200
            assert not connection.is_idle
            assert await whole(connection) == b"ok"

    await play(story, serve)


async def test_an_answer_before_the_whole_body_counts() -> None:
    """A server may refuse an upload, and stop listening."""

    async def serve(far: Any) -> None:
        await far.receive()
        await far.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await anyio.sleep_forever()

    async def story(connection: HTTPConnection) -> None:
        answer = await connection.request(upload(100 << 20), parts(100, 1 << 20))
        assert answer.status == 413
        assert await whole(connection) == b""
        assert not connection.is_idle  # half of a request is on it

    await play(story, serve)


async def test_a_peer_that_hangs_up_without_listening_may_have_said_why() -> None:
    async def serve(far: Any) -> None:
        await far.send(b"HTTP/1.1 408 Too Slow\r\nContent-Length: 0\r\n\r\n")
        await far.aclose()

    async def story(connection: HTTPConnection) -> None:
        assert (await connection.request(GET, b"")).status == 408

    await play(story, serve)


@pytest.mark.parametrize("http2", [False, True])
async def test_a_peer_that_says_nothing(http2: bool) -> None:
    async def serve(far: Any) -> None:
        await far.receive()
        await far.aclose()

    async def story(connection: HTTPConnection) -> None:
        with pytest.raises(NetworkError, match="the peer: "):
            await connection.request(GET, b"")
        assert connection.has_sent
        assert not connection.is_idle

    await play(story, serve, http2=http2)


async def test_a_body_that_breaks_off_is_an_error() -> None:
    async def serve(far: Any) -> None:
        await far.receive()
        await far.send(OK.replace(b": 2", b": 9"))
        await far.aclose()

    async def story(connection: HTTPConnection) -> None:
        await connection.request(GET, b"")
        with pytest.raises(NetworkError, match="closed before the response was whole"):
            await whole(connection)

    await play(story, serve)


async def serve_http2(far: Any) -> None:
    """Answer each request with the length of its body, opening windows as it goes."""
    http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    http.initiate_connection()
    got: dict[int, int] = {}
    while True:
        await far.send(http.data_to_send())
        for event in http.receive_data(await far.receive()):
            match event:
                case h2.events.DataReceived(stream_id=stream, data=data):
                    got[stream] = got.get(stream, 0) + len(data or b"")
                    http.acknowledge_received_data(event.flow_controlled_length or 0, stream)
                case h2.events.StreamEnded(stream_id=stream):
                    http.send_headers(stream, [(":status", "200")])
                    http.send_data(stream, str(got.get(stream, 0)).encode(), end_stream=True)
                case _:
                    pass


@pytest.mark.parametrize("length", [0, 1, 16_384, 16_385, 65_535, 65_536, 1 << 20])
async def test_bodies_of_any_length_over_http2(length: int) -> None:
    async def story(connection: HTTPConnection) -> None:
        for _ in range(2):
            await connection.request(upload(length), bytes(length))
            assert await whole(connection) == str(length).encode()
        await connection.request(upload(None), parts(10, 30_000))
        assert await whole(connection) == b"300000"
        assert connection.is_idle

    await play(story, serve_http2, http2=True)


@pytest.mark.parametrize("http2", [False, True])
async def test_what_the_body_raises_comes_out_bare(http2: bool) -> None:
    async def torn() -> AsyncIterator[bytes]:
        yield b"half"
        raise ZeroDivisionError

    async def serve(far: Any) -> None:
        async for _ in far:
            pass

    async def story(connection: HTTPConnection) -> None:
        with pytest.raises(ZeroDivisionError):
            await connection.request(upload(None), torn())

    await play(story, serve, http2=http2)


async def test_a_peer_that_hung_up_is_seen_without_a_wait() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sock = await connect_socket(*server.getsockname())
        connection = HTTPConnection(await wrap_socket(sock), http2=False, peer="the peer")
        accepted, _ = server.accept()
        assert not connection.has_hung_up()
        accepted.sendall(b"unasked")  # as TLS sends its tickets
        assert not connection.has_hung_up()
        accepted.close()
        while not connection.has_hung_up():
            await anyio.lowlevel.checkpoint()
        await connection.aclose()
