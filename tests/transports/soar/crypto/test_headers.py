"""The masked header, and packet numbers (SPEC 6, 8.2, 8.3)."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tests.transports.soar.crypto.parties import SERVER_KEY
from transports.soar.core.crypto import Info, Kind, SizeClass, full_number, read_header
from transports.soar.core.crypto.hashes import digest
from transports.soar.core.crypto.headers import INFOS, mask_header, pack_header

KEY = SERVER_KEY.public.header_key


@given(
    kind=st.sampled_from(Kind),
    form=st.integers(0, 2),
    sid=st.binary(min_size=4, max_size=4),
    x=st.integers(0, 0xFFFF),
    rest=st.binary(min_size=16, max_size=143),
)
def test_a_header_reads_back(kind: Kind, form: int, sid: bytes, x: int, rest: bytes) -> None:
    octets = pack_header(kind, form, sid, x)
    packet = mask_header(KEY, octets, rest)
    assert packet[7:] == rest
    assert read_header(KEY, packet) == (kind, form, sid, x, octets)


def test_the_octets_are_those_of_the_specification() -> None:
    octets = pack_header(Kind.DATA, 1, b"\x01\x02\x03\x04", 0x0506)
    assert octets.hex() == "90010203040506"
    rest = bytes(range(31))
    mask = digest(7, digest(32, b"soar1 header", SERVER_KEY.public.raw), rest[-16:])
    assert mask_header(KEY, octets, rest)[:7] == bytes(
        a ^ b for a, b in zip(octets, mask, strict=True)
    )


def test_what_this_version_does_not_know_is_junk() -> None:
    fields = itertools.product(range(4), range(4), range(2), range(4), range(2))
    for first, (kind, form, phase, version, zero) in enumerate(fields):
        good = kind < 3 and form < 3 and not (phase or version or zero)
        header = read_header(KEY, mask_header(KEY, bytes([first]) + bytes(6), bytes(31)))
        assert (header is not None) == good
        if header is not None:
            assert header[:2] == (kind, form)


def test_a_packet_too_short_for_its_mask_is_junk() -> None:
    packet = mask_header(KEY, pack_header(Kind.DATA, 0, b"abcd", 0), bytes(16))
    assert read_header(KEY, packet) is not None
    assert all(read_header(KEY, packet[:size]) is None for size in range(23))
    # One in 28 would be taken for a header if it could be.
    for size in range(7, 23):
        for number in range(200):
            assert read_header(KEY, digest(size, b"", number.to_bytes(2))) is None


@given(st.binary(max_size=160))
def test_garbage_gives_a_header_or_none(garbage: bytes) -> None:
    header = read_header(KEY, garbage)
    assert header is None or header.kind in tuple(Kind)


def test_most_garbage_is_junk() -> None:
    # 9 first octets of 256 are good.
    good = sum(
        read_header(KEY, digest(32, b"", number.to_bytes(4))) is not None for number in range(4096)
    )
    assert 4096 * 9 / 256 * 0.7 < good < 4096 * 9 / 256 * 1.3


def test_every_info_octet_is_read() -> None:
    # The last bit is not read.
    fields = itertools.product(range(16), range(4), (False, True), range(2))
    for octet, (path, size_class, may_park, _) in enumerate(fields):
        known = SizeClass.OCTETS_512 if size_class == 3 else SizeClass(size_class)
        assert INFOS[octet] == Info(path, known, may_park)


@given(highest=st.integers(-1, 2**40), distance=st.integers(-0x7FFF, 0x7FFF))
def test_a_number_near_the_highest_is_told_from_its_low_bits(highest: int, distance: int) -> None:
    number = highest + distance
    if number >= 0:
        assert full_number(number & 0xFFFF, highest) == number


def test_the_first_number_is_never_below_0() -> None:
    for low in (0, 1, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF):
        for highest in (-1, 0, 1):
            assert full_number(low, highest) == low


@given(highest=st.integers(-1, 2**40), low=st.integers(0, 0xFFFF))
def test_a_full_number_is_the_nearest_there_is(highest: int, low: int) -> None:
    number = full_number(low, highest)
    assert number >= 0
    assert number & 0xFFFF == low
    for other in (number - 0x10000, number + 0x10000):
        assert other < 0 or abs(other - highest) >= abs(number - highest)
