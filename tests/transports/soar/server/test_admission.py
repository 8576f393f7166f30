from __future__ import annotations

import pytest

from transports.soar.core.instants import Instant
from transports.soar.core.server.admission import Calendar, Rate, Seen


def at(time: float, wall: float | None = None) -> Instant:
    return Instant(time, time, time if wall is None else wall)


def test_a_rate_is_for_each_second() -> None:
    rate = Rate(3)
    assert [rate.take(at(10.0 + n / 10)) for n in range(5)] == [True] * 3 + [False] * 2
    assert not rate.take(at(10.99))
    assert [rate.take(at(11.0)) for _ in range(4)] == [True] * 3 + [False]


def test_what_was_seen_is_remembered_for_184_seconds_at_least() -> None:
    seen = Seen(at(0))
    seen.add(b"one", at(183.9))  # just before the sets take turns
    assert seen.has(b"one", at(184.0))
    assert seen.has(b"one", at(367.9))
    assert not seen.has(b"one", at(552.0))
    assert not seen.has(b"two", at(0))


def test_after_a_long_silence_nothing_is_left() -> None:
    seen = Seen(at(0))
    seen.add(b"one", at(1.0))
    assert not seen.has(b"one", at(1000.0))
    assert len(seen) == 0


@pytest.mark.parametrize(
    ("skew", "current"), [(0, True), (90, True), (-90, True), (91, False), (-91, False)]
)
def test_a_clock_may_be_off_by_90_seconds(skew: int, current: bool) -> None:
    assert Calendar(0.0).is_current(10_000 + skew, at(10_000.0)) is current


def test_times_are_of_32_bits() -> None:
    late = 2.0**32 + 50
    calendar = Calendar(late - 1_000)
    assert calendar.is_current(10, at(0, late))
    assert calendar.may_execute(10)


def test_only_flights_of_after_the_start_are_executed() -> None:
    calendar = Calendar(1_000.0)
    assert not calendar.may_execute(1_090)
    assert calendar.may_execute(1_091)


def test_a_clock_that_is_set_back_counts_as_a_start() -> None:
    calendar = Calendar(0.0)
    assert calendar.is_current(5_000, at(10, 5_000.0))
    assert calendar.may_execute(5_000)
    assert calendar.is_current(
        4_500, at(20, 4_500.0)
    )  # ten minutes back: its flights may be old ones
    assert not calendar.may_execute(4_500)
    assert not calendar.may_execute(5_090)
    assert calendar.may_execute(5_091)


def test_a_clock_that_is_a_little_unsteady_does_not() -> None:
    calendar = Calendar(0.0)
    assert calendar.is_current(5_000, at(10, 5_000.0))
    assert calendar.is_current(5_000, at(10, 4_999.5))
    assert calendar.may_execute(4_999)
