"""A world with clients, resolvers and a server, made of a story; and a story told to its end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.transports.soar.sim import invariants
from tests.transports.soar.sim.client_host import ClientHost
from tests.transports.soar.sim.pace import Paces
from tests.transports.soar.sim.quirks import KNOT_FORWARDER, POWERDNS
from tests.transports.soar.sim.route import Forger, Route
from tests.transports.soar.sim.seals import watched_seals
from tests.transports.soar.sim.server_host import ServerHost
from tests.transports.soar.sim.world import EPOCH, Clock, World
from transports.soar.core.client.reasons import Failure
from transports.soar.core.client.settings import ClientSettings
from transports.soar.core.crypto.grants import Grant
from transports.soar.core.crypto.keys import ServerKey
from transports.soar.core.crypto.notices import EndCode
from transports.soar.core.dns.authority import Authority
from transports.soar.core.dns.zone import Zone, Zones
from transports.soar.core.server.credentials import IssuedGrant
from transports.soar.core.server.settings import ServerSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.transports.soar.sim.flow import Flow
    from tests.transports.soar.sim.link import Weather
    from tests.transports.soar.sim.story import Event, Story, Way

__all__ = ("Simulation", "run_story")

ZONES = (Zone.parse("t.example.com"), Zone.parse("u.example.org"))
GRANTS = 4
BUSY_S = 30.0  # for which a session may be busy when its streams are done
QUIET_AFTER_S = 10.0  # after which nothing more may be asked
QUIET_S = 60.0
A_HANDSHAKE = 36  # questions of one whose answers are forged, some waves brought forward
SHORT_TIMEOUT_S = 5.0  # servers less patient than this are asked more often about an idle stream
WARM_QUESTIONS = 12  # that a warm session may cost in that time beside its pings
IDLE_S = 30.0  # for which an idle stream is watched
STORM_LOSS = 0.5


class Simulation:
    """All that a story needs; tests use its parts directly."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.world = World(story.seed)
        self.paces = Paces(self.world)
        dice = self.world.dice("keys")
        self.key = ServerKey.generate(dice.randbytes)
        self.grants = [Grant.generate(dice.randbytes) for _ in range(GRANTS)]
        self.revoked: set[bytes] = set()
        self.shown: dict[str, int] = {}  # which grant each client has, by its name
        self.max_streams = 128
        self.max_sessions = 20_000
        self.server = ServerHost(
            self.world,
            Clock(self.world),
            self._server_settings,
            paces=self.paces,
            uptime=story.uptime,
        )
        self.server.on_ended = lambda sid, code: invariants.check_end_of(
            self.clients, sid, code, story.idle_timeout
        )
        self.clients: list[ClientHost] = []
        self.routes: list[Route] = []
        for index, way in enumerate(story.ways):
            self.routes.append(self._route(f"resolver {index}", way))
        for index in range(story.clients):
            self.add_client(f"client {index}" if index else "client")

    def _route(self, name: str, way: Way) -> Route:
        route = Route(
            self.world, name, way.resolver, near=way.near, far=way.far,
            zone_labels=3, to_client=self._to_client, to_server=self.server.receive,
        )  # fmt: skip
        if way.forged:
            route.forger = Forger(
                route, self.world, way.forged, inject=self._inject, share=way.share
            )
        return route

    @property
    def zones(self) -> tuple[Zone, ...]:
        return ZONES[: self.story.zones]

    @property
    def client(self) -> ClientHost:
        return self.clients[0]

    @property
    def flows(self) -> list[Flow]:
        return [flow for host in self.clients for flow in host.flows]

    def add_client(self, name: str, *, session_idle: float | None = None) -> ClientHost:
        story = self.story
        self.shown[name] = 0
        settings = ClientSettings(
            public_key=self.key.public,
            zones=self.zones,
            grant=self.grants[0] if story.grants else None,
            session_idle=story.session_idle if session_idle is None else session_idle,
            keep_warm=story.warm,
        )
        host = ClientHost(
            self.world, Clock(self.world, skew=story.skew), settings, self.routes,
            paces=self.paces, idle_timeout=story.idle_timeout, name=name,
        )  # fmt: skip
        self.clients.append(host)
        return host

    def _server_settings(self) -> ServerSettings:
        story = self.story
        expires = EPOCH + story.expires if story.expires else None
        zones = Zones(self.zones)
        return ServerSettings(
            key=self.key,
            zones=zones,
            authority=Authority(zones, {"ns.example.net": ()}),
            idle_timeout=story.idle_timeout,
            max_streams=self.max_streams,
            max_sessions=self.max_sessions,
            grants=tuple(
                IssuedGrant(
                    grant=grant,
                    expires=None if index else expires,
                    is_revoked=grant.id in self.revoked,
                )
                for index, grant in enumerate(self.grants)
            ),
            needs_grant=story.grants,
        )

    def _to_client(self, client: object, message: bytes) -> None:
        if (host := self._host_of(client)) is not None:
            host.receive(client, message)

    def _inject(self, client: object, message: bytes) -> None:
        if (host := self._host_of(client)) is not None:
            host.inject(client, message)

    def _host_of(self, client: object) -> ClientHost | None:
        assert isinstance(client, tuple)
        return next((host for host in self.clients if host.name == client[0]), None)

    # --- what happens

    def schedule(self, event: Event) -> None:
        self.world.at(event.at, lambda: self.happen(event))

    def happen(self, event: Event) -> None:
        client, server = self.clients[event.client % len(self.clients)], self.server
        is_awake = not client.clock.asleep
        match event.what:
            case "dial":
                if is_awake:
                    client.dial(
                        event.target, event.octets, eager=event.eager, replay_safe=event.safe
                    )
            case "cancel":
                if event.number < len(client.flows) and is_awake:
                    client.cancel(client.flows[event.number])
            case "sleep":
                if is_awake:
                    client.clock.sleep()
            case "wake":
                if not is_awake:
                    client.wake()
            case "move":
                if is_awake:
                    client.new_ports()
            case "rotate":
                self.rotate(client)
            case "revoke":
                self.revoke(client)
            case "crash":
                server.crash()
            case "start":
                server.start()
            case "shutdown":
                server.shutdown()
            case "end":
                server.end_all(EndCode.OPERATOR)
            case "cut" | "mend" | "storm" | "calm":
                self._weather(event.what, event.number % len(self.routes))
            case _:
                raise AssertionError(event)

    def rotate(self, client: ClientHost) -> None:
        """Have `client` show its next grant from here on."""
        shown = self.shown[client.name] = (self.shown[client.name] + 1) % GRANTS
        client.change_credential(self.grants[shown] if self.story.grants else None)

    def revoke(self, client: ClientHost) -> None:
        """Take back the grant that `client` shows."""
        grant = self.grants[self.shown[client.name]]
        self.revoked.add(grant.id)
        self.server.revoke(grant.id)

    def _weather(self, what: str, number: int) -> None:
        route, near = self.routes[number], self.story.ways[number].near
        if what in ("cut", "mend"):
            route.resolver.alive = what == "mend"
        else:
            route.weather(near=replace(near, loss=STORM_LOSS) if what == "storm" else near)

    def recover(self) -> None:
        """Set right what the story has left broken, so that everything can end."""
        self.server.start()
        for number in range(len(self.routes)):
            self._weather("mend", number)
            self._weather("calm", number)
        for host in self.clients:
            if host.clock.asleep:
                host.wake()
            for flow in host.flows:
                if flow.kind in ("silent", "unreachable") or flow.stays:
                    host.cancel(flow)

    def until(self, done: Callable[[], bool], seconds: float = 300.0) -> None:
        """Go on until `done()`; an error if that takes longer than `seconds`."""
        assert self.world.run(self.world.time + seconds, stop=done), f"not after {seconds} s"

    def finish(self, flow: Flow, seconds: float = 300.0) -> Flow:
        """Go on until `flow` is over, and return it."""
        self.until(lambda: flow.done, seconds)
        return flow

    def rest(self, seconds: float) -> None:
        """Let time pass."""
        self.world.run(self.world.time + seconds)

    # --- what must hold

    @property
    def may(self) -> frozenset[Failure]:
        """The reasons for which flows of this story may fail."""
        story = self.story
        may = {Failure.REFUSED}
        is_rough = (
            any(_is_rough(way) for way in story.ways)
            or story.idle_timeout < 30
            or story.has("sleep", "cut", "storm", "crash")
        )
        if is_rough:
            may |= {Failure.LOST, Failure.SILENT, Failure.ENDED}
        if story.has("shutdown", "end", "revoke") or story.expires:
            may.add(Failure.ENDED)
        if story.grants and (story.expires or story.has("revoke")):
            may.add(Failure.CREDENTIAL)
        return frozenset(may)

    def check(self, *, may: frozenset[Failure] | None = None) -> None:
        """Check what must hold when everything is over (soar-wire.md 6)."""
        for host in self.clients:
            invariants.check_ends(
                host, may=self.may if may is None else may, server_began=self.server.began
            )
        invariants.check_visits(self.server, self.clients)
        invariants.check_memory(self.server, self.clients)
        invariants.check_answers(self.server, self.world.time)

    def check_quiet(self, *, forgets: bool = True) -> None:
        """With no stream and nothing queued nothing is asked, after the linger, and next to nothing is kept.

        On a link that loses nearly all, the server may not hear what it may forget: `forgets` is then false.
        """
        story = self.story
        # The program has what it wanted; what the server has still to hear may go on over a link that loses it.
        self.world.run(self.world.time + BUSY_S, stop=self._is_idle)
        self.rest(QUIET_AFTER_S)
        before = [host.asked for host in self.clients]
        self.rest(QUIET_S)
        for host, asked in zip(self.clients, before, strict=True):
            invariants.check_quiet(host, asked, most=self._most_questions() if story.warm else 0)
        invariants.check_memory(self.server, self.clients, is_idle=forgets)

    def _is_idle(self) -> bool:
        return not any(own.is_busy for host in self.clients for own in host.core._pool.sessions)

    def _most_questions(self) -> int:
        """Return how many questions a warm session may cost while it is watched, some losses included."""
        story = self.story
        most = (story.idle_timeout - min(10.0, story.idle_timeout / 4)) / 1.1
        idle = 0.9 * min(story.session_idle, most)  # the least that a session may draw (SPEC 14.3)
        may_end = story.expires or story.has("shutdown", "end", "crash", "revoke")
        return WARM_QUESTIONS + A_HANDSHAKE * bool(may_end) + int(QUIET_S / (0.6 * idle))

    def check_idle_stream(self) -> None:
        """A stream over which nothing goes asks seldom."""
        host = self.client
        flow = host.dial(f"silent-{len(host.flows)}-idle.test")
        self.until(lambda: flow.opened is not None or flow.done)
        if flow.done:
            return
        since = self.world.time
        self.rest(IDLE_S)
        assert not flow.done, f"nothing ended it: {flow}"
        if self.story.idle_timeout > SHORT_TIMEOUT_S:
            invariants.check_idle_stream(host, since, self.world.time)
        host.cancel(flow)


def _is_rough(way: Way) -> bool:
    """Whether the way itself may make a session fall silent."""
    return way.resolver in (POWERDNS, KNOT_FORWARDER) or loss_of(way.near, way.far) > 0.05


def loss_of(*links: Weather) -> float:
    """Return the share of questions that get no answer over these links, there and back."""
    passes = 1.0
    for link in links:
        passes *= ((1 - link.loss) * (1 - link.corrupt)) ** 2
    return 1 - passes


def run_story(story: Story) -> Simulation:
    """Tell `story` to its end and check it; raise what is wrong."""
    with watched_seals():
        simulation = Simulation(story)
        for event in story.events:
            simulation.schedule(event)
        simulation.world.run(story.end + 0.001)
        simulation.recover()
        simulation.world.run(
            story.end + story.tail, stop=lambda: all(flow.done for flow in simulation.flows)
        )
        simulation.rest(1.0)
        simulation.check()
        is_lossless = not any(loss_of(way.near, way.far) for way in story.ways)
        simulation.check_quiet(forgets=is_lossless and not story.has("storm", "cut"))
        if is_lossless:
            simulation.check_idle_stream()
        simulation.rest(1.0)
        simulation.check()
        return simulation
