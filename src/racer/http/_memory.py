"""What is known of the routes to an origin: which worked last, and which did not do (H6). No IO, no clock of its own."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from racer.http._messages import Origin

__all__ = ("DOUBT", "MAX_ORIGINS", "RouteMemory")

DOUBT: Final = 60.0
"""Seconds that a route which did not do for an origin comes last for it."""

MAX_ORIGINS: Final = 1_000
"""Origins that are remembered; the one that was not needed for longest is forgotten first."""


class RouteMemory:
    """Remembers for each origin when a route last worked, and until when it is in doubt."""

    def __init__(self) -> None:
        """Know nothing."""
        self._origins: OrderedDict[Origin, _Known] = OrderedDict()

    def worked(self, origin: Origin, route: str) -> None:
        """Learn that the route gave a final answer: it comes first from now on."""
        known = self._known(origin)
        known.doubted.pop(route, None)
        known.count += 1
        known.worked[route] = known.count
        known.last = route

    def failed(self, origin: Origin, route: str, now: float) -> None:
        """Learn that the route did not do: it comes last for a while."""
        self._known(origin).doubted[route] = now + DOUBT

    def is_doubted(self, origin: Origin, route: str, now: float) -> bool:
        """Return whether others should be tried before the route."""
        known = self._origins.get(origin)
        return known is not None and known.doubted.get(route, now) > now

    def doubted(self, origin: Origin, now: float) -> frozenset[str]:
        """Return the routes that come last."""
        known = self._origins.get(origin)
        if known is None or not known.doubted:
            return frozenset()
        known.doubted = {route: until for route, until in known.doubted.items() if until > now}
        return frozenset(known.doubted)

    def last_good(self, origin: Origin) -> str | None:
        """Return the route that worked last; `None` when none has."""
        known = self._origins.get(origin)
        return None if known is None else known.last

    def rank(self, origin: Origin, route: str, now: float) -> tuple[bool, int]:
        """Return a key by which the best route sorts first."""
        known = self._origins.get(origin)
        if known is None:
            return (False, 0)
        return (known.doubted.get(route, now) > now, -known.worked.get(route, 0))

    def forget(self, origin: Origin, routes: Iterable[str]) -> None:
        """Take doubts back: what they were blamed for was the server's own word."""
        known = self._origins.get(origin)
        if known is not None:
            for route in routes:
                known.doubted.pop(route, None)

    def _known(self, origin: Origin) -> _Known:
        known = self._origins.get(origin)
        if known is None:
            known = self._origins[origin] = _Known()
            if len(self._origins) > MAX_ORIGINS:
                self._origins.popitem(last=False)
        else:
            self._origins.move_to_end(origin)
        return known


class _Known:
    __slots__ = ("count", "doubted", "last", "worked")

    def __init__(self) -> None:
        self.count = 0
        self.worked: dict[str, int] = {}
        self.doubted: dict[str, float] = {}
        self.last: str | None = None
