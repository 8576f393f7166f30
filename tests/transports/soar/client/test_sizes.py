"""How long names and answers may be (SPEC 12.6)."""

from __future__ import annotations

import pytest

from transports.soar.core.client.sizes import Ladder, Sizes


def climbed(steps: tuple[int, ...] = (1, 2, 3, 4), *, to: int) -> Ladder:
    ladder = Ladder(steps)
    while ladder.current < to:
        trial = ladder.next_trial(0.0)
        assert trial is not None
        ladder.began(trial)
        ladder.passed(trial, 0.0)
    return ladder


def test_it_climbs_one_step_for_each_success_with_one_trial_at_a_time() -> None:
    ladder = Ladder((1, 2, 4))
    assert ladder.current == 1
    assert ladder.next_trial(0.0) == 2
    ladder.began(2)
    assert ladder.next_trial(0.0) is None
    ladder.passed(2, 0.0)
    assert ladder.current == 2
    assert ladder.next_trial(0.0) == 4
    ladder.began(4)
    ladder.passed(4, 0.0)
    assert ladder.next_trial(0.0) is None
    assert ladder.current == 4


def test_smaller_questions_end_no_trial() -> None:
    ladder = Ladder((1, 2))
    ladder.began(2)
    ladder.began(1)
    ladder.passed(1, 0.0)
    assert ladder.next_trial(0.0) is None


def test_a_trial_that_told_nothing_may_be_repeated() -> None:
    ladder = Ladder((0, 1))
    ladder.began(1)
    ladder.told_nothing(1)
    assert ladder.current == 0
    assert ladder.next_trial(0.0) == 1


@pytest.mark.parametrize("proven", [False, True], ids=["never passed", "has passed"])
def test_a_black_hole_lowers_it_for_a_minute_then_two_up_to_ten(proven: bool) -> None:
    ladder = climbed(to=2) if proven else Ladder((1, 2))
    now = 100.0
    for ban in (60.0, 120.0, 240.0, 480.0, 600.0, 600.0):
        if ladder.current == 1:
            for _ in range(3):
                trial = ladder.next_trial(now)
                assert trial == 2
                ladder.began(2)
                ladder.passed(1, now)
                ladder.missed(2, now, now + 1)
        else:
            for _ in range(3):
                ladder.passed(1, now)
                ladder.missed(2, now, now + 1)
        assert ladder.current == 1
        assert ladder.next_trial(now + ban + 0.9) is None, ban
        now += ban + 1.1
        assert ladder.next_trial(now) == 2, ban


@pytest.mark.parametrize(
    ("sent", "lost_at", "smaller", "larger"),
    [
        ((1.0, 1.1, 1.2), (2.0, 2.1, 2.2), None, None),
        ((1.0, 1.1, 1.2), (2.0, 2.1, 2.2), 0.9, None),
        ((1.0, 1.1, 1.2), (2.0, 2.1, 2.2), 1.5, 1.5),
        ((1.0, 1.1, 1.2), (2.0, 9.0, 12.1), 1.5, None),
        ((1.0, 1.1), (2.0, 2.1), 1.5, None),
    ],
    ids=["nothing passes", "smaller ones before", "it passes as well", "over 10 s", "twice"],
)
def test_losses_that_show_no_black_hole(
    sent: tuple[float, ...],
    lost_at: tuple[float, ...],
    smaller: float | None,
    larger: float | None,
) -> None:
    ladder = climbed(to=3)
    if smaller is not None:
        ladder.passed(1, smaller)
    if larger is not None:
        ladder.passed(3, larger)
    for at, lost in zip(sent, lost_at, strict=True):
        ladder.missed(3, at, lost)
    assert ladder.current == 3


def test_three_that_do() -> None:
    ladder = climbed(to=3)
    ladder.passed(1, 1.5)
    for at, lost in ((1.0, 2.0), (1.1, 2.1), (1.2, 2.2)):
        ladder.missed(3, at, lost)
    assert ladder.current == 2


def test_a_resolver_that_says_too_big_is_believed_at_once() -> None:
    ladder = climbed((0, 1), to=1)
    ladder.too_big(1, 5.0)
    assert ladder.current == 0
    assert ladder.next_trial(64.9) is None
    assert ladder.next_trial(65.1) == 1


def test_nothing_is_too_big_at_the_smallest_size() -> None:
    ladder = Ladder((0, 1))
    ladder.too_big(0, 5.0)
    assert ladder.next_trial(5.0) == 1


def test_datagrams_never_ask_for_more_than_their_own_record_admits() -> None:
    assert Sizes((1, 4), datagram=True).down.steps == (0, 1)
    assert Sizes((1, 4), datagram=False).down.steps == (0, 1, 2)
    assert Sizes((1, 4), datagram=True).up.steps == (1, 4)
