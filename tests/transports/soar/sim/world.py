"""One virtual clock, one seed, and what happens next."""

from __future__ import annotations

import heapq
import random
from typing import TYPE_CHECKING

from transports.soar.core.instants import Instant

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("Clock", "Timer", "World")

EPOCH = 1_800_000_000.0


class Timer:
    """One thing that will happen, unless it is called off."""

    __slots__ = ("action", "at")

    def __init__(self, at: float, action: Callable[[], None]) -> None:
        self.at = at
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class World:
    """Runs what is due, in order of time and then of asking; the same seed gives the same run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.time = 0.0
        self.steps = 0
        self._queue: list[tuple[float, int, Timer]] = []
        self._asked = 0

    def dice(self, name: str) -> random.Random:
        """Return dice of their own for `name`, so that one part's throws don't change another's."""
        return random.Random(f"{self.seed}/{name}")

    def at(self, when: float, action: Callable[[], None]) -> Timer:
        timer = Timer(max(when, self.time), action)
        self._asked += 1
        heapq.heappush(self._queue, (timer.at, self._asked, timer))
        return timer

    def after(self, delay: float, action: Callable[[], None]) -> Timer:
        return self.at(self.time + delay, action)

    def run(
        self, until: float, *, stop: Callable[[], bool] | None = None, steps: int = 5_000_000
    ) -> bool:
        """Go on until `stop()` holds (then True) or the time has come; a world that never rests is an error."""
        if stop is not None and stop():
            return True
        limit = self.steps + steps
        while self._queue and self._queue[0][0] <= until:
            when, _, timer = heapq.heappop(self._queue)
            if timer.action is None:
                continue
            self.time = when
            self.steps += 1
            assert self.steps < limit, f"no rest after {steps} steps at {self.time:.3f} s"
            timer.action()
            if stop is not None and stop():
                return True
        self.time = max(self.time, until)
        return False


class Clock:
    """The clocks of one machine of the world: it may sleep, and its wall clock may be wrong."""

    def __init__(self, world: World, *, skew: float = 0.0) -> None:
        self._world = world
        self._skew = skew
        self._slept = 0.0
        self._asleep_since: float | None = None

    @property
    def asleep(self) -> bool:
        return self._asleep_since is not None

    def sleep(self) -> None:
        assert self._asleep_since is None
        self._asleep_since = self._world.time

    def wake(self) -> None:
        assert self._asleep_since is not None
        self._slept += self._world.time - self._asleep_since
        self._asleep_since = None

    def now(self) -> Instant:
        time = self._world.time
        return Instant(1000.0 + time, 500.0 + time - self._slept, EPOCH + time + self._skew)

    def due(self, awake: float) -> float:
        """Return the world's time at which the awake clock shows `awake`, if the machine stays awake."""
        return awake - 500.0 + self._slept
