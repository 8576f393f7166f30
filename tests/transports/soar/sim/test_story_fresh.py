"""What is said on a stream is answered in one round trip, whatever the server's older parks are about to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.transports.soar.sim.link import Weather
from tests.transports.soar.sim.quirks import PLAIN
from tests.transports.soar.sim.simulation import Simulation
from tests.transports.soar.sim.story import Story, Way
from transports.soar.core.client.polling import FreshPolls
from transports.soar.core.server import parking

if TYPE_CHECKING:
    import pytest

WAY = Way(resolver=PLAIN, near=Weather(delay=0.010), far=Weather(delay=0.025))


def slowest(monkeypatch: pytest.MonkeyPatch) -> float:
    """Return the longest time to the first octet of streams opened at every phase of a park's life."""
    monkeypatch.setattr(parking, "HOLD", 0.25)  # as on a path with traffic whose resolver repeats
    simulation = Simulation(Story(seed=1, ways=(WAY,)))
    client = simulation.client
    first = client.dial("echo-1.test", 1, eager=True)
    simulation.until(lambda: first.done)
    took = []
    for number in range(2, 22):
        simulation.rest(0.1 + number * 0.015)
        began = simulation.world.time
        flow = client.dial(f"echo-{number}.test", 1, stays=True)
        flow.eager = True
        flow.move()
        client.pump()
        simulation.until(lambda flow=flow: flow.first is not None)  # type: ignore[misc]
        assert flow.first is not None
        took.append(flow.first - began)
        client.cancel(flow)
    return max(took)


def test_a_new_stream_is_answered_in_one_round_trip_at_any_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert slowest(monkeypatch) < 0.075


def test_with_the_old_polls_alone_some_would_take_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FreshPolls, "wanted", lambda self, now: 0)
    assert slowest(monkeypatch) > 0.09
