"""Which session a stream is opened on, and when another is made (S5, S7, S13, S15)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.transports.soar.client.peer import RTT, TARGET, Rig, grant
from transports.soar.core.client.events import HandshakeStarted, SessionChanged
from transports.soar.core.client.pool import MOST_SESSIONS
from transports.soar.core.client.states import RETIRED, Retired, SessionState
from transports.soar.core.crypto import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from transports.soar.core.client.session import Session

HEADER = TARGET.to_wire()


def rested() -> Rig:
    """Return a rig whose only session has been idle for too long."""
    rig = Rig()
    rig.client._pool.acquire(rig.now)
    rig.welcomed()
    assert rig.sessions[0].state is SessionState.IDLE
    rig.sleep(150.0)
    return rig


class Dialing:
    """One dial, cut where another may come between: it asks for a session, then opens, as often as it takes."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.session: Session | None = None
        self.number: int | None = None
        self.acquired = 0

    def steps(self) -> Iterator[None]:
        while self.number is None:
            self.session = self.rig.client._pool.acquire(self.rig.now)
            assert self.session is not None
            self.acquired += 1
            yield
            opened = self.session.try_open(HEADER, self.rig.now)
            if not isinstance(opened, Retired):
                self.number = opened
            yield


def orders(count: int, steps: int) -> list[tuple[int, ...]]:
    """Return all orders in which `count` dials can take their first `steps` steps."""
    return sorted(
        set(itertools.permutations([dial for dial in range(count) for _ in range(steps)]))
    )


@pytest.mark.parametrize("state", ["fresh", "stale", "stale while acquired"])
@pytest.mark.parametrize("count", [2, 3])
def test_s7_at_every_interleaving_each_dial_gets_a_stream_and_they_share_one_handshake(
    count: int, state: str
) -> None:
    for order in orders(count, 2):
        rig = rested()
        old = rig.sessions[0]
        if state != "stale":
            old.activity = rig.now.elapsed
        dials = [Dialing(rig) for _ in range(count)]
        walks = [dial.steps() for dial in dials]
        for index, who in enumerate(order):
            if state == "stale while acquired" and index == 1:
                rig.sleep(150.0)  # between one dial's two steps
            next(walks[who], None)
        for walk in walks:
            for _ in walk:
                pass
        assert all(dial.number is not None for dial in dials), order
        for dial in dials:
            assert dial.session is not None
            assert dial.session.state in {SessionState.LIVE, SessionState.HANDSHAKING}, order
            assert dial.acquired <= 2, order
        opened = [(dial.session, dial.number) for dial in dials]
        assert len(set(opened)) == count, order
        assert len({dial.session for dial in dials}) <= 2
        assert sum(session.state is SessionState.HANDSHAKING for session in rig.sessions) <= 1
        rig._listen()
        retired = [
            event for event in rig.events(SessionChanged) if event.after is SessionState.RETIRED
        ]
        assert len(retired) == (old.state is SessionState.RETIRED) <= 1, order
        assert (old.state is SessionState.RETIRED) is (old not in {dial.session for dial in dials})


def test_s7_four_dials_of_which_each_retires_what_the_next_one_holds() -> None:
    for order in itertools.permutations(range(4)):
        rig = rested()
        old = rig.sessions[0]
        old.activity = rig.now.elapsed
        held = [rig.client._pool.acquire(rig.now) for _ in range(4)]
        assert held == [old] * 4
        rig.sleep(150.0)
        for who in order:
            session = held[who]
            assert session is not None
            opened = session.try_open(HEADER, rig.now)
            assert opened is RETIRED
            again = rig.client._pool.acquire(rig.now)
            assert again is not None
            assert isinstance(again.try_open(HEADER, rig.now), int)
        assert old.state is SessionState.RETIRED
        assert len(rig.sessions) == 1
        assert rig.sessions[0].table.live == 4


def test_a_dial_that_meets_a_retired_session_takes_another_and_does_not_fail() -> None:
    rig = rested()
    old = rig.sessions[0]
    acquire = rig.client._pool.acquire
    between: list[bool] = []

    class Pool:
        """Lets another dial retire what this one was given."""

        def acquire(self, now: object) -> Session | None:
            session = acquire(rig.now) if between else old
            if not between:
                between.append(True)
                old.retire(rig.now)
            return session

    dial = rig.client.dial(TARGET, rig.now)
    assert dial.acquired == 1
    from transports.soar.core.client.dial import Dial

    other = Dial(TARGET, replay_safe=True, pool=Pool(), emit=rig.told.append)  # type: ignore[arg-type]
    old.state = SessionState.IDLE
    rig.client._pool.sessions.append(old)
    other.start(rig.now)
    assert other.acquired == 2
    assert other.state.value == "opening"


def test_after_a_long_pause_a_dial_costs_one_handshake_and_no_failure() -> None:
    rig = rested()
    dial = rig.client.dial(TARGET, rig.now)
    asked = rig.send()
    assert sum(each.kind is Kind.FRAGMENT for each in asked) == 3
    assert asked[0].sid != rig.log[0][1].sid
    rig.time += RTT
    rig.tell(asked[0], rig.peer.terms(asked[0]))
    assert dial.session == 2
    assert [event.after.value for event in rig.events(SessionChanged)] == [
        "idle",
        "retired",
        "live",
    ]


def test_a_handshake_under_way_is_shared_and_survives_the_dial_that_began_it() -> None:
    rig = Rig()
    first = rig.client.dial(TARGET, rig.now)
    second = rig.client.dial(TARGET, rig.now)
    rig.send()
    first.cancel(rig.now)
    third = rig.client.dial(TARGET, rig.now)
    assert len(rig.events(HandshakeStarted)) == 1
    assert {dial.session for dial in (first, second, third)} == {1}
    session = rig.sessions[0]
    asked = next(each for _, each in rig.log if each.kind is Kind.FRAGMENT)
    rig.time += RTT
    rig.tell(asked, rig.peer.terms(asked))
    assert session.state is SessionState.LIVE
    first.cancel(rig.now)
    assert second.state.value == third.state.value == "opening"


def test_the_freshest_established_session_is_preferred() -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now)
    one = rig.welcomed(max_streams=1)
    rig.client.dial(TARGET, rig.now)
    asked = [each for each in rig.send() if each.sid != one.packets.first.sid]  # type: ignore[union-attr]
    rig.time += RTT
    rig.tell(asked[0], rig.peer.terms(asked[0]))
    two = rig.sessions[1]
    pool = rig.client._pool
    one.table._register.max_streams = 128
    assert pool.acquire(rig.now) is two
    one.activity = two.activity + 1
    assert pool.acquire(rig.now) is one
    one.intake.lease_until = rig.now.elapsed - 1
    assert pool.acquire(rig.now) is two
    assert one.state is SessionState.DRAINING


def test_there_is_an_end_to_sessions() -> None:
    rig = Rig()
    for _ in range(MOST_SESSIONS):
        rig.client.dial(TARGET, rig.now)
        session = rig.sessions[-1]
        session.table._register.max_streams = 0
    assert len(rig.sessions) == MOST_SESSIONS
    assert rig.client._pool.acquire(rig.now) is None


class TestCredentials:
    def test_no_new_stream_uses_an_older_session_which_drains(self) -> None:
        rig = Rig(grant=grant("old"))
        dial = rig.dialed()
        old = rig.sessions[0]
        rig.client.update_credential(grant("new"), rig.now)
        assert old.state is SessionState.DRAINING
        assert dial.stream.room() > 0
        rig.client.dial(TARGET, rig.now)
        asked = [each for each in rig.send() if each.kind is Kind.FRAGMENT]
        first = rig.peer.halves[asked[0].sid].first
        assert first is not None
        assert first.proves(grant("new").secret)
        assert not first.proves(grant("old").secret)

    def test_an_idle_one_closes_at_once(self) -> None:
        rig = rested()
        rig.client.update_credential(grant("new"), rig.now)
        rig._listen()
        assert [event.after.value for event in rig.events(SessionChanged)] == [
            "idle",
            "draining",
            "closed",
        ]

    def test_one_that_shakes_hands_drains_afterwards(self) -> None:
        rig = Rig(grant=grant("old"))
        rig.client.dial(TARGET, rig.now)
        asked = rig.send()
        rig.client.update_credential(grant("new"), rig.now)
        other = rig.client.dial(TARGET, rig.now)
        assert other.session == 2
        rig.tell(asked[0], rig.peer.terms(asked[0]))
        assert rig.sessions[0].state is SessionState.DRAINING

    def test_without_one_none_is_shown(self) -> None:
        rig = Rig(grant=grant("old"))
        rig.client.update_credential(None, rig.now)
        rig.client.dial(TARGET, rig.now)
        first = rig.peer.halves[rig.send()[0].sid].first
        assert first is not None
        assert first.claims.grant is None
