"""Packet numbers, and what the server is told of them: FLOOR and LOST (SPEC 8.3, 9.2, 9.3)."""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Final

from transports.soar.core.streams.frames import (
    MAX_LOST,
    MAX_LOST_MAP,
    FrameType,
    Lost,
    LostMap,
    encode_frame,
)
from transports.soar.core.varint import encode

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ("FLOOR_EVERY", "MOST_NUMBERS", "MOST_OUTSTANDING", "PacketNumbers")

FLOOR_EVERY: Final = 16
"""After so many packets that are full of other things the floor is told all the same."""

MOST_OUTSTANDING: Final = 8192
"""How far numbers may be above the floor that the server knows (SPEC 8.7)."""
MOST_NUMBERS: Final = 1 << 32
"""How many packets a session sends before it takes no new stream (SPEC 14.7)."""

_FLOOR: Final = bytes((FrameType.FLOOR,))
_LEAST_FOR_FRAMES: Final = 8
# What only polls may use, a few at a time: without them nothing could be reported, and the floor would stay for ever.
_RESERVE: Final = 4096


class PacketNumbers:
    """The numbers of one session.

    A number is *settled* when its authentic answer has come, or when the packet of a LOST frame that names it was
    answered.

    Attributes:
        next: the number of the next packet.
        floor: all numbers below are settled.
        confirmed: the highest floor that the server is known to have read.
        to_report: losses that the server has not been told of, and some that need not be reported any more, as a heap:
            the lowest number holds the floor down, and with it all others.
        told_at: the last packet that told the floor.
    """

    __slots__ = (
        "_again",
        "_open",
        "_waiting",
        "confirmed",
        "floor",
        "next",
        "to_report",
        "told_at",
    )

    def __init__(self) -> None:
        self.next = 0
        self.floor = 0
        self.confirmed = 0
        self.told_at = 0
        self._open: set[int] = set()
        self.to_report: list[int] = []
        self._waiting: set[int] = (
            set()
        )  # what is in it: once each, or what is lost again and again would fill it
        self._again: deque[int] = deque()

    @property
    def unsaid(self) -> int:
        """How many numbers the server could forget, but hasn't been heard to."""
        return self.floor - self.confirmed

    @property
    def is_full(self) -> bool:
        """Whether packets have to wait that are not polls."""
        return self.next - self.confirmed >= MOST_OUTSTANDING - _RESERVE

    @property
    def is_exhausted(self) -> bool:
        """Whether no packet may be sent at all."""
        return self.next - self.confirmed >= MOST_OUTSTANDING

    def take(self) -> int:
        """Return the next number; it is then outstanding."""
        number = self.next
        self.next = number + 1
        self._open.add(number)
        return number

    def settle(self, number: int) -> None:
        """Take `number` as settled."""
        outstanding = self._open
        outstanding.discard(number)
        floor = self.floor
        if number == floor:
            end = self.next
            while floor < end and floor not in outstanding:
                floor += 1
            self.floor = floor

    def lost(self, number: int) -> None:
        """Have `number` reported."""
        if number in self._open and number not in self._waiting:
            self._waiting.add(number)
            heapq.heappush(self.to_report, number)

    def lose_all_but(self, kept: set[int]) -> None:
        """Have everything reported that is not settled, but for `kept`."""
        for number in sorted(self._open - kept):
            self.lost(number)

    def told(self, floor: int, reports: Iterable[int]) -> None:
        """Take what an answered packet said as heard."""
        self.confirmed = max(self.confirmed, floor)
        for number in reports:
            self.settle(number)

    def untold(self, reports: Iterable[int]) -> None:
        """Have said again what a lost packet said."""
        for number in reports:
            self.lost(number)

    def tell(
        self, out: bytearray, number: int, room: int, *, is_poll: bool
    ) -> tuple[int, tuple[int, ...]]:
        """Append what packet `number` is to say of others; return the floor, -1 if it isn't said, and the losses."""
        floor = -1
        if self.floor > self.confirmed and (is_poll or number - self.told_at >= FLOOR_EVERY):
            floor = self.floor
            out += _FLOOR + encode(number - floor)
        if not self.to_report:
            return floor, ()
        left = room - len(out)
        if not is_poll:
            left -= _LEAST_FOR_FRAMES  # or what was lost would wait for the news of its loss
        if len(self.to_report) > MAX_LOST:
            return floor, self._map(out, number, left)
        reports = self.reports(number, left)
        if reports:
            out += encode_frame(Lost(tuple(number - lost for lost in reports)))
        return floor, reports

    def _map(self, out: bytearray, number: int, room: int) -> tuple[int, ...]:
        """Append a LOST_MAP of packet `number`, at most `room` octets, from the lowest number on; return what it says.

        A name of one label has room for five numbers one by one, and for eighty so.
        """
        heap = self.to_report
        while heap and heap[0] not in self._open:
            self._waiting.discard(heapq.heappop(heap))
        octets = min(MAX_LOST_MAP - 1, room - 2 - _octets(number - heap[0])) if heap else 0
        if octets <= 0:
            return ()
        first = heap[0]
        bits = bytearray(octets)
        said: list[int] = []
        while heap and (place := heap[0] - first) < 8 * octets:
            lost = heapq.heappop(heap)
            self._waiting.discard(lost)
            if lost in self._open:
                bits[place >> 3] |= 0x80 >> (place & 7)
                said.append(lost)
        out += encode_frame(LostMap(number - first, bytes(bits).rstrip(b"\0")))
        return tuple(said)

    def reports(self, number: int, room: int) -> tuple[int, ...]:
        """Return losses for a LOST frame of packet `number` and at most `room` octets, and take them as said.

        Each is said in two packets, so that one more loss costs no time.
        """
        if not (self.to_report or self._again):
            return ()
        room -= 2  # type and count
        said: list[int] = []
        heap, again = self.to_report, self._again
        while heap and (room := self._say(heap[0], number, room, said)) >= 0:
            self._waiting.discard(heapq.heappop(heap))
        first = tuple(said)
        while again and room >= 0 and (room := self._say(again[0], number, room, said)) >= 0:
            again.popleft()
        again.extend(first)
        return tuple(said)

    def _say(self, lost: int, number: int, room: int, said: list[int]) -> int:
        """Add `lost` to `said` if it is to be said; return the room that is left, below 0 if there is none for it."""
        if lost not in self._open or lost in said:
            return room
        room -= _octets(number - lost)
        if room >= 0 and len(said) < MAX_LOST:
            said.append(lost)
            return room
        return -1


def _octets(value: int) -> int:
    """Return how many octets `value` takes as a varint."""
    return 1 if value < 0x40 else 2 if value < 0x4000 else 4
