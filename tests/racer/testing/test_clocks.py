"""Virtual clocks: exact times, no waiting, and clear words when time cannot pass."""

from __future__ import annotations

import logging
import math
import random
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest
import trio
from anyio.abc import SocketAttribute, SocketStream

from racer.testing import (
    BackendName,
    ClockSettings,
    DeadlockError,
    LivelockError,
    run_virtual,
    virtual_backends,
)
from racer.testing._loops import current_jumps

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

BACKENDS: tuple[BackendName, ...] = ("asyncio", "trio")
IMPATIENT = ClockSettings(patience=0.05)  # for runs in which nothing will ever come

on_both = pytest.mark.parametrize("backend", BACKENDS)


async def nap(*seconds: float) -> float:
    for each in seconds:
        await anyio.sleep(each)
    return anyio.current_time()


@on_both
def test_a_day_passes_at_once(backend: BackendName) -> None:
    began = time.monotonic()
    assert run_virtual(nap, 86_400.0, 0.25, backend=backend) == 86_400.25
    assert time.monotonic() - began < 60


@on_both
def test_each_timer_fires_at_its_own_float(backend: BackendName) -> None:
    """Timers one unit in the last place apart stay apart, at every magnitude."""

    async def story() -> list[tuple[float, float]]:
        dice = random.Random(0)
        asked = [dice.random() * scale for scale in (1e-6, 1.0, 1e3, 1e6) for _ in range(200)]
        asked += [math.nextafter(t, math.inf) for t in asked]
        late: list[tuple[float, float]] = []

        async def check(t: float) -> None:
            await anyio.sleep_until(t)
            if anyio.current_time() != t:
                late.append((t, anyio.current_time()))

        async with anyio.create_task_group() as tg:
            for t in asked:
                tg.start_soon(check, t)
        return late

    assert run_virtual(story, backend=backend) == []


@on_both
def test_a_deadline_is_exact_too(backend: BackendName) -> None:
    async def story() -> float:
        with anyio.move_on_after(0.3):
            await anyio.sleep_forever()
        return anyio.current_time()

    assert run_virtual(story, backend=backend) == 0.3


@on_both
def test_the_clock_starts_where_it_is_told(backend: BackendName) -> None:
    settings = ClockSettings(start=1000.0)
    assert run_virtual(nap, backend=backend, clock=settings) == 1000.0
    assert run_virtual(nap, 8.25, backend=backend, clock=settings) == 1008.25


@on_both
def test_time_stands_still_while_tasks_are_ready(backend: BackendName) -> None:
    async def story() -> float:
        async with anyio.create_task_group() as tg:
            tg.start_soon(anyio.sleep, 1)
            for _ in range(1000):
                await anyio.lowlevel.checkpoint()
            passed = anyio.current_time()
        assert anyio.current_time() == 1
        return passed

    assert run_virtual(story, backend=backend) == 0


@on_both
def test_blocking_work_takes_no_virtual_time(backend: BackendName) -> None:
    async def story() -> float:
        sum(range(100_000))
        return anyio.current_time()

    assert run_virtual(story, backend=backend) == 0


def test_trio_can_still_jump_by_hand() -> None:
    async def story() -> tuple[float, ...]:
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        clock.jump(2.5)
        with pytest.raises(ValueError, match="backwards"):
            clock.jump(-1)
        await anyio.sleep(0.5)
        return trio.current_time(), anyio.current_time()

    assert run_virtual(story, backend="trio") == (3.0, 3.0)


def test_waiting_for_quiet_comes_before_the_next_timer() -> None:
    """Trio's `wait_all_tasks_blocked` returns before the clock jumps, with and without timers."""

    async def story(timer: float) -> float:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, timer)
            await trio.testing.wait_all_tasks_blocked()
            quiet_at = trio.current_time()
            nursery.cancel_scope.cancel()
        return quiet_at

    assert run_virtual(story, 5, backend="trio") == 0
    assert run_virtual(story, math.inf, backend="trio") == 0


# --- fresh clocks -----------------------------------------------------------------------------


def test_backends_serve_one_run_after_the_other_from_zero() -> None:
    for name, options in virtual_backends():
        for _ in range(2):
            assert anyio.run(nap, 8.25, backend=name, backend_options=options) == 8.25


@pytest.mark.virtual_time
async def test_the_suite_runs_on_a_fresh_clock() -> None:
    assert anyio.current_time() == 0
    await anyio.sleep(8.25)
    assert anyio.current_time() == 8.25


@pytest.mark.virtual_time
async def test_the_suite_runs_on_another_fresh_clock() -> None:
    assert anyio.current_time() == 0
    await anyio.sleep(1.25)


def test_trio_is_not_imported_for_an_asyncio_clock() -> None:
    program = (
        "import sys, anyio\n"
        "from racer.testing import run_virtual\n"
        "run_virtual(anyio.sleep, 8.25)\n"
        "assert 'trio' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    "wrong",
    [{"start": -1.0}, {"start": math.inf}, {"patience": -1.0}, {"autojump_threshold": math.nan}],
)
def test_settings_that_no_clock_can_keep_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ClockSettings(**wrong)  # type: ignore[arg-type]


def test_a_clock_needs_at_least_one_pass() -> None:
    with pytest.raises(ValueError, match="max_passes"):
        ClockSettings(max_passes=0)


@on_both
def test_listeners_learn_of_each_jump_before_its_timers_run(backend: BackendName) -> None:
    async def story() -> list[tuple[str, float]]:
        jumps = current_jumps()
        assert jumps is not None
        seen: list[tuple[str, float]] = []
        jumps.listeners.append(lambda: seen.append(("jump", anyio.current_time())))
        with anyio.move_on_after(0.1):
            await anyio.lowlevel.checkpoint()  # a timer that never fires is no reason to jump
        for seconds in (0.25, 0.5):
            await anyio.sleep(seconds)
            seen.append(("timer", anyio.current_time()))
        return seen

    assert run_virtual(story, backend=backend) == [
        ("jump", 0.25),
        ("timer", 0.25),
        ("jump", 0.75),
        ("timer", 0.75),
    ]


async def test_a_real_clock_does_not_jump() -> None:
    assert current_jumps() is None


# --- when time cannot pass ----------------------------------------------------------------------


async def wait_for_nothing() -> None:
    await anyio.Event().wait()


@on_both
def test_a_deadlock_names_who_waits_and_where(
    backend: BackendName, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with anyio.create_task_group() as tg:
            tg.start_soon(wait_for_nothing, name="the-forgotten")
            await anyio.sleep(1.5)

    with caplog.at_level(logging.CRITICAL), pytest.raises(DeadlockError) as caught:
        run_virtual(story, backend=backend, clock=IMPATIENT)
    text = str(caught.value)
    assert "t=1.5" in text
    assert "the-forgotten (test_clocks.py:" in text
    assert "in wait_for_nothing, in Event.wait" in text


@on_both
def test_sleeping_for_ever_is_a_deadlock_and_not_a_jump_to_infinity(backend: BackendName) -> None:
    with pytest.raises(DeadlockError, match=r"t=0\.0"):
        run_virtual(anyio.sleep_forever, backend=backend, clock=IMPATIENT)


@on_both
def test_a_deadlocked_run_still_cleans_up(backend: BackendName) -> None:
    cleaned = []

    async def story() -> None:
        try:
            await wait_for_nothing()
        finally:
            cleaned.append(True)

    with pytest.raises(DeadlockError):
        run_virtual(story, backend=backend, clock=IMPATIENT)
    assert cleaned == [True]


def test_a_deadlock_behind_a_shield_ends_a_trio_run_too() -> None:
    """Nothing can cancel it, so trio has to crash; the remains of that stay out of this process."""
    program = """if True:
        import anyio
        from racer.testing import ClockSettings, DeadlockError, run_virtual

        async def story():
            with anyio.CancelScope(shield=True):
                await anyio.Event().wait()

        try:
            run_virtual(story, backend="trio", clock=ClockSettings(patience=0.05))
        except DeadlockError as exc:
            print(exc)
    """
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=50
    )
    assert "deadlock at t=0.0" in done.stdout


def test_a_trio_run_after_a_deadlock_is_a_new_one() -> None:
    (_, _), (name, options) = virtual_backends(clock=IMPATIENT)
    with pytest.raises(trio.Cancelled):
        anyio.run(wait_for_nothing, backend=name, backend_options=options)
    assert anyio.run(nap, 0.5, backend=name, backend_options=options) == 0.5


@on_both
def test_a_program_that_is_never_idle_is_reported(backend: BackendName) -> None:
    async def spin() -> None:
        while True:
            await anyio.lowlevel.checkpoint()

    async def story() -> None:
        async with anyio.create_task_group() as tg:
            tg.start_soon(spin, name="the-spinner")
            await anyio.sleep(1)

    with pytest.raises(LivelockError, match=r"cannot leave t=0\.0.*1000 passes.*the-spinner"):
        run_virtual(story, backend=backend, clock=ClockSettings(max_passes=1000))


@on_both
def test_the_programs_own_error_is_not_taken_for_a_standstill(backend: BackendName) -> None:
    async def story() -> None:
        await anyio.sleep(1)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run_virtual(story, backend=backend)


# --- the outside --------------------------------------------------------------------------------


@on_both
def test_real_sockets_work_beside_the_clock(backend: BackendName) -> None:
    async def answer(stream: SocketStream) -> None:
        async with stream:
            await stream.send(b"hello")

    async def story() -> tuple[bytes, float]:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(SocketAttribute.local_port)
        async with listener, anyio.create_task_group() as tg:
            tg.start_soon(listener.serve, answer)
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                words = await stream.receive()
            tg.cancel_scope.cancel()
        await anyio.sleep(0.25)
        return words, anyio.current_time()

    assert run_virtual(story, backend=backend) == (b"hello", 0.25)


@on_both
def test_data_that_is_there_beats_the_timer(backend: BackendName) -> None:
    async def story() -> bytes:
        left, right = socket.socketpair()
        with left, right:
            left.setblocking(False)
            right.send(b"here")
            with anyio.fail_after(0.001):
                await anyio.wait_readable(left)
            return left.recv(10)

    assert run_virtual(story, backend=backend) == b"here"


@on_both
def test_a_worker_thread_is_waited_for_when_there_is_no_timer(backend: BackendName) -> None:
    go = threading.Event()

    def work() -> str:
        assert go.wait(30)
        return "done"

    async def story() -> str:
        result = []

        async def in_thread() -> None:
            result.append(await anyio.to_thread.run_sync(work))

        async with anyio.create_task_group() as tg:
            tg.start_soon(in_thread)
            await anyio.sleep(5)  # no real time passes here
            assert result == []
            go.set()
        return result[0]

    assert run_virtual(story, backend=backend, clock=ClockSettings(patience=30)) == "done"


@on_both
def test_a_silent_socket_is_a_deadlock_in_the_end(backend: BackendName) -> None:
    async def story() -> None:
        left, right = socket.socketpair()
        with left, right:
            await anyio.wait_readable(left)

    with pytest.raises(DeadlockError, match="story"):
        run_virtual(story, backend=backend, clock=IMPATIENT)


@on_both
def test_a_threshold_lets_the_outside_answer_before_the_timer(backend: BackendName) -> None:
    """The thread answers when the timer is already pending; without a threshold the timer wins."""

    async def story() -> str:
        with anyio.move_on_after(1000):
            return await anyio.to_thread.run_sync(lambda: "thread", abandon_on_cancel=True)
        return "timer"

    patient = ClockSettings(autojump_threshold=30.0)
    assert run_virtual(story, backend=backend, clock=patient) == "thread"


def test_a_threshold_costs_nothing_where_nobody_could_answer() -> None:
    def alone() -> None:
        assert run_virtual(nap, 5, clock=ClockSettings(autojump_threshold=3600)) == 5

    if threading.active_count() == 1:  # another test's idle worker could answer, for all we know
        alone()
    else:
        program = (
            "import anyio; from racer.testing import ClockSettings, run_virtual\n"
            "run_virtual(anyio.sleep, 5, clock=ClockSettings(autojump_threshold=3600))\n"
        )
        subprocess.run([sys.executable, "-c", program], check=True, timeout=50)


def test_sync_code_may_run_virtual_stories_in_turn() -> None:
    runs: list[Callable[[], Awaitable[float]]] = [nap, nap]
    assert [run_virtual(fn, backend=backend) for fn in runs for backend in BACKENDS] == [0.0] * 4
