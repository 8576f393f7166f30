"""When a request goes on to another route, and what its caller gets in the end (H2, H3, H4). No IO, no clock."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Container

    from racer.http._messages import Response, Via
    from racer.http2._fault import Fault

__all__ = ("PATIENCE", "RETRY_METHODS", "RETRY_STATUSES", "Fallback", "Held", "Step")

RETRY_METHODS: Final = frozenset({b"GET", b"HEAD", b"OPTIONS", b"TRACE"})
"""Methods that may be sent again by another route without being marked (RFC 9110 §9.2.1: the safe ones)."""

RETRY_STATUSES: Final = range(500, 600)
"""Statuses that may be the route's fault, and not the origin's word."""

PATIENCE: Final = 15.0
"""Seconds a route has to give a response's head, unless it is the last (H4)."""


class Step(enum.Enum):
    """What to do next."""

    GIVE = "give"
    """The response is the caller's."""
    HOLD = "hold"
    """Keep the response, and ask another route."""
    NEXT = "next"
    """Ask another route."""
    AGAIN = "again"
    """Ask the same route, on a new connection: the old one had only been idle for too long."""
    RAISE = "raise"
    """The fault is the caller's."""
    GIVE_HELD = "give_held"
    """The response held last is the caller's."""


@dataclass(frozen=True, slots=True)
class Held:
    """A response that may yet be the best there is, and by which way it came."""

    response: Response
    via: Via


@dataclass(slots=True, kw_only=True)
class Fallback:
    """The course of one request over the routes there are.

    Attributes:
        idempotent: whether it may be sent more than once.
        retry_statuses: statuses that another route may better.
        last_good: the route that last worked for the origin, before this request.
        tried: routes that are not asked again, with what became of each: a status or a fault.
        held: the newest response that another route may better.
    """

    idempotent: bool
    retry_statuses: Container[int] = RETRY_STATUSES
    last_good: str | None = None
    tried: dict[str, int | Fault] = field(default_factory=dict)
    held: Held | None = None
    _stale: set[str] = field(default_factory=set)

    def patience(self, read: float | None, *, is_last: bool) -> float | None:
        """Return the seconds a route has for a response's head; `None` for no such bound (H4)."""
        if is_last or not self.idempotent:
            return None
        return PATIENCE if read is None else min(PATIENCE, read)

    def after_response(
        self, route: str, response: Response, *, repeatable: bool, is_last: bool
    ) -> Step:
        """Return what to do with a response (H2, H3).

        Args:
            route: whose it is.
            response: its head is here.
            repeatable: whether the request's body can be sent again.
            is_last: whether no other route is left.
        """
        status = response.status
        if not self.idempotent or not repeatable or status not in self.retry_statuses:
            return Step.GIVE
        if self.agreed(status):
            return Step.GIVE  # two routes agree: it is the server's own word
        if is_last and not self.is_outranked:
            return Step.GIVE
        self.tried[route] = status
        return Step.HOLD

    def after_fault(self, fault: Fault, *, repeatable: bool) -> Step:
        """Return what to do after a fault, as `after_response`."""
        route = fault.transport
        if fault.kind in {"LocalProtocolError", "UnsupportedProtocol"}:
            return Step.RAISE  # the request itself is wrong, wherever it goes
        may_repeat = repeatable and (self.idempotent or not fault.sent)
        if not may_repeat:
            self.tried[route] = fault
            return Step.RAISE
        was_stale = fault.unprocessed or (fault.reused and fault.silent and not fault.is_timeout)
        if was_stale and route not in self._stale:
            # It was closed, or going away, while it was idle: that says nothing about the route. Once.
            self._stale.add(route)
            return Step.AGAIN
        self.tried[route] = fault
        return Step.NEXT

    def is_fresh_only(self, route: str) -> bool:
        """Return whether the route's pooled connections are not to be trusted any more."""
        return route in self._stale

    def after_last(self) -> Step:
        """Return what to do when no route is left: a held response, or the error."""
        return Step.RAISE if self.held is None or self.is_outranked else Step.GIVE_HELD

    @property
    def is_outranked(self) -> bool:
        """Whether the route that last worked was only slow: what a broken one says then is no answer (H4)."""
        fate = None if self.last_good is None else self.tried.get(self.last_good)
        return fate is not None and not isinstance(fate, int) and fate.is_timeout

    def agreed(self, status: int) -> list[str]:
        """Return the routes that gave that status."""
        return [route for route, fate in self.tried.items() if fate == status]
