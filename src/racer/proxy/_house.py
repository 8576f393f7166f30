"""What all clients of a proxy share, and how whoever runs it hears of those that got nothing."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from racer._target import Target
from racer.errors import ConfigError
from racer.proxy._listening import is_own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import anyio

    from racer._dialer import Dialer
    from racer._race import Race
    from racer._report import RaceReport
    from racer.proxy._tally import ProxyStatus, Tally
    from racer.proxy._users import Users

__all__ = ("Failure", "House", "Moving")

logger = logging.getLogger("racer.proxy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a client got nothing, for whoever runs the proxy.

    Attributes:
        target: `host:port`, as far as the client came to say it.
        words: one line for a person; no secret.
        details: a line for each entrant of the race, if there was one.
    """

    target: str | None
    words: str
    details: tuple[str, ...] = ()


class Moving(Protocol):
    """What carries bytes, and is ended when it has carried none for too long.

    Attributes:
        moved_at: when it last carried something, on the loop's clock.
        scope: cancelling it ends it.
    """

    moved_at: float
    scope: anyio.CancelScope


@dataclass(slots=True, kw_only=True)
class House:
    """What all clients of a proxy share.

    Attributes:
        dialer: who races.
        users: who may come.
        tally: what is counted.
        address: where the proxy listens; `None` if it does not.
        pages: whether `/readyz` and `/metrics` are served.
        handshake_timeout: seconds a client has to say what it wants.
        status: gives the proxy's status.
        is_full: says whether there are as many clients as may be.
        is_stopping: whether clients are asked to leave after what they are at.
        on_failure: is told of each client that got nothing.
        moving: what carries bytes now.
        races: those under way for tunnels, by target.
    """

    dialer: Dialer
    users: Users
    tally: Tally
    address: tuple[str, int] | None
    pages: bool
    handshake_timeout: float
    status: Callable[[], ProxyStatus]
    is_full: Callable[[], bool]
    on_failure: Callable[[Failure], None] | None
    is_stopping: bool = False
    moving: set[Moving] = field(default_factory=set)
    races: dict[Target, set[Race]] = field(default_factory=dict)

    def fail(self, failure: Failure) -> None:
        """Tell whoever runs the proxy; what goes wrong in telling hurts no client."""
        if self.on_failure is not None:
            try:
                self.on_failure(failure)
            except Exception:
                logger.exception("on_failure failed")

    def is_itself(self, target: Target) -> bool:
        """Return whether a target is the proxy itself."""
        return self.address is not None and is_own(target, self.address)

    @contextmanager
    def racing_for(
        self, target: Target, exclude: Mapping[str, str] | None = None
    ) -> Iterator[Race]:
        """Yield a race to `target`, to be run while the block lasts.

        Args:
            target: where to.
            exclude: entrants that take no part, and why.

        Raises:
            ConfigError: the dialer can race no more.
        """
        race = self.dialer.race(target, exclude=exclude or {})
        others = self.races.setdefault(target, set())
        others.add(race)
        self.tally.racing += 1
        try:
            yield race
        finally:
            self.tally.racing -= 1
            others.discard(race)
            if not others and self.races.get(target) is others:
                del self.races[target]

    def asks_itself(self, target: Target) -> bool:
        """Return whether a race for the same target is asking this very proxy: an entrant is a proxy that leads here.

        Without this each race would begin the next, until no client finds room.
        """
        for race in self.races.get(target, ()):
            try:
                attempts = race.report.attempts
            except RuntimeError:  # not begun
                continue
            running = (attempt for attempt in attempts if attempt.finished_at is None)
            if any(self._is_own_peer(attempt.peer) for attempt in running):
                return True
        return False

    def leads_back(self, report: RaceReport) -> bool:
        """Return whether a race has led to the proxy itself: a name can, whatever it is."""
        return report.winner is not None and self._is_own_peer(report[report.winner].peer)

    def _is_own_peer(self, peer: str | None) -> bool:
        if peer is None:
            return False
        try:
            return self.is_itself(Target.parse(peer, tls=False))
        except ConfigError:  # a guest may call its peer what it likes
            return False
