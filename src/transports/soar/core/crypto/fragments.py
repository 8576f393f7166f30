"""A first message in pieces that fit the names of one class (SPEC 7.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from racer.errors import LocalProtocolError
from transports.soar.core.crypto.hashes import equal
from transports.soar.core.crypto.headers import HEADER_SIZE, Kind, mask_header, pack_header

if TYPE_CHECKING:
    from transports.soar.core.crypto.headers import Header
    from transports.soar.core.crypto.keys import HeaderKey
    from transports.soar.core.crypto.texts import Entropy

__all__ = ("FRAGMENT_OVERHEAD", "Fragment", "read_fragment", "split_message")

FRAGMENT_OVERHEAD: Final = 11
"""Octets of a fragment that aren't of the message: header 7, gate 4."""
MOST_FRAGMENTS: Final = 4
MOST_OCTETS: Final = 255

_GATE_SIZE: Final = 4


class Fragment(NamedTuple):
    """A piece of a first message.

    Attributes:
        offset: where it begins.
        total: the length of the whole message.
        piece: its octets, without filling.
    """

    offset: int
    total: int
    piece: bytes


def split_message(
    header_key: HeaderKey, sid: bytes, message: bytes, *, capacity: int, form: int, entropy: Entropy
) -> list[bytes]:
    """Return the packets, each of `capacity` octets, that carry `message`.

    Args:
        header_key: that of the server's public key.
        sid: the message's.
        message: at most 255 octets.
        capacity: that of the names' class.
        form: that of the questions.
        entropy: for what the last packet has no octets of the message for.

    Raises:
        LocalProtocolError: it would take more than four packets.
    """
    size = capacity - FRAGMENT_OVERHEAD
    total = len(message)
    if total > MOST_OCTETS or size < 1 or total > MOST_FRAGMENTS * size:
        msg = f"a first message of {total} octets does not go into {MOST_FRAGMENTS} packets of {capacity}"
        raise LocalProtocolError(msg)
    packets = []
    for offset in range(0, total, size):
        piece = message[offset : offset + size]
        if len(piece) < size:
            # Random, since the mask is made of a packet's end: whatever is constant there could be counted.
            piece += entropy(size - len(piece))
        header = pack_header(Kind.FRAGMENT, form, sid, offset << 8 | total)
        gate = header_key.gate(header + piece)
        packets.append(mask_header(header_key, header, piece + gate))
    return packets


def read_fragment(header_key: HeaderKey, header: Header, packet: bytes) -> Fragment | None:
    """Return the piece that `packet` carries; `None` if its gate is wrong, or it lies outside of its message.

    Costs one hash, so a server asks this before anything else.

    Args:
        header_key: the server's own.
        header: what `read_header` gave for `packet`; kind fragment.
        packet: whole, as masked.
    """
    filled = packet[HEADER_SIZE:-_GATE_SIZE]
    if not equal(packet[-_GATE_SIZE:], header_key.gate(header.octets + filled)):
        return None
    offset, total = header.x >> 8, header.x & 0xFF
    if offset >= total:
        return None
    return Fragment(offset, total, filled[: total - offset])
