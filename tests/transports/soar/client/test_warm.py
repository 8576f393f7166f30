"""One session kept confirmed (S14, SPEC 14.6)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.transports.soar.client.peer import TARGET, Asked, Echo, Rig
from transports.soar.core.client.events import HandshakeStarted, SessionChanged, WarmFailed
from transports.soar.core.client.reasons import Failure
from transports.soar.core.client.states import SessionState
from transports.soar.core.crypto import EndCode, Kind, Notice, Status
from transports.soar.core.streams.frames import Ping


def warm(seed: str = "client", **settings: Any) -> Rig:
    rig = Rig(seed=seed, **settings)
    rig.client.keep_warm(rig.now)
    rig.welcomed()
    return rig


def pings(rig: Rig) -> list[float]:
    return [at for at, each in rig.log if each.of(Ping)]


def test_it_is_off_by_default() -> None:
    rig = Rig()
    rig.dialed()
    assert not rig.client._warm._is_on


def test_one_ping_before_session_idle_keeps_it() -> None:
    rig = warm()
    session = rig.sessions[0]
    rig.run(500.0, Echo(rig))
    assert rig.sessions == [session]
    times = pings(rig)
    assert len(times) == pytest.approx(500 / (0.6 * session.session_idle), abs=1)
    assert times[0] == pytest.approx(0.6 * session.session_idle, abs=0.1)
    assert len(rig.log) <= len(times) * 2 + 4
    assert session.try_open(b"\x01a\x01\xbb", rig.now) == 0


def test_a_dial_makes_it_begin_when_it_is_wished_for() -> None:
    rig = Rig(keep_warm=True)
    rig.client.dial(TARGET, rig.now)
    assert len(rig.events(HandshakeStarted)) <= 1
    assert rig.client._warm._is_on


def test_a_refresh_that_fails_leaves_it_in_use_but_stale_and_is_tried_again() -> None:
    rig = warm(max_stale=300.0)
    session = rig.sessions[0]
    rig.run(120.0)
    assert rig.sessions == [session]
    assert rig.client.status(rig.now).is_stale
    assert len(pings(rig)) >= 4
    rig.run(rig.time + 40.0, Echo(rig))
    assert not rig.client.status(rig.now).is_stale
    assert rig.client._warm.failures == 0


def test_tries_follow_after_1_2_4_up_to_30_seconds_with_full_jitter() -> None:
    gaps: list[list[float]] = []
    for seed in range(12):
        rig = warm(seed=str(seed), max_stale=400.0)
        rig.run(300.0)
        times = pings(rig)
        gaps.append([b - a for a, b in itertools.pairwise(times)])
    # What a lost question takes to be known as lost comes on top.
    for index, most in enumerate((1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0)):
        column = [row[index] for row in gaps if len(row) > index]
        assert max(column) <= most + 6.0
        assert max(column) - min(column) > 0.2 * most


def test_after_max_stale_it_is_dropped() -> None:
    rig = warm(max_stale=200.0)
    session = rig.sessions[0]
    rig.run(199.0)
    assert session.state is SessionState.IDLE
    rig.run(260.0)
    assert session.state.value in {"retired", "lost"}


def test_what_the_server_lost_is_dropped_at_once_and_made_anew() -> None:
    rig = warm()
    session = rig.sessions[0]
    echo = Echo(rig)

    def reply(asked: Asked) -> bytes | None:
        if asked.of(Ping) and asked.sid == session.packets.first.sid:  # type: ignore[union-attr]
            return rig.peer.notice(asked, Notice(EndCode.UNKNOWN, 10.0, None))
        return echo(asked)

    rig.run(100.0, reply)
    assert session.state is SessionState.LOST
    assert [each.state for each in rig.sessions] == [SessionState.IDLE]
    assert rig.events(WarmFailed) == []


def test_with_nothing_confirmed_the_first_failure_is_said_at_once_and_nothing_is_tried() -> None:
    rig = Rig()
    rig.client.keep_warm(rig.now)
    asked = rig.send()
    rig.tell(asked[0], rig.peer.terms(asked[0], status=Status.GRANT_REJECTED))
    (failed,) = rig.events(WarmFailed)
    assert failed.error.failure is Failure.CREDENTIAL
    count = len(rig.log)
    rig.run(100.0)
    assert len(rig.log) == count
    assert [event.after.value for event in rig.events(SessionChanged)] == ["ended"]


def test_a_busy_session_needs_no_ping() -> None:
    rig = Rig(keep_warm=True)
    rig.client.dial(TARGET, rig.now)
    rig.run(200.0, Echo(rig, park=False))
    assert pings(rig) == []
    assert sum(each.kind is Kind.FRAGMENT for _, each in rig.log) == 3


def test_it_begins_once_and_waits_for_its_handshake() -> None:
    rig = Rig()
    rig.client.keep_warm(rig.now)
    rig.client.keep_warm(rig.now)
    asked = rig.send()
    rig.client.handle_timeout(rig.now)
    assert rig.client._warm.deadline(rig.now) is None
    assert len(rig.events(HandshakeStarted)) == 1
    rig.tell(asked[0], rig.peer.terms(asked[0]))
    rig.send()
    assert rig.client._warm.session is rig.sessions[0]


def test_a_session_that_another_dial_retired_is_made_anew_at_once() -> None:
    rig = warm()
    (session,) = rig.sessions
    rig.client.messages_to_send(rig.now)
    session.retire(rig.now)
    rig.run(rig.time + 1.0, Echo(rig))
    assert [each.state for each in rig.sessions] == [SessionState.IDLE]
    assert rig.sessions != [session]


def test_a_client_that_closes_keeps_nothing_warm() -> None:
    rig = warm()
    rig.client.messages_to_send(rig.now)
    rig.client.close(rig.now)
    rig.run(200.0)
    assert rig.sessions == []
    assert len(rig.events(HandshakeStarted)) == 1


def test_where_no_path_takes_a_ping_it_is_tried_again() -> None:
    rig = warm()
    rig.run(1.0, Echo(rig))
    (session,) = rig.sessions
    rig.client.remove_path(0, rig.now)
    rig.run(session.session_idle - 1.0)
    assert rig.client._warm.failures > 0
    assert pings(rig) == []
    rig.client.add_path()
    rig.run(rig.time + 60.0, Echo(rig))
    assert pings(rig)
    assert not rig.client.status(rig.now).is_stale


def test_a_try_that_is_due_while_a_question_is_under_way_waits_for_what_becomes_of_it() -> None:
    """It has been a deadline that nothing met: the client was woken again at once, for as long as the question lasted."""
    rig = warm()
    session, keeper = rig.sessions[0], rig.client._warm
    while not pings(rig):
        rig.run(rig.time + 1.0)
    assert session.packets.outstanding
    keeper.next_at = rig.now.awake
    keeper.tick(rig.now)
    assert keeper.deadline(rig.now) is None
    while session.packets.outstanding:
        rig.run(rig.time + 1.0)
    assert keeper.is_stale
    assert keeper.deadline(rig.now) == keeper.next_at
