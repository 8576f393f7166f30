"""A client's machine: the core with a driver that never waits for real."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.transports.soar.sim.flow import Flow
from tests.transports.soar.sim.invariants import (
    check_session_of,
    check_unchanged,
    client_snapshot,
)
from transports.soar.core.client import events as told
from transports.soar.core.client.client import Client
from transports.soar.core.streams.targets import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from tests.transports.soar.sim.pace import Paces
    from tests.transports.soar.sim.route import Route
    from tests.transports.soar.sim.world import Clock, Timer, World
    from transports.soar.core.client.settings import ClientSettings
    from transports.soar.core.crypto.grants import Grant
    from transports.soar.core.instants import Instant

__all__ = ("ClientHost",)

MOST_RINGS = 3_000  # deadlines within a second


class ClientHost:
    """A machine with a client on it, which may sleep.

    Args:
        world: where it is.
        clock: its own.
        settings: of the client.
        routes: its ways, in order; each becomes a path for each zone.
        paces: are told of octets that come.
        idle_timeout: the server's, which `settings` don't know.
        name: tells it from others.

    Attributes:
        flows: every dial.
        most_idle: seconds for which a session may have been idle when a stream is opened on it.
        changes, handshakes: what was told.
        asked_at: when each question was sent.
        tape: what came, if it is recorded: (path, message).
    """

    def __init__(
        self,
        world: World,
        clock: Clock,
        settings: ClientSettings,
        routes: list[Route],
        *,
        paces: Paces,
        idle_timeout: float = 120.0,
        name: str = "client",
    ) -> None:
        self.world = world
        self.clock = clock
        self.paces = paces
        self.settings = settings
        self.most_idle = min(
            1.1 * settings.session_idle, idle_timeout - min(10.0, idle_timeout / 4)
        )
        self.flows: list[Flow] = []
        self.changes: list[told.SessionChanged] = []
        self.handshakes: list[told.HandshakeEnded] = []
        self.asked_at: list[float] = []
        self.tape: list[tuple[int, bytes]] | None = None
        self.core = Client(settings, entropy=world.dice(name).randbytes, owner=1)
        self.name = name
        self._timer: Timer | None = None
        self._rings = self._second = 0
        self._ports: dict[int, int] = {}
        self._flow_of: dict[int, Flow] = {}
        self._routes: dict[int, Route] = {}
        for route in routes:
            for index in range(len(settings.zones)):
                self._routes[self.core.add_path(index, datagram=True)] = route

    @property
    def asked(self) -> int:
        return len(self.asked_at)

    def now(self) -> Instant:
        return self.clock.now()

    # --- the program

    def dial(
        self,
        target: str,
        octets: int = 0,
        *,
        replay_safe: bool = True,
        eager: bool = False,
        stays: bool = False,
    ) -> Flow:
        flow = Flow(
            self, target, octets, len(self.flows) + 1,
            eager=eager, replay_safe=replay_safe, stays=stays,
        )  # fmt: skip
        self.flows.append(flow)
        before = client_snapshot(self.core)
        flow.dial = self.core.dial(Target.of(target, 443), self.now(), replay_safe=replay_safe)
        self._flow_of[id(flow.dial)] = flow
        check_session_of(self, flow, before)
        flow.move()
        self.pump()
        return flow

    def cancel(self, flow: Flow) -> None:
        if flow.done or flow.dial is None:
            return
        flow.was_cancelled = True
        if flow.opened is None:
            flow.dial.cancel(self.now())
        else:
            flow.dial.stream.reset(1)
        flow.end()
        self.pump()

    def change_credential(self, grant: Grant | None) -> None:
        self.core.update_credential(grant, self.now())
        self.pump()

    def new_ports(self) -> None:
        """Lose all sockets, as a change of network does."""
        for path in self._routes:
            self._ports[path] = self._ports.get(path, 0) + 2
            self.core.carrier_failed(path, self.now())
        self.pump()

    # --- the network

    def receive(self, client: Hashable, message: bytes) -> None:
        assert isinstance(client, tuple)
        _, path, port = client
        if self.clock.asleep or self._ports.get(path, 0) - port > 1:
            return
        if self.tape is not None:
            self.tape.append((path, message))
        self.core.receive_message(path, message, self.now())
        self.pump()

    def inject(self, client: Hashable, message: bytes) -> None:
        """Take a message that the server did not make: it may change nothing but what is known of paths."""
        assert isinstance(client, tuple)
        _, path, port = client
        if self.clock.asleep or self._ports.get(path, 0) - port > 1:
            return
        before = client_snapshot(self.core)
        self.core.receive_message(path, message, self.now())
        check_unchanged(before, client_snapshot(self.core))
        self.pump()

    def wake(self) -> None:
        self.clock.wake()
        self.pump()

    def pump(self) -> None:
        """Do everything that can be done now."""
        if self.clock.asleep:
            return
        now = self.now()
        for _ in range(1_000):
            while (event := self.core.next_event()) is not None:
                self._take(event)
            for path, message, fresh in self.core.messages_to_send(now):
                if fresh:
                    self._ports[path] = self._ports.get(path, 0) + 1
                self.asked_at.append(self.world.time)
                self._routes[path].send((self.name, path, self._ports.get(path, 0)), message)
            if not self.core._events:
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
        second = int(self.world.time)
        self._rings = self._rings + 1 if second == self._second else 0
        self._second = second
        assert self._rings < MOST_RINGS, f"{MOST_RINGS} deadlines within a second: it never rests"
        self.core.handle_timeout(self.now())
        self.pump()

    def _take(self, event: told.ClientEvent) -> None:
        match event:
            case told.DialOpened(dial=dial):
                self._flow_of[id(dial)].open()
            case told.DialFailed(dial=dial, error=error):
                self._flow_of[id(dial)].end(error)
            case told.DialRepaired(dial=dial):
                flow = self._flow_of[id(dial)]
                flow.repairs.append(event)
                assert len(flow.repairs) == 1, "a dial is repaired once (SPEC 16.5)"
            case told.StreamReadable(stream=stream) | told.StreamWritable(stream=stream):
                self._with(stream.dial, Flow.move)
            case told.StreamReset(stream=stream, code=code):
                self._with(stream.dial, lambda flow: flow.end(("reset", code)))
            case told.StreamFailed(stream=stream, error=error):
                self._with(stream.dial, lambda flow: flow.end(error))
            case told.SessionChanged():
                self.changes.append(event)
            case told.HandshakeEnded():
                self.handshakes.append(event)
            case _:
                pass

    def _with(self, dial: object, act: Callable[[Flow], None]) -> None:
        flow = self._flow_of.get(id(dial))
        if flow is not None and not flow.done:
            act(flow)
