"""Many streams beside one another, and clients beside a bad neighbour (scenarios 14 and 15)."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest

from tests.transports.soar.sim import quirks as kinds
from tests.transports.soar.sim.dns import DS, Query
from tests.transports.soar.sim.invariants import check_pace
from tests.transports.soar.sim.simulation import Simulation
from tests.transports.soar.sim.story import Story, Way

if TYPE_CHECKING:
    from tests.transports.soar.sim.flow import Flow


def keystroke(simulation: Simulation, flow: Flow) -> float:
    """Return how long one octet took to come back."""
    begun = simulation.world.time
    before = flow.received
    flow.write_more(1)
    simulation.client.pump()
    simulation.until(lambda: flow.received > before, 10.0)
    return simulation.world.time - begun


@pytest.mark.parametrize("quirks", [kinds.PLAIN, kinds.UNBOUND], ids=str)
def test_an_upload_that_fills_the_link_leaves_room_for_keystrokes(quirks: kinds.Quirks) -> None:
    simulation = Simulation(Story(ways=(Way(resolver=quirks),)))
    client = simulation.client
    idle = [client.dial(f"silent-{number}.test") for number in range(50)]
    typed = client.dial("echo-51.test", 1, stays=True)
    simulation.until(lambda: typed.received == 1 and all(flow.opened for flow in idle))
    load = client.dial("put-300000-52.test", 300_000)
    took = []
    while not load.done:
        took.append(keystroke(simulation, typed))
        simulation.rest(0.05)
    assert load.succeeded
    assert len(took) >= 5
    assert max(took) <= 0.5, took
    check_pace(client)
    for flow in (*idle, typed):
        client.cancel(flow)
    simulation.check(may=frozenset())
    simulation.check_quiet()


def test_a_stream_that_nobody_reads_stops_no_other() -> None:
    simulation = Simulation(Story(ways=(Way(resolver=kinds.PLAIN),)))
    client = simulation.client
    stalled = client.dial("get-3000000-1.test", 3_000_000)
    stalled.is_reading = False
    simulation.rest(3.0)
    others = [client.dial(f"get-40000-{number}.test", 40_000) for number in (2, 3)]
    for flow in others:
        assert simulation.finish(flow, 20.0).succeeded
    assert not stalled.done
    simulation.check_idle_stream()
    client.cancel(stalled)
    simulation.check(may=frozenset())
    simulation.check_quiet()


def test_a_hundred_and_thirty_streams_at_once() -> None:
    """A session takes 128; the others get a second one."""
    simulation = Simulation(Story(ways=(Way(resolver=kinds.PLAIN),)))
    client = simulation.client
    flows = [client.dial(f"echo-{number}.test", 50) for number in range(130)]
    for flow in flows:
        assert simulation.finish(flow, 30.0).succeeded
    simulation.check(may=frozenset())


def warm_openings(simulation: Simulation, count: int) -> list[float]:
    """Return how long each of so many dials took, one a second."""
    took = []
    for number in range(count):
        simulation.rest(1.0)
        flow = simulation.finish(simulation.client.dial(f"echo-{number}-w.test", 5))
        assert flow.succeeded
        assert flow.opened is not None
        took.append(flow.opened - flow.began)
    return sorted(took)


@pytest.mark.parametrize("quirks", [kinds.UNBOUND, kinds.POWERDNS], ids=str)
def test_a_neighbour_who_floods_the_same_resolver_at_most_doubles_what_a_dial_takes(
    quirks: kinds.Quirks,
) -> None:
    """Junk names, whole and partial, and packets of a session of its own on all paths, two hundred a second."""
    usual = warm_openings(Simulation(Story(seed=2, ways=(Way(resolver=quirks),))), 6)
    simulation = Simulation(Story(ways=(Way(resolver=quirks),)))
    neighbour = simulation.add_client("neighbour")
    mine = neighbour.dial("silent-1-n.test")
    dice = simulation.world.dice("neighbour")
    alphabet = b"abcdefghijklmnopqrstuvwxyz234567"
    zone = b"\1t\7example\3com\0"

    def flood() -> None:
        labels = dice.choice((1, 1, 2, 4))
        name = b"".join(b"\x3f" + bytes(dice.choices(alphabet, k=63)) for _ in range(labels - 1))
        name += (
            b"\x3f" + bytes(dice.choices(alphabet, k=63))
            if labels < 4
            else b"\x1a" + bytes(dice.choices(alphabet, k=26))
        )
        query = Query(dice.randrange(65_536), name + zone, dice.choice((1, 2, 6, 16, DS, 99)), 1232)
        simulation.routes[0].send(("nobody", 0, 0), query.to_wire())
        simulation.world.after(0.005, flood)

    flood()
    took = warm_openings(simulation, 6)
    assert took[-1] <= 2 * usual[-1]
    assert simulation.routes[0].resolver.failed == 0
    neighbour.cancel(mine)
    simulation.check(may=frozenset())


def test_an_idle_session_costs_a_server_less_than_twenty_kilobytes() -> None:
    """Counted by Python's allocator: everything that thirty sessions leave behind once they are idle."""
    simulation = Simulation(Story(ways=(Way(resolver=kinds.PLAIN),)))
    simulation.max_sessions = 1_000
    hosts = [simulation.add_client(f"c{number}") for number in range(40)]
    for number, host in enumerate(hosts[:10]):
        simulation.finish(host.dial(f"get-10000-{number}.test", 10_000))
    server = simulation.server
    kept = server.running.sids()
    tracemalloc.start(1)
    try:
        before = _of_server(tracemalloc.take_snapshot())
        for number, host in enumerate(hosts[10:], 10):
            simulation.finish(host.dial(f"get-10000-{number}.test", 10_000))
        simulation.rest(15.0)
        after = _of_server(tracemalloc.take_snapshot())
    finally:
        tracemalloc.stop()
    count = len(server.running.sids()) - len(kept)
    assert count == 30
    assert (after - before) / count <= 20 << 10


def _of_server(snapshot: tracemalloc.Snapshot) -> int:
    """Return the octets that were allocated in the server's modules, and in those that both sides share."""
    return sum(
        trace.size
        for trace in snapshot.statistics("filename")
        if "/soar/core/" in trace.traceback[0].filename
        and "/core/client/" not in trace.traceback[0].filename
    )
