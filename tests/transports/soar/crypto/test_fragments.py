"""A first message in pieces (SPEC 7.3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import LocalProtocolError
from tests.transports.soar.crypto.parties import SERVER_KEY, FixedEntropy, flips
from transports.soar.core.crypto import (
    Fragment,
    Header,
    Kind,
    ServerKey,
    read_fragment,
    read_header,
)
from transports.soar.core.crypto.fragments import split_message
from transports.soar.core.crypto.headers import mask_header, pack_header

KEY = SERVER_KEY.public.header_key
SID = b"abcd"


def split(message: bytes, capacity: int = 38, form: int = 0) -> list[bytes]:
    return split_message(
        KEY, SID, message, capacity=capacity, form=form, entropy=FixedEntropy("filling")
    )


def read(packet: bytes) -> tuple[Header, Fragment | None]:
    header = read_header(KEY, packet)
    assert header is not None
    return header, read_fragment(KEY, header, packet)


@given(
    message=st.binary(min_size=1, max_size=255),
    capacity=st.integers(75, 150),
    form=st.integers(0, 2),
)
def test_the_pieces_make_the_message(message: bytes, capacity: int, form: int) -> None:
    packets = split(message, capacity, form)
    assert {len(packet) for packet in packets} == {capacity}
    joined = bytearray(len(message))
    for packet in packets:
        header, fragment = read(packet)
        assert header[:3] == (Kind.FRAGMENT, form, SID)
        assert fragment is not None
        assert fragment.total == len(message)
        end = fragment.offset + len(fragment.piece)
        joined[fragment.offset : end] = fragment.piece
    assert bytes(joined) == message


def test_pieces_that_fill_their_packets_need_no_filling() -> None:
    def refuse(size: int) -> bytes:
        raise AssertionError(size)

    packets = split_message(KEY, SID, bytes(81), capacity=38, form=0, entropy=refuse)
    assert len(packets) == 3


def test_filling_is_random_and_not_read() -> None:
    message = bytes(range(81))
    one, other = (
        split_message(KEY, SID, message, capacity=150, form=0, entropy=FixedEntropy(seed))[0]
        for seed in "ab"
    )
    assert one != other
    assert one[7:88] == other[7:88] == message
    assert read(one)[1] == read(other)[1] == Fragment(0, 81, message)


@pytest.mark.parametrize(("size", "capacity"), [(109, 38), (256, 150), (1, 11), (300, 300)])
def test_a_message_that_needs_more_than_four_packets_is_refused(size: int, capacity: int) -> None:
    with pytest.raises(LocalProtocolError, match=f"{size} octets"):
        split(bytes(size), capacity)


def test_any_bit_flipped_closes_the_gate() -> None:
    packet = split(bytes(range(81)))[1]
    for forged in flips(packet):
        header = read_header(KEY, forged)
        if header is not None:
            assert read_fragment(KEY, header, forged) is None


def test_a_cut_packet_closes_the_gate() -> None:
    packet = split(bytes(range(81)))[1]
    for at in range(len(packet)):
        header = read_header(KEY, packet[:at])
        if header is not None:
            assert read_fragment(KEY, header, packet[:at]) is None


def test_the_gate_is_closed_to_who_has_another_key() -> None:
    packet = split(bytes(81))[0]
    other = ServerKey.generate(FixedEntropy("another")).public.header_key
    header = read_header(other, packet)
    assert header is None or read_fragment(other, header, packet) is None


@pytest.mark.parametrize(("offset", "total"), [(0, 0), (81, 81), (82, 81), (255, 255), (255, 0)])
def test_a_piece_outside_of_its_message_is_refused(offset: int, total: int) -> None:
    header = pack_header(Kind.FRAGMENT, 0, SID, offset << 8 | total)
    piece = bytes(27)
    packet = mask_header(KEY, header, piece + KEY.gate(header + piece))
    assert read(packet)[1] is None


@given(st.binary(max_size=160))
def test_garbage_gives_none(garbage: bytes) -> None:
    header = read_header(KEY, garbage)
    if header is not None:
        assert read_fragment(KEY, header, garbage) is None
