"""What waits to be exported: bounded, counted, and added to without a lock, so that no dial ever waits for it."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

__all__ = ("Outbox",)

_T = TypeVar("_T")


class Outbox(Generic[_T]):
    """A queue of one signal's items, from any thread to the one that exports.

    When it is full the oldest gives way: what happened last says most about what goes wrong now.

    Attributes:
        capacity: items that wait at most.
        batch: items that leave together at most.
        exported: items that somebody took.
        lost: items that nobody took.
        overflowed: items for which there was no room. Where several threads add at once, one may go uncounted.
    """

    def __init__(self, *, capacity: int, batch: int) -> None:
        """Begin empty."""
        self.capacity = capacity
        self.batch = batch
        self.exported = 0
        self.lost = 0
        self.overflowed = 0
        self._items: deque[_T] = deque(maxlen=capacity)

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._items)

    def put(self, item: _T) -> bool:
        """Add an item; return whether a whole batch has come together."""
        items = self._items
        if len(items) == self.capacity:
            self.overflowed += 1
        items.append(item)
        return len(items) >= self.batch

    def take(self) -> list[_T]:
        """Return the oldest items, a batch of them at most; by one thread only."""
        return [self._items.popleft() for _ in range(min(self.batch, len(self._items)))]

    def settle(self, items: int, *, taken: bool) -> None:
        """Note what became of items: somebody took them, or they are lost."""
        if taken:
            self.exported += items
        else:
            self.lost += items

    def clear(self) -> int:
        """Forget what waits; return how many they were. They are not counted as lost."""
        items = len(self._items)
        self._items.clear()
        return items
