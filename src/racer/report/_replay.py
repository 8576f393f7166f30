"""A recorded race played again: the real schedule, over what the network gave. Pure.

What is not known stays so. A loser was cut off when another won; that it had no end until then is all that is known of
it. Where a replay comes to depend on such an attempt, it goes on as if that attempt stayed silent, which gives the latest
time, and says from when on it might have been otherwise, which gives the earliest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from racer._axis import seconds
from racer._telling import came_of_race, won_at
from racer._words import one_line
from racer.report._changes import Changes, policies
from racer.report._course import Course
from racer.report._record import Record

if TYPE_CHECKING:
    from racer._report import RaceReport

__all__ = ("Doubt", "Replay", "compare", "replay")


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """An attempt of which too little was seen.

    Attributes:
        transport: the entrant's name.
        since: seconds since the replayed race's start from which on nobody knows what it would have done.
        seen: seconds for which it was watched without an end; 0 for one that never began.
    """

    transport: str
    since: float
    seen: float

    @property
    def words(self) -> str:
        """Say it."""
        name = one_line(self.transport)
        if not self.seen:
            return f"{name} never began, so how long it takes is not known"
        return f"{name} was cut off after {seconds(self.seen)}, so it takes at least that"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A race played again.

    Attributes:
        name: what the policy is called.
        changes: what was different.
        report: the replayed race, as if it had been recorded: attempts of which too little is known stay silent.
        doubts: those attempts, the earliest doubt first; empty if all is known.
        grain: seconds by which recorded times are late, because of the event loop's lateness; differences below it mean
            nothing.
        held: whether the recorded race was one whose streams were handed out and sent back: how long they were held is
            not recorded, and left out.
    """

    name: str
    changes: Changes
    report: RaceReport
    doubts: tuple[Doubt, ...]
    grain: float
    held: bool = False

    @property
    def is_certain(self) -> bool:
        """Whether the record says all of it."""
        return not self.doubts

    @property
    def winner(self) -> str | None:
        """Who wins at the latest; `None` for nobody."""
        return self.report.winner

    @property
    def latest(self) -> float | None:
        """Seconds to a usable connection, at the latest; `None` if there need not be one."""
        return None if self.report.winner is None else won_at(self.report)

    @property
    def earliest(self) -> float | None:
        """Seconds to a usable connection, at the earliest; `None` if there can be none."""
        return self.doubts[0].since if self.doubts else self.latest

    @property
    def usable_after(self) -> str:
        """Say when there is a usable connection, in a few words, as far as that is known."""
        if self.latest is None:
            return "never" if self.earliest is None else f"{seconds(self.earliest)}, if at all"
        if self.is_certain or self.earliest is None:
            return seconds(self.latest)
        return f"{seconds(self.earliest)} to {seconds(self.latest)}"

    @property
    def started(self) -> int:
        """How many attempts are started."""
        return sum(attempt.started_at is not None for attempt in self.report.attempts)

    @property
    def wasted(self) -> int:
        """How many of them are not what the caller gets."""
        return self.started - (self.report.winner is not None)

    @property
    def words(self) -> str:
        """Say what came of it, on one line, and what is not known."""
        told = one_line(came_of_race(self.report))
        if not self.doubts:
            return told
        latest = "" if self.winner is None else " at the latest"
        since = self.doubts[0].since
        when = f"from {seconds(since)} on" if since else "from the start"
        why = "; ".join(doubt.words for doubt in self.doubts)
        return f"{told}{latest}; {when} it could be otherwise: {why}"

    @property
    def unknown_from(self) -> dict[str, float]:
        """From when on nobody knows what an attempt does, by its entrant's name."""
        return {doubt.transport: doubt.since for doubt in self.doubts}

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "name": self.name,
            "outcome": self.report.outcome.value,
            "winner": self.winner,
            "earliest": self.earliest,
            "latest": self.latest,
            "certain": self.is_certain,
            "started": self.started,
            "wasted": self.wasted,
            "doubts": [
                {"transport": d.transport, "since": d.since, "seen": d.seen} for d in self.doubts
            ],
            "grain": self.grain,
        }


def replay(report: RaceReport, *, changes: Changes | None = None, name: str = "") -> Replay:
    """Return the race as the real schedule plays it over what the network gave, with some things changed.

    An attempt takes as long as it took, whenever it starts: that the network was the same a little earlier or later is
    assumed. With no changes the result is the recorded race, but for the event loop's lateness.

    Args:
        report: the recorded race.
        changes: what is to be different; nothing by default.
        name: what to call it.

    Raises:
        InvalidReport: the report contradicts itself.
        ConfigError: a change names an entrant that was not in the race.
    """
    record = Record.of(report)
    changes = Changes() if changes is None else changes
    changes.check_names([entry.attempt.transport for entry in record.entries])
    return _played(record, changes, name or ("changed" if not changes.is_empty else "as recorded"))


def compare(report: RaceReport) -> tuple[Replay, ...]:
    """Return the race under a few policies that others race by, the recorded one first.

    Raises:
        InvalidReport: the report contradicts itself.
    """
    record = Record.of(report)
    return tuple(_played(record, changes, name) for name, changes in policies(record).items())


def _played(record: Record, changes: Changes, name: str) -> Replay:
    grain = _grain(record)
    course = Course(record, changes)
    return Replay(
        name=name,
        changes=changes,
        report=course.report,
        doubts=tuple(
            Doubt(transport=entry.attempt.transport, since=since, seen=entry.seconds)
            for entry, since in course.out_of_sight(grain)
        ),
        grain=grain,
        held=record.held,
    )


def _grain(record: Record) -> float:
    """Return how late the recorded starts are behind the schedule's own."""
    starts = Course(record, Changes()).starts
    late = [
        entry.attempt.started_at - starts[index]
        for index, entry in enumerate(record.entries)
        if entry.attempt.started_at is not None and index in starts
    ]
    return 0.0 if record.held else max(late, default=0.0)
