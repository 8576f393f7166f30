"""Names under which an AMP cache, or the broker itself, is reached: which to try first, and the connection to one.

A cache that serves many names serves them all at each: TLS is made with a *front*, and only the request says which page is
meant. Without fronts the one door is the place itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio
from anyio.streams.tls import TLSAttribute

from racer.abc import Progress, Stage
from racer.errors import (
    AttemptTimeout,
    NetworkError,
    TransportBusy,
    TransportError,
    error_type_of,
)
from transports._net.drive import close_by_force
from transports._net.http_connection import HTTPConnection
from transports._net.tls import wrap_tls
from transports._net.wakeup import Wakeup

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from anyio.abc import ByteStream

    from transports._net.connector import Connector
    from transports._net.tls import ClientContext

__all__ = ("Door", "DoorDialer", "Doors", "Line")

REST_FIRST: Final = 60.0
REST_MOST: Final = 1800.0
"""Seconds of a door's first rest after a failure, doubled each time up to the longest."""

STAGGER: Final = 0.75
MAX_AT_ONCE: Final = 3
TCP_TIMEOUT: Final = 8.0
TLS_TIMEOUT: Final = 8.0


@dataclass(frozen=True, slots=True)
class Door:
    """Where to connect, and whether TLS is spoken there."""

    host: str
    port: int = 443
    tls: bool = True


@dataclass(slots=True, eq=False)
class _Standing:
    door: Door
    failures: int = 0
    rests_until: float = -math.inf


class Doors:
    """Which doors to try, in what order. Pure.

    Args:
        doors: at least one.
        rng: for the order of those that are as good as each other.
    """

    def __init__(self, doors: Sequence[Door], rng: random.Random) -> None:
        """Begin with nothing known."""
        self._standings = [_Standing(door) for door in doors]
        self._rng = rng

    def order(self, now: float) -> list[Door]:
        """Return all doors: those in use in any order, then those that rest, the nearest to its return first."""
        mixed = self._rng.sample(self._standings, len(self._standings))
        mixed.sort(key=lambda s: (s.failures, s.rests_until) if s.rests_until > now else (0, 0))
        return [standing.door for standing in mixed]

    def succeeded(self, door: Door) -> None:
        """Learn that an answer came through a door."""
        for standing in self._of(door):
            standing.failures, standing.rests_until = 0, -math.inf

    def failed(self, door: Door, now: float) -> None:
        """Learn that a door could not be reached, or gave no answer."""
        for standing in self._of(door):
            standing.failures += 1
            rest = min(REST_MOST, REST_FIRST * 2.0 ** min(standing.failures - 1, 16))
            standing.rests_until = now + rest

    def _of(self, door: Door) -> list[_Standing]:
        return [standing for standing in self._standings if standing.door == door]


class Line:
    """A connection through a door; who holds it closes it.

    Attributes:
        door: which one.
        connection: for requests.
        idle_since: when its last request had ended, on the loop's clock.
        is_used: whether a request has gone over it.
    """

    def __init__(self, door: Door, connection: HTTPConnection, dialer: DoorDialer) -> None:
        """Keep what it is made of; its socket is counted already."""
        self.door = door
        self.connection = connection
        self.idle_since = anyio.current_time()
        self.is_used = False
        self._dialer = dialer
        self._is_open = True

    async def aclose(self) -> None:
        """Close it at once; again does nothing."""
        if self._is_open:
            self._is_open = False
            self._dialer.open -= 1
            await self.connection.aclose()


class DoorDialer:
    """Connects through doors.

    Args:
        connector: makes the connections.
        context: for TLS, which verifies the door's own name.
        doors: says which to try.
        most: connections that may be open at once.

    Attributes:
        open: how many are.
    """

    def __init__(
        self, connector: Connector, context: ClientContext, doors: Doors, *, most: int
    ) -> None:
        """Keep the arguments."""
        self.open = 0
        self._connector = connector
        self._context = context
        self._doors = doors
        self._most = most

    async def dial(self) -> Line:
        """Return a line through the first door that opens; the caller closes it.

        Tries overlap: the next begins when one has failed, or after 0.75 s. Cancelling closes them all.

        Raises:
            TransportBusy: too many connections are open.
            TransportError: no door opened; the cause is the group of their errors.
        """
        state = _State()
        left = self._doors.order(anyio.current_time())
        try:
            async with anyio.create_task_group() as group:
                while state.found is None and (left or state.running):
                    deadline = None
                    if left and state.running < MAX_AT_ONCE:
                        state.running += 1
                        group.start_soon(self._try, left.pop(0), state)
                        deadline = anyio.current_time() + STAGGER
                    await state.wake.wait(deadline)
                group.cancel_scope.cancel()
        except BaseException:
            if state.found is not None:
                await state.found.aclose()
            raise
        if state.found is None:
            raise _closed(state.errors)
        return state.found

    async def _try(self, door: Door, state: _State) -> None:
        try:
            line = await self._open(door)
        except (OSError, TransportError) as exc:
            if not isinstance(exc, TransportBusy):
                self._doors.failed(door, anyio.current_time())
            state.errors.append(exc)
        else:
            if state.found is None:
                state.found = line
            else:  # another was a moment faster
                await line.aclose()
        finally:
            state.running -= 1
            state.wake.set()

    async def _open(self, door: Door) -> Line:
        if self.open >= self._most:
            msg = f"{self.open} connections are open, and the limit is {self._most}"
            raise TransportBusy(msg)
        self.open += 1
        try:
            stream = await self._connect(door)
            try:
                secured = await self._secured(stream, door) if door.tls else stream
            except BaseException:
                await close_by_force(stream)
                raise
        except BaseException:
            self.open -= 1
            raise
        http2 = secured.extra(TLSAttribute.alpn_protocol, None) == "h2"
        return Line(door, HTTPConnection(secured, http2=http2, peer=door.host), self)

    async def _connect(self, door: Door) -> ByteStream:
        with anyio.move_on_after(TCP_TIMEOUT):
            return await self._connector.connect(door.host, door.port, Progress())
        msg = f"{door.host}: no connection within {TCP_TIMEOUT:g} s"
        raise AttemptTimeout(msg, stage=Stage.CONNECT)

    async def _secured(self, stream: ByteStream, door: Door) -> ByteStream:
        context = await self._context.get()
        try:
            with anyio.move_on_after(TLS_TIMEOUT):
                return await wrap_tls(stream, context, server_hostname=door.host)
        except (OSError, anyio.EndOfStream, anyio.BrokenResourceError) as exc:
            what = getattr(exc, "verify_message", None) or getattr(exc, "reason", None) or "cut off"
            msg = f"{door.host}: TLS failed: {what}"
            raise NetworkError(msg, stage=Stage.TLS, error_type=error_type_of(exc)) from exc
        msg = f"{door.host}: no TLS within {TLS_TIMEOUT:g} s"
        raise AttemptTimeout(msg, stage=Stage.TLS)


class _State:
    """One dial as it goes."""

    def __init__(self) -> None:
        self.running = 0
        self.errors: list[Exception] = []
        self.found: Line | None = None
        self.wake = Wakeup()


def _closed(errors: list[Exception]) -> Exception:
    if len(errors) == 1 and isinstance(errors[0], TransportError):
        return errors[0]
    group = ExceptionGroup(f"{len(errors)} doors stayed closed", errors)
    told = "; ".join(dict.fromkeys(str(error) for error in errors))
    failure = NetworkError(
        f"the cache was not reached: {told[:600]}", error_type=error_type_of(group)
    )
    failure.__cause__ = group
    return failure
