"""What a session does through each kind of resolver (scenarios 5 to 8)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.transports.soar.sim import quirks as kinds
from tests.transports.soar.sim.invariants import check_idle_stream, check_pace
from tests.transports.soar.sim.link import Weather
from tests.transports.soar.sim.simulation import Simulation
from tests.transports.soar.sim.story import FAR, NEAR, Story, Way
from transports.soar.core.dns.zone import PartialAnswer

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


# Where one message in five is lost each way, one upload in five has not shown its resolver before it is over: this one has.
SHOWN_THROUGH_LOSS = 2

PUNISHING = replace(kinds.UNBOUND, name="punishing", punishes=True)


def partials_of(simulation: Simulation) -> PartialAnswer:
    return simulation.client.core._paths[0].partials.answer


def uploading(
    quirks: kinds.Quirks, *, loss: float = 0.0, jitter: float = 0.0, seed: int = 1
) -> Simulation:
    near = replace(NEAR, loss=loss)
    far = replace(FAR, loss=loss, jitter=jitter)
    return Simulation(Story(seed=seed, ways=(Way(resolver=quirks, near=near, far=far),)))


def test_an_upload_through_unbound_soon_has_two_questions_for_each_name_not_three() -> None:
    simulation = uploading(kinds.UNBOUND)
    client, resolver = simulation.client, simulation.routes[0].resolver
    flow = client.dial("put-300000-1.test", 300_000)
    simulation.until(lambda: partials_of(simulation) is PartialAnswer.REFUSED)
    assert simulation.world.time - flow.began < 7 * 0.122
    simulation.rest(0.15)  # what was on its way
    asked, copies = client.asked, resolver.copies
    assert simulation.finish(flow, 20.0).succeeded
    assert client.asked - asked > 1000
    assert resolver.copies - copies < 2.3 * (client.asked - asked)
    assert resolver.failed == 0
    check_pace(client, 1.0)
    simulation.check(may=frozenset())
    simulation.check_quiet()


@pytest.mark.parametrize(
    "quirks", [model for model in MODELS if model is not kinds.UNBOUND], ids=str
)
def test_no_other_resolver_has_partial_names_refused(quirks: kinds.Quirks) -> None:
    simulation = uploading(quirks, jitter=0.005)
    flow = simulation.finish(simulation.client.dial("put-100000-1.test", 100_000), 20.0)
    assert flow.succeeded
    assert partials_of(simulation) is PartialAnswer.NXDOMAIN
    assert simulation.client.core._paths[0].partials.next_at > 60.0, "it was looked at"
    simulation.check(may=frozenset())


def test_where_there_is_no_delay_to_see_it_by_unbound_keeps_nxdomain() -> None:
    far = Weather(delay=0.001)
    simulation = Simulation(Story(ways=(Way(far=far),)))
    flow = simulation.finish(simulation.client.dial("put-100000-1.test", 100_000), 20.0)
    assert flow.succeeded
    assert partials_of(simulation) is PartialAnswer.NXDOMAIN


@pytest.mark.parametrize("loss", [0.0, 0.1], ids=["no loss", "10 %"])
def test_a_resolver_that_fails_names_whose_partial_names_are_refused_gets_nxdomain_again(
    loss: float,
) -> None:
    simulation = uploading(PUNISHING, loss=loss, seed=SHOWN_THROUGH_LOSS)
    client = simulation.client
    flow = client.dial("put-120000-1.test", 120_000)
    simulation.until(lambda: partials_of(simulation) is PartialAnswer.REFUSED)
    simulation.until(lambda: partials_of(simulation) is PartialAnswer.NXDOMAIN, 5.0)
    failed = simulation.routes[0].resolver.failed
    assert failed < 200
    assert simulation.finish(flow, 60.0).succeeded
    assert partials_of(simulation) is PartialAnswer.NXDOMAIN
    again = simulation.finish(client.dial("put-20000-2.test", 20_000), 60.0)
    assert again.succeeded
    assert client.core._paths[0].partials.next_at > simulation.world.time + 300
    assert len(client.handshakes) == 1
    simulation.check(may=frozenset())


def test_through_ten_percent_of_loss_an_upload_has_them_refused_and_keeps_it() -> None:
    simulation = uploading(kinds.UNBOUND, loss=0.1, seed=SHOWN_THROUGH_LOSS)
    flow = simulation.finish(simulation.client.dial("put-120000-1.test", 120_000), 60.0)
    assert flow.succeeded
    assert partials_of(simulation) is PartialAnswer.REFUSED
    simulation.check(may=frozenset())


@pytest.mark.parametrize("seed", [5, 10, 13, 30])
def test_what_is_lost_with_the_handshake_slows_no_upload_for_good(seed: int) -> None:
    """One in eight took four times as long as the others: its window was cut to eight before it had begun."""
    near, far = Weather(delay=0.010, loss=0.025), Weather(delay=0.090, loss=0.025)
    simulation = Simulation(Story(seed=seed, ways=(Way(near=near, far=far),)))
    flow = simulation.finish(simulation.client.dial("put-100000-1.test", 100_000), 60.0)
    assert flow.succeeded
    assert simulation.world.time - flow.began < 8.0
    simulation.check(may=frozenset())
