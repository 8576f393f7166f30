"""A story, run; and what must hold of every run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.transports.soar.sim.hosts import ClientHost, Flow, ServerHost
from tests.transports.soar.sim.route import Forger, Route
from tests.transports.soar.sim.seals import watched_seals
from tests.transports.soar.sim.world import Clock, World
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

    from tests.transports.soar.sim.story import Event, Story

__all__ = ("Simulation", "run_story")

ZONE = Zone.parse("t.example.com")
LONGEST_WAIT = 0.65  # SPEC 13.5, and what a link may add to the count
QUIET_AFTER = 10.0  # seconds after which nothing more may be asked


class Simulation:
    """All that a story needs; tests use its parts directly."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.world = World(story.seed)
        dice = self.world.dice("keys")
        self.key = ServerKey.generate(dice.randbytes)
        self.grant = Grant.generate(dice.randbytes)
        self.server = ServerHost(
            self.world, Clock(self.world), self._server_settings, uptime=story.uptime
        )
        self.routes = [
            Route(
                self.world, f"resolver {index}", way.resolver, near=way.near, far=way.far,
                zone_labels=3, to_client=self._to_client, to_server=self.server.receive,
            )
            for index, way in enumerate(story.ways)
        ]  # fmt: skip
        for route, way in zip(self.routes, story.ways, strict=True):
            if way.forged:
                route.forger = Forger(route, self.world, way.forged, share=way.share)
        self.clients = [self.add_client("client")]

    @property
    def client(self) -> ClientHost:
        return self.clients[0]

    def add_client(self, name: str) -> ClientHost:
        clock = Clock(self.world, skew=self.story.skew)
        settings = ClientSettings(
            public_key=self.key.public,
            zones=(ZONE,),
            grant=self.grant if self.story.grants else None,
            session_idle=self.story.session_idle,
        )
        return ClientHost(self.world, clock, settings, self.routes, name=name)

    def _server_settings(self) -> ServerSettings:
        story = self.story
        return ServerSettings(
            key=self.key,
            zones=Zones((ZONE,)),
            authority=Authority(Zones((ZONE,)), {"ns.example.net": ()}),
            idle_timeout=story.idle_timeout,
            grants=(IssuedGrant(grant=self.grant),) if story.grants else (),
            needs_grant=story.grants,
        )

    def _to_client(self, client: object, message: bytes) -> None:
        assert isinstance(client, tuple)
        for host in self.clients:
            if host.name == client[0]:
                host.receive(client, message)

    # --- what happens

    def schedule(self, event: Event) -> None:
        self.world.at(event.at, lambda: self.happen(event))

    def happen(self, event: Event) -> None:
        client, server = self.client, self.server
        match event.what:
            case "dial":
                if not client.clock.asleep:
                    client.dial(event.target, event.octets)
            case "cancel":
                if event.number < len(client.flows) and not client.clock.asleep:
                    client.cancel(client.flows[event.number])
            case "crash":
                server.crash()
            case "start":
                server.start()
            case "sleep":
                if not client.clock.asleep:
                    client.clock.sleep()
            case "wake":
                if client.clock.asleep:
                    client.wake()
            case "cut" | "mend":
                route = self.routes[event.number % len(self.routes)]
                route.resolver.alive = event.what == "mend"
            case "shutdown":
                server.shutdown()
            case "end":
                server.end_all(EndCode.OPERATOR)
            case "rotate":
                client.core.update_credential(
                    self.grant if self.story.grants else None, client.now()
                )
                client.pump()
            case _:
                raise AssertionError(event)

    def recover(self) -> None:
        """Set right what the story has left broken, so that everything can end; `silent` targets are let go of."""
        self.server.start()
        if self.client.clock.asleep:
            self.client.wake()
        for route in self.routes:
            route.resolver.alive = True
        for flow in self.client.flows:
            if flow.target.startswith("silent"):
                self.client.cancel(flow)

    def until(self, done: Callable[[], bool], seconds: float = 300.0) -> None:
        """Go on until `done()`; an error if that takes longer than `seconds`."""
        assert self.world.run(self.world.time + seconds, stop=done), f"not after {seconds} s"

    def rest(self, seconds: float) -> None:
        """Let time pass."""
        self.world.run(self.world.time + seconds)

    # --- what must hold

    def check(self) -> None:
        """Check what must hold when everything is over (soar-wire.md 6)."""
        self.check_flows()
        self.check_visits()
        assert self.server.longest_wait <= LONGEST_WAIT, (
            f"a question waited {self.server.longest_wait:.3f} s"
        )
        overdue = [
            since
            for since in self.server.waiting.values()
            if self.world.time - since > LONGEST_WAIT
        ]
        assert not overdue, f"{len(overdue)} questions were never answered"

    def check_flows(self) -> None:
        for host in self.clients:
            for flow in host.flows:
                assert flow.done, f"{flow.target} hangs: {describe(flow)}"

    def check_visits(self) -> None:
        """No target is met twice for one dial, unless a repair said that it might be (SPEC 16)."""
        met: dict[str, int] = {}
        for visit in self.server.origin.visits:
            met[visit.name] = met.get(visit.name, 0) + 1
        for host in self.clients:
            for flow in host.flows:
                unproven = sum(not repair.proven for repair in flow.repairs)
                assert met.get(flow.target, 0) <= 1 + unproven, (
                    f"{flow.target} was met {met[flow.target]} times"
                )

    def check_quiet(self) -> None:
        """With no stream and nothing queued nothing is asked, after the linger (S3)."""
        begun = self.world.time
        self.rest(QUIET_AFTER)
        for host in self.clients:
            before = host.asked
            self.rest(60.0)
            assert host.asked == before, f"{host.asked - before} questions of an idle client"
        assert self.world.time >= begun


def describe(flow: Flow) -> str:
    return (
        f"began {flow.began:.2f}, opened {flow.opened}, {flow.received}/{flow.expected} octets, "
        f"{len(flow.repairs)} repairs"
    )


def run_story(story: Story) -> Simulation:
    """Run `story` to its end and check it; raise what is wrong."""
    with watched_seals():
        simulation = Simulation(story)
        for event in story.events:
            simulation.schedule(event)
        last = max((event.at for event in story.events), default=0.0)
        simulation.world.run(last + 0.001)
        simulation.recover()
        simulation.world.run(
            last + story.tail, stop=lambda: all(flow.done for flow in simulation.client.flows)
        )
        simulation.rest(1.0)
        simulation.check()
        simulation.check_quiet()
        simulation.check()
        return simulation
