"""A thief has recorded everything, and sends it again: now, later, after a restart (scenario 13)."""

from __future__ import annotations

import pytest

from tests.transports.soar.sim import quirks as kinds
from tests.transports.soar.sim.simulation import Simulation
from tests.transports.soar.sim.story import Story, Way
from transports.soar.core.server.receipts import UNPROVEN_OCTETS

VICTIM = bytes((203, 0, 113, 7))


def recorded(*, grants: bool) -> Simulation:
    """Return a world in which a flight with early data, a second stream and a download were recorded."""
    simulation = Simulation(Story(ways=(Way(resolver=kinds.UNBOUND),), grants=grants))
    simulation.server.tape = []
    client = simulation.client
    client.tape = []
    simulation.finish(client.dial("echo-1.test", 1_000, eager=True))
    simulation.rest(3.0)
    simulation.finish(client.dial("echo-2.test", 1_000, eager=True))
    simulation.finish(client.dial("get-60000-3.test", 60_000))
    return simulation


def replay(simulation: Simulation) -> None:
    """Send all that was recorded again, in another order, from somewhere else."""
    tape = simulation.server.tape
    assert tape is not None
    dice = simulation.world.dice(f"thief {simulation.world.time}")
    for arrival in dice.sample(tape, len(tape)):
        simulation.server.inject(arrival.message, VICTIM)


@pytest.mark.parametrize("grants", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_replayed_corpus_makes_no_target_meet_anybody(restarts: bool, grants: bool) -> None:
    simulation = recorded(grants=grants)
    server = simulation.server
    visits = len(server.origin.visits)
    received = server.origin.received
    if restarts:
        server.crash()
        server.start()
    sids = set(server.running.sids())
    for pause in (0.0, 1.0, 100.0, 100.0, 400.0):
        simulation.rest(pause)
        replay(simulation)
        simulation.rest(0.7)
        # After a restart a first message of just before may make a session again; nothing is executed in it.
        made = set(server.running.sids()) - sids
        assert len(made) <= int(restarts)
    assert len(server.origin.visits) == visits
    assert server.origin.received == received
    assert server.given.get(VICTIM[:3], 0) <= UNPROVEN_OCTETS
    if not restarts:
        assert not server.running.sids()
    flow = simulation.finish(simulation.client.dial("echo-9.test", 5))
    assert flow.succeeded
    simulation.check(may=frozenset())


def test_answers_that_are_said_again_change_nothing_an_hour_later_either() -> None:
    simulation = recorded(grants=False)
    client = simulation.client
    tape = client.tape
    assert tape is not None
    dice = simulation.world.dice("thief")
    for pause in (0.0, 5.0, 100.0, 3600.0):
        simulation.rest(pause)
        flow = client.dial(f"slow-300-{int(pause)}-x.test", 10, eager=True)
        for path, message in dice.sample(tape, len(tape)):
            client.inject((client.name, path, client._ports.get(path, 0)), message)
        assert simulation.finish(flow).succeeded
    simulation.check(may=frozenset())
    simulation.check_quiet()


def slow_echo(quirks: kinds.Quirks, *, copies: int) -> tuple[float, int, Simulation]:
    """Return when a slow echo came back, after how many questions, while all is replayed so often from elsewhere."""
    simulation = Simulation(Story(seed=1 + copies, ways=(Way(resolver=quirks),)))
    client, server = simulation.client, simulation.server
    simulation.finish(client.dial("echo-0.test", 5))
    server.tape = []
    flow = client.dial("slow-350-1.test", 10, eager=True)
    seen = 0
    while not flow.done:
        simulation.world.run(simulation.world.time + 0.010, stop=lambda: flow.done)
        new = server.tape[seen:]
        seen = len(server.tape)
        for arrival in new:
            for _ in range(copies):
                server.inject(arrival.message, VICTIM)
    assert flow.succeeded
    assert flow.ended is not None
    simulation.check(may=frozenset())
    return flow.ended - flow.began, client.asked, simulation


@pytest.mark.parametrize("quirks", [kinds.PLAIN, kinds.UNBOUND, kinds.BIND], ids=str)
@pytest.mark.parametrize("copies", [1, 2])
def test_who_replays_parked_questions_from_elsewhere_takes_no_answer_away(
    copies: int, quirks: kinds.Quirks
) -> None:
    undisturbed, _, _ = slow_echo(quirks, copies=0)
    took, _, simulation = slow_echo(quirks, copies=copies)
    # Unbound repeats by itself, and with a stranger's copies that makes four: a park ends early.
    assert took == pytest.approx(undisturbed, abs=0.070 if quirks is kinds.UNBOUND else 0.001)
    assert simulation.server.given.get(VICTIM[:3], 0) <= UNPROVEN_OCTETS


@pytest.mark.parametrize("copies", [3, 5])
def test_so_many_copies_end_parks_early_and_cost_a_round_trip_at_most(copies: int) -> None:
    undisturbed, asked, _ = slow_echo(kinds.PLAIN, copies=0)
    took, more, _ = slow_echo(kinds.PLAIN, copies=copies)
    assert took <= undisturbed + 0.071
    assert more <= 3 * asked


def test_a_stranger_can_aim_little_of_a_download_at_a_third_party() -> None:
    """The questions of a busy session come again from a victim's address, while it goes on."""
    simulation = Simulation(Story(ways=(Way(resolver=kinds.PLAIN),)))
    client, server = simulation.client, simulation.server
    server.tape = []
    flow = client.dial("get-400000-1.test", 400_000)
    while not flow.done:
        before = len(server.tape)
        simulation.rest(0.05)
        for arrival in server.tape[before:]:
            server.inject(arrival.message, VICTIM)
            server.inject(arrival.message, VICTIM)
    assert flow.succeeded
    assert server.given[VICTIM[:3]] <= UNPROVEN_OCTETS
    assert server.given.get(simulation.routes[0].address[:3], 0) > UNPROVEN_OCTETS
    simulation.check(may=frozenset())


def test_junk_is_answered_and_changes_no_session() -> None:
    simulation = recorded(grants=False)
    server, client = simulation.server, simulation.client
    stays = client.dial("echo-5.test", 50, stays=True)
    simulation.until(lambda: stays.received == 50)
    tape = server.tape
    assert tape is not None
    dice = simulation.world.dice("junk")
    before = [
        (session.sid, session.asked, len(session.streams), session.records.highest)
        for session in server.running._keeper.table
    ]
    answers = server.answers
    for _ in range(1_000):
        damaged = bytearray(dice.choice(tape).message)
        for _ in range(dice.randrange(1, 4)):
            damaged[dice.randrange(13, min(70, len(damaged)))] ^= 1 << dice.randrange(5)
        damaged[2] &= 0x7F
        server.inject(bytes(damaged), VICTIM)
    after = [
        (session.sid, session.asked, len(session.streams), session.records.highest)
        for session in server.running._keeper.table
    ]
    assert after == before
    simulation.rest(0.7)
    assert server.answers - answers >= 1_000
    stays.write_more(50)
    client.pump()
    simulation.until(lambda: stays.received == 100, 5.0)
    client.cancel(stays)
    simulation.check(may=frozenset())
