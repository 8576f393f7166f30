"""How many lines a program writes about things that go wrong, however often they do. Pure."""

from __future__ import annotations

__all__ = ("Ration",)


class Ration:
    """Lets a few lines through at once, and then one for each span of time.

    Args:
        burst: how many at once.
        every: seconds after which there may be one more.

    Attributes:
        left_out: how many were not let through since the last that was.
    """

    def __init__(self, *, burst: int, every: float) -> None:
        """Begin with all of them."""
        self._burst = burst
        self._every = every
        self._left = float(burst)
        self._asked_at: float | None = None
        self.left_out = 0

    def ask(self, now: float) -> int | None:
        """Return how many were left out before this one, or `None` if this one is left out too."""
        if self._asked_at is not None:
            self._left = min(self._burst, self._left + (now - self._asked_at) / self._every)
        self._asked_at = now
        if self._left < 1:
            self.left_out += 1
            return None
        self._left -= 1
        left_out, self.left_out = self.left_out, 0
        return left_out
