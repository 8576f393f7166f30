"""A peer that breaks the rules: each breach is named, and costs little (SPEC 10.3, 19)."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from racer.errors import RemoteProtocolError
from tests.transports.soar.streams.pairs import HEADER, Pair
from transports.soar.core.streams.frames import (
    Frame,
    MaxData,
    MaxStreamData,
    MaxStreams,
    Opened,
    Refused,
    Reset,
    Stop,
    StreamData,
)
from transports.soar.core.streams.receive_buffer import FinalSizeChanged, TooManyPieces
from transports.soar.core.streams.receiver import MAX_ALL_PIECES
from transports.soar.core.streams.register import (
    MAX_AHEAD,
    MAX_LINGERING,
    StreamLimitExceeded,
    StreamUnknown,
)
from transports.soar.core.streams.table import StreamTable
from transports.soar.core.streams.windows import FlowControlExceeded, Limits
from transports.soar.core.varint import MAX_VARINT

K = 1024
WINDOW = 256 * K


@pytest.mark.parametrize(
    "frame",
    [
        StreamData(0, WINDOW, b"x", False),
        StreamData(0, WINDOW - 1, b"xy", False),
        StreamData(0, WINDOW + 1, b"", True),
        StreamData(0, MAX_VARINT - 1, b"x", True),
        Reset(0, 0, WINDOW + 1),
        Reset(0, 0, MAX_VARINT),
    ],
)
def test_spec_10_3_past_a_streams_limit(frame: Frame) -> None:
    with pytest.raises(FlowControlExceeded):
        Pair().server.receive(frame)


@pytest.mark.parametrize("last", [StreamData(4, 0, b"x", False), Reset(4, 0, 1)])
def test_spec_10_3_past_the_sessions_limit(last: Frame) -> None:
    table = Pair(Limits(most_session_window=1024 * K)).server
    for number in range(4):
        table.receive(StreamData(number, WINDOW - 1, b"x", False))
    with pytest.raises(FlowControlExceeded):
        table.receive(last)


def test_the_limit_itself_is_allowed() -> None:
    table = Pair().server
    table.receive(StreamData(0, WINDOW - 1, b"x", True))
    table.receive(Reset(1, 0, WINDOW))


ENDS: list[Frame] = [StreamData(0, 20, b"x" * 10, True), Reset(0, 0, 30)]


@pytest.mark.parametrize("first", ENDS)
@pytest.mark.parametrize(
    "second",
    [
        StreamData(0, 20, b"x" * 11, False),
        StreamData(0, 31, b"", False),
        StreamData(0, 20, b"x" * 9, True),
        StreamData(0, 31, b"", True),
        Reset(0, 0, 29),
        Reset(0, 0, 31),
    ],
)
def test_spec_10_3_another_final_size(first: Frame, second: Frame) -> None:
    table = Pair().server
    table.receive(StreamData(0, 0, HEADER, False))
    table.receive(first)
    for same in ENDS:
        table.receive(same)
    table.receive(StreamData(0, 5, b"late", False))
    with pytest.raises(FinalSizeChanged):
        table.receive(second)


def test_spec_10_3_an_end_before_what_came() -> None:
    table = Pair().server
    table.receive(StreamData(0, 20, b"x", False))
    with pytest.raises(FinalSizeChanged):
        table.receive(Reset(0, 0, 20))


@pytest.mark.parametrize(
    "frame",
    [
        StreamData(1, 0, b"x", False),
        StreamData(MAX_VARINT, 0, b"", False),
        Reset(1, 0, 0),
        Stop(1, 0),
        MaxStreamData(1, 5),
        Opened(1),
        Refused(1, 1),
    ],
)
def test_spec_10_3_a_server_may_not_use_streams_that_its_client_did_not_open(frame: Frame) -> None:
    table = Pair().client
    table.open(HEADER)
    with pytest.raises(StreamUnknown):
        table.receive(frame)


def test_a_refusal_after_the_connection() -> None:
    table = Pair().client
    table.open(HEADER)
    table.receive(Opened(0))
    with pytest.raises(RemoteProtocolError):
        table.receive(Refused(0, 1))


def test_octets_of_a_refused_stream() -> None:
    table = Pair().client
    table.open(HEADER)
    table.receive(Refused(0, 1))
    table.receive(Opened(0))
    with pytest.raises(FinalSizeChanged):
        table.receive(StreamData(0, 0, b"x", False))


@pytest.mark.parametrize("number", [MAX_AHEAD + 1, 1 << 30, MAX_VARINT])
def test_a_stream_far_ahead_of_the_others(number: int) -> None:
    with pytest.raises(StreamLimitExceeded):
        Pair().server.receive(StreamData(number, 0, HEADER, False))


def test_streams_a_little_ahead_again_and_again() -> None:
    table = Pair().server
    with pytest.raises(StreamLimitExceeded):
        for number in range(0, 5000, 2):
            table.receive(StreamData(number, 0, HEADER, False))
    assert len(table._register._unseen) <= MAX_AHEAD


def test_streams_without_end() -> None:
    table = Pair().server
    with pytest.raises(StreamLimitExceeded):
        for number in range(10_000):
            table.receive(StreamData(number, 0, HEADER, False))
    assert table.kept == 128 + MAX_LINGERING


def test_pieces_over_many_streams() -> None:
    table = Pair().server
    with pytest.raises(TooManyPieces):
        for number in range(4):
            for at in range(4000):
                table.receive(StreamData(number, 2 * at + 1, b"x", False))
    assert table._receiver._pieces == MAX_ALL_PIECES + 1


def test_pieces_are_counted_down_again() -> None:
    pair = Pair()
    number = pair.open()
    table = pair.client
    for at in range(1, 2000, 2):
        table.receive(StreamData(number, at, b"x", False))
    assert table._receiver._pieces == 1000
    for at in range(0, 1000, 2):
        table.receive(StreamData(number, at, b"x", False))
    assert table._receiver._pieces == 500
    table.stop(number, 0)
    assert table._receiver._pieces == 0


def test_what_a_peer_can_make_a_table_hold_is_bounded() -> None:
    tracemalloc.start()
    try:
        table = StreamTable(client=False)
        base = tracemalloc.get_traced_memory()[0]
        with pytest.raises(RemoteProtocolError):
            for number in range(100_000):
                for at in range(0, 600, 2):
                    table.receive(StreamData(number, at + 300, b"x", False))
                table.receive(Stop(number, 0))
                table.receive(MaxStreamData(number, MAX_VARINT))
                table.events.clear()
        held = tracemalloc.get_traced_memory()[0] - base
    finally:
        tracemalloc.stop()
    assert held < 3_000_000


def test_limits_without_end_send_no_more_than_there_is() -> None:
    pair = Pair()
    number = pair.open()
    pair.server.receive(MaxData(MAX_VARINT))
    pair.server.receive(MaxStreamData(number, MAX_VARINT))
    pair.server.write(number, bytes(1000))
    assert pair.server.queued_octets() == 1000
    pair.client.receive(MaxStreams(MAX_VARINT))
    assert pair.client.can_open()


small = st.integers(0, 6)
places = st.one_of(st.integers(0, 60), st.integers(WINDOW - 3, WINDOW + 3), st.just(MAX_VARINT - 9))
frames: st.SearchStrategy[Frame] = st.one_of(
    st.builds(StreamData, small, places, st.binary(max_size=9), st.booleans()),
    st.builds(StreamData, small, st.just(0), st.just(HEADER), st.booleans()),
    st.builds(Reset, small, small, places),
    st.builds(Stop, small, small),
    st.builds(MaxData, places),
    st.builds(MaxStreamData, small, places),
)
from_servers: st.SearchStrategy[Frame] = st.one_of(
    frames,
    st.builds(Opened, small),
    st.builds(Refused, small, small),
    st.builds(MaxStreams, small),
)


@settings(max_examples=150)
@given(st.data(), st.booleans(), st.integers(0, 6))
def test_any_frames_are_taken_or_named(data: st.DataObject, client: bool, opened: int) -> None:
    table = StreamTable(client=client)
    if client:
        for _ in range(opened):
            table.open(HEADER)
    try:
        for frame in data.draw(st.lists(from_servers if client else frames, max_size=30)):
            table.receive(frame)
            records = table.fill(bytearray(), 40)
            fate = data.draw(st.integers(0, 2))
            if fate == 1:
                table.acked(records)
            elif fate:
                table.lost(records)
            for number in range(table.last_stream + 1):
                table.read(number, 50)
    except RemoteProtocolError:
        return
    assert table.kept <= 7
    assert table.waiting >= 0
