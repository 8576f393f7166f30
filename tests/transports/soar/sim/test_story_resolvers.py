"""What a session does through each kind of resolver (scenarios 5 to 8)."""

from __future__ import annotations

import pytest

from tests.transports.soar.sim import quirks as kinds
from tests.transports.soar.sim.invariants import check_idle_stream, check_pace
from tests.transports.soar.sim.link import Weather
from tests.transports.soar.sim.simulation import Simulation
from tests.transports.soar.sim.story import FAR, Story, Way

MODELS = (kinds.PLAIN, *kinds.ALL, kinds.KNOT_FORWARDER)


@pytest.mark.parametrize("quirks", MODELS, ids=str)
def test_a_dial_takes_one_round_trip_and_octets_pass_both_ways(quirks: kinds.Quirks) -> None:
    simulation = Simulation(Story(ways=(Way(resolver=quirks),)))
    client = simulation.client
    cold = simulation.finish(client.dial("echo-1.test", 5, eager=True))
    assert cold.first == pytest.approx(0.072, abs=0.001)
    simulation.rest(5.0)
    warm = simulation.finish(client.dial("echo-2.test", 5, eager=True))
    assert warm.first == pytest.approx(warm.began + 0.072, abs=0.001)
    down = simulation.finish(client.dial("get-60000-3.test", 60_000), 20.0)
    up = simulation.finish(client.dial("put-30000-4.test", 30_000), 20.0)
    assert down.succeeded
    assert up.succeeded
    check_pace(client, 1.0)
    assert simulation.routes[0].resolver.failed == 0, "no resolver lost patience"
    assert len(client.handshakes) == 1
    simulation.check(may=frozenset())
    simulation.check_quiet()


@pytest.mark.parametrize("quirks", MODELS, ids=str)
def test_an_idle_stream_asks_once_a_second_and_hears_within_two(quirks: kinds.Quirks) -> None:
    simulation = Simulation(Story(ways=(Way(resolver=quirks),)))
    client = simulation.client
    flow = client.dial("push-40000-1.test", 100)
    simulation.until(lambda: flow.opened is not None)
    begun = simulation.world.time
    simulation.rest(39.9)
    check_idle_stream(client, begun, simulation.world.time)
    simulation.finish(flow, 5.0)
    assert flow.first is not None
    assert flow.first - (begun - 0.035 + 40.0) <= 2.0 + 0.035
    assert simulation.routes[0].resolver.failed == 0
    simulation.check(may=frozenset())
    simulation.check_quiet()


def silence(simulation: Simulation, seconds: float) -> None:
    """Let nothing pass between resolver and server for so long."""
    route = simulation.routes[0]
    route.weather(far=Weather(down=True))
    simulation.rest(seconds)
    route.weather(far=FAR)


@pytest.mark.parametrize(
    ("quirks", "patience"),
    [(kinds.PLAIN, 2.0), (kinds.BIND, 2.0), (kinds.KNOT, 2.0), (kinds.UNBOUND, 15.0),
     (kinds.POWERDNS, 15.0)],
    ids=str,
)  # fmt: skip
def test_a_server_away_for_ten_seconds_makes_no_resolver_dislike_it_for_long(
    quirks: kinds.Quirks, patience: float
) -> None:
    """An idle stream's client slows down before the resolver counts enough silent questions against the server."""
    simulation = Simulation(Story(ways=(Way(resolver=quirks),)))
    client = simulation.client
    flow = client.dial("echo-1.test", 100, stays=True)
    simulation.until(lambda: flow.received == 100)
    silence(simulation, 10.0)
    back = simulation.world.time
    flow.write_more(100)
    client.pump()
    simulation.until(lambda: flow.received == 200, patience)
    assert simulation.world.time - back <= patience
    assert len(client.handshakes) == 1
    client.cancel(flow)
    simulation.check(may=frozenset())


def test_a_powerdns_that_was_made_to_hate_the_server_by_a_download_comes_back_after_its_minute() -> (
    None
):
    """A window full of silent questions is 64 and more: nothing is answered for a minute, whatever is asked."""
    simulation = Simulation(Story(ways=(Way(resolver=kinds.POWERDNS),)))
    client = simulation.client
    flow = client.dial("get-2000000-1.test", 2_000_000)
    simulation.until(lambda: client.core.status(client.now()).paths[0].in_flight >= 64)
    silence(simulation, 10.0)
    before = client.asked
    simulation.rest(40.0)
    assert client.asked - before <= 2 * 40 + 2, "two questions a second"
    simulation.rest(40.0)
    again = simulation.finish(client.dial("echo-2.test", 5), 60.0)
    assert again.succeeded
    client.cancel(flow)
    simulation.check()


def test_a_dnsmasq_that_refuses_beyond_150_is_not_driven_there_again_and_again() -> None:
    simulation = Simulation(Story(ways=(Way(resolver=kinds.DNSMASQ),)))
    client = simulation.client
    flow = simulation.finish(client.dial("get-400000-1.test", 400_000), 30.0)
    assert flow.succeeded
    assert simulation.routes[0].resolver.refused <= client.asked / 20
    check_pace(client, 1.0)
    simulation.check(may=frozenset())


@pytest.mark.parametrize(
    "octets", [40_000, pytest.param(1_000_000, marks=pytest.mark.soak)], ids=str
)
def test_an_old_resolver_with_names_of_101_octets_and_answers_of_512(octets: int) -> None:
    """Nothing longer passes, from the first message to the last octet, and no OPT record."""
    simulation = Simulation(Story(ways=(Way(resolver=kinds.OLD),)))
    client = simulation.client
    first = simulation.finish(client.dial("echo-1.test", 5, eager=True))
    assert first.first == pytest.approx(0.072, abs=0.001)
    down = simulation.finish(client.dial(f"get-{octets}-2.test", octets), octets / 1000)
    up = simulation.finish(client.dial(f"put-{octets}-3.test", octets), octets / 500)
    assert down.succeeded
    assert up.succeeded
    assert len(client.handshakes) == 1
    check_pace(client)
    simulation.check(may=frozenset())
