"""Which connection a request gets, and who waits for whom. No IO, no clock of its own; every method is synchronous.

A request asks with a `Ticket`, which is granted a place on a connection (`Entry`), or leave to make one (`Permit`). What a
ticket was granted is given back by one synchronous call, so that no cancellation keeps it.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from racer.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from racer._report import RaceReport
    from racer.http._memory import RouteMemory
    from racer.http._messages import Origin, Request, Response

__all__ = ("Entry", "Limits", "Permit", "Pool", "ProtocolConnection", "Ticket")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many connections there may be; the names are httpx's.

    Attributes:
        max_connections: open at once, to all origins; `None` for no limit.
        max_keepalive_connections: idle at once; `None` for no limit.
        keepalive_expiry: seconds an idle one is kept; `None` for as long as the peer lets it be.
    """

    max_connections: int | None = 100
    max_keepalive_connections: int | None = 20
    keepalive_expiry: float | None = 60.0

    def __post_init__(self) -> None:
        """Refuse what no pool could obey."""
        for name, least in (("max_connections", 1), ("max_keepalive_connections", 0)):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < least):
                msg = f"{name} must be None or a whole number of at least {least}, not {value!r}"
                raise ConfigError(msg)
        expiry = self.keepalive_expiry
        if expiry is not None and (type(expiry) not in {int, float} or not expiry >= 0):
            msg = f"keepalive_expiry must be None or seconds of at least 0, not {expiry!r}"
            raise ConfigError(msg)


class ProtocolConnection(Protocol):
    """A connection that speaks HTTP, as the pool and an exchange see it.

    Attributes:
        transport_name: the entrant that won it.
    """

    transport_name: str

    @property
    def report(self) -> RaceReport:
        """The race that it won."""

    @property
    def max_requests(self) -> int:
        """How many requests may be under way at once; 0 when it takes no more."""

    def is_alive(self) -> bool:
        """Return whether it can take a request now; no IO that waits."""

    def become_idle(self) -> None:
        """Learn that nobody uses it for now."""

    def abort(self) -> None:
        """Close; synchronous."""

    async def exchange(
        self, request: Request, patience: float | None, done: Callable[[bool], None]
    ) -> Response:
        """Send a request and return its response."""


class Entry:
    """A connection in the pool.

    Attributes:
        connection: what it is.
        origin: what it is good for.
        in_use: requests under way.
        served: requests begun.
        is_pooled: whether it counts, and may be given to others.
    """

    __slots__ = ("connection", "idle_since", "in_use", "is_idle", "is_pooled", "origin", "served")

    def __init__(self, connection: ProtocolConnection, origin: Origin) -> None:
        """Begin in use by who made it."""
        self.connection = connection
        self.origin = origin
        self.in_use = 1
        self.served = 0
        self.idle_since = 0.0
        self.is_idle = False
        self.is_pooled = True


class Permit:
    """Leave to make one connection; it counts until it is turned into one or given up."""

    __slots__ = ("is_leader", "origin")

    def __init__(self, origin: Origin, *, is_leader: bool) -> None:
        """Say whether others wait for what becomes of it."""
        self.origin = origin
        self.is_leader = is_leader


class Ticket:
    """A request for a connection.

    Attributes:
        grant: what it was given; `None` while it waits.
        wake: called when it is given something after having waited.
    """

    __slots__ = ("exclude", "fresh_only", "grant", "is_withdrawn", "origin", "wake")

    def __init__(self, origin: Origin, exclude: frozenset[str], fresh_only: frozenset[str]) -> None:
        """Say what is wanted."""
        self.origin = origin
        self.exclude = exclude
        self.fresh_only = fresh_only
        self.grant: Entry | Permit | None = None
        self.is_withdrawn = False
        self.wake: Callable[[], None] | None = None

    @property
    def key(self) -> tuple[Origin, frozenset[str], frozenset[str]]:
        """What tickets have in common that want the same."""
        return self.origin, self.exclude, self.fresh_only


class _Leading(enum.Enum):
    """Whether a race for an origin's first connection is one that others should wait for (H6)."""

    UNKNOWN = "unknown"
    ALONE = "alone"
    TOGETHER = "together"


class _OriginState:
    __slots__ = ("entries", "leading", "makes")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.leading = _Leading.UNKNOWN
        self.makes = 0


_Key = tuple["Origin", frozenset[str], frozenset[str]]


class Pool:
    """All connections of one transport.

    Args:
        limits: how many.
        memory: which route comes first.
        may_multiplex: whether connections to an origin could turn out to take many requests, so that the first race is
            worth waiting for.
    """

    def __init__(
        self, limits: Limits, memory: RouteMemory, may_multiplex: Callable[[Origin], bool]
    ) -> None:
        """Begin empty."""
        self._limits = limits
        self._memory = memory
        self._may_multiplex = may_multiplex
        self._origins: dict[Origin, _OriginState] = {}
        self._waiting: dict[_Key, deque[Ticket]] = {}
        self._waits = 0
        self._count = 0
        self._idle = 0
        self._closed = False
        # Aborted last: what an abort tells its listeners may lead back here.
        self._doomed: list[ProtocolConnection] = []

    # --- what there is ------------------------------------------------------------------------

    @property
    def connections(self) -> int:
        """How many connections count: open, or being made."""
        return self._count

    @property
    def idle(self) -> int:
        """How many of them nobody uses."""
        return self._idle

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return self._waits

    @property
    def in_use(self) -> int:
        """How many requests are under way on pooled connections."""
        return sum(entry.in_use for entry in self._entries())

    def _entries(self) -> Iterator[Entry]:
        for state in self._origins.values():
            yield from state.entries

    # --- asking -------------------------------------------------------------------------------

    def ask(self, ticket: Ticket, now: float) -> None:
        """Grant what the ticket wants, now or later."""
        if not self._serve(ticket, now):
            self._waiting.setdefault(ticket.key, deque()).append(ticket)
            self._waits += 1
        self._bury()

    def withdraw(self, ticket: Ticket, now: float) -> None:
        """Take a ticket back, and whatever it was granted."""
        grant, ticket.grant = ticket.grant, None
        if isinstance(grant, Permit):
            self.give_up(grant, now, failed=False)
        elif grant is not None:
            self.release(grant, now, reusable=True)
        elif not ticket.is_withdrawn:
            ticket.is_withdrawn = True  # and left where it stands, unless it is first
            self._waits -= 1
            queue = self._waiting.get(ticket.key, deque())
            while queue and queue[0].is_withdrawn:
                queue.popleft()
            if not queue:
                self._waiting.pop(ticket.key, None)

    def _serve(self, ticket: Ticket, now: float) -> bool:
        state = self._origins.setdefault(ticket.origin, _OriginState())
        if (entry := self._best(state, ticket, now)) is not None:
            self._be_idle(entry, idle=False)
            entry.in_use += 1
            ticket.grant = entry
            return True
        leads = state.leading is not _Leading.TOGETHER and self._may_multiplex(ticket.origin)
        if (state.makes and leads) or not self._make_room():
            self._forget_if_empty(ticket.origin)
            return False
        self._origins[ticket.origin] = (
            state  # it was forgotten if its last connection has just been dropped
        )
        self._count += 1
        state.makes += 1
        if leads:
            state.leading = _Leading.ALONE
        ticket.grant = Permit(ticket.origin, is_leader=leads)
        return True

    def _best(self, state: _OriginState, ticket: Ticket, now: float) -> Entry | None:
        """Return the connection the ticket gets: of the best route, and of those the one used last."""
        while state.entries:
            found: Entry | None = None
            best: tuple[bool, int] | None = None
            for entry in reversed(state.entries):
                route = entry.connection.transport_name
                if route in ticket.exclude or entry.in_use >= entry.connection.max_requests:
                    continue
                if entry.served and route in ticket.fresh_only:
                    continue
                rank = self._memory.rank(ticket.origin, route, now)
                if best is None or rank < best:
                    found, best = entry, rank
            if found is None or (not self._is_expired(found, now) and found.connection.is_alive()):
                return found
            self._drop(found)
        return None

    def _make_room(self) -> bool:
        """Return whether one more connection may be made; an idle one makes room when there is no other."""
        most = self._limits.max_connections
        if most is None or self._count < most:
            return True
        if not self._idle:
            return False
        self._drop(min(self._idle_entries(), key=lambda entry: entry.idle_since))
        return True

    # --- what becomes of grants ---------------------------------------------------------------

    def add(self, permit: Permit, connection: ProtocolConnection, now: float) -> Entry:
        """Return the entry of a connection that was made by leave of `permit`, in use by who made it."""
        state = self._origins[permit.origin]
        state.makes -= 1
        entry = Entry(connection, permit.origin)
        if self._closed:  # the transport ended meanwhile: it serves this request, and nobody after
            self._count -= 1
            entry.is_pooled = False
            self._forget_if_empty(permit.origin)
            return entry
        state.entries.append(entry)
        multiplexed = connection.max_requests > 1
        state.leading = _Leading.UNKNOWN if multiplexed else _Leading.TOGETHER
        self._serve_waiting(now)
        return entry

    def give_up(self, permit: Permit, now: float, *, failed: bool) -> None:
        """Take back a permit from which no connection came.

        Args:
            permit: what is returned.
            now: the time.
            failed: whether its race failed: then those who waited race side by side, rather than fail one by one. After
                a cancellation the next of them leads.
        """
        state = self._origins[permit.origin]
        state.makes -= 1
        self._count -= 1
        if permit.is_leader:
            state.leading = _Leading.TOGETHER if failed else _Leading.UNKNOWN
        self._serve_waiting(now)
        self._forget_if_empty(permit.origin)

    def release(self, entry: Entry, now: float, *, reusable: bool) -> None:
        """Take back a place on a connection."""
        entry.in_use -= 1
        if not entry.in_use:
            if not entry.is_pooled:
                entry.connection.abort()
            elif not reusable or not entry.connection.max_requests:
                self._drop(entry)
            else:
                entry.idle_since = now
                self._be_idle(entry, idle=True)
                self._touch(entry)
                most = self._limits.max_keepalive_connections
                if most is not None and self._idle > most:
                    self._drop(min(self._idle_entries(), key=lambda one: one.idle_since))
        self._serve_waiting(now)
        # Only what nobody took at once is idle.
        if entry.is_idle:
            entry.connection.become_idle()

    def detach(self, entry: Entry, now: float) -> None:
        """Let a connection that takes one request at a time no longer count: its response is held, maybe for nobody."""
        if entry.connection.max_requests <= 1:
            self._forget(entry)
            self._serve_waiting(now)

    def changed(self, now: float) -> None:
        """Look again: a connection takes more or fewer requests than before, or died while it was idle."""
        for entry in self._idle_entries():
            if not entry.connection.is_alive():
                self._drop(entry)
        self._serve_waiting(now)

    def expire(self, now: float) -> float | None:
        """Close what was idle for too long; return when to look again, `None` when nothing is idle."""
        for entry in self._idle_entries():
            if self._is_expired(entry, now) or not entry.connection.is_alive():
                self._drop(entry)
        self._serve_waiting(now)
        expiry = self._limits.keepalive_expiry
        left = [entry.idle_since for entry in self._idle_entries()]
        return None if expiry is None or not left else min(left) + expiry

    def close_idle(self) -> None:
        """Close what nobody uses."""
        for entry in self._idle_entries():
            self._drop(entry)
        self._bury()

    def close(self) -> None:
        """Close what is idle now, and everything else when its last request is through."""
        self._closed = True
        for entry in list(self._entries()):
            if entry.in_use:
                self._forget(entry)
            else:
                self._drop(entry)
        self._bury()

    def _idle_entries(self) -> list[Entry]:
        return [entry for entry in self._entries() if entry.is_idle]

    def _is_expired(self, entry: Entry, now: float) -> bool:
        expiry = self._limits.keepalive_expiry
        return expiry is not None and entry.is_idle and now >= entry.idle_since + expiry

    def _be_idle(self, entry: Entry, *, idle: bool) -> None:
        if entry.is_idle is not idle:
            entry.is_idle = idle
            self._idle += 1 if idle else -1

    def _touch(self, entry: Entry) -> None:
        """Put the entry last, which is where `_best` begins."""
        entries = self._origins[entry.origin].entries
        if entries[-1] is not entry:
            entries.remove(entry)
            entries.append(entry)

    def _drop(self, entry: Entry) -> None:
        self._forget(entry)
        self._doomed.append(entry.connection)

    def _forget(self, entry: Entry) -> None:
        if entry.is_pooled:
            entry.is_pooled = False
            self._count -= 1
            self._be_idle(entry, idle=False)
            self._origins[entry.origin].entries.remove(entry)
            self._forget_if_empty(entry.origin)

    def _forget_if_empty(self, origin: Origin) -> None:
        state = self._origins.get(origin)
        if state is not None and not state.entries and not state.makes:
            del self._origins[origin]

    def _serve_waiting(self, now: float) -> None:
        """Grant what can be granted: first come first served among those who want the same."""
        for key, queue in list(self._waiting.items()):
            while queue:
                ticket = queue[0]
                if not ticket.is_withdrawn:
                    if not self._serve(ticket, now):
                        break
                    self._waits -= 1
                    if ticket.wake is not None:
                        ticket.wake()
                queue.popleft()
            if not queue:
                self._waiting.pop(key, None)
        self._bury()

    def _bury(self) -> None:
        doomed, self._doomed = self._doomed, []
        for connection in doomed:
            connection.abort()
