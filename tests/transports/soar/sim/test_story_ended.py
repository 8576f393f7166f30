"""Sessions that are ended with a word, credentials that change, and a server that forgets (scenario 12)."""

from __future__ import annotations

import pytest

from tests.transports.soar.sim import quirks as kinds
from tests.transports.soar.sim.simulation import Simulation
from tests.transports.soar.sim.story import Story, Way
from transports.soar.core.client.reasons import Failure
from transports.soar.core.client.states import SessionState
from transports.soar.core.crypto.notices import EndCode
from transports.soar.core.server.tombstones import Tombstones

RTT = 0.070
PLAIN = (Way(resolver=kinds.PLAIN),)


def test_a_grant_that_is_revoked_during_a_download_ends_it_within_a_round_trip() -> None:
    simulation = Simulation(Story(ways=PLAIN, grants=True))
    client = simulation.client
    flow = client.dial("get-900000-1.test", 900_000)
    simulation.until(lambda: flow.received > 50_000)
    revoked = simulation.world.time
    simulation.revoke(client)
    simulation.finish(flow, 5.0)
    assert flow.ended is not None
    assert flow.ended - revoked <= RTT + 0.001
    assert (flow.error.failure, flow.error.code) == (Failure.ENDED, EndCode.REVOKED)

    again = simulation.finish(client.dial("echo-2.test", 5))
    assert again.error.failure is Failure.CREDENTIAL
    assert not again.repairs
    simulation.rotate(client)
    assert simulation.finish(client.dial("echo-3.test", 5)).succeeded
    simulation.check(may=frozenset({Failure.ENDED, Failure.CREDENTIAL}))


def test_an_idle_client_learns_of_a_revoked_grant_at_its_next_dial() -> None:
    simulation = Simulation(Story(ways=PLAIN, grants=True))
    client = simulation.client
    simulation.finish(client.dial("echo-1.test", 5))
    simulation.rest(20.0)
    simulation.revoke(client)
    asked = client.asked
    simulation.rest(20.0)
    assert client.asked == asked
    flow = simulation.finish(client.dial("echo-2.test", 5))
    assert (flow.error.failure, flow.error.code) == (Failure.ENDED, EndCode.REVOKED)
    assert not flow.repairs
    simulation.check(may=frozenset({Failure.ENDED}))


def test_a_grant_expires_under_an_open_stream() -> None:
    simulation = Simulation(Story(ways=PLAIN, grants=True, expires=30.0))
    client = simulation.client
    flow = client.dial("silent-1.test")
    simulation.finish(flow, 40.0)
    assert (flow.error.failure, flow.error.code) == (Failure.ENDED, EndCode.EXPIRED)
    assert flow.ended == pytest.approx(30.0, abs=2.0)
    refused = simulation.finish(client.dial("echo-2.test", 5))
    assert refused.error.failure is Failure.CREDENTIAL
    simulation.check(may=frozenset({Failure.ENDED, Failure.CREDENTIAL}))


@pytest.mark.parametrize("moment", [0.001, 0.036, 0.069, 0.071, 0.1])
def test_a_credential_that_changes_in_the_middle_of_a_race(moment: float) -> None:
    """What was under way ends under the old one; nothing new is opened there."""
    simulation = Simulation(Story(ways=PLAIN, grants=True))
    client = simulation.client
    old = client.dial("echo-1.test", 20_000)
    simulation.rest(moment)
    simulation.rotate(client)
    new = client.dial("echo-2.test", 5)
    assert old.dial is not None
    assert new.dial is not None
    assert old.dial.session != new.dial.session
    assert simulation.finish(old).succeeded
    assert simulation.finish(new).succeeded
    simulation.rest(1.0)
    states = {change.session: change.after for change in client.changes}
    assert states == {1: SessionState.CLOSED, 2: SessionState.IDLE}
    assert len(simulation.server.running.sids()) == 1
    simulation.check(may=frozenset())


ENDS = {
    EndCode.OPERATOR: False,
    EndCode.CAPACITY: True,
}


@pytest.mark.parametrize("code", ENDS, ids=lambda code: code.name.lower())
@pytest.mark.parametrize("safe", [True, False])
@pytest.mark.parametrize("moment", range(0, 80, 5))
def test_an_end_crosses_an_opening_under_way(moment: int, safe: bool, code: EndCode) -> None:
    """The last stream that the notice names decides whether the target may have got something."""
    simulation = Simulation(Story(ways=PLAIN))
    client = simulation.client
    simulation.finish(client.dial("echo-0.test", 5))
    simulation.rest(5.0)
    flow = client.dial("echo-1.test", 5, replay_safe=safe)
    simulation.world.after(moment / 1000, lambda: simulation.server.end_all(code))
    simulation.finish(flow)
    was_accepted = moment > 35
    if ENDS[code] and (safe or not was_accepted) and flow.repairs:
        assert flow.succeeded
        assert flow.repairs[0].proven == (not was_accepted)
    elif not flow.succeeded:
        assert (flow.error.failure, flow.error.code) == (Failure.ENDED, code)
        if flow.opened is None:
            assert flow.error.may_have_reached == was_accepted
    else:
        assert moment >= 70, "all was over before"
    simulation.check(may=frozenset({Failure.ENDED}))


@pytest.mark.parametrize("safe", [True, False])
def test_a_server_that_shuts_down_says_so_to_streams_and_dials(safe: bool) -> None:
    simulation = Simulation(Story(ways=PLAIN))
    client = simulation.client
    load = client.dial("get-900000-1.test", 900_000)
    simulation.until(lambda: load.received > 50_000)
    simulation.server.shutdown()
    simulation.finish(load, 5.0)
    assert (load.error.failure, load.error.code) == (Failure.ENDED, EndCode.SHUTDOWN)
    flow = simulation.finish(client.dial("echo-2.test", 5, replay_safe=safe))
    assert flow.error.failure is Failure.ENDED
    assert flow.error.may_have_reached is False
    simulation.server.crash()
    simulation.server.start()
    assert simulation.finish(client.dial("echo-3.test", 5)).succeeded
    simulation.check(may=frozenset({Failure.ENDED}))


@pytest.mark.parametrize(("safe", "late"), [(True, False), (False, False), (False, True)])
def test_a_server_that_forgot_an_end_owns_up_to_it(safe: bool, late: bool) -> None:
    """With room for two ends only, the notice vouches for no more than the time since the third."""
    simulation = Simulation(Story(ways=PLAIN))
    client = simulation.client
    keeper = simulation.server.running._keeper
    keeper.tombstones = Tombstones(began=keeper.tombstones._began, capacity=2)
    simulation.finish(client.dial("echo-0.test", 5))
    others = [simulation.add_client(f"other {number}") for number in range(3)]
    for other in others:
        simulation.finish(other.dial(f"echo-{other.name[-1]}-o.test", 5))
    simulation.rest(5.0)
    down = simulation.routes[0].far_down
    flow = None
    if not late:
        # The opening is accepted, its answer lost, and the session ended and forgotten.
        down.weather = type(down.weather)(down=True)
        flow = client.dial("echo-1.test", 5, replay_safe=safe)
        simulation.rest(0.040)
    simulation.server.end_all(EndCode.OPERATOR)
    assert len(keeper.tombstones) == 2
    simulation.rest(0.5)
    down.weather = type(down.weather)(delay=0.025)
    if flow is None:
        flow = client.dial("echo-1.test", 5, replay_safe=safe)
    simulation.finish(flow)
    if late:
        assert [repair.proven for repair in flow.repairs] == [True]
        assert flow.succeeded
    elif safe:
        assert [repair.proven for repair in flow.repairs] == [False]
        assert flow.succeeded
    else:
        assert flow.error.failure is Failure.LOST
        assert flow.error.may_have_reached
    simulation.check(may=frozenset({Failure.LOST}))
