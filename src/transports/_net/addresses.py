"""Which address to try next: families take turns, and late answers still join (RFC 8305 §3 to §5). Pure."""

from __future__ import annotations

import enum
import math
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

__all__ = ("MAX_PER_FAMILY", "Candidates", "Family", "family_of", "host_port")

MAX_PER_FAMILY = 16
"""Addresses of one family that are tried for one name; more is a mistake or an attack, and each costs a socket."""


class Family(enum.Enum):
    """A kind of IP address, and so a kind of question about a name."""

    IPV6 = "IPv6"
    """Asked for with AAAA."""
    IPV4 = "IPv4"
    """Asked for with A."""


def family_of(address: str) -> Family | None:
    """Return the family of an IP address, with or without an IPv6 scope; `None` when it is no address."""
    bare, percent, scope = address.partition("%")
    for family, number in _AF.items():
        try:
            socket.inet_pton(number, bare)
        except (OSError, ValueError):  # ValueError: a NUL, or what no C string can be
            continue
        if percent and (family is Family.IPV4 or not scope):
            return None
        return family
    return None


def host_port(host: str, port: int) -> str:
    """Return `host:port` for people, IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


_AF = {Family.IPV4: socket.AF_INET, Family.IPV6: socket.AF_INET6}


class Candidates:
    """The addresses of one name that have not been tried, and when trying may begin.

    Args:
        families: the families that were asked for, the preferred first; at least one.
        resolution_delay: seconds that an answer without the preferred family waits for that family's.
    """

    def __init__(self, families: Sequence[Family], *, resolution_delay: float) -> None:
        """Begin with every answer pending."""
        self._untried: dict[Family, list[str]] = {family: [] for family in families}
        self._known: dict[Family, set[str]] = {family: set() for family in families}
        self._pending = set(families)
        self._preferred = self._next = families[0]
        self._resolution_delay = resolution_delay
        self._opens_at = math.inf

    def answer(self, families: Collection[Family], addresses: Iterable[str], now: float) -> int:
        """Take what is known of `families`, best address first, none if there is none; return how many are new.

        An answer for several families also says which of them is to begin: that of its first address (RFC 6724).
        """
        first = True
        new = 0
        for address in addresses:
            family = family_of(address)
            if family not in self._known or address in self._known[family]:
                continue
            if len(self._known[family]) == MAX_PER_FAMILY:
                continue
            if first and len(families) > 1 and self._opens_at > now:
                self._next = family
            first = False
            self._known[family].add(address)
            self._untried[family].append(address)
            new += 1
        self._pending.difference_update(families)
        if any(self._known.values()):
            # RFC 8305 §3: the preferred family's answer, be it none, ends the wait.
            wait = self._resolution_delay if self._preferred in self._pending else 0.0
            self._opens_at = min(self._opens_at, now + wait)
        return new

    @property
    def pending(self) -> frozenset[Family]:
        """The families nothing is known about yet."""
        return frozenset(self._pending)

    @property
    def opens_at(self) -> float:
        """When trying may begin, as far as is known now; infinite while there is nothing to try."""
        return self._opens_at

    def __len__(self) -> int:
        """Return how many addresses have not been tried."""
        return sum(map(len, self._untried.values()))

    def pop(self) -> str:
        """Return the address to try now: the best of the family whose turn it is.

        Raises:
            LookupError: every address that is known has been tried.
        """
        # Only two families exist, so "another than last time" is all there is to taking turns.
        for family in sorted(self._untried, key=lambda family: family is not self._next):
            if self._untried[family]:
                others = [other for other in self._untried if other is not family]
                self._next = others[0] if others else family
                return self._untried[family].pop(0)
        msg = "every address that is known has been tried"
        raise LookupError(msg)
