"""Unpredictable small numbers for ids and selectors, drawn from the entropy that is passed in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("Dice",)

_DRAW: Final = 512  # octets at once; a draw costs a call of the operating system


class Dice:
    """A little store of random octets; nothing secret is made of them.

    Args:
        entropy: returns that many random octets.
    """

    __slots__ = ("_at", "_octets", "entropy")

    def __init__(self, entropy: Callable[[int], bytes]) -> None:
        self.entropy = entropy
        self._octets = b""
        self._at = 0

    def octet(self) -> int:
        """Return 0 to 255."""
        if self._at >= len(self._octets):
            self._fill()
        octet = self._octets[self._at]
        self._at += 1
        return octet

    def word(self) -> int:
        """Return 0 to 65535."""
        if self._at + 2 > len(self._octets):
            self._fill()
        at = self._at
        self._at = at + 2
        return self._octets[at] << 8 | self._octets[at + 1]

    def quad(self) -> int:
        """Return 32 random bits."""
        at = self._at
        if at + 4 > len(self._octets):
            self._fill()
            at = 0
        self._at = at + 4
        return int.from_bytes(self._octets[at : at + 4])

    def fraction(self) -> float:
        """Return a number from 0 to just below 1."""
        return self.quad() / (1 << 32)

    def forget(self) -> None:
        """Drop what is in store: another process has the same."""
        self._octets, self._at = b"", 0

    def _fill(self) -> None:
        self._octets, self._at = self.entropy(_DRAW), 0
