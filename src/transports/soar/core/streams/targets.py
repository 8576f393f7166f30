"""Where a stream is to lead: the first octets of its client's direction (SPEC 10.1)."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

from racer.errors import LocalProtocolError, RemoteProtocolError

__all__ = ("MAX_TARGET", "Target", "TargetInvalid", "read_target")

MAX_NAME: Final = 253
MAX_TARGET: Final = 1 + MAX_NAME + 2
"""Octets of the longest target."""

_IPV4: Final = 0xFE  # both are longer than any name
_IPV6: Final = 0xFF
_PORT_SIZE: Final = 2
# What host names are made of; the underscore is no letter of theirs, and in use all the same.
_NAME: Final = re.compile(rb"[A-Za-z0-9_.-]{1,253}\Z")


class TargetInvalid(RemoteProtocolError):
    """The first octets of a stream name no target."""


class Target(NamedTuple):
    """A host, by name in ASCII or by address, and a port from 1 to 65535."""

    host: str | IPv4Address | IPv6Address
    port: int

    @classmethod
    def of(cls, host: str, port: int) -> Target:
        """Return the target that a user means; text that is an address becomes one.

        Raises:
            LocalProtocolError: no frame can carry it: see `to_wire`.
        """
        try:
            target = cls(ip_address(host), port)
        except ValueError:
            target = cls(host, port)
        target.to_wire()
        return target

    def to_wire(self) -> bytes:
        """Return the octets with which a stream to this target begins.

        Raises:
            LocalProtocolError: the name isn't of 1 to 253 letters, digits, dots, hyphens and underscores, the address
                has a scope, or the port isn't from 1 to 65535.
        """
        host = self.host
        if not 1 <= self.port <= 0xFFFF:
            raise LocalProtocolError(f"port {self.port} is not from 1 to 65535")
        if isinstance(host, str):
            name = host.encode("ascii", "replace")
            if not _NAME.match(name):
                raise LocalProtocolError(f"no stream can lead to a host named {host!r}")
            head = bytes([len(name)]) + name
        elif isinstance(host, IPv4Address):
            head = bytes([_IPV4]) + host.packed
        elif host.scope_id is None:
            head = bytes([_IPV6]) + host.packed
        else:
            raise LocalProtocolError(f"the scope of {host} means nothing elsewhere")
        return head + self.port.to_bytes(_PORT_SIZE, "big")


def read_target(octets: bytes) -> tuple[Target, int] | None:
    """Return the target with which `octets` begin and how many it takes; `None` if they end too early.

    Raises:
        TargetInvalid: whatever follows, this is none.
    """
    if not octets:
        return None
    length = octets[0]
    if length == _IPV4:
        size = 4
    elif length == _IPV6:
        size = 16
    elif 1 <= length <= MAX_NAME:
        size = length
    else:
        raise TargetInvalid(f"a target's host has length octet {length:#04x}")
    stop = 1 + size + _PORT_SIZE
    if len(octets) < stop:
        return None
    raw = octets[1 : 1 + size]
    port = int.from_bytes(octets[1 + size : stop], "big")
    if port == 0:
        raise TargetInvalid("a target has port 0")
    if length == _IPV4:
        return Target(IPv4Address(raw), port), stop
    if length == _IPV6:
        return Target(IPv6Address(raw), port), stop
    if not _NAME.match(raw):
        raise TargetInvalid(
            "a target's name is not made of letters, digits, dots, hyphens and underscores"
        )
    return Target(raw.decode("ascii"), port), stop
