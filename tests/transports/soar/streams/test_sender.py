"""Packets: what goes in first, how little it costs, and what their fate changes (SPEC 10.5, 9.4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transports.soar.streams.pairs import HEADER, Pair, drain, serve
from transports.soar.core.streams.events import StreamWritable
from transports.soar.core.streams.frames import Lease, MaxData, Opened, Ping, StreamData
from transports.soar.core.streams.send_buffer import MAX_WAITING, MOST_WAITING
from transports.soar.core.streams.sender import MAX_KEPT, StreamSent
from transports.soar.core.streams.table import StreamTable
from transports.soar.core.streams.windows import Limits


def data_in(frames: list[object]) -> list[StreamData]:
    return [f for f in frames if isinstance(f, StreamData)]


# --- the form of STREAM frames -----------------------------------------------------------------


def test_the_smallest_packet_carries_twelve_octets_of_a_new_stream() -> None:
    pair = Pair()
    pair.client.open(HEADER)
    assert len(HEADER) == 12
    packet = pair.up(14)
    assert packet.payload == b"\x08\x00" + HEADER  # no offset, no length
    assert not pair.client.has_queued()


@pytest.mark.parametrize("octets", range(20))
def test_no_padding_is_ever_taken_for_octets_of_a_stream(octets: int) -> None:
    pair = Pair()
    number = pair.open()
    pair.client.write(number, bytes([7]) * octets)
    while pair.client.has_queued():
        packet = pair.up(14)
        packet.deliver()
        assert len(packet.payload) == 14
    assert drain(pair.server, number) == bytes([7]) * octets


def test_an_octet_too_little_for_a_length_is_taken_by_a_ping() -> None:
    pair = Pair()
    number = pair.open()
    pair.client.write(number, bytes([7]) * 100)
    packet = pair.up(3 + 100 + 1)
    assert packet.frames == [Ping(), StreamData(number, 12, bytes([7]) * 100, False)]


def test_a_servers_last_frame_has_no_length() -> None:
    pair = Pair()
    number = pair.open()
    pair.server.write(number, b"hello")
    assert pair.down().payload == b"\x08\x00hello"


def test_a_servers_frames_before_the_last_have_one() -> None:
    pair = Pair()
    first, second = pair.open(), pair.open()
    pair.server.write(first, b"hello")
    pair.server.write(second, b"world")
    assert pair.down().payload == b"\x0a\x00\x05hello\x08\x01world"


def test_fin_rides_on_the_last_octets_or_goes_alone() -> None:
    pair = Pair()
    first, second = pair.open(), pair.open()
    pair.server.write(first, b"a")
    pair.server.finish(first)
    assert pair.down().payload == b"\x09\x00a"
    pair.server.finish(second)
    assert pair.down().payload == b"\x09\x01"


@given(st.integers(0, 400), st.integers(0, 60), st.booleans(), st.booleans())
def test_a_packet_is_never_over_its_room_and_never_wastes_much(
    octets: int, room: int, up: bool, fin: bool
) -> None:
    pair = Pair()
    number = pair.open()
    table = pair.client if up else pair.server
    table.write(number, bytes(octets))
    if fin:
        table.finish(number)
    out = bytearray()
    records = table.fill(out, room)
    assert len(out) <= room
    sent = sum(r.stop - r.start for r in records if isinstance(r, StreamSent))
    assert sent >= min(octets, room - 5)


@pytest.mark.parametrize("lost", [False, True])
def test_a_room_that_holds_no_octet_stays_empty(lost: bool) -> None:
    pair = Pair()
    number = pair.open()
    pair.client.write(number, bytes(100))
    if lost:
        pair.up(126).lose()
    out = bytearray()
    assert pair.client.fill(out, 3) == []  # type, stream and offset are three
    assert (len(out), pair.client.has_queued()) == (0, True)
    assert pair.up(4).frames == [StreamData(number, 12, b"\0", False)]


@pytest.mark.parametrize("octets", [16_381, 16_382, 16_383, 16_384, 16_385, 20_000])
@pytest.mark.parametrize("up", [True, False])
def test_lengths_of_four_octets_fit_too(octets: int, up: bool) -> None:
    for spare in range(8):
        pair = Pair()
        number, other = pair.open(), pair.open()
        table, reader = (pair.client, pair.server) if up else (pair.server, pair.client)
        table.write(number, bytes(octets))
        table.write(other, b"other")
        while table.has_queued():
            (pair.up if up else pair.down)(octets + 3 + spare).deliver()
        assert (drain(reader, number), drain(reader, other)) == (bytes(octets), b"other")


# --- the order ---------------------------------------------------------------------------------


def test_spec_10_5_control_frames_then_what_was_lost_then_streams_in_turn() -> None:
    pair = Pair()
    first, second = pair.open(), pair.open()
    pair.server.write(first, b"lost")
    pair.down().lose()
    pair.server.write(second, b"new")
    pair.server.queue(Lease(9))
    assert pair.down().frames == [
        Lease(9),
        StreamData(first, 0, b"lost", False),
        StreamData(second, 0, b"new", False),
    ]


def test_spec_10_5_streams_in_turn_a_packet_each() -> None:
    pair = Pair()
    numbers = [pair.open() for _ in range(3)]
    for number in numbers:
        pair.server.write(number, bytes(5000))
    turns = [data_in(list(pair.down(1000).frames)) for _ in range(9)]
    assert [[f.stream for f in turn] for turn in turns] == [[n] for n in numbers] * 3


def test_what_was_lost_goes_stream_by_stream_too() -> None:
    pair = Pair()
    numbers = [pair.open() for _ in range(2)]
    for number in numbers:
        pair.server.write(number, bytes(5000))
    packets = [pair.down(1000) for _ in range(10)]
    for packet in packets:
        packet.lose()
    turns = [data_in(list(pair.down(1000).frames))[0].stream for _ in range(4)]
    assert turns == [0, 1, 0, 1]


# --- windows -----------------------------------------------------------------------------------


def test_spec_10_3_nothing_is_sent_past_a_streams_window() -> None:
    pair = Pair(Limits(stream_window=20_000))
    number = pair.open()
    pair.server.write(number, bytes(30_000))
    sent = 0
    while pair.server.has_queued():
        packet = pair.down()
        sent += sum(len(f.data) for f in data_in(list(packet.frames)))
        packet.deliver()
    assert sent == 20_000
    assert pair.server.queued_octets() == 0
    drain(pair.client, number)
    pair.up().deliver()
    assert pair.server.has_queued()


def test_spec_10_3_nothing_is_sent_past_the_sessions_window() -> None:
    pair = Pair(Limits(stream_window=20_000, session_window=32_768))
    for number in [pair.open() for _ in range(3)]:
        pair.server.write(number, bytes(20_000))
        pair.server.finish(number)
    sent = 0
    while pair.server.has_queued():
        sent += sum(len(f.data) for f in data_in(list(pair.down().frames)))
    assert sent == 32_768
    pair.server.receive(MaxData(60_000))
    assert pair.server.queued_octets() == 60_000 - 32_768


def test_what_is_lost_needs_no_window() -> None:
    pair = Pair(Limits(stream_window=16_384, session_window=16_384))
    number = pair.open()
    pair.server.write(number, bytes(20_000))
    packets = []
    while pair.server.has_queued():
        packets.append(pair.down())
    packets[3].lose()
    assert pair.server.queued_octets() == len(data_in(list(packets[3].frames))[0].data) + 1
    assert pair.down().frames == packets[3].frames
    assert not pair.server.has_queued()


def test_fin_alone_needs_no_window() -> None:
    pair = Pair(Limits(stream_window=16_384, session_window=16_384))
    number = pair.open()
    pair.server.write(number, bytes(16_384))
    while pair.server.has_queued():
        pair.down()
    pair.server.finish(number)
    assert pair.server.has_queued()
    assert pair.server.queued_octets() > 0
    assert pair.down().frames == [StreamData(number, 16_384, b"", True)]


def test_a_lower_limit_changes_nothing() -> None:
    pair = Pair()
    number = pair.open()
    pair.server.receive(MaxData(5))
    pair.server.write(number, b"abc")
    assert pair.server.has_queued()


def test_a_peer_that_takes_everything_gets_no_more_than_is_kept_for_a_loss() -> None:
    pair = Pair(
        Limits(
            most_stream_window=1 << 40,
            most_session_window=1 << 40,
            session_window=1 << 40,
            stream_window=1 << 40,
        )
    )
    number = pair.open()
    sent = 0
    while True:
        if (room := pair.server.room(number)) > 0:
            pair.server.write(number, bytes(room))
        octets = sum(len(f.data) for f in data_in(list(pair.down(60_000).frames)))
        if not octets:
            break
        sent += octets
    assert sent == MAX_KEPT
    assert not pair.server.has_queued()


# --- fates -------------------------------------------------------------------------------------


def test_spec_9_4_octets_are_sent_again_until_acknowledged() -> None:
    pair = Pair()
    number = pair.open()
    pair.server.write(number, b"hello")
    pair.server.finish(number)
    for _ in range(3):
        packet = pair.down()
        assert packet.frames == [StreamData(number, 0, b"hello", True)]
        packet.lose()
    packet = pair.down()
    packet.ack()
    packet.lose()
    assert not pair.server.has_queued()


def test_a_loss_may_be_cut_anew() -> None:
    pair = Pair()
    number = pair.open()
    pair.server.write(number, bytes(range(200)))
    pair.server.finish(number)
    pair.down().lose()
    while pair.server.has_queued():
        pair.down(20).deliver()
    assert drain(pair.client, number) == bytes(range(200))
    assert pair.client.at_end(number)


def test_a_fin_whose_octets_arrived_otherwise_is_still_sent_again() -> None:
    pair = Pair()
    number = pair.open()
    pair.server.write(number, b"hello")
    first = pair.down()
    pair.server.finish(number)
    second = pair.down()
    first.lose()
    third = pair.down()  # the octets again, with FIN
    assert third.frames == [StreamData(number, 0, b"hello", True)]
    first.ack()  # a late acknowledgement
    second.lose()
    third.lose()
    assert pair.down().frames == [StreamData(number, 5, b"", True)]


def test_a_loss_of_what_no_longer_matters_queues_nothing() -> None:
    pair = Pair()
    number = pair.open()
    pair.server.write(number, bytes(5000))
    packets = [pair.down() for _ in range(3)]
    pair.server.reset(number, 0)
    pair.down().ack()
    for packet in packets:
        packet.lose()
        packet.ack()
    assert not pair.server.has_queued()
    assert pair.server.queued_octets() == 0


def test_spec_10_4_256_kb_may_wait_and_half_of_it_makes_a_stream_writable() -> None:
    pair = Pair(Limits(stream_window=1 << 20))
    number = pair.open()
    assert pair.server.room(number) == MAX_WAITING == 256 * 1024
    pair.server.write(number, bytes(MAX_WAITING))
    assert pair.server.room(number) == 0
    sent = 0
    while not pair.server.events:
        packet = pair.down()
        sent += sum(len(f.data) for f in data_in(list(packet.frames)))
        packet.ack()
    assert list(pair.server.events) == [StreamWritable(number)]
    assert sent >= MAX_WAITING // 2 > sent - 1095
    assert pair.server.room(number) == sent


def test_with_much_under_way_twice_as_much_may_wait_up_to_a_megabyte() -> None:
    pair = Pair(Limits(stream_window=4 << 20, session_window=8 << 20))
    number = pair.open()
    sent = waiting = 0
    for _ in range(700):
        pair.server.write(number, bytes(pair.server.room(number)))
        sent += sum(len(f.data) for f in data_in(list(pair.down().frames)))
        waiting = pair.server.queued_octets()
        most = max(MAX_WAITING, min(MOST_WAITING, 2 * sent))
        assert most - 1095 * 3 <= waiting <= most
    assert waiting > MOST_WAITING - 1095 * 3


def test_the_sums_agree_with_what_is_there() -> None:
    pair = Pair()
    numbers = [pair.open() for _ in range(4)]
    for number in numbers:
        pair.server.write(number, bytes(3000))
    assert pair.server.queued_octets() == 12_000
    packets = [pair.down(500) for _ in range(12)]
    left = pair.server.queued_octets()
    for packet in packets[::2]:
        packet.lose()
    for packet in packets[1::2]:
        packet.ack()
    pair.server.reset(numbers[0], 0)
    pair.server.opened(numbers[1])
    assert pair.server.queued_octets() > left - 3000
    while pair.server.has_queued():
        pair.down().ack()
    sender = pair.server._sender
    assert (sender._lost, sender._sendable, sender._kept) == (
        0,
        0,
        sum(s.send.kept for s in pair.server._register.streams.values()),
    )
    for packet in packets:
        packet.ack()
    assert sender._kept == 0


def test_opened_is_sent_once() -> None:
    pair = Pair()
    number = pair.client.open(HEADER)
    pair.up().deliver()
    assert serve(pair.server) == {}
    pair.server.opened(number)
    packet = pair.down()
    assert packet.frames == [Opened(number)]
    assert not pair.server.has_queued()


def test_an_idle_table_fills_nothing() -> None:
    table = StreamTable(client=True)
    out = bytearray()
    assert table.fill(out, 100) == []
    assert (len(out), table.has_queued(), table.queued_octets()) == (0, False, 0)
