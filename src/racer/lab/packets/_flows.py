"""What a censor sees of one TCP connection's way up: segments put together as far as it cares to. Pure and bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from racer.lab._hello import NeedMore, server_name
from racer.lab.packets._rules import Reassembly

if TYPE_CHECKING:
    from racer.lab.packets._rules import SNIFilter

__all__ = ("MAX_SEEN", "Reader")

MAX_SEEN: Final = 65_536
"""Octets of a connection's beginning that are looked at; a ClientHello has less than 2,000 as a rule."""

_MODULUS: Final = 2**32  # of TCP's sequence numbers


class Reader:
    """Reads one connection for one rule.

    Args:
        rule: how far it looks.
        first: the sequence number of the connection's first octet.
    """

    def __init__(self, rule: SNIFilter, first: int) -> None:
        """Begin before the first octet."""
        self._rule = rule
        self._first = first
        self._seen = bytearray()
        self._pieces: dict[int, bytes] = {}
        self._is_done = False

    def read(self, seq: int, data: bytes) -> str | None:
        """Return the unwanted name that is seen once this segment is; `None` while there is none."""
        if self._is_done or not data:
            return None
        rule = self._rule
        if rule.reassembly is Reassembly.NONE:
            return self._unwanted(data)
        self._join((seq - self._first) % _MODULUS, data)
        name = self._unwanted(bytes(self._seen))
        self._is_done |= len(self._seen) >= MAX_SEEN
        if self._is_done or name is not None:
            self._is_done = True
            self._pieces.clear()
            self._seen.clear()
        return name

    def _join(self, offset: int, data: bytes) -> None:
        """Put a segment to what was seen, or aside until the gap before it is filled."""
        if offset > MAX_SEEN:
            # Far ahead, or from before the beginning, as a keep-alive is: sequence numbers go round.
            return
        if offset > len(self._seen):
            if self._rule.reassembly is Reassembly.IN_ORDER:
                self._is_done = True
            elif len(self._pieces) < MAX_SEEN:
                self._pieces[offset] = max(self._pieces.get(offset, b""), data, key=len)
            return
        self._append(offset, data)
        for later in sorted(self._pieces):
            if later > len(self._seen):
                break
            self._append(later, self._pieces.pop(later))

    def _append(self, offset: int, data: bytes) -> None:
        self._seen += data[len(self._seen) - offset :][: MAX_SEEN - len(self._seen)]

    def _unwanted(self, seen: bytes) -> str | None:
        if self._rule.scans:
            return self._rule.finds(seen)
        name = server_name(seen, joins_records=self._rule.joins_records)
        if isinstance(name, str) and self._rule.matches(name):
            return name
        # What was put together and is no ClientHello, or one of another name, never becomes one.
        self._is_done |= self._rule.reassembly is not Reassembly.NONE and not isinstance(
            name, NeedMore
        )
        return None
