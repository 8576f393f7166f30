"""Octets kept until they are acknowledged, beside a model that knows the fate of each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import LocalProtocolError
from transports.soar.core.streams.send_buffer import SendBuffer

WHOLE = bytes(range(40))
fates = st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(0, 40)), max_size=30)


def is_complete(buffer: SendBuffer) -> bool:
    return buffer.fin_acked and buffer.base == buffer.fin_at


@given(st.integers(0, 40), fates)
def test_what_is_acknowledged_is_forgotten_and_what_is_lost_is_due(
    sent: int, fates: list[tuple[bool, int, int]]
) -> None:
    buffer = SendBuffer()
    buffer.write(WHOLE)
    buffer.sent = sent
    acked: set[int] = set()
    lost: set[int] = set()
    for arrives, *ends in fates:
        start, stop = sorted(min(end, sent) for end in ends)
        if arrives:
            base = buffer.base
            assert buffer.on_acked(start, stop, fin=False) == buffer.base - base
            acked |= set(range(start, stop))
        else:
            buffer.on_lost(start, stop, fin=False)
            lost |= set(range(start, stop))
        lost -= acked
        assert buffer.base == next(i for i in range(41) if i not in acked)
        assert {i for a, b in buffer.lost for i in range(a, b)} == lost
        assert buffer.data == WHOLE[buffer.base :]
        assert (buffer.end, buffer.waiting, buffer.kept) == (40, 40 - sent, sent - buffer.base)
        assert not is_complete(buffer)


def test_acknowledged_memory_is_free() -> None:
    buffer = SendBuffer()
    buffer.write(bytes(1 << 20))
    buffer.sent = 1 << 20
    for start in range(0, (1 << 20) - 1000, 1000):
        buffer.on_acked(start, start + 1000, fin=False)
    assert buffer.data.__alloc__() < 4096


def test_a_late_acknowledgement_takes_back_a_loss() -> None:
    buffer = SendBuffer()
    buffer.write(WHOLE)
    buffer.sent = 40
    buffer.on_lost(10, 30, fin=False)
    buffer.on_acked(15, 20, fin=False)
    assert list(buffer.lost) == [(10, 15), (20, 30)]
    buffer.on_lost(12, 22, fin=False)
    assert list(buffer.lost) == [(10, 15), (20, 30)]


def test_fin_is_due_alone_only_behind_what_was_sent() -> None:
    buffer = SendBuffer()
    buffer.write(WHOLE)
    buffer.finish()
    assert not buffer.fin_due
    with pytest.raises(LocalProtocolError):
        buffer.write(b"more")
    other = SendBuffer()
    other.write(WHOLE)
    other.sent = 40
    other.finish()
    assert (other.fin_due, other.fin_at) == (True, 40)


def test_a_direction_is_complete_when_octets_and_fin_have_arrived() -> None:
    buffer = SendBuffer()
    buffer.write(WHOLE)
    buffer.finish()
    buffer.sent = 40
    buffer.on_acked(20, 40, fin=True)
    assert not is_complete(buffer)
    buffer.on_lost(20, 40, fin=True)
    assert not buffer.fin_due
    buffer.on_acked(0, 20, fin=False)
    assert is_complete(buffer)


def test_an_empty_direction_is_complete_with_its_fin() -> None:
    buffer = SendBuffer()
    buffer.finish()
    assert not is_complete(buffer)
    buffer.on_lost(0, 0, fin=True)
    assert buffer.fin_due
    buffer.on_acked(0, 0, fin=True)
    assert is_complete(buffer)
    assert not buffer.fin_due
