"""The brain of a race: what to start, how long to wait, when it is over. No IO, no clock of its own.

A `Schedule` is told what happens and what time it is, and answers. `racer`'s races and the Happy Eyeballs inside
transports obey the same rules with different data:

    waiting ──start_due──▶ running ──arrived──▶ arrived ──take──▶ held ──dismiss──▶ failed
                              │ failed, expire ▶ failed

"Undecided" is running, arrived or held. While something has arrived or is held, nothing new starts (R5), and while the
schedule is paused its clock stands still; lanes that run meanwhile use up their own time.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ("Lane", "LaneState", "Schedule")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One contender's place in a race; its rank is its position in the list.

    Attributes:
        start_delay: seconds after its tier opened that it is to start.
        tier: opens when every lane of all lower tiers has failed (R2).
        timeout: seconds it may run undecided.
    """

    start_delay: float = 0.0
    tier: int = 0
    timeout: float = math.inf


class LaneState(enum.Enum):
    """What has become of a lane."""

    WAITING = "waiting"
    RUNNING = "running"
    ARRIVED = "arrived"
    HELD = "held"
    FAILED = "failed"


class Schedule:
    """Decides for one race. Not shared between tasks; every method is synchronous and takes `now` in seconds.

    Args:
        lanes: the contenders, best rank first.
        now: when the race begins.
        timeout: seconds the whole race may take; it is not divided among lanes (R4).
        stagger: seconds between one start and the next, for lanes that have no delays of their own (RFC 8305 §5).
        eager: a failure lets the next lane start at once even while others run, as RFC 8305 implementations do.
            Without it only a race in which nothing runs moves on early (R1).
    """

    def __init__(
        self,
        lanes: Iterable[Lane] = (),
        *,
        now: float,
        timeout: float = math.inf,
        stagger: float = 0.0,
        eager: bool = False,
    ) -> None:
        """Open the first tier at `now`."""
        self._lanes: list[Lane] = []
        self._states: list[LaneState] = []
        self._started: dict[int, float] = {}
        self._timeout = timeout
        self._stagger = stagger
        self._eager = eager
        self._begun = now
        self._paused_at: float | None = None
        self._tier = 0
        self._last_tier = 0
        self._tier_opened = now
        self._last_start = -math.inf
        self._hasty = False
        for lane in lanes:
            self.add(lane)
        self._open_tier(now)

    def add(self, lane: Lane) -> int:
        """Return the index of a lane that joins now, behind all others in rank.

        A lane may join at any time; one of a tier that was already passed competes in the open one.
        """
        self._lanes.append(lane)
        self._states.append(LaneState.WAITING)
        self._last_tier = max(self._last_tier, lane.tier)
        return len(self._lanes) - 1

    def state(self, index: int) -> LaneState:
        """Return what has become of a lane."""
        return self._states[index]

    @property
    def has_arrivals(self) -> bool:
        """Whether `take` has something to give."""
        return LaneState.ARRIVED in self._states

    @property
    def is_exhausted(self) -> bool:
        """Whether every lane has failed, so that nothing more can come."""
        return self._states.count(LaneState.FAILED) == len(self._states)

    def is_expired(self, now: float) -> bool:
        """Return whether the deadline of the whole race has come; the time it was paused does not count."""
        return self._clock(now) >= self._begun + self._timeout

    def start_due(self, now: float) -> tuple[int, ...]:
        """Return the lanes to start now, best rank first among equals; they are running from now on (R1, R2, R5)."""
        if LaneState.WAITING not in self._states:
            return ()
        if self._paused_at is not None or self.is_expired(now):
            return ()
        if self.has_arrivals or LaneState.HELD in self._states:
            return ()
        self._open_tier(now)
        clock = self._clock(now)
        due: list[int] = []
        for index in self._queue():
            idle = LaneState.RUNNING not in self._states
            beside = bool(due) and not self._stagger and self._same_delay(due[-1], index)
            if not (idle or beside or clock >= self._due_at(index)):
                break
            self._states[index] = LaneState.RUNNING
            self._started[index] = self._last_start = clock
            self._hasty = False
            due.append(index)
        return tuple(due)

    def next_timeout(self) -> float | None:
        """Return when, on the caller's clock, to look again if nothing happens before; `None` while paused."""
        if self._paused_at is not None:
            return None
        times = [self._begun + self._timeout]
        times += [
            self._started[index] + self._lanes[index].timeout
            for index, state in enumerate(self._states)
            if state is LaneState.RUNNING
        ]
        if (
            LaneState.WAITING in self._states
            and not self.has_arrivals
            and LaneState.HELD not in self._states
        ):
            times += [self._due_at(index) for index in self._queue()[:1]]
        earliest = min(times)
        return None if earliest == math.inf else earliest

    def expire(self, now: float) -> tuple[int, ...]:
        """Return the running lanes whose own time is over; they have failed from now on."""
        clock = self._clock(now)
        late = [
            index
            for index, state in enumerate(self._states)
            if state is LaneState.RUNNING
            and clock >= self._started[index] + self._lanes[index].timeout
        ]
        for index in late:
            self.failed(index)
        return tuple(late)

    def failed(self, index: int) -> None:
        """Say that a running lane has failed."""
        self._leave(index, LaneState.RUNNING, LaneState.FAILED)
        self._hasty = self._eager

    def arrived(self, index: int) -> None:
        """Say that a running lane has something to offer."""
        self._leave(index, LaneState.RUNNING, LaneState.ARRIVED)

    def take(self) -> int | None:
        """Return the best-ranked lane that has arrived, held from now on; `None` when none has (R8)."""
        if not self.has_arrivals:
            return None
        index = self._states.index(LaneState.ARRIVED)
        self._states[index] = LaneState.HELD
        return index

    def dismiss(self, index: int) -> None:
        """Say that what a held lane offered did not do: it counts as failed."""
        self._leave(index, LaneState.HELD, LaneState.FAILED)

    def pause(self, now: float) -> None:
        """Stop the race's clock: a finisher is in someone's hands."""
        if self._paused_at is None:
            self._paused_at = now

    def resume(self, now: float) -> None:
        """Let the race's clock go on from where it stood: starts and the deadline come that much later.

        The time that running lanes have for themselves went on: they did too, and one whose time is over says nothing
        more by hanging on.
        """
        if self._paused_at is None:
            return
        pause = now - self._paused_at
        self._paused_at = None
        # Moving the marks, not the clock, keeps "the time next_timeout() named has come" exact in floating point.
        self._begun += pause
        self._tier_opened += pause
        self._last_start += pause

    def _clock(self, now: float) -> float:
        return now if self._paused_at is None else self._paused_at

    def _leave(self, index: int, before: LaneState, after: LaneState) -> None:
        if self._states[index] is not before:
            msg = f"lane {index} is {self._states[index].value}, not {before.value}"
            raise RuntimeError(msg)
        self._states[index] = after

    def _open_tier(self, now: float) -> None:
        """Move on to the lowest tier that still has a lane that did not fail."""
        if self._tier == self._last_tier:
            return
        left = [
            lane.tier
            for lane, state in zip(self._lanes, self._states, strict=True)
            if state is not LaneState.FAILED
        ]
        if left and (tier := min(left)) > self._tier:
            self._tier = tier
            self._tier_opened = self._clock(now)

    def _queue(self) -> list[int]:
        """Return the waiting lanes of the open tier in the order of their turn."""
        waiting = [
            index
            for index, state in enumerate(self._states)
            if state is LaneState.WAITING and self._lanes[index].tier <= self._tier
        ]
        return sorted(waiting, key=lambda index: self._lanes[index].start_delay)

    def _due_at(self, index: int) -> float:
        if self._hasty:
            return -math.inf
        return max(
            self._tier_opened + self._lanes[index].start_delay, self._last_start + self._stagger
        )

    def _same_delay(self, one: int, other: int) -> bool:
        return self._lanes[one].start_delay == self._lanes[other].start_delay
