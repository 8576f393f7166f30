"""What the kits need from an event loop and anyio does not offer, for each loop in its own words."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from racer.testing._clocks import VirtualClockEventLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from racer.testing._clock_rules import Jumps

__all__ = (
    "NativeTask",
    "TaskGrip",
    "before_resumption",
    "current_jumps",
    "current_native_cancel",
    "grip_current_task",
    "on_asyncio",
)


def on_asyncio() -> bool:
    """Return whether the caller runs on asyncio (trio may run as a guest inside of it)."""
    return anyio.get_cancelled_exc_class() is asyncio.CancelledError


def current_jumps() -> Jumps | None:
    """Return whom the virtual clock of this run tells of its jumps, or None on a real clock."""
    if on_asyncio():
        loop = asyncio.get_running_loop()
        return loop.jumps if isinstance(loop, VirtualClockEventLoop) else None
    from racer.testing._trio_clock import current_trio_clock  # noqa: PLC0415 - trio is optional

    clock = current_trio_clock()
    return None if clock is None else clock.jumps


class NativeTask:
    """An asyncio task outside every anyio task group, to be cancelled by asyncio's own means."""

    def __init__(self, coroutine: Coroutine[Any, Any, None], *, name: str) -> None:
        """Start the coroutine."""
        self._task = asyncio.create_task(coroutine, name=name)

    def cancel(self) -> None:
        """Request cancellation, once, as ``asyncio.wait_for`` or ``asyncio.timeout`` would."""
        self._task.cancel()

    @property
    def cancelled(self) -> bool:
        """Whether it ended by cancellation."""
        return self._task.cancelled()

    async def wait(self) -> None:
        """Return when it has ended, and raise what it raised other than a cancellation."""
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()


def current_native_cancel() -> Callable[[], object]:
    """Return the ``cancel`` method of the asyncio task that calls."""
    return _current_task().cancel


def before_resumption(trap: object, callback: Callable[[], None]) -> None:
    """Have `callback` called when what an asyncio task waits for has happened, and it has not yet run.

    Call it while the task suspends, before it yields `trap` to the loop: callbacks of a future, and of the
    loop, run in the order in which they were asked for, and the task asks for its own after this.
    """
    if isinstance(trap, asyncio.Future):
        trap.add_done_callback(lambda _: callback())
    else:  # a bare yield, as in ``asyncio.sleep(0)``
        asyncio.get_running_loop().call_soon(callback)


class TaskGrip(Protocol):
    """A hold on a task that does not end when it is cancelled."""

    def throw(self, exc: Exception, trap: object) -> bool:
        """Throw into the task through every shield; return whether that could be done now.

        The task must be suspended, at `trap`. On asyncio a native cancellation takes the place of `exc`.
        """


def grip_current_task() -> TaskGrip:
    """Return a hold on the task that calls."""
    if on_asyncio():
        return _AsyncioGrip(_current_task())
    from racer.testing._trio_grip import TrioGrip  # noqa: PLC0415 - trio is optional

    return TrioGrip()


class _AsyncioGrip:
    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task

    def throw(self, exc: Exception, trap: object) -> bool:
        del exc, trap
        return self._task.cancel()


def _current_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None, "called from a callback"
    return task
