"""A Soar server behind a real recursive resolver: the way that is left where nothing but DNS gets out."""

from __future__ import annotations

import shutil
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks._results import Unusable
from racer import lab
from transports.demo._dns_path import Forwarder, ResolverBehind, carry, resolver_before
from transports.direct import Answer, Family
from transports.soar import Soar, SoarServer, generate_key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

__all__ = ("RESOLVER", "RESOLVERS", "ZONE", "Tunnel", "check_resolver")

ZONE: Final = "t.example.com"
RESOLVER: Final = "203.0.113.53"  # set apart for documentation, RFC 5737
RESOLVERS: Final = ("unbound", "forwarder")
_PATH: Final = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin"
_NEAR: Final = lab.Profile(delay=0.005)  # from the server to the site


def check_resolver(resolver: str) -> None:
    """Raise `Unusable` if that resolver cannot be run here."""
    if resolver == "unbound" and shutil.which("unbound", path=_PATH) is None:
        msg = (
            "where only DNS gets out a resolver is needed, and unbound is not installed; install it (Debian: "
            "apt install unbound), or take a plain forwarder with --resolver forwarder"
        )
        raise Unusable(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunnel:
    """A Soar server and a resolver in front of it, both running.

    Attributes:
        resolver: what answers, and where on loopback.
        server_key: the server's.
    """

    resolver: ResolverBehind
    server_key: str

    @classmethod
    @asynccontextmanager
    async def of(
        cls,
        host: str,
        address: str,
        authority: lab.Authority,
        *,
        seed: int,
        resolver: str = "unbound",
    ) -> AsyncIterator[Tunnel]:
        """Run both while the context lasts.

        Args:
            host: the one site that may be reached.
            address: where it is.
            authority: makes its certificate.
            seed: of the dice of the network behind the server.
            resolver: one of `RESOLVERS`.

        Raises:
            Unusable: the resolver is not installed.
        """
        check_resolver(resolver)
        abroad = lab.Network(seed=seed, up=_NEAR, down=_NEAR)
        server = SoarServer(
            domain=ZONE,
            key=generate_key(),
            allow=[f"{address}:443"],
            resolver=_Abroad(host, address),
            dial_tcp=abroad.dial_tcp,
            uptime=3600.0,  # it has been known for an hour: clients need not be told that it is new
        )
        async with abroad, server, _in_front(resolver, server.address) as behind:
            await abroad.add_site(host, address, authority=authority)
            yield cls(resolver=behind, server_key=server.public_key)

    def join(self, network: lab.Network) -> None:
        """Let a network's clients reach the resolver, at `RESOLVER`."""
        network.add_datagram_site(
            "resolver.example",
            RESOLVER,
            port=53,
            handler=lambda client: carry(client, self.resolver.address),
        )

    def guest(self, network: lab.Network) -> Soar:
        """Return a guest that is new to the server, and asks through that network."""
        return Soar(
            domain=ZONE,
            server_key=self.server_key,
            resolvers=[f"udp://{RESOLVER}"],
            dial_udp=network.dial_udp,
        )


@asynccontextmanager
async def _in_front(resolver: str, server: tuple[str, int]) -> AsyncIterator[ResolverBehind]:
    if resolver == "unbound":
        async with resolver_before(ZONE, server) as behind:
            yield behind
    else:
        async with Forwarder(server) as forwarder:
            yield ResolverBehind("a forwarder", forwarder.address)


class _Abroad:
    """Looks names up where the server is: there is one."""

    def __init__(self, host: str, address: str) -> None:
        self._host = host
        self._address = address

    async def resolve(
        self, name: str, families: Sequence[Family], report: Callable[[Answer], None]
    ) -> None:
        for family in families:
            known = name == self._host and family is Family.IPV4
            report(Answer(families=(family,), addresses=(self._address,) if known else ()))
