"""One run of a story, cancelled at one point, and the verdict on it."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from racer.testing._loops import (
    NativeTask,
    TaskGrip,
    before_resumption,
    current_jumps,
    current_native_cancel,
    grip_current_task,
)
from racer.testing._points import CancelFault, CancelKind, CancellationMishandled, CancelMoment
from racer.testing._probe import MAX_SUSPENSIONS, Abandoned, Probe

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from racer.testing._points import CancelPoint

__all__ = ("Round",)

_log = logging.getLogger("racer.testing")

_EVICTIONS = 50  # times that a story which does not end has an exception thrown into it
_PASSES_BETWEEN = 10  # for the story's cleanup


class Round:
    """Runs a story's coroutine in a task of its own and cancels it once.

    Attributes:
        places: Where the story waited at each of its suspensions; only when it is not to be cancelled.
        jumps: How often the virtual clock jumped while it ran.
        cancelled: Whether it ended by being cancelled.
        late: Whether the cancellation came when the point had passed: the story was waiting elsewhere, or
            had ended.
    """

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, object],
        point: CancelPoint | None,
        *,
        grace: float,
        timeout: float,
    ) -> None:
        """Prepare the round; `point` is None for a run without cancellation."""
        self.places: list[str] = []
        self.jumps = 0
        self.cancelled = False
        self.late = False
        self._point = point
        self._grace = grace
        self._timeout = timeout
        self._probe = Probe(coroutine, self)
        self._native = point is not None and point.kind is CancelKind.NATIVE
        self._reason = f"cancel_everywhere: {point}"
        self._cancelled_class = anyio.get_cancelled_exc_class()
        self._cancel: Callable[[], object] | None = None
        self._grip: TaskGrip | None = None
        self._requested = False
        self._delivered = False
        self._reached = anyio.Event()
        self._ended = anyio.Event()
        self._error: Exception | None = None
        self._stuck = ""

    async def run(self) -> None:
        """Play the round to its end."""
        clock = current_jumps()
        if clock is not None:
            clock.listeners.append(self._jumped)
        try:
            if self._native:
                await self._run_native()
            else:
                await self._run_scoped()
        finally:
            if clock is not None:
                clock.listeners.remove(self._jumped)

    def raise_fault(self) -> None:
        """Raise what was wrong with the story, if anything was.

        Raises:
            CancellationMishandled: Names the point.
        """
        if self._probe.endless:
            self._fail(
                CancelFault.STUCK, f"the story suspended {MAX_SUSPENSIONS} times, and goes on"
            )
        if self._stuck:
            self._fail(CancelFault.STUCK, self._stuck)
        if self._error is not None:
            when = "after the cancellation" if self._requested else "without being cancelled"
            self._fail(CancelFault.RAISED, f"the story raised {self._error!r} {when}")
        if self._probe.returned and self._delivered:
            self._fail(CancelFault.SWALLOWED, "the story swallowed the cancellation and returned")
        if not self._probe.returned and not self.cancelled:
            self._fail(
                CancelFault.RAISED, "the story ended by a cancellation that was not this one"
            )

    def _fail(self, fault: CancelFault, text: str) -> None:
        where = str(self._point) if self._point is not None else "not cancelled"
        raise CancellationMishandled(
            f"{where}: {text}", fault=fault, point=self._point
        ) from self._error

    # The story's side.

    async def _run_scoped(self) -> None:
        async with anyio.create_task_group() as tg:
            tg.start_soon(self._live_in_scope, name=self._task_name())
            await self._steer()

    async def _run_native(self) -> None:
        task = NativeTask(self._live(), name=self._task_name())
        try:
            await self._steer()
        except BaseException:  # the sweep itself is cancelled
            task.cancel()
            with anyio.move_on_after(self._grace, shield=True):
                await task.wait()
            raise
        if self._ended.is_set():  # else it has been given up
            await task.wait()
        self.cancelled = task.cancelled

    def _task_name(self) -> str:
        return f"story, {self._point or 'not cancelled'}"

    async def _live_in_scope(self) -> None:
        with anyio.CancelScope() as scope:
            self._cancel = partial(scope.cancel, self._reason)
            await self._live()
        self.cancelled = scope.cancelled_caught

    async def _live(self) -> None:
        self._grip = grip_current_task()
        if self._native:
            self._cancel = current_native_cancel()
        try:
            await self._probe
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is the verdict
            self._error = exc
        finally:
            self._ended.set()
            self._reached.set()

    # The watcher's side: all of it runs synchronously, inside the story's task or the clock.

    def suspended(self, index: int, trap: object) -> None:
        """Hear that the story suspends."""
        if self._point is None:
            self.places.append(self._probe.whereabouts())
        elif self._is_at(CancelMoment.SUSPENDED, index):
            self._arrive()
        elif self._native and self._is_at(CancelMoment.RESUMED, index):
            before_resumption(trap, self._arrive)

    def resumed(self, index: int) -> None:
        """Hear that the story goes on."""
        # A scope cannot take back what has happened: both loops deliver it at the story's next wait.
        if self._is_at(CancelMoment.RESUMED, index) and not self._requested:
            self._arrive()

    def thrown(self, exc: BaseException) -> None:
        """Hear that the loop throws something into the story."""
        if not self._requested or not isinstance(exc, self._cancelled_class):
            return
        # A scope of the story's own may end a wait behind a shield; a native cancellation knows no shields.
        if self._native or self._reason in str(exc):
            self._delivered = True

    def _jumped(self) -> None:
        if self._is_at(CancelMoment.JUMPED, self.jumps):
            self._arrive()
        if not self._ended.is_set():
            self.jumps += 1

    def _is_at(self, moment: CancelMoment, index: int) -> bool:
        point = self._point
        return point is not None and point.moment is moment and point.index == index

    def _arrive(self) -> None:
        """Note that the point's moment has come, and cancel unless passes are to follow."""
        self._reached.set()
        if self._point is not None and self._point.passes == 0:
            self._request()

    def _request(self) -> None:
        if not self._requested and not self._ended.is_set() and self._cancel is not None:
            self._requested = True
            self._cancel()

    # The round's side.

    async def _steer(self) -> None:
        """Cancel at the point's pass, and return when the story has ended or is given up."""
        with anyio.move_on_after(self._timeout):
            await self._reached.wait()
        if not self._reached.is_set():
            await self._give_up(f"the story did not end by itself within {self._timeout} s")
            return
        if self._point is not None and self._point.passes > 0:
            for _ in range(self._point.passes - 1):  # to be woken took the first
                await anyio.lowlevel.checkpoint()
            self.late = self._has_passed(self._point)
            self._request()
        with anyio.move_on_after(self._grace):
            await self._ended.wait()
        if not self._ended.is_set():
            await self._give_up(f"the story did not end within {self._grace} s of the cancellation")

    def _has_passed(self, point: CancelPoint) -> bool:
        if point.moment is CancelMoment.SUSPENDED and self._probe.suspensions > point.index + 1:
            return True
        return self._ended.is_set()

    async def _give_up(self, why: str) -> None:
        """Note why the story is stuck, and end it by force, so that the sweep can say so."""
        self._stuck = f"{why}; it waits at {self._probe.whereabouts()}"
        self._request()
        for _ in range(_EVICTIONS):
            if self._ended.is_set():
                return
            if self._grip is not None:
                self._grip.throw(Abandoned(why), self._probe.trap)
            for _ in range(_PASSES_BETWEEN):
                await anyio.lowlevel.checkpoint()
        if not self._ended.is_set():
            _log.critical("%s: %s; it cannot be ended by force", self._point, self._stuck)
