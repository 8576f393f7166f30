"""A server's machine: the core with a driver that never waits for real."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.transports.soar.sim.dns import asked_in
from tests.transports.soar.sim.origin import Origin
from tests.transports.soar.sim.origin import Target as OriginTarget
from transports.soar.core.server import events as seen
from transports.soar.core.server.server import Server
from transports.soar.core.server.source import Source, prefix_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.transports.soar.sim.pace import Paces
    from tests.transports.soar.sim.route import Route
    from tests.transports.soar.sim.world import Clock, Timer, World
    from transports.soar.core.crypto.notices import EndCode
    from transports.soar.core.server.settings import ServerSettings

__all__ = ("Arrival", "ServerHost")

SOME_OCTETS = 192  # by which an answer may be longer than its question, whoever asks (SPEC 18.2)
HEADER_OCTETS = 12
SAMPLE_EVERY = 256  # questions between two looks at what sessions hold


class Arrival(NamedTuple):
    """A message as it reached the server."""

    at: float
    message: bytes
    tcp: bool


class ServerHost:
    """A machine with a server on it, which may crash and start again; what it knew is then gone.

    Args:
        world: where it is.
        clock: its own.
        make_settings: for each start.
        paces: are told of octets that reach a target.
        uptime: for how long it has run at the beginning.

    Attributes:
        origin: all targets.
        core: the server; `None` while it is down.
        began: when it last started, in the world's time.
        ended: sessions that it has ended: (time, sid, code).
        longest_wait: of any question that was answered, seconds.
        most_held: octets that one session has held at a moment that was looked at.
        given: octets beyond what anybody may ask for, by source prefix, UDP only.
        tape: what arrived, if it is recorded.
    """

    def __init__(
        self,
        world: World,
        clock: Clock,
        make_settings: Callable[[], ServerSettings],
        *,
        paces: Paces,
        uptime: float,
    ) -> None:
        self.origin = Origin(world, paces)
        self.core: Server | None = None
        self.began = 0.0
        self.starts = 0
        self.ended: list[tuple[float, bytes, EndCode]] = []
        self.questions = self.answers = 0
        self.octets_in = self.octets_out = 0
        self.longest_wait = 0.0
        self.most_held = 0
        self.waiting: dict[object, float] = {}
        self.given: dict[bytes, int] = {}
        self.tape: list[Arrival] | None = None
        self.on_ended: Callable[[bytes, EndCode], None] | None = None
        self._newest: dict[tuple[str, bytes], int] = {}
        self._world = world
        self.clock = clock
        self._make_settings = make_settings
        self._timer: Timer | None = None
        self._targets: dict[object, OriginTarget] = {}
        self._dice = world.dice("server")
        self._tag = 0
        self._routes: dict[int, tuple[Route | None, bool, int, bytes]] = {}
        self.start(uptime=uptime)

    @property
    def running(self) -> Server:
        """The core; an error while it is down."""
        assert self.core is not None, "the server is down"
        return self.core

    # --- life

    def start(self, *, uptime: float = 0.0) -> None:
        if self.core is not None:
            return
        now = self.clock.now()
        self.starts += 1
        self.began = self._world.time - uptime
        began = now._replace(
            elapsed=now.elapsed - uptime, awake=now.awake - uptime, wall=now.wall - uptime
        )
        self.core = Server(self._make_settings(), entropy=self._dice.randbytes, now=began)
        self.pump()

    def crash(self) -> None:
        self.core = None
        for target in self._targets.values():
            target.gone = True
        self._targets.clear()
        self.waiting.clear()
        self._newest.clear()
        self._routes.clear()
        if self._timer is not None:
            self._timer.cancel()

    def shutdown(self) -> None:
        """End all sessions with a word, and go on answering for a while, as a real one does before it exits."""
        if self.core is not None:
            self.core.shutdown(self.clock.now())
            self.pump()

    def end_all(self, code: EndCode) -> None:
        """End every session, as an operator may."""
        core = self.core
        if core is None:
            return
        now = self.clock.now()
        for sid in core.sids():
            core.end(sid, code, now)
        self.pump()

    def revoke(self, grant_id: bytes) -> None:
        if self.core is not None:
            self.core.revoke(grant_id, self.clock.now())
            self.pump()

    # --- the network

    def receive(self, route: Route, message: bytes, tcp: bool) -> None:
        """Take a message from a resolver."""
        if self.core is None:
            return
        if self.tape is not None:
            self.tape.append(Arrival(self._world.time, message, tcp))
        self._tag += 1
        tag = self._tag
        # Of several copies a resolver takes the answer to the newest alone, so that is the one that is owed.
        name = (route.name, asked_in(message).lower())
        since = self._world.time
        older = self._newest.get(name)
        if older is not None:
            since = self.waiting.pop(older, since)
        if len(message) >= HEADER_OCTETS and not message[2] & 0x80:  # nothing is owed to a response
            self.waiting[tag] = since
            self._newest[name] = tag
        self._give(tag, route, message, tcp, Source(route.address, 1024 + tag % 60_000, tcp, tag))

    def inject(self, message: bytes, address: bytes) -> None:
        """Take a message from anybody else, whose answer goes nowhere; what it weighs is in `given`."""
        if self.core is None:
            return
        self._tag += 1
        self._give(self._tag, None, message, False, Source(address, 4_000, False, self._tag))

    def _give(
        self, tag: int, route: Route | None, message: bytes, tcp: bool, source: Source
    ) -> None:
        core = self.running
        self._routes[tag] = (route, tcp, len(message), prefix_of(source.address))
        self.questions += 1
        self.octets_in += len(message)
        if self.questions % SAMPLE_EVERY == 0:
            self.look()
        core.receive_message(message, source, self.clock.now())
        self.pump()

    def look(self) -> None:
        """Note what sessions hold."""
        if self.core is not None:
            for session in self.core._keeper.table:
                self.most_held = max(self.most_held, session.octets)

    def pump(self) -> None:
        core = self.core
        if core is None:
            return
        now = self.clock.now()
        while (event := core.next_event()) is not None:
            self._take(event)
        for source, message in core.messages_to_send(now):
            assert isinstance(source.tag, int)
            route, tcp, asked, prefix = self._routes.pop(source.tag)
            if (since := self.waiting.pop(source.tag, None)) is not None:
                self.longest_wait = max(self.longest_wait, self._world.time - since)
            self.answers += 1
            self.octets_out += len(message)
            if not tcp:
                beyond = max(0, len(message) - asked - SOME_OCTETS)
                self.given[prefix] = self.given.get(prefix, 0) + beyond
            if route is not None:
                route.answer(message, tcp=tcp)
        if self._timer is not None:
            self._timer.cancel()
        if (due := core.next_timeout()) is not None:
            self._timer = self._world.at(self.clock.due(max(due, now.awake)), self._ring)

    def _ring(self) -> None:
        if self.core is not None:
            self.core.handle_timeout(self.clock.now())
            self.pump()

    def _take(self, event: seen.ServerEvent) -> None:
        match event:
            case seen.StreamOpened(stream=stream, target=target):
                core = self.core

                def touched() -> None:
                    if self.core is core:
                        self.pump()

                made = self.origin.connect(stream, str(target.host), touched)
                if made is not None:
                    self._targets[id(stream)] = made
            case seen.StreamReadable(stream=stream):
                if (found := self._targets.get(id(stream))) is not None:
                    found.readable()
            case seen.StreamWritable(stream=stream):
                if (found := self._targets.get(id(stream))) is not None:
                    found.writable()
            case seen.StreamReset(stream=stream) | seen.StreamOver(stream=stream):
                if (found := self._targets.get(id(stream))) is not None:
                    found.readable()
                    found.leave()
                    self._targets.pop(id(stream), None)
            case seen.SessionEnded(sid=sid, code=code):
                self.ended.append((self._world.time, sid, code))
                if self.on_ended is not None:
                    self.on_ended(sid, code)
            case _:
                pass
