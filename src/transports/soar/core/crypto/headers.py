"""A packet's first octets: masked, so that without the server's public key nothing is constant or countable (SPEC 6).

The hot path: what is made for each packet is a NamedTuple.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from transports.soar.core.crypto.keys import HeaderKey

__all__ = (
    "Header",
    "Info",
    "Kind",
    "SizeClass",
    "full_number",
    "mask_header",
    "pack_header",
    "read_header",
)

HEADER_SIZE: Final = 7

_LEAST_PACKET: Final = HEADER_SIZE + 16
"""Shorter ones would be masked with octets of their own header."""


class Kind(enum.IntEnum):
    """What a packet carries (SPEC 6.1)."""

    FRAGMENT = 0
    EARLY = 1
    DATA = 2


class SizeClass(enum.IntEnum):
    """How large an answer the client takes on this path (SPEC 8.2)."""

    OCTETS_512 = 0
    OCTETS_1232 = 1
    EDNS = 2
    """What the copy's OPT record says."""


class Header(NamedTuple):
    """A packet's first seven octets, unmasked.

    Attributes:
        kind: a `Kind`, as a number.
        form: the form of the question that carried it.
        sid: which session, 4 octets.
        x: the low 16 bits of the packet number; of a fragment, offset and total.
        octets: all seven, for the seal.
    """

    kind: int
    form: int
    sid: bytes
    x: int
    octets: bytes


class Info(NamedTuple):
    """What a question says of itself to the server, under the seal."""

    path: int
    size_class: int
    may_park: bool


# What first octets of headers say, of those that do: phase, version and the last bit 0, neither kind nor form 3.
_FIRST_OCTETS: Final = {
    kind << 6 | form << 4: (kind, form) for kind in range(3) for form in range(3)
}
INFOS: Final = tuple(
    Info(octet >> 4, size if (size := octet >> 2 & 3) < 3 else 0, bool(octet & 2))
    for octet in range(256)
)


def pack_header(kind: int, form: int, sid: bytes, x: int) -> bytes:
    """Return the seven octets of a header, unmasked (SPEC 6.1)."""
    return bytes((kind << 6 | form << 4,)) + sid + x.to_bytes(2)


def mask_header(header_key: HeaderKey, header: bytes, rest: bytes) -> bytes:
    """Return the packet: `header` masked with what `rest`, the 16 or more octets behind it, ends with (SPEC 6.2)."""
    mask = int.from_bytes(header_key.mask(rest[-16:]))
    return (int.from_bytes(header) ^ mask).to_bytes(HEADER_SIZE) + rest


def read_header(header_key: HeaderKey, packet: bytes) -> Header | None:
    """Return the header of `packet`, unmasked; `None` if the packet is junk (SPEC 6.3) or shorter than 23 octets."""
    if len(packet) < _LEAST_PACKET:
        return None
    value = int.from_bytes(packet[:HEADER_SIZE]) ^ int.from_bytes(header_key.mask(packet[-16:]))
    first = _FIRST_OCTETS.get(value >> 48)
    if first is None:
        return None
    octets = value.to_bytes(HEADER_SIZE)
    kind, form = first
    # Half the time that Header(...) takes.
    return tuple.__new__(Header, (kind, form, octets[1:5], value & 0xFFFF, octets))


def full_number(low: int, highest: int) -> int:
    """Return the packet number with these low 16 bits that is nearest to `highest` (SPEC 8.3).

    Args:
        low: a header's `x`.
        highest: the highest number seen so far; below 0 if there was none.
    """
    number = highest & ~0xFFFF | low
    if number < highest - 0x8000 or number < 0:
        return number + 0x10000
    if number > highest + 0x8000 and number > 0xFFFF:
        return number - 0x10000
    return number
