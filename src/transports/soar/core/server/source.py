"""Who sent a message, as far as a server can tell."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ("Source", "prefix_of")

_MAPPED: Final = (
    bytes(10) + b"\xff\xff"
)  # RFC 4291 §2.5.5.2: what an IPv4 peer looks like to an IPv6 socket


class Source(NamedTuple):
    """Where a message came from, and where its answer goes.

    Attributes:
        address: 4 or 16 octets.
        port: the peer's.
        tcp: whether the message came over a connection, which proves the address.
        tag: the driver's own, returned untouched.
    """

    address: bytes
    port: int
    tcp: bool = False
    tag: object = None


def prefix_of(address: bytes) -> bytes:
    """Return what counts as one neighbourhood: the /24 of an IPv4 address, the /48 of an IPv6 one (SPEC 18.4)."""
    if len(address) == 4:
        return address[:3]
    if address.startswith(_MAPPED):
        return address[12:15]
    return address[:6]
