"""When to ask without anything to say (SPEC 13)."""

from __future__ import annotations

import pytest

from transports.soar.core.client.polling import Polls


def wanted(polls: Polls, now: float, *, outstanding: int = 0, parked: int = 0) -> int:
    return polls.wanted(now, outstanding=outstanding, parked=parked, window=100)


def test_two_are_out_for_two_seconds_after_octets_moved_then_one() -> None:
    polls = Polls()
    polls.moved(10.0)
    assert [wanted(polls, at) for at in (10.0, 11.99, 12.0, 99.0)] == [2, 2, 1, 1]


def test_questions_that_cannot_wait_there_do_not_count_for_these() -> None:
    polls = Polls()
    polls.moved(10.0)
    assert wanted(polls, 10.0, outstanding=3, parked=0) == 2
    assert wanted(polls, 10.0, outstanding=3, parked=1) == 1
    assert wanted(polls, 10.0, outstanding=3, parked=2) == 0


@pytest.mark.parametrize(
    ("backlog", "outstanding", "expected"),
    [(0, 0, 2), (1, 0, 3), (1, 2, 1), (50, 10, 42), (50, 60, 0), (500, 0, 100), (500, 99, 1)],
)
def test_a_backlog_is_fetched_as_fast_as_the_window_bears(
    backlog: int, outstanding: int, expected: int
) -> None:
    polls = Polls()
    polls.moved(10.0)
    polls.answered(10.0, backlog=backlog, is_empty=False)
    assert wanted(polls, 10.0, outstanding=outstanding, parked=min(2, outstanding)) == expected


def test_an_idle_stream_pauses_longer_and_longer_after_empty_answers() -> None:
    polls = Polls()
    polls.moved(0.0)
    now = 2.0
    pauses = []
    for _ in range(6):
        assert wanted(polls, now) == 1
        polls.answered(now, backlog=0, is_empty=True)
        assert wanted(polls, now) == 0
        due = polls.deadline(now, 0)
        assert due is not None
        pauses.append(round(due - now, 3))
        assert wanted(polls, due - 0.001) == 0
        now = due
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.4, 1.4]


@pytest.mark.parametrize(
    ("idle_timeout", "expected"),
    [
        (120.0, [0.1, 0.2, 0.4, 0.8, 1.4]),
        (10.0, [0.1, 0.2, 0.4, 0.8, 1.25]),
        (2.0, [0.1, 0.2, 0.25, 0.25, 0.25]),
        (0.4, [0.05] * 5),
    ],
)
def test_pauses_are_short_where_the_server_is_impatient(
    idle_timeout: float, expected: list[float]
) -> None:
    polls = Polls()
    polls.outpace(idle_timeout)
    pauses = []
    now = 0.0
    for _ in range(5):
        polls.answered(now, backlog=0, is_empty=True)
        due = polls.deadline(now, 0)
        assert due is not None
        pauses.append(round(due - now, 3))
        now = due
    assert pauses == expected


def test_octets_end_the_pause() -> None:
    polls = Polls()
    for _ in range(9):
        polls.answered(5.0, backlog=0, is_empty=True)
    polls.moved(5.1)
    assert wanted(polls, 5.1) == 2
    polls.answered(8.0, backlog=0, is_empty=True)
    assert polls.deadline(8.0, 0) == pytest.approx(8.1)


def test_empty_answers_in_lively_times_are_no_reason_to_pause() -> None:
    polls = Polls()
    polls.moved(0.0)
    for turn in range(10):
        polls.answered(turn / 10, backlog=0, is_empty=True)
    assert wanted(polls, 1.0) == 2
    assert wanted(polls, 2.1) == 1


def test_while_one_is_out_no_timer_is_needed() -> None:
    polls = Polls()
    polls.answered(5.0, backlog=0, is_empty=True)
    assert polls.deadline(5.0, 1) is None


def test_what_falls_idle_lingers_for_three_questions_or_two_timeouts() -> None:
    polls = Polls()
    polls.answered(10.0, backlog=7, is_empty=False)
    assert not polls.lingers(10.0)
    polls.fell_idle(10.0, 0.5)
    assert polls.backlog == 0
    assert polls.lingers(10.99)
    assert not polls.lingers(11.0)
    for _ in range(3):
        assert polls.lingers(10.1)
        polls.lingered()
    assert not polls.lingers(10.1)
