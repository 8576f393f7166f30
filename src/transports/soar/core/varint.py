"""Integers of 1, 2, 4 or 8 octets whose first two bits say which (RFC 9000 section 16; SPEC 1)."""

from __future__ import annotations

from typing import Final

from racer.errors import LocalProtocolError, RemoteProtocolError

__all__ = ("MAX_VARINT", "VarintTruncated", "encode", "read", "size")

MAX_VARINT: Final = (1 << 62) - 1
"""The greatest value that can be written."""

# Octets and mask, by the first two bits.
_FORMS: Final = tuple((width, (1 << (8 * width - 2)) - 1) for width in (1, 2, 4, 8))
_ONE: Final = tuple(bytes([value]) for value in range(0x40))


class VarintTruncated(RemoteProtocolError):
    """The octets ended inside an integer."""


def encode(value: int) -> bytes:
    """Return `value` in the fewest octets that hold it.

    Raises:
        LocalProtocolError: it is negative, or above `MAX_VARINT`.
    """
    if 0 <= value < 0x40:
        return _ONE[value]
    if 0 <= value < 0x4000:
        return (0x4000 | value).to_bytes(2, "big")
    if 0 <= value < 0x4000_0000:
        return (0x8000_0000 | value).to_bytes(4, "big")
    if 0 <= value <= MAX_VARINT:
        return (0xC000_0000_0000_0000 | value).to_bytes(8, "big")
    raise LocalProtocolError(f"no varint can hold {value}")


def read(data: bytes, at: int) -> tuple[int, int]:
    """Return the integer that begins at `at`, and where the octets after it begin.

    Any length that holds the value is valid.

    Raises:
        VarintTruncated: `data` ends before it does.
    """
    try:
        first = data[at]
    except IndexError:
        raise VarintTruncated(f"a varint was due at octet {at}, where the octets end") from None
    if first < 0x40:
        return first, at + 1
    width, mask = _FORMS[first >> 6]
    stop = at + width
    if stop > len(data):
        raise VarintTruncated(f"a varint of {width} octets at octet {at} is cut short")
    return int.from_bytes(data[at:stop], "big") & mask, stop


def size(value: int) -> int:
    """Return how many octets `encode(value)` takes."""
    if value < 0x40:
        return 1
    if value < 0x4000:
        return 2
    return 4 if value < 0x4000_0000 else 8
