"""How steadily octets go on: the longest pause of each dial."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.transports.soar.sim.world import World

__all__ = ("Paces",)


class Paces:
    """When octets of each target last came anywhere, by its name; both ends tell."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._last: dict[str, float] = {}
        self._longest: dict[str, float] = {}

    def note(self, name: str) -> None:
        """Note that octets have come, or that they might from now on."""
        now = self._world.time
        self._longest[name] = max(self.longest(name), now - self._last.get(name, now))
        self._last[name] = now

    def longest(self, name: str) -> float:
        """Return the longest pause so far between two such moments, in seconds."""
        return self._longest.get(name, 0.0)
