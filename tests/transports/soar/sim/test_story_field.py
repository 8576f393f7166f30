"""What others met in the field, replayed: `docs/soar.md` has the table (rows by the number of the report)."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from tests.transports.soar.sim import quirks as kinds
from tests.transports.soar.sim import simulation as simulations
from tests.transports.soar.sim.invariants import check_pace
from tests.transports.soar.sim.link import Weather
from tests.transports.soar.sim.simulation import Simulation
from tests.transports.soar.sim.story import NEAR, Story, Way
from transports.soar.core.client.reasons import Failure
from transports.soar.core.dns.zone import Zone

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.transports.soar.sim.route import Route

SOAK = pytest.mark.soak
UNBOUND, PLAIN = Way(resolver=kinds.UNBOUND), Way(resolver=kinds.PLAIN)
RATED = Weather(delay=0.010, rate=100_000)  # so that a download takes its time
SHORT = Zone.parse("t.a.co")  # eight octets, with which the shortest names have 72


def filtered(route: Route, drops: Callable[[Any, bytes], bool]) -> None:
    """Have the client's side of `route` lose the questions that `drops` says."""
    send = route.up.send

    def pass_on(client: Any, message: bytes) -> None:
        if not drops(client, message):
            send(client, message)

    route.up.send = pass_on  # type: ignore[method-assign,assignment]


# --- 3: a resolver that is much worse than another


@pytest.mark.parametrize(
    "near",
    [
        pytest.param(Weather(delay=0.010, rate=20_000), id="narrow"),
        pytest.param(Weather(delay=0.250), id="far", marks=SOAK),
    ],
)
def test_a_resolver_that_is_no_match_for_another_is_left_but_watched(near: Weather) -> None:
    simulation = Simulation(Story(ways=(replace(UNBOUND, near=near), PLAIN)))
    client = simulation.client
    flow = simulation.finish(client.dial("get-600000-1.test", 600_000), 6.0)
    assert flow.succeeded
    poor, good = simulation.routes
    assert poor.up.sent < good.up.sent / 10
    before, began = poor.up.sent, simulation.world.time
    assert simulation.finish(client.dial("get-900000-2.test", 900_000), 6.0).succeeded
    took = simulation.world.time - began
    assert 1 <= poor.up.sent - before <= 2 + 2 * took, "two a second, which show if it gets better"
    assert len(client.handshakes) == 1
    simulation.check(may=frozenset())


def test_a_connection_that_is_cut_after_each_200_kilobytes_goes_on_where_it_was() -> None:
    """As a public resolver does with TLS: all under way is lost, and connecting anew takes two round trips."""
    simulation = Simulation(Story(ways=(UNBOUND,)))
    client, (route,) = simulation.client, simulation.routes
    client.core._paths[0].datagram = False
    passed = cuts = 0
    waiting: deque[tuple[Any, bytes]] | None = None
    ask, tell = route.send, route.resolver._tell

    def send(asker: Any, message: bytes) -> None:
        if waiting is None:
            ask(asker, message)
        else:
            waiting.append((asker, message))

    def cut() -> None:
        nonlocal waiting
        waiting = deque(maxlen=256)
        client.new_ports()
        simulation.world.after(0.040, connect)

    def connect() -> None:
        nonlocal waiting
        assert waiting is not None
        kept, waiting = waiting, None
        for each in kept:
            ask(*each)

    def answer(asker: Any, message: bytes) -> None:
        nonlocal passed, cuts
        if asker[2] != client._ports.get(0, 0):
            return
        tell(asker, message)
        passed += len(message)
        if passed > 200_000:
            passed, cuts = 0, cuts + 1
            simulation.world.after(0.010, cut)

    route.send = send  # type: ignore[method-assign,assignment]
    route.resolver._tell = answer
    flow = simulation.finish(client.dial("get-600000-1.test", 600_000), 10.0)
    assert flow.succeeded
    assert cuts >= 2
    assert len(client.handshakes) == 1
    check_pace(client, 2.0)
    simulation.check(may=frozenset())


# --- 4: a port that is blocked after a few seconds


@pytest.mark.parametrize(
    ("ways", "target"),
    [
        (1, "get-500000-1.test"),
        (1, "put-140000-1.test"),
        pytest.param(2, "get-800000-1.test", marks=SOAK),
    ],
)
def test_a_port_that_is_blocked_after_four_seconds_is_left_within_four(
    ways: int, target: str
) -> None:
    simulation = Simulation(Story(ways=(replace(UNBOUND, near=RATED),) * ways))
    client = simulation.client
    seen: dict[object, float] = {}

    def is_blocked(name: str, asker: object) -> bool:
        now = simulation.world.time
        return now - seen.setdefault((name, asker), now) > 4.0

    for route in simulation.routes:
        filtered(route, lambda asker, _, name=route.name: is_blocked(name, asker))  # type: ignore[misc]
    flow = simulation.finish(client.dial(target, int(target.split("-")[1])), 90.0)
    assert flow.succeeded
    assert len(seen) > ways, "nothing was blocked"
    assert len(client.handshakes) == 1
    check_pace(client, 4.0)
    simulation.check(may=frozenset())


# --- 7, 20, 22: what is long does not pass


def test_where_only_names_of_72_octets_pass_everything_goes_by_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A zone's shortest names have 64 octets more than itself; the handshake has no longer ones."""
    monkeypatch.setattr(simulations, "ZONES", (SHORT,))
    strict = replace(kinds.UNBOUND, longest_name=72)
    simulation = Simulation(Story(ways=(Way(resolver=strict),)))
    client = simulation.client
    first = simulation.finish(client.dial("echo-1.test", 5, eager=True))
    assert first.first == pytest.approx(0.072, abs=0.001)
    for target, octets in (("get-60000-2.test", 60_000), ("put-10000-3.test", 10_000)):
        assert simulation.finish(client.dial(target, octets), 20.0).succeeded
    assert len(client.handshakes) == 1
    assert set(client.core._paths[0].sizes.up._passed) == {1}
    check_pace(client, 3.0)
    simulation.check(may=frozenset())


def test_where_answers_of_more_than_512_octets_vanish_shorter_ones_go_on() -> None:
    """512 is the least that DNS promises, and what every path begins with; larger ones are tried on live questions."""
    simulation = Simulation(Story(ways=(PLAIN,)))
    client, (route,) = simulation.client, simulation.routes
    route.down.weather = replace(NEAR, longest=512)
    flow = simulation.finish(client.dial("get-40000-1.test", 40_000), 20.0)
    assert flow.succeeded
    assert route.down.lost, "nothing longer was tried"
    assert client.core._paths[0].sizes.down.current == 0
    assert len(client.handshakes) == 1
    check_pace(client, 3.0)
    simulation.check(may=frozenset())


def test_a_poor_resolver_does_not_make_the_others_names_and_answers_short() -> None:
    old, good = replace(kinds.OLD, name="old and near"), kinds.PLAIN
    ways = (Way(resolver=old), Way(resolver=good))
    simulation = Simulation(Story(ways=ways))
    client = simulation.client
    down = simulation.finish(client.dial("get-100000-1.test", 100_000), 30.0)
    up = simulation.finish(client.dial("put-20000-2.test", 20_000), 30.0)
    assert down.succeeded
    assert up.succeeded
    poor, rich = client.core._paths[0].sizes, client.core._paths[1].sizes
    assert (poor.down.current, rich.down.current) == (0, rich.down.steps[-1])
    assert poor.up.current < rich.up.current == rich.up.steps[-1]
    simulation.check(may=frozenset())


# --- 14: a day


def tables(*roots: object) -> int:
    """Return how many entries all containers have that can be reached from `roots`, each counted once."""
    seen: set[int] = set()
    todo: list[object] = list(roots)
    count = 0
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(
            thing,
            type | ModuleType | FunctionType | BuiltinFunctionType | MethodType | bytes | str | int | float,
        ):  # fmt: skip
            continue
        seen.add(id(thing))
        if isinstance(thing, dict):
            count += len(thing)
            todo += [*thing.keys(), *thing.values()]
        elif isinstance(thing, list | tuple | set | frozenset | deque):
            count += len(thing)
            todo += thing
        else:
            todo += vars(thing).values() if hasattr(thing, "__dict__") else ()
            slots = [
                name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())
            ]
            todo += [getattr(thing, name, None) for name in slots]
    return count


def day(hours: int) -> tuple[list[int], list[int]]:
    """Return the entries that client and server keep at the end of each hour of a working client's life.

    It looks at a page each ten minutes, keeps a stream that says something now and then, and loses its link for a minute
    in each hour; once in a while it gives up a dial, or sleeps.
    """
    simulation = Simulation(
        Story(ways=(UNBOUND, replace(PLAIN, far=Weather(delay=0.025, loss=0.02))))
    )
    client = simulation.client
    kept: tuple[list[int], list[int]] = ([], [])
    number = 0
    for hour in range(hours):
        for part in range(6):
            number += 1
            for target, octets in (
                (f"get-30000-{number}.test", 30_000),
                (f"put-2000-{number}.test", 2_000),
            ):
                simulation.finish(client.dial(target, octets), 120.0)
            given_up = client.dial(f"silent-{number}.test", 10)
            simulation.rest(5.0)
            client.cancel(given_up)
            if part == 3:
                for route in simulation.routes:
                    route.resolver.alive = False
                simulation.rest(60.0)
                for route in simulation.routes:
                    route.resolver.alive = True
            simulation.rest(600.0 * (part == 5 and hour % 8 == 7) + 535.0)
        simulation.rest(300.0)
        client.flows.clear()
        client._flow_of.clear()
        server = simulation.server
        kept[0].append(tables(client.core))
        kept[1].append(tables(server.running))
    simulation.check(may=frozenset())
    return kept


@pytest.mark.parametrize("hours", [2, pytest.param(24, marks=SOAK)])
def test_no_table_of_either_side_grows_in_a_day(hours: int) -> None:
    client, server = day(hours)
    assert client[-1] <= client[0] + 100
    assert server[-1] <= server[0] + 100


# --- 15: many streams are closed at once


def test_many_streams_given_up_at_once_cost_a_few_round_trips_and_then_nothing() -> None:
    simulation = Simulation(Story(ways=(UNBOUND,)))
    client = simulation.client
    flows = [client.dial(f"get-40000-{key}.test", 40_000) for key in range(1, 21)]
    simulation.until(lambda: all(flow.received for flow in flows), 20.0)
    before = client.asked
    for flow in flows:
        client.cancel(flow)
    simulation.rest(1.0)
    window = int(client.core._paths[0].window.size)
    assert client.asked - before <= 5 * window, "no more than it asked while they were open"
    (session,) = simulation.server.running._keeper.table
    assert not session.streams._handles
    before = client.asked
    simulation.rest(60.0)
    assert client.asked - before <= 8, "no more than what a session that lingers may ask"
    assert simulation.finish(client.dial("echo-21.test", 5)).succeeded
    assert len(client.handshakes) == 1
    simulation.check(may=frozenset())


# --- 26: losses, and domains that are blocked


@pytest.mark.parametrize("quirks", [kinds.UNBOUND, pytest.param(kinds.KNOT, marks=SOAK)], ids=str)
def test_where_each_tenth_message_is_lost_both_ways_go_on_at_a_good_part_of_the_speed(
    quirks: kinds.Quirks,
) -> None:
    def seconds(loss: float, seed: int) -> float:  # another seed, or keys would be used twice
        way = Way(resolver=quirks, near=replace(NEAR, loss=loss))
        simulation = Simulation(Story(seed=seed, ways=(way,)))
        client = simulation.client
        for target, octets in (("get-60000-1.test", 60_000), ("put-8000-2.test", 8_000)):
            assert simulation.finish(client.dial(target, octets), 30.0).succeeded
        assert len(client.handshakes) == 1
        check_pace(client, 2.0)
        simulation.check(may=frozenset())
        return simulation.world.time

    assert seconds(0.1, 1) < 4 * seconds(0.0, 2)


def blocked_zone(simulation: Simulation) -> None:
    zone = simulation.zones[0].wire
    filtered(simulation.routes[0], lambda _, message: zone in message.lower())


def test_a_stream_goes_on_by_another_domain_of_the_server_when_its_own_is_blocked() -> None:
    simulation = Simulation(Story(ways=(UNBOUND,), zones=2))
    client = simulation.client
    flow = client.dial("echo-1.test", 100, stays=True)
    simulation.until(lambda: flow.received == 100)
    simulation.rest(5.0)
    blocked_zone(simulation)
    flow.write_more(100)
    client.pump()
    simulation.until(lambda: flow.received == 200, 5.0)
    assert len(client.handshakes) == 1
    client.cancel(flow)
    simulation.check(may=frozenset())


def test_a_domain_that_was_blocked_from_the_start_fails_one_dial_and_the_next_takes_another() -> (
    None
):
    simulation = Simulation(Story(ways=(UNBOUND,), zones=2))
    client = simulation.client
    blocked_zone(simulation)
    first = simulation.finish(client.dial("echo-1.test", 100), 31.0)
    assert first.error.failure is Failure.SILENT
    second = simulation.finish(client.dial("echo-2.test", 100), 1.0)
    assert second.succeeded
    simulation.check(may=frozenset({Failure.SILENT}))


# --- 29: everything comes twice


@pytest.mark.parametrize("quirks", [kinds.PLAIN, kinds.DNSMASQ], ids=str)
def test_an_opening_that_comes_twice_makes_one_session_and_one_visit(quirks: kinds.Quirks) -> None:
    twice = Weather(delay=0.010, duplicate=1.0)
    simulation = Simulation(
        Story(ways=(Way(resolver=quirks, near=twice, far=replace(twice, delay=0.025)),))
    )
    client = simulation.client
    flows = [client.dial(f"echo-{key}.test", 50, eager=True) for key in range(1, 6)]
    for flow in flows:
        assert simulation.finish(flow, 10.0).succeeded
    assert len(client.handshakes) == 1
    assert len(list(simulation.server.running._keeper.table)) == 1
    assert sorted(visit.name for visit in simulation.server.origin.visits) == [
        f"echo-{key}.test" for key in range(1, 6)
    ]
    simulation.check(may=frozenset())
    simulation.check_quiet()
