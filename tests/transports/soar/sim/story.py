"""A whole run as data: the network, and what happens in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.transports.soar.sim import quirks as kinds
from tests.transports.soar.sim.link import Weather

if TYPE_CHECKING:
    from tests.transports.soar.sim.quirks import Quirks

__all__ = ("FAR", "NEAR", "Event", "Story", "Way")

NEAR, FAR = Weather(delay=0.010), Weather(delay=0.025)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A resolver and its links.

    Attributes:
        resolver: its kind.
        near, far: the links on its two sides.
        forged: what an injector on the near side says; nothing for no injector.
        share: of the questions that are forged.
    """

    resolver: Quirks = kinds.UNBOUND
    near: Weather = NEAR
    far: Weather = FAR
    forged: tuple[str, ...] = ()
    share: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happens.

    Attributes:
        at: seconds since the start.
        what: `dial`, `cancel`, `sleep`, `wake`, `move` (new sockets), `rotate` (another credential), of a client;
            `crash`, `start`, `shutdown`, `end`, `revoke` (a client's grant), of the server;
            `cut`, `mend`, `storm`, `calm`, of a resolver.
        target: of a dial.
        octets: that a dial writes (to an echo) or asks for.
        number: of the dial that is cancelled, or of the resolver.
        client: whose event it is.
        eager: the dial writes before its target is connected.
        safe: the dial's octets may be replayed.
    """

    at: float
    what: str
    target: str = ""
    octets: int = 0
    number: int = 0
    client: int = 0
    eager: bool = False
    safe: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One run.

    Attributes:
        seed: of all dice.
        ways: how clients reach the server.
        events: in order of time.
        clients: how many there are.
        zones: of the server, 1 or 2; clients use all.
        uptime: for how long the server has run when it begins.
        skew: by how much the clients' wall clocks are wrong.
        idle_timeout, session_idle: of server and client, seconds.
        grants: the server demands one.
        expires: when the first grant does, seconds since the start; 0 for never.
        warm: clients keep a session warm.
        tail: seconds after the last event by which everything must be over.
    """

    seed: int = 1
    ways: tuple[Way, ...] = (Way(),)
    events: tuple[Event, ...] = ()
    clients: int = 1
    zones: int = 1
    uptime: float = 3600.0
    skew: float = 0.0
    idle_timeout: float = 120.0
    session_idle: float = 90.0
    grants: bool = False
    expires: float = 0.0
    warm: bool = False
    tail: float = 300.0

    @property
    def end(self) -> float:
        """When the last event happens."""
        return max((event.at for event in self.events), default=0.0)

    def has(self, *whats: str) -> bool:
        """Whether anything of that kind happens."""
        return any(event.what in whats for event in self.events)
