"""Frames: one row of SPEC 9.1 at a time, then cut, foreign, and random octets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import LocalProtocolError
from transports.soar.core.streams.frames import (
    MAX_LOST,
    MAX_LOST_MAP,
    MAX_ZONE,
    MAX_ZONES,
    Challenge,
    End,
    Floor,
    Frame,
    FrameInvalid,
    Lease,
    Lost,
    LostMap,
    MaxData,
    MaxStreamData,
    MaxStreams,
    Opened,
    Ping,
    RefusalReason,
    Refused,
    Reset,
    ResetCode,
    Response,
    Stop,
    StreamData,
    Zones,
    decode,
    encode_frame,
    stream_header,
)
from transports.soar.core.varint import MAX_VARINT

CLIENT, SERVER, BOTH = {True}, {False}, {True, False}

# Each row of the table in SPEC 9.1: the frame, its octets, who may send it.
ROWS: list[tuple[Frame, str, set[bool]]] = [
    (Ping(), "01", CLIENT),
    (Floor(300), "02 412c", CLIENT),
    (Lost((1,)), "03 01 01", CLIENT),
    (Lost((1, 70, 2)), "03 03 01 4046 02", CLIENT),
    (LostMap(70, b"\xc0\x01"), "06 4046 02 c001", CLIENT),
    (Opened(5), "04 05", SERVER),
    (Refused(5, RefusalReason.UNREACHABLE), "05 05 03", SERVER),
    (Refused(5, 77), "05 05 404d", SERVER),
    (StreamData(3, 0, b"ab", False), "0a 03 02 6162", BOTH),
    (StreamData(3, 0, b"ab", True), "0b 03 02 6162", BOTH),
    (StreamData(3, 64, b"ab", False), "0e 03 4040 02 6162", BOTH),
    (StreamData(70, 16384, b"", True), "0f 4046 80004000 00", BOTH),
    (Reset(3, ResetCode.CANCELLED, 1000), "10 03 01 43e8", BOTH),
    (Stop(3, 0), "11 03 00", BOTH),
    (MaxData(1 << 20), "12 80100000", BOTH),
    (MaxStreamData(3, 1 << 18), "13 03 80040000", BOTH),
    (MaxStreams(128), "14 4080", SERVER),
    (End(4, -1), "18 04 00", BOTH),
    (End(2, 7), "18 02 08", BOTH),
    (Challenge(b"\1\2\3\4"), "1a 01020304", SERVER),
    (Response(b"\1\2\3\4"), "1b 01020304", CLIENT),
    (Zones(((1, b"\1t\0"),)), "1c 01 01 03 017400", SERVER),
    (Zones(((1, b"\0"), (255, b"\1t\0"))), "1c 02 01 01 00 ff 03 017400", SERVER),
    (Lease(0), "1d 00", SERVER),
]
NAMES = [f"{type(frame).__name__}-{at}" for at, (frame, _, _) in enumerate(ROWS)]


@pytest.mark.parametrize(("frame", "octets", "senders"), ROWS, ids=NAMES)
def test_spec_9_1_a_frame_and_its_octets(frame: Frame, octets: str, senders: set[bool]) -> None:
    wire = bytes.fromhex(octets)
    assert encode_frame(frame) == wire
    for from_client in senders:
        decoded = decode(wire, from_client=from_client)
        assert decoded == [frame]
        assert type(decoded[0]) is type(frame)
        assert decode(memoryview(wire + wire), from_client=from_client) == [frame, frame]


@pytest.mark.parametrize(("frame", "octets", "senders"), ROWS, ids=NAMES)
def test_spec_9_1_a_frame_from_the_wrong_side_ends_the_session(
    frame: Frame, octets: str, senders: set[bool]
) -> None:
    for from_client in BOTH - senders:
        with pytest.raises(FrameInvalid):
            decode(bytes.fromhex(octets), from_client=from_client)


@pytest.mark.parametrize(("frame", "octets", "senders"), ROWS, ids=NAMES)
def test_a_frame_cut_anywhere_is_named(frame: Frame, octets: str, senders: set[bool]) -> None:
    wire = bytes.fromhex(octets)
    for from_client in senders:
        for cut in range(1, len(wire)):
            with pytest.raises(FrameInvalid):
                decode(wire[:cut], from_client=from_client)


@pytest.mark.parametrize(
    ("octets", "frame"),
    [
        ("08 03 616263", StreamData(3, 0, b"abc", False)),
        ("09 03 616263", StreamData(3, 0, b"abc", True)),
        ("0c 03 4040 616263", StreamData(3, 64, b"abc", False)),
        ("0d 03 4040", StreamData(3, 64, b"", True)),
        ("0c 03 00 00", StreamData(3, 0, b"\0", False)),
        ("4008 4003 616263", StreamData(3, 0, b"abc", False)),
        ("80000008 03 61", StreamData(3, 0, b"a", False)),
        ("4012 4005", MaxData(5)),
    ],
)
def test_spec_9_1_without_a_length_octets_go_on_to_the_end(octets: str, frame: Frame) -> None:
    assert decode(bytes.fromhex(octets), from_client=True) == [frame]


def test_spec_9_1_pad_is_all_that_is_left() -> None:
    assert decode(b"\x01\x00\x01\xff\xff", from_client=True) == [Ping()]
    assert decode(b"\x40\x00\x3f", from_client=True) == []
    assert decode(b"", from_client=True) == []


@pytest.mark.parametrize("kind", [0x06, 0x07, 0x15, 0x16, 0x17, 0x19, 0x1E, 0x1F, 0x20, 0x3F])
@pytest.mark.parametrize("from_client", [True, False])
def test_spec_9_1_an_unknown_type_below_0x40_ends_the_session(kind: int, from_client: bool) -> None:
    with pytest.raises(FrameInvalid):
        decode(bytes([kind, 0, 0, 0]), from_client=from_client)


@pytest.mark.parametrize("kind", ["4040", "4048", "7fff", "80000040", "ffffffffffffffff"])
def test_spec_9_1_a_type_from_0x40_on_is_skipped(kind: str) -> None:
    skipped = bytes.fromhex(kind) + b"\x03\xff\xff\xff"
    assert decode(skipped + b"\x01" + skipped, from_client=True) == [Ping()]
    for cut in range(1, len(skipped)):
        with pytest.raises(FrameInvalid):
            decode(skipped[:cut], from_client=True)


@pytest.mark.parametrize(
    "octets",
    [
        "03 00",
        "03 21" + "01" * 33,
        "1c 00",
        "1c 09" + "00 01 00" * 9,
        "1c 01 00 00",
        "1c 01 00 41" + "61" * 65,
        "0e 00 ffffffffffffffff 01 61",
        "0a 00 ffffffffffffffff",
        "4040 ffffffffffffffff",
    ],
)
def test_what_is_beyond_a_bound_is_named(octets: str) -> None:
    wire = bytes.fromhex(octets)
    with pytest.raises(FrameInvalid):
        decode(wire, from_client=wire[0] == 3)


def test_counts_up_to_their_bounds_are_read() -> None:
    lost = Lost(tuple(range(MAX_LOST)))
    zones = Zones(tuple((i, bytes(MAX_ZONE)) for i in range(MAX_ZONES)))
    assert decode(encode_frame(lost), from_client=True) == [lost]
    assert decode(encode_frame(zones), from_client=False) == [zones]
    last = StreamData(0, MAX_VARINT - 1, b"a", False)
    assert decode(encode_frame(last), from_client=False) == [last]


@pytest.mark.parametrize(
    "frame",
    [
        Lost(()),
        Lost((1,) * 33),
        LostMap(1, b""),
        LostMap(1, bytes(65)),
        Floor(-1),
        Opened(MAX_VARINT + 1),
        End(2, -2),
        Challenge(b"123"),
        Response(b"12345"),
        Zones(()),
        Zones(((0, b"a"),) * 9),
        Zones(((256, b"a"),)),
        Zones(((0, b""),)),
        Zones(((0, bytes(65)),)),
        StreamData(-1, 0, b"", False),
    ],
)
def test_what_no_frame_can_carry_is_our_own_fault(frame: Frame) -> None:
    with pytest.raises(LocalProtocolError):
        encode_frame(frame)


varints = st.integers(0, MAX_VARINT)
tokens = st.binary(min_size=4, max_size=4)
zones = st.tuples(st.integers(0, 255), st.binary(min_size=1, max_size=MAX_ZONE))
from_both: list[st.SearchStrategy[Frame]] = [
    st.builds(StreamData, varints, st.integers(0, 1 << 61), st.binary(max_size=80), st.booleans()),
    st.builds(Reset, varints, varints, varints),
    st.builds(Stop, varints, varints),
    st.builds(MaxData, varints),
    st.builds(MaxStreamData, varints, varints),
    st.builds(End, varints, st.integers(-1, MAX_VARINT - 1)),
]
from_clients: list[st.SearchStrategy[Frame]] = [
    st.just(Ping()),
    st.builds(Floor, varints),
    st.builds(Lost, st.lists(varints, min_size=1, max_size=MAX_LOST).map(tuple)),
    st.builds(LostMap, varints, st.binary(min_size=1, max_size=MAX_LOST_MAP)),
    st.builds(Response, tokens),
]
from_servers: list[st.SearchStrategy[Frame]] = [
    st.builds(Opened, varints),
    st.builds(Refused, varints, varints),
    st.builds(MaxStreams, varints),
    st.builds(Challenge, tokens),
    st.builds(Zones, st.lists(zones, min_size=1, max_size=MAX_ZONES).map(tuple)),
    st.builds(Lease, varints),
]


@given(st.data(), st.booleans())
def test_many_frames_in_one_packet_come_back(data: st.DataObject, from_client: bool) -> None:
    own = from_clients if from_client else from_servers
    frames = data.draw(st.lists(st.one_of(from_both + own), max_size=6))
    wire = b"".join(map(encode_frame, frames))
    decoded = decode(wire + bytes(data.draw(st.integers(0, 3))), from_client=from_client)
    assert decoded == frames
    assert [type(f) for f in decoded] == [type(f) for f in frames]


@given(st.binary(max_size=64), st.booleans())
def test_garbage_is_frames_or_named(octets: bytes, from_client: bool) -> None:
    try:
        frames = decode(octets, from_client=from_client)
    except FrameInvalid:
        return
    again = b"".join(map(encode_frame, frames))
    assert decode(again, from_client=from_client) == frames


@given(varints, varints, st.one_of(st.none(), st.integers(0, 40)), st.booleans())
def test_a_header_stands_before_its_octets(
    stream: int, offset: int, length: int | None, fin: bool
) -> None:
    offset >>= 1
    octets = bytes(range(40))
    wire = stream_header(stream, offset, length, fin=fin) + octets
    (frame, *_) = decode(
        wire[: len(wire) - 40 + length] if length is not None else wire, from_client=True
    )
    assert frame == StreamData(stream, offset, octets[:length], fin)
