from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import LocalProtocolError
from transports.soar.core.dns import base32

FOREIGN = sorted(set(range(256)) - set(base32.ALPHABET) - set(base32.ALPHABET.upper()))
MOST = 5 * base32.MAX_CHARACTERS // 8


def standard(data: bytes) -> bytes:
    return base64.b32encode(data).lower().rstrip(b"=")


def test_every_length_reads_as_rfc_4648_has_it() -> None:
    for octets in range(MOST + 1):
        for data in (bytes(octets), b"\xff" * octets, bytes(range(7, 7 + octets))):
            assert base32.encode(data) == standard(data)
            assert base32.decode(standard(data)) == data


@given(st.binary(max_size=MOST))
def test_octets_come_back_in_either_case(data: bytes) -> None:
    text = base32.encode(data)
    assert text == standard(data)
    assert base32.decode(text) == base32.decode(text.upper()) == data


@given(st.integers(0, 2**310 - 1))
def test_bits_are_spelled_highest_first(value: int) -> None:
    text = base32.spell(value, 62)
    assert len(text) == 62
    spelled = 0
    for letter in text:
        spelled = spelled * 32 + base32.ALPHABET.index(letter)
    assert spelled == value


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (b"", b""),
        (b"a", b""),
        (b"7", b""),  # five bits are no octet
        (b"ae", b"\x01"),
        (b"ah", b"\x01"),  # two bits are left over, whatever they are
        (b"aea", b"\x01"),
        (b"ae7", b"\x01"),  # seven
        (b"aebagbaf", b"\x01\x02\x03\x04\x05"),
    ],
)
def test_what_is_left_over_from_whole_octets_is_not_read(text: bytes, data: bytes) -> None:
    assert base32.decode(text) == data


@pytest.mark.parametrize(
    ("before", "after"), [(b"", b"aebagba"), (b"aeb", b"gbaf"), (b"aebagba", b""), (b"a", b"a")]
)
def test_a_foreign_character_is_refused_wherever_it_stands(before: bytes, after: bytes) -> None:
    for octet in FOREIGN:  # `int` reads signs, spaces, prefixes and underscores as its own
        with pytest.raises(ValueError):
            base32.decode(before + bytes((octet,)) + after)


@given(st.binary(max_size=300))
def test_any_octets_are_read_or_refused(text: bytes) -> None:
    known = set(text) <= set(base32.ALPHABET + base32.ALPHABET.upper())
    try:
        data = base32.decode(text)
    except ValueError:
        assert not known
    else:
        assert known
        assert len(data) == 5 * len(text) // 8


def test_too_much_for_one_text_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="161 octets take 258"):
        base32.encode(bytes(MOST + 1))
