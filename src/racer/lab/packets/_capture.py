"""What was on the wire, and where: records of packets, and files of them that other programs read. Pure."""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from racer.lab.packets._ip import Packet

__all__ = ("Captured", "Point", "Side", "pcap")

_PCAP_MAGIC: Final = 0xA1B2C3D4
_RAW_IP: Final = 101  # LINKTYPE_RAW: an IP packet, and nothing before it
_SNAPLEN: Final = 262_144


class Side(enum.Enum):
    """An end of the path."""

    CLIENT = "client"
    SERVER = "server"

    @property
    def other(self) -> Side:
        """The end across."""
        return Side.SERVER if self is Side.CLIENT else Side.CLIENT


class Point(enum.Enum):
    """Where a packet was seen, or what became of it."""

    SENT = "sent"
    """A host put it on the wire."""
    SEEN = "seen"
    """It came to where the censor stands."""
    SWALLOWED = "swallowed"
    """The censor let it go no further."""
    INJECTED = "injected"
    """The censor sent it, in the name of the side it seems to come from."""
    EXPIRED = "expired"
    """Its TTL, or hop limit, was used up."""
    DELIVERED = "delivered"
    """It came to the host across."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """A packet at one point of its way.

    Attributes:
        at: when, on the path's clock.
        point: where, or what happened there.
        side: the host it comes from, or seems to.
        packet: as it was there; its TTL shrinks on the way.
    """

    at: float
    point: Point
    side: Side
    packet: Packet


def pcap(captured: Iterable[Captured]) -> bytes:
    """Return a file in the format of libpcap, as Wireshark and tcpdump read it; times are those of the path's clock."""
    parts = [struct.pack("!IHHiIII", _PCAP_MAGIC, 2, 4, 0, 0, _SNAPLEN, _RAW_IP)]
    for each in captured:
        octets = each.packet.octets
        whole = int(each.at)
        fraction = int((each.at - whole) * 1_000_000)
        parts += (struct.pack("!IIII", whole, fraction, len(octets), len(octets)), octets)
    return b"".join(parts)
