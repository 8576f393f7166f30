"""One direction's octets from the writer to their acknowledgement, in whatever order that comes."""

from __future__ import annotations

from typing import Final

from racer.errors import LocalProtocolError
from transports.soar.core.streams.ranges import RangeSet

__all__ = ("MAX_WAITING", "MOST_WAITING", "SendBuffer")

MAX_WAITING: Final = 256 * 1024
"""Octets of a stream that may wait for their first sending (SPEC 10.4)."""
MOST_WAITING: Final = 1024 * 1024
"""The same on a path that has much under way: the peer asks for what waits, so too little waiting would slow it."""


class SendBuffer:
    """Octets that are kept until all before them and they themselves are acknowledged.

    Places count from the stream's first octet: `base` is the first that is not yet acknowledged, `sent` the first that
    was never sent, `end` the first that was never written. What lies between `base` and `sent` is under way,
    acknowledged out of order, or lost and to be sent again.

    Attributes:
        data: the octets from `base` on.
        base: all before it is acknowledged and forgotten.
        sent: all before it was sent at least once.
        fin_at: where the direction ends; -1 while it may still be written to.
        fin_due: whether FIN must be sent (again) though there may be no octets for it to ride on.
        fin_sent: whether FIN was ever sent.
        lost: places that must be sent again.
    """

    __slots__ = (
        "_acked",
        "base",
        "data",
        "fin_acked",
        "fin_at",
        "fin_due",
        "fin_sent",
        "lost",
        "sent",
    )

    def __init__(self) -> None:
        self.data = bytearray()
        self._acked = RangeSet()
        self.base = 0
        self.sent = 0
        self.fin_at = -1
        self.fin_due = False
        self.fin_sent = False
        self.fin_acked = False
        self.lost = RangeSet()

    @property
    def end(self) -> int:
        """Where the octets written so far end."""
        return self.base + len(self.data)

    @property
    def waiting(self) -> int:
        """How many octets were never sent."""
        return self.base + len(self.data) - self.sent

    @property
    def most_waiting(self) -> int:
        """How many octets may wait now: 256 KB, or twice what is under way, up to 1 MB (SPEC 10.4)."""
        return max(MAX_WAITING, min(MOST_WAITING, 2 * (self.sent - self.base)))

    @property
    def kept(self) -> int:
        """How many octets were sent and are still held for a loss."""
        return self.sent - self.base

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take octets in, to be sent after those before.

        Raises:
            LocalProtocolError: FIN was said already.
        """
        if self.fin_at >= 0:
            raise LocalProtocolError("written to after its end")
        self.data += data

    def finish(self) -> None:
        """Say that no octet will follow; FIN rides on the last, or goes alone if that is on its way."""
        if self.fin_at < 0:
            self.fin_at = self.end
            self.fin_due = self.sent == self.fin_at

    def on_acked(self, start: int, stop: int, *, fin: bool) -> int:
        """Note that a packet with these octets, and FIN with them, has arrived; forget what is settled by it.

        Returns:
            by how many octets `base` has moved.
        """
        if fin:
            self.fin_acked = True
            self.fin_due = False
        base = self.base
        if stop <= base:
            return 0
        if self.lost.size:
            self.lost.remove(start, stop)
        if start > base:
            self._acked.add(start, stop)
            return 0
        if self._acked.size:
            stop = self._acked.take(stop)
        del self.data[: stop - base]
        self.base = stop
        return stop - base

    def on_lost(self, start: int, stop: int, *, fin: bool) -> None:
        """Note that a packet with these octets is not known to have arrived; what still matters becomes due."""
        if fin and not self.fin_acked:
            self.fin_due = True
        start = max(start, self.base)
        if start >= stop:
            return
        if self._acked.size:
            for gap in self._acked.gaps(start, stop):
                self.lost.add(*gap)
        else:
            self.lost.add(start, stop)

    def is_open(self, start: int, stop: int, *, fin: bool) -> bool:
        """Return whether one of these octets, or FIN with them, is not known to have arrived."""
        if fin and not self.fin_acked:
            return True
        start = max(start, self.base)
        return start < stop and (not self._acked.size or bool(self._acked.gaps(start, stop)))

    def clear(self) -> None:
        """Forget all octets: none will be sent any more."""
        self.data = bytearray()
        self._acked = RangeSet()
        self.lost = RangeSet()
        self.base = self.sent
        self.fin_due = False
