"""Small exchanges over links that lose each twentieth message of each direction (SPEC 11.6): a loss costs them little.

Without loss nothing is said twice. Times are virtual, so they may be asserted.
"""

from __future__ import annotations

import pytest

from tests.transports.soar.sim import quirks as kinds
from tests.transports.soar.sim.exchanges import Exchanges, measure
from transports.soar.core.loss import LossShare

ROUND_TRIP_S = 0.2
MANY = 120


def exchanges(kind: str, link: str = "T6", *, seed: int = 1, count: int = MANY) -> Exchanges:
    return measure(kinds.UNBOUND, link, kind, seed, count=count)


def never_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LossShare, "is_notable", False)


@pytest.mark.parametrize(
    ("kind", "round_trips"),
    [
        ("dial, 5 both ways", 1.5),
        ("10 both ways", 1.5),
        ("40 both ways", 2.1),
        pytest.param("dial, 1500 back", 2.1, marks=pytest.mark.soak),
    ],
)
def test_nineteen_in_twenty_are_over_in_about_the_time_that_they_take_without_loss(
    kind: str, round_trips: float
) -> None:
    assert exchanges(kind).percentile(95) <= round_trips * ROUND_TRIP_S


def test_without_saying_things_twice_some_would_take_four_times_as_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    twice = exchanges("dial, 5 both ways")
    never_twice(monkeypatch)
    once = exchanges("dial, 5 both ways", seed=2)  # or keys would be used twice
    assert once.percentile(95) > 4 * ROUND_TRIP_S
    assert twice.questions < 1.3 * once.questions


@pytest.mark.parametrize("kind", ["dial, 5 both ways", "10 both ways", "40 both ways"])
def test_where_nothing_is_lost_nothing_is_said_twice(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where a resolver asks again for what a server holds, and the answer then comes late."""
    with_it = exchanges(kind, "T5", count=40)
    never_twice(monkeypatch)
    assert exchanges(kind, "T5", count=40) == with_it
