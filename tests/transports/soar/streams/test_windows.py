"""Windows: what a receiver announces, and when (SPEC 10.3)."""

from __future__ import annotations

import pytest

from racer.errors import LocalProtocolError
from transports.soar.core.streams.windows import EARLY_WINDOW, Limits, ReceiveWindow

K = 1024


def test_spec_10_3_windows_start_at_256_kb_and_1_mb_and_end_at_4_and_8_mb() -> None:
    limits = Limits()
    assert (limits.stream_window, limits.session_window) == (256 * K, 1024 * K)
    assert (limits.most_stream_window, limits.most_session_window) == (4096 * K, 8192 * K)
    assert limits.max_streams == 128


@pytest.mark.parametrize(
    "wrong",
    [
        {"stream_window": EARLY_WINDOW - 1},
        {"session_window": 0},
        {"stream_window": 8192 * K},
        {"max_streams": 0},
    ],
)
def test_limits_that_cannot_work_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(LocalProtocolError):
        Limits(**wrong)


def test_a_limit_is_worth_a_frame_from_a_quarter_of_the_window_on() -> None:
    window = ReceiveWindow(100, 1000)
    assert not window.advance(124)
    assert window.limit == 100
    assert window.advance(125)
    assert window.limit == 125
    assert not window.advance(110)
    assert window.limit == 125


def test_any_limit_is_worth_a_frame_to_a_peer_that_waits() -> None:
    window = ReceiveWindow(100, 1000)
    assert window.advance(101, waits=True)
    assert not window.advance(101, waits=True)
    assert window.limit == 101


@pytest.mark.parametrize(
    ("arrived", "rtt", "span", "size"),
    [
        (50, 1.0, 1.0, 200),
        (50, 0.5, 1.0, 100),  # 25 a round trip, and it never shrinks
        (10, 1.0, 1.0, 100),
        (500, 1.0, 1.0, 1000),
        (50, 1.0, 2.0, 100),
        (0, 0.1, 0.1, 100),
    ],
)
def test_spec_10_3_a_window_grows_to_four_times_what_arrives_in_a_round_trip(
    arrived: int, rtt: float, span: float, size: int
) -> None:
    window = ReceiveWindow(100, 1000)
    window.arrived = arrived
    window.grow(rtt, span)
    assert (window.size, window.arrived) == (size, 0)
