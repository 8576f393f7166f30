"""The brain of a race: exact start times, ends, and what no sequence of events may make it do."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from racer.scheduling import Lane, LaneState, Schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

WON, LOST, EXPIRED = "won", "all failed", "deadline"


@dataclass(frozen=True)
class After:
    """What a lane does, so many seconds after its start; by default nothing, ever."""

    seconds: float = math.inf
    wins: bool = False


def wins(seconds: float) -> After:
    return After(seconds, wins=True)


def fails(seconds: float) -> After:
    return After(seconds)


HANGS = After()


@dataclass
class Played:
    starts: dict[int, float] = field(default_factory=dict)
    own_time_over: dict[int, float] = field(default_factory=dict)
    ended_at: float = math.nan
    end: str = ""
    winner: int | None = None


def play(
    lanes: Sequence[Lane],
    fates: Sequence[After],
    *,
    timeout: float = 80.0,
    stagger: float = 0.0,
    eager: bool = False,
    now: float = 0.0,
) -> Played:
    """Obey a schedule as a driver with instant hands would: it looks only when told, or when a fate falls due."""
    schedule = Schedule(lanes, now=now, timeout=timeout, stagger=stagger, eager=eager)
    played = Played()
    due: dict[int, float] = {}
    for _ in range(1000):
        for index in [index for index, at in due.items() if at <= now]:
            del due[index]
            (schedule.arrived if fates[index].wins else schedule.failed)(index)
        if (winner := schedule.take()) is not None:
            played.end, played.winner, played.ended_at = WON, winner, now
            return played
        if schedule.is_exhausted or schedule.is_expired(now):
            played.end = LOST if schedule.is_exhausted else EXPIRED
            played.ended_at = now
            return played
        for index in schedule.expire(now):
            played.own_time_over[index] = now
            del due[index]
        for index in schedule.start_due(now):
            played.starts[index] = now
            due[index] = now + fates[index].seconds
        if schedule.is_exhausted:
            continue
        look = schedule.next_timeout()
        now = min([math.inf if look is None else look, *due.values()])
    raise AssertionError("the schedule never ends")


NOW, SOON, SOAR = Lane(), Lane(start_delay=0.25), Lane(start_delay=8.0)


@pytest.mark.parametrize(
    ("lanes", "fates", "starts", "end"),
    [
        # R1: its delay has passed, or nothing runs.
        pytest.param([NOW, SOON, SOAR], [HANGS, HANGS, wins(1)], [0, 0.25, 8], (9, WON, 2), id="each-at-its-delay"),
        pytest.param([NOW, SOON, SOAR], [fails(0.125), fails(0.5), wins(1)], [0, 0.125, 0.625], (1.625, WON, 2), id="fast-failures-end-the-wait-of-8-s"),
        pytest.param([NOW, SOON, SOAR], [fails(0.25), wins(1), HANGS], [0, 0.25], (1.25, WON, 1), id="failure-in-the-instant-of-the-next-start"),
        pytest.param([NOW, SOON, SOAR], [HANGS, fails(0.25), wins(1)], [0, 0.25, 8], (9, WON, 2), id="one-that-runs-keeps-the-wait"),
        pytest.param([NOW, NOW, SOAR], [fails(1), fails(2), wins(1)], [0, 0, 2], (3, WON, 2), id="the-last-of-two-failures-ends-the-wait"),
        pytest.param([SOAR], [wins(1)], [0], (1, WON, 0), id="alone-it-need-not-wait"),
        pytest.param([SOAR, SOON], [wins(1), fails(1)], [1, 0], (2, WON, 0), id="the-shorter-delay-goes-first"),
        pytest.param([SOAR, SOAR], [HANGS, wins(1)], [0, 0], (1, WON, 1), id="same-delay-start-together"),
        pytest.param([NOW, SOAR, SOAR], [fails(1), HANGS, wins(1)], [0, 1, 1], (2, WON, 2), id="same-delay-start-together-early-too"),
        # R2: tiers.
        pytest.param([Lane(), Lane(tier=1)], [HANGS, wins(1)], [0], (80, EXPIRED, None), id="a-tier-stays-shut-while-one-hangs"),
        pytest.param([Lane(timeout=30), Lane(tier=1)], [HANGS, wins(1)], [0, 30], (31, WON, 1), id="attempt-timeouts-open-the-tier"),
        pytest.param([Lane(), Lane(tier=1), Lane(tier=1, start_delay=2)], [fails(1), HANGS, wins(1)], [0, 1, 3], (4, WON, 2), id="delays-count-from-the-tier's-opening"),
        pytest.param([Lane(tier=7), Lane(tier=3)], [wins(1), fails(1)], [1, 0], (2, WON, 0), id="tiers-need-not-begin-at-0"),
        pytest.param([Lane(), Lane(tier=1), Lane(tier=2)], [fails(1), fails(1), fails(1)], [0, 1, 2], (3, LOST, None), id="tier-by-tier-to-the-end"),
        pytest.param([Lane(tier=1, start_delay=8), Lane()], [wins(1), fails(1)], [1, 0], (2, WON, 0), id="the-first-of-a-tier-does-not-wait"),
        # R3: only its own timeout, the deadline or a win ends an attempt.
        pytest.param([NOW, SOON, SOON], [wins(7), HANGS, HANGS], [0, 0.25, 0.25], (7, WON, 0), id="the-stagger-ends-nothing"),
        pytest.param([Lane(timeout=2), SOAR], [wins(2), HANGS], [0], (2, WON, 0), id="in-the-instant-of-its-own-timeout"),
        # R4: one deadline, not divided.
        pytest.param([NOW, SOAR], [HANGS, HANGS], [0, 8], (80, EXPIRED, None), id="the-first-does-not-eat-the-deadline"),
        pytest.param([NOW, SOAR], [HANGS, wins(72)], [0, 8], (80, WON, 1), id="a-win-in-the-instant-of-the-deadline"),
        pytest.param([NOW, SOAR], [fails(80), fails(72)], [0, 8], (80, LOST, None), id="the-last-failure-in-the-instant-of-the-deadline"),
        # R5: nothing starts after, or beside, a win.
        pytest.param([NOW, SOON], [wins(0.25), HANGS], [0], (0.25, WON, 0), id="a-win-in-the-instant-of-a-start"),
        pytest.param([NOW, SOON], [wins(0.125), HANGS], [0], (0.125, WON, 0), id="a-win-before-a-start"),
        pytest.param([NOW, SOON], [wins(0.5), HANGS], [0, 0.25], (0.5, WON, 0), id="a-win-after-a-start"),
        # R8: the first listed of those that arrive together.
        pytest.param([NOW, NOW, NOW], [HANGS, wins(1), wins(1)], [0, 0, 0], (1, WON, 1), id="the-first-listed-of-two"),
        pytest.param([SOON, NOW], [wins(1), wins(1.25)], [0.25, 0], (1.25, WON, 0), id="listed-first-though-started-later"),
    ],
)  # fmt: skip
def test_starts_and_ends_are_exact(
    lanes: list[Lane],
    fates: list[After],
    starts: list[float],
    end: tuple[float, str, int | None],
) -> None:
    played = play(lanes, fates)
    assert played.starts == dict(enumerate(starts))
    assert (played.ended_at, played.end, played.winner) == end


@pytest.mark.parametrize("began", [0.0, 1e-3, 0.1, 1234.567, 1e9 + 0.3])
def test_starts_are_exact_wherever_the_clock_stands(began: float) -> None:
    """The time that `next_timeout` names has come when the clock reads it, whatever floating point makes of sums."""
    lanes = [NOW, Lane(start_delay=0.1), Lane(start_delay=0.3), Lane(start_delay=8.1)]
    played = play(lanes, [HANGS] * 4, timeout=80.7, now=began)
    assert played.starts == {0: began, 1: began + 0.1, 2: began + 0.3, 3: began + 8.1}
    assert played.ended_at == began + 80.7


def test_own_timeouts_are_exact() -> None:
    lanes = [Lane(timeout=0.7), Lane(start_delay=0.1, timeout=0.3), Lane(start_delay=9, timeout=1)]
    played = play(lanes, [HANGS] * 3)
    assert played.starts == {0: 0.0, 1: 0.1, 2: 0.7}
    assert played.own_time_over == {0: 0.7, 1: 0.1 + 0.3, 2: 0.7 + 1}
    assert (played.ended_at, played.end) == (0.7 + 1, LOST)


@pytest.mark.parametrize(
    ("fates", "eager", "starts", "end"),
    [
        pytest.param([HANGS] * 4, True, [0, 0.25, 0.5, 0.75], (10, EXPIRED), id="k-times-the-stagger"),
        pytest.param([fails(0.1), HANGS, HANGS, HANGS], True, [0, 0.1, 0.35, 0.6], (10, EXPIRED), id="a-failure-moves-all-the-rest-forward"),
        pytest.param([HANGS, fails(0.1), HANGS, HANGS], True, [0, 0.25, 0.35, 0.6], (10, EXPIRED), id="also-while-others-run"),
        pytest.param([HANGS, fails(0.1), HANGS, HANGS], False, [0, 0.25, 0.5, 0.75], (10, EXPIRED), id="not-eager-while-others-run"),
        pytest.param([fails(0.25), HANGS, HANGS, HANGS], True, [0, 0.25, 0.5, 0.75], (10, EXPIRED), id="a-failure-in-the-instant-of-a-start-starts-one"),
        pytest.param([fails(0.1)] * 4, True, [0, 0.1, 0.2, 0.30000000000000004], (0.4, LOST), id="one-after-the-other"),
        pytest.param([fails(0.1), fails(0.1), HANGS, wins(1)], False, [0, 0.1, 0.2, 0.45], (1.45, WON), id="idle-ends-the-wait-without-eagerness"),
    ],
)  # fmt: skip
def test_stagger_as_in_rfc_8305(
    fates: list[After], eager: bool, starts: list[float], end: tuple[float, str]
) -> None:
    played = play([Lane()] * 4, fates, timeout=10, stagger=0.25, eager=eager)
    assert played.starts == dict(enumerate(starts))
    assert played.end == end[1]
    assert played.ended_at == pytest.approx(end[0], abs=1e-12)


def test_a_lane_may_join_late() -> None:
    """Addresses that a lookup brings later (RFC 8305 §3) take their turn behind the others."""
    schedule = Schedule(now=0, stagger=0.25, eager=True)
    assert schedule.is_exhausted
    assert schedule.next_timeout() is None
    assert schedule.start_due(0) == ()

    assert schedule.add(Lane()) == 0
    assert schedule.start_due(1.0) == (0,)
    assert schedule.add(Lane()) == 1
    assert schedule.next_timeout() == 1.25
    schedule.failed(0)
    assert schedule.start_due(1.1) == (1,)
    schedule.failed(1)
    assert schedule.is_exhausted
    schedule.add(Lane())
    assert schedule.start_due(1.2) == (2,)


def test_a_late_lane_of_a_tier_gone_by_competes_in_the_open_one() -> None:
    schedule = Schedule([Lane(), Lane(tier=1)], now=0)
    assert schedule.start_due(0) == (0,)
    schedule.failed(0)
    assert schedule.start_due(1) == (1,)
    late = schedule.add(Lane(start_delay=0.25))
    assert schedule.next_timeout() == 1.25
    assert schedule.start_due(1.25) == (late,)


def test_the_clock_stands_still_while_a_finisher_is_in_hands() -> None:
    schedule = Schedule([Lane(timeout=3), Lane(timeout=3), Lane(start_delay=1)], now=0, timeout=10)
    assert schedule.start_due(0) == (0, 1)
    schedule.arrived(0)
    assert schedule.take() == 0
    schedule.pause(0.5)
    schedule.pause(0.6)  # once is enough
    assert schedule.next_timeout() is None
    assert not schedule.is_expired(1000)
    assert schedule.expire(1000) == ()
    assert schedule.start_due(1000) == ()

    schedule.resume(100.5)
    schedule.resume(200.0)
    schedule.dismiss(0)
    assert schedule.state(0) is LaneState.FAILED
    assert schedule.start_due(100.5) == ()
    assert schedule.next_timeout() == 3.0  # a running lane's own time went on meanwhile
    assert schedule.expire(100.5) == (1,)
    assert schedule.start_due(100.5) == (2,)  # and nothing runs any more
    assert schedule.next_timeout() == 110.0
    assert schedule.is_expired(110.0)


def test_what_is_left_of_a_delay_is_left_after_a_pause_too() -> None:
    schedule = Schedule([Lane(), Lane(timeout=200), Lane(start_delay=1)], now=0, timeout=10)
    assert schedule.start_due(0) == (0, 1)
    schedule.arrived(0)
    assert schedule.take() == 0
    schedule.pause(0.5)
    schedule.resume(100.5)
    schedule.dismiss(0)
    assert schedule.start_due(100.5) == ()
    assert schedule.next_timeout() == 101.0  # half a second of the delay was left
    assert schedule.start_due(101.0) == (2,)


def test_nothing_starts_beside_a_finisher_even_while_the_clock_runs() -> None:
    schedule = Schedule([Lane(timeout=1), Lane(start_delay=0.25)], now=0, timeout=10)
    assert schedule.start_due(0) == (0,)
    schedule.arrived(0)
    assert schedule.start_due(1) == ()
    assert schedule.next_timeout() == 10
    schedule.take()
    assert schedule.start_due(1) == ()
    assert schedule.expire(1) == ()
    assert schedule.next_timeout() == 10
    schedule.dismiss(0)
    assert schedule.start_due(1) == (1,)


def test_a_pause_moves_the_stagger_and_the_tier_too() -> None:
    lanes = [Lane(), Lane(), Lane(tier=1), Lane(tier=1, start_delay=2)]
    schedule = Schedule(lanes, now=0, stagger=0.5)
    assert schedule.start_due(0) == (0,)
    schedule.pause(0.125)
    schedule.resume(100.125)
    assert schedule.next_timeout() == 100.5
    assert schedule.start_due(100.5) == (1,)
    schedule.failed(0)
    schedule.failed(1)
    assert schedule.start_due(101) == (2,)
    schedule.pause(102)
    schedule.resume(202)
    assert schedule.next_timeout() == 203
    assert schedule.start_due(203) == (3,)


def test_what_lanes_do_while_the_clock_stands_is_kept() -> None:
    schedule = Schedule([Lane(), Lane(), Lane(), Lane(tier=1)], now=0)
    assert schedule.start_due(0) == (0, 1, 2)
    schedule.arrived(2)
    assert schedule.take() == 2
    schedule.pause(1)
    schedule.failed(0)
    schedule.arrived(1)
    schedule.resume(5)
    schedule.dismiss(2)
    assert schedule.start_due(5) == ()  # one has arrived: nothing starts beside it
    assert schedule.take() == 1
    assert schedule.take() is None
    schedule.dismiss(1)
    assert schedule.start_due(6) == (3,)


def test_all_that_have_arrived_are_taken_best_rank_first() -> None:
    schedule = Schedule([Lane()] * 4, now=0)
    schedule.start_due(0)
    for index in (3, 1, 2):
        schedule.arrived(index)
    taken = []
    while (index_taken := schedule.take()) is not None:
        taken.append(index_taken)
        schedule.dismiss(index_taken)
    assert taken == [1, 2, 3]
    assert not schedule.is_exhausted
    schedule.failed(0)
    assert schedule.is_exhausted


@pytest.mark.parametrize("move", ["failed", "arrived", "dismiss"])
def test_a_move_that_cannot_be_says_so_and_changes_nothing(move: str) -> None:
    schedule = Schedule([Lane()], now=0)
    with pytest.raises(RuntimeError, match="lane 0 is waiting, not"):
        getattr(schedule, move)(0)
    assert schedule.state(0) is LaneState.WAITING
    assert schedule.start_due(0) == (0,)


# --- whatever happens, in whatever order ------------------------------------------------------

DELAYS = st.sampled_from([0.0, 0.01, 0.1, 0.25, 0.3, 1.0, 8.0])
LANES = st.builds(
    Lane,
    start_delay=DELAYS,
    tier=st.integers(0, 2),
    timeout=st.sampled_from([0.1, 0.7, 2.0, 30.0, math.inf]),
)


class AnyRace(RuleBasedStateMachine):
    """A driver that may be late and events in any order; `look` is what every driver does when it wakes."""

    @initialize(
        lanes=st.lists(LANES, max_size=5),
        now=st.sampled_from([0.0, 0.1, 1e6 + 0.3]),
        timeout=st.sampled_from([0.5, 3.3, 80.0, math.inf]),
        stagger=st.sampled_from([0.0, 0.25]),
        eager=st.booleans(),
    )
    def begin(
        self, lanes: list[Lane], now: float, timeout: float, stagger: float, eager: bool
    ) -> None:
        self.now = now
        self.lanes = list(lanes)
        self.schedule = Schedule(lanes, now=now, timeout=timeout, stagger=stagger, eager=eager)
        self.listed = len(lanes)
        self.started: set[int] = set()
        self.paused = False

    def those(self, *states: LaneState) -> list[int]:
        return [i for i in range(len(self.lanes)) if self.schedule.state(i) in states]

    @rule(lane=LANES)
    @precondition(lambda self: len(self.lanes) < 8)
    def join(self, lane: Lane) -> None:
        assert self.schedule.add(lane) == len(self.lanes)
        self.lanes.append(lane)

    @rule(seconds=st.sampled_from([0.001, 0.1, 0.25, 1.0, 7.9]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def time_passes_until_the_next_look(self) -> None:
        self.now = max(self.now, self.schedule.next_timeout() or self.now)

    @rule(data=st.data(), wins=st.booleans())
    def a_lane_ends(self, data: st.DataObject, wins: bool) -> None:
        if running := self.those(LaneState.RUNNING):
            index = data.draw(st.sampled_from(running))
            (self.schedule.arrived if wins else self.schedule.failed)(index)

    @rule()
    def take(self) -> None:
        best = min(self.those(LaneState.ARRIVED), default=None)
        assert self.schedule.take() == best

    @rule(data=st.data())
    def dismiss(self, data: st.DataObject) -> None:
        if held := self.those(LaneState.HELD):
            self.schedule.dismiss(data.draw(st.sampled_from(held)))

    @rule(pauses=st.booleans())
    def pause_or_resume(self, pauses: bool) -> None:
        (self.schedule.pause if pauses else self.schedule.resume)(self.now)
        self.paused = pauses

    @rule()
    def look(self) -> None:
        before = {i: self.schedule.state(i) for i in range(len(self.lanes))}
        over = self.schedule.is_expired(self.now)
        late = self.schedule.expire(self.now)
        assert all(before[i] is LaneState.RUNNING for i in late)
        taken = self.those(LaneState.ARRIVED, LaneState.HELD)
        due = self.schedule.start_due(self.now)
        assert not (due and (taken or self.paused or over)), (
            "started beside a finisher, or too late"
        )
        assert not self.started.intersection(due), "started twice"
        self.started.update(due)
        for lower in range(self.listed):
            if any(self.lanes[lower].tier < self.lanes[i].tier for i in due):
                assert self.schedule.state(lower) is LaneState.FAILED, "a tier opened too early"
        if over or self.paused:
            return
        if self.those(LaneState.WAITING) and not taken:
            assert self.those(LaneState.RUNNING), "idle, though a lane waits"
        look_again = self.schedule.next_timeout()
        assert look_again is None or look_again > self.now, "spins"
        assert self.schedule.expire(self.now) == ()
        assert self.schedule.start_due(self.now) == ()

    @invariant()
    def is_only_woken_for_something(self) -> None:
        due = self.schedule.next_timeout()
        if due is None or due > self.now:
            return
        twin = copy.deepcopy(self.schedule)
        assert twin.is_expired(self.now) or twin.expire(self.now) or twin.start_due(self.now)

    @invariant()
    def is_exhausted_when_all_have_failed(self) -> None:
        everyone = range(len(self.lanes))
        assert self.schedule.is_exhausted == (self.those(LaneState.FAILED) == list(everyone))


@pytest.mark.hypothesis  # `make soak` runs 25 times as many
def test_no_sequence_of_events_breaks_the_rules() -> None:
    run_state_machine_as_test(AnyRace, settings=settings(stateful_step_count=40))
