"""One session: packets, copies, parks, losses, limits (SPEC 8, 9, 13.4, 18.6)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.transports.soar.server.scripted import (
    OTHER_ZONE,
    RESOLVER,
    TARGET,
    ZONE,
    Asked,
    Desk,
    Script,
)
from transports.soar.core.crypto import EndCode, Kind, SizeClass
from transports.soar.core.dns.answers import Form
from transports.soar.core.dns.messages import QType, Rcode
from transports.soar.core.dns.zone import Zones
from transports.soar.core.server.events import StreamReset
from transports.soar.core.server.source import Source
from transports.soar.core.streams.frames import (
    Challenge,
    End,
    Floor,
    Frame,
    Lost,
    LostMap,
    MaxData,
    MaxStreamData,
    Opened,
    Ping,
    RefusalReason,
    Refused,
    Reset,
    Response,
    Stop,
    StreamData,
)
from transports.soar.core.streams.frames import Zones as ZonesFrame

SYN = StreamData(0, 0, TARGET.to_wire(), False)
TCP = RESOLVER._replace(tcp=True)


def begin(**settings: Any) -> tuple[Desk, Script]:
    """Return a server and a client that has proven its prefix."""
    desk = Desk(**settings)
    client = Script(desk)
    client.shake()
    client.prove()
    return desk, client


def data_of(frames: list[Frame], stream: int = 0) -> bytes:
    found = [frame for frame in frames if isinstance(frame, StreamData) and frame.stream == stream]
    return b"".join(frame.data for frame in sorted(found, key=lambda frame: frame.offset))


def poll(client: Script, **options: Any) -> Asked:
    return client.packet(may_park=True, **options)


# --- copies ---------------------------------------------------------------------------------


def test_copies_get_the_same_octets_three_times_and_then_nothing() -> None:
    desk, client = begin()
    stream = client.open_stream()
    stream.write(b"octets of the target")
    asked = client.packet()
    (first,) = desk.ask(asked.message)
    said = client.open(asked, first)
    assert said is not None
    assert data_of(said.frames) == b"octets of the target"
    stream.write(b"more")
    for number in range(5):
        copy = client.again(asked)
        (message,) = desk.ask(copy, Source(bytes([192, 0, 2, number]), 99))
        answer = client.read(message)
        assert answer.id == int.from_bytes(copy[:2], "big")
        assert message[12 : 12 + 20] == copy[12 : 12 + 20]  # as that copy spelled it
        assert answer.payload == (client.read(first).payload if number < 3 else None)
    said = client.exchange()
    assert data_of(said.frames) == b"more"  # copies consumed nothing


def test_a_copy_that_has_less_room_gets_tc_and_the_same_octets_by_tcp() -> None:
    desk, client = begin()
    client.open_stream().write(bytes(5000))
    asked = client.packet(size=SizeClass.OCTETS_1232)
    (first,) = desk.ask(asked.message)
    assert len(first) == 1232
    (message,) = desk.ask(client.again(asked, edns=False))
    assert client.read(message).truncated
    assert len(message) < 150
    (message,) = desk.ask(client.again(asked, edns=False), TCP)
    assert client.read(message).payload == client.read(first).payload


def test_a_packet_under_another_type_is_executed_and_answered_under_its_own() -> None:
    desk, client = begin()
    asked = client.packet(SYN, form=Form.TXT, name_class=4)
    (message,) = desk.ask(client.again(asked, qtype=QType.A))
    assert client.read(message).payload is None
    assert len(desk.streams) == 1
    desk.streams[0].opened()
    desk.wait(0.08)
    (message,) = desk.ask(client.again(asked))
    said = client.open(asked, message)
    assert said is not None
    assert Opened(0) in said.frames
    assert said.opened.held == pytest.approx(0.08)
    (message,) = desk.ask(client.again(asked, qtype=QType.A))
    assert client.read(message).payload is None
    assert len(desk.streams) == 1


def test_a_packet_whose_session_is_there_but_whose_seal_is_wrong_changes_nothing() -> None:
    desk, client = begin()
    asked = client.packet(SYN, name_class=4)
    before = desk.server.status(desk.now).sessions[0]
    desk.wait(1.0)
    session = desk.server._keeper.table.get(client.sid)
    assert session is not None
    packet = bytearray(desk_packet(client, asked))
    packet[20] ^= 1
    (message,) = desk.ask(client.question(client.name(bytes(packet), 4), Form.DS))
    assert client.read(message).payload is None
    assert client.read(message).rcode == Rcode.NOERROR
    after = desk.server.status(desk.now).sessions[0]
    assert after.idle == before.idle + 1.0
    assert not desk.streams


def desk_packet(client: Script, asked: Asked) -> bytes:
    located = client.zone.read(asked.name)
    packet: bytes = located.packet  # type: ignore[union-attr]
    return packet


# --- packet numbers -------------------------------------------------------------------------


def test_numbers_far_above_the_floor_are_not_executed() -> None:
    desk, client = begin()
    client.first.seals.next_number = 8191
    assert client.exchange(Ping()) is not None
    client.first.seals.next_number = 8192
    asked = client.packet(SYN, name_class=4)
    (message,) = desk.ask(asked.message)
    assert client.read(message).payload is None
    assert not desk.streams


def test_numbers_below_the_floor_are_answered_empty() -> None:
    desk, client = begin()
    late = client.packet(SYN, name_class=4)
    client.exchange(Floor(0))
    (message,) = desk.ask(late.message)
    assert client.read(message).payload is None
    assert not desk.streams


def test_numbers_go_on_past_16_bits() -> None:
    desk, client = begin()
    for number in (8_000, 16_000, 24_000, 32_000, 40_000, 48_000, 56_000, 64_000, 70_000, 78_000):
        client.first.seals.next_number = number
        client.exchange(Floor(0))
    client.first.seals.next_number = 80_000
    assert client.exchange(SYN, name_class=4)
    assert len(desk.streams) == 1


# --- loss -----------------------------------------------------------------------------------


def test_what_was_in_a_lost_answer_comes_again() -> None:
    desk, client = begin()
    stream = client.open_stream()
    stream.write(b"lost")
    lost = client.packet()
    desk.ask(lost.message)
    assert data_of(client.exchange().frames) == b""
    said = client.exchange(Lost((2,)))
    assert data_of(said.frames) == b"lost"
    said = client.exchange(Lost((3,)))
    assert (
        data_of(said.frames) == b"lost"
    )  # queued once; where answers are lost, each is said again once (SPEC 11.6)
    assert data_of(client.exchange().frames) == b""


def test_where_answers_are_lost_two_parked_questions_get_the_same_octets() -> None:
    desk, client = begin()
    stream = client.open_stream()
    client.exchange()
    client.exchange(Lost((1,)))
    polls = [poll(client, path=0), poll(client, path=0)]
    assert [desk.ask(each.message) for each in polls] == [[], []]
    stream.write(b"news")
    said = [client.open(asked, message) for asked, message in zip(polls, desk.flush(), strict=True)]
    assert [data_of(each.frames) for each in said if each] == [b"news"] * 2


def test_without_loss_the_second_goes_on_waiting() -> None:
    desk, client = begin()
    stream = client.open_stream()
    polls = [poll(client), poll(client)]
    assert [desk.ask(each.message) for each in polls] == [[], []]
    stream.write(b"news")
    assert len(desk.flush()) == 1


@pytest.mark.parametrize(("frames", "is_parked"), [((), False), ((Floor(0),), True)])
def test_a_new_poll_gets_them_too_unless_it_says_that_they_came(
    frames: tuple[Frame, ...], is_parked: bool
) -> None:
    desk, client = begin()
    stream = client.open_stream()
    client.exchange()
    client.exchange(Lost((1,)))
    stream.write(b"news")
    assert data_of(client.exchange().frames) == b"news"
    asked = client.packet(*frames, may_park=True)
    messages = desk.ask(asked.message)
    assert (messages == []) is is_parked
    for message in messages:
        said = client.open(asked, message)
        assert said is not None
        assert data_of(said.frames) == b"news"


def test_a_number_that_is_lost_before_it_came_is_never_executed() -> None:
    desk, client = begin()
    late = client.packet(SYN, name_class=4)
    client.exchange(Lost((1,)))
    for _ in range(2):
        (message,) = desk.ask(late.message)
        assert client.read(message).payload is None
    assert not desk.streams


def test_losses_that_are_said_as_bits_are_the_same_losses() -> None:
    desk, client = begin()
    stream = client.open_stream()
    stream.write(b"lost")
    lost = client.packet()
    desk.ask(lost.message)
    late = client.packet(StreamData(1, 0, TARGET.to_wire(), False), name_class=4)
    kept = client.packet()
    stream.write(b"kept")
    desk.ask(kept.message)
    numbers = (lost.number, late.number, kept.number)
    assert numbers == (4, 5, 6)
    # From 4 on the first two, and one that is above the number of the packet that says so.
    said = client.exchange(LostMap(3, b"\xc1"))
    assert data_of(said.frames) == b"lost"
    (message,) = desk.ask(late.message)
    assert client.read(message).payload is None
    assert len(desk.streams) == 1
    assert data_of(client.exchange().frames) == b"lost"  # once more, where answers are lost
    assert client.exchange().frames == []


def test_a_parked_question_that_is_lost_is_answered_and_carries_nothing_that_must_arrive() -> None:
    desk, client = begin()
    stream = client.open_stream()
    parked = poll(client)
    assert desk.ask(parked.message) == []
    stream.write(b"must arrive")
    # LOST and octets at once: those go into the answer to the packet that said it, or later ones.
    asked = client.packet(Lost((1,)))
    desk.server.receive_message(asked.message, RESOLVER, desk.now)
    freed, answer = desk.flush()
    said = client.open(parked, freed)
    assert said is not None
    assert said.frames == []
    said = client.open(asked, answer)
    assert said is not None
    assert data_of(said.frames) == b"must arrive"


def test_what_is_below_the_floor_is_forgotten_and_not_sent_again() -> None:
    desk, client = begin()
    client.open_stream().write(bytes(500))
    client.exchange()
    before = desk.server.status(desk.now).sessions[0].octets
    client.exchange(Floor(0))
    after = desk.server.status(desk.now).sessions[0].octets
    assert before - after >= 1000
    said = client.exchange(Lost((2,)))
    assert data_of(said.frames) == b""


def test_a_parked_question_below_the_floor_is_answered_empty() -> None:
    desk, client = begin()
    parked = poll(client)
    assert desk.ask(parked.message) == []
    asked = client.packet(Floor(0))
    freed, _ = desk.ask(asked.message)
    assert client.read(freed).payload is None
    assert desk.wait(1.0) == []


# --- parks ----------------------------------------------------------------------------------


def test_a_park_ends_after_600_ms_with_what_it_waited() -> None:
    desk, client = begin()
    asked = poll(client)
    assert desk.ask(asked.message) == []
    began = desk.time
    desk.wait(2.0)
    time, _, message = desk.said[-1]
    assert time == pytest.approx(began + 0.6)
    said = client.open(asked, message)
    assert said is not None
    assert said.frames == []
    assert said.opened.held == pytest.approx(0.6)


def test_octets_answer_the_newest_copies_at_once_and_the_oldest_question_first() -> None:
    """Of copies from another address nobody can tell whether a resolver has several, or a stranger replays."""
    desk, client = begin()
    stream = client.open_stream()
    first, second = poll(client), poll(client)
    desk.ask(first.message)
    desk.wait(0.02)
    desk.ask(second.message)
    desk.wait(0.06)
    newer = Source(bytes([192, 0, 2, 54]), 1234)
    copy = client.again(first)
    assert desk.ask(copy, newer) == []
    desk.wait(0.08)
    stream.write(bytes(1500))
    (home, one, two) = desk.flush()
    assert [source for _, source, _ in desk.said[-3:]] == [RESOLVER, newer, RESOLVER]
    assert client.read(one).id == int.from_bytes(copy[:2], "big")
    assert client.read(one).payload == client.read(home).payload
    said = client.open(first, one)
    assert said is not None
    assert said.opened.held == pytest.approx(0.156, abs=0.008)
    assert said.opened.backlog == 1
    rest = client.open(second, two)
    assert rest is not None
    assert rest.opened.held == pytest.approx(0.136, abs=0.008)
    assert rest.opened.backlog == 0
    assert len(data_of(said.frames)) + len(data_of(rest.frames)) == 1500
    # A copy of what is answered gets the same octets, at once.
    (again,) = desk.ask(client.again(first))
    assert client.read(again).payload == client.read(one).payload


def test_a_third_question_of_a_path_sends_the_oldest_away_empty() -> None:
    desk, client = begin()
    asked = [poll(client) for _ in range(3)]
    other = poll(client, path=1)
    assert [desk.ask(each.message) for each in (*asked[:2], other)] == [[], [], []]
    (message,) = desk.ask(asked[2].message)
    said = client.open(asked[0], message)
    assert said is not None
    assert said.frames == []
    assert desk.server.status(desk.now).sessions[0].parked == 3


def test_every_copy_that_is_remembered_is_answered_when_a_park_comes_to_nothing() -> None:
    elsewhere = Source(bytes([192, 0, 2, 54]), 1234)
    for code, said in ((EndCode.OPERATOR, True), (EndCode.UNKNOWN, False)):
        desk, client = begin()
        asked = poll(client)
        desk.ask(asked.message)
        desk.ask(client.again(asked), elsewhere)
        assert desk.server.end(client.sid, code, desk.now)
        home, other = desk.flush()
        assert (client.open(asked, home) is not None) is said
        assert client.open(asked, other) is None, "one number, one seal"
    # Below the floor:
    desk, client = begin()
    asked = poll(client)
    desk.ask(asked.message)
    desk.ask(client.again(asked), elsewhere)
    later = client.packet(Floor(0))
    assert len(desk.ask(later.message)) == 3


def test_the_fourth_copy_ends_a_park() -> None:
    desk, client = begin()
    asked = poll(client)
    desk.ask(asked.message)
    assert desk.ask(client.again(asked)) == []
    assert desk.ask(client.again(asked)) == []
    (message,) = desk.ask(client.again(asked))
    assert client.open(asked, message) is not None


def test_a_copy_by_tcp_ends_a_park_and_a_first_copy_by_tcp_begins_none() -> None:
    desk, client = begin()
    asked = poll(client)
    desk.ask(asked.message)
    (message,) = desk.ask(client.again(asked), TCP)
    assert client.open(asked, message) is not None
    asked = poll(client)
    (message,) = desk.ask(asked.message, TCP)
    assert client.open(asked, message) is not None


def test_a_copy_under_another_name_ends_a_park_and_both_get_the_same_octets() -> None:
    """A selector that was changed, by damage or by somebody who wants the answer: a resolver has both questions open."""
    desk, client = begin()
    asked = poll(client)
    selector = b"a" if asked.name[1:2] != b"a" else b"b"
    other = asked._replace(name=asked.name[:1] + selector + asked.name[2:])
    desk.ask(asked.message)
    one, two = desk.ask(client.again(other))
    first = int.from_bytes(asked.message[:2])
    assert [client.read(each).id for each in (one, two)] == [first, first + 1]
    assert client.open(asked, one) is not None
    assert client.read(two).payload == client.read(one).payload
    assert desk.wait(1.0) == []


def test_on_a_busy_path_with_repeats_a_park_ends_after_250_ms() -> None:
    desk, client = begin()
    client.open_stream()
    first = poll(client)
    desk.ask(first.message)
    began = desk.time
    desk.wait(0.08)
    desk.ask(client.again(first))
    desk.wait(1.0)
    assert desk.said[-1][0] == pytest.approx(began + 0.25)


def test_long_names_and_those_that_may_not_are_never_parked() -> None:
    _, client = begin()
    assert client.exchange(may_park=True, name_class=2).frames == []
    assert client.exchange(may_park=False).frames == []


def test_a_question_that_brings_octets_may_wait_for_the_answer_to_them() -> None:
    desk, client = begin()
    stream = client.open_stream()
    offset = len(TARGET.to_wire())
    asked = client.packet(StreamData(0, offset, b"GET", False), may_park=True)
    assert desk.ask(asked.message) == []
    assert stream.read() == b"GET"
    stream.write(b"200 OK")
    (message,) = desk.flush()
    said = client.open(asked, message)
    assert said is not None
    assert data_of(said.frames) == b"200 OK"


# --- sizes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize(
    ("size", "edns", "tcp", "limit"),
    [
        (SizeClass.OCTETS_512, True, False, 512),
        (SizeClass.OCTETS_1232, True, False, 1232),
        (SizeClass.OCTETS_1232, False, False, 512),
        (SizeClass.OCTETS_1232, False, True, 1232),
        (SizeClass.EDNS, True, False, 1232),
        (SizeClass.EDNS, False, False, 512),
    ],
)
def test_an_answer_fills_what_its_copy_takes(
    form: Form, size: SizeClass, edns: bool, tcp: bool, limit: int
) -> None:
    desk, client = begin()
    client.open_stream().write(bytes(5000))
    asked = client.packet(size=size, edns=edns, form=form)
    (message,) = desk.ask(asked.message, TCP if tcp else RESOLVER)
    said = client.open(asked, message)
    assert said is not None
    assert len(message) <= limit
    if form is not Form.SOA or limit == 512:  # of a SOA, names end before 1232 octets do
        assert len(message) >= limit - 2
    assert said.opened.backlog == -(-(5000 - len(data_of(said.frames))) // len(said.opened.frames))


# --- amplification ----------------------------------------------------------------------------


def unproven() -> tuple[Desk, Script]:
    desk = Desk()
    client = Script(desk)
    client.shake()
    client.open_stream().write(bytes(100_000))
    return desk, client


def test_an_unproven_prefix_gets_8_kilobytes_each_with_a_challenge() -> None:
    desk, client = unproven()
    octets = []
    for _ in range(20):
        asked = client.packet()
        (message,) = desk.ask(asked.message)
        said = client.open(asked, message)
        assert said is not None
        assert sum(isinstance(frame, Challenge) for frame in said.frames) == 1
        octets.append(len(client.read(message).payload or b""))
    large = [size for size in octets if size > 100]
    assert sum(large) <= 8192
    assert sum(large) > 8192 - 1232
    assert octets[-10:] == [23] * 10


def test_a_response_opens_the_prefix_and_no_other() -> None:
    desk, client = unproven()
    for _ in range(10):
        client.exchange()
    client.prove()
    assert len(client.exchange().opened.frames) > 1000
    elsewhere = Source(bytes([203, 0, 113, 1]), 53)
    asked = client.packet()
    (message,) = desk.ask(asked.message, elsewhere)
    said = client.open(asked, message)
    assert said is not None
    assert any(isinstance(frame, Challenge) for frame in said.frames)


def test_a_connection_proves_its_source() -> None:
    desk, client = unproven()
    total = 0
    for _ in range(20):
        asked = client.packet()
        (message,) = desk.ask(asked.message, TCP)
        said = client.open(asked, message)
        assert said is not None
        assert not any(isinstance(frame, Challenge) for frame in said.frames)
        total += len(data_of(said.frames))
    assert total > 20_000


def test_copies_from_elsewhere_count_against_elsewhere_and_end_in_tc() -> None:
    desk, client = begin()
    client.open_stream().write(bytes(100_000))
    victim = Source(bytes([203, 0, 113, 9]), 53)
    sent = 0
    truncated = 0
    for _ in range(20):
        asked = client.packet()
        desk.ask(asked.message)
        for _ in range(3):
            (message,) = desk.ask(client.again(asked), victim)
            answer = client.read(message)
            sent += len(answer.payload or b"")
            truncated += answer.truncated
    assert sent <= 8192 + 23
    assert truncated > 40


# --- ends -----------------------------------------------------------------------------------


def test_a_client_may_end_its_session() -> None:
    desk, client = begin()
    client.open_stream()
    parked = poll(client)
    desk.ask(parked.message)
    asked = client.packet(End(2, -1))
    said = [client.open(asked, message) for message in desk.ask(asked.message)]
    assert any(each is not None and End(2, 0) in each.frames for each in said)
    assert desk.server.sids() == []
    late = client.packet()
    (message,) = desk.ask(late.message)
    notice = client.notice(late, message)
    assert notice is not None
    assert notice.code is EndCode.CLOSED


@pytest.mark.parametrize(
    "raw",
    [
        b"\x3f",  # a type that isn't known
        b"\x04\x00",  # OPENED, which only a server sends
        b"\x01" * 11 + b"\x0a\x00\x40",  # STREAM that is cut short
        b"\x08\xc0\xff\xff\xff\xff\xff\xff\xff",  # a stream nobody would open
        b"\x0c\x00\x80\x10\x00\x00\x00",  # past the window of 256 KB
        b"\x10\x00\x00\x80\x20\x00\x00",  # RESET past it
        b"\x03\x21" + b"\x01" * 12,  # LOST with 33 numbers
        b"\x01" * 13 + b"\x12",  # MAX_DATA that is cut short
    ],
)
def test_a_broken_rule_ends_the_session_and_says_so(raw: bytes) -> None:
    desk, client = begin()
    asked = client.packet(raw=raw, name_class=4 if len(raw) > 14 else 1)
    (message,) = desk.ask(asked.message)
    said = client.open(asked, message)
    assert said is not None
    (end,) = said.frames
    assert isinstance(end, End)
    assert end.code == EndCode.PROTOCOL
    assert desk.server.sids() == []
    late = client.packet()
    (message,) = desk.ask(late.message)
    notice = client.notice(late, message)
    assert notice is not None
    assert notice.code is EndCode.PROTOCOL


def test_frames_of_later_versions_are_passed_over() -> None:
    _, client = begin()
    assert client.exchange(raw=b"\x40\x99\x03abc\x01").frames == []


def test_every_end_is_said_to_parked_questions_and_later_ones() -> None:
    for code in (
        EndCode.OPERATOR,
        EndCode.SHUTDOWN,
        EndCode.REVOKED,
        EndCode.EXPIRED,
        EndCode.CAPACITY,
    ):
        desk, client = begin()
        client.open_stream(3)
        parked = poll(client)
        assert desk.ask(parked.message) == []
        assert desk.server.end(client.sid, code, desk.now)
        (message,) = desk.flush()
        said = client.open(parked, message)
        assert said is not None
        assert said.frames == [End(code, 3)]
        assert not desk.server.end(client.sid, code, desk.now)
        for kind in (Form.DS, Form.TXT, Form.SOA):
            late = client.packet(form=kind)
            (message,) = desk.ask(late.message)
            notice = client.notice(late, message)
            assert notice is not None
            assert (notice.code, notice.last_stream) == (code, 3)
        # A copy of one that was answered before gets the notice too, under any type.
        (message,) = desk.ask(client.again(parked, qtype=QType.AAAA))
        assert client.notice(parked, message) is not None


# --- streams and zones ------------------------------------------------------------------------


def test_a_refused_target_is_said_to_the_client() -> None:
    desk, client = begin()
    client.exchange(SYN, name_class=4)
    desk.streams[0].refuse(RefusalReason.UNREACHABLE)
    assert Refused(0, 3) in client.exchange().frames


def test_a_reset_before_the_connect_cancels_it() -> None:
    desk, client = begin()
    client.exchange(SYN, name_class=4)
    client.exchange(Reset(0, 1, len(TARGET.to_wire())))
    assert [event.code for event in desk.of(StreamReset)] == [1]


def test_stop_drops_what_was_to_be_sent() -> None:
    _, client = begin()
    stream = client.open_stream()
    stream.write(bytes(5000))
    said = client.exchange(Stop(0, 1))
    assert any(isinstance(frame, Reset) for frame in said.frames)
    assert data_of(said.frames) == b""
    stream.write(b"nobody wants it")
    assert data_of(client.exchange().frames) == b""


def test_the_windows_of_the_client_are_kept() -> None:
    _, client = begin()
    stream = client.open_stream()
    sent = 0
    total = 0
    while total < (256 << 10) + 50_000:
        if room := stream.room:
            stream.write(bytes(min(room, 50_000)))
            total += min(room, 50_000)
        said = client.exchange(Floor(0))
        sent += len(data_of(said.frames))
        if not data_of(said.frames) and not stream.room:
            break
    while data := data_of(client.exchange(Floor(0)).frames):
        sent += len(data)
    assert sent == 256 << 10
    client.exchange(MaxStreamData(0, 300_000), MaxData(10 << 20))
    assert data_of(client.exchange(Floor(0)).frames)


def test_a_session_is_there_under_all_zones() -> None:
    desk = Desk(zones=Zones((ZONE, OTHER_ZONE)))
    client = Script(desk)
    client.shake()
    said = client.exchange()
    assert ZonesFrame(((1, OTHER_ZONE.wire),)) in said.frames
    asked = client.packet(zone=OTHER_ZONE, zone_index=1)
    (message,) = desk.ask(asked.message)
    assert client.open(asked, message) is not None
    asked = client.packet(zone=OTHER_ZONE, zone_index=0)  # the seal covers the zone
    (message,) = desk.ask(asked.message)
    assert client.read(message).payload is None


# --- early packets ----------------------------------------------------------------------------


def test_a_question_that_came_before_its_session_waits_no_longer_than_others() -> None:
    desk = Desk()
    client = Script(desk, SYN)
    asked = client.packet(kind=Kind.EARLY, may_park=True)
    began = desk.time
    desk.ask(asked.message)
    desk.wait(0.4)
    desk.ask(client.again(asked))
    desk.wait(0.1)
    client.shake()
    desk.wait(1.0)
    ((time, _, message),) = [each for each in desk.said if client.read(each[2]).id == 2]
    assert time - began == pytest.approx(0.6)
    said = client.open(asked, message)
    assert said is not None
    assert said.opened.held == pytest.approx(0.6, abs=0.008)


def test_early_packets_before_and_after_the_first_message_are_executed() -> None:
    desk = Desk()
    client = Script(desk, SYN)
    offset = len(TARGET.to_wire())
    before = client.packet(StreamData(0, offset, b"hel", False), kind=Kind.EARLY)
    after = client.packet(StreamData(0, offset + 3, b"lo", False), kind=Kind.EARLY)
    early_poll = client.packet(kind=Kind.EARLY, may_park=True)
    assert desk.ask(before.message) == []
    desk.wait(0.05)
    client.shake()
    answered = desk.said[-1][2]
    desk.ask(after.message)
    assert client.terms is not None
    said = client.open(before, answered)
    assert said is not None
    assert said.opened.held == pytest.approx(0.048, abs=0.001)
    (stream,) = desk.streams
    assert stream.read() == b"hello"
    assert desk.ask(early_poll.message) == []
    stream.opened()
    stream.write(b"world")
    (message,) = desk.flush()
    said = client.open(early_poll, message)
    assert said is not None
    assert Opened(0) in said.frames
    assert data_of(said.frames) == b"world"


def test_an_early_packet_that_waits_in_vain_is_answered_empty_and_may_still_count() -> None:
    desk = Desk()
    client = Script(desk, SYN)
    early = client.packet(StreamData(0, len(TARGET.to_wire()), b"late", False), kind=Kind.EARLY)
    desk.ask(early.message)
    began = desk.time
    (message,) = desk.wait(1.0)
    assert desk.said[-1][0] == pytest.approx(began + 0.6)
    assert client.read(message).rcode == Rcode.NOERROR  # no notice: the session may yet begin
    client.shake()
    assert desk.streams[0].read() == b"late"
    (message,) = desk.ask(client.again(early))
    said = client.open(early, message)
    assert said is not None


def test_early_packets_of_a_session_that_has_ended_get_a_notice_at_once() -> None:
    desk = Desk()
    client = Script(desk, SYN)
    early = client.packet(kind=Kind.EARLY)
    client.shake()
    desk.server.end(client.sid, EndCode.SHUTDOWN, desk.now)
    (message,) = desk.ask(early.message)
    notice = client.notice(early, message)
    assert notice is not None
    assert (notice.code, notice.last_stream) == (EndCode.SHUTDOWN, 0)


def test_early_packets_that_are_not_to_be_executed_are_answered_all_the_same() -> None:
    desk = Desk(uptime=10.0)
    client = Script(desk, SYN)
    early = client.packet(SYN, kind=Kind.EARLY, name_class=4)
    desk.ask(early.message)
    client.shake()
    assert client.terms is not None
    assert client.terms.early_refused
    assert client.open(early, desk.said[-1][2]) is not None
    assert not desk.streams
    client.exchange(Response(b"none"), SYN, name_class=4)
    assert len(desk.streams) == 1


def test_a_first_message_that_ends_what_it_began_leaves_nobody_waiting() -> None:
    desk = Desk()
    client = Script(desk, End(2, -1))
    early = client.packet(kind=Kind.EARLY, may_park=True)
    assert desk.ask(early.message) == []
    client.shake()
    assert desk.server.sids() == []
    assert client.read(desk.said[-1][2]).payload is None
    asked = client.packet()
    (message,) = desk.ask(asked.message)
    notice = client.notice(asked, message)
    assert notice is not None
    assert notice.code is EndCode.CLOSED


def test_a_late_probe_of_a_session_that_ends_is_answered_empty() -> None:
    desk, client = begin()
    asked = client.packet(End(2, -1), form=Form.TXT)
    (message,) = desk.ask(client.again(asked, qtype=QType.A))
    assert client.read(message).payload is None
    assert desk.server.sids() == []


def test_what_was_executed_late_is_sealed_for_its_first_copy_that_can_carry_it() -> None:
    """A copy that comes long after a probe isn't parked: it has waited its time."""
    desk, client = begin()
    asked = client.packet(form=Form.TXT, may_park=True)
    desk.ask(client.again(asked, qtype=QType.A))
    desk.wait(0.7)
    (message,) = desk.ask(client.again(asked))
    assert client.open(asked, message) is not None


def test_a_number_that_is_lost_after_a_probe_carries_nothing_that_must_arrive() -> None:
    desk, client = begin()
    stream = client.open_stream()
    asked = client.packet(form=Form.TXT)
    desk.ask(client.again(asked, qtype=QType.A))
    client.exchange(Lost((1,)))
    stream.write(b"must arrive")
    (message,) = desk.ask(client.again(asked))
    said = client.open(asked, message)
    assert said is not None
    assert said.frames == []
    assert data_of(client.exchange().frames) == b"must arrive"
