"""How long a session is used (SPEC 14)."""

from __future__ import annotations

import pytest

from transports.soar.core.client.lifetime import Liveness, draw_session_idle, has_expired


@pytest.mark.parametrize(
    ("session_idle", "idle_timeout", "least", "most"),
    [
        (90.0, 120.0, 81.0, 99.0),
        (1000.0, 120.0, 90.0, 110.0),
        (0.5, 1.0, 0.45, 0.55),
        (90.0, 1.0, 0.6136, 0.75),
    ],
)
def test_it_is_spread_over_ten_percent_and_ends_well_before_the_servers_memory(
    session_idle: float, idle_timeout: float, least: float, most: float
) -> None:
    drawn = [draw_session_idle(session_idle, idle_timeout, chance / 100) for chance in range(101)]
    assert min(drawn) == pytest.approx(least, rel=1e-3)
    assert max(drawn) == pytest.approx(most, rel=1e-3)
    margin = min(10.0, idle_timeout / 4)
    assert max(drawn) <= idle_timeout - margin + 1e-9
    assert len(set(drawn)) == 101


@pytest.mark.parametrize(
    ("pause", "busy", "expired"),
    [
        (17.0, False, False),
        (89.9, False, False),
        (90.0, False, True),
        (91.0, False, True),
        (91.0, True, False),
    ],
)
def test_what_was_silent_long_enough_and_is_not_busy_has_expired(
    pause: float, busy: bool, expired: bool
) -> None:
    assert has_expired(1000.0 + pause, 1000.0, 90.0, is_busy=busy) is expired


def asked(count: int, begin: float = 100.0) -> Liveness:
    liveness = Liveness()
    for turn in range(count):
        liveness.sent(begin + turn / 10)
    return liveness


def test_nine_questions_are_no_evidence() -> None:
    assert asked(9).deadline(is_established=False) is None


@pytest.mark.parametrize(("established", "after"), [(False, 15.0), (True, 60.0)])
def test_ten_are_from_the_first_of_them_on(established: bool, after: float) -> None:
    assert asked(10).deadline(is_established=established) == 100.0 + after


def test_an_answer_begins_it_anew() -> None:
    liveness = asked(50)
    liveness.answered()
    assert liveness.deadline(is_established=False) is None
    for turn in range(10):
        liveness.sent(500.0 + turn)
    assert liveness.deadline(is_established=False) == 515.0
