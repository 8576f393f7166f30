"""Packet numbers, and what the server is told of them: FLOOR and LOST (SPEC 8.3, 9.2, 9.3)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ("MOST_NUMBERS", "MOST_OUTSTANDING", "MOST_REPORTS", "PacketNumbers")

MOST_OUTSTANDING: Final = 8192
"""How far numbers may be above the floor that the server knows (SPEC 8.7)."""
MOST_REPORTS: Final = 32
"""Entries of one LOST frame."""
MOST_NUMBERS: Final = 1 << 32
"""How many packets a session sends before it takes no new stream (SPEC 14.7)."""

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
        to_report: losses that the server has not been told of, and some that need not be reported any more.
    """

    __slots__ = ("_again", "_open", "confirmed", "floor", "next", "to_report")

    def __init__(self) -> None:
        self.next = 0
        self.floor = 0
        self.confirmed = 0
        self._open: set[int] = set()
        self.to_report: deque[int] = deque()
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
        if number in self._open:
            self.to_report.append(number)

    def told(self, floor: int, reports: Iterable[int]) -> None:
        """Take what an answered packet said as heard."""
        self.confirmed = max(self.confirmed, floor)
        for number in reports:
            self.settle(number)

    def untold(self, reports: Iterable[int]) -> None:
        """Have said again what a lost packet said."""
        for number in reports:
            self.lost(number)

    def reports(self, number: int, room: int) -> tuple[int, ...]:
        """Return losses for a LOST frame of packet `number` and at most `room` octets, and take them as said.

        Each is said in two packets, so that one more loss costs no time.
        """
        if not (self.to_report or self._again):
            return ()
        room -= 2  # type and count
        said: list[int] = []
        room = self._say(self.to_report, number, room, said)
        first = tuple(said)
        self._say(self._again, number, room, said)
        self._again.extend(first)
        return tuple(said)

    def _say(self, queue: deque[int], number: int, room: int, said: list[int]) -> int:
        """Move to `said` what fits of `queue`; return the room that is left."""
        while queue and len(said) < MOST_REPORTS:
            lost = queue[0]
            if lost in self._open and lost not in said:
                octets = _octets(number - lost)
                if octets > room:
                    break
                room -= octets
                said.append(lost)
            queue.popleft()
        return room


def _octets(value: int) -> int:
    """Return how many octets `value` takes as a varint."""
    return 1 if value < 0x40 else 2 if value < 0x4000 else 4
