"""What a replay says by hand-made reports: what is known, what is not, and what it refuses."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from racer.errors import AttemptTimeout, ConfigError, ErrorType, InvalidReport, Stage
from racer.report import Changes, Doubt, compare, replay
from tests.racer.report.races import attempt, race

if TYPE_CHECKING:
    from racer import RaceReport

RESET = ConnectionResetError(104, "Connection reset by peer")

# Soar waits for eight seconds; in front of it one fails, one uses up its own time, and one is cut off.
WAITED = race(
    attempt("direct", "connect_failed", 0.0, 0.5, error=RESET, error_type=ErrorType.CONNECTION_RESET),
    attempt(
        "split", "timed_out", 0.25, 4.25, start_delay=0.25, stage=Stage.CONNECT,
        error=AttemptTimeout("not usable within 4 s"), error_type=ErrorType.TIMEOUT,
    ),
    attempt("front", "lost_race", 1.0, 9.0, start_delay=1.0, stage=Stage.HANDSHAKE),
    attempt("soar", "connected", 8.0, 9.0, start_delay=8.0),
    attempt("amp", "ineligible", reason="it gives no streams"),
    winner="soar", duration=9.0, timeout=80.0,
)  # fmt: skip


def test_another_delay_gives_another_time() -> None:
    told = replay(WAITED, changes=Changes(delays={"soar": 2.0}))
    assert (told.winner, told.earliest, told.latest, told.is_certain) == ("soar", 3.0, 3.0, True)
    assert (told.started, told.wasted) == (4, 3)
    outcomes = {a.transport: (a.outcome.value, a.finished_at) for a in told.report.attempts}
    assert outcomes == {
        "direct": ("connect_failed", 0.5),
        "split": ("lost_race", 3.0),  # its own time was not over yet
        "front": ("lost_race", 3.0),
        "soar": ("connected", 3.0),
        "amp": ("ineligible", None),
    }
    assert told.report["split"].error is None
    assert told.words == "connected by soar in 3 s"
    assert told.usable_after == "3 s"


def test_who_was_cut_off_takes_at_least_as_long_as_it_was_watched() -> None:
    told = replay(WAITED, changes=Changes(delays={"front": 0.0, "soar": 9.5}))
    assert (told.winner, told.earliest, told.latest) == ("soar", 8.0, 10.5)
    assert told.doubts == (Doubt(transport="front", since=8.0, seen=8.0),)
    assert told.words == (
        "connected by soar in 10.5 s at the latest; from 8 s on it could be otherwise: front was cut off after 8 s, "
        "so it takes at least that"
    )
    assert told.usable_after == "8 s to 10.5 s"
    assert told.unknown_from == {"front": 8.0}


def test_without_a_time_that_is_known_it_may_not_connect_at_all() -> None:
    told = replay(WAITED, changes=Changes(tiers={"soar": 1}))
    assert (told.winner, told.earliest, told.latest) == (None, 9.0, None)
    assert told.report.outcome.value == "timed_out"
    assert told.report.duration == 80.0
    assert told.usable_after == "9 s, if at all"
    assert told.wasted == told.started == 3


def told_their_time(report: RaceReport, **seconds: float) -> RaceReport:
    """Return the report with what attempts were given."""
    attempts = tuple(replace(one, timeout=seconds.get(one.transport)) for one in report.attempts)
    return replace(report, attempts=attempts)


def test_silence_ends_with_the_time_that_an_attempt_was_given() -> None:
    report = told_their_time(WAITED, direct=30.0, split=4.0, front=20.0, soar=60.0)
    assert replay(report).report.to_json() == report.to_json()
    told = replay(report, changes=Changes(tiers={"soar": 1}))
    # front, from 1 s on, had 20 s; nobody knows what it would have done from 9 s on.
    assert (told.winner, told.earliest, told.latest) == ("soar", 9.0, 22.0)
    assert told.doubts == (Doubt(transport="front", since=9.0, seen=8.0),)
    late = told.report["front"]
    assert (late.outcome.value, late.finished_at, late.timeout) == ("timed_out", 21.0, 20.0)
    assert told.usable_after == "9 s to 22 s"
    policies = {one.name: one.usable_after for one in compare(report)}
    assert policies["one after the other"] == "12.5 s to 25.5 s"
    assert policies["kindling's tiers"] == "8 s to 21 s"


def test_what_an_attempt_is_given_can_be_changed_and_is_told() -> None:
    report = told_their_time(WAITED, front=20.0, soar=60.0)
    told = replay(report, changes=Changes(tiers={"soar": 1}, attempt_timeouts={"front": 5.0}))
    assert (told.winner, told.latest, told.is_certain) == ("soar", 6.0 + 1.0, True)
    given = {attempt.transport: attempt.timeout for attempt in told.report.attempts}
    assert given == {"direct": None, "split": None, "front": 5.0, "soar": 60.0, "amp": None}
    # One that never began has its time too.
    gone = told_their_time(
        race(attempt("a", "connected", 0.0, 0.5), attempt("b", "not_started"), winner="a"), b=3.0
    )
    later = replay(gone, changes=Changes(tiers={"a": 1}))
    assert (later.winner, later.earliest, later.latest) == ("a", 0.0, 3.5)


def test_one_that_a_late_loop_let_run_for_longer_is_not_ended_before() -> None:
    report = told_their_time(
        race(
            attempt("a", "lost_race", 0.0, 2.003),
            attempt("b", "connected", 0.25, 2.003, start_delay=0.25),
            winner="b", duration=2.003,
        ),
        a=2.0,
    )  # fmt: skip
    assert replay(report).report.to_json() == report.to_json()


def test_who_never_began_may_take_any_time() -> None:
    report = race(
        attempt("direct", "connected", 0.0, 0.5),
        attempt("soar", "not_started", start_delay=8.0),
        winner="direct", duration=0.5,
    )  # fmt: skip
    told = replay(report, changes=Changes(delays={"soar": 0.25}))
    assert (told.winner, told.earliest, told.latest) == ("direct", 0.25, 0.5)
    assert told.doubts[0].words == "soar never began, so how long it takes is not known"
    assert replay(report, changes=Changes(delays={"soar": 0.5})).is_certain  # not beside a win


def test_more_time_does_not_tell_what_an_attempt_would_have_done_with_it() -> None:
    longer = replay(WAITED, changes=Changes(attempt_timeouts={"split": 10.0}))
    assert longer.doubts == (Doubt(transport="split", since=4.25, seen=4.0),)
    shorter = replay(WAITED, changes=Changes(attempt_timeouts={"split": 1.0}))
    assert shorter.is_certain
    assert shorter.report["split"].finished_at == 1.25
    # A bound on the one that hangs lets the last resort in: at once, as nothing else runs then.
    bounded = replay(WAITED, changes=Changes(tiers={"soar": 1}, attempt_timeouts={"front": 5.0}))
    assert (bounded.winner, bounded.latest, bounded.is_certain) == ("soar", 6.0 + 1.0, True)


def test_another_deadline() -> None:
    told = replay(WAITED, changes=Changes(timeout=5.0))
    assert (told.report.outcome.value, told.report.duration) == ("timed_out", 5.0)
    assert told.report["front"].error_type is ErrorType.TIMEOUT
    assert told.is_certain
    assert told.usable_after == "never"

    cut = race(
        attempt("direct", "timed_out", 0.0, 2.0),
        outcome="timed_out", duration=2.0, timeout=2.0,
    )  # fmt: skip
    more = replay(cut, changes=Changes(timeout=9.0))
    assert (more.earliest, more.latest) == (2.0, None)


def test_a_stagger_takes_the_place_of_delays() -> None:
    told = replay(WAITED, changes=Changes(stagger=0.2))
    starts = {a.transport: a.started_at for a in told.report.attempts}
    assert starts == pytest.approx(
        {"direct": 0.0, "split": 0.2, "front": 0.4, "soar": 0.5, "amp": None}
    )  # the failure at 0.5 s let Soar start at once


def test_the_policies_of_others_stand_side_by_side() -> None:
    told = {one.name: (one.winner, one.usable_after, one.started) for one in compare(WAITED)}
    assert told == {
        "as recorded": ("soar", "9 s", 4),
        "all at once": ("soar", "1 s", 4),
        "250 ms stagger": ("soar", "1.75 s", 4),
        "one after the other": (None, "12.5 s, if at all", 3),
        "kindling's tiers": (None, "8 s, if at all", 3),
    }


def test_for_kindling_a_later_tier_is_a_last_resort() -> None:
    report = race(
        attempt("a", "connect_failed", 0.0, 1.0, error=RESET),
        attempt("b", "connected", 1.0, 1.5, tier=1),
        winner="b", duration=1.5,
    )  # fmt: skip
    told = {one.name: one.latest for one in compare(report)}
    assert (told["all at once"], told["kindling's tiers"]) == (0.5, 1.5)


def test_how_late_the_loop_was_is_the_grain_of_all_times() -> None:
    late = race(
        attempt("a", "lost_race", 0.002, 0.512),
        attempt("b", "connected", 0.262, 0.512, start_delay=0.25),
        winner="b", duration=0.513,
    )  # fmt: skip
    told = replay(late)
    assert told.grain == pytest.approx(0.012)
    assert (
        told.is_certain
    )  # a was watched for 510 ms, and would have to be done within a few ms more
    assert told.latest == pytest.approx(0.5)


def test_a_race_that_still_runs_is_known_until_now() -> None:
    running = race(
        attempt("a", "connect_failed", 0.0, 0.5, error=RESET),
        attempt("b", "not_started", 0.5, start_delay=0.5),
        attempt("c", "not_started", start_delay=8.0),
        outcome="not_started", duration=2.0,
    )  # fmt: skip
    told = replay(running)
    assert told.report.to_json() == running.to_json()
    assert replay(running, changes=Changes(delays={"b": 0.0})).report.duration == 2.0


@pytest.mark.parametrize("began", [0.5, None])
def test_what_was_due_as_the_caller_left_began_if_it_did(began: float | None) -> None:
    outcome = "not_started" if began is None else "cancelled"
    left = race(
        attempt("a", "cancelled", 0.0, 0.5),
        attempt("b", outcome, began, began, start_delay=0.5),
        outcome="cancelled", duration=0.5,
    )  # fmt: skip
    assert replay(left).report == left
    assert replay(left).report.to_json() == left.to_json()


def test_who_leaves_as_the_last_one_fails_does_not_hear_of_it() -> None:
    left = race(
        attempt("a", "connect_failed", 0.0, 0.5, error=RESET), outcome="cancelled", duration=0.5
    )
    assert replay(left).report == left


def test_streams_that_were_sent_back_are_taken_as_sent_back_at_once() -> None:
    report = race(
        attempt("a", "connected", 0.0, 0.5),
        attempt("b", "connected", 0.25, 3.0, start_delay=0.25),
        winner="b", duration=4.0,
    )  # fmt: skip
    told = replay(report)
    assert told.held
    assert (told.winner, told.latest) == ("b", 3.0)


def test_a_race_without_a_deadline_may_have_no_end() -> None:
    report = race(
        attempt("a", "connected", 0.0, 0.5), winner="a", duration=0.5, timeout=math.inf
    )  # fmt: skip
    told = replay(
        race(*report.attempts, attempt("b", "not_started"), winner="a", timeout=math.inf),
        changes=Changes(tiers={"a": 1}),
    )
    assert (told.winner, told.report.outcome.value) == (None, "not_started")


def test_nobody_who_could_race() -> None:
    report = race(attempt("amp", "ineligible", reason="no"), outcome="ineligible", duration=0.0)
    assert replay(report).report == report
    assert [one.usable_after for one in compare(report)] == ["never"] * 5


def test_it_goes_into_json() -> None:
    told = replay(WAITED, changes=Changes(delays={"front": 0.0, "soar": 9.5}), name="later")
    assert json.loads(json.dumps(told.to_dict())) == {
        "name": "later",
        "outcome": "connected",
        "winner": "soar",
        "earliest": 8.0,
        "latest": 10.5,
        "certain": False,
        "started": 4,
        "wasted": 3,
        "doubts": [{"transport": "front", "since": 8.0, "seen": 8.0}],
        "grain": 0.0,
    }


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"delays": {"sor": 1.0}}, "called 'sor'; did you mean 'soar'?"),
        ({"tiers": {"x": 1}}, "called 'x'; there were 'direct', 'split', 'front', 'soar'"),
        ({"attempt_timeouts": {"amp": 1.0}}, "called 'amp'"),
    ],
)
def test_a_name_that_was_not_in_the_race(changes: dict[str, dict[str, float]], said: str) -> None:
    with pytest.raises(ConfigError, match="no entrant of this race is") as caught:
        replay(WAITED, changes=Changes(**changes))  # type: ignore[arg-type]
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"delays": {"a": -1.0}},
        {"delays": {"a": math.nan}},
        {"attempt_timeouts": {"a": 0.0}},
        {"timeout": math.inf},
        {"stagger": 0.0},
    ],
)
def test_a_time_that_cannot_be_kept(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="must be a number of seconds"):
        Changes(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (race(attempt("a", "connected")), "'a' is connected, and never began"),
        (race(attempt("a", "lost_race", 2.0, 1.0)), "the times of 'a' run backwards"),
        (race(attempt("a", "lost_race", -1.0, 1.0)), "the times of 'a' run backwards"),
        (race(attempt("a", "not_started", timeout=-1.0)), "the times of 'a' run backwards"),
        (race(attempt("a", "not_started"), attempt("a", "not_started")), "two attempts are called 'a'"),
        (race(winner="ghost"), "the winner 'ghost' is none of the attempts"),
        (race(duration=-1.0), "lasts no less than no time"),
    ],
)  # fmt: skip
def test_a_report_that_no_race_can_have_written(report: RaceReport, said: str) -> None:
    for read in (replay, compare):
        with pytest.raises(InvalidReport, match=said):
            read(report)
