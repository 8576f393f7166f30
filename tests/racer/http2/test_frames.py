"""GOAWAY is taken out of a stream of frames, cut anywhere; nothing else is touched."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from racer.errors import RemoteProtocolError
from racer.http2 import GoAway, GoAwayFilter


def frame(kind: int, payload: bytes = b"", *, stream: int = 0, flags: int = 0) -> bytes:
    return (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    )


def goaway(last: int, code: int, debug: bytes = b"") -> bytes:
    return frame(7, last.to_bytes(4, "big") + code.to_bytes(4, "big") + debug)


def feed(data: bytes, sizes: list[int]) -> tuple[bytes, list[GoAway]]:
    """Feed `data` in pieces of these sizes, and what is left in one."""
    frames = GoAwayFilter()
    passed, found = b"", []
    for size in [*sizes, len(data)]:
        piece, data = data[:size], data[size:]
        if piece:
            rest, farewells = frames.feed(piece)
            passed += rest
            found += farewells
    return passed, found


kinds = st.integers(0, 255).filter(lambda kind: kind != 7)
others = st.builds(frame, kinds, st.binary(max_size=40), stream=st.integers(0, 2**31 - 1))
farewells = st.builds(
    goaway, st.integers(0, 2**31 - 1), st.integers(0, 2**32 - 1), st.binary(max_size=20)
)


@settings(max_examples=50)
@given(st.lists(st.one_of(others, farewells), max_size=8), st.lists(st.integers(0, 30)))
def test_however_it_is_cut(frames: list[bytes], sizes: list[int]) -> None:
    passed, found = feed(b"".join(frames), sizes)
    assert passed == b"".join(each for each in frames if each[3] != 7)
    assert found == [
        GoAway(
            last_stream_id=int.from_bytes(each[9:13], "big"),
            error_code=int.from_bytes(each[13:17], "big"),
        )
        for each in frames
        if each[3] == 7
    ]


@given(st.binary(max_size=200), st.lists(st.integers(0, 20)))
def test_garbage_is_passed_on_or_refused(data: bytes, sizes: list[int]) -> None:
    with contextlib.suppress(RemoteProtocolError):
        feed(data, sizes)


@pytest.mark.parametrize("size", [0, 7])
def test_a_goaway_of_an_impossible_size_is_refused(size: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"a GOAWAY of {size} octets"):
        feed(frame(7, b"\0" * size), [])


@pytest.mark.parametrize("kind", [0, 7, 200])
def test_a_frame_longer_than_we_take_is_refused_by_its_head(kind: int) -> None:
    assert len(feed(frame(0, b"x" * 16_384), [])[0]) == 16_393
    with pytest.raises(RemoteProtocolError, match="a frame of 16385 octets"):
        feed(frame(kind, b"x" * 16_385)[:9], [])


def test_a_goaway_on_a_stream_is_h2s_business() -> None:
    odd = frame(7, b"\0" * 8, stream=1)
    assert feed(odd, [1, 2, 3]) == (odd, [])


def test_the_reserved_bit_does_not_count() -> None:
    """RFC 9113 §4.1: it is ignored on receipt."""
    data = bytearray(goaway(5, 0))
    data[9] |= 0x80
    assert feed(bytes(data), [])[1] == [GoAway(last_stream_id=5, error_code=0)]
