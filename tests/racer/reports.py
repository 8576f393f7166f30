"""Reports and failed races for tests, made by hand."""

from __future__ import annotations

from typing import TypeVar

from racer._report import Attempt, Outcome, RaceReport
from racer.errors import AllAttemptsFailed, DialError, error_type_of

_E = TypeVar("_E", bound=BaseException)


def wrapped(outer: _E, cause: BaseException) -> _E:
    """Return `outer` as if it had been raised from `cause`."""
    outer.__cause__ = cause
    return outer


def report(*causes: BaseException | None) -> RaceReport:
    """Return the report of a race in which entrant `t0`, `t1`, … failed so; `None` for one that never began."""
    return RaceReport(
        target="example.com:443",
        tls=True,
        outcome=Outcome.CONNECT_FAILED,
        winner=None,
        duration=1.5,
        timeout=80.0,
        started=1_800_000_000.0,
        attempts=tuple(
            Attempt(
                transport=f"t{index}",
                outcome=Outcome.NOT_STARTED if error is None else Outcome.CONNECT_FAILED,
                error=error,
                error_type=None if error is None else error_type_of(error),
            )
            for index, error in enumerate(causes)
        ),
    )


def failed(*causes: BaseException | None, kind: type[DialError] = AllAttemptsFailed) -> DialError:
    """Return the error of that race."""
    return kind(report(*causes))
