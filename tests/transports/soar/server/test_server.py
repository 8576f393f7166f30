"""The whole server, by its mouth: what everybody is answered (SPEC 4.5, 6.3, 13.5, 15.1, 18.1)."""

from __future__ import annotations

import itertools

import pytest

from tests.transports.soar.server.scripted import (
    KEY,
    RESOLVER,
    TARGET,
    ZONE,
    Desk,
    Dice,
    Script,
)
from transports.soar.core.crypto import EndCode, Kind, Notice, read_notice
from transports.soar.core.dns.answers import read_answer
from transports.soar.core.dns.messages import QType, Rcode
from transports.soar.core.dns.questions import build_question
from transports.soar.core.server import events
from transports.soar.core.streams.frames import Opened, RefusalReason, Reset, ResetCode, StreamData

SYN = StreamData(0, 0, TARGET.to_wire(), False)


def question(name: bytes, qtype: QType = QType.DS) -> bytes:
    return build_question(7, name, qtype, edns=True)


def test_a_stream_is_echoed() -> None:
    desk = Desk()
    client = Script(desk)
    client.shake()
    target = TARGET.to_wire()
    client.exchange(StreamData(0, 0, target[:10], False))
    assert not desk.streams
    client.exchange(StreamData(0, 10, target[10:] + b"hel", False), name_class=2)
    client.exchange(StreamData(0, len(target) + 3, b"lo", True))
    (event,) = desk.of(events.StreamOpened)
    assert event.target == event.stream.target == TARGET
    stream = event.stream
    stream.opened()
    assert not stream.at_end
    assert stream.read(3) == b"hel"
    data = stream.read()
    assert (data, stream.at_end) == (b"lo", True)
    stream.write(b"hello")
    stream.finish()
    said = client.exchange()
    assert Opened(0) in said.frames
    assert StreamData(0, 0, b"hello", True) in said.frames
    assert desk.of(events.StreamOver) == []
    client.exchange(raw=b"\x02\x00")
    assert desk.of(events.StreamOver) == [events.StreamOver(stream)]
    assert desk.server.status(desk.now).sessions[0].streams == 0


def test_a_target_that_is_gone_is_said_by_reset_in_both_directions() -> None:
    desk = Desk()
    client = Script(desk)
    client.shake()
    stream = client.open_stream()
    stream.write(b"half")
    stream.reset(ResetCode.RESET_BY_TARGET)
    said = client.exchange()
    assert Reset(0, 2, 0) in said.frames
    assert stream.room == 0
    stream.write(b"nothing happens")
    stream.stop(ResetCode.RESET_BY_TARGET)


def test_a_handle_outlives_its_session() -> None:
    desk = Desk()
    client = Script(desk)
    client.shake()
    stream = client.open_stream(data=b"last words")
    desk.server.end(client.sid, EndCode.OPERATOR, desk.now)
    desk.flush()
    assert not stream.at_end
    assert stream.read() == b"last words"
    assert stream.at_end
    assert stream.room == 0
    stream.opened()
    stream.write(b"nobody")
    stream.finish()
    stream.reset(ResetCode.CLOSED)
    stream.stop(ResetCode.CLOSED)
    stream.refuse(RefusalReason.INTERNAL)
    assert desk.flush() == []
    assert desk.server.next_event() is None


# --- strangers --------------------------------------------------------------------------------


def test_what_is_not_for_a_session_is_the_authoritys() -> None:
    desk = Desk()
    for name, qtype, rcode in (
        (ZONE.wire, QType.SOA, Rcode.NOERROR),
        (b"\x07example\x03org\x00", QType.A, Rcode.REFUSED),
        (b"\x03www" + ZONE.wire, QType.A, Rcode.NOERROR),
        (ZONE.wire, QType.ANY, Rcode.REFUSED),
    ):
        (message,) = desk.ask(question(name, qtype))
        assert read_answer(message).rcode == rcode


def test_partial_names_are_answered_whatever_the_type() -> None:
    desk = Desk()
    client = Script(desk)
    client.shake()
    name = client.packet(SYN, name_class=3).name
    partial = name[64:]
    for qtype in (QType.A, QType.NS, QType.DS):
        (message,) = desk.ask(question(partial, qtype))
        assert read_answer(message).rcode == Rcode.NXDOMAIN
    assert not desk.streams


def test_nothing_is_said_to_responses_and_scraps() -> None:
    desk = Desk()
    assert desk.ask(b"") == []
    assert desk.ask(bytes(11)) == []
    asked = question(ZONE.wire)
    assert desk.ask(asked[:2] + b"\x81" + asked[3:]) == []


def test_random_names_are_answered_without_a_trace() -> None:
    desk = Desk()
    dice = Dice("strange")
    before = desk.server.status(desk.now)
    codes = set()
    for _ in range(2000):
        name = ZONE.encode(dice(38), number=1, selector=0, flag=0)
        desk.server.receive_message(question(name), RESOLVER, desk.now)
    desk.wait(2.0)
    for _, _, message in desk.said:
        codes.add(read_answer(message).rcode)
    assert len(desk.said) == 2000
    assert codes == {Rcode.NOERROR, Rcode.NXDOMAIN}  # a few look like packets of sessions (notices)
    after = desk.server.status(desk.now)
    assert (after.sessions, after.tombstones, after.in_part, after.early_packets) == ((), 0, 0, 0)
    assert before.octets == after.octets == 0


# --- the order of looking up (SPEC 15.1) ------------------------------------------------------


def test_table_then_tombstone_then_unknown() -> None:
    """Each of the three alone, and every pair that can be true at once."""
    desk = Desk()
    client = Script(desk)
    client.shake()
    stones = desk.server._keeper.tombstones
    # Unknown, though a tombstone of another is there.
    stones.add(b"else", EndCode.REVOKED, None, desk.now)
    # In the table, and a tombstone as well: the table counts.
    stones.add(client.sid, EndCode.OPERATOR, 3, desk.now)
    assert client.exchange() is not None
    # No longer in the table: the tombstone counts.
    session = desk.server._keeper.table.get(client.sid)
    assert session is not None
    desk.server._keeper.table.remove(session)
    asked = client.packet()
    (message,) = desk.ask(asked.message)
    assert client.notice(asked, message) == Notice(EndCode.OPERATOR, 120.0, 3)
    # Neither.
    desk.restart()
    asked = client.packet()
    (message,) = desk.ask(asked.message)
    assert client.notice(asked, message) == Notice(EndCode.UNKNOWN, 0.0, None)


def test_ended_is_told_before_anything_about_the_packet() -> None:
    """A wrong seal, a revoked grant, a full server: of an ended session only its end is told."""
    desk = Desk()
    client = Script(desk)
    client.shake()
    client.exchange()
    asked = client.packet()
    desk.server.end(client.sid, EndCode.OPERATOR, desk.now)
    desk.server.shutdown(desk.now)
    located = ZONE.read(asked.name)
    packet = bytearray(located.packet)  # type: ignore[union-attr]
    packet[10] ^= 1
    name = client.name(bytes(packet))
    (message,) = desk.ask(question(name))
    answer = read_answer(message)
    assert answer.notice is not None
    said = read_notice(answer.notice, KEY.status_key(client.sid), name)
    assert said == Notice(EndCode.OPERATOR, 120.0, None)


def test_a_notice_is_for_its_question_alone() -> None:
    desk = Desk()
    client = Script(desk)
    client.shake()
    client.exchange()
    desk.server.end(client.sid, EndCode.OPERATOR, desk.now)
    one, two = client.packet(), client.packet()
    (message,) = desk.ask(one.message)
    assert client.notice(one, message) is not None
    assert client.notice(two, message) is None
    said = {
        read_answer(answer).notice
        for qtype in (QType.DS, QType.TXT, QType.A, QType.AAAA)
        for answer in desk.ask(client.again(one, qtype=qtype))
    }
    assert said == {read_answer(message).notice}
    assert len(message) <= len(one.message) + 96


# --- every question is answered -----------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_every_question_is_answered_within_600_ms(seed: int) -> None:
    """Fragments, polls, early packets, probes, junk: each once, in a busy and an idle world."""
    desk = Desk()
    dice = Dice(f"mix {seed}")
    clients = [Script(desk, SYN, seed=f"{seed}-{number}") for number in range(6)]
    asked: dict[int, float] = {}
    ids = itertools.count()
    for client in clients:
        client.ids = ids
    for round_ in range(200):
        (choice, which) = dice(2)
        client = clients[which % len(clients)]
        if choice < 60:
            messages = client.flight()[: 1 + choice % 3]
        elif client.terms is None and choice < 120:
            messages = [client.packet(kind=Kind.EARLY, may_park=True).message]
        elif client.terms is None:
            for message in client.flight():
                number = int.from_bytes(message[:2], "big")
                asked[number] = desk.time
                for said in desk.ask(message):
                    client.take_welcome(said)
            messages = []
        else:
            messages = [
                client.packet(
                    may_park=choice % 4 != 0, path=choice % 3, name_class=1 + choice % 2
                ).message
            ]
        for message in messages:
            asked[int.from_bytes(message[:2], "big")] = desk.time
            desk.ask(message)
        if desk.streams and choice % 5 == 0:
            desk.streams[which % len(desk.streams)].write(dice(100))
        desk.wait(dice(1)[0] / 4000)
        if round_ % 50 == 49:
            desk.server.end(client.sid, EndCode.OPERATOR, desk.now)
    desk.wait(1.0)
    answered: dict[int, float] = {}
    for time, _, message in desk.said:
        number = read_answer(message).id
        assert number not in answered
        answered[number] = time
    assert set(answered) == set(asked)
    assert max(answered[number] - asked[number] for number in asked) <= 0.6 + 1e-9
