"""Every race of three entrants that win, fail, hang or are slow to clean up, against an oracle that knows the rules.

The oracle is not the schedule: it walks through the quarters of a second and reads the rules off a list. All delays and
durations are multiples of a quarter, so every time is exact, and many events share an instant.
"""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import pytest

from racer import Connection, Entrant, Outcome
from racer.abc import Traits
from racer.errors import AllAttemptsFailed, DialError, DialTimeout
from racer.testing import ScriptedTransport, fails, hangs, wins
from tests.racer.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = pytest.mark.virtual_time

DEADLINE = 9.0
OWN_TIME = 4.0
CLEANUP = 1.5

SCRIPTS = {
    "wins": wins(1.0),
    "fails": fails(0.5),
    "hangs": hangs(),
    "slow": hangs().slow_cleanup(CLEANUP),
}
LANDS = {"wins": 1.0, "fails": 0.5, "hangs": math.inf, "slow": math.inf}
DELAYS = (0.0, 0.25, 8.0)
TIERS = ((0, 0, 1), (0, 1, 1), (0, 1, 2), (2, 1, 0), (1, 0, 0))


@dataclass(frozen=True)
class Case:
    fates: tuple[str, ...]
    delays: tuple[float, ...]
    tiers: tuple[int, ...] = (0, 0, 0)


@dataclass
class Expected:
    end: float = math.nan
    error: type[DialError] | None = None
    winner: int | None = None
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    starts: dict[int, float] = field(default_factory=dict)
    finishes: dict[int, float] = field(default_factory=dict)


def oracle(case: Case) -> Expected:
    """Return what the rules R1 to R5, R8, R10 and R14 say of a race, walking through it a quarter of a second at a time."""
    race = Expected()
    everyone = range(len(case.fates))
    opened: dict[int, float] = {}

    def running() -> list[int]:
        return [i for i in race.starts if i not in race.outcomes]

    def out(i: int, outcome: Outcome, now: float) -> None:
        race.outcomes[i], race.finishes[i] = outcome, now

    def over(now: float, error: type[DialError] | None, rest: Outcome) -> Expected:
        race.end, race.error = now, error
        for i in running():
            out(i, rest, now)
        for i in everyone:
            race.outcomes.setdefault(i, Outcome.NOT_STARTED)
        return race

    for quarter in itertools.count():
        now = quarter / 4
        landed = [i for i in running() if now == race.starts[i] + LANDS[case.fates[i]]]
        for i in landed:
            if case.fates[i] == "fails":
                out(i, Outcome.CONNECT_FAILED, now)
        # R8: of those that arrive together the first listed wins; R14: also in the instant of the deadline.
        for i in sorted(landed):
            if case.fates[i] == "wins":
                race.winner = i
                out(i, Outcome.CONNECTED, now)
                return over(now, None, Outcome.LOST_RACE)
        if len(race.outcomes) == len(case.fates):
            return over(now, AllAttemptsFailed, Outcome.CONNECT_FAILED)
        # R4: one deadline for all.
        if now >= DEADLINE:
            return over(now, DialTimeout, Outcome.TIMED_OUT)
        # R3: an attempt's own time.
        for i in running():
            if now == race.starts[i] + OWN_TIME:
                out(i, Outcome.TIMED_OUT, now)
        if len(race.outcomes) == len(case.fates):
            return over(now, AllAttemptsFailed, Outcome.CONNECT_FAILED)
        # R2: the lowest tier in which somebody has not failed is open, from now on if it was not.
        tier = min(case.tiers[i] for i in everyone if i not in race.outcomes)
        opened.setdefault(tier, now)
        waiting = [i for i in everyone if i not in race.starts and case.tiers[i] == tier]
        # R1: its delay has passed; or nothing runs, and it is next, with all that have the same delay.
        for i in sorted(waiting, key=lambda i: (case.delays[i], i)):
            next_delay = min((case.delays[j] for j in waiting), default=0)
            is_next = not [
                j for j in running() if race.starts[j] < now or case.delays[j] < next_delay
            ]
            if now >= opened[tier] + case.delays[i] or (is_next and case.delays[i] == next_delay):
                race.starts[i] = now
    raise AssertionError("unreachable")


def cases(first: str) -> Iterator[Case]:
    """Yield every case in which the first entrant has this fate."""
    for others in itertools.product(SCRIPTS, repeat=2):
        fates = (first, *others)
        for delays in itertools.product(DELAYS, repeat=3):
            yield Case(fates, delays)
        for tiers in TIERS:
            yield Case(fates, DELAYS[::-1], tiers)


async def run(case: Case) -> None:
    expected = oracle(case)
    names = ("a", "b", "c")
    guests = [
        ScriptedTransport(name, SCRIPTS[fate], traits=Traits(attempt_timeout=OWN_TIME))
        for name, fate in zip(names, case.fates, strict=True)
    ]
    entrants = [
        Entrant(guest, start_delay=delay, tier=tier)
        for guest, delay, tier in zip(guests, case.delays, case.tiers, strict=True)
    ]
    async with Scene(*entrants, timeout=DEADLINE) as scene:
        began = anyio.current_time()
        connection: Connection | None = None
        error: DialError | None = None
        try:
            connection = await scene.dial()
            report, in_use = connection.report, [connection._resource]
        except DialError as exc:
            error, report, in_use = exc, exc.report, []
        assert anyio.current_time() - began == expected.end
        assert (None if error is None else type(error)) is expected.error
        assert report.winner == (None if expected.winner is None else names[expected.winner])

        attempts = {names.index(attempt.transport): attempt for attempt in report.attempts}
        assert len(report.attempts) == len(attempts) == len(case.fates)
        assert {i: attempt.outcome for i, attempt in attempts.items()} == expected.outcomes
        started = {i: a.started_at for i, a in attempts.items() if a.started_at is not None}
        finished = {i: a.finished_at for i, a in attempts.items() if a.finished_at is not None}
        assert started == expected.starts
        assert finished == expected.finishes
        in_order = sorted(started, key=lambda i: (started[i], case.delays[i], i))
        rest = {0, 1, 2}.difference(started)
        in_order += sorted(rest, key=lambda i: (case.tiers[i], case.delays[i], i))
        assert list(attempts) == in_order
        assert [i for i, guest in enumerate(guests) if guest.attempts] == sorted(started)

        await scene.assert_clean(but=in_use)
        assert anyio.current_time() - began <= expected.end + CLEANUP
        assert len(scene.spans.named("racer.attempt")) == len(started)
        assert len(scene.spans.named("racer.dial")) == 1
        if connection is not None:
            await connection.aclose()


def everything(first: str) -> list[Case]:
    found = list(cases(first))
    assert len(found) == 16 * (27 + 5)  # pairs of others; delays within one tier, tierings
    return found


async def run_each(these: Sequence[Case]) -> None:
    for case in these:
        try:
            await run(case)
        except BaseException as exc:
            exc.add_note(f"in {case}, of which the oracle says: {oracle(case)}")
            raise


@pytest.mark.parametrize("first", SCRIPTS)
async def test_races_of_three(first: str) -> None:
    """A quarter of all on each loop, another for each seed of the run; `make soak` runs every one on both."""
    these = everything(first)
    await run_each(random.sample(these, len(these) // 4))


@pytest.mark.soak
@pytest.mark.parametrize("first", SCRIPTS)
async def test_every_race_of_three(first: str) -> None:
    await run_each(everything(first))


def test_the_oracle_knows_stories_told_by_hand() -> None:
    """If the oracle and the race were wrong in the same way, the table would not notice; these were worked out on paper."""
    soar = oracle(Case(("fails", "fails", "wins"), (0, 0.25, 8.0)))
    assert soar.starts == {0: 0, 1: 0.25, 2: 0.75}
    assert (soar.end, soar.winner) == (1.75, 2)

    patient = oracle(Case(("hangs", "slow", "wins"), (0, 0.25, 8.0)))
    assert patient.starts == {
        0: 0,
        1: 0.25,
        2: 4.25,
    }  # the hanging ones have used up their own time
    assert (patient.end, patient.winner) == (5.25, 2)

    photo_finish = oracle(Case(("wins", "wins", "wins"), (0.25, 0.25, 0)))
    assert (photo_finish.end, photo_finish.winner) == (1.0, 2)

    last_resort = oracle(Case(("fails", "hangs", "hangs"), (0, 0, 0), (0, 1, 2)))
    assert last_resort.starts == {0: 0, 1: 0.5, 2: 4.5}
    assert (last_resort.end, last_resort.error) == (8.5, AllAttemptsFailed)

    too_late = oracle(Case(("hangs", "hangs", "fails"), (0, 8.0, 8.0)))
    assert too_late.starts == {0: 0, 1: 4, 2: 4}
    assert (too_late.end, too_late.error) == (8, AllAttemptsFailed)
