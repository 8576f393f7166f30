"""Somebody on the way answers every question first, with whatever there is (scenario 4)."""

from __future__ import annotations

import pytest

from tests.transports.soar.sim import quirks as kinds
from tests.transports.soar.sim.invariants import check_pace
from tests.transports.soar.sim.simulation import Simulation
from tests.transports.soar.sim.story import Story, Way

KINDS = (
    "nxdomain",
    "notice",
    "servfail",
    "refused",
    "nodata",
    "data",
    "noise",
    "truncated",
    "formerr",
)
OCTETS = 60_000


def download(ways: tuple[Way, ...], *, seed: int = 1) -> tuple[float, float, Simulation]:
    """Return seconds until a first stream was open, and a download's octets a second."""
    simulation = Simulation(Story(seed=seed, ways=ways))
    client = simulation.client
    first = simulation.finish(client.dial("echo-1.test", 5))
    assert first.opened is not None
    flow = simulation.finish(client.dial(f"get-{OCTETS}-2.test", OCTETS), 60.0)
    assert flow.succeeded
    assert flow.ended is not None
    assert len(client.handshakes) == 1
    check_pace(client)
    simulation.check(may=frozenset())
    simulation.check_quiet()
    return first.opened, OCTETS / (flow.ended - flow.began), simulation


@pytest.mark.parametrize("kind", KINDS)
def test_forged_answers_end_nothing_and_leave_a_quarter_of_the_speed(kind: str) -> None:
    """No session changes by one of them (`ClientHost.inject` looks), and none starts a flood."""
    _, clean, undisturbed = download((Way(resolver=kinds.PLAIN),), seed=2)
    opened, rate, simulation = download((Way(resolver=kinds.PLAIN, forged=(kind,)),))
    assert opened < 3.0
    assert rate >= clean / 4
    assert simulation.client.asked <= 3 * undisturbed.client.asked
    forger = simulation.routes[0].forger
    assert forger is not None
    assert forger.forged == simulation.client.asked


@pytest.mark.parametrize("quirks", kinds.ALL, ids=str)
def test_all_kinds_at_once_through_every_resolver(quirks: kinds.Quirks) -> None:
    opened, _, _ = download((Way(resolver=quirks, forged=KINDS),))
    assert opened < 3.0


def test_a_resolver_that_only_lies_beside_an_honest_one_costs_little() -> None:
    liar = Way(resolver=kinds.PLAIN, forged=KINDS)
    opened, _, simulation = download((liar, Way(resolver=kinds.UNBOUND)))
    assert opened < 1.0
    assert simulation.server.starts == 1
