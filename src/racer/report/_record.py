"""What a report says of the network: how long each entrant took, or how long it was watched without an end. Pure."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from racer._report import Attempt, Outcome
from racer._words import one_line
from racer.errors import InvalidReport

if TYPE_CHECKING:
    from racer._report import RaceReport

__all__ = ("Ending", "Entry", "Record")


_HAIR: Final = 1e-8  # seconds; more than sums of floats round, less than any two instants differ


class Ending(enum.Enum):
    """How an attempt ended, as far as the network had a say in it."""

    USABLE = "usable"
    """It gave a stream."""
    DISMISSED = "dismissed"
    """It gave a stream, and whoever asked for the race went on to the next one."""
    FAILED = "failed"
    OWN_TIME = "own time"
    """Its own time was over: what it would have done later is not known."""
    UNSEEN = "unseen"
    """It was cut off, or never began: all that is known is that it had no end until then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entrant of a recorded race.

    Attributes:
        attempt: its part as it was recorded.
        ending: how it ended.
        seconds: from its start to that end; for `UNSEEN`, how long it was watched without one.
    """

    attempt: Attempt
    ending: Ending
    seconds: float

    @property
    def own_time(self) -> float:
        """Seconds after which its own time ends it if nothing else does; infinite where nobody knows.

        One that came to an end takes as long as it took, and one that was watched for longer than it had, because the
        event loop was late, is not ended before.
        """
        timeout = self.attempt.timeout
        if self.ending is not Ending.UNSEEN or timeout is None:
            return math.inf
        return max(timeout, self.seconds + _HAIR)

    def finished_by(self, started_at: float) -> float:
        """Return the instant at which it ends, or is out of sight, when it starts at `started_at`.

        At the recorded start this is exactly the recorded instant: sums of floats would miss it by a rounding.
        """
        began, ended = self.attempt.started_at, self.attempt.finished_at
        if began == started_at and ended is not None:
            return ended
        return started_at + self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A recorded race, read as what the network gave.

    Attributes:
        report: the race.
        entries: those who could race, in the order of the report: in that of their start, then of their turn.
        apart: those who could not.
        horizon: seconds until the caller went away, or the report was taken of a race that went on; infinite for a race
            that came to its own end.
        held: whether streams were handed out and sent back, for times that no report holds.
    """

    report: RaceReport
    entries: tuple[Entry, ...]
    apart: tuple[Attempt, ...]
    horizon: float
    held: bool

    @classmethod
    def of(cls, report: RaceReport) -> Record:
        """Return what `report` says.

        Raises:
            InvalidReport: it contradicts itself; says where.
        """
        _check(report)
        open_end = report.outcome in {Outcome.CANCELLED, Outcome.NOT_STARTED}
        entries = tuple(
            _entry(attempt, report)
            for attempt in report.attempts
            if attempt.outcome is not Outcome.INELIGIBLE
        )
        return cls(
            report=report,
            entries=entries,
            apart=tuple(a for a in report.attempts if a.outcome is Outcome.INELIGIBLE),
            horizon=report.duration if open_end else math.inf,
            held=any(entry.ending is Ending.DISMISSED for entry in entries),
        )

    @property
    def starts_at_horizon(self) -> bool:
        """Whether what was due in the very instant of the horizon still began: either order can happen."""
        return any(entry.attempt.started_at == self.horizon for entry in self.entries)


def _entry(attempt: Attempt, report: RaceReport) -> Entry:
    if attempt.started_at is None:
        return Entry(attempt=attempt, ending=Ending.UNSEEN, seconds=0.0)
    until = report.duration if attempt.finished_at is None else attempt.finished_at
    # To the nanosecond: what a difference of floats has below that would tell apart what happened in one instant.
    seconds = round(max(until - attempt.started_at, 0.0), 9)
    ending = Ending.UNSEEN
    if attempt.outcome is Outcome.CONNECTED:
        won = attempt.transport == report.winner
        ending = Ending.USABLE if won else Ending.DISMISSED
    elif attempt.outcome is Outcome.CONNECT_FAILED:
        ending = Ending.FAILED
    elif attempt.outcome is Outcome.TIMED_OUT and not (
        # The race's own deadline cut it off: both are told with the same instant.
        report.outcome is Outcome.TIMED_OUT and until >= report.duration
    ):
        ending = Ending.OWN_TIME
    return Entry(attempt=attempt, ending=ending, seconds=seconds)


def _check(report: RaceReport) -> None:
    """Refuse a report that no race can have written: what is read from a file need not be one."""
    seen: set[str] = set()
    for attempt in report.attempts:
        name = one_line(attempt.transport)[:40]
        if attempt.transport in seen:
            msg = f"two attempts are called {name!r}"
            raise InvalidReport(msg)
        seen.add(attempt.transport)
        began, ended = attempt.started_at, attempt.finished_at
        if began is None and attempt.outcome not in {Outcome.NOT_STARTED, Outcome.INELIGIBLE}:
            msg = f"{name!r} is {attempt.outcome.value}, and never began"
            raise InvalidReport(msg)
        backwards = began is not None and ended is not None and ended < began
        if backwards or min(began or 0.0, attempt.start_delay, attempt.timeout or 0.0) < 0:
            msg = f"the times of {name!r} run backwards"
            raise InvalidReport(msg)
    if report.winner is not None and report.winner not in seen:
        msg = f"the winner {one_line(report.winner)[:40]!r} is none of the attempts"
        raise InvalidReport(msg)
    if report.duration < 0 or report.timeout < 0:
        msg = "a race lasts no less than no time"
        raise InvalidReport(msg)
