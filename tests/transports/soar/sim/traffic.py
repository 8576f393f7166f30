"""Real messages between a client and a server, for whoever wants to damage them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.transports.soar.sim import quirks as kinds
from tests.transports.soar.sim.simulation import Simulation
from tests.transports.soar.sim.story import Story, Way

if TYPE_CHECKING:
    from tests.transports.soar.sim.client_host import ClientHost

__all__ = ("Meddled", "meddled", "recorded")


class Meddled:
    """A world in the middle of everything, whose messages somebody changes.

    Attributes:
        simulation: a session with one stream that stays, a download and an upload.
        to_server, to_client: messages that passed so far, oldest first.
    """

    def __init__(self, seed: int) -> None:
        way = Way(resolver=kinds.PLAIN)
        self.simulation = Simulation(Story(seed=seed, ways=(way,), grants=True))
        self.simulation.server.tape = []
        self.client.tape = []
        self.stays = self.client.dial("echo-1.test", 200, eager=True, stays=True)
        self.client.dial("get-8000-2.test", 8_000)
        self.client.dial("put-1000-3.test", 1_000)
        self.simulation.rest(0.15)

    @property
    def client(self) -> ClientHost:
        return self.simulation.client

    @property
    def to_server(self) -> list[bytes]:
        tape = self.simulation.server.tape
        assert tape is not None
        return [arrival.message for arrival in tape]

    @property
    def to_client(self) -> list[bytes]:
        tape = self.client.tape
        assert tape is not None
        return [message for _, message in tape]

    def check(self) -> None:
        """Whatever was sent, all goes on and comes to its end."""
        simulation = self.simulation
        simulation.rest(1.0)
        before = self.stays.received
        self.stays.write_more(100)
        self.client.pump()
        simulation.until(lambda: self.stays.received == before + 100, 10.0)
        for flow in self.client.flows[1:3]:
            assert simulation.finish(flow, 30.0).succeeded
        assert len(self.client.handshakes) == 1
        self.client.cancel(self.stays)
        simulation.check(may=frozenset())


def meddled(seed: int = 1) -> Meddled:
    """Return such a world, always the same for the same seed."""
    return Meddled(seed)


def recorded() -> tuple[list[bytes], list[bytes]]:
    """Return messages to a server and to a client, of all kinds."""
    world = meddled()
    world.check()
    return world.to_server, world.to_client
