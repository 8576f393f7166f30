"""The window of one path (SPEC 12.2 to 12.4)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transports.soar.core.client.congestion import BURST, LEAST_WINDOW, MOST_WINDOW, Window

RTT = 0.070


class Driver:
    """Fills a window, round by round, and says what became of the questions."""

    def __init__(self) -> None:
        self.window = Window()
        self.now = 100.0

    def round(
        self, *, queue: float = 0.0, lost: int = 0, failed: int = 0, share: float = 1.0
    ) -> int:
        """Send what the window bears, and settle all of it one round trip later; return the window then."""
        window = self.window
        count = int(int(window.size) * share)
        for _ in range(count):
            window.sent(self.now)
        self.now += RTT + 1e-9
        for _ in range(failed):
            window.failed(RTT, self.now - RTT / 2)
        for index in range(count):
            window.left()
            if index < lost:
                window.lost(RTT, self.now - RTT / 2)
            else:
                window.answered(queue, RTT, RTT, self.now - RTT / 2)
        window._turn(self.now, RTT)
        return int(window.size)


def test_it_doubles_until_128_and_on_only_when_128_came_back_without_a_queue() -> None:
    driver = Driver()
    assert [driver.round() for _ in range(7)] == [24, 48, 96, 128, 256, 512, 768]
    assert driver.round() == MOST_WINDOW


def test_a_small_queue_holds_it_at_128() -> None:
    driver = Driver()
    for _ in range(8):
        driver.round(queue=0.31 * RTT)
    assert int(driver.window.size) == 128


@pytest.mark.parametrize(
    ("queue", "after"),
    [(0.0, 48), (0.5 * RTT + 0.010, 48), (0.5 * RTT + 0.011, 20)],
    ids=["none", "bearable", "too long"],
)
def test_a_queue_shrinks_it(queue: float, after: int) -> None:
    driver = Driver()
    driver.round()
    assert driver.round(queue=queue) == after


def test_a_queue_is_not_held_against_sixteen_questions() -> None:
    driver = Driver()
    assert driver.round(queue=1.0) == 12
    driver.round()
    assert [driver.round(queue=1.0) for _ in range(3)] == [20, 17, 16]
    assert driver.round(queue=1.0) == 16


def test_after_a_cut_it_grows_by_a_sixteenth() -> None:
    driver = Driver()
    for _ in range(3):
        driver.round()
    assert driver.round(queue=1.0) == int(96 * 0.85)
    sizes = [driver.round() for _ in range(3)]
    assert sizes == [86, 92, 97]


def test_a_window_that_was_not_used_stays() -> None:
    driver = Driver()
    assert driver.round(share=0.8) == 12


def test_loss_that_a_path_always_has_does_not_shrink_it() -> None:
    driver = Driver()
    for _ in range(40):
        driver.round(lost=int(driver.window.size) // 5)
    assert int(driver.window.size) == MOST_WINDOW
    assert driver.window.base == pytest.approx(0.2, abs=0.03)


def test_loss_above_the_usual_cuts_it_and_rests_two_rounds() -> None:
    driver = Driver()
    for _ in range(3):
        driver.round()
    assert driver.round(lost=30) == int(96 * 0.7)
    assert driver.round() == 67
    assert driver.round() == 67
    assert driver.round() == 71


def test_a_small_flight_that_is_lost_is_no_reason_to_grow_slowly_from_there() -> None:
    """With its handshake a whole flight may be lost; by sixteenths it would take 40 rounds from 8 to 96."""
    driver = Driver()
    assert driver.round(lost=8) == 8
    assert [driver.round() for _ in range(6)] == [8, 8, 16, 33, 67, 128]


def test_how_long_a_question_took_that_was_held_says_nothing_of_a_queue() -> None:
    window = Driver().window
    for _ in range(12):
        window.sent(0.0)
    for each in range(12):
        window.left()
        if each < 8:
            window.answered_late(RTT, RTT / 2)
        else:
            window.answered(0.0, RTT, RTT, RTT / 2)
    window._turn(RTT + 0.001, RTT)
    assert int(window.size) == 24, "they count as answered, nevertheless"


def test_one_loss_among_few_is_no_rate() -> None:
    assert Driver().round(lost=1) == 24


def test_a_late_answer_takes_its_loss_back() -> None:
    driver = Driver()
    window = driver.window
    for _ in range(12):
        window.sent(driver.now)
    for _ in range(3):
        window.left()
        window.lost(RTT, driver.now + 0.01)
    for _ in range(2):
        window.was_late()
    for _ in range(11):
        window.answered(0.0, RTT, RTT, driver.now + 0.02)
    window._turn(driver.now + RTT + 0.001, RTT)
    assert int(window.size) == 24


def test_open_failures_cut_it() -> None:
    driver = Driver()
    driver.round()
    driver.round()
    assert driver.round(failed=3) == int(48 * 0.7)


def test_a_resolvers_own_limit_counts_once_in_a_round_trip() -> None:
    window = Window()
    for _ in range(12):
        window.sent(1.0)
    window.refused(RTT, 1.01)
    assert window.size == pytest.approx(9.6)
    window.refused(RTT, 1.02)
    window.refused(RTT, 1.079)
    assert window.size == pytest.approx(9.6)
    window.in_flight = 8
    window.refused(RTT, 1.081)
    assert window.size == pytest.approx(6.4)


def test_a_forger_cannot_shrink_it_below_four() -> None:
    window = Window()
    for turn in range(50):
        window.refused(RTT, float(turn))
    assert window.size == LEAST_WINDOW


def test_bursts_are_of_sixteen_and_follow_at_twice_the_windows_rate() -> None:
    window = Window()
    window.size = 128.0
    assert window.room(1.0, RTT) == BURST
    for _ in range(BURST):
        window.sent(1.0)
    assert window.room(1.0, RTT) == 0
    later = window.next_burst(1.0, RTT)
    assert later == pytest.approx(1.0 + 4 * RTT / (2 * 128))
    assert window.room(later + 1e-6, RTT) == 4
    assert window.room(1.0 + RTT, RTT) == BURST


def test_an_idle_path_has_one_burst_not_more() -> None:
    window = Window()
    assert window.room(1000.0, RTT) == 12
    window.size = 192.0
    assert window.room(2000.0, RTT) == BURST


def test_a_resolver_is_near_its_limit_for_half_a_minute_after_each_refusal() -> None:
    window = Window()
    assert not window.is_limited(0.0)
    window.refused(RTT, 1.0)
    window.refused(RTT, 1.0 + RTT / 2)
    assert window.is_limited(31.0)
    assert not window.is_limited(31.0 + RTT / 2)


def test_bursts_grow_with_a_wide_window() -> None:
    window = Window()
    window.size = 768.0
    assert window.room(1.0 + RTT, RTT) == 64
    for _ in range(64):
        window.sent(1.0 + RTT)
    later = window.next_burst(1.0 + RTT, RTT)
    assert later == pytest.approx(1.0 + RTT + 16 * RTT / (2 * 768))


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["sent", "answered", "lost", "late", "failed", "refused"]),
            st.floats(0, 0.5),
            st.floats(0.001, 2),
        ),
        max_size=400,
    )
)
def test_whatever_happens_it_stays_in_its_bounds(steps: list[tuple[str, float, float]]) -> None:
    window = Window()
    now = 0.0
    for what, gap, value in steps:
        now += gap
        if what == "sent" and window.room(now, RTT) > 0:
            window.sent(now)
        elif what == "answered" and window.in_flight:
            window.left()
            window.answered(value, RTT, RTT, now)
        elif what == "lost" and window.in_flight:
            window.left()
            window.lost(RTT, now)
        elif what == "late":
            window.was_late()
        elif what == "failed":
            window.failed(RTT, now)
        elif what == "refused":
            window.refused(RTT, now)
        assert LEAST_WINDOW <= window.size <= window.most <= MOST_WINDOW
        assert window.in_flight >= 0
        assert 0 <= window.room(now, RTT) <= max(BURST, window.size / 12)
        assert window.next_burst(now, RTT) >= now


def test_a_cut_for_loss_is_taken_back_if_as_much_is_lost_afterwards() -> None:
    driver = Driver()
    for _ in range(3):
        driver.round()
    assert driver.round(lost=29) == int(96 * 0.7)  # 30 %, where nothing was known
    assert driver.round(lost=20) == int(96 * 0.7)
    assert driver.round(lost=20) == 96
    assert driver.round(lost=29) == 128


@pytest.mark.parametrize(("lost", "after"), [(9, 192), (15, 192), (26, 67)])
def test_what_may_be_chance_is_not_held_against_the_path(lost: int, after: int) -> None:
    driver = Driver()
    for _ in range(3):
        driver.round()
    assert driver.round(lost=lost) == min(after, 128)


def test_a_cut_that_helped_stays() -> None:
    driver = Driver()
    for _ in range(3):
        driver.round()
    driver.window.base = 0.0
    driver.round(lost=30)
    driver.round()
    assert driver.round() == int(96 * 0.7)
