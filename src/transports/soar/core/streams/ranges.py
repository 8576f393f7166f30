"""A set of octets' places, kept as few ranges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("RangeSet",)


class RangeSet:
    """Integers as half-open ranges: sorted, apart, never touching.

    Adding and removing cost a binary search and a move of a short list. `size` is how many integers are in it.
    """

    __slots__ = ("_starts", "_stops", "size")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __len__(self) -> int:
        """Return the number of ranges."""
        return len(self._starts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._stops, strict=True)

    def __contains__(self, value: int) -> bool:
        at = bisect_right(self._starts, value) - 1
        return at >= 0 and value < self._stops[at]

    def first(self) -> tuple[int, int]:
        """Return the lowest range.

        Raises:
            IndexError: there is none.
        """
        return self._starts[0], self._stops[0]

    def add(self, start: int, stop: int) -> None:
        """Put every integer from `start` up to, not with, `stop` into the set."""
        if start >= stop:
            return
        starts, stops = self._starts, self._stops
        if stops and stops[-1] == start:  # most often it goes on where the last one ends
            stops[-1] = stop
            self.size += stop - start
            return
        low = bisect_left(stops, start)  # the first range that reaches `start`
        high = bisect_right(starts, stop)  # past the last that begins at or before `stop`
        if low < high:
            start = min(start, starts[low])
            stop = max(stop, stops[high - 1])
            self.size -= sum(stops[low:high]) - sum(starts[low:high])
        starts[low:high] = [start]
        stops[low:high] = [stop]
        self.size += stop - start

    def remove(self, start: int, stop: int) -> None:
        """Take every integer from `start` up to, not with, `stop` out of the set."""
        starts, stops = self._starts, self._stops
        low = bisect_right(stops, start)  # the first range that goes on past `start`
        high = bisect_left(starts, stop)  # past the last that begins before `stop`
        if low >= high or start >= stop:
            return
        left = starts[low], min(start, stops[low])
        right = max(stop, starts[high - 1]), stops[high - 1]
        kept = [r for r in (left, right) if r[0] < r[1]]
        self.size -= sum(stops[low:high]) - sum(starts[low:high])
        self.size += sum(b - a for a, b in kept)
        starts[low:high] = [a for a, _ in kept]
        stops[low:high] = [b for _, b in kept]

    def take(self, place: int) -> int:
        """Return `place`, or the end of the range that holds or touches it; take all up to there out of the set."""
        starts, stops = self._starts, self._stops
        while starts and starts[0] <= place:
            place = max(place, stops[0])
            self.size -= stops[0] - starts[0]
            del starts[0], stops[0]
        return place

    def gaps(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the ranges between `start` and `stop` that are not in the set."""
        found: list[tuple[int, int]] = []
        starts, stops = self._starts, self._stops
        at = bisect_right(stops, start)
        while start < stop and at < len(starts) and starts[at] < stop:
            if start < starts[at]:
                found.append((start, starts[at]))
            start = stops[at]
            at += 1
        if start < stop:
            found.append((start, stop))
        return found
