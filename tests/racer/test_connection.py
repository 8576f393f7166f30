"""What a race hands out: bytes, facts, and a warning for who drops it."""

from __future__ import annotations

import gc
import threading
import warnings
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.abc import SocketAttribute

from racer import Connection, ConnectionAttribute, Dialer, Entrant, Outcome
from racer._connection import RoutedConnection
from racer.testing import (
    MemoryStream,
    ScriptedRequestTransport,
    ScriptedTransport,
    fails,
    hangs,
    run_virtual,
    wins,
)
from tests.racer.scene import HOST, Scene

if TYPE_CHECKING:
    from collections.abc import Callable

    from racer.testing import BackendName

virtual_time = pytest.mark.virtual_time


def guest(name: str = "a", **options: Any) -> ScriptedTransport:
    return ScriptedTransport(name, wins(**options))


def peer_of(guest: ScriptedTransport, attempt: int = -1) -> MemoryStream:
    peer = guest.attempts[attempt].peer
    assert peer is not None
    return peer


# --- bytes ------------------------------------------------------------------------------------------


@virtual_time
async def test_it_is_the_stream_within() -> None:
    only = guest()
    async with Scene(only) as scene, await scene.dial() as connection, peer_of(only) as peer:
        await connection.send(b"hello")
        assert await peer.receive() == b"hello"
        await peer.send(b"welcome")
        assert await connection.receive(3) == b"wel"
        assert await connection.receive() == b"come"
        await connection.send_eof()
        with pytest.raises(anyio.EndOfStream):
            await peer.receive()
        await peer.send(b"goodbye")
        await peer.send_eof()
        assert [chunk async for chunk in connection] == [b"goodbye"]


@virtual_time
async def test_its_ends_are_those_of_any_stream() -> None:
    only = guest()
    async with Scene(only) as scene:
        connection = await scene.dial()
        await peer_of(only).aclose()
        with pytest.raises(anyio.EndOfStream):
            await connection.receive()
        with pytest.raises(anyio.BrokenResourceError):
            await connection.send(b"anyone?")
        await connection.aclose()
        with pytest.raises(anyio.ClosedResourceError):
            await connection.receive()
        await connection.aclose()


# --- facts ------------------------------------------------------------------------------------------


@virtual_time
async def test_it_says_how_it_came_about() -> None:
    everyone = [
        ScriptedTransport("b", fails(0.25)),
        guest("a", after=1.0),
        ScriptedTransport("c", hangs()),
    ]
    async with Scene(*everyone) as scene, await scene.dial() as connection:
        assert connection.transport_name == "a"
        assert connection.report.winner == "a"
        assert connection.report.duration == 1.0
        outcomes = {one.transport: one.outcome.value for one in connection.report.attempts}
        assert outcomes == {"a": "connected", "b": "connect_failed", "c": "lost_race"}


@virtual_time
async def test_it_answers_typed_attributes() -> None:
    attributes = {SocketAttribute.remote_address: ("192.0.2.1", 443)}
    async with Scene(guest(attributes=attributes)) as scene, await scene.dial() as connection:
        assert connection.extra(SocketAttribute.remote_address) == ("192.0.2.1", 443)
        assert connection.extra(ConnectionAttribute.transport_name) == "a"
        assert connection.extra(ConnectionAttribute.report) is connection.report
        assert connection.extra(SocketAttribute.raw_socket, None) is None
        with pytest.raises(anyio.TypedAttributeLookupError):
            connection.extra(SocketAttribute.raw_socket)


@virtual_time
async def test_its_report_grows_with_the_race() -> None:
    async with Scene(guest(after=0.25), ScriptedTransport("b", fails(0.5))) as scene:
        async with scene.dialer.race(HOST, 80) as race, await anext(race) as connection:
            early = connection.report
            await anyio.sleep(1.0)
        assert early["b"].outcome is Outcome.NOT_STARTED  # that is, not decided
        assert connection.report["b"].outcome is Outcome.CONNECT_FAILED
        assert connection.report is race.report


@virtual_time
async def test_its_repr_names_the_transport_and_not_the_target() -> None:
    async with Scene(guest()) as scene:
        connection = await scene.dial()
        assert repr(connection) == "<Connection by 'a'>"
        await connection.aclose()
        assert repr(connection) == "<Connection by 'a', closed>"


# --- closing ----------------------------------------------------------------------------------------


@virtual_time
async def test_closing_under_cancellation_is_by_force() -> None:
    only = guest(close_hangs=True)
    async with Scene(only) as scene:
        connection = await scene.dial()
        with anyio.move_on_after(1.0):
            await connection.aclose()
        stream = only.attempts[0].stream
        assert stream is not None
        assert stream.closed_by_force
        assert anyio.current_time() == 1.0


@virtual_time
async def test_it_can_be_closed_where_nothing_can_be_awaited() -> None:
    only = guest(close_delay=5.0)
    async with Scene(only) as scene:
        connection = await scene.dial()
        stream = connection._resource
        connection.abort()
        connection.abort()
        await scene.settle()
        assert isinstance(stream, MemoryStream)
        assert (stream.closed_by_force, anyio.current_time()) == (True, 0.0)
        assert scene.dialer._roster["a"].lodger.uses == 0


@virtual_time
async def test_a_replaced_guest_is_closed_after_its_last_connection() -> None:
    old, new = guest(), guest()
    async with Scene(old) as scene:
        one, two = await scene.dial(), await scene.dial()
        scene.dialer.replace("a", new)
        await one.aclose()
        await one.aclose()  # gives nothing back twice
        await anyio.sleep(1)
        assert old.closed_at == []
        await two.aclose()
        await anyio.sleep(1)
        assert old.closed_at == [1.0]
        assert new.closed_at == []


@virtual_time
async def test_an_error_in_closing_is_told_and_keeps_no_lease() -> None:
    class Broken(MemoryStream):
        async def aclose(self) -> None:
            await super().aclose()
            raise OSError("half closed")

    old = guest()
    async with Scene(old) as scene:
        connection = await scene.dial()
        stream: Any = old.attempts[0].stream
        stream.__class__ = Broken
        scene.dialer.replace("a", guest())
        with pytest.raises(OSError, match="half closed"):
            await connection.aclose()
        await anyio.sleep(1)
        assert old.closed_at == [0.0]


# --- dropping ---------------------------------------------------------------------------------------


def drop(holder: list[Any]) -> None:
    holder.clear()
    gc.collect()


@pytest.mark.parametrize("dropper", [drop, lambda holder: _in_a_thread(drop, holder)])
@pytest.mark.every_loop
async def test_one_that_is_dropped_open_warns_and_is_closed_by_force(
    dropper: Callable[[list[Any]], None],
) -> None:
    old = guest(close_hangs=True)
    async with Scene(old) as scene:
        holder = [await scene.dial()]
        scene.dialer.replace("a", guest())
        with pytest.warns(ResourceWarning, match="<Connection by 'a'> was dropped without aclose"):
            dropper(holder)
        stream = old.attempts[0].stream
        assert stream is not None
        while not (stream.closed and old.closed_at):
            await anyio.lowlevel.checkpoint()
        assert stream.closed_by_force


def _in_a_thread(fn: Callable[[list[Any]], None], holder: list[Any]) -> None:
    thread = threading.Thread(target=fn, args=[holder])
    thread.start()
    thread.join()


@virtual_time
async def test_one_that_was_closed_is_dropped_in_silence() -> None:
    async with Scene(guest()) as scene:
        holder = [await scene.dial()]
        await holder[0].aclose()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            drop(holder)


@virtual_time
async def test_a_connection_keeps_its_dialer_alive() -> None:
    only = guest()
    connection = await Dialer([only]).dial(HOST, 80)
    gc.collect()  # a dialer that is dropped open warns, and warnings are errors here
    await peer_of(only).send(b"still here")
    assert await connection.receive() == b"still here"
    holder = [connection]
    await connection.aclose()
    del connection
    with pytest.warns(ResourceWarning, match="<Dialer of a> was dropped without aclose"):
        drop(holder)
    while not only.closed_at:
        await anyio.lowlevel.checkpoint()


@virtual_time
async def test_one_that_outlives_its_dialer_still_works() -> None:
    only = guest()
    async with Scene(only) as scene:
        connection = await scene.dial()
        await scene.dialer.aclose()
        await connection.send(b"hello")
        assert await peer_of(only).receive() == b"hello"
        await connection.aclose()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_one_that_outlives_its_loop_warns_and_that_is_all(backend: BackendName) -> None:
    holder: list[Connection] = []

    async def main() -> None:
        async with Dialer([guest()]) as dialer:
            holder.append(await dialer.dial(HOST, 80))

    run_virtual(main, backend=backend)
    with pytest.warns(ResourceWarning, match="was dropped without aclose"):
        drop(holder)


# --- routes -----------------------------------------------------------------------------------------


@virtual_time
async def test_a_route_is_closed_and_dropped_like_a_stream() -> None:
    async def answer(request: str) -> str:
        return request.upper()

    amp = ScriptedRequestTransport("amp", wins(), answer=answer)
    async with Scene(amp, Entrant(guest(), start_delay=8.0)) as scene:
        holder: list[Any] = []
        for _ in range(2):
            async with scene.dialer.race(HOST, 80, kind="any") as race:
                holder.append(await anext(race))
            assert isinstance(holder[-1], RoutedConnection)
            assert await holder[-1].handle("hello") == "HELLO"
        assert repr(holder[0]) == "<RoutedConnection by 'amp'>"
        await holder.pop(0).aclose()
        assert [route.closed for route in amp.ledger.streams] == [True, False]
        with pytest.warns(ResourceWarning, match="<RoutedConnection by 'amp'> was dropped"):
            drop(holder)
        await anyio.sleep(1)
        assert amp.ledger.open_streams == ()
