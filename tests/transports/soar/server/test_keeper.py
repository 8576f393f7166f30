"""Beginnings and ends of sessions, leases, and what sessions may hold (SPEC 15, 17, 18.4)."""

from __future__ import annotations

import pytest

from racer.errors import ConfigError
from tests.transports.soar.server.scripted import TARGET, Desk, Script
from transports.soar.core.crypto import EndCode, Grant, Kind, Notice, Status
from transports.soar.core.dns.zone import Zone, Zones
from transports.soar.core.server import events
from transports.soar.core.server.credentials import IssuedGrant, TargetRule
from transports.soar.core.server.keeper import MAX_ZONES_OCTETS, SCARCE_SEALED, _number_zones
from transports.soar.core.server.source import Source
from transports.soar.core.server.tombstones import MAX_TOMBSTONES
from transports.soar.core.streams.frames import End, Lease, Refused, StreamData, encode_frame
from transports.soar.core.streams.targets import Target

SYN = StreamData(0, 0, TARGET.to_wire(), False)
GRANT = Grant(id=b"grant1", secret=bytes(range(32)))
OTHER = Grant(id=b"grant2", secret=bytes(range(32)))


def begin(
    *frames: StreamData, desk: Desk | None = None, seed: str = "client"
) -> tuple[Desk, Script]:
    desk = desk or Desk()
    client = Script(desk, *frames, seed=seed)
    client.shake()
    return desk, client


def notice(client: Script, kind: Kind = Kind.DATA) -> Notice | None:
    """Return what a new question of the client's gets."""
    asked = client.packet(kind=kind)
    (message,) = client.desk.ask(asked.message)
    return client.notice(asked, message)


def ends(desk: Desk) -> list[EndCode]:
    return [event.code for event in desk.of(events.SessionEnded)]


# --- silence --------------------------------------------------------------------------------


def test_a_silent_session_ends_after_120_seconds_and_leaves_nothing() -> None:
    desk, client = begin()
    client.exchange()
    desk.wait(119.99)
    assert desk.server.sids() == [client.sid]
    desk.wait(0.02)
    assert desk.server.sids() == []
    assert ends(desk) == [EndCode.UNKNOWN]
    assert desk.server.status(desk.now).tombstones == 0
    assert notice(client) == Notice(EndCode.UNKNOWN, 120.0, None)


def test_a_session_with_open_streams_lives_while_it_is_asked() -> None:
    desk, client = begin()
    stream = client.open_stream()
    for _ in range(10):
        desk.wait(119.0)
        client.exchange()
    assert desk.server.sids() == [client.sid]
    desk.wait(121.0)
    assert desk.server.sids() == []
    assert desk.of(events.StreamOver) == [events.StreamOver(stream)]


def test_copies_do_not_keep_a_session_alive() -> None:
    desk, client = begin()
    asked = client.packet()
    desk.ask(asked.message)
    for _ in range(13):
        desk.wait(10.0)
        desk.ask(client.again(asked))
    assert desk.server.sids() == []


def test_sleep_of_the_machine_counts_as_silence() -> None:
    desk, client = begin()
    client.exchange()
    asleep = desk.now._replace(elapsed=desk.now.elapsed + 130.0, awake=desk.now.awake + 120.0)
    desk.server.handle_timeout(asleep)
    assert desk.server.sids() == []


@pytest.mark.parametrize("idle_timeout", [0.5, 7.0, 600.0])
def test_the_idle_timeout_is_what_the_settings_say(idle_timeout: float) -> None:
    desk, client = begin(desk=Desk(idle_timeout=idle_timeout))
    assert client.terms is not None
    assert client.terms.idle_timeout == idle_timeout
    client.exchange()
    desk.wait(idle_timeout - 0.01)
    assert desk.server.sids() == [client.sid]
    desk.wait(0.02)
    assert desk.server.sids() == []


def test_a_question_parked_when_silence_ends_its_session_is_answered_empty() -> None:
    desk, client = begin(desk=Desk(idle_timeout=0.3))
    asked = client.packet(may_park=True)
    assert desk.ask(asked.message) == []
    (message,) = desk.wait(1.0)
    assert client.read(message).payload is None


# --- never confirmed ---------------------------------------------------------------------------


def test_one_that_gets_no_data_packet_ends_after_40_seconds() -> None:
    desk, client = begin()
    client.first.seals._early = None
    desk.wait(39.99)
    assert desk.server.sids() == [client.sid]
    desk.wait(0.02)
    assert ends(desk) == [EndCode.CAPACITY]
    assert desk.server.status(desk.now).tombstones == 0


def test_early_packets_confirm_nothing_and_what_was_executed_leaves_a_tombstone() -> None:
    desk = Desk()
    client = Script(desk, SYN)
    early = [client.packet(kind=Kind.EARLY) for _ in range(3)]
    client.shake()
    for asked in early:
        desk.wait(13.0)
        desk.ask(asked.message)
    desk.wait(2.0)
    assert desk.server.sids() == []
    assert desk.of(events.StreamOver)
    assert notice(client) == Notice(EndCode.CAPACITY, 120.0, 0)


@pytest.mark.parametrize("code", [EndCode.OPERATOR, EndCode.SHUTDOWN, EndCode.CAPACITY])
def test_one_that_did_nothing_and_that_nobody_confirmed_leaves_no_tombstone(code: EndCode) -> None:
    """Its client may have been welcomed by a process before this one, which did more (SPEC 15.3, 16.3)."""
    desk, client = begin(SYN)
    desk.flush()
    assert desk.streams
    desk.restart()
    for question in client.flight():
        desk.ask(question)
    assert desk.server.sids() == [client.sid]
    desk.server.end(client.sid, code, desk.now)
    assert notice(client) == Notice(EndCode.UNKNOWN, 0.0, None)


# --- memory of ends ----------------------------------------------------------------------------


def test_known_for_is_the_uptime_at_first() -> None:
    desk, client = begin(desk=Desk(uptime=12.34))
    client.exchange()
    desk.server.end(client.sid, EndCode.OPERATOR, desk.now)
    assert notice(client) == Notice(EndCode.OPERATOR, 12.3, None)
    desk.restart()
    assert notice(client) == Notice(EndCode.UNKNOWN, 0.0, None)
    desk.wait(60.0)
    assert notice(client) == Notice(EndCode.UNKNOWN, 60.0, None)
    desk.wait(90.0)
    assert notice(client) == Notice(EndCode.UNKNOWN, 120.0, None)


def test_an_end_is_told_for_ten_minutes() -> None:
    desk, client = begin()
    client.open_stream(4)
    desk.server.end(client.sid, EndCode.SHUTDOWN, desk.now)
    desk.wait(599.0)
    assert notice(client) == Notice(EndCode.SHUTDOWN, 120.0, 4)
    desk.wait(1.0)
    assert notice(client) == Notice(EndCode.UNKNOWN, 120.0, None)


def test_tombstones_that_overflow_shorten_known_for() -> None:
    desk, client = begin()
    client.exchange()
    desk.server.end(client.sid, EndCode.OPERATOR, desk.now)
    desk.wait(1.0)
    stones = desk.server._keeper.tombstones
    for number in range(MAX_TOMBSTONES - 1):
        stones.add(number.to_bytes(5), EndCode.CAPACITY, None, desk.now)
    desk.wait(29.0)
    assert notice(client) == Notice(EndCode.OPERATOR, 120.0, None)
    stones.add(b"one too many", EndCode.CAPACITY, None, desk.now)
    # The client's end was dropped: now it is unknown, and the server owns up to 30 s of memory.
    assert notice(client) == Notice(EndCode.UNKNOWN, 30.0, None)
    desk.wait(10.0)
    assert notice(client) == Notice(EndCode.UNKNOWN, 40.0, None)


# --- leases -----------------------------------------------------------------------------------


def granted(*, expires_in: float | None = None, **options: object) -> tuple[Desk, Script]:
    desk = Desk(needs_grant=True)
    expires = None if expires_in is None else desk.now.wall + expires_in
    issued = IssuedGrant(grant=GRANT, expires=expires, **options)  # type: ignore[arg-type]
    desk.server.set_grants([issued, IssuedGrant(grant=OTHER)], desk.now)
    client = Script(desk, grant=GRANT)
    client.shake()
    client.exchange()
    return desk, client


def test_a_session_knows_whose_it_is_and_for_how_long() -> None:
    desk, client = granted(expires_in=60.5)
    assert client.terms is not None
    assert client.terms.lease == 60
    (session,) = desk.server.status(desk.now).sessions
    assert (session.grant_id, session.lease) == (GRANT.id, 60.5)
    assert desk.of(events.SessionStarted) == [events.SessionStarted(client.sid, GRANT.id)]


def test_a_session_ends_with_its_lease() -> None:
    desk, client = granted(expires_in=60.5)
    desk.wait(59.0)
    asked = client.packet(may_park=True)
    desk.ask(asked.message)
    desk.wait(0.6)
    asked = client.packet(may_park=True)
    desk.wait(0.5)
    assert desk.ask(asked.message) == []
    (message,) = desk.wait(0.5)
    said = client.open(asked, message)
    assert said is not None
    assert said.frames == [End(EndCode.EXPIRED, -1)]
    assert notice(client) == Notice(EndCode.EXPIRED, 120.0, None)


def test_no_stream_opens_under_a_lease_that_is_over_though_nobody_has_looked() -> None:
    desk, client = granted(expires_in=60.0)
    desk.time += 61.0  # the driver is late with the timeout
    asked = client.packet(SYN, name_class=4)
    (message,) = desk.ask(asked.message)
    said = client.open(asked, message)
    assert said is not None
    assert said.frames == [End(EndCode.EXPIRED, 0)]
    assert desk.streams == []


def test_a_revoked_grant_ends_its_sessions_and_no_others() -> None:
    desk, client = granted()
    other = Script(desk, seed="other", grant=OTHER)
    other.shake()
    other.exchange()
    desk.server.revoke(GRANT.id, desk.now)
    desk.flush()
    assert desk.server.sids() == [other.sid]
    assert notice(client) == Notice(EndCode.REVOKED, 120.0, None)
    again = Script(desk, seed="again", grant=GRANT)
    said = again.shake()
    assert said is again.terms
    assert again.terms is not None
    assert again.terms.status is Status.GRANT_REVOKED


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"is_revoked": True}, EndCode.REVOKED),
        ({"expires": 1.0}, EndCode.EXPIRED),
        (None, EndCode.REVOKED),
    ],
)
def test_new_grants_end_the_sessions_of_old_ones(
    change: dict[str, object] | None, code: EndCode
) -> None:
    desk, _ = granted()
    grants = [] if change is None else [IssuedGrant(grant=GRANT, **change)]  # type: ignore[arg-type]
    desk.server.set_grants(grants, desk.now)
    desk.flush()
    assert ends(desk) == [code]
    assert desk.server.sids() == []


def test_a_longer_lease_is_told_and_kept() -> None:
    desk, client = granted(expires_in=60.0)
    asked = client.packet(may_park=True)
    desk.ask(asked.message)
    desk.server.set_grants([IssuedGrant(grant=GRANT, expires=desk.now.wall + 100.0)], desk.now)
    (message,) = desk.flush()
    said = client.open(asked, message)
    assert said is not None
    assert Lease(100) in said.frames
    desk.wait(99.0)
    assert desk.server.sids() == [client.sid]
    desk.wait(1.0)
    assert desk.server.sids() == []


def test_a_book_with_a_fault_changes_nothing() -> None:
    desk, client = granted()
    with pytest.raises(ConfigError):
        desk.server.set_grants([IssuedGrant(grant=OTHER)] * 2, desk.now)
    assert desk.server.sids() == [client.sid]


def test_a_stream_goes_only_where_the_grant_allows() -> None:
    desk, client = granted(targets=(TargetRule.parse("allowed.example:443"),))
    said = client.exchange(
        StreamData(0, 0, Target.of("other.example", 443).to_wire(), False), name_class=4
    )
    assert Refused(0, 8) in said.frames
    client.exchange(
        StreamData(1, 0, Target.of("allowed.example", 443).to_wire(), False), name_class=4
    )
    assert [stream.number for stream in desk.streams] == [1]
    assert desk.streams[0].sid == client.sid


# --- shutdown and capacity ----------------------------------------------------------------------


def test_a_shutdown_ends_all_and_lets_nobody_in() -> None:
    desk, client = begin()
    client.exchange()
    asked = client.packet(may_park=True)
    desk.ask(asked.message)
    desk.server.shutdown(desk.now)
    (message,) = desk.flush()
    said = client.open(asked, message)
    assert said is not None
    assert said.frames == [End(EndCode.SHUTDOWN, -1)]
    assert notice(client) == Notice(EndCode.SHUTDOWN, 120.0, None)
    late = Script(desk, seed="late")
    late.shake()
    assert late.terms is not None
    assert late.terms.status is Status.SHUTTING_DOWN
    assert desk.server.status(desk.now).is_shutting_down


def test_who_gives_way_is_told_so() -> None:
    desk = Desk(max_sessions=4)
    first = Script(desk, SYN, seed="first")
    first.shake()
    second = Script(desk, seed="second")
    second.shake()
    assert desk.server.sids() == [second.sid]
    assert notice(first) == Notice(EndCode.CAPACITY, 120.0, 0)


def test_confirmed_sessions_never_give_way() -> None:
    desk = Desk(max_sessions=4)
    for number in range(4):
        client = Script(desk, seed=str(number))
        client.shake(Source(bytes([198, 51, number, 1]), 53))
        client.exchange()
    late = Script(desk, seed="late")
    late.shake(Source(bytes([198, 51, 100, 1]), 53))
    assert late.terms is not None
    assert late.terms.status is Status.CAPACITY
    assert len(desk.server.sids()) == 4


# --- memory -----------------------------------------------------------------------------------


def test_when_memory_is_short_sessions_have_to_do_with_less() -> None:
    desk, client = begin(desk=Desk(memory=1 << 20))
    client.prove()
    streams = [client.open_stream(number) for number in range(6)]
    for stream in streams:
        stream.write(bytes(200 << 10))
    desk.flush()
    status = desk.server.status(desk.now)
    assert status.octets > 1 << 20
    assert all(stream.room == 0 for stream in streams)
    late = Script(desk, seed="late")
    late.shake()
    assert late.terms is not None
    assert (late.terms.stream_window, late.terms.session_window) == (32 << 10, 64 << 10)
    session = desk.server._keeper.table.get(client.sid)
    assert session is not None
    assert desk.server._keeper.sealed_allowance(session) == SCARCE_SEALED
    desk.server.end(client.sid, EndCode.OPERATOR, desk.now)
    desk.flush()
    assert desk.server.status(desk.now).octets == 0


def test_when_memory_is_full_who_holds_more_than_a_share_has_to_go() -> None:
    desk, modest = begin(desk=Desk(memory=1 << 20), seed="modest")
    modest.open_stream().write(bytes(5000))
    greedy = Script(desk, seed="greedy")
    greedy.shake()
    greedy.prove()
    for number in range(9):
        greedy.open_stream(number).write(bytes(250 << 10))
        desk.flush()
        if number < 7:
            assert len(desk.server.sids()) == 2
    assert desk.server.sids() == [modest.sid]
    assert notice(greedy) == Notice(EndCode.CAPACITY, 120.0, 8)
    assert desk.server.status(desk.now).octets < 1 << 20


def test_a_session_holds_no_more_than_it_may_to_be_sent() -> None:
    desk, client = begin()
    client.prove()
    written = 0
    for number in range(20):
        stream = client.open_stream(number)
        while room := stream.room:
            stream.write(bytes(room))
            written += room
    assert written <= 2 << 20
    desk.events.clear()
    for _ in range(3000):
        client.exchange(*(), raw=b"\x02\x00")
    assert desk.of(events.StreamWritable)


def test_what_is_counted_is_what_is_held() -> None:
    desk, client = begin()
    client.prove()
    stream = client.open_stream()
    offset = len(TARGET.to_wire())
    client.exchange(StreamData(0, offset, bytes(100), False), name_class=4)
    stream.write(bytes(5000))
    client.exchange()
    (session,) = desk.server.status(desk.now).sessions
    assert desk.server.status(desk.now).octets == session.octets
    assert session.octets >= 5100
    stream.read()
    client.exchange(raw=b"\x02\x00")
    for _ in range(5):
        client.exchange(raw=b"\x02\x00")
    (session,) = desk.server.status(desk.now).sessions
    assert session.octets < 3000
    assert desk.server.status(desk.now).octets == session.octets


def test_a_session_that_falls_silent_keeps_its_answers_for_10_seconds() -> None:
    desk, client = begin()
    client.prove()
    client.open_stream().write(bytes(30_000))
    asked = client.packet()
    desk.ask(asked.message)
    desk.wait(9.9)
    (message,) = desk.ask(client.again(asked))
    assert client.read(message).payload is not None
    before = desk.server.status(desk.now).octets
    desk.wait(0.2)
    assert before - desk.server.status(desk.now).octets >= 1000
    (message,) = desk.ask(client.again(asked))
    assert client.read(message).payload is None
    # It goes on all the same, and what was lost comes again.
    first = client.exchange(raw=b"\x03\x01\x01")
    assert len(first.opened.frames) > 1000
    desk.wait(9.9)
    before = desk.server.status(desk.now).octets
    desk.wait(0.2)
    assert before - desk.server.status(desk.now).octets >= 1000
    desk.wait(109.8)
    assert desk.server.sids() == [client.sid]
    desk.wait(0.2)
    assert desk.server.sids() == []


def test_status_counts_what_happened() -> None:
    desk, client = begin()
    client.exchange()
    client.packet(may_park=True)
    asked = client.packet(may_park=True)
    desk.ask(asked.message)
    desk.wait(0.1)
    status = desk.server.status(desk.now)
    (session,) = status.sessions
    assert (session.sid, session.parked, session.streams) == (client.sid, 1, 0)
    assert session.is_confirmed
    assert session.idle == pytest.approx(0.1)
    assert status.handshakes["welcome"] == 1
    assert status.answers["sealed"] == 1
    assert status.uptime == pytest.approx(1000.1)
    assert status.known_for == 120.0
    desk.server.end(client.sid, EndCode.OPERATOR, desk.now)
    assert desk.server.status(desk.now).ends["operator"] == 1


def test_new_grants_mean_nothing_to_sessions_that_showed_none() -> None:
    desk = Desk(grants=(), needs_grant=False)
    client = Script(desk, SYN)
    client.shake()
    desk.server.set_grants([IssuedGrant(grant=GRANT)], desk.now)
    assert desk.server.sids() == [client.sid]
    counts = desk.server.counts()
    assert counts.sessions == 1
    assert counts.handshakes["welcome"] == 1


def test_a_welcome_names_as_many_zones_as_fit_the_smallest_answer() -> None:
    names = [f"{'x' * 50}{number}.example" for number in range(6)]
    zones = Zones(tuple(Zone.parse(name) for name in names))
    _, frames = _number_zones(Desk(zones=zones).settings)
    for told in frames.values():
        assert told is not None
        assert len(told.zones) == 2
        assert len(encode_frame(told)) <= MAX_ZONES_OCTETS


def test_early_packets_of_a_session_that_ends_at_once_are_answered_once() -> None:
    desk = Desk()
    client = Script(desk, End(2, -1))
    late, soon = (client.packet(kind=Kind.EARLY, may_park=True) for _ in range(2))
    desk.ask(late.message)
    desk.wait(0.7)  # its question has been answered, its packet is kept
    desk.ask(soon.message)
    client.shake()
    assert desk.server.sids() == []
    desk.wait(1.0)
    said = [client.read(message).id for _, _, message in desk.said]
    assert [said.count(id_) for id_ in (1, 2)] == [1, 1]


def test_early_packets_whose_questions_were_answered_are_still_executed() -> None:
    desk = Desk()
    client = Script(desk)
    other = Script(desk, seed="other")
    end = client.packet(End(2, -1), kind=Kind.EARLY)
    desk.ask(end.message)
    desk.ask(other.packet(kind=Kind.EARLY).message)
    desk.wait(0.7)
    said = len(desk.said)
    client.shake()
    assert desk.server.sids() == [], "it ended its session before that began"
    assert len(desk.said) == said + len(client.flight())
    other.shake()
    assert desk.server.sids() == [other.sid]
