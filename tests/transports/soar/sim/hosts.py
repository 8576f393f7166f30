"""The two ends: a client's machine and a server's, each a core with a driver that never waits for real."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.transports.soar.sim.origin import Origin
from tests.transports.soar.sim.origin import Target as OriginTarget
from tests.transports.soar.sim.pattern import Checker, pattern
from transports.soar.core.client import events as told
from transports.soar.core.client.client import Client
from transports.soar.core.server import events as seen
from transports.soar.core.server.server import Server
from transports.soar.core.server.source import Source
from transports.soar.core.streams.targets import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from tests.transports.soar.sim.route import Route
    from tests.transports.soar.sim.world import Clock, Timer, World
    from transports.soar.core.client.client import Dial
    from transports.soar.core.client.settings import ClientSettings
    from transports.soar.core.crypto.notices import EndCode
    from transports.soar.core.instants import Instant
    from transports.soar.core.server.settings import ServerSettings

__all__ = ("ClientHost", "Flow", "ServerHost")


class ServerHost:
    """A machine with a server on it, which may crash and start again; what it knew is then gone.

    Args:
        world: where it is.
        clock: its own.
        make_settings: for each start.
        uptime: for how long it has run at the beginning.
    """

    def __init__(
        self,
        world: World,
        clock: Clock,
        make_settings: Callable[[], ServerSettings],
        *,
        uptime: float,
    ) -> None:
        self.origin = Origin(world)
        self.core: Server | None = None
        self.starts = 0
        self.questions = self.answers = 0
        self.octets_in = self.octets_out = 0
        self.longest_wait = 0.0
        self.waiting: dict[object, float] = {}
        self._newest: dict[tuple[str, bytes], int] = {}
        self._world = world
        self._clock = clock
        self._make_settings = make_settings
        self._timer: Timer | None = None
        self._targets: dict[object, OriginTarget] = {}
        self._dice = world.dice("server")
        self._tag = 0
        self._routes: dict[int, tuple[Route, bool]] = {}
        self.start(uptime=uptime)

    # --- life

    def start(self, *, uptime: float = 0.0) -> None:
        if self.core is not None:
            return
        now = self._clock.now()
        self.starts += 1
        began = now._replace(
            elapsed=now.elapsed - uptime, awake=now.awake - uptime, wall=now.wall - uptime
        )
        self.core = Server(self._make_settings(), entropy=self._dice.randbytes, now=began)
        self.pump()

    def crash(self) -> None:
        self.core = None
        self._drop()

    def shutdown(self) -> None:
        """End all sessions with a word, and go on answering for a while, as a real one does before it exits."""
        if self.core is not None:
            self.core.shutdown(self._clock.now())
            self.pump()

    def end_all(self, code: EndCode) -> None:
        """End every session, as an operator may."""
        core = self.core
        if core is None:
            return
        now = self._clock.now()
        for sid in core.sids():
            core.end(sid, code, now)
        self.pump()

    def _drop(self) -> None:
        for target in self._targets.values():
            target.gone = True
        self._targets.clear()
        self.waiting.clear()
        self._routes.clear()
        if self._timer is not None:
            self._timer.cancel()

    # --- the network

    def receive(self, route: Route, message: bytes, tcp: bool) -> None:
        if self.core is None:
            return
        self._tag += 1
        tag = self._tag
        self._routes[tag] = (route, tcp)
        self.questions += 1
        self.octets_in += len(message)
        # Of several copies a resolver takes the answer to the newest alone, so that is the one that is owed.
        name = (route.name, message[12:].split(b"\0\0\x29")[0].lower())
        older = self._newest.get(name)
        self.waiting[tag] = self.waiting.pop(older, self._world.time)
        self._newest[name] = tag
        source = Source(route.address, 1024 + tag % 60_000, tcp, tag)
        self.core.receive_message(message, source, self._clock.now())
        self.pump()

    def pump(self) -> None:
        core = self.core
        if core is None:
            return
        now = self._clock.now()
        while (event := core.next_event()) is not None:
            self._take(event)
        for source, message in core.messages_to_send(now):
            assert isinstance(source.tag, int)
            route, tcp = self._routes.pop(source.tag)
            if (since := self.waiting.pop(source.tag, None)) is not None:
                self.longest_wait = max(self.longest_wait, self._world.time - since)
            self.answers += 1
            self.octets_out += len(message)
            route.answer(message, tcp=tcp)
        if self._timer is not None:
            self._timer.cancel()
        if (due := core.next_timeout()) is not None:
            self._timer = self._world.at(self._clock.due(max(due, now.awake)), self._ring)

    def _ring(self) -> None:
        if self.core is not None:
            self.core.handle_timeout(self._clock.now())
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
                    found.gone = True
                    self._targets.pop(id(stream), None)
            case _:
                pass


class Flow:
    """One dial and what goes over it: `octets` to an echo, or a text from or to a target; checked to the last octet.

    An `eager` one writes before the target is connected.
    """

    def __init__(
        self, host: ClientHost, target: str, octets: int, key: int, *, eager: bool = False
    ) -> None:
        self.target = target
        self._eager = eager
        self.octets = octets
        self.began = host.world.time
        self.opened: float | None = None
        self.first: float | None = None
        self.ended: float | None = None
        self.error: Any = None
        self.repairs: list[told.DialRepaired] = []
        self.was_cancelled = False
        self._host = host
        self._key = key
        self._sent = 0
        self._finished = False
        kind = target.partition(".")[0].split("-")
        self._gives = octets if kind[0] in ("echo", "slow", "put", "silent") else 0
        if kind[0] == "get":
            self._key = int(kind[2])
        elif kind[0] == "put":
            self._key = int(kind[2])
            self._gives = int(kind[1])
        self._checker = Checker(self._key) if kind[0] in ("echo", "slow", "get") else None
        self.expected = {"get": octets, "put": 1}.get(kind[0], octets)
        self.received = 0
        self.dial: Dial | None = None

    @property
    def done(self) -> bool:
        return self.ended is not None

    @property
    def succeeded(self) -> bool:
        return self.done and self.error is None and not self.was_cancelled

    def end(self, error: object = None) -> None:
        if self.ended is None:
            self.ended = self._host.world.time
            self.error = error

    def move(self) -> None:
        """Write and read what is possible."""
        dial = self.dial
        if dial is None or self.done or dial.stream is None:
            return
        stream = dial.stream
        while self._sent < self._gives and (room := stream.room()):
            if self.opened is None and not self._eager:
                break
            length = min(room, self._gives - self._sent, 65_536)
            stream.write(pattern(self._key, self._sent, length))
            self._sent += length
        if self._sent == self._gives and not self._finished and self.opened is not None:
            self._finished = True
            stream.finish()
        while data := stream.read(65_536):
            if self.first is None:
                self.first = self._host.world.time
            self.received += len(data)
            if self._checker is not None:
                self._checker.take(data)
        if stream.at_end() and self.opened is not None:
            assert self.received == self.expected, (
                f"{self.received} of {self.expected} octets, then the end"
            )
            self.end()


class ClientHost:
    """A machine with a client on it, which may sleep.

    Args:
        world: where it is.
        clock: its own.
        settings: of the client.
        routes: its ways, in order; each becomes a path.
        name: tells it from others.
    """

    def __init__(
        self,
        world: World,
        clock: Clock,
        settings: ClientSettings,
        routes: list[Route],
        *,
        name: str = "client",
    ) -> None:
        self.world = world
        self.clock = clock
        self.flows: list[Flow] = []
        self.changes: list[told.SessionChanged] = []
        self.handshakes: list[told.HandshakeEnded] = []
        self.asked = 0
        self.asked_at: list[float] = []
        self.core = Client(settings, entropy=world.dice(name).randbytes, owner=1)
        self.name = name
        self._timer: Timer | None = None
        self._ports: dict[int, int] = {}
        self._flow_of: dict[int, Flow] = {}
        self._routes: dict[int, Route] = {}
        for route in routes:
            self._routes[self.core.add_path(0, datagram=True)] = route

    def now(self) -> Instant:
        return self.clock.now()

    def dial(
        self, target: str, octets: int = 0, *, replay_safe: bool = True, eager: bool = False
    ) -> Flow:
        flow = Flow(self, target, octets, len(self.flows) + 1, eager=eager)
        self.flows.append(flow)
        flow.dial = self.core.dial(Target.of(target, 443), self.now(), replay_safe=replay_safe)
        self._flow_of[id(flow.dial)] = flow
        flow.move()
        self.pump()
        return flow

    def cancel(self, flow: Flow) -> None:
        if flow.done or flow.dial is None:
            return
        flow.was_cancelled = True
        if flow.opened is None:
            flow.dial.cancel(self.now())
        elif flow.dial.stream is not None:
            flow.dial.stream.reset(1)
        flow.end()
        self.pump()

    def receive(self, client: Hashable, message: bytes) -> None:
        assert isinstance(client, tuple)
        _, path, port = client
        if self.clock.asleep or self._ports.get(path, 0) - port > 1:
            return
        self.core.receive_message(path, message, self.now())
        self.pump()

    def wake(self) -> None:
        self.clock.wake()
        self.pump()

    def pump(self) -> None:
        """Do everything that can be done now."""
        if self.clock.asleep:
            return
        now = self.now()
        for _ in range(10_000):
            busy = False
            while (event := self.core.next_event()) is not None:
                busy = True
                self._take(event)
            for path, message, fresh in self.core.messages_to_send(now):
                busy = True
                if fresh:
                    self._ports[path] = self._ports.get(path, 0) + 1
                self.asked += 1
                self.asked_at.append(self.world.time)
                self._routes[path].send((self.name, path, self._ports.get(path, 0)), message)
            if not busy:
                break
        else:
            raise AssertionError("the client never comes to rest")
        if self._timer is not None:
            self._timer.cancel()
        if (due := self.core.next_timeout()) is not None:
            self._timer = self.world.at(self.clock.due(max(due, now.awake)), self._ring)

    def _ring(self) -> None:
        if self.clock.asleep:
            return
        self.core.handle_timeout(self.now())
        self.pump()

    def _take(self, event: told.ClientEvent) -> None:
        match event:
            case told.DialOpened(dial=dial):
                flow = self._flow_of[id(dial)]
                if flow.opened is None:
                    flow.opened = self.world.time
                flow.move()
            case told.DialFailed(dial=dial, error=error):
                self._flow_of[id(dial)].end(error)
            case told.DialRepaired(dial=dial):
                self._flow_of[id(dial)].repairs.append(event)
            case told.StreamReadable(stream=stream) | told.StreamWritable(stream=stream):
                self._with(stream, Flow.move)
            case told.StreamReset(stream=stream, code=code):
                self._with(stream, lambda flow: flow.end(("reset", code)))
            case told.StreamFailed(stream=stream, error=error):
                self._with(stream, lambda flow: flow.end(error))
            case told.SessionChanged():
                self.changes.append(event)
            case told.HandshakeEnded():
                self.handshakes.append(event)
            case _:
                pass

    def _with(self, stream: object, act: Callable[[Flow], None]) -> None:
        for flow in self.flows:
            if flow.dial is not None and flow.dial.stream is stream and not flow.done:
                act(flow)
