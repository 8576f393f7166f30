"""Streams in memory: anyio's semantics at every end, and a ledger that names what was left open."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.abc import SocketAttribute

from racer.testing import MemoryStream, StreamLeak, StreamLedger, stream_pair

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.virtual_time


async def read_all(stream: MemoryStream) -> list[bytes]:
    return [chunk async for chunk in stream]


# --- bytes ------------------------------------------------------------------------------------


async def test_bytes_go_both_ways_in_order() -> None:
    near, far = stream_pair()
    await near.send(b"one ")
    await near.send(b"two")
    await far.send(b"three")
    assert await far.receive() == b"one two"
    assert await near.receive() == b"three"


async def test_receive_gives_at_most_what_was_asked_for() -> None:
    near, far = stream_pair()
    await near.send(b"abcdef")
    assert [await far.receive(4), await far.receive(4)] == [b"abcd", b"ef"]


async def test_chunk_sizes_cut_what_is_received_in_turn() -> None:
    near, far = stream_pair(chunk_sizes=[1, 3])
    await near.send(b"abcdefgh")
    await near.send_eof()
    assert await read_all(far) == [b"a", b"bcd", b"e", b"fgh"]


async def test_send_waits_until_the_peer_reads() -> None:
    near, far = stream_pair(capacity=4)
    done_at = []

    async def send() -> None:
        await near.send(b"0123456789")
        done_at.append(anyio.current_time())

    async with anyio.create_task_group() as tg:
        tg.start_soon(send)
        await anyio.sleep(1)
        assert await far.receive() == b"0123"
        await anyio.sleep(1)
        assert done_at == []
        assert await far.receive() == b"4567"
        await anyio.sleep(1)
        assert await far.receive() == b"89"
    assert done_at == [2.0]


async def test_a_cancelled_receive_loses_nothing() -> None:
    near, far = stream_pair()
    with anyio.move_on_after(1):
        await far.receive()
    await near.send(b"kept")
    assert await far.receive() == b"kept"


async def test_sending_nothing_sends_nothing() -> None:
    near, far = stream_pair()
    await near.send(b"")
    await near.send_eof()
    assert await read_all(far) == []


# --- ends -------------------------------------------------------------------------------------


async def test_half_close_ends_one_direction_only() -> None:
    near, far = stream_pair()
    await near.send(b"request")
    await near.send_eof()
    await near.send_eof()
    assert await read_all(far) == [b"request"]
    await far.send(b"answer")
    assert await near.receive() == b"answer"
    with pytest.raises(anyio.ClosedResourceError):
        await near.send(b"more")


async def test_a_closed_peer_gives_its_last_bytes_and_then_the_end() -> None:
    near, far = stream_pair()
    await near.send(b"last")
    await near.aclose()
    assert await read_all(far) == [b"last"]
    with pytest.raises(anyio.EndOfStream):
        await far.receive()
    with pytest.raises(anyio.BrokenResourceError):
        await far.send(b"anyone?")


async def test_an_aborted_peer_takes_its_unread_bytes_along() -> None:
    near, far = stream_pair()
    await near.send(b"lost")
    near.abort()
    with pytest.raises(anyio.BrokenResourceError):
        await far.receive()
    with pytest.raises(anyio.BrokenResourceError):
        await far.send(b"anyone?")


@pytest.mark.parametrize("use", [MemoryStream.receive, MemoryStream.send_eof])
async def test_a_closed_stream_refuses_every_use(
    use: Callable[[MemoryStream], Awaitable[Any]],
) -> None:
    near, _far = stream_pair()
    await near.aclose()
    with pytest.raises(anyio.ClosedResourceError):
        await use(near)
    with pytest.raises(anyio.ClosedResourceError):
        await near.send(b"x")


@pytest.mark.parametrize(
    ("close", "error"),
    [
        (lambda near, far: near.aclose(), anyio.ClosedResourceError),
        (lambda near, far: far.aclose(), anyio.EndOfStream),
        (lambda near, far: anyio.aclose_forcefully(far), anyio.BrokenResourceError),
    ],
    ids=["own close", "peer's close", "peer's reset"],
)
async def test_a_waiting_receive_learns_of_the_end(
    close: Callable[[MemoryStream, MemoryStream], Awaitable[None]], error: type[Exception]
) -> None:
    near, far = stream_pair()

    async def receive() -> None:
        with pytest.raises(error):
            await near.receive()

    async with anyio.create_task_group() as tg:
        tg.start_soon(receive)
        await anyio.sleep(1)
        await close(near, far)


async def test_a_waiting_send_learns_that_the_peer_has_gone() -> None:
    near, far = stream_pair(capacity=1)

    async def send() -> None:
        with pytest.raises(anyio.BrokenResourceError):
            await near.send(b"too much")

    async with anyio.create_task_group() as tg:
        tg.start_soon(send)
        await anyio.sleep(1)
        await far.aclose()


@pytest.mark.parametrize("action", ["receive", "send"])
async def test_two_tasks_may_not_do_the_same_at_once(action: str) -> None:
    near, _far = stream_pair(capacity=1)

    async def use() -> None:
        await (near.receive() if action == "receive" else near.send(b"too much"))

    async with anyio.create_task_group() as tg:
        tg.start_soon(use)
        await anyio.sleep(1)
        with pytest.raises(anyio.BusyResourceError):
            await use()
        tg.cancel_scope.cancel()


# --- what it remembers ----------------------------------------------------------------------------


async def test_a_stream_remembers_when_and_how_it_was_closed() -> None:
    near, far = stream_pair(name="direct")
    await anyio.sleep(0.25)
    await near.aclose()
    assert (near.closed, near.closed_at, near.closed_by_force) == (True, 0.25, False)
    await anyio.sleep(0.25)
    await anyio.aclose_forcefully(far)
    assert (far.closed, far.closed_at, far.closed_by_force) == (True, 0.5, True)
    assert repr(near) == "<MemoryStream 'direct' closed>"
    assert repr(far) == '<MemoryStream "direct\'s peer" closed by force>'


async def test_closing_again_changes_nothing() -> None:
    near, _far = stream_pair()
    await near.aclose()
    await anyio.sleep(1)
    await near.aclose()
    await anyio.aclose_forcefully(near)
    near.abort()
    assert (near.closed_at, near.closed_by_force) == (0.0, False)


async def test_a_slow_close_takes_its_time_unless_it_is_forced() -> None:
    slow, _ = stream_pair(close_delay=1.5)
    await slow.aclose()
    assert (slow.closed_at, slow.closed_by_force) == (1.5, False)

    forced, _ = stream_pair(close_delay=1.5)
    with anyio.move_on_after(0.5):
        await forced.aclose()
    assert (forced.closed_at, forced.closed_by_force) == (2.0, True)


async def test_a_hanging_close_ends_only_by_force() -> None:
    near, far = stream_pair(close_hangs=True)
    with anyio.move_on_after(1000) as scope:
        await near.aclose()
    assert scope.cancelled_caught
    assert (near.closed_at, near.closed_by_force) == (1000.0, True)
    with pytest.raises(anyio.BrokenResourceError):
        await far.receive()


async def test_a_closing_stream_is_not_closed_yet_and_refuses_use() -> None:
    near, _ = stream_pair(close_delay=1)
    async with anyio.create_task_group() as tg:
        tg.start_soon(near.aclose)
        await anyio.sleep(0.5)
        assert not near.closed
        assert repr(near) == "<MemoryStream 'stream' closing>"
        with pytest.raises(anyio.ClosedResourceError):
            await near.receive()
    assert near.closed


async def test_typed_attributes_are_the_near_ends() -> None:
    near, far = stream_pair(attributes={SocketAttribute.remote_address: ("192.0.2.1", 443)})
    assert near.extra(SocketAttribute.remote_address) == ("192.0.2.1", 443)
    assert far.extra(SocketAttribute.remote_address, None) is None


async def test_an_abort_outside_a_loop_has_no_time() -> None:
    near, _ = stream_pair()

    def elsewhere() -> None:
        near.abort()

    await anyio.to_thread.run_sync(elsewhere)
    assert (near.closed, near.closed_at) == (True, None)


@pytest.mark.parametrize(
    "options",
    [{"capacity": 0}, {"chunk_sizes": [1, 0]}, {"close_delay": -1.0}, {"close_delay": math.inf}],
)
async def test_options_out_of_bounds_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        stream_pair(**options)


async def test_receive_refuses_to_ask_for_nothing() -> None:
    near, _ = stream_pair()
    with pytest.raises(ValueError, match="max_bytes"):
        await near.receive(0)


# --- the ledger -----------------------------------------------------------------------------------


async def test_a_ledger_names_the_leaks() -> None:
    ledger = StreamLedger()
    await anyio.sleep(0.3)
    near, far = stream_pair(name="soar", ledger=ledger)
    await far.aclose()
    assert ledger.streams == (near, far)
    assert ledger.open_streams == (near,)
    with pytest.raises(
        StreamLeak, match=r"1 of 2 streams left open: 'soar' \(made at t=0.3\)"
    ) as e:
        ledger.assert_all_closed()
    assert e.value.leaked == (near,)


async def test_a_ledger_excuses_who_is_named() -> None:
    ledger = StreamLedger()
    winner, _ = stream_pair(name="direct", ledger=ledger)
    with pytest.raises(StreamLeak, match='"direct\'s peer"') as caught:
        ledger.assert_all_closed(but=[winner])
    assert caught.value.leaked == ledger.streams[1:]
    ledger.assert_all_closed(but=["direct", "direct's peer"])


async def test_a_ledger_takes_no_excuse_that_it_does_not_know() -> None:
    stranger, _ = stream_pair()
    with pytest.raises(ValueError, match="'proxyless'"):
        StreamLedger().assert_all_closed(but=["proxyless"])
    with pytest.raises(ValueError, match="MemoryStream"):
        StreamLedger().assert_all_closed(but=[stranger])


async def test_a_ledger_of_closed_streams_is_content() -> None:
    ledger = StreamLedger()
    for stream in stream_pair(ledger=ledger):
        await stream.aclose()
    ledger.assert_all_closed()
    assert ledger.open_streams == ()
