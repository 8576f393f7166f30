"""A race told to people: what came of it, and of each attempt, in a few words. The same in terminals and on pages. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from racer._axis import seconds
from racer._report import Outcome
from racer._words import one_line
from racer.errors import ErrorType

if TYPE_CHECKING:
    from racer._report import Attempt, RaceReport

__all__ = ("came_of", "came_of_race", "cause_of", "won_at")

_FAILED: Final = frozenset({Outcome.CONNECT_FAILED, Outcome.TIMED_OUT})


def came_of_race(report: RaceReport) -> str:
    """Return what came of a race, to be put behind its target; on one line if the winner's name is."""
    took = seconds(report.duration)
    match report.outcome:
        case Outcome.CONNECTED:
            return f"connected by {report.winner} in {seconds(won_at(report))}"
        case Outcome.CONNECT_FAILED:
            return f"not connected: every attempt failed, after {took}"
        case Outcome.TIMED_OUT:
            return f"not connected within {seconds(report.timeout)}"
        case Outcome.CANCELLED:
            return f"cancelled after {took}"
        case Outcome.INELIGIBLE:
            return "not connected: no transport serves it"
        case Outcome.LOST_RACE | Outcome.NOT_STARTED:
            return f"still racing after {took}"
        case _:
            assert_never(report.outcome)


def won_at(report: RaceReport) -> float:
    """Return when the stream that won was usable: it may have been held for a while before the race was over."""
    times = {a.transport: a.finished_at for a in report.attempts}
    at = times.get(report.winner or "")
    return report.duration if at is None else at


def came_of(attempt: Attempt) -> str:
    """Return what came of an attempt, in a few words on one line."""
    at = "" if attempt.finished_at is None else f" at {seconds(attempt.finished_at)}"
    stage = f" ({attempt.stage.value})" if attempt.stage else ""
    match attempt.outcome:
        case Outcome.CONNECTED:
            text = f"connected{at}"
        case Outcome.CONNECT_FAILED:
            kind = attempt.error_type
            vague = kind is None or kind is ErrorType.OTHER
            text = f"{'failed' if vague else kind}{at}"
        case Outcome.TIMED_OUT:
            text = f"timed out{at}{stage}"
        case Outcome.LOST_RACE:
            text = f"lost the race{stage}"
        case Outcome.CANCELLED:
            text = f"cancelled{stage}"
        case Outcome.INELIGIBLE:
            text = f"ineligible: {one_line(attempt.reason or 'no reason given')}"
        case Outcome.NOT_STARTED if attempt.started_at is not None:
            text = f"running{stage}"
        case Outcome.NOT_STARTED if attempt.tier:
            text = f"not started (tier {attempt.tier})"
        case Outcome.NOT_STARTED:
            text = f"not started (due at {seconds(attempt.start_delay)})"
        case _:
            assert_never(attempt.outcome)
    return text


def cause_of(attempt: Attempt) -> str | None:
    """Return in full why an attempt failed, and where; `None` for one that did not fail."""
    if attempt.outcome not in _FAILED:
        return None
    where = [attempt.stage.value if attempt.stage else "", one_line(attempt.peer or "")]
    facts = ", ".join(filter(None, where))
    return f"{one_line(attempt.transport)}{f' ({facts})' if facts else ''}: {attempt.cause}"
