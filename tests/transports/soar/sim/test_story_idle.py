"""A session that nobody used for a while, a machine that slept, a link that was away (scenarios 1 and 9)."""

from __future__ import annotations

import pytest

from tests.transports.soar.sim import quirks as kinds
from tests.transports.soar.sim.link import Weather
from tests.transports.soar.sim.simulation import Simulation
from tests.transports.soar.sim.story import Story, Way
from transports.soar.core.client.reasons import Failure
from transports.soar.core.client.session import Session
from transports.soar.core.client.states import SessionState
from transports.soar.core.crypto.notices import EndCode

PLAIN = (Way(resolver=kinds.PLAIN),)
RTT = 0.070
CONNECT = 0.002


def states(simulation: Simulation) -> list[SessionState]:
    return [change.after for change in simulation.client.changes]


def used(story: Story) -> Simulation:
    """Return a world in which one stream has come and gone."""
    simulation = Simulation(story)
    simulation.finish(simulation.client.dial("echo-0.test", 5, eager=True))
    simulation.rest(5.0)
    return simulation


def activity(simulation: Simulation) -> float:
    """Return when the newest answered question was sent, in the world's time."""
    (session,) = simulation.client.core._pool.sessions
    return session.activity - 1000.0


def test_the_dial_after_two_minutes_of_silence_shakes_hands_anew_and_loses_nothing() -> None:
    simulation = used(Story(ways=PLAIN))
    client = simulation.client
    silent_from = activity(simulation)
    simulation.world.run(silent_from + 121.0)
    ((at, _, code),) = simulation.server.ended
    assert code is EndCode.UNKNOWN
    assert at == pytest.approx(silent_from + RTT / 2 + 120.0)

    flow = simulation.finish(client.dial("echo-1.test", 5, replay_safe=False))
    assert flow.succeeded
    assert flow.opened == pytest.approx(flow.began + RTT + CONNECT)
    assert not flow.repairs
    assert len(client.handshakes) == 2
    assert SessionState.RETIRED in states(simulation)
    assert SessionState.LOST not in states(simulation)
    simulation.check(may=frozenset())
    simulation.check_quiet()


def test_a_session_that_was_made_before_anybody_needed_it_is_still_there() -> None:
    """Its client says one thing at once, so that the server knows that somebody has its welcome (SPEC 15.2)."""
    simulation = Simulation(Story(ways=PLAIN))
    client = simulation.client
    client.core.keep_warm(client.now())
    client.pump()
    simulation.rest(50.0)
    assert client.asked <= 8
    flow = simulation.finish(client.dial("echo-1.test", 5, replay_safe=False))
    assert flow.opened == pytest.approx(flow.began + RTT + CONNECT)
    assert not flow.repairs
    assert len(client.handshakes) == 1
    simulation.check(may=frozenset())


def test_with_replay_safe_octets_it_takes_one_round_trip() -> None:
    simulation = used(Story(ways=PLAIN))
    simulation.rest(121.0)
    flow = simulation.finish(simulation.client.dial("echo-1.test", 5, eager=True))
    assert flow.first == pytest.approx(flow.began + RTT + CONNECT)
    simulation.check(may=frozenset())


@pytest.mark.parametrize("safe", [True, False])
def test_without_retirement_the_loss_is_proven_and_repaired_within_the_dial(
    safe: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation = used(Story(ways=PLAIN))
    client = simulation.client
    monkeypatch.setattr(Session, "has_expired", lambda self, now: False)
    client.most_idle = 1e9
    simulation.rest(121.0)
    flow = simulation.finish(client.dial("echo-1.test", 5, replay_safe=safe))
    assert flow.succeeded
    (repair,) = flow.repairs
    assert repair.proven
    assert repair.reason.failure is Failure.LOST
    assert repair.reason.words == "the server lost the session"
    assert states(simulation).count(SessionState.LOST) == 1
    assert len(client.handshakes) == 2
    # A notice, then a handshake that carries the opening; one that may not be replayed waits for it.
    assert flow.opened == pytest.approx(flow.began + RTT + RTT + CONNECT)
    simulation.check(may=frozenset())


def test_without_retirement_nor_proof_a_dial_that_cannot_be_replayed_fails_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server was restarted while the opening was under way: what it knows is too little."""
    simulation = used(Story(ways=PLAIN))
    client = simulation.client
    monkeypatch.setattr(Session, "has_expired", lambda self, now: False)
    client.most_idle = 1e9
    simulation.rest(121.0)
    flow = client.dial("echo-1.test", 5, replay_safe=False)
    simulation.server.crash()
    simulation.server.start()
    simulation.finish(flow)
    assert flow.error.failure is Failure.LOST
    assert flow.error.may_have_reached
    assert flow.ended == pytest.approx(flow.began + RTT)
    simulation.check(may=frozenset({Failure.LOST}))


@pytest.mark.parametrize(("early", "handshakes"), [(0.001, 1), (-0.001, 2)])
def test_it_is_retired_at_the_moment_that_it_drew(early: float, handshakes: int) -> None:
    simulation = used(Story(ways=PLAIN))
    (session,) = simulation.client.core._pool.sessions
    assert 81.0 <= session.session_idle <= 99.0
    simulation.world.run(activity(simulation) + session.session_idle - early)
    flow = simulation.finish(simulation.client.dial("echo-1.test", 5))
    assert flow.succeeded
    assert len(simulation.client.handshakes) == handshakes
    simulation.check(may=frozenset())


@pytest.mark.parametrize("quirks", [kinds.PLAIN, kinds.UNBOUND, kinds.KNOT], ids=str)
@pytest.mark.parametrize(
    ("idle_timeout", "session_idle", "step"), [(1.0, 0.5, 0.07), (120.0, 90.0, 11.0)]
)
def test_however_late_a_dial_comes_it_never_meets_an_ended_session(
    quirks: kinds.Quirks, idle_timeout: float, session_idle: float, step: float
) -> None:
    """The rule of SPEC 14.3 leaves the next opening ten seconds, or a quarter of the timeout, to arrive."""
    simulation = Simulation(
        Story(ways=(Way(resolver=quirks),), idle_timeout=idle_timeout, session_idle=session_idle)
    )
    client = simulation.client
    for number in range(20):
        flow = simulation.finish(client.dial(f"echo-{number}.test", 5))
        assert flow.succeeded
        assert not flow.repairs
        simulation.rest(0.3 * step + number * step)
    assert len(client.handshakes) > 3
    assert SessionState.LOST not in states(simulation)
    simulation.check(may=frozenset())


@pytest.mark.parametrize("quirks", [kinds.PLAIN, kinds.UNBOUND, kinds.KNOT], ids=str)
@pytest.mark.parametrize("idle_timeout", [3.0, 5.0, 10.0])
def test_an_idle_stream_lives_on_at_a_server_that_is_impatient(
    idle_timeout: float, quirks: kinds.Quirks
) -> None:
    """It asks more often than it would of itself, and so often that one loss does no harm."""
    simulation = Simulation(Story(ways=(Way(resolver=quirks),), idle_timeout=idle_timeout))
    client = simulation.client
    flow = client.dial("silent-1.test")
    simulation.rest(20.0)
    up = simulation.routes[0].far_up
    for _ in range(5):
        before = client.asked
        up.weather = Weather(down=True)
        simulation.until(lambda: client.asked > before)  # noqa: B023 - it is called at once
        simulation.rest(0.030)
        up.weather = Weather(delay=0.025)
        simulation.rest(4.0)
    assert flow.opened is not None
    assert not flow.done
    assert simulation.server.ended == []
    client.cancel(flow)
    simulation.check(may=frozenset())


@pytest.mark.parametrize(("seconds", "handshakes"), [(17.0, 1), (60.0, 1), (180.0, 2)])
def test_a_machine_that_slept_uses_its_session_if_the_server_still_has_it(
    seconds: float, handshakes: int
) -> None:
    simulation = used(Story(ways=PLAIN))
    client = simulation.client
    client.clock.sleep()
    simulation.rest(seconds)
    client.wake()
    flow = simulation.finish(client.dial("echo-1.test", 5))
    assert flow.succeeded
    assert not flow.repairs
    assert len(client.handshakes) == handshakes
    assert SessionState.LOST not in states(simulation)
    simulation.check(may=frozenset())


@pytest.mark.parametrize("quirks", [kinds.UNBOUND, kinds.BIND], ids=str)
@pytest.mark.parametrize("seconds", [17.0, 60.0])
def test_a_download_goes_on_after_a_short_sleep(seconds: float, quirks: kinds.Quirks) -> None:
    simulation = Simulation(Story(ways=(Way(resolver=quirks),)))
    client = simulation.client
    flow = client.dial("get-200000-1.test", 200_000)
    simulation.until(lambda: flow.received > 50_000)
    client.clock.sleep()
    simulation.rest(seconds)
    client.wake()
    simulation.finish(flow, 30.0)
    assert flow.succeeded
    assert len(client.handshakes) == 1
    simulation.check(may=frozenset())
    simulation.check_quiet()


def test_after_a_sleep_beyond_the_servers_patience_a_download_fails_within_a_second() -> None:
    simulation = Simulation(Story(ways=PLAIN))
    client = simulation.client
    flow = client.dial("get-200000-1.test", 200_000)
    simulation.until(lambda: flow.received > 50_000)
    client.clock.sleep()
    simulation.rest(180.0)
    woken = simulation.world.time
    client.wake()
    simulation.finish(flow, 30.0)
    assert flow.error.failure is Failure.LOST
    assert flow.ended is not None
    assert flow.ended - woken < 1.0, "a probe timeout after it woke, and a round trip"
    again = simulation.finish(client.dial("echo-2.test", 5))
    assert again.succeeded
    simulation.check(may=frozenset({Failure.LOST}))


@pytest.mark.parametrize("quirks", [kinds.PLAIN, kinds.UNBOUND], ids=str)
def test_a_link_that_is_away_for_thirty_seconds_costs_no_session(quirks: kinds.Quirks) -> None:
    simulation = Simulation(Story(ways=(Way(resolver=quirks),)))
    client = simulation.client
    flow = client.dial("get-200000-1.test", 200_000)
    idle = client.dial("silent-2.test")
    simulation.until(lambda: flow.received > 50_000)
    simulation.routes[0].resolver.alive = False
    before = client.asked
    simulation.rest(30.0)
    assert client.asked - before <= 128 + 2 * 30, "two questions a second, once it is silent"
    simulation.routes[0].resolver.alive = True
    back = simulation.world.time
    simulation.until(lambda: flow.received > 60_000, 5.0)
    assert simulation.world.time - back < 2.0
    simulation.finish(flow, 30.0)
    assert flow.succeeded
    assert len(client.handshakes) == 1
    client.cancel(idle)
    simulation.check(may=frozenset())


@pytest.mark.parametrize("quirks", [kinds.PLAIN, kinds.UNBOUND], ids=str)
def test_a_link_that_dies_with_the_welcome_costs_no_session_either(quirks: kinds.Quirks) -> None:
    """The server has had no data packet yet, and keeps the session for longer than that (SPEC 15.2)."""
    simulation = Simulation(Story(ways=(Way(resolver=quirks),)))
    client = simulation.client
    up = simulation.routes[0].up
    flow = client.dial("echo-1.test", 50, eager=True, stays=True)
    simulation.world.run(0.069)
    up.weather = Weather(down=True)
    simulation.rest(1.0)
    assert flow.opened is not None
    assert flow.opened == pytest.approx(RTT + CONNECT)
    flow.write_more(50)
    client.pump()
    simulation.rest(30.0)
    (session,) = simulation.server.running.status(simulation.server.clock.now()).sessions
    assert not session.is_confirmed
    up.weather = Weather(delay=0.010)
    simulation.until(lambda: flow.received == 100, 2.0)
    assert len(client.handshakes) == 1
    client.cancel(flow)
    simulation.check(may=frozenset())


def test_a_child_process_takes_no_session_of_its_parents() -> None:
    """What is checked is the owner's number: a fork has the same keys, and would seal the same numbers."""
    simulation = used(Story(ways=PLAIN))
    client = simulation.client
    client.core.check_owner(2)
    flow = simulation.finish(client.dial("echo-1.test", 5))
    assert flow.succeeded
    assert len(client.handshakes) == 2
