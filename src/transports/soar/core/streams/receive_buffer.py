"""One direction's octets from the wire, put in order for the reader."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from racer.errors import RemoteProtocolError

__all__ = ("MAX_PIECES", "FinalSizeChanged", "ReceiveBuffer", "TooManyPieces")

MAX_PIECES: Final = 4096
"""Pieces of one stream that may wait for octets before them. Resolvers reorder by hundreds (SPEC 2)."""


class FinalSizeChanged(RemoteProtocolError):
    """A peer sent octets behind the end of a direction, or moved that end (SPEC 10.3; RFC 9000 section 4.5)."""


class TooManyPieces(RemoteProtocolError):
    """A peer cut a stream into more pieces, with more gaps, than any path can make of it."""


class ReceiveBuffer:
    """Octets that came in any order, any number of times, cut anywhere; each is kept once.

    What arrives in order is appended to what can be read. What came too early waits as pieces: sorted, disjoint,
    each growing at its tail.

    Attributes:
        data: what can be read; as it came while it is of one packet, which spares it two copies.
        discards: whether nothing is kept.
        next: all before this place has come.
        highest: no octet has come from this place on.
        final_size: where the direction ends; -1 while that is not known.
        consumed: how many octets were read, or will never be.
        pieces: how many pieces wait.
    """

    __slots__ = (
        "_pieces",
        "_starts",
        "consumed",
        "data",
        "discards",
        "final_size",
        "highest",
        "next",
    )

    def __init__(self) -> None:
        self.data: bytes | bytearray = b""
        self._starts: list[int] = []
        self._pieces: list[bytearray] = []
        self.discards = False
        self.next = 0
        self.highest = 0
        self.final_size = -1
        self.consumed = 0

    @property
    def pieces(self) -> int:
        """How many pieces wait for octets before them."""
        return len(self._starts)

    @property
    def has_all(self) -> bool:
        """Whether the end is known and nothing before it is missing, or wanted."""
        return self.final_size >= 0 and (self.discards or self.next == self.final_size)

    def check(self, stop: int, *, fin: bool) -> None:
        """Refuse octets up to `stop` that don't agree with the end of the direction.

        Raises:
            FinalSizeChanged: they don't.
        """
        if self.final_size >= 0:
            if stop > self.final_size or (fin and stop != self.final_size):
                raise FinalSizeChanged(f"a stream of {self.final_size} octets goes on to {stop}")
        elif fin and stop < self.highest:
            raise FinalSizeChanged(f"a stream ends at {stop}, and {self.highest} octets came")

    def receive(self, offset: int, data: bytes) -> int:
        """Take in octets from `offset` on, which `check` has let pass.

        Returns:
            how many pieces more wait than before; below 0 if there are fewer.

        Raises:
            TooManyPieces: there are more than `MAX_PIECES`.
        """
        stop = offset + len(data)
        self.highest = max(self.highest, stop)
        if self.discards:
            self.consumed = self.highest
            return 0
        place = self.next
        if stop <= place:
            return 0
        if offset > place:
            return self._keep(offset, data)
        if offset < place:
            data = data[place - offset :]
        if self.data:
            self._append(data)
        else:
            self.data = data
        self.next = stop
        return self._join() if self._starts else 0

    def read(self, most: int) -> bytes:
        """Return and forget the next octets, at most `most`; none if none can be read."""
        data = self.data
        if most >= len(data):
            self.data = b""
        else:
            if isinstance(data, bytes):
                self.data = data = bytearray(data)
            taken = data[:most]
            del data[:most]
            data = taken
        self.consumed += len(data)
        return bytes(data)

    def peek(self, most: int) -> bytes:
        """Return the next octets, at most `most`, and leave them."""
        return bytes(self.data[:most])

    def discard(self) -> None:
        """Drop what has come, and from now on whatever comes."""
        self.discards = True
        self.data = b""
        self._starts = []
        self._pieces = []
        self.consumed = self.highest

    def end_at(self, final_size: int) -> None:
        """Drop all: the direction ended early, after `final_size` octets, which `check` has let pass."""
        self.final_size = self.highest = final_size
        self.discard()

    def _keep(self, offset: int, data: bytes) -> int:
        """Put what came too early between the pieces, without what they already have."""
        starts, pieces = self._starts, self._pieces
        before = len(starts)
        stop = offset + len(data)
        at = bisect_right(starts, offset) - 1
        if at >= 0:
            offset = max(offset, starts[at] + len(pieces[at]))
        while offset < stop:
            # The next piece, if any, begins at or behind `offset`.
            following = starts[at + 1] if at + 1 < len(starts) else stop
            upto = min(stop, following)
            if upto > offset:
                part = data[len(data) - (stop - offset) : len(data) - (stop - upto)]
                if at >= 0 and starts[at] + len(pieces[at]) == offset:
                    pieces[at] += part
                else:
                    at += 1
                    starts.insert(at, offset)
                    pieces.insert(at, bytearray(part))
            if upto == stop:
                break
            at += 1
            offset = starts[at] + len(pieces[at])
        if len(starts) > MAX_PIECES:
            raise TooManyPieces(f"a stream waits in {len(starts)} pieces")
        return len(starts) - before

    def _append(self, data: bytes | bytearray) -> None:
        """Put octets behind what can be read."""
        if isinstance(self.data, bytes):
            self.data = bytearray(self.data)
        self.data += data

    def _join(self) -> int:
        """Append the pieces that now are in order to what can be read."""
        starts, pieces = self._starts, self._pieces
        joined = 0
        for start, piece in zip(starts, pieces, strict=True):
            if start > self.next:
                break
            stop = start + len(piece)
            if stop > self.next:
                self._append(piece if start == self.next else piece[self.next - start :])
                self.next = stop
            joined += 1
        if joined:
            del starts[:joined]
            del pieces[:joined]
        return -joined
