"""Which winner an attempt's verdict is about: a verdict names the peer that was talked to, and no target. Pure."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from transports.proxyless._memory import Key

__all__ = ("MAX_FLIGHTS", "Flights")

MAX_FLIGHTS: Final = 256
"""Connections whose verdict is awaited; of losers of a race none ever comes."""


class Flights:
    """Connections that were handed out, by the peer they lead to."""

    def __init__(self) -> None:
        """Begin with none."""
        self._open: deque[tuple[str, Key]] = deque(maxlen=MAX_FLIGHTS)

    def add(self, peer: str, key: Key) -> None:
        """Remember that a connection to `peer` was handed out for a target."""
        self._open.append((peer, key))

    def land(self, peer: str) -> None:
        """Learn that a connection to `peer` was usable."""
        for flight in self._open:
            if flight[0] == peer:
                self._open.remove(flight)
                return

    def crash(self, peer: str) -> set[Key]:
        """Learn that a connection to `peer` was not usable; return the targets that it may have been for."""
        keys = {key for other, key in self._open if other == peer}
        for flight in [flight for flight in self._open if flight[0] == peer]:
            self._open.remove(flight)
        return keys
