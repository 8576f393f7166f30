"""What is logged about a collector that fails: enough to notice, never a flood."""

from __future__ import annotations

from typing import Final

__all__ = ("QUIET_S", "Complaints")

QUIET_S: Final = 60.0
"""Seconds in which one kind of failure is logged once at most."""


class Complaints:
    """Decides what is worth a line; has no clock and writes nothing."""

    def __init__(self) -> None:
        """Begin with nothing said."""
        self._said: dict[str, float] = {}
        self._failing: set[str] = set()
        self._owes_relief = False

    def failed(self, who: str, kind: str, now: float) -> bool:
        """Note a failure of `who`; return whether to log it."""
        self._failing.add(who)
        if not self.happened(kind, now):
            return False
        self._owes_relief = True
        return True

    def happened(self, kind: str, now: float) -> bool:
        """Note what happens once and is over; return whether to log it."""
        last = self._said.get(kind)
        if last is not None and now - last < QUIET_S:
            return False
        self._said[kind] = now
        return True

    def worked(self, who: str) -> bool:
        """Note that `who` works; return whether to log it: when nothing fails any more, if it was logged that it did."""
        self._failing.discard(who)
        if self._failing or not self._owes_relief:
            return False
        self._owes_relief = False
        return True
