"""The life of streams, each rule of SPEC 10 and 9.5 by itself."""

from __future__ import annotations

import pytest

from racer.errors import LocalProtocolError
from tests.transports.soar.streams.pairs import HEADER, TARGET, Pair, drain, serve
from transports.soar.core.streams.events import (
    StreamConnected,
    StreamOpened,
    StreamOver,
    StreamReadable,
    StreamRefused,
    StreamReset,
    StreamStopped,
)
from transports.soar.core.streams.frames import (
    Lease,
    MaxData,
    MaxStreamData,
    MaxStreams,
    Opened,
    Ping,
    RefusalReason,
    Refused,
    Reset,
    ResetCode,
    Stop,
    StreamData,
)
from transports.soar.core.streams.send_buffer import MOST_WAITING
from transports.soar.core.streams.table import StreamTable
from transports.soar.core.streams.windows import EARLY_WINDOW, Limits

K = 1024


def test_a_stream_from_its_opening_to_its_end() -> None:
    pair = Pair()
    number = pair.client.open(HEADER)
    pair.client.write(number, b"question")
    pair.client.finish(number)
    pair.run()
    assert list(pair.server.events) == [StreamOpened(number, TARGET), StreamReadable(number)]
    pair.server.events.clear()
    assert drain(pair.server, number) == b"question"
    assert pair.server.at_end(number)
    pair.server.opened(number)
    pair.server.write(number, b"answer")
    pair.server.finish(number)
    pair.run()
    assert list(pair.server.events) == [StreamOver(number)]
    assert list(pair.client.events) == [
        StreamConnected(number),
        StreamReadable(number),
        StreamOver(number),
    ]
    assert (pair.client.live, pair.client.kept) == (0, 1)
    assert drain(pair.client, number) == b"answer"
    assert pair.client.at_end(number)
    assert (pair.client.kept, pair.server.kept, pair.server.live) == (0, 0, 0)


# --- opening -----------------------------------------------------------------------------------


def test_spec_10_1_streams_are_numbered_in_the_order_of_opening() -> None:
    pair = Pair()
    assert [pair.client.open(HEADER) for _ in range(3)] == [0, 1, 2]
    assert pair.client.last_stream == 2
    assert pair.server.last_stream == -1
    pair.run()
    assert pair.server.last_stream == 2


def test_spec_10_1_a_target_may_be_cut_at_any_octet() -> None:
    for cut in range(1, len(HEADER)):
        pair = Pair()
        pair.server.receive(StreamData(0, cut, HEADER[cut:] + b"early", False))
        assert not pair.server.events
        pair.server.receive(StreamData(0, 0, HEADER[:cut], False))
        assert list(pair.server.events) == [StreamOpened(0, TARGET), StreamReadable(0)]
        assert drain(pair.server, 0) == b"early"


def test_spec_10_1_octets_behind_the_target_are_the_streams_own() -> None:
    pair = Pair()
    number = pair.client.open(HEADER)
    pair.client.write(number, b"early data")
    pair.run()
    assert serve(pair.server) == {number: b"early data"}


@pytest.mark.parametrize("wrong", [b"\x00", b"\x03a b\x00\x50", b"\x01a\x00\x00"])
def test_spec_9_5_octets_that_name_no_target_are_refused(wrong: bytes) -> None:
    pair = Pair()
    number = pair.client.open(wrong)
    pair.client.write(number, b"more")
    pair.run()
    assert list(pair.client.events) == [
        StreamRefused(number, RefusalReason.NOT_AN_ADDRESS),
        StreamOver(number),
    ]
    assert not pair.server.events
    assert (pair.client.kept, pair.server.kept) == (0, 0)


def test_spec_9_5_an_end_before_the_target_is_whole_is_refused() -> None:
    pair = Pair()
    number = pair.client.open(HEADER[:-1])
    pair.client.finish(number)
    pair.run()
    assert pair.client.events[0] == StreamRefused(number, RefusalReason.NOT_AN_ADDRESS)
    assert (pair.client.kept, pair.server.kept) == (0, 0)


def test_streams_may_be_seen_in_any_order() -> None:
    pair = Pair()
    for number in (3, 1, 0, 2):
        pair.server.receive(StreamData(number, 0, HEADER, False))
    assert [e.stream for e in pair.server.events] == [3, 1, 0, 2]
    assert pair.server.last_stream == 3
    assert not pair.server._register._unseen


@pytest.mark.parametrize("first", [Stop(0, 0), MaxStreamData(0, 1 << 20)])
def test_a_stream_may_be_seen_first_by_any_frame_about_it(first: Stop | MaxStreamData) -> None:
    pair = Pair()
    pair.server.receive(first)
    pair.server.receive(StreamData(0, 0, HEADER, False))
    assert (pair.server.kept, pair.server.live) == (1, 1)


def test_spec_10_4_more_than_max_streams_at_once_are_refused() -> None:
    pair = Pair(Limits(max_streams=2))
    pair.client.receive(MaxStreams(3))
    numbers = [pair.client.open(HEADER) for _ in range(3)]
    pair.run()
    assert [e.stream for e in pair.server.events] == numbers[:2]
    assert list(pair.client.events) == [
        StreamRefused(2, RefusalReason.TOO_MANY_STREAMS),
        StreamOver(2),
    ]
    assert pair.server.kept == 2


def test_spec_10_4_a_client_opens_no_more_than_max_streams_at_once() -> None:
    pair = Pair(Limits(max_streams=2))
    first, _ = pair.open(), pair.open()
    assert not pair.client.can_open()
    with pytest.raises(LocalProtocolError):
        pair.client.open(HEADER)
    pair.client.reset(first, 0)
    pair.server.reset(first, 0)
    assert not pair.client.can_open()
    pair.run()
    assert pair.client.can_open()


def test_a_place_is_free_at_the_server_before_it_is_at_the_client() -> None:
    pair = Pair(Limits(max_streams=1))
    number = pair.open()
    pair.client.finish(number)
    pair.server.finish(number)
    pair.up().deliver()
    answer = pair.down()
    answer.deliver()  # the server does not know that it arrived
    pair.server.receive(StreamData(number + 1, 0, HEADER, False))
    assert StreamOpened(number + 1, TARGET) in pair.server.events
    assert pair.server.kept == 2


def test_a_server_opens_no_stream() -> None:
    with pytest.raises(LocalProtocolError):
        StreamTable(client=False).open(HEADER)


# --- connected, refused ------------------------------------------------------------------------


def test_spec_9_5_opened_says_that_the_target_is_connected() -> None:
    pair = Pair()
    number = pair.client.open(HEADER)
    pair.client.receive(Opened(number))
    pair.client.receive(Opened(number))
    assert list(pair.client.events) == [StreamConnected(number)]


@pytest.mark.parametrize("frame", [StreamData(0, 9, b"x", False), StreamData(0, 0, b"", True)])
def test_octets_of_the_target_that_overtake_opened_say_so_too(frame: StreamData) -> None:
    pair = Pair()
    pair.client.open(HEADER)
    pair.client.receive(frame)
    pair.client.receive(Opened(0))
    assert [e for e in pair.client.events if not isinstance(e, StreamReadable)] == [
        StreamConnected(0)
    ]


@pytest.mark.parametrize("reason", [*RefusalReason, 99])
def test_spec_9_5_a_refusal_ends_both_directions_and_says_why(reason: int) -> None:
    pair = Pair()
    number = pair.client.open(HEADER)
    pair.client.write(number, bytes(200))
    pair.up(60).deliver()
    pair.server.refuse(number, reason)
    pair.server.refuse(number, reason)
    pair.run()
    assert list(pair.client.events) == [StreamRefused(number, reason), StreamOver(number)]
    assert (pair.client.kept, pair.server.kept) == (0, 0)
    assert pair.server.waiting == 0


def test_the_windows_know_what_was_sent_of_a_refused_stream() -> None:
    pair = Pair()
    number = pair.client.open(HEADER)
    pair.client.write(number, bytes(300))
    pair.up(60).deliver()
    late = pair.up(126)
    pair.server.refuse(number, 1)
    pair.run()
    late.deliver()
    assert pair.server._receiver._received == pair.client._sender.sent
    assert pair.server.waiting == 0


def test_a_stream_that_was_used_is_not_refused() -> None:
    pair = Pair()
    connected = pair.open()
    written, finished = pair.client.open(HEADER), pair.client.open(HEADER)
    pair.run()
    pair.server.write(written, b"x")
    pair.server.finish(finished)
    for number in (connected, written, finished):
        with pytest.raises(LocalProtocolError):
            pair.server.refuse(number, 1)


def test_spec_10_2_a_reset_cancels_a_connect() -> None:
    pair = Pair()
    number = pair.client.open(HEADER)
    pair.run()
    pair.client.reset(number, ResetCode.CANCELLED)
    pair.run()
    assert list(pair.server.events) == [
        StreamOpened(number, TARGET),
        StreamReset(number, ResetCode.CANCELLED),
    ]
    pair.server.reset(number, ResetCode.CANCELLED)
    pair.run()
    assert (pair.client.kept, pair.server.kept) == (0, 0)


def test_a_stream_cancelled_before_it_was_sent_leaves_nothing() -> None:
    pair = Pair()
    number = pair.client.open(HEADER)
    pair.client.reset(number, ResetCode.CANCELLED)
    pair.run()
    assert not pair.server.events
    assert list(pair.client.events) == [
        StreamReset(number, ResetCode.CANCELLED),
        StreamOver(number),
    ]
    assert (pair.client.kept, pair.server.kept) == (0, 0)


# --- ends --------------------------------------------------------------------------------------


def test_spec_10_2_each_direction_ends_by_itself() -> None:
    pair = Pair()
    number = pair.open()
    pair.client.finish(number)
    pair.run()
    assert pair.server.at_end(number)
    assert not pair.client.at_end(number)
    pair.server.write(number, b"still")
    pair.run()
    assert drain(pair.client, number) == b"still"
    assert (pair.client.live, pair.server.live) == (1, 1)


def test_spec_10_2_a_stream_is_over_when_both_directions_have_ended() -> None:
    pair = Pair()
    number = pair.open()
    pair.client.finish(number)
    pair.server.reset(number, ResetCode.RESET_BY_TARGET)
    pair.run()
    assert list(pair.client.events) == [
        StreamReset(number, ResetCode.RESET_BY_TARGET),
        StreamOver(number),
    ]
    assert list(pair.server.events) == [StreamReadable(number), StreamOver(number)]
    assert (pair.client.kept, pair.server.kept) == (0, 0)


def test_spec_10_2_stop_asks_for_a_reset() -> None:
    pair = Pair()
    number = pair.open()
    pair.server.write(number, bytes(100_000))
    pair.down().deliver()
    pair.client.stop(number, ResetCode.CANCELLED)
    pair.run()
    assert list(pair.server.events) == [StreamStopped(number, ResetCode.CANCELLED)]
    assert pair.server.room(number) == 0
    pair.server.write(number, b"dropped")
    assert not pair.server.has_queued()
    assert pair.client.at_end(number)
    assert pair.client.waiting == 0
    pair.client.finish(number)
    pair.run()
    assert (pair.client.kept, pair.server.kept) == (0, 0)


def test_a_stop_may_overtake_the_target() -> None:
    pair = Pair()
    pair.server.receive(Stop(0, 1))
    pair.server.receive(StreamData(0, 0, HEADER + b"upload", False))
    assert list(pair.server.events) == [
        StreamOpened(0, TARGET),
        StreamStopped(0, 1),
        StreamReadable(0),
    ]
    assert pair.server.room(0) == 0
    assert pair.down().frames == [Reset(0, ResetCode.CANCELLED, 0)]


def test_stop_after_all_has_come_asks_for_nothing() -> None:
    pair = Pair()
    number = pair.open()
    pair.server.write(number, b"unread")
    pair.server.finish(number)
    pair.run()
    pair.client.stop(number, 0)
    pair.client.stop(number, 0)
    assert not pair.client.has_queued()
    assert pair.client.at_end(number)
    assert pair.client.waiting == 0


def test_what_a_reset_finds_unread_is_dropped_and_given_back() -> None:
    pair = Pair()
    number = pair.open()
    pair.server.write(number, bytes(50_000))
    pair.run()
    lost = 0
    pair.server.write(number, bytes(50_000))
    while lost < 10_000:
        lost += len(pair.down().payload)
    pair.server.reset(number, 3)
    pair.run()
    assert pair.client.readable(number) == 0
    assert pair.client.waiting == 0
    assert pair.client._receiver._received == pair.server._sender.sent


def test_a_reset_after_everything_arrived_changes_nothing() -> None:
    pair = Pair()
    number = pair.open()
    pair.server.write(number, b"whole")
    pair.server.finish(number)
    packet = pair.down()
    packet.deliver()
    pair.server.reset(number, 3)
    pair.run()
    assert not any(isinstance(e, StreamReset) for e in pair.client.events)
    assert drain(pair.client, number) == b"whole"


def test_writing_after_ones_own_end_is_a_fault() -> None:
    pair = Pair()
    number = pair.open()
    pair.client.finish(number)
    pair.client.finish(number)
    with pytest.raises(LocalProtocolError):
        pair.client.write(number, b"x")


def test_writing_more_than_there_is_room_for_is_a_fault() -> None:
    pair = Pair()
    number = pair.open()
    pair.client.write(number, bytes(pair.client.room(number)))
    with pytest.raises(LocalProtocolError):
        pair.client.write(number, bytes(MOST_WAITING))


def test_room_that_shrinks_while_a_program_waits_for_what_it_asked_for_is_no_fault() -> None:
    pair = Pair(Limits(stream_window=4 << 20, session_window=8 << 20))
    number = pair.open()
    under_way = []
    for _ in range(300):
        pair.server.write(number, bytes(pair.server.room(number)))
        under_way.append(pair.down())
    under_way += [pair.down() for _ in range(50)]
    asked = pair.server.room(number)
    assert asked > 0
    for packet in under_way:
        packet.deliver()
        packet.ack()
    assert pair.server.room(number) == 0
    pair.server.write(number, bytes(asked))


@pytest.mark.parametrize("call", ["room", "finish", "readable", "at_end", "opened"])
def test_a_stream_that_never_was_is_a_fault_and_one_that_is_over_is_not(call: str) -> None:
    pair = Pair()
    number = pair.open()
    pair.client.reset(number, 0)
    pair.server.reset(number, 0)
    pair.run()
    for table in (pair.client, pair.server):
        getattr(table, call)(number)
        with pytest.raises(LocalProtocolError):
            getattr(table, call)(number + 1)
        with pytest.raises(LocalProtocolError):
            getattr(table, call)(-1)
        table.write(number, b"dropped")
        table.stop(number, 0)
        table.reset(number, 0)
        assert table.read(number, 5) == b""
        assert not table.has_queued()


def test_frames_about_a_stream_that_is_over_change_nothing() -> None:
    pair = Pair()
    number = pair.open()
    pair.client.reset(number, 0)
    pair.server.reset(number, 0)
    pair.run()
    pair.client.events.clear()
    pair.server.events.clear()
    for frame in (
        StreamData(number, 5, b"late", True),
        Reset(number, 1, 99),
        Stop(number, 0),
        MaxStreamData(number, 1 << 40),
    ):
        pair.client.receive(frame)
        pair.server.receive(frame)
    pair.client.receive(Opened(number))
    pair.client.receive(Refused(number, 1))
    for table in (pair.client, pair.server):
        assert not table.events
        assert not table.has_queued()
        assert table.kept == 0


def test_what_is_not_about_streams_is_left_to_the_session() -> None:
    table = StreamTable(client=True)
    assert table.receive(MaxData(5))
    assert not table.receive(Ping())
    assert not table.receive(Lease(1))


# --- events ------------------------------------------------------------------------------------


def test_a_reader_is_told_once_until_it_has_read_all() -> None:
    pair = Pair()
    number = pair.open()
    for _ in range(3):
        pair.server.write(number, b"abc")
        pair.run()
    assert list(pair.client.events) == [StreamReadable(number)]
    pair.client.events.clear()
    assert pair.client.read(number, 4) == b"abca"
    pair.server.write(number, b"d")
    pair.run()
    assert not pair.client.events
    assert drain(pair.client, number) == b"bcabcd"
    pair.server.finish(number)
    pair.run()
    assert list(pair.client.events) == [StreamReadable(number)]
    assert pair.client.at_end(number)


def test_what_was_not_sent_of_a_stream_that_is_over_never_is() -> None:
    pair = Pair()
    number = pair.client.open(HEADER)
    pair.client.reset(number, 0)
    packet = pair.up(60)
    pair.server.receive(StreamData(number, 0, HEADER, False))
    pair.server.opened(number)
    opened = pair.down()
    pair.server.receive(Reset(number, 0, len(HEADER)))
    pair.server.reset(number, 0)
    pair.down().ack()
    packet.lose()
    assert pair.server.kept == 0
    opened.lose()
    assert not pair.server.has_queued()
    assert len(pair.server._sender.controls) == 0


def test_a_reader_that_stopped_is_told_nothing() -> None:
    pair = Pair()
    number = pair.open()
    pair.client.stop(number, 0)
    pair.server.write(number, b"abc")
    pair.down().deliver()
    pair.server.finish(number)
    pair.down().deliver()
    pair.run()
    assert not pair.client.events


# --- windows -----------------------------------------------------------------------------------


def test_spec_10_3_until_the_server_has_said_a_client_sends_little() -> None:
    pair = Pair(welcome=False)
    number = pair.client.open(HEADER)
    pair.client.write(number, bytes(100_000))
    sent = 0
    while pair.client.has_queued():
        packet = pair.up(126)
        packet.deliver()
        sent += sum(len(f.data) for f in packet.frames if isinstance(f, StreamData))
    assert sent == EARLY_WINDOW
    pair.welcome()
    assert pair.client.queued_octets() == 100_000 + len(HEADER) - EARLY_WINDOW


def test_spec_10_3_the_targets_octets_count() -> None:
    pair = Pair()
    pair.client.open(HEADER)
    pair.run()
    assert pair.server._receiver._received == len(HEADER)
    assert pair.server.waiting == 0


def test_reading_raises_both_limits_and_only_the_newest_is_told() -> None:
    pair = Pair(Limits(stream_window=20_000, session_window=20_000, most_session_window=20_000))
    number = pair.open()
    pair.server.write(number, bytes(20_000))
    pair.run()
    assert pair.client.waiting == 20_000
    pair.client.read(number, 4999)
    assert not pair.client.has_queued()
    pair.client.read(number, 1)
    first = pair.up(60)
    assert first.frames == [MaxStreamData(number, 25_000), MaxData(25_000)]
    pair.client.read(number, 5000)
    first.lose()
    assert pair.up(60).frames == [MaxStreamData(number, 30_000), MaxData(30_000)]
    assert not pair.client.has_queued()


def test_a_limit_is_not_raised_for_a_direction_whose_end_is_known() -> None:
    pair = Pair(Limits(stream_window=20_000))
    number = pair.open()
    pair.server.write(number, bytes(20_000))
    pair.server.finish(number)
    pair.run()
    drain(pair.client, number)
    assert not pair.client.has_queued()


def test_s2_streams_that_nobody_reads_block_no_other() -> None:
    pair = Pair()
    stalled = [pair.open() for _ in range(20)]
    for number in stalled:
        pair.server.write(number, bytes(pair.server.room(number)))
    pair.run()
    assert pair.client.waiting == 20 * 256 * K
    number = pair.open()
    for _ in range(10):
        pair.server.write(number, bytes(200 * K))
        pair.run()
        assert len(drain(pair.client, number)) == 200 * K


def test_s2_a_reader_goes_on_with_what_little_stalled_ones_leave() -> None:
    pair = Pair()
    stalled = [pair.open() for _ in range(32)]
    number = pair.open()
    for other in stalled:
        room = 256 * K - (100 * K if other == stalled[-1] else 0)
        pair.server.write(other, bytes(room))
    pair.run()
    got = 0
    for _ in range(10):
        pair.server.write(number, bytes(200 * K))
        for _ in range(20):
            pair.run()
            got += len(drain(pair.client, number))
    assert got == 2000 * K


def test_spec_19_no_more_than_8_mb_ever_wait() -> None:
    pair = Pair()
    for number in [pair.open() for _ in range(60)]:
        pair.server.write(number, bytes(pair.server.room(number)))
    pair.run()
    # The last part, less than a quarter of the window, is not worth a frame.
    assert (8192 - 256) * K < pair.client.waiting <= 8192 * K
    assert pair.server.queued_octets() == 0


def test_spec_10_3_windows_grow_with_what_arrives_and_not_without() -> None:
    pair = Pair()
    number = pair.open()
    table = pair.client
    window = table._register.streams[number].window
    now, rtt = 100.0, 0.25
    table.grow(rtt, now)
    sizes = []
    for _ in range(12):
        now += rtt
        while True:
            room = pair.server.room(number)
            if room:
                pair.server.write(number, bytes(room))
            if not pair.server.has_queued():
                break
            pair.down().deliver()
        drain(table, number)
        table.grow(rtt, now)
        while table.has_queued():
            packet = pair.up(60)
            packet.deliver()
            packet.ack()
        sizes.append(window.size)
    assert sizes[0] == 1024 * K  # four times the 256 KB that came
    assert window.size == 4096 * K
    assert sizes == sorted(sizes)
    before = window.size
    table.grow(rtt, now + rtt / 2)
    table.grow(rtt, now + 10)
    assert window.size == before


def test_grown_streams_leave_half_of_what_may_wait_to_others() -> None:
    pair = Pair()
    table = pair.client
    numbers = [pair.open() for _ in range(3)]
    table.grow(0.1, 0.0)
    for number in numbers:
        stream = table._register.streams[number]
        stream.window.arrived = 1 << 21
    table.grow(0.1, 0.1)
    sizes = [table._register.streams[n].window.size for n in numbers]
    assert sizes == [4096 * K, (256 + 256) * K, 256 * K]
    table.grow(0.1, 0.2)
    pair.client.reset(0, 0)
    pair.server.reset(0, 0)
    pair.run()
    table._register.streams[1].window.arrived = 1 << 21
    table.grow(0.1, 0.4)
    assert table._register.streams[1].window.size == 4096 * K


# --- a long life -------------------------------------------------------------------------------


def test_streams_that_are_over_leave_nothing() -> None:
    pair = Pair()
    for at in range(2000):
        number = pair.client.open(HEADER)
        pair.client.finish(number)
        up = pair.up(30)
        up.deliver()
        up.ack()
        pair.server.events.clear()
        if at % 3:
            pair.server.opened(number)
            pair.server.finish(number)
        else:
            pair.server.refuse(number, 2)
        pair.run()
        pair.client.events.clear()
        pair.server.events.clear()
    for table in (pair.client, pair.server):
        assert table.last_stream == 1999
        assert (table.kept, table.live, len(table._sender.controls)) == (0, 0, 0)
        assert not table._register._unseen
        assert not table.has_queued()
