"""A server that crashes at every point of a dial, and comes back half a second later (scenario 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.transports.soar.sim import quirks as kinds
from tests.transports.soar.sim.link import Weather
from tests.transports.soar.sim.simulation import Simulation
from tests.transports.soar.sim.story import Story, Way
from transports.soar.core.client.reasons import EndReason, Failure

if TYPE_CHECKING:
    from tests.transports.soar.sim.flow import Flow

RTT = 0.070
CONNECT = 0.002
AWAY = 0.5
REPEATING = (kinds.PLAIN, kinds.UNBOUND, kinds.KNOT)

# Seconds after the dial: its opening reaches the server at 35 ms, and the target at 37, when the answer leaves.
MOMENTS = {"before it came": 0.030, "accepted": 0.036, "connected": 0.038, "answered": 0.060}


def crash_and_return(simulation: Simulation, after: float) -> None:
    simulation.world.after(after, simulation.server.crash)
    simulation.world.after(after + AWAY, simulation.server.start)


def met(simulation: Simulation, flow: Flow) -> int:
    return sum(visit.name == flow.target for visit in simulation.server.origin.visits)


@pytest.mark.parametrize("quirks", REPEATING, ids=str)
@pytest.mark.parametrize("safe", [True, False])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_dial_on_a_session_whose_server_crashes(
    moment: str, safe: bool, quirks: kinds.Quirks
) -> None:
    """Copies that the resolver makes meanwhile reach the new process: it cannot tell what the old one did."""
    simulation = Simulation(Story(ways=(Way(resolver=quirks),)))
    client = simulation.client
    simulation.finish(client.dial("echo-0.test", 5))
    simulation.rest(5.0)
    crash_and_return(simulation, MOMENTS[moment])
    if moment == "connected":
        # What the server said last is lost, so that nobody but the target knows.
        down = simulation.routes[0].far_down
        simulation.world.after(0.0365, lambda: setattr(down, "weather", Weather(down=True)))
        simulation.world.after(AWAY, lambda: setattr(down, "weather", Weather(delay=0.025)))
    flow = simulation.finish(client.dial("echo-1.test", 5, replay_safe=safe), 30.0)
    reached = moment in ("connected", "answered")
    if moment == "answered":
        assert flow.opened == pytest.approx(flow.began + RTT + CONNECT)
        assert flow.error.failure is Failure.LOST
        assert met(simulation, flow) == 1
    elif safe:
        assert flow.succeeded
        assert [repair.proven for repair in flow.repairs] == [False]
        assert met(simulation, flow) == 1 + reached
    else:
        assert flow.error.failure is Failure.LOST
        assert flow.error.may_have_reached
        assert met(simulation, flow) == reached
    simulation.check(may=frozenset({Failure.LOST}))


@pytest.mark.parametrize("quirks", REPEATING, ids=str)
@pytest.mark.parametrize("step", range(0, 48, 3))
def test_a_handshake_whose_server_crashes_at_any_moment(step: int, quirks: kinds.Quirks) -> None:
    simulation = Simulation(Story(ways=(Way(resolver=quirks),)))
    client = simulation.client
    crash_and_return(simulation, 0.030 + step / 1000)
    safe = client.dial("echo-1.test", 5, eager=True)
    unsafe = client.dial("echo-2.test", 5, eager=True, replay_safe=False)
    simulation.finish(safe, 60.0)
    simulation.finish(unsafe, 60.0)
    was_open = safe.opened is not None and safe.opened - 0.035 < 0.030 + step / 1000
    assert safe.succeeded or (was_open and safe.error.failure is Failure.LOST)
    assert unsafe.succeeded or unsafe.error.failure is Failure.LOST
    simulation.check(may=frozenset({Failure.LOST}))


def test_streams_in_flight_fail_at_once_and_later_dials_find_a_new_session() -> None:
    simulation = Simulation(Story(ways=(Way(resolver=kinds.PLAIN),)))
    client = simulation.client
    load = client.dial("get-900000-1.test", 900_000)
    idle = client.dial("silent-2.test")
    simulation.until(lambda: load.received > 50_000 and idle.opened is not None)
    simulation.server.crash()
    simulation.server.start()
    at = simulation.world.time
    simulation.finish(load, 5.0)
    simulation.finish(idle, 5.0)
    assert load.ended == idle.ended
    assert load.ended is not None
    assert load.ended - at <= RTT + 0.001
    assert {load.error.failure, idle.error.failure} == {Failure.LOST}
    assert simulation.finish(client.dial("echo-3.test", 5)).succeeded
    simulation.check(may=frozenset({Failure.LOST}))


@pytest.mark.parametrize("safe", [True, False])
def test_a_dial_after_the_restart_is_repaired_with_proof(safe: bool) -> None:
    simulation = Simulation(Story(ways=(Way(resolver=kinds.PLAIN),)))
    client = simulation.client
    simulation.finish(client.dial("echo-0.test", 5))
    simulation.rest(5.0)
    simulation.server.crash()
    simulation.server.start()
    simulation.rest(1.0)
    flow = simulation.finish(client.dial("echo-1.test", 5, replay_safe=safe))
    assert flow.succeeded
    assert [repair.proven for repair in flow.repairs] == [True]
    # A notice, a handshake whose frames a young server does not execute, the opening.
    assert flow.opened == pytest.approx(flow.began + 3 * RTT + CONNECT)
    simulation.check(may=frozenset())


def test_fifty_dials_on_a_lost_session_share_one_handshake_and_each_is_repaired_once() -> None:
    simulation = Simulation(Story(ways=(Way(resolver=kinds.UNBOUND),)))
    client = simulation.client
    simulation.finish(client.dial("echo-0.test", 5))
    simulation.rest(5.0)
    simulation.server.crash()
    simulation.server.start()
    simulation.rest(1.0)
    flows = [client.dial(f"echo-{number}.test", 5, replay_safe=False) for number in range(1, 51)]
    for flow in flows:
        simulation.finish(flow)
        assert flow.succeeded
        assert [repair.proven for repair in flow.repairs] == [True]
    assert len(client.handshakes) == 2
    simulation.check(may=frozenset())


def test_a_second_loss_fails_the_dial() -> None:
    simulation = Simulation(Story(ways=(Way(resolver=kinds.PLAIN),)))
    client = simulation.client
    simulation.finish(client.dial("echo-0.test", 5))
    simulation.rest(5.0)
    simulation.server.crash()
    simulation.server.start()
    simulation.rest(1.0)
    flow = client.dial("echo-1.test", 5)
    simulation.until(lambda: len(client.handshakes) == 2)
    assert flow.opened is None
    simulation.server.crash()
    simulation.server.start()
    simulation.finish(flow)
    assert flow.error.failure is Failure.LOST
    assert len(flow.repairs) == 1
    simulation.check(may=frozenset({Failure.LOST}))


@pytest.mark.parametrize("safe", [True, False])
def test_a_server_that_restarts_between_two_welcomes_tells_the_client_of_the_first_at_once(
    safe: bool,
) -> None:
    """The first message went over two resolvers. The crash took the session that one copy made; the other copy made
    one of the same name, with other keys. What the client says under the first does not open under the second."""
    slow = Way(resolver=kinds.PLAIN, far=Weather(delay=0.100))
    simulation = Simulation(Story(ways=(Way(resolver=kinds.PLAIN), slow)))
    client = simulation.client
    simulation.world.after(0.036, simulation.server.crash)
    simulation.world.after(0.060, simulation.server.start)
    flow = client.dial("echo-1.test", 5, replay_safe=safe)
    simulation.world.run(0.109)
    assert simulation.server.running.sids() == []
    simulation.world.run(0.111)
    assert len(simulation.server.running.sids()) == 1, "the slow copy has come"
    simulation.finish(flow, 60.0)
    assert flow.ended is not None
    assert flow.ended < 1.1, "a probe timeout, a notice, and a new session"
    assert flow.succeeded is safe
    assert [repair.proven for repair in flow.repairs] == [False] * safe
    assert safe or (flow.error.failure is Failure.LOST and flow.error.may_have_reached)
    simulation.rest(40.0)
    status = simulation.server.running.status(simulation.server.clock.now())
    assert len(status.sessions) == safe, "what nobody has the keys of ends by itself"
    simulation.check(may=frozenset({Failure.LOST}))


@pytest.mark.parametrize("uptime", [0.0, 3600.0])
@pytest.mark.parametrize("safe", [True, False])
def test_a_first_message_that_two_processes_got_meets_its_target_twice_only_if_it_may(
    safe: bool, uptime: float
) -> None:
    """The machine slept before the welcome came, the server restarted meanwhile, and the same message went again.

    Of what an earlier process did the second knows nothing, and says since when (SPEC 7.11).
    """
    simulation = Simulation(Story(ways=(Way(resolver=kinds.PLAIN),), uptime=uptime))
    client = simulation.client
    flow = client.dial("echo-1.test", 5, replay_safe=safe, eager=True)
    simulation.rest(0.040)
    reached = met(simulation, flow)
    assert reached == (uptime > 0), "a young server executes nothing that a first message brings"
    client.clock.sleep()
    simulation.rest(10.0)
    simulation.server.crash()
    simulation.server.start()
    simulation.rest(10.0)
    client.wake()
    simulation.finish(flow)
    assert [repair.proven for repair in flow.repairs] == [False] * safe
    assert flow.succeeded is safe
    assert safe or (flow.error.failure is Failure.LOST and flow.error.may_have_reached)
    assert met(simulation, flow) == reached + safe
    assert len(client.handshakes) == 1, "the session is good for others"
    assert simulation.finish(client.dial("echo-2.test", 5, replay_safe=False)).succeeded
    assert len(client.handshakes) == 1
    simulation.check(may=frozenset({Failure.LOST}))


def test_a_young_server_that_was_there_before_the_first_message_costs_no_repair() -> None:
    simulation = Simulation(Story(ways=(Way(resolver=kinds.PLAIN),), uptime=0.5))
    flow = simulation.finish(simulation.client.dial("echo-1.test", 5, replay_safe=False))
    assert flow.succeeded
    assert not flow.repairs
    assert flow.opened == pytest.approx(flow.began + 2 * RTT + CONNECT)
    simulation.check(may=frozenset())


@pytest.mark.parametrize("uptime", [0.0, 0.020, 0.050])
def test_a_dial_that_began_before_the_server_knew_enough_fails_unless_it_may_go_twice(
    uptime: float,
) -> None:
    """The welcome is 35 ms on its way back; how old the server was, it says as of when it left (SPEC 7.11)."""
    simulation = Simulation(Story(ways=(Way(resolver=kinds.PLAIN),), uptime=uptime))
    unsafe = simulation.finish(simulation.client.dial("echo-1.test", 5, replay_safe=False))
    is_known = uptime > RTT / 2
    assert unsafe.succeeded is is_known
    assert is_known or (unsafe.error.failure is Failure.LOST and unsafe.error.may_have_reached)
    assert simulation.finish(simulation.client.dial("echo-2.test", 5, replay_safe=False)).succeeded
    simulation.check(may=frozenset())


def test_no_other_flow_may_blame_the_youth_of_the_server() -> None:
    simulation = Simulation(Story(ways=(Way(resolver=kinds.PLAIN),), uptime=0.050))
    flow = simulation.finish(simulation.client.dial("echo-1.test", 5, replay_safe=False))
    simulation.check(may=frozenset())
    flow.opened, flow.error = None, EndReason(failure=Failure.LOST, words="of itself")
    flow.ended = flow.began + 0.040
    with pytest.raises(AssertionError, match="nothing could cause"):
        simulation.check(may=frozenset())
