"""Records by network and host: which of them is first, for how long, and which are kept."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from racer import Attempt, Outcome, RaceReport
from racer._memory_table import MAX_DOUBT, Key, Record, Table, failures_to_learn
from racer.errors import ErrorType

NAMES = ("a", "b", "c")
NOW = 1_800_000_000.0
TTL = 1000.0
HALF_LIFE = 10.0


def table(max_entries: int = 100) -> Table:
    return Table(ttl=TTL, half_life=HALF_LIFE, max_entries=max_entries)


def key(entrant: str, host: str = "host") -> Key:
    return Key("network", host, entrant)


def first(known: Table, now: float, names: tuple[str, ...] = NAMES) -> str | None:
    return known.last_winner("network", "host", names, now)


def test_who_won_last_is_first() -> None:
    known = table()
    assert first(known, NOW) is None
    known.won(key("b"), NOW)
    known.won(key("c"), NOW + 1)
    known.won(key("a"), NOW + 2)
    assert first(known, NOW + 3) == "a"
    assert first(known, NOW + 3, ("b", "c")) == "c"
    assert first(known, NOW + 3, ("d",)) is None
    assert known.last_winner("network", "other", NAMES, NOW + 3) is None
    assert known.last_winner("elsewhere", "host", NAMES, NOW + 3) is None


@pytest.mark.parametrize(("failures", "half_lives"), [(1, 1), (2, 2), (4, 3), (8, 4), (1000, 4)])
def test_doubt_halves_and_is_bounded(failures: int, half_lives: int) -> None:
    known = table()
    known.won(key("a"), NOW)
    for _ in range(failures):
        known.failed(key("a"), NOW)
    until = NOW + half_lives * HALF_LIFE
    assert first(known, math.nextafter(until, 0)) is None
    assert first(known, until) == "a"


def test_a_win_takes_all_doubt_away() -> None:
    known = table()
    known.won(key("a"), NOW)
    known.failed(key("a"), NOW + 1)
    known.won(key("a"), NOW + 2)
    assert first(known, NOW + 2) == "a"


def test_a_failure_makes_no_win_younger() -> None:
    known = table()
    known.won(key("a"), NOW)
    known.failed(key("a"), NOW + 900)
    assert first(known, math.nextafter(NOW + TTL, 0)) == "a"
    assert first(known, NOW + TTL) is None


@pytest.mark.parametrize(("ahead", "is_believed"), [(299.0, True), (301.0, False), (1e9, False)])
def test_what_a_wrong_clock_wrote_far_in_the_future_is_not_believed(
    ahead: float, is_believed: bool
) -> None:
    known = table()
    known.won(key("a"), NOW + ahead)
    assert first(known, NOW) == ("a" if is_believed else None)


def test_the_one_that_was_not_needed_for_longest_is_forgotten_first() -> None:
    known = table(max_entries=3)
    for number in range(3):
        known.won(key("a", f"host{number}"), NOW + number)
    assert known.last_winner("network", "host0", NAMES, NOW + 10) == "a"  # needed again
    known.won(key("a", "host3"), NOW + 11)
    hosts = [f"host{n}" for n in range(4) if key("a", f"host{n}") in known]
    assert hosts == ["host0", "host2", "host3"]
    assert len(known) == 3


def test_of_two_records_of_the_same_thing_the_later_one_stays() -> None:
    known = table()
    known.won(key("a"), NOW)
    known.won(key("b"), NOW + 5)
    known.merge(
        {
            key("a"): Record(won_at=NOW + 9, used_at=NOW + 9),
            key("b"): Record(won_at=NOW + 1, used_at=NOW + 1),
            key("c"): Record(won_at=NOW - TTL, used_at=NOW),
        },
        NOW + 10,
    )
    assert known.records() == {
        key("b"): Record(won_at=NOW + 5, used_at=NOW + 5),
        key("a"): Record(won_at=NOW + 9, used_at=NOW + 9),
    }


def test_a_merge_keeps_what_was_needed_last() -> None:
    known = table(max_entries=2)
    known.won(key("a"), NOW)
    known.merge({key(name): Record(won_at=NOW - 5, used_at=NOW + 1) for name in "bc"}, NOW + 2)
    assert set(known.records()) == {key("b"), key("c")}


def test_only_a_win_that_changes_something_is_worth_writing() -> None:
    known = table()
    assert known.won(key("a"), NOW, NAMES)
    assert not known.won(key("a"), NOW + 1, NAMES)
    assert known.won(key("b"), NOW + 2, NAMES)
    assert known.won(key("a"), NOW + 3, NAMES)  # another had won since
    known.failed(key("a"), NOW + 4)
    assert known.won(key("a"), NOW + 5, NAMES)
    assert not known.won(key("a"), NOW + 50, NAMES)
    assert known.won(key("a"), NOW + 101, NAMES)  # a twentieth of its time is over


names = st.sampled_from(NAMES)
steps = st.tuples(st.booleans(), names, st.floats(0.001, 2 * HALF_LIFE))


@given(st.lists(steps, max_size=30), st.floats(0, 2 * TTL))
@settings(max_examples=50)
def test_the_first_is_the_last_winner_of_those_that_are_not_in_doubt(
    told: list[tuple[bool, str, float]], later: float
) -> None:
    """Against a diary: doubt is summed over every failure since the last win, each decayed by itself."""
    known, now = table(), NOW
    wins: dict[str, float] = {}
    doubts: dict[str, list[tuple[float, float]]] = {name: [] for name in NAMES}

    def doubt(name: str, at: float) -> float:
        level, since = 0.0, at
        for failed_at, cap in doubts[name]:
            level = min(cap, level * 0.5 ** ((failed_at - since) / HALF_LIFE) + 1) if level else 1.0
            since = failed_at
        return level * 0.5 ** ((at - since) / HALF_LIFE) if level else 0.0

    for is_win, name, pause in told:
        now += pause
        if is_win:
            known.won(key(name), now)
            wins[name], doubts[name] = now, []
        else:
            known.failed(key(name), now)
            doubts[name].append((now, MAX_DOUBT))
    now += later
    trusted = {name: at for name, at in wins.items() if doubt(name, now) <= 0.5 and at > now - TTL}
    if any(abs(doubt(name, now) - 0.5) < 1e-9 for name in wins):
        return  # on the edge, where the order of rounding decides
    assert first(known, now) == max(trusted, key=trusted.__getitem__, default=None)


@given(st.floats(0, MAX_DOUBT), st.floats(0, 1e9), st.floats(0, 1e9))
def test_doubt_never_grows_by_itself(doubt: float, one: float, other: float) -> None:
    record = Record(failed_at=NOW, doubt=doubt)
    sooner, later = sorted((one, other))
    levels = [record.doubt_at(NOW + at, HALF_LIFE) for at in (sooner, later)]
    assert doubt >= levels[0] >= levels[1] >= 0
    assert record.doubt_at(NOW + HALF_LIFE, HALF_LIFE) == doubt / 2
    assert record.doubt_at(NOW - one, HALF_LIFE) == doubt  # a clock that was set back


# --- what a race proves ---------------------------------------------------------------------------


def report(outcome: Outcome, *attempts: Attempt, winner: str | None = None) -> RaceReport:
    return RaceReport(
        target="example.com:443",
        tls=True,
        outcome=outcome,
        winner=winner,
        duration=1.0,
        timeout=80.0,
        started=NOW,
        attempts=attempts,
    )


def failure(name: str, kind: ErrorType, outcome: Outcome = Outcome.CONNECT_FAILED) -> Attempt:
    return Attempt(transport=name, outcome=outcome, error_type=kind)


@pytest.mark.parametrize("kind", ErrorType)
def test_every_kind_of_failure_is_either_an_answer_or_proves_nothing_alone(kind: ErrorType) -> None:
    learned = failures_to_learn(report(Outcome.CONNECT_FAILED, failure("a", kind)))
    is_silent = kind in {
        ErrorType.DNS_FAILURE,
        ErrorType.HOST_UNREACHABLE,
        ErrorType.TUNNEL_SILENT,
        ErrorType.BUSY,
        ErrorType.RESOURCE_EXHAUSTED,
        ErrorType.PERMISSION_DENIED,
        ErrorType.TIMEOUT,
        ErrorType.CRASHED,
        ErrorType.OTHER,
    }
    assert learned == (() if is_silent else ("a",))


@pytest.mark.parametrize("outcome", Outcome)
def test_a_race_that_did_not_end_by_itself_proves_nothing(outcome: Outcome) -> None:
    told = report(
        outcome,
        failure("a", ErrorType.CONNECTION_RESET),
        failure("b", ErrorType.TIMEOUT, Outcome.TIMED_OUT),
        Attempt(transport="c", outcome=Outcome.LOST_RACE),
        Attempt(transport="d", outcome=Outcome.NOT_STARTED),
    )
    ended = {Outcome.CONNECTED, Outcome.CONNECT_FAILED, Outcome.TIMED_OUT}
    assert failures_to_learn(told) == (("a", "b") if outcome in ended else ())
