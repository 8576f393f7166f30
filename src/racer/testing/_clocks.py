"""Clocks that stand still while anything can run, and jump when nothing can.

A test that sleeps 24 hours ends at once, and sees exact times: a timer set for ``t`` fires when the
clock reads ``t``, not a rounding error earlier or later, on asyncio and on trio alike.

The rules are the same on both loops:

* The clock reads ``start`` (0.0) when a run begins, and moves only by jumping to the next timer.
* It jumps when no task is ready **and** one poll of the real sockets found nothing. Traffic on
  loopback therefore works, but a timer does not wait for it: with a timer pending, a peer that has not
  answered *yet* loses to the timer. Where that matters, set `ClockSettings.autojump_threshold`.
* With no timer pending and nothing ready, only the outside can wake the loop: a real socket, or
  another thread. The loop then really waits, for at most `ClockSettings.patience`. When there is no
  outside, or it stays silent, that is a deadlock, and the error names every task and where it waits.
* A program that is never idle would keep the clock from moving for ever. After
  `ClockSettings.max_passes` passes of the scheduler at one instant, that is an error too.

On asyncio both errors are raised out of the loop itself. Trio has no such way out: there the run's main
task is cancelled with the error as the reason, the error is logged, and `run_virtual` raises it.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, TypeVarTuple

import anyio

from racer.testing._clock_rules import ClockSettings, Jumps, deadlock, livelock
from racer.testing._whereabouts import whereabouts

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from racer.testing._trio_clock import TrioClock

__all__ = (
    "Backend",
    "BackendName",
    "VirtualClockEventLoop",
    "run_virtual",
    "virtual_backends",
)

T = TypeVar("T")
PosArgs = TypeVarTuple("PosArgs")

BackendName: TypeAlias = Literal["asyncio", "trio"]
"""The event loops that have a virtual clock."""

Backend: TypeAlias = tuple[str, dict[str, Any]]
"""What anyio takes as a backend: its name, and its options."""

_Ready: TypeAlias = list[tuple[selectors.SelectorKey, int]]
_Poll: TypeAlias = Callable[[float], _Ready]

_DEFAULT = ClockSettings()


def run_virtual(
    fn: Callable[[*PosArgs], Awaitable[T]],
    *args: *PosArgs,
    backend: BackendName = "asyncio",
    clock: ClockSettings = _DEFAULT,
) -> T:
    """Return what the async function `fn` returns, run to its end on a fresh virtual clock.

    For synchronous code: it makes an event loop, and closes it.

    Args:
        fn: The async function to run.
        *args: Its positional arguments.
        backend: The event loop to run on; only ``"trio"`` imports trio.
        clock: How the clock behaves.

    Raises:
        DeadlockError: No task can ever run again.
        LivelockError: The program is never idle, so the clock cannot move.

    Example:
        >>> import anyio
        >>> async def nap() -> float:
        ...     await anyio.sleep(8.25)
        ...     return anyio.current_time()
        >>> run_virtual(nap)
        8.25
    """
    if backend == "trio":
        return _trio_clock(clock).run(fn, *args)
    return anyio.run(fn, *args, backend=backend, backend_options=_asyncio_options(clock))


def virtual_backends(*, clock: ClockSettings = _DEFAULT) -> tuple[Backend, Backend]:
    """Return anyio's backend parameters for asyncio and for trio, each with a virtual clock.

    Every run on them begins anew at ``clock.start``: asyncio gets a loop *factory*, and the trio clock
    resets itself when a run begins. One trio clock serves one run at a time, so threads that run loops
    side by side each need a call of their own. Imports trio, which must be installed.

    Example:
        A fixture that puts every test of a module on both virtual clocks::

            @pytest.fixture(params=virtual_backends(), ids=lambda backend: backend[0])
            def anyio_backend(request):
                return request.param
    """
    trio_options = {"clock": _trio_clock(clock).mock_clock}
    return ("asyncio", _asyncio_options(clock)), ("trio", trio_options)


def _asyncio_options(clock: ClockSettings) -> dict[str, Any]:
    def loop_factory() -> VirtualClockEventLoop:
        return VirtualClockEventLoop(clock=clock)

    return {"loop_factory": loop_factory}


def _trio_clock(clock: ClockSettings) -> TrioClock:
    from racer.testing._trio_clock import TrioClock  # noqa: PLC0415 - trio is optional

    return TrioClock(clock)


class VirtualClockEventLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop whose clock jumps where another would wait.

    Use it as a loop factory, ``asyncio.Runner(loop_factory=VirtualClockEventLoop)``, or through
    `virtual_backends` and `run_virtual`. Threads may call ``call_soon_threadsafe`` as on any loop.

    Attributes:
        jumps: Whom to tell when the clock has jumped.
    """

    # The base class has kept both since Python 3.4; typeshed does not list them.
    _scheduled: list[asyncio.TimerHandle]
    _clock_resolution: float

    def __init__(self, *, clock: ClockSettings = _DEFAULT) -> None:
        """Make a loop whose clock reads ``clock.start``."""
        self._clock = clock
        self._passes = 0
        self.jumps = Jumps()
        self._jumping_selector = _JumpingSelector(self._stand_still)
        super().__init__(self._jumping_selector)
        self._set_time(clock.start)

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._now

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Wait for the executor's threads; `timeout` is not kept, since the threads live in real time."""
        del timeout
        await super().shutdown_default_executor()

    def _set_time(self, now: float) -> None:
        self._now = now
        # asyncio runs a timer up to one resolution early. With one unit in the last place nothing is
        # early: ``now + ulp(now)`` is the very next float, and only timers below it are due.
        self._clock_resolution = math.ulp(now)

    def _stand_still(self, poll: _Poll, timeout: float | None) -> _Ready:
        """Answer the loop's question for events; `timeout` is None when it has no timer."""
        events = poll(0)
        if events:
            self._passes = 0
            return events
        if timeout is not None and timeout <= 0:
            self._passes += 1
            if self._passes > self._clock.max_passes:
                self._passes = 0
                raise livelock(self._now, self._clock.max_passes, self._tasks())
            return events
        self._passes = 0
        # anyio.sleep_forever sets a timer at infinity, which is none.
        if timeout is not None and self._scheduled[0].when() < math.inf:
            return self._jump(poll)
        if self._has_outside():
            events = _wait_really(poll, self._clock.patience)
        if not events:
            raise deadlock(self._now, self._tasks())
        return events

    def _jump(self, poll: _Poll) -> _Ready:
        if self._clock.autojump_threshold > 0 and self._has_outside():
            events = _wait_really(poll, self._clock.autojump_threshold)
            if events:
                return events
        # The loop has just dropped cancelled timers from the head, so this one will run.
        self._set_time(max(self._now, self._scheduled[0].when()))
        self.jumps.note()
        return []

    def _has_outside(self) -> bool:
        """Say whether anything but this loop's own tasks could wake it."""
        registered = len(self._jumping_selector.get_map())
        return registered > 1 or threading.active_count() > 1  # one is the loop's own wake-up pipe

    def _tasks(self) -> list[str]:
        return [
            f"{task.get_name()} ({whereabouts(task.get_coro())})"
            for task in asyncio.all_tasks(self)
        ]


class _JumpingSelector(selectors.DefaultSelector):
    """The system's selector, which asks the loop's clock before it would wait."""

    def __init__(self, stand_still: Callable[[_Poll, float | None], _Ready]) -> None:
        super().__init__()
        self._stand_still = stand_still

    def select(self, timeout: float | None = None) -> _Ready:
        return self._stand_still(super().select, timeout)


def _wait_really(poll: _Poll, seconds: float) -> _Ready:
    """Wait up to `seconds` of real time for events; a signal may end a single poll early."""
    until = time.monotonic() + seconds
    events: _Ready = []
    while not events and (left := until - time.monotonic()) > 0:
        events = poll(min(left, threading.TIMEOUT_MAX))
    return events
