"""`cancel_everywhere`: good stories pass with counts, and every kind of bad story is caught, with its point."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from racer.testing import (
    CancelFault,
    CancelKind,
    CancellationMishandled,
    CancelMoment,
    CancelPoint,
    CancelSweep,
    MemoryStream,
    StreamLedger,
    cancel_everywhere,
    run_virtual,
    stream_pair,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from racer.testing import BackendName

virtual_time = pytest.mark.virtual_time
on_both = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def on_asyncio() -> bool:
    return anyio.get_cancelled_exc_class() is asyncio.CancelledError


class World:
    """Streams, opened one at a time, of which none may stay open."""

    def __init__(self) -> None:
        self.ledger = StreamLedger()
        self.verified = 0

    def open(self) -> MemoryStream:
        near, _far = stream_pair(close_delay=0.01)
        self.ledger.add(near)
        return near

    async def verify(self) -> None:
        self.verified += 1
        self.ledger.assert_all_closed()


async def caught(
    story: Callable[[], Coroutine[Any, Any, object]], **options: Any
) -> CancellationMishandled:
    """Return the fault that a sweep over the story finds."""
    with pytest.raises(CancellationMishandled) as info:
        await cancel_everywhere(story, **options)
    return info.value


# --- good stories -----------------------------------------------------------------------------------


async def test_a_story_is_cut_at_each_of_its_suspensions() -> None:
    reached: list[int] = []

    async def story() -> None:
        for step in range(3):
            reached.append(step)
            await anyio.lowlevel.checkpoint()
        reached.append(3)

    sweep = await cancel_everywhere(story, passes=0)
    assert sweep.points == 3
    kinds = 2 if on_asyncio() else 1
    assert sweep.rounds == kinds * 3 * 2
    assert sweep.cancelled + sweep.completed == sweep.rounds
    # A scope that is cancelled once asyncio's last wait is over has nothing left to cut; trio looks again.
    assert sweep.completed == (1 if on_asyncio() else 0)
    assert [reached.count(step) for step in range(4)] == sorted(
        (reached.count(step) for step in range(4)), reverse=True
    )
    assert reached.count(3) == 1 + sweep.completed


async def test_a_story_without_a_suspension_has_no_points() -> None:
    async def story() -> None:
        pass

    sweep = await cancel_everywhere(story)
    assert (sweep.points, sweep.rounds, sweep.cancelled) == (0, 0, 0)


async def test_setup_and_verify_frame_every_round() -> None:
    calls: list[str] = []

    async def setup() -> None:
        await anyio.lowlevel.checkpoint()
        calls.append("setup")

    async def verify() -> None:
        await anyio.lowlevel.checkpoint()
        calls.append("verify")

    async def story() -> None:
        calls.append("story")
        await anyio.lowlevel.checkpoint()

    sweep = await cancel_everywhere(story, setup=setup, verify=verify, passes=2)
    assert calls == ["setup", "story", "verify"] * (1 + sweep.rounds)


@virtual_time
async def test_a_careful_story_passes_on_virtual_clocks() -> None:
    world = World()

    async def story() -> None:
        stream = world.open()
        try:
            with anyio.move_on_after(0.3):
                await stream.receive()
            async with anyio.create_task_group() as tg:
                tg.start_soon(anyio.sleep, 100)
                await anyio.sleep(1000)
        finally:
            await anyio.aclose_forcefully(stream)

    sweep = await cancel_everywhere(story, verify=world.verify, timeout=2000)
    assert sweep.jumps == 3
    assert sweep.cancelled >= (100 if on_asyncio() else 50)
    assert world.verified == sweep.rounds + 1


async def test_a_careful_story_passes_on_real_clocks() -> None:
    world = World()

    async def story() -> None:
        async with world.open() as stream:
            with anyio.move_on_after(0.001):
                await stream.receive()

    sweep = await cancel_everywhere(story, verify=world.verify)
    assert sweep.jumps == 0
    assert sweep.cancelled > 0


async def test_native_rounds_can_be_left_out() -> None:
    async def story() -> None:
        await anyio.lowlevel.checkpoint()

    both = await cancel_everywhere(story, passes=0)
    scope_only = await cancel_everywhere(story, passes=0, native=False)
    assert scope_only.rounds == 2
    assert both.rounds == (4 if on_asyncio() else 2)


@virtual_time
async def test_scopes_of_the_storys_own_are_no_fault() -> None:
    async def story() -> None:
        with anyio.move_on_after(0.2):
            await anyio.sleep_forever()
        with pytest.raises(TimeoutError), anyio.fail_after(0.2):
            await anyio.sleep_forever()
        with anyio.CancelScope(shield=True), anyio.move_on_after(0.1):
            await anyio.sleep_forever()

    assert (await cancel_everywhere(story)).cancelled > 0


@virtual_time
async def test_the_clock_is_held_up_for_the_passes_only() -> None:
    """Each round that is not cut at once takes its virtual hour, and no real one."""

    async def story() -> None:
        await anyio.sleep(3600)
        await anyio.lowlevel.checkpoint()

    before = anyio.current_time()
    await cancel_everywhere(story, timeout=4000)
    hours = (anyio.current_time() - before) / 3600
    assert hours == int(hours) >= 5


# --- leaks --------------------------------------------------------------------------------------------


@virtual_time
async def test_a_leak_on_any_cancellation_is_caught() -> None:
    world = World()

    async def story() -> None:
        stream = world.open()
        await anyio.lowlevel.checkpoint()
        await stream.aclose()

    fault = await caught(story, verify=world.verify)
    assert fault.fault is CancelFault.LEAKED
    assert fault.point == CancelPoint(
        kind=CancelKind.SCOPE,
        moment=CancelMoment.SUSPENDED,
        index=0,
        where=fault.point.where if fault.point else "",
    )
    text = str(fault)
    assert text.startswith("scope cancel 0 passes after suspension 0 (test_cancel.py:")
    assert "in test_a_leak_on_any_cancellation_is_caught.<locals>.story, in " in text
    assert "1 of 2 streams left open" in text  # the first run's is closed


@virtual_time
async def test_a_leak_in_the_instant_of_the_win_is_caught() -> None:
    """The plain race: the winner puts its stream down, and the waiting side never picks it up."""
    world = World()

    async def story() -> None:
        won: list[MemoryStream] = []

        async def attempt() -> None:
            await anyio.sleep(0.1)
            won.append(world.open())
            tg.cancel_scope.cancel()

        async with anyio.create_task_group() as tg:
            tg.start_soon(attempt)
            tg.start_soon(anyio.sleep_forever)
        async with won[0]:
            pass

    fault = await caught(story, verify=world.verify)
    assert fault.fault is CancelFault.LEAKED
    assert fault.point is not None
    assert (
        "in TaskGroup.__aexit__" in fault.point.where or fault.point.moment is CancelMoment.JUMPED
    )


@virtual_time
async def test_a_leak_in_another_task_long_after_the_story_began_to_wait_is_caught() -> None:
    """While the story waits at one place, a helper holds a stream from t=0.1 to t=0.2."""
    world = World()

    async def story() -> None:
        async def helper() -> None:
            await anyio.sleep(0.1)
            stream = world.open()
            await anyio.sleep(0.1)
            await stream.aclose()

        async with anyio.create_task_group() as tg:
            tg.start_soon(helper)

    fault = await caught(story, verify=world.verify, passes=3)
    assert fault.fault is CancelFault.LEAKED
    assert fault.point is not None
    assert (fault.point.moment, fault.point.index) == (CancelMoment.JUMPED, 0)
    assert str(fault).startswith("scope cancel ")
    assert "after jump of the clock 0" in str(fault)


async def test_a_leak_by_native_cancellation_only_is_caught() -> None:
    """A native cancellation cuts through the shield that holds off a scope's."""
    world = World()

    async def story() -> None:
        stream = world.open()
        with anyio.CancelScope(shield=True):
            await anyio.lowlevel.checkpoint()
            await stream.aclose()

    if not on_asyncio():
        assert (await cancel_everywhere(story, verify=world.verify)).points > 0
        return
    await cancel_everywhere(story, verify=world.verify, native=False)
    fault = await caught(story, verify=world.verify)
    assert fault.point is not None
    assert fault.point.kind is CancelKind.NATIVE


async def test_a_native_leak_in_the_instant_of_resumption_is_caught() -> None:
    """The future holds the stream already when ``task.cancel()`` drops what it would have given."""
    if not on_asyncio():
        return  # it has no native cancellation
    world = World()

    async def story() -> None:
        loop = asyncio.get_running_loop()
        arrival: asyncio.Future[MemoryStream] = loop.create_future()

        def arrive() -> None:
            if not arrival.done():
                arrival.set_result(world.open())

        loop.call_later(0.001, arrive)
        async with await arrival:
            pass

    fault = await caught(story, verify=world.verify)
    assert fault.fault is CancelFault.LEAKED
    assert fault.point is not None
    assert fault.point.kind is CancelKind.NATIVE
    assert (fault.point.moment, fault.point.index) == (CancelMoment.RESUMED, 0)


async def test_a_leak_without_any_cancellation_is_caught_first() -> None:
    world = World()

    async def story() -> None:
        world.open()

    fault = await caught(story, verify=world.verify)
    assert (fault.fault, fault.point) == (CancelFault.LEAKED, None)
    assert str(fault).startswith("not cancelled: verify raised")


# --- other faults -----------------------------------------------------------------------------------------


@virtual_time
async def test_a_story_that_swallows_the_cancellation_is_caught() -> None:
    async def story() -> None:
        try:
            await anyio.sleep(0.001)
        except anyio.get_cancelled_exc_class():
            pass

    fault = await caught(story)
    assert fault.fault is CancelFault.SWALLOWED
    assert fault.point is not None
    assert fault.point.index == 0


@virtual_time
async def test_a_story_that_swallows_a_native_cancellation_only_is_caught() -> None:
    async def story() -> None:
        try:
            await anyio.sleep(0.001)
        except anyio.get_cancelled_exc_class():
            pass
        await anyio.lowlevel.checkpoint()  # a scope cancels again here, a task does not

    if not on_asyncio():
        assert (await cancel_everywhere(story)).cancelled > 0
        return
    await cancel_everywhere(story, native=False)
    fault = await caught(story)
    assert fault.fault is CancelFault.SWALLOWED
    assert fault.point is not None
    assert fault.point.kind is CancelKind.NATIVE


@virtual_time
async def test_a_story_that_raises_something_else_is_caught() -> None:
    async def story() -> None:
        try:
            await anyio.sleep(0.001)
        except anyio.get_cancelled_exc_class():
            raise KeyError("in the cleanup") from None

    fault = await caught(story)
    assert fault.fault is CancelFault.RAISED
    assert "KeyError('in the cleanup') after the cancellation" in str(fault)
    assert isinstance(fault.__cause__, KeyError)


@virtual_time
async def test_a_story_whose_child_raises_something_else_is_caught() -> None:
    async def child() -> None:
        try:
            await anyio.sleep(0.001)
        except anyio.get_cancelled_exc_class():
            raise KeyError("in a child") from None

    async def story() -> None:
        async with anyio.create_task_group() as tg:
            tg.start_soon(child)

    fault = await caught(story)
    assert fault.fault is CancelFault.RAISED
    assert isinstance(fault.__cause__, ExceptionGroup)


async def test_a_story_that_fails_by_itself_is_not_swept() -> None:
    async def story() -> None:
        await anyio.lowlevel.checkpoint()
        raise KeyError("always")

    fault = await caught(story)
    assert (fault.fault, fault.point) == (CancelFault.RAISED, None)
    assert "KeyError('always') without being cancelled" in str(fault)


@virtual_time
async def test_a_story_that_shields_itself_for_too_long_is_caught() -> None:
    cleaned: list[float] = []

    async def story() -> None:
        try:
            await anyio.sleep(1)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1.5)
            cleaned.append(anyio.current_time())

    assert (await cancel_everywhere(story, grace=2)).cancelled > 0
    fault = await caught(story, grace=1)
    assert fault.fault is CancelFault.STUCK
    assert "did not end within 1 s of the cancellation; it waits at test_cancel.py:" in str(fault)


@virtual_time
async def test_a_story_that_shields_itself_for_ever_is_caught_and_ended() -> None:
    ended: list[bool] = []

    async def story() -> None:
        try:
            await anyio.sleep(1)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await anyio.Event().wait()
            raise
        finally:
            ended.append(True)

    fault = await caught(story)
    assert fault.fault is CancelFault.STUCK
    assert len(ended) == 2


@virtual_time
async def test_a_story_that_never_ends_by_itself_is_caught() -> None:
    fault = await caught(anyio.Event().wait, timeout=60)
    assert (fault.fault, fault.point) == (CancelFault.STUCK, None)
    assert "did not end by itself within 60 s" in str(fault)


@virtual_time
async def test_a_story_that_spins_when_it_is_cancelled_is_caught() -> None:
    """It would keep a virtual clock, and so every timeout, from ever moving on."""

    async def story() -> None:
        try:
            await anyio.sleep(1)
        finally:
            with anyio.CancelScope(shield=True):
                while anyio.current_time() >= 0 and not finished:
                    await anyio.lowlevel.checkpoint()

    finished = [True]

    async def setup() -> None:
        if setups:
            finished.clear()
        setups.append(True)

    setups: list[bool] = []
    fault = await caught(story, setup=setup)
    assert fault.fault is CancelFault.STUCK
    assert "suspended 10000 times" in str(fault)


async def test_a_story_cancelled_by_another_hand_is_caught() -> None:
    async def story() -> None:
        await anyio.lowlevel.checkpoint()
        if on_asyncio():
            raise asyncio.CancelledError("of its own")
        raise KeyError  # trio's cannot be made by hand

    fault = await caught(story)
    assert (fault.fault, fault.point) == (CancelFault.RAISED, None)


# --- use and misuse ---------------------------------------------------------------------------------------


async def test_too_many_rounds_are_refused_before_they_begin() -> None:
    runs: list[bool] = []

    async def story() -> None:
        runs.append(True)
        for _ in range(100):
            await anyio.lowlevel.checkpoint()

    with pytest.raises(ValueError, match=r"100 suspensions.*over max_rounds=500"):
        await cancel_everywhere(story, max_rounds=500)
    assert len(runs) == 1


async def test_a_story_has_to_give_a_coroutine() -> None:
    with pytest.raises(TypeError, match="coroutine"):
        await cancel_everywhere(lambda: None)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("native", [False, True])
@virtual_time
async def test_a_sweep_can_be_cancelled_itself(native: bool) -> None:
    """It takes the round under way with it, and lets nothing of the story go on."""
    world = World()

    async def story() -> None:
        async with world.open():
            await anyio.sleep(5)

    for deadline in (2.5, 1000.5):
        with anyio.move_on_after(deadline) as scope:
            await cancel_everywhere(story, native=native, passes=1)
            await anyio.sleep_forever()
        assert scope.cancelled_caught
        await world.verify()


@virtual_time
async def test_a_sweep_leaves_no_listener_behind() -> None:
    from racer.testing._loops import current_jumps

    jumps = current_jumps()
    assert jumps is not None
    await cancel_everywhere(lambda: anyio.sleep(1))
    assert jumps.listeners == []


@on_both
def test_a_sweep_finds_the_same_points_each_time(backend: BackendName) -> None:
    async def story() -> None:
        near, far = stream_pair()
        async with near, far:
            await near.send(b"ping")
            await far.receive()
            await anyio.sleep(0.25)

    async def main() -> CancelSweep:
        return await cancel_everywhere(story)

    one, other = (run_virtual(main, backend=backend) for _ in range(2))
    assert (one.points, one.jumps) == (other.points, other.jumps)
    if backend == "asyncio":  # trio shuffles which task of a pass comes first
        assert one == other
