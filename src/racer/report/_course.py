"""The real schedule, run over recorded endings in place of a network. Pure."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from racer._report import Attempt, Outcome, RaceReport
from racer._schedule import LaneState, Schedule
from racer.errors import ErrorType
from racer.report._record import Ending, Entry

if TYPE_CHECKING:
    from racer.report._changes import Changes
    from racer.report._record import Record

__all__ = ("Course",)

_ROUNDING: Final = 1e-6  # seconds; sums of floats, far below what any clock of a race tells apart
_REST: Final = {
    Outcome.CONNECTED: Outcome.LOST_RACE,
    Outcome.TIMED_OUT: Outcome.TIMED_OUT,
    Outcome.NOT_STARTED: Outcome.NOT_STARTED,
}
"""What becomes of attempts that are undecided when a race ends so; else they are cancelled."""


class Course:
    """A race played again, from its beginning to its end: what `Race` does, told by a record.

    Args:
        record: what the network gave.
        changes: what is different.

    Attributes:
        starts: seconds at which entrants begin, by their place in the record, in that order.
    """

    def __init__(self, record: Record, changes: Changes) -> None:
        """Play it."""
        self._record = record
        self._timeouts = changes.attempt_timeouts
        self._entries = [_longer(entry, changes) for entry in record.entries]
        self._timeout = record.report.timeout if changes.timeout is None else changes.timeout
        self._lanes = [changes.lane(entry) for entry in self._entries]
        self._schedule = Schedule(
            self._lanes,
            now=0.0,
            timeout=self._timeout,
            stagger=changes.stagger or 0.0,
            eager=changes.stagger is not None,
        )
        self.starts: dict[int, float] = {}
        self._due: dict[int, float] = {}
        self._ends: dict[int, tuple[Outcome, float]] = {}
        self._winner: int | None = None
        self._now = 0.0
        self._outcome = self._run() if self._entries else Outcome.INELIGIBLE

    @property
    def report(self) -> RaceReport:
        """The race as if it had been recorded."""
        recorded = self._record.report
        attempts = [self._begun(index) for index in self.starts]
        waiting = [
            replace(
                _blank(entry.attempt, Outcome.NOT_STARTED),
                start_delay=lane.start_delay,
                tier=lane.tier,
                timeout=self._given(entry.attempt),
            )
            for index, (entry, lane) in enumerate(zip(self._entries, self._lanes, strict=True))
            if index not in self.starts
        ]
        waiting.sort(key=lambda one: (one.tier, one.start_delay))
        return RaceReport(
            target=recorded.target,
            tls=recorded.tls,
            outcome=self._outcome,
            winner=None if self._winner is None else self._entries[self._winner].attempt.transport,
            duration=self._now,
            timeout=self._timeout,
            started=recorded.started,
            attempts=(*attempts, *waiting, *self._record.apart),
        )

    def out_of_sight(self, grain: float) -> list[tuple[Entry, float]]:
        """Return the entrants on whose unknown ends the race may have hung, and since when; the earliest first.

        Args:
            grain: seconds by which recorded times may be off.
        """
        found = []
        for index, began in self.starts.items():
            entry = self._entries[index]
            _, ended = self._ends.get(index, (None, self._now))
            since = entry.finished_by(began)
            if entry.ending is Ending.UNSEEN and since < ended - grain + self._edge(index):
                found.append((entry, since))
        return sorted(found, key=lambda one: one[1])

    def _edge(self, index: int) -> float:
        """Return how much the last instant in which an attempt was seen may be cut, in seconds.

        A loser may have arrived in the very instant of the win. Where another one wins here in that instant, it loses
        again; where a timer ends it, it would have counted (R14).
        """
        lost = self._entries[index].attempt.outcome is Outcome.LOST_RACE
        timed = index in self._ends or self._outcome is Outcome.TIMED_OUT
        return _ROUNDING if lost and timed else -_ROUNDING

    def _run(self) -> Outcome:
        horizon = self._record.horizon
        while (outcome := self._verdict()) is None:
            if self._start_due():
                continue
            due = self._schedule.next_timeout()
            times = [horizon, math.inf if due is None else due, *self._due.values()]
            then = min(times)
            if self._now >= horizon:
                return self._record.report.outcome
            if then == math.inf:  # without a deadline, silence has no end
                return Outcome.NOT_STARTED
            self._now = max(then, self._now)
        return outcome

    def _verdict(self) -> Outcome | None:
        """Let happen what happens in this instant, in the race's own order (R14); return the verdict if that ends it."""
        schedule, now = self._schedule, self._now
        self._hear()
        while (index := schedule.take()) is not None:
            self._ends[index] = (Outcome.CONNECTED, now)
            if self._entries[index].ending is Ending.USABLE:
                self._winner = index
                return Outcome.CONNECTED
            schedule.dismiss(index)
        outcome = None
        if schedule.is_exhausted:
            outcome = Outcome.CONNECT_FAILED
        elif schedule.is_expired(now):
            outcome = Outcome.TIMED_OUT
        # Whoever leaves in the instant in which a race ends without a winner hears nothing of that any more.
        if now >= self._record.horizon and (outcome or not self._record.starts_at_horizon):
            outcome = self._record.report.outcome
        if outcome is not None:
            return outcome
        late = schedule.expire(now)
        for index in late:
            self._due.pop(index, None)
            self._ends[index] = (Outcome.TIMED_OUT, now)
        return self._verdict() if late else None

    def _hear(self) -> None:
        """Take what came to its end in this instant, all of it before anything new starts."""
        for index in [index for index, due in self._due.items() if due <= self._now]:
            del self._due[index]
            match self._entries[index].ending:
                case Ending.USABLE | Ending.DISMISSED:
                    self._schedule.arrived(index)
                case Ending.OWN_TIME:
                    self._schedule.failed(index)
                    self._ends[index] = (Outcome.TIMED_OUT, self._now)
                case _:
                    self._schedule.failed(index)
                    self._ends[index] = (Outcome.CONNECT_FAILED, self._now)

    def _start_due(self) -> bool:
        """Start what is due; return whether any of it ends in the same instant."""
        while started := self._schedule.start_due(self._now):
            for index in started:
                self.starts[index] = self._now
                if self._entries[index].ending is not Ending.UNSEEN:
                    self._due[index] = self._entries[index].finished_by(self._now)
        return any(due <= self._now for due in self._due.values())

    def _begun(self, index: int) -> Attempt:
        entry, lane = self._entries[index], self._lanes[index]
        attempt = entry.attempt
        rest = _REST.get(self._outcome, Outcome.CANCELLED)
        outcome, ended = self._ends.get(index, (rest, self._now))
        running = (
            self._schedule.state(index) is LaneState.RUNNING and outcome is Outcome.NOT_STARTED
        )
        if outcome is not attempt.outcome:
            attempt = _blank(attempt, outcome)
        return replace(
            attempt,
            start_delay=lane.start_delay,
            tier=lane.tier,
            timeout=self._given(attempt),
            started_at=self.starts[index],
            finished_at=None if running else ended,
        )

    def _given(self, attempt: Attempt) -> float | None:
        """Return the seconds that it has in this race, as a report of it would say."""
        return self._timeouts.get(attempt.transport, attempt.timeout)


def _longer(entry: Entry, changes: Changes) -> Entry:
    """Return the entry for a race in which its own time is another: what it would have done after it is not known."""
    changed = entry.attempt.transport in changes.attempt_timeouts
    unknown = changed and entry.ending is Ending.OWN_TIME
    return replace(entry, ending=Ending.UNSEEN) if unknown else entry


def _blank(attempt: Attempt, outcome: Outcome) -> Attempt:
    """Return an attempt that ended otherwise than the recorded one: what was said of that is not said of this."""
    timed_out = outcome is Outcome.TIMED_OUT
    return Attempt(
        transport=attempt.transport,
        outcome=outcome,
        stage=None,
        error_type=ErrorType.TIMEOUT if timed_out else None,
        start_delay=attempt.start_delay,
        tier=attempt.tier,
        timeout=attempt.timeout,
    )
