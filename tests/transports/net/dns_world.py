"""Name servers in the lab's network in memory, and resolvers that ask them, on a virtual clock."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import anyio

from racer import lab
from tests.transports.net.world import BOTH
from transports._net import dns_carriers  # noqa: F401 - loaded here: a thread is nothing for a virtual clock
from transports._net.connector import Connector
from transports._net.dns_resolver import DNSResolver, ResolverTLS
from transports._net.hosts import Hosts, HostsResolver
from transports._net.resolve import SystemResolver
from transports._net.resolver_urls import ResolverURL

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Sequence

    from anyio.abc import ByteStream, UnreliableObjectStream

    from transports._net.addresses import Family
    from transports._net.resolve import Answer, Resolver

__all__ = (
    "DELAY",
    "HOSTS",
    "SERVER",
    "DNSWorld",
    "Said",
    "authority",
    "dns_world",
    "look_up",
    "says",
)

SERVER = "192.0.2.53"
DELAY = 0.01  # seconds one way

HOSTS = {
    "both.example": ["192.0.2.1", "2001:db8::1"],
    "four.example": ["192.0.2.4"],
    "many.example": [f"192.0.2.{n}" for n in range(1, 201)],
}

Said = tuple[float, "Family", tuple[str, ...]]
"""When, of which family, and which addresses."""


@cache
def authority() -> lab.Authority:
    return lab.Authority()


@cache
def trust(*alpn: str) -> ssl.SSLContext:
    return authority().client_context(alpn=alpn)


@dataclass
class DNSWorld:
    """A network, its hooks, and what was opened through them."""

    network: lab.Network
    zone: lab.Zone
    ends: list[Any] = field(default_factory=list)
    opened: list[tuple[str, str, int, float]] = field(default_factory=list)

    async def dial_tcp(self, address: str, port: int) -> ByteStream:
        self.opened.append(("tcp", address, port, anyio.current_time()))
        stream: Any = await self.network.dial_tcp(address, port)
        self.ends.append(stream.inner)
        return stream  # type: ignore[no-any-return]

    async def dial_udp(self, address: str, port: int) -> UnreliableObjectStream[bytes]:
        self.opened.append(("udp", address, port, anyio.current_time()))
        stream = await self.network.dial_udp(address, port)
        self.ends.append(stream)
        return stream

    def resolver(
        self,
        url: str,
        *,
        hosts: dict[str, list[str]] | None = None,
        alpn: Sequence[str] = (),
        **options: Any,
    ) -> DNSResolver:
        names = HostsResolver(Hosts(hosts), SystemResolver())
        return DNSResolver(
            ResolverURL.parse(url),
            Connector(names, dial_tcp=self.dial_tcp, dial_udp=self.dial_udp),
            tls=ResolverTLS(trust(*alpn)),
            **options,
        )

    def asked(self) -> list[tuple[str, str]]:
        return [(each.kind, each.over) for each in self.zone.asked]

    def assert_all_closed(self) -> None:
        assert [end for end in self.ends if not end.closed] == []


@asynccontextmanager
async def dns_world(
    *rules: lab.NameRule, hosts: dict[str, list[str]] | None = None, tls: bool = False
) -> AsyncIterator[DNSWorld]:
    """Yield a world with one name server at `SERVER`, 20 ms away and back; all must be closed when it ends."""
    zone = lab.Zone(HOSTS if hosts is None else hosts, rules)
    profile = lab.Profile(delay=DELAY)
    async with lab.Network(up=profile, down=profile, in_memory=True) as network:
        await network.add_name_server(
            "dns.example", SERVER, zone=zone, authority=authority() if tls else None
        )
        world = DNSWorld(network, zone)
        yield world
        world.assert_all_closed()


async def look_up(
    resolver: Resolver, name: str = "both.example", families: Sequence[Family] = BOTH
) -> tuple[list[Said], list[Exception]]:
    """Return what a resolver reported, with times since the beginning, and every error, raised or reported."""
    said: list[Said] = []
    errors: list[Exception] = []
    begun = anyio.current_time()

    def report(answer: Answer) -> None:
        now = round(anyio.current_time() - begun, 6)
        if answer.error is not None:
            errors.append(answer.error)
        else:
            said.extend(
                (
                    now,
                    family,
                    tuple(a for a in answer.addresses if (":" in a) == (family is BOTH[0])),
                )
                for family in answer.families
            )

    try:
        await resolver.resolve(name, families, report)
    except Exception as exc:
        errors.append(exc)
    return sorted(said, key=lambda each: (each[0], BOTH.index(each[1]))), errors


def says(errors: Sequence[Exception]) -> list[str]:
    return list(dict.fromkeys(getattr(exc, "strerror", None) or str(exc) for exc in errors))
