"""Where a story is cancelled, what came of it, and what can be wrong with a story."""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = (
    "CancelFault",
    "CancelKind",
    "CancelMoment",
    "CancelPoint",
    "CancelSweep",
    "CancellationMishandled",
)


class CancelKind(enum.Enum):
    """By whose means a round cancels."""

    SCOPE = "scope"
    """An anyio cancel scope around the story: at each wait, until it has ended."""
    NATIVE = "native"
    """asyncio's own ``task.cancel()``, as `asyncio.wait_for` does it: once, and through shields."""


class CancelMoment(enum.Enum):
    """What a point's passes are counted from."""

    SUSPENDED = "suspended"
    """The story has begun to wait."""
    RESUMED = "resumed"
    """What it waited for has happened, and its code has not run yet: the instant of a win."""
    JUMPED = "jumped"
    """The virtual clock has jumped, and the timers of that instant have not run yet."""


class CancelFault(enum.Enum):
    """What was wrong with a story."""

    LEAKED = "leaked"
    """`verify` raised."""
    RAISED = "raised"
    """It raised something else than the cancellation, or raised without one."""
    STUCK = "stuck"
    """It did not end."""
    SWALLOWED = "swallowed"
    """The cancellation was raised in it, and it returned as if nothing had happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelPoint:
    """Where a round cancels its story.

    Attributes:
        kind: By whose means.
        moment: What `index` and `passes` count from.
        index: Which suspension of the story, or which jump of the clock since it began; from 0.
        passes: Passes of the scheduler after the moment.
        where: The line of code at which the story waits, for a suspension.
    """

    kind: CancelKind
    moment: CancelMoment
    index: int
    passes: int = 0
    where: str = ""

    def __str__(self) -> str:
        """Return the point in words."""
        if self.moment is CancelMoment.RESUMED:
            when = f"on resumption from suspension {self.index}"
        else:
            since = "suspension" if self.moment is CancelMoment.SUSPENDED else "jump of the clock"
            when = f"{self.passes} passes after {since} {self.index}"
        where = f" ({self.where})" if self.where else ""
        return f"{self.kind.value} cancel {when}{where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelSweep:
    """What `cancel_everywhere` has done; a test should demand that it cut something.

    Attributes:
        rounds: Runs of the story that were to be cancelled.
        cancelled: Of these, the ones that ended by it.
        completed: Of these, the ones that had ended, or had nothing left to wait for.
        points: How often the story suspends when nobody cancels it.
        jumps: How often the virtual clock jumps meanwhile; 0 on a real clock.
    """

    rounds: int
    cancelled: int
    completed: int
    points: int
    jumps: int


class CancellationMishandled(AssertionError):
    """A story did not take a cancellation as it must.

    Attributes:
        fault: What was wrong.
        point: Where it was cancelled; None for the first run, which is not.
    """

    def __init__(self, message: str, *, fault: CancelFault, point: CancelPoint | None) -> None:
        """Keep the facts beside the words."""
        super().__init__(message)
        self.fault = fault
        self.point = point
