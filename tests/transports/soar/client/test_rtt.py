"""Round trips of one lane (SPEC 11)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transports.soar.core.client.rtt import RoundTrips


def test_before_the_first_answer_guesses_stand() -> None:
    trips = RoundTrips()
    assert (trips.srtt, trips.rttvar, trips.is_known) == (0.2, 0.1, False)
    assert trips.loss_delay == pytest.approx(0.25 + 0.4)
    assert trips.probe_timeout == pytest.approx(0.2 + 0.4)
    assert trips.least == 0.2


def test_the_first_answer_replaces_the_guesses() -> None:
    trips = RoundTrips()
    trips.observe(0.070, 5.0)
    assert (trips.srtt, trips.rttvar, trips.is_known) == (0.070, 0.035, True)
    assert trips.loss_delay == pytest.approx(1.25 * 0.070 + 4 * 0.035)
    assert trips.probe_timeout == pytest.approx(0.070 + 4 * 0.035)


def test_later_answers_are_smoothed() -> None:
    trips = RoundTrips()
    trips.observe(0.100, 0.0)
    trips.observe(0.180, 0.1)
    assert trips.rttvar == pytest.approx(0.050 + (0.080 - 0.050) / 4)  # by the old mean
    assert trips.srtt == pytest.approx(0.110)


def test_a_steady_path_keeps_a_margin_of_40_ms() -> None:
    trips = RoundTrips()
    for turn in range(200):
        trips.observe(0.010, turn / 10)
    assert trips.loss_delay == pytest.approx(0.050)
    assert trips.probe_timeout == pytest.approx(0.050)


def test_the_least_is_that_of_ten_seconds() -> None:
    trips = RoundTrips()
    for now, rtt, least in (
        (0.0, 0.090, 0.090),
        (1.0, 0.050, 0.050),
        (2.0, 0.070, 0.050),
        (3.0, 0.060, 0.050),
        (10.9, 0.080, 0.050),
        (11.1, 0.080, 0.060),
        (13.1, 0.080, 0.080),
    ):
        trips.observe(rtt, now)
        assert trips.least == least, now


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 3)), min_size=1, max_size=60))
def test_the_estimates_stay_within_what_was_seen(samples: list[tuple[float, float]]) -> None:
    trips = RoundTrips()
    now = 0.0
    seen: list[tuple[float, float]] = []
    for rtt, gap in samples:
        now += gap
        trips.observe(rtt, now)
        seen.append((now, rtt))
        every = [each for _, each in seen]
        assert min(every) - 1e-9 <= trips.srtt <= max(every) + 1e-9
        assert trips.least == min(each for at, each in seen if at >= now - 10.0)
        assert trips.loss_delay >= trips.srtt + 0.04
        assert trips.probe_timeout >= trips.srtt + 0.04
