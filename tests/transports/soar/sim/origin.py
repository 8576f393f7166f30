"""What stands behind a server: targets that echo, give, take, refuse, or say nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from tests.transports.soar.sim.pattern import Checker, pattern
from transports.soar.core.streams.frames import RefusalReason, ResetCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.transports.soar.sim.pace import Paces
    from tests.transports.soar.sim.world import World

__all__ = ("Connection", "Origin", "Visit")

CONNECT = 0.002  # seconds from a server to a target


class Connection(Protocol):
    """A stream as the server's core hands it out."""

    def opened(self) -> None: ...
    def refuse(self, reason: RefusalReason) -> None: ...
    def write(self, data: bytes) -> None: ...
    @property
    def room(self) -> int: ...
    def finish(self) -> None: ...
    def reset(self, code: ResetCode) -> None: ...
    def stop(self, code: ResetCode) -> None: ...
    def read(self, most: int = ...) -> bytes: ...
    @property
    def at_end(self) -> bool: ...


class Visit:
    """One connection that a target got: what the invariants look at."""

    def __init__(self, at: float, name: str) -> None:
        self.at = at
        self.name = name
        self.first = b""


class Origin:
    """All targets of a world; their names say what they do.

    `echo-KEY`, `get-N-KEY` (N octets of that text at once), `put-N-KEY` (takes N, answers with one octet),
    `refuse-KEY`, `unreachable-KEY` (never connected), `silent-KEY` (never says anything), `slow-MS-KEY` (echoes after so many ms), `push-MS-KEY` (says 100 octets so many ms after the connect), each with `.test`.
    """

    def __init__(self, world: World, paces: Paces) -> None:
        self.visits: list[Visit] = []
        self.received = 0
        self.paces = paces
        self._world = world

    def later(self, delay: float, action: Callable[[], None]) -> None:
        self._world.after(delay, action)

    def connect(
        self, connection: Connection, name: str, touched: Callable[[], None]
    ) -> Target | None:
        """Begin a connection to the target called `name`; `touched` is called after each thing it does."""
        if name.startswith("refuse"):

            def refuse() -> None:
                connection.refuse(RefusalReason.CONNECTION_REFUSED)
                touched()

            self._world.after(CONNECT, refuse)
            return None
        if name.startswith("unreachable"):
            return None
        slow = re.match(r"slow-(\d+)", name)
        target = Target(self, connection, name, touched)
        delay = int(slow[1]) / 1000 if slow else CONNECT

        def arrive() -> None:
            if target.gone:
                return
            self.visits.append(target.visit)
            target.visit.at = self._world.time
            connection.opened()
            target.start()
            touched()

        self._world.after(delay, arrive)
        return target


class Target:
    """One connection to a target."""

    def __init__(
        self, origin: Origin, connection: Connection, name: str, touched: Callable[[], None]
    ) -> None:
        self.visit = Visit(0.0, name)
        self.gone = False
        self._origin = origin
        self._connection = connection
        self._connected = False
        self._kind, *rest = name.removesuffix(".test").split("-")
        self._rest = rest
        self._touched = touched
        self._give = self._given = self._key = self._take = 0
        self._checker: Checker | None = None
        self._pending = b""
        self._ended = False
        if self._kind == "get":
            self._give, self._key = map(int, rest)
        elif self._kind == "put":
            self._take, self._key = map(int, rest)
            self._checker = Checker(self._key)

    def start(self) -> None:
        self._connected = True
        if self._kind == "push":
            self._origin.later(int(self._rest[0]) / 1000, self._push)
        self.readable()
        self.writable()

    def readable(self) -> None:
        if not self._connected or self.gone or self._kind == "silent":
            return
        while True:
            room = self._connection.room if self._kind in ("echo", "slow") else 65_536
            if not room:
                break
            data = self._connection.read(min(room, 65_536))
            if not data:
                break
            self.visit.first = self.visit.first or data[:64]
            self._origin.received += len(data)
            self._origin.paces.note(self.visit.name)
            if self._checker is not None:
                self._checker.take(data)
                if self._checker.octets == self._take:
                    self._connection.write(b"!")
                    self._finish()
            elif self._kind in ("echo", "slow"):
                self._connection.write(data)
        if self._connection.at_end and self._kind in ("echo", "slow"):
            self._finish()

    def writable(self) -> None:
        if not self._connected or self.gone:
            return
        if self._kind in ("echo", "slow"):
            self.readable()
        while self._given < self._give and (room := self._connection.room):
            length = min(room, self._give - self._given, 65_536)
            self._connection.write(pattern(self._key, self._given, length))
            self._given += length
        if self._kind == "get" and self._given == self._give:
            self._finish()

    def leave(self) -> None:
        """Take nothing more: what nobody has read by now nobody will."""
        self.gone = True
        self._connection.stop(ResetCode.CANCELLED)

    def _push(self) -> None:
        if not self.gone:
            self._connection.write(bytes(100))
            self._finish()
            self._touched()

    def _finish(self) -> None:
        if not self._ended:
            self._ended = True
            self._connection.finish()
