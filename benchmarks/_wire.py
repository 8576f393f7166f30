"""Networks of packets with a censor in them, what a client comes to in one, and what was on the wire meanwhile."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

from racer import lab
from racer.lab import packets

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from anyio.abc import Process

    from racer.lab.packets import Packet

__all__ = (
    "ADDRESS",
    "CENSORS",
    "DOT",
    "FAR",
    "HOST",
    "NEAR",
    "NETWORKS",
    "SYSTEM",
    "Censor",
    "FirstFlight",
    "Wire",
)

HOST: Final = "news.example"
ADDRESS, ADDRESS_V6 = "192.0.2.7", "2001:db8:7::7"
FORGED, _RESOLVER = "192.0.2.66", "192.0.2.53"
SYSTEM, DOT = "system", f"tls://{_RESOLVER}"

NEAR: Final = 0.005
"""Seconds from the client to the censor, each way."""
FAR: Final = 0.015
"""Seconds from the censor to the server, each way."""

_ROOT: Final = Path(__file__).parents[1]
_NAMES: Final = (HOST,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Censor:
    """What is wrong with a network.

    Attributes:
        name: what tables call it.
        words: what it does, for people.
        rules: the same as rules.
        near_hops: routers between the client and it.
    """

    name: str
    words: str
    rules: tuple[lab.Rule, ...] = ()
    near_hops: int = 1


_filter = partial(packets.SNIFilter, names=_NAMES)


_NONE, _IN_ORDER, _FULL = packets.Reassembly
_LIE: Final = packets.InjectDNS(names=_NAMES, addresses=(FORGED,))
_SILENT: Final = packets.Action.DROP

FREE: Final = Censor(name="free", words="nothing is in the way")

CENSORS: Final = (
    FREE,
    Censor(
        name="segment",
        words="reads TLS in each segment alone",
        rules=(_filter(reassembly=_NONE),),
    ),
    Censor(
        name="scan-segment",
        words="looks for the octets of the name in each segment alone",
        rules=(_filter(reassembly=_NONE, scans=True),),
    ),
    Censor(
        name="first-record",
        words="puts segments together, and reads the first TLS record",
        rules=(_filter(joins_records=False),),
    ),
    Censor(
        name="scan-stream",
        words="puts segments together, and looks for the octets of the name",
        rules=(_filter(scans=True),),
    ),
    Censor(
        name="in-order",
        words="puts segments together while they come in order, and records too",
        rules=(_filter(reassembly=_IN_ORDER),),
    ),
    Censor(
        name="in-order-door",
        words="the same, before the first router",
        rules=(_filter(reassembly=_IN_ORDER),),
        near_hops=0,
    ),
    Censor(
        name="in-order-ttl",
        words="the same, but it ignores what will not live to arrive",
        rules=(_filter(reassembly=_IN_ORDER, heeds_ttl=True),),
        near_hops=0,
    ),
    Censor(name="full", words="puts everything together", rules=(_filter(),)),
)
"""Filters of names, of rising skill; each resets both ways."""

NETWORKS: Final = (
    FREE,
    CENSORS[1],
    Censor(
        name="segment-silent",
        words="the same, but packets vanish instead",
        rules=(_filter(reassembly=_NONE, action=_SILENT),),
    ),
    *CENSORS[3:6],
    Censor(
        name="dns-injection",
        words="answers over UDP are forged, and come before the true ones",
        rules=(_LIE,),
    ),
    Censor(
        name="dns-and-segment",
        words="both",
        rules=(_LIE, _filter(reassembly=_NONE)),
    ),
    Censor(
        name="throttled",
        words="8 kB/s for each connection to the site",
        rules=(lab.Throttle(address=ADDRESS, rate=8_000),),
    ),
    Censor(name="full", words="puts everything together", rules=(_filter(),)),
    Censor(
        name="blackhole",
        words="packets to the site's address vanish",
        rules=(lab.Blackhole(address=ADDRESS),),
    ),
)
"""What a whole search is sent into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstFlight:
    """What a client sent before the server had said anything, as it was on the wire.

    Attributes:
        segments: octets of data in each TCP segment, in the order in which they were sent first.
        records: octets in each TLS record of it.
        sent_again: segments that were sent once more.
        expired: segments that a router dropped for their TTL.
    """

    segments: tuple[int, ...]
    records: tuple[int, ...]
    sent_again: int
    expired: int


class Wire:
    """A packet network with a site, its forger, and a resolver.

    Args:
        net: the network.
        authority: the certificate of whom clients trust.
    """

    def __init__(self, net: packets.PacketNetwork, authority: bytes) -> None:
        self.net = net
        self._authority = authority.decode("ascii")
        self._clients: dict[str, Process] = {}

    @classmethod
    @asynccontextmanager
    async def of(
        cls, *, near: float = NEAR, far: float = FAR, near_hops: int = 1
    ) -> AsyncIterator[Wire]:
        """Run such a network while the context lasts."""
        async with packets.PacketNetwork(
            servers=[ADDRESS, ADDRESS_V6, FORGED, _RESOLVER],
            near=lab.Profile(delay=near),
            far=lab.Profile(delay=far),
            near_hops=near_hops,
            resolver=_RESOLVER,
        ) as net:
            authority = await net.serve(
                packets.Service(names=_NAMES, addresses=(ADDRESS, ADDRESS_V6)),
                packets.Service(names=_NAMES, addresses=(FORGED,), forged=True),
                packets.NameService(addresses=(_RESOLVER,), hosts={HOST: (ADDRESS,)}),
            )
            yield cls(net, authority)

    async def use(
        self,
        censor: Censor,
        *,
        strategies: Sequence[str] = (),
        resolvers: Sequence[str] = (),
        addresses: Sequence[str] = (ADDRESS,),
        times: int = 1,
        timeout: float = 10.0,
        backend: str = "asyncio",
        dialer: str | None = None,
    ) -> list[dict[str, Any]]:
        """Return what a client comes to: with each strategy, with resolvers by a search, or by a dialer of that name.

        Raises:
            RuntimeError: the client crashed; with its words.
        """
        self.net.rules[:] = censor.rules
        self.net.captured.clear()
        self.net.hits.clear()
        told = {
            "authority": self._authority,
            "host": HOST,
            "strategies": list(strategies),
            "resolvers": list(resolvers),
            "addresses": list(addresses),
            "times": times,
            "timeout": timeout,
            "dialer": dialer,
        }
        client = await self._client(backend)
        assert client.stdin is not None
        assert client.stdout is not None
        await client.stdin.send(json.dumps(told).encode() + b"\n")
        said = b""
        try:
            while not said.endswith(b"\n"):
                said += await client.stdout.receive()
        except anyio.EndOfStream:
            assert client.stderr is not None
            words = b"".join([chunk async for chunk in client.stderr]).decode("utf-8", "replace")
            msg = f"the client crashed: {words}"
            raise RuntimeError(msg) from None
        found: list[dict[str, Any]] = json.loads(said)
        return found

    async def _client(self, backend: str) -> Process:
        if backend not in self._clients:
            self._clients[backend] = await self.net.open(
                packets.Side.CLIENT,
                sys.executable,
                "-m",
                "benchmarks._wire_client",
                backend,
                env={"PYTHONPATH": f"{_ROOT}:{_ROOT / 'src'}"},
            )
        return self._clients[backend]

    @property
    def connections(self) -> int:
        """How many connections to the site, or its forger, were begun since the last `use`."""
        return self._count(packets.Point.SENT)

    @property
    def reached(self) -> int:
        """How many of them came as far as the site or its forger."""
        return self._count(packets.Point.DELIVERED)

    def _count(self, point: packets.Point) -> int:
        return len(
            {
                each.packet.source_port
                for each in self.net.captured
                if each.point is point
                and each.side is packets.Side.CLIENT
                and packets.Flags.SYN in each.packet.flags
                and each.packet.destination_port == 443
            }
        )

    def is_untouched(self, port: int) -> bool:
        """Return whether the censor let all of the connection from a port of the client's pass."""
        meddled = {packets.Point.SWALLOWED, packets.Point.INJECTED}
        return not any(
            each.point in meddled and port in _ports(each.packet) for each in self.net.captured
        )

    def pcap(self) -> bytes:
        """Return what was on the wire since the last `use`, as a file for other programs."""
        return packets.pcap(self.net.captured)

    def first_flight(self, port: int) -> FirstFlight:
        """Return the first flight of the connection from a port of the client's."""
        segments: dict[int, bytes] = {}
        sent_again = expired = 0
        answered = False
        for each in self.net.captured:
            packet = each.packet
            if packet.over != "tcp" or not packet.data or port not in _ports(packet):
                continue
            if each.side is packets.Side.SERVER:
                answered |= each.point is packets.Point.DELIVERED
            elif each.point is packets.Point.EXPIRED:
                expired += 1
            elif each.point is packets.Point.SENT and not answered:
                sent_again += packet.seq in segments
                segments.setdefault(packet.seq, packet.data)
        stream = b"".join(segments[seq] for seq in sorted(segments))
        return FirstFlight(
            segments=tuple(len(data) for data in segments.values()),
            records=_records(stream),
            sent_again=sent_again,
            expired=expired,
        )


def _ports(packet: Packet) -> tuple[int, int]:
    return packet.source_port, packet.destination_port


def _records(stream: bytes) -> tuple[int, ...]:
    lengths = []
    while len(stream) >= 5:
        length = int.from_bytes(stream[3:5], "big")
        lengths.append(length)
        stream = stream[5 + length :]
    return tuple(lengths)
