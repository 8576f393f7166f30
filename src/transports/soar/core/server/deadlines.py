"""Everything a server has to do later, in one heap."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from transports.soar.core.instants import Instant

__all__ = ("Alarm", "Deadlines")

_FEW: Final = 64  # a heap this small isn't worth tidying


class Alarm:
    """One thing to do later; `cancel` lets go at once of what it would have been done to."""

    __slots__ = ("_call", "when")

    def __init__(self, when: float, call: Callable[[Instant], None]) -> None:
        """Ring at `when`, in awake seconds."""
        self.when = when
        self._call: Callable[[Instant], None] | None = call

    @property
    def is_set(self) -> bool:
        """Whether it has neither rung nor been cancelled."""
        return self._call is not None


class Deadlines:
    """A heap of alarms. Setting one costs O(log n), cancelling O(1), and no packet ever looks through them.

    What was cancelled stays in the heap, emptied, until it is half of it.
    """

    __slots__ = ("_cancelled", "_heap", "_serial")

    def __init__(self) -> None:
        """Begin with none."""
        self._heap: list[tuple[float, int, Alarm]] = []
        self._serial = 0
        self._cancelled = 0

    def __len__(self) -> int:
        """Return how many are set."""
        return len(self._heap) - self._cancelled

    def set(self, when: float, call: Callable[[Instant], None]) -> Alarm:
        """Have `call` called with the time at the first `ring` at or after `when`; ties ring in order of setting."""
        alarm = Alarm(when, call)
        self._serial += 1
        heapq.heappush(self._heap, (when, self._serial, alarm))
        return alarm

    def cancel(self, alarm: Alarm) -> None:
        """See to it that `alarm` doesn't ring; one that has rung, or is cancelled already, is left alone."""
        if alarm._call is None:  # noqa: SLF001 - an alarm and its heap are one thing in two classes
            return
        alarm._call = None  # noqa: SLF001
        self._cancelled += 1
        if self._cancelled * 2 > len(self._heap) > _FEW:
            self._heap = [entry for entry in self._heap if entry[2].is_set]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def next(self) -> float | None:
        """Return when the next alarm rings, in awake seconds, or None."""
        heap = self._heap
        while heap and not heap[0][2].is_set:
            heapq.heappop(heap)
            self._cancelled -= 1
        return heap[0][0] if heap else None

    def ring(self, now: Instant) -> None:
        """Ring all that are due, earliest first, those included that are set meanwhile for now or earlier."""
        while (when := self.next()) is not None and when <= now.awake:
            alarm = heapq.heappop(self._heap)[2]
            call, alarm._call = alarm._call, None  # noqa: SLF001
            assert call is not None, "`next` has dropped the others"
            call(now)
