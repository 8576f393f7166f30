"""Trio's mock clock made exact, reusable and able to tell a deadlock; see `racer.testing._clocks`.

Trio lets only its own, final `MockClock` jump by itself. Its public methods are therefore replaced on
the instance, and the clock keeps nothing of its own but the threshold:

* A jump lands on the deadline itself. MockClock adds the distance to it, which rounds.
* A run begins at ``start`` whenever it begins, so one instance serves runs one after the other.
* A program without a timer in which nothing can run would poll for ever, at full load. Here it polls a
  thousand times a second for as long as the outside may still wake it, and then fails.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

import trio
from trio.testing import MockClock

from racer.testing._clock_rules import Jumps, deadlock, livelock
from racer.testing._whereabouts import described

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from racer.testing._clock_rules import ClockSettings, DeadlockError, LivelockError

__all__ = ("TrioClock", "current_trio_clock")

T = TypeVar("T")
PosArgs = TypeVarTuple("PosArgs")

_log = logging.getLogger("racer.testing")

_POLL_SECONDS = 0.001  # how often a program without timers looks whether the outside woke it
_LONG = 86_400.0  # trio's own limit for one wait: the threshold is what ends it
_IDLE_READERS = 1  # trio itself waits for its wake-up socket


class TrioClock(trio.abc.Instrument):
    """The mind behind one `MockClock`: what time it is, and whether the run is stuck.

    Attributes:
        mock_clock: What to give to trio, as ``clock=``.
        failure: Why the current run was cancelled by its clock; None if it was not.
        jumps: Whom to tell when the clock has jumped; empty when a run begins.
    """

    def __init__(self, settings: ClockSettings) -> None:
        """Make a clock that reads ``settings.start`` when a run begins."""
        self._settings = settings
        self.failure: DeadlockError | LivelockError | None = None
        self.mock_clock = MockClock(autojump_threshold=settings.autojump_threshold)
        self._start_mock_clock = self.mock_clock.start_clock
        self.mock_clock.start_clock = self._start  # type: ignore[method-assign]
        self.mock_clock.current_time = self._time  # type: ignore[method-assign]
        self.mock_clock.jump = self._jump  # type: ignore[method-assign]
        self.mock_clock.deadline_to_sleep_time = self._sleep_time  # type: ignore[method-assign]
        self._reset()

    def run(self, fn: Callable[[*PosArgs], Awaitable[T]], *args: *PosArgs) -> T:
        """Return what `fn` returns, run on this clock; raises why the clock has cancelled it, if it has."""

        async def main() -> T:
            return await fn(*args)

        try:
            return trio.run(main, clock=self.mock_clock)
        except BaseException as exc:
            if self.failure is not None:
                raise self.failure from exc
            raise

    def _reset(self) -> None:
        self.failure = None
        self._now = self._settings.start
        self._next_deadline = math.inf
        self.jumps = Jumps()
        self._passes = 0
        self._has_nothing_ready = False
        self._idle_passes = 0
        self._idle_since = 0.0

    def _start(self) -> None:
        self._reset()
        self._start_mock_clock()
        trio.lowlevel.add_instrument(self)

    def _time(self) -> float:
        return self._now

    def _jump(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("time can't go backwards")
        to_deadline = seconds == self._next_deadline - self._now
        self._now = self._next_deadline if to_deadline else self._now + seconds
        self._passes = 0
        self.jumps.note()

    def _sleep_time(self, deadline: float) -> float:
        """Answer how long to wait; trio asks when no task is ready, with its next deadline."""
        self._next_deadline = deadline
        self._has_nothing_ready = True
        if deadline <= self._now:
            return 0
        if deadline == math.inf:
            self._nothing_to_wait_for()
        return _LONG

    def _nothing_to_wait_for(self) -> None:
        self._idle_passes += 1
        if self._idle_passes == 1:
            # Trio wakes tasks that wait for quiet only after this, so one idle pass says nothing.
            self._idle_since = time.monotonic()
        elif self._has_outside() and self._idle_for() < self._settings.patience:
            time.sleep(_POLL_SECONDS)  # nobody else is there to be held up
        else:
            self._fail(deadlock(self._now, _tasks()))

    def _idle_for(self) -> float:
        return time.monotonic() - self._idle_since

    def _has_outside(self) -> bool:
        """Say whether anything but this run's own tasks could wake it."""
        io = trio.lowlevel.current_statistics().io_statistics
        readers = getattr(io, "tasks_waiting_read", 0)
        writers = getattr(io, "tasks_waiting_write", 0)
        others = getattr(io, "tasks_waiting_overlapped", 0)  # Windows
        sockets = readers + writers + others > _IDLE_READERS
        return sockets or threading.active_count() > 1

    def _fail(self, failure: DeadlockError | LivelockError) -> None:
        if self.failure is not None:
            if self._idle_for() > self._settings.patience:
                # Cancelled long ago, and a shield waits for what never comes: let trio crash.
                raise failure
            time.sleep(_POLL_SECONDS)
            return
        self.failure = failure
        self._idle_since = time.monotonic()
        _log.critical("%s", failure)
        _cancel_main(str(failure))

    # What trio tells an instrument.

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        """Note that something can run again."""
        del task
        self._idle_passes = 0

    def before_io_wait(self, timeout: float) -> None:
        """Count the passes in a row that had something ready, so that the clock could not jump."""
        del timeout
        self._passes = 0 if self._has_nothing_ready else self._passes + 1
        self._has_nothing_ready = False
        if self._passes > self._settings.max_passes and self.failure is None:
            self._fail(livelock(self._now, self._settings.max_passes, _tasks()))


def current_trio_clock() -> TrioClock | None:
    """Return the mind of the clock that this trio run uses, or None if it is not one of ours."""
    clock = trio.lowlevel.current_clock()
    mind = getattr(getattr(clock, "jump", None), "__self__", None)
    return mind if isinstance(mind, TrioClock) else None


def _cancel_main(reason: str) -> None:
    """Cancel the run's main task, which lives in the youngest of the root task's nurseries."""
    root = trio.lowlevel.current_root_task()
    if root is None or not root.child_nurseries:
        return
    root.child_nurseries[-1].cancel_scope.cancel(reason=reason)


def _tasks() -> list[str]:
    """Return each of the program's tasks with where it waits; trio's own are left out."""
    root = trio.lowlevel.current_root_task()
    return [_described(task) for task in _descendants(root)] if root is not None else []


def _descendants(task: trio.lowlevel.Task) -> Iterator[trio.lowlevel.Task]:
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            if not child.name.startswith("<"):  # such as '<TrioToken.run_sync_soon task>'
                yield child
            yield from _descendants(child)


def _described(task: trio.lowlevel.Task) -> str:
    frames = [frame for frame, _ in task.iter_await_frames()]
    return f"{task.name} ({described(frames)})"
