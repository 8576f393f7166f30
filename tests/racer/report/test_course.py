"""A race that is played again without changes is the race; with changes, it is what the race would have been."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from racer import RaceReport
from racer._telling import won_at
from racer.report import Changes, replay
from tests.racer.report.races import Runner, delays, own_times, run, runners

if TYPE_CHECKING:
    from racer.report import Replay

pytestmark = pytest.mark.virtual_time

fields = st.lists(runners, min_size=1, max_size=4)
timeouts = st.sampled_from([0.9, 3.0, 9.0, 80.0])
leaves = st.sampled_from([0.05, 0.25, 0.5, 0.8, 1.0, 2.3, 100.0])


def assert_same(report: RaceReport) -> None:
    """Check that a replay without changes gives the race as it was, and has no doubts."""
    again = replay(report)
    assert again.report.to_json() == report.to_json()
    assert again.is_certain
    assert again.grain == 0.0
    # The same from text, in which errors are words.
    assert replay(RaceReport.from_json(report.to_json())).report == report


async def check_same(field: list[Runner], timeout: float, leave_after: float) -> None:
    assert_same(await run(field, timeout=timeout, leave_after=leave_after))


@settings(max_examples=25)
@given(field=fields, timeout=timeouts, leave_after=leaves)
async def test_without_changes_it_is_the_recorded_race(
    field: list[Runner], timeout: float, leave_after: float
) -> None:
    await check_same(field, timeout, leave_after)


@pytest.mark.soak
@settings(max_examples=3000)
@given(field=st.lists(runners, min_size=1, max_size=6), timeout=timeouts, leave_after=leaves)
async def test_without_changes_it_is_the_recorded_race_in_thousands(
    field: list[Runner], timeout: float, leave_after: float
) -> None:
    await check_same(field, timeout, leave_after)


# --- with changes ---------------------------------------------------------------------------

# What is changed of each entrant: its delay, its tier and its own time; None for what stays.
changed = st.lists(
    st.tuples(
        st.none() | delays,
        st.none() | st.sampled_from([0, 1]),
        st.none() | own_times,
    ),
    min_size=4,
    max_size=4,
)
Changed = list[tuple[float | None, int | None, float | None]]


def changes_of(field: list[Runner], wished: Changed, timeout: float) -> Changes:
    wishes = [(f"t{number}", *three) for number, three in enumerate(wished[: len(field)])]
    return Changes(
        delays={name: delay for name, delay, _, _ in wishes if delay is not None},
        tiers={name: tier for name, _, tier, _ in wishes if tier is not None},
        attempt_timeouts={name: own for name, _, _, own in wishes if own is not None},
        timeout=timeout,
    )


def changed_field(field: list[Runner], wished: Changed) -> list[Runner]:
    return [
        replace(
            one,
            delay=one.delay if delay is None else delay,
            tier=one.tier if tier is None else tier,
            own_time=one.own_time if own_time is None else own_time,
        )
        for one, (delay, tier, own_time) in zip(field, wished, strict=False)
    ]


async def check_truth(field: list[Runner], wished: Changed, timeout: float) -> None:
    """Check a replay against the race it speaks of, run for real."""
    recorded = await run(field, timeout=timeout)
    told = replay(recorded, changes=changes_of(field, wished, 20.0))
    truth = await run(changed_field(field, wished), timeout=20.0)
    assert_true(told, truth, field)


def assert_true(told: Replay, truth: RaceReport, field: list[Runner]) -> None:
    took = math.inf if truth.winner is None else won_at(truth)
    earliest = math.inf if told.earliest is None else told.earliest
    latest = math.inf if told.latest is None else told.latest
    assert earliest - 1e-6 <= took <= latest + 1e-6
    if not told.is_certain or truth.duration >= 20.0:
        return
    # Where it is certain it has to be right in everything.
    if told.winner != truth.winner:
        # Of two in the same instant the one that is listed first wins (R8), and reports do not hold the list.
        assert told.winner is not None
        began_at, after = truth[told.winner].started_at, field[int(told.winner[1:])].after
        assert began_at is not None
        assert began_at + after == pytest.approx(took)
        return
    began, played = (
        {a.transport: a.started_at for a in one.attempts if a.started_at is not None}
        for one in (truth, told.report)
    )
    assert played == pytest.approx(began, abs=1e-6)


@settings(max_examples=25)
@given(field=fields, wished=changed, timeout=timeouts)
async def test_with_changes_it_holds_of_the_race_that_was_not_run(
    field: list[Runner], wished: Changed, timeout: float
) -> None:
    await check_truth(field, wished, timeout)


@pytest.mark.soak
@settings(max_examples=3000)
@given(field=fields, wished=changed, timeout=timeouts)
async def test_with_changes_it_holds_in_thousands(
    field: list[Runner], wished: Changed, timeout: float
) -> None:
    await check_truth(field, wished, timeout)
