"""The way from a client through one resolver to the servers, and who meddles with it."""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.transports.soar.sim.dns import DS, SOA, TXT, Query, reply
from tests.transports.soar.sim.link import Link, Weather
from tests.transports.soar.sim.resolver import Resolver

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from tests.transports.soar.sim.quirks import Quirks
    from tests.transports.soar.sim.world import World

__all__ = ("Forger", "Route")


class Route:
    """A resolver and the links on both its sides.

    Args:
        world: where it lies.
        name: tells it from others, and seeds its dice.
        quirks: the resolver's kind.
        near, far: the links to the client's side and to the server's, each way.
        zone_labels: of the zone asked for.
        to_client: gets (client, message).
        to_server: gets (route, message, by TCP).
    """

    def __init__(
        self,
        world: World,
        name: str,
        quirks: Quirks,
        *,
        near: Weather,
        far: Weather,
        zone_labels: int,
        to_client: Callable[[Hashable, bytes], None],
        to_server: Callable[[Route, bytes, bool], None],
    ) -> None:
        self.name = name
        self.address = bytes((198, 51, zlib.crc32(name.encode()) & 255, 53))
        self.forger: Forger | None = None
        self._world = world
        self._to_client = to_client
        self._to_server = to_server
        self.up = Link[tuple[object, ...]](world, f"{name} up", near, self._at_resolver)
        self.down = Link[tuple[object, ...]](world, f"{name} down", near, to_client)
        self.far_up = Link[tuple[object, ...]](world, f"{name} far up", far, self._at_server)
        self.far_down = Link[tuple[object, ...]](world, f"{name} far down", far, self._back)
        reliable = replace(far, loss=0.0, duplicate=0.0, corrupt=0.0, jitter=0.0)
        self.stream_up = Link[tuple[object, ...]](
            world, f"{name} tcp up", reliable, self._at_server
        )
        self.stream_down = Link[tuple[object, ...]](world, f"{name} tcp down", reliable, self._back)
        self.resolver = Resolver(
            world, quirks, name=name, zone_labels=zone_labels, ask=self._ask,
            tell=self.down.send, round_trip=2 * far.delay,
        )  # fmt: skip

    def send(self, client: Hashable, message: bytes) -> None:
        """Take a question from a client."""
        if self.forger is not None:
            self.forger.see(client, message)
        self.up.send(client, message)

    def answer(self, message: bytes, *, tcp: bool) -> None:
        """Take an answer from a server."""
        (self.stream_down if tcp else self.far_down).send(tcp, message)

    def weather(self, *, near: Weather | None = None, far: Weather | None = None) -> None:
        """Change the links from now on."""
        if near is not None:
            self.up.weather = self.down.weather = near
        if far is not None:
            self.far_up.weather = self.far_down.weather = far
            self.stream_up.weather = self.stream_down.weather = replace(far, loss=0.0, corrupt=0.0)

    def _at_resolver(self, client: Hashable, message: bytes) -> None:
        self.resolver.receive(client, message)

    def _ask(self, message: bytes, tcp: bool) -> None:
        (self.stream_up if tcp else self.far_up).send(tcp, message)

    def _at_server(self, tcp: bool, message: bytes) -> None:
        self._to_server(self, message, tcp)

    def _back(self, tcp: bool, message: bytes) -> None:
        self.resolver.answer(message, tcp)


class Forger:
    """Sees every question on the client's link, and answers before the truth can."""

    def __init__(
        self,
        route: Route,
        world: World,
        kinds: tuple[str, ...],
        *,
        inject: Callable[[Hashable, bytes], None],
        share: float = 1.0,
    ) -> None:
        self.forged = 0
        self._inject = inject
        self._world = world
        self._dice = world.dice(f"forger {route.name}")
        self._kinds = kinds
        self._share = share

    def see(self, client: Hashable, message: bytes) -> None:
        query = Query.from_wire(message)
        if query is None or self._dice.random() >= self._share:
            return
        forged = self._forge(query, self._dice.choice(self._kinds))
        self.forged += 1
        self._world.after(0.001, lambda: self._inject(client, forged))

    def _forge(self, query: Query, kind: str) -> bytes:
        rcodes = {
            "nxdomain": 3,
            "servfail": 2,
            "refused": 5,
            "formerr": 1,
            "notimp": 4,
            "nodata": 0,
        }
        if kind in rcodes:
            return reply(query, rcode=rcodes[kind])
        if kind == "truncated":
            return reply(query, truncated=True)
        if kind == "notice":
            return _with_soa(query, self._dice.randbytes(23))
        octets = self._dice.randbytes(self._dice.randrange(20, 300))
        if kind == "noise":
            return reply(query)[: self._dice.randrange(12, 60)] + octets
        assert kind == "data", kind
        rdata = octets if query.qtype == DS else bytes([min(255, len(octets))]) + octets[:255]
        rtype = query.qtype if query.qtype in (DS, TXT) else SOA
        record = b"\xc0\x0c" + struct.pack("!HHIH", rtype, 1, 0, len(rdata)) + rdata
        head = struct.pack("!HHHHHH", query.id, 0x8180, 1, 1, 0, 0)
        return head + query.name + struct.pack("!HH", query.qtype, 1) + record


def _with_soa(query: Query, octets: bytes) -> bytes:
    """Return NXDOMAIN with `octets` where a notice has them (SPEC 15.4)."""
    label = base64.b32encode(octets).rstrip(b"=").lower()
    names = bytes([len(label)]) + label + b"\xc0\x0c" + b"\0"
    rdata = names + bytes(20)
    record = b"\xc0\x0c" + struct.pack("!HHIH", SOA, 1, 0, len(rdata)) + rdata
    head = struct.pack("!HHHHHH", query.id, 0x8583, 1, 0, 1, 0)
    return head + query.name + struct.pack("!HH", query.qtype, 1) + record
