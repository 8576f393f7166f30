"""One dial, what goes over it, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.transports.soar.sim.pattern import Checker, pattern

if TYPE_CHECKING:
    from tests.transports.soar.sim.client_host import ClientHost
    from transports.soar.core.client.dial import Dial
    from transports.soar.core.client.events import DialRepaired

__all__ = ("Flow",)


class Flow:
    """One dial: `octets` to an echo, or a text from or to a target; checked to the last octet.

    Attributes:
        target, octets: as dialed.
        eager: it writes before the target is connected.
        replay_safe: what the dial says of that.
        is_reading: a flow that isn't leaves what comes where it is.
        is_idle: an echo that stays open after its octets came back.
        began, opened, first, ended: when, in the world's time; `first` is that of the first octet.
        error: why it failed: an `EndReason`, or ("reset", code).
        repairs: of its dial.
    """

    def __init__(
        self,
        host: ClientHost,
        target: str,
        octets: int,
        key: int,
        *,
        eager: bool = False,
        replay_safe: bool = True,
        stays: bool = False,
    ) -> None:
        self.target = target
        self.octets = octets
        self.eager = eager
        self.replay_safe = replay_safe
        self.stays = stays
        self.is_reading = True
        self.began = host.world.time
        self.began_awake = host.now().awake
        self.opened: float | None = None
        self.settled_awake: float | None = None  # when it was open, or had failed
        self.first: float | None = None
        self.ended: float | None = None
        self.error: Any = None
        self.repairs: list[DialRepaired] = []
        self.was_cancelled = False
        self.received = 0
        self.dial: Dial | None = None
        self._host = host
        self._key = key
        self._sent = 0
        self._finished = False
        self.kind, *rest = target.partition(".")[0].split("-")
        self._gives = octets if self.kind in ("echo", "slow", "put", "silent") else 0
        if self.kind == "get":
            self._key = int(rest[1])
        elif self.kind == "put":
            self._gives, self._key = map(int, rest)
        checks = self.kind in ("echo", "slow", "get")
        self._checker = Checker(self._key) if checks else None
        self.expected = {"get": octets, "put": 1}.get(self.kind, octets)

    def __repr__(self) -> str:
        return (
            f"<Flow {self.target} began {self.began:.2f} opened {self.opened} ended {self.ended} "
            f"{self.received}/{self.expected} octets, {len(self.repairs)} repairs, {self.error}>"
        )

    @property
    def done(self) -> bool:
        return self.ended is not None

    @property
    def succeeded(self) -> bool:
        return self.done and self.error is None and not self.was_cancelled

    def end(self, error: object = None) -> None:
        if self.ended is None:
            self._settle()
            self.ended = self._host.world.time
            self.error = error

    def open(self) -> None:
        if self.opened is None:
            self._settle()
            self.opened = self._host.world.time
            self._host.paces.note(self.target)
        self.move()

    def _settle(self) -> None:
        if self.settled_awake is None:
            self.settled_awake = self._host.now().awake

    def move(self) -> None:
        """Write and read what is possible."""
        dial = self.dial
        if dial is None or self.done:
            return
        self._write(dial)
        while self.is_reading and (data := dial.stream.read(65_536)):
            if self.first is None:
                self.first = self._host.world.time
            self._host.paces.note(self.target)
            self.received += len(data)
            if self._checker is not None:
                self._checker.take(data)
        if dial.stream.at_end() and self.opened is not None:
            assert self.received == self.expected, (
                f"{self.received} of {self.expected} octets, then the end"
            )
            self.end()

    def _write(self, dial: Dial) -> None:
        stream = dial.stream
        while self._sent < self._gives and (room := stream.room()):
            if self.opened is None and not self.eager:
                break
            length = min(room, self._gives - self._sent, 65_536)
            stream.write(pattern(self._key, self._sent, length))
            self._sent += length
        is_all = self._sent == self._gives and self.opened is not None
        if is_all and not self._finished and not self.stays:
            self._finished = True
            stream.finish()

    def write_more(self, octets: int) -> None:
        """Have that much more to write."""
        self._gives += octets
        self.expected += octets
        self.move()
