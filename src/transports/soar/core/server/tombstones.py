"""Sessions that have ended, and how far back the server's memory of them goes (SPEC 15.3, 15.4)."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from transports.soar.core.instants import Instant

__all__ = ("Tombstone", "Tombstones")

MAX_TOMBSTONES: Final = 65_536  # SPEC 15.3
TOMBSTONE_LIFE: Final = 600.0  # seconds, SPEC 15.3


class Tombstone(NamedTuple):
    """How a session ended.

    Attributes:
        code: an `EndCode`.
        last_stream: the highest stream that was accepted, or None.
        ended: when, in elapsed seconds.
    """

    code: int
    last_stream: int | None
    ended: float


class Tombstones:
    """The sessions that ended within ten minutes, at most 65,536; the oldest give way, and are owned up to."""

    def __init__(self, *, began: float, capacity: int = MAX_TOMBSTONES) -> None:
        """Begin with none at `began`, in elapsed seconds: what was before is not remembered."""
        self._capacity = capacity
        self._stones: OrderedDict[bytes, Tombstone] = OrderedDict()
        self._began = began

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._stones)

    def add(self, sid: bytes, code: int, last_stream: int | None, now: Instant) -> None:
        """Remember that a session has ended."""
        stones = self._stones
        self._forget_old(now.elapsed)
        if len(stones) >= self._capacity:
            _, dropped = stones.popitem(last=False)
            self._began = max(self._began, dropped.ended)
        stones[sid] = Tombstone(code, last_stream, now.elapsed)

    def get(self, sid: bytes, now: Instant) -> Tombstone | None:
        """Return how a session ended, or None if nothing is known of it."""
        stone = self._stones.get(sid)
        if stone is None or now.elapsed - stone.ended >= TOMBSTONE_LIFE:
            return None
        return stone

    def memory(self, now: Instant) -> float:
        """Return for how many seconds back every end is still remembered.

        That is the age of the server or, if one was dropped for want of room, of the youngest dropped one.
        """
        return max(0.0, min(now.elapsed - self._began, TOMBSTONE_LIFE))

    def _forget_old(self, elapsed: float) -> None:
        stones = self._stones
        while stones and elapsed - next(iter(stones.values())).ended >= TOMBSTONE_LIFE:
            stones.popitem(last=False)
