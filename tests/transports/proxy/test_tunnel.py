"""The stream behind the proxy's yes: early bytes first and once, everything else the stream's within."""

from __future__ import annotations

from functools import partial

import anyio
import pytest
from anyio.abc import SocketAttribute
from anyio.streams.tls import TLSAttribute

from racer.testing import cancel_everywhere, stream_pair
from transports.proxy._tunnel import Tunnel, tunnel

pytestmark = pytest.mark.virtual_time


async def test_early_bytes_come_first_then_the_rest() -> None:
    near, far = stream_pair()
    await far.send(b"defg")
    await far.aclose()
    stream = tunnel(near, b"abc")
    assert [await stream.receive(2), await stream.receive(2)] == [b"ab", b"c"]
    assert [await stream.receive(3), await stream.receive()] == [b"def", b"g"]
    with pytest.raises(anyio.EndOfStream):
        await stream.receive()


async def test_a_stream_with_nothing_to_add_is_left_as_it_is() -> None:
    near, _ = stream_pair(attributes={SocketAttribute.remote_port: 1080})
    assert tunnel(near, b"") is near


async def test_what_is_sent_and_ended_goes_down() -> None:
    near, far = stream_pair()
    stream = tunnel(near, b"x")
    await stream.send(b"hello")
    await stream.send_eof()
    assert await far.receive() == b"hello"
    with pytest.raises(anyio.EndOfStream):
        await far.receive()
    await far.send(b"y")
    assert [await stream.receive(), await stream.receive()] == [b"x", b"y"]


async def test_closing_closes_down_and_drops_early_bytes() -> None:
    near, _ = stream_pair()
    stream = tunnel(near, b"x")
    await stream.aclose()
    assert near.closed
    assert not near.closed_by_force
    for use in (stream.receive, partial(stream.send, b"x")):
        with pytest.raises(anyio.ClosedResourceError):
            await use()
    await stream.aclose()


async def test_closing_under_cancellation_is_by_force() -> None:
    near, _ = stream_pair(close_hangs=True)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await tunnel(near, b"x").aclose()
    assert near.closed_by_force


async def test_the_proxys_tls_is_not_taken_for_the_targets() -> None:
    shown = {
        SocketAttribute.remote_port: 3128,
        TLSAttribute.alpn_protocol: "http/1.1",
        TLSAttribute.peer_certificate: {"subject": "the proxy"},
    }
    near, _ = stream_pair(attributes=shown)
    stream = tunnel(near, b"")
    assert stream.extra(SocketAttribute.remote_port) == 3128
    for attribute in (TLSAttribute.alpn_protocol, TLSAttribute.peer_certificate):
        assert stream.extra(attribute, None) is None
    assert tunnel(stream, b"") is stream


async def test_of_two_readers_at_once_one_is_told() -> None:
    stream = Tunnel(stream_pair()[0], b"abc")
    outcomes: list[object] = []

    async def read() -> None:
        try:
            outcomes.append(await stream.receive())
        except anyio.BusyResourceError as exc:
            outcomes.append(type(exc))

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        group.start_soon(read)
    assert outcomes == [anyio.BusyResourceError, b"abc"]


async def test_a_reader_whose_stream_is_closed_meanwhile_is_told() -> None:
    stream = tunnel(stream_pair()[0], b"abc")
    outcomes: list[object] = []

    async def read() -> None:
        try:
            outcomes.append(await stream.receive())
        except anyio.ClosedResourceError as exc:
            outcomes.append(type(exc))

    async def close() -> None:
        await stream.aclose()

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        group.start_soon(close)
    assert outcomes == [anyio.ClosedResourceError]


async def test_a_strange_size_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        await tunnel(stream_pair()[0], b"abc").receive(0)


async def test_no_cancellation_loses_early_bytes() -> None:
    made: list[Tunnel] = []
    got: list[bytes] = []

    async def story() -> None:
        near, far = stream_pair()
        await far.send(b"def")
        made.append(Tunnel(near, b"abc"))
        got.clear()
        got.append(await made[-1].receive(2))
        got.append(await made[-1].receive(2))

    async def verify() -> None:
        if made and b"".join(got) in {b"", b"ab", b"abc"}:
            rest = await made[-1].receive()
            assert b"".join(got) + rest in {b"abc", b"abcdef"}
        made.clear()

    assert (await cancel_everywhere(story, verify=verify)).cancelled > 3
