"""What a race's verdict makes of its attempts: data that outlives it, and keeps nothing of it alive."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from racer._report import Attempt, Outcome
from racer._words import type_name, words
from racer.errors import ErrorType, RecordedError, error_type_of

if TYPE_CHECKING:
    from racer._attempt import Run
    from racer._roster import Place
    from racer._schedule import Lane

__all__ = ("attempt_of", "drop_tracebacks", "fate_of", "idle", "remembered")

# A tuple: an enum's hash is a call, its identity is not.
_FAILED: Final = (Outcome.CONNECT_FAILED, Outcome.TIMED_OUT)


def attempt_of(run: Run, began: float, lane: Lane) -> Attempt:
    """Return the part of an entrant that began, in a race that began at `began` on the loop's clock."""
    failed = run.outcome in _FAILED
    kind = error_type_of(run.error) if run.error is not None else ErrorType.CRASHED
    return Attempt(
        transport=run.place.name,
        outcome=run.outcome or Outcome.NOT_STARTED,
        stage=run.stage,
        error=run.error if failed else None,
        error_type=kind if failed else None,
        start_delay=run.start_delay,
        tier=run.place.tier,
        timeout=lane.timeout,
        started_at=run.started_at - began,
        finished_at=None if run.outcome is None else run.decided_at - began,
        peer=run.peer,
    )


def fate_of(outcome: Outcome) -> Outcome:
    """Return what becomes of attempts that are undecided when a race ends so."""
    if outcome is Outcome.CONNECTED:
        return Outcome.LOST_RACE
    return Outcome.TIMED_OUT if outcome is Outcome.TIMED_OUT else Outcome.CANCELLED


def idle(
    place: Place, outcome: Outcome, lane: Lane | None = None, *, reason: str | None = None
) -> Attempt:
    """Return the part of an entrant that never began.

    Args:
        place: the entrant's.
        outcome: why it did not.
        lane: its place in that race; `None` where it had none.
        reason: why it did not begin, in words.
    """
    return Attempt(
        transport=place.name,
        outcome=outcome,
        reason=reason,
        start_delay=place.start_delay if lane is None else lane.start_delay,
        tier=place.tier,
        timeout=None if lane is None else lane.timeout,
    )


def remembered(attempt: Attempt) -> Attempt:
    """Return an equal attempt for `Dialer.status()`, which must not keep an error and its frames alive (R13)."""
    if (error := attempt.error) is None:
        return attempt
    told = RecordedError(words(error), type_name(error), error_type=attempt.error_type)
    return replace(attempt, error=told)


def drop_tracebacks(exc: BaseException | None) -> None:
    """Take the tracebacks off an error and all that is behind it: a won race keeps causes, not frames (R13)."""
    if exc is None:
        return
    todo: list[Any] = [exc]
    seen: set[int] = set()
    while todo:
        current = todo.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        current.__traceback__ = None
        todo += [current.__cause__, current.__context__]
        if isinstance(current, BaseExceptionGroup):
            todo += current.exceptions
