"""Varints: RFC 9000's own examples, every length, every cut."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from racer.errors import LocalProtocolError
from transports.soar.core.varint import MAX_VARINT, VarintTruncated, encode, read, size

# RFC 9000, appendix A.1, and the edges of each length.
PAIRS = [
    (0, "00"),
    (37, "25"),
    (63, "3f"),
    (64, "4040"),
    (15_293, "7bbd"),
    (16_383, "7fff"),
    (16_384, "80004000"),
    (494_878_333, "9d7f3e7d"),
    (1_073_741_823, "bfffffff"),
    (1_073_741_824, "c000000040000000"),
    (151_288_809_941_952_652, "c2197c5eff14e88c"),
    (MAX_VARINT, "ffffffffffffffff"),
]


@pytest.mark.parametrize(("value", "octets"), PAIRS)
def test_a_value_has_one_shortest_form(value: int, octets: str) -> None:
    wire = bytes.fromhex(octets)
    assert encode(value) == wire
    assert size(value) == len(wire)
    assert read(wire, 0) == (value, len(wire))


@pytest.mark.parametrize("octets", ["25", "4025", "80000025", "c000000000000025"])
def test_spec_1_any_length_that_holds_the_value_is_valid(octets: str) -> None:
    wire = bytes.fromhex(octets)
    assert read(wire, 0) == (37, len(wire))


@pytest.mark.parametrize("octets", [octets for _, octets in PAIRS])
def test_a_value_cut_short_is_named(octets: str) -> None:
    wire = bytes.fromhex(octets)
    for cut in range(len(wire)):
        with pytest.raises(VarintTruncated):
            read(b"before" + wire[:cut], 6)


@pytest.mark.parametrize("value", [-1, -64, MAX_VARINT + 1, 1 << 80])
def test_a_value_that_no_form_holds_is_refused(value: int) -> None:
    with pytest.raises(LocalProtocolError):
        encode(value)


@given(st.integers(0, MAX_VARINT), st.binary(max_size=4), st.binary(max_size=4))
@example(0, b"", b"")
def test_what_is_written_is_read(value: int, before: bytes, after: bytes) -> None:
    wire = before + encode(value) + after
    assert read(wire, len(before)) == (value, len(before) + size(value))
