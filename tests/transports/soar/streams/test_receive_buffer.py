"""Octets put in order, beside the plain string that they are pieces of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transports.soar.core.streams.receive_buffer import (
    MAX_PIECES,
    FinalSizeChanged,
    ReceiveBuffer,
    TooManyPieces,
)

WHOLE = bytes(range(60))


@st.composite
def slices(draw: st.DrawFn) -> tuple[int, int]:
    start = draw(st.integers(0, len(WHOLE)))
    return start, draw(st.integers(start, min(len(WHOLE), start + 12)))


@given(st.lists(slices(), max_size=40), st.lists(st.integers(0, 20), max_size=40))
def test_whatever_the_cuts_and_the_order_each_octet_is_read_once(
    cuts: list[tuple[int, int]], reads: list[int]
) -> None:
    buffer = ReceiveBuffer()
    came: set[int] = set()
    read = b""
    for at, (start, stop) in enumerate(cuts):
        pieces = buffer.pieces
        assert buffer.receive(start, WHOLE[start:stop]) == buffer.pieces - pieces
        came |= set(range(start, stop))
        in_order = next(i for i in range(len(WHOLE) + 1) if i not in came)
        assert buffer.next == in_order
        assert buffer.highest == max(stop for _, stop in cuts[: at + 1])
        assert len(buffer.data) == in_order - len(read)
        most = reads[at] if at < len(reads) else 0
        assert buffer.peek(most) == WHOLE[len(read) : min(in_order, len(read) + most)]
        read += buffer.read(most)
        assert buffer.consumed == len(read)
    read += buffer.read(len(WHOLE))
    assert read == WHOLE[: buffer.next]
    # What waits is kept once: as many octets as came and were not in order.
    assert sum(map(len, buffer._pieces)) == len([i for i in came if i >= buffer.next])


def test_pieces_that_continue_each_other_are_one() -> None:
    buffer = ReceiveBuffer()
    for at in range(1, 1000):
        buffer.receive(at, b"x")
        assert buffer.pieces == 1
    buffer.receive(0, b"x")
    assert (len(buffer.data), buffer.pieces) == (1000, 0)


def test_too_many_pieces_are_named() -> None:
    buffer = ReceiveBuffer()
    for at in range(MAX_PIECES):
        buffer.receive(2 * at + 1, b"x")
    with pytest.raises(TooManyPieces):
        buffer.receive(2 * MAX_PIECES + 1, b"x")


@pytest.mark.parametrize(
    ("final", "stop", "fin"), [(5, 6, False), (5, 6, True), (5, 4, True), (0, 1, False)]
)
def test_spec_10_3_a_final_size_never_changes(final: int, stop: int, fin: bool) -> None:
    buffer = ReceiveBuffer()
    buffer.final_size = final
    with pytest.raises(FinalSizeChanged):
        buffer.check(stop, fin=fin)
    buffer.check(final, fin=True)
    buffer.check(final, fin=False)


def test_spec_10_3_a_final_size_is_not_below_what_came() -> None:
    buffer = ReceiveBuffer()
    buffer.receive(9, b"x")
    with pytest.raises(FinalSizeChanged):
        buffer.check(9, fin=True)
    buffer.check(10, fin=True)
    buffer.check(9, fin=False)


def test_what_is_discarded_counts_as_read_and_is_not_kept() -> None:
    buffer = ReceiveBuffer()
    buffer.receive(0, b"abc")
    buffer.receive(10, b"abc")
    buffer.discard()
    assert (len(buffer.data), buffer.pieces, buffer.consumed) == (0, 0, 13)
    buffer.receive(20, b"abc")
    buffer.receive(3, b"abc")
    assert (len(buffer.data), buffer.pieces, buffer.consumed) == (0, 0, 23)
    assert not buffer.has_all
    buffer.final_size = 23
    assert buffer.has_all


def test_an_early_end_counts_octets_that_never_come() -> None:
    buffer = ReceiveBuffer()
    buffer.receive(0, b"abc")
    buffer.end_at(50)
    assert (len(buffer.data), buffer.consumed, buffer.highest, buffer.has_all) == (0, 50, 50, True)
