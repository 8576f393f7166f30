"""The driver: who owns what at every await, what a cancellation leaves, and what survives what (virtual time)."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import traceback
import weakref
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from racer.abc import Progress, Stage, Target
from racer.errors import (
    ErrorType,
    SessionEnded,
    TargetRefused,
    TransportBusy,
    TransportError,
    TunnelSilent,
)
from racer.testing import LocalHost, cancel_everywhere, run_virtual
from tests.transports.soar.memory_world import (
    ADDRESS,
    RTT,
    MemoryWorld,
    connect,
    exactly,
    pattern,
)
from transports.soar.core.client import events as told
from transports.soar.core.client.client import Client

if TYPE_CHECKING:
    from collections.abc import Mapping

    from racer.abc import AttributeValue
    from racer.testing import BackendName
    from transports.soar import Soar
    from transports.soar._engine import Engine

pytestmark = pytest.mark.virtual_time


def engine_of(soar: Soar) -> Engine:
    assert soar._engine is not None
    return soar._engine


# --- cancellation -----------------------------------------------------------------------------


async def test_cancelled_anywhere_nothing_is_left_and_the_session_lives_on() -> None:
    async with MemoryWorld() as world, world.started() as soar:
        await (await connect(soar, "echo.example")).aclose()

        async def story() -> None:
            async with await connect(soar, "echo.example") as stream:
                await stream.send(b"ping")
                await exactly(stream, 4)
                await stream.send_eof()

        async def verify() -> None:
            engine = engine_of(soar)
            assert (engine._dials, engine._streams) == ({}, {})
            await anyio.sleep(1)
            (session,) = soar.status().sessions
            assert (session.id, session.state, session.streams) == ("1", "idle", 0)

        sweep = await cancel_everywhere(story, verify=verify, passes=2)
        assert sweep.cancelled > 30
        assert world.handshakes == 1


async def test_cancelled_anywhere_a_first_dial_leaves_its_handshake_to_others() -> None:
    """The handshake goes on (R11): a dial that follows needs no other, whenever the first was cancelled."""
    async with MemoryWorld() as world:
        guests: list[Soar] = []
        async with LocalHost() as host:

            async def setup() -> None:
                guests.append(world.soar())
                await guests[-1].start(host)

            async def story() -> None:
                await (await connect(guests[-1], "echo.example")).aclose()

            async def verify() -> None:
                before = world.handshakes
                await anyio.sleep(RTT)
                after = world.handshakes
                async with await connect(guests[-1], "echo.example"):
                    assert world.handshakes == max(after, before)
                await guests[-1].aclose()
                await anyio.sleep(1)
                assert (world.sessions, len(host.running)) == (0, 0)

            sweep = await cancel_everywhere(story, setup=setup, verify=verify, passes=1)
        assert sweep.cancelled > 3
        # Cancelled before the first question, there was none to go on.
        assert len(guests) <= world.handshakes <= len(guests)


async def test_a_dial_that_does_not_wait_can_be_cancelled_all_the_same() -> None:
    async with MemoryWorld() as world, world.started() as soar:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await connect(soar, "echo.example", tls=True)
        assert scope.cancelled_caught
        assert engine_of(soar)._dials == {}
        assert world.opened == []


async def test_two_dials_share_a_handshake() -> None:
    async with MemoryWorld() as world, world.started() as soar:
        scope = anyio.CancelScope()

        async def first() -> None:
            with scope:
                await connect(soar, "echo.example")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first)
            await anyio.sleep(RTT / 4)
            scope.cancel()
            async with await connect(soar, "echo.example") as stream:
                await stream.send(b"ping")
                assert await exactly(stream, 4) == b"ping"
        assert world.handshakes == 1


async def test_a_dial_that_is_cancelled_is_cancelled_at_the_server() -> None:
    async with MemoryWorld() as world, world.started() as soar:
        with anyio.move_on_after(2):
            await connect(soar, "mute.example")
        await anyio.sleep(1)
        assert world.cancelled == ["mute.example"]
        assert [session.state for session in soar.status().sessions] == ["idle"]


# --- ends -------------------------------------------------------------------------------------


async def test_closing_ends_sessions_with_a_word_and_dials_with_a_reason() -> None:
    async with MemoryWorld() as world:
        soar = world.soar()
        async with LocalHost() as host, anyio.create_task_group() as tasks:
            await soar.start(host)
            await (await connect(soar, "echo.example")).aclose()
            failed: list[TransportError] = []

            async def dial() -> None:
                with pytest.raises(SessionEnded, match="the transport was closed") as caught:
                    await connect(soar, "mute.example")
                failed.append(caught.value)

            tasks.start_soon(dial)
            await anyio.sleep(1)
            assert world.sessions == 1
            await soar.aclose()
            await soar.aclose()
            await anyio.sleep(RTT)
            assert len(failed) == 1
            assert (world.sessions, world.sockets, host.running) == (0, set(), [])


async def test_a_host_that_ends_takes_dials_and_sessions_with_it() -> None:
    async with MemoryWorld() as world:
        soar = world.soar()
        ended = anyio.Event()

        async def dial() -> None:
            with pytest.raises(SessionEnded, match="the transport was closed"):
                await connect(soar, "mute.example")
            ended.set()

        async with anyio.create_task_group() as tasks:
            async with LocalHost() as host:
                await soar.start(host)
                tasks.start_soon(dial)
                await anyio.sleep(1)
            await ended.wait()
        assert soar.status().health == "closed"
        with pytest.raises(TransportError, match="was closed"):
            await connect(soar, "echo.example")
        assert world.sockets == set()


async def test_what_is_still_being_delivered_holds_a_close_up_for_half_a_second() -> None:
    async with MemoryWorld() as world:
        soar = world.soar()
        async with LocalHost() as host:
            await soar.start(host)
            stream = await connect(soar, "sink.example")
            world.is_up = False
            await stream.send(b"never arrives")
            began = anyio.current_time()
            await soar.aclose()
            assert anyio.current_time() - began == 0.5


async def test_a_cancelled_close_still_closes() -> None:
    async with MemoryWorld() as world:
        soar = world.soar()
        async with LocalHost() as host:
            await soar.start(host)
            await connect(soar, "lazy.example")
            world.is_up = False
            with anyio.CancelScope() as scope:
                scope.cancel()
                await soar.aclose()
            await anyio.sleep(0.01)
            assert (host.running, world.sockets) == ([], set())


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_child_process_leaves_its_parents_session_alone(backend: BackendName) -> None:
    """The same key and number must not seal twice (SPEC 14.8)."""
    run_virtual(fork_with_a_stream_open, backend, backend=backend)


async def fork_with_a_stream_open(backend: BackendName) -> None:
    async with MemoryWorld() as world, world.started() as soar:
        async with await connect(soar, "echo.example") as stream:
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    in_child(world, soar, stream)
                    if backend == "asyncio":  # trio runs no other loop in a child
                        asyncio.run(in_child_on_a_loop(soar, stream))
                    code = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(code)
            _, status = os.waitpid(child, 0)  # noqa: ASYNC222 - the loop is to stand still
            assert os.waitstatus_to_exitcode(status) == 0
            await stream.send(b"ping")
            assert await exactly(stream, 4) == b"ping"
        assert world.handshakes == 1


def in_child(world: MemoryWorld, soar: Soar, stream: Any) -> None:
    engine, asked = engine_of(soar), world.questions
    stream._handle.write(b"not from here")
    engine.flush()
    engine._deliver(0, [b"?" * 40])
    engine._failed(0, OSError())
    engine.close()
    soar.update_credential(None)
    assert soar.status().sessions == ()
    assert world.questions == asked
    assert engine.core.messages_to_send(engine._now) == []


async def in_child_on_a_loop(soar: Soar, stream: Any) -> None:
    for use in (lambda: stream.send(b"not from here"), stream.receive):
        with pytest.raises(anyio.BrokenResourceError) as caught:
            await use()
        assert "the process that this one was forked from" in str(caught.value.__cause__)
    with pytest.raises(TransportError, match=f"was started in process {os.getppid()}"):
        await soar.connect(Target("echo.example", 80, tls=False), Progress())
    await stream.aclose()
    await soar.aclose()


# --- what breaks --------------------------------------------------------------------------------


async def test_a_carrier_that_fails_is_heard_of_and_tries_again() -> None:
    """Its failure reaches the core, which asks again; the dial needs no help."""
    failures = [OSError("no way there"), OSError("still none")]
    async with MemoryWorld() as world:

        async def dial_udp(address: str, port: int) -> Any:
            if failures:
                raise failures.pop()
            return await world.dial_udp(address, port)

        async with (
            world.started(dial_udp=dial_udp) as soar,
            await connect(soar, "echo.example"),
        ):
            assert failures == []
            assert soar.status().health == "ok"
            assert str(soar.status().details[f"udp://{ADDRESS}"]).endswith(", failed 2 times")


async def test_what_was_under_way_on_a_carrier_that_failed_is_asked_for_again_at_once() -> None:
    async with (
        MemoryWorld() as world,
        world.started() as soar,
        await connect(soar, "echo.example") as stream,
    ):
        world.is_up = False
        await stream.send(b"ping")
        await anyio.sleep(0.01)
        world.is_up = True
        began = anyio.current_time()
        engine_of(soar)._failed(0, ConnectionRefusedError())
        assert await exactly(stream, 4) == b"ping"
        assert anyio.current_time() - began == pytest.approx(RTT)


async def test_a_silent_way_ends_a_dial_after_thirty_seconds() -> None:
    async with MemoryWorld() as world, world.started() as soar:
        world.is_up = False
        began = anyio.current_time()
        with pytest.raises(TunnelSilent, match="no proven answer to the handshake for 30 s"):
            await connect(soar, "echo.example")
        assert 30 <= anyio.current_time() - began < 30.1


async def test_a_carrier_that_crashes_takes_no_other_with_it_and_begins_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with MemoryWorld() as world:
        soar = world.soar(resolvers=[f"udp://{ADDRESS}", f"udp://{ADDRESS}:54"])
        crashes = 0

        async def dial_udp(address: str, port: int) -> Any:
            nonlocal crashes
            if port == 54:
                crashes += 1
                raise RuntimeError("a bug in a hook")
            return await world.dial_udp(address, 53)

        soar._dial_udp = dial_udp
        with caplog.at_level(logging.CRITICAL, "racer.testing"):
            async with LocalHost() as host:
                await soar.start(host)
                async with await connect(soar, "echo.example") as stream:
                    await anyio.sleep(0.9)
                    assert crashes == 1
                    assert "soar carrier 1" in host.running  # it waits for its second chance
                    assert "RuntimeError" in str(soar.status().details[f"udp://{ADDRESS}:54"])
                    await stream.send(b"ping")
                    assert await exactly(stream, 4) == b"ping"
                await soar.aclose()
                assert len(host.errors) == crashes


async def test_a_clock_that_crashes_begins_anew(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with MemoryWorld() as world:
        soar = world.soar()
        with caplog.at_level(logging.CRITICAL, "racer.testing"):
            async with LocalHost() as host:
                await soar.start(host)
                stream = await connect(soar, "push.example")
                with monkeypatch.context() as patch:
                    patch.setattr(Client, "handle_timeout", _crash)
                    await anyio.sleep(2)
                assert {str(error) for error in host.errors} == {"a bug in the core"}
                world.push.set()
                assert await exactly(stream, 4) == b"news"
                await soar.aclose()


def _crash(*_: object) -> None:
    raise ZeroDivisionError("a bug in the core")


async def test_a_deadline_that_stays_in_the_past_does_not_hold_the_loop_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with MemoryWorld() as world, world.started() as soar:
        await (await connect(soar, "echo.example")).aclose()
        await anyio.sleep(60)
        monkeypatch.setattr(Client, "next_timeout", lambda self: 0.0)
        engine_of(soar).flush()
        began = anyio.current_time()
        await anyio.sleep(1)
        assert anyio.current_time() == began + 1  # the virtual clock would not move beside a loop
        monkeypatch.undo()


class Meddler(Progress):
    """Flushes, and closes a stream, in the midst of what it is told."""

    def __init__(self, soar: Soar) -> None:
        self.soar = soar
        self.told: list[str] = []
        self.victim: Any = None

    def stage(self, stage: Stage) -> None:
        self.told.append(stage.value)

    def event(self, name: str, attributes: Mapping[str, AttributeValue] | None = None) -> None:
        self.told.append(name)
        if self.victim is not None:
            self.victim.abort()
        events = engine_of(self.soar).core._events
        events.append(told.QuestionsLost(path=0, lost=0))
        engine_of(self.soar).flush()
        assert events  # what is told next, is told next


async def test_who_is_told_may_act_at_once() -> None:
    async with MemoryWorld() as world, world.started() as soar:
        meddler = Meddler(soar)
        meddler.victim = await connect(soar, "mute.example", tls=True)
        async with await soar.connect(Target("echo.example", 80, tls=False), meddler) as stream:
            await stream.send(b"ping")
            assert await exactly(stream, 4) == b"ping"
        await anyio.sleep(1)
        assert world.cancelled == ["mute.example"]
        assert meddler.told == ["handshake", "racer.session.handshaken", "connect"]


# --- what a dial is told ----------------------------------------------------------------------


async def test_a_refused_dial_says_why_and_where() -> None:
    async with MemoryWorld() as world, world.started() as soar:
        with pytest.raises(TargetRefused) as caught:
            await connect(soar, "unreachable.example")
        assert caught.value.error_type is ErrorType.HOST_UNREACHABLE
        assert caught.value.stage is Stage.CONNECT
        await anyio.sleep(1)
        assert [session.state for session in soar.status().sessions] == ["idle"]


async def test_past_every_limit_a_dial_fails_at_once() -> None:
    async with MemoryWorld(max_streams=1) as world, world.started() as soar:
        streams = [await connect(soar, "echo.example") for _ in range(16)]
        began = anyio.current_time()
        with pytest.raises(TransportBusy, match="every session is at its limit"):
            await connect(soar, "echo.example")
        assert anyio.current_time() == began
        await streams[0].aclose()
        await anyio.sleep(1)
        streams[0] = await connect(soar, "echo.example")
        for stream in streams:
            await stream.aclose()
        assert world.handshakes == 16


async def test_a_dial_that_failed_leaves_nothing_alive() -> None:
    """With the garbage collector off, errors and streams go with their last name (R13)."""
    async with MemoryWorld() as world, world.started() as soar:
        gc.collect()
        gc.disable()
        try:
            ghosts = [await refused(soar, tls=False), await refused(soar, tls=True)]
            await anyio.sleep(1)
            assert [ghost() for ghost in ghosts] == [None, None]
        finally:
            gc.enable()


async def refused(soar: Soar, *, tls: bool) -> weakref.ref[BaseException]:
    try:
        async with await connect(soar, "refused.example", tls=tls) as stream:
            await stream.receive()
    except TargetRefused as exc:
        return weakref.ref(exc)
    raise AssertionError


async def test_octets_survive_a_socket_that_is_replaced() -> None:
    """Silence makes the core ask from a new port (SPEC 12.7); the session goes on."""
    async with MemoryWorld() as world, world.started() as soar:
        async with await connect(soar, "down.example") as stream:
            await stream.send(b"30000")
            got = await stream.receive()
            world.is_up = False
            await anyio.sleep(10)
            assert len(world.sockets) > 1
            world.is_up = True
            while len(got) < 30_000:
                got += await stream.receive()
            assert got == pattern(30_000)
        assert world.handshakes == 1
