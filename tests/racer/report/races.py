"""Races that were really run, on a virtual clock, and reports made by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
from hypothesis import strategies as st

from racer import Dialer, Entrant, Outcome, RaceReport
from racer._report import Attempt
from racer.abc import Traits
from racer.errors import DialError
from racer.testing import ScriptedTransport, fails, hangs, wins

if TYPE_CHECKING:
    from racer.testing import Script

__all__ = ("Runner", "attempt", "delays", "own_times", "race", "run", "runners")


@dataclass(frozen=True, kw_only=True)
class Runner:
    """An entrant of a scripted race."""

    fate: str
    after: float
    delay: float
    tier: int
    own_time: float

    @property
    def script(self) -> Script:
        match self.fate:
            case "wins":
                return wins(self.after)
            case "fails":
                return fails(self.after)
            case _:
                return hangs()


# Quarters of a second make many events share an instant; the others make sums of floats round.
_TIMES = st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, 0.1, 0.3, 0.7, 1.1])
delays = st.sampled_from([0.0, 0.25, 0.5, 1.0, 0.1, 0.3, 0.7, 8.0])
own_times = st.sampled_from([0.5, 2.0, 0.3, 30.0])

runners = st.builds(
    Runner,
    fate=st.sampled_from(["wins", "fails", "hangs"]),
    after=_TIMES,
    delay=delays,
    tier=st.sampled_from([0, 0, 0, 1, 2]),
    own_time=own_times,
)


async def run(field: list[Runner], *, timeout: float, leave_after: float = 100.0) -> RaceReport:
    """Run a race for real and return its report.

    Args:
        field: who takes part.
        timeout: seconds the race has.
        leave_after: seconds after which the caller goes away.
    """
    entrants = [
        Entrant(
            ScriptedTransport(f"t{n}", one.script, traits=Traits(attempt_timeout=one.own_time)),
            start_delay=one.delay,
            tier=one.tier,
        )
        for n, one in enumerate(field)
    ]
    async with Dialer(entrants) as dialer:
        racing = dialer.race("example.com", 80, timeout=timeout)
        with anyio.move_on_after(leave_after):
            try:
                async with racing:
                    stream = await anext(racing)
                    await stream.aclose()
            except DialError:
                pass
        return racing.report


def attempt(
    name: str, outcome: str, began: float | None = None, ended: float | None = None, **more: Any
) -> Attempt:
    return Attempt(
        transport=name, outcome=Outcome(outcome), started_at=began, finished_at=ended, **more
    )


def race(
    *attempts: Attempt,
    outcome: str = "connected",
    winner: str | None = None,
    duration: float = 1.0,
    timeout: float = 80.0,
    target: str = "example.com:443",
) -> RaceReport:
    return RaceReport(
        target=target,
        tls=True,
        outcome=Outcome(outcome),
        winner=winner,
        duration=duration,
        timeout=timeout,
        started=1_800_000_000.0,
        attempts=attempts,
    )
