"""A stream through the tunnel keeps anyio's promises, and its own (virtual time)."""

from __future__ import annotations

import anyio
import pytest

from racer.errors import ErrorType, NetworkError, SessionLost, TargetRefused, TransportError
from racer.testing import LocalHost
from tests.transports.soar.memory_world import (
    RTT,
    MemoryWorld,
    connect,
    everything,
    exactly,
    pattern,
    tunnel,
)

pytestmark = pytest.mark.virtual_time


async def test_octets_go_both_ways() -> None:
    async with tunnel("echo.example") as (_, stream):
        await stream.send(b"ping")
        assert await exactly(stream, 4) == b"ping"
        await stream.send_eof()
        assert await everything(stream) == b""


async def test_a_half_closed_stream_still_receives() -> None:
    async with tunnel("up.example") as (_, stream):
        await stream.send(pattern(10_000))
        await stream.send_eof()
        await stream.send_eof()  # twice is once
        with pytest.raises(anyio.ClosedResourceError):
            await stream.send(b"more")
        assert len(await everything(stream)) == 32


async def test_what_was_sent_before_a_close_arrives() -> None:
    async with MemoryWorld() as world, world.started() as soar:
        async with await connect(soar, "sink.example") as stream:
            await stream.send(pattern(20_000))
        await anyio.sleep(5)
        assert world.delivered == pattern(20_000)


async def test_what_was_sent_before_the_guest_closed_arrives() -> None:
    async with MemoryWorld() as world:
        async with world.started() as soar, await connect(soar, "sink.example") as stream:
            await stream.send(pattern(3_000))
        assert world.delivered == pattern(3_000)
        await anyio.sleep(1)
        assert world.sessions == 0


async def test_a_sender_waits_and_is_alone_and_learns_of_a_close() -> None:
    """The target takes nothing, so the one that sends waits for as long as there is a stream."""
    async with MemoryWorld() as world, world.started() as soar:
        stream = await connect(soar, "lazy.example")
        closed: list[str] = []

        async def wait(what: str) -> None:
            with pytest.raises(anyio.ClosedResourceError):
                await (stream.receive() if what == "receive" else stream.send(bytes(600_000)))
            closed.append(what)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, "receive")
            tasks.start_soon(wait, "send")
            await anyio.sleep(20)
            with pytest.raises(anyio.BusyResourceError):
                await stream.receive()
            with pytest.raises(anyio.BusyResourceError):
                await stream.send(b"")
            with pytest.raises(anyio.BusyResourceError):
                await stream.send_eof()
            assert closed == []
            await stream.aclose()
        assert sorted(closed) == ["receive", "send"]
        await stream.aclose()
        with pytest.raises(anyio.ClosedResourceError):
            await stream.send_eof()


async def test_a_target_waits_for_a_receiver_that_takes_nothing() -> None:
    async with tunnel("down.example") as (world, stream):
        await stream.send(b"700000")
        await anyio.sleep(20)
        asked = world.questions
        await anyio.sleep(20)
        assert world.questions - asked < 60  # it stands still, and is only kept alive
        got, began = bytearray(), anyio.current_time()
        while len(got) < 480_000:  # more than there was room for
            got += await stream.receive()
        # The news of room does not wait for the next question.
        assert anyio.current_time() - began < 2.1 * RTT
        got += await everything(stream)
        assert got == pattern(700_000)


async def test_a_cancelled_receive_loses_nothing() -> None:
    async with tunnel("down.example") as (_, stream):
        await stream.send(b"50000")
        got = bytearray()
        while len(got) < 50_000:
            with anyio.move_on_after(0.003):
                got += await stream.receive(500)
        assert got == pattern(50_000)


async def test_a_reset_is_no_end() -> None:
    """A stream that was cut short must not look complete."""
    async with MemoryWorld() as world, world.started() as soar:
        async with await connect(soar, "reset.example") as stream:
            assert await exactly(stream, 7) == b"half a "
            await stream.send(b"go on")
            with pytest.raises(anyio.BrokenResourceError) as caught:
                await stream.receive()
            assert isinstance(caught.value.__cause__, NetworkError)
            assert caught.value.__cause__.error_type is ErrorType.CONNECTION_RESET
            with pytest.raises(anyio.BrokenResourceError):
                await stream.send(b"more")
        await anyio.sleep(10)
        assert soar.status().sessions[0].state == "idle"


async def test_what_came_before_a_loss_can_be_read() -> None:
    async with MemoryWorld() as world, world.started() as soar:
        async with await connect(soar, "push.example") as stream:
            world.push.set()
            await anyio.sleep(0.2)
            world.restart_server()
            await anyio.sleep(10)
            assert await exactly(stream, 4) == b"news"
            with pytest.raises(anyio.EndOfStream):  # it had come too
                await stream.receive()
        async with await connect(soar, "reset.example") as stream:
            await anyio.sleep(0.2)
            world.restart_server()
            await anyio.sleep(10)
            assert await exactly(stream, 7) == b"half a "
            for use in (stream.receive, lambda: stream.send(b"x"), stream.send_eof):
                with pytest.raises(anyio.BrokenResourceError) as caught:
                    await use()
                assert isinstance(caught.value.__cause__, SessionLost)


async def test_nonsense_is_refused() -> None:
    async with tunnel("echo.example") as (_, stream):
        with pytest.raises(ValueError, match="max_bytes must be at least 1"):
            await stream.receive(0)


async def test_a_dial_that_is_not_awaited_fails_where_its_stream_is_used() -> None:
    async with MemoryWorld() as world, world.started() as soar:
        began = anyio.current_time()
        async with await connect(soar, "refused.example", tls=True) as stream:
            assert anyio.current_time() == began
            await stream.send(b"hello")
            for use in (stream.receive, lambda: stream.send(b"x"), stream.send_eof):
                with pytest.raises(TargetRefused, match="the target refused the connection"):
                    await use()


async def test_closing_gives_up_a_dial_that_was_not_awaited() -> None:
    async with MemoryWorld() as world, world.started() as soar:
        stream = await connect(soar, "mute.example", tls=True)
        await anyio.sleep(1)
        await stream.aclose()
        await anyio.sleep(1)
        assert world.cancelled == ["mute.example"]
        assert soar.status().sessions[0].streams == 0
        assert soar._engine is not None
        assert soar._engine._dials == {}


async def test_closing_the_guest_ends_its_streams() -> None:
    async with MemoryWorld() as world:
        soar = world.soar()
        async with LocalHost() as host:
            await soar.start(host)
            stream = await connect(soar, "lazy.example")
            await soar.aclose()
            with pytest.raises(anyio.BrokenResourceError) as caught:
                await stream.receive()
            assert "the transport was closed" in str(caught.value.__cause__)
            await stream.aclose()
            with pytest.raises(TransportError, match="transport 'soar' was closed"):
                await connect(soar, "echo.example")
