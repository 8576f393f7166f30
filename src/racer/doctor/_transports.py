"""Tries each transport by itself, several times, and says how that went."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import anyio

from racer._axis import seconds
from racer._cleanup import close_within
from racer._explain import explain
from racer._finding import Finding, Verdict
from racer._remedies import REMEDIES
from racer._report import Outcome
from racer.doctor._unverified import another_name, answers_under
from racer.errors import DialError, ErrorType, NoTransports, Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from racer._dialer import Dialer
    from racer._explain import Likely
    from racer._report import Attempt, RaceReport
    from racer._target import Target
    from racer.abc import TransportStatus

__all__ = ("Trial", "judge_trial", "try_entrant")

_CUT: Final = (ErrorType.CONNECTION_RESET, ErrorType.TIMEOUT)
_OURSELVES: Final = "racer doctor"  # whom nobody needs to be sent to from here


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What came of trying one entrant.

    Attributes:
        name: the entrant's.
        reports: one for each try, each of a race of this one alone.
        wanted: how many tries were meant.
        answers_otherwise: where TLS was cut, whether it was answered under another name; `None` where that was not tried.
    """

    name: str
    reports: tuple[RaceReport, ...]
    wanted: int
    answers_otherwise: bool | None = None

    @property
    def attempts(self) -> list[Attempt]:
        """Its part in each of them."""
        return [report[self.name] for report in self.reports]


async def try_entrant(
    dialer: Dialer, name: str, target: Target, *, repeats: int, limit: float
) -> Trial:
    """Return what comes of dialing by one entrant, again and again; every connection is closed.

    One that uses up the whole time is not tried again: it would only do so once more.

    Args:
        dialer: whose entrant it is.
        name: the entrant's.
        target: where to.
        repeats: how often.
        limit: seconds for each try.
    """
    reports: list[RaceReport] = []
    for _ in range(repeats):
        race = dialer.race(target, timeout=limit, only=name, kind="any")
        try:
            async with race:
                finisher = await anext(race)
            await close_within(finisher, scope=anyio.CancelScope())
        except (DialError, NoTransports):
            pass  # the report says it all
        reports.append(race.report)
        if race.report.outcome in {Outcome.TIMED_OUT, Outcome.INELIGIBLE}:
            break
    otherwise: bool | None = None
    if _is_cut_in_tls(reports[-1][name]) and not target.is_address:
        other = another_name(target.host)
        otherwise = await answers_under(dialer, name, target, other, limit=limit)
    return Trial(name=name, reports=tuple(reports), wanted=repeats, answers_otherwise=otherwise)


def _is_cut_in_tls(attempt: Attempt) -> bool:
    return attempt.stage is Stage.TLS and attempt.error_type in _CUT


def judge_trial(trial: Trial, status: TransportStatus) -> Finding:
    """Return how it went, in words. Pure.

    Args:
        trial: what came of trying it.
        status: what the guest says of itself by now, for the data.
    """
    attempts = trial.attempts
    check = f"transport {trial.name}"
    if attempts[0].outcome is Outcome.INELIGIBLE:
        words = f"{trial.name} does not serve this host: {attempts[0].reason or 'no reason given'}."
        return Finding(check=check, verdict=Verdict.SKIPPED, words=words)
    took = [_took(one) for one in attempts if one.outcome is Outcome.CONNECTED]
    failed = [one for one in attempts if one.outcome is not Outcome.CONNECTED]
    data = _data(attempts, took) | _said(status)
    if not failed:
        words = f"{trial.name} connected {_times(len(took))} of {len(attempts)}, {_spread(took)}."
        return Finding(check=check, verdict=Verdict.OK, words=words, data=data)
    told = explain(next(r for r in trial.reports if r.outcome is not Outcome.CONNECTED))
    happened = dict(told.happened)[trial.name]
    why, tips = _why(told.likely[0], trial)
    advice = tuple(line for line in tips if _OURSELVES not in line)
    if took:
        words = (
            f"{trial.name} connected only {_times(len(took))} of {len(attempts)}, {_spread(took)}. "
            f"Else: {happened} {why}"
        )
        return Finding(check=check, verdict=Verdict.WARN, words=words, advice=advice, data=data)
    tries = "once" if len(attempts) == 1 else f"{len(attempts)} times"
    words = f"{trial.name} did not connect, tried {tries}. {happened} {why}"
    return Finding(check=check, verdict=Verdict.FAIL, words=words, advice=advice, data=data)


def _why(likely: Likely, trial: Trial) -> tuple[str, tuple[str, ...]]:
    """Return what is most likely wrong, and what to try; what was tried besides makes it certain."""
    match trial.answers_otherwise:
        case None:
            return f"Most likely: {likely.words[:1].lower()}{likely.words[1:]}", likely.advice
        case True:
            words = "Under another name the same address answers: a filter on the way reads the host's name."
            return words, REMEDIES["name_filter"][1]
        case False:
            words = "Under another name it is no better: the address is blocked on the way, or the host is down."
            return words, REMEDIES["address_block"][1]


def _took(attempt: Attempt) -> float:
    return max(0.0, (attempt.finished_at or 0.0) - (attempt.started_at or 0.0))


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _spread(took: Sequence[float]) -> str:
    fastest, slowest = seconds(min(took)), seconds(max(took))
    spread = "" if fastest == slowest else f" ({fastest} to {slowest})"
    return f"in {seconds(statistics.median(took))}{spread}"


def _data(attempts: Sequence[Attempt], took: Sequence[float]) -> dict[str, Any]:
    return {
        "tries": len(attempts),
        "connected": len(took),
        "median": statistics.median(took) if took else None,
        "fastest": min(took, default=None),
        "slowest": max(took, default=None),
        "failures": [
            {
                "error_type": one.error_type.value if one.error_type else None,
                "stage": one.stage.value if one.stage else None,
                "outcome": one.outcome.value,
                "peer": one.peer,
            }
            for one in attempts
            if one.outcome is not Outcome.CONNECTED
        ],
    }


def _said(status: TransportStatus) -> dict[str, Any]:
    return {
        "health": status.health,
        "sessions": [
            {"state": each.state, "streams": each.streams, "idle": each.idle}
            for each in status.sessions
        ],
        "details": dict(status.details),
    }
