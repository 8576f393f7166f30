"""The networks that dialers are sent into: one site, one proxy abroad, and a censor in between."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

from benchmarks._names import AskedNames
from benchmarks._tunnel import RESOLVER
from racer import lab

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from anyio.abc import ByteStream

    from benchmarks._tunnel import Tunnel
    from transports.soar import Soar

__all__ = ("ADDRESS", "DELAY", "HOST", "JITTER", "KINDS", "PROXY", "Authorities", "Kind", "World")

HOST: Final = "news.example"
ADDRESS: Final = "192.0.2.7"  # addresses set apart for documentation, RFC 5737
PROXY: Final = ("203.0.113.9", 1080)
_FORGED: Final = "198.51.100.66"
_NAME_SERVER: Final = "192.0.2.53"

DELAY: Final = 0.02
"""Seconds that a byte takes, each way."""
JITTER: Final = 0.005
"""Seconds at most that are added to it."""

_FLAPS: Final = 0.4
"""Seconds: some handshakes of five round trips come through between two losses, and most do not."""

_RESEND_AFTER: Final = 1.0
"""Seconds until a SYN is sent again, and twice as many until the next: as systems do (RFC 6298 §2.1)."""

_ABROAD: Final = lab.Profile(delay=0.005)  # from the proxy to the site


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What is wrong with a network.

    Attributes:
        name: what tables call it.
        words: what it does, for people.
        rules: what its censor does to connections.
        forges: whether its name server lies about the site.
        waits: whether only a time limit ends an attempt to go straight there, so that dials take seconds.
        flaps: seconds for which the site can be reached, and then as long not; 0 if that does not change.
        tunnelled: whether DNS is what is left, so that there is a third route, Soar.
        deadline: seconds that a dial has here; `None` for what it has elsewhere.
    """

    name: str
    words: str
    rules: tuple[lab.Rule, ...] = ()
    forges: bool = False
    waits: bool = False
    flaps: float = 0.0
    tunnelled: bool = False
    deadline: float | None = None


KINDS: Final = (
    Kind(name="clean", words="nothing is in the way"),
    Kind(
        name="poisoned-dns",
        words="the name server lies; at the forged address another certificate answers",
        forges=True,
    ),
    Kind(
        name="sni-reset",
        words="connections are reset when TLS names the site",
        rules=(lab.ResetOnName(names=(HOST,)),),
    ),
    Kind(
        name="refused",
        words="the site's address refuses connections",
        rules=(lab.Refuse(address=ADDRESS),),
    ),
    Kind(
        name="blackhole",
        words="packets to the site's address vanish",
        rules=(lab.Blackhole(address=ADDRESS),),
        waits=True,
    ),
    Kind(
        name="hang",
        words="the site's address accepts connections, and nothing ever comes",
        rules=(lab.AcceptAndHang(address=ADDRESS),),
        waits=True,
    ),
    Kind(
        name="throttled",
        words="1.5 kB/s for each connection to the site's address",
        rules=(lab.Throttle(address=ADDRESS, rate=1_500),),
        waits=True,
    ),
    Kind(
        name="flapping",
        words=f"every {_FLAPS:g} s the site's address is lost, with all connections to it, and comes back",
        flaps=_FLAPS,
        waits=True,
    ),
    Kind(
        name="dns-only",
        words="every packet but those of DNS vanishes; a third route is Soar, through a real resolver",
        rules=(lab.Allow(port=53), lab.Blackhole()),
        waits=True,
        tunnelled=True,
        deadline=12.0,
    ),
)


class Authorities:
    """The one that clients trust, and the one that a forger has."""

    def __init__(self) -> None:
        self.trusted = lab.Authority()
        self.forger = lab.Authority()
        self.client: ssl.SSLContext = self.trusted.client_context()


class World:
    """A network as one client meets it.

    Args:
        network: where it is.
        names: how it looks names up.
        context: whom it trusts.
        sites: everything that answers for the site.
        tunnel: what is behind the third route, if there is one.
        resends: whether a lost SYN is sent again, for networks that may let it pass then.
    """

    def __init__(
        self,
        network: lab.Network,
        names: AskedNames,
        context: ssl.SSLContext,
        sites: tuple[lab.Site, ...],
        tunnel: Tunnel | None = None,
        *,
        resends: bool = False,
    ) -> None:
        self.names = names
        self.context = context
        self._network = network
        self._sites = sites
        self._tunnel = tunnel
        self._resends = resends
        self._resent = 0

    async def dial_tcp(self, address: str, port: int) -> ByteStream:
        """Return a TCP connection that crosses the censored network."""
        wait = _RESEND_AFTER
        while self._resends:
            with anyio.move_on_after(wait):
                return await self._network.dial_tcp(address, port)
            self._resent += 1
            wait *= 2
        return await self._network.dial_tcp(address, port)

    def soar(self) -> Soar | None:
        """Return the third route's guest; `None` where there is no third route."""
        return None if self._tunnel is None else self._tunnel.guest(self._network)

    @property
    def has_tunnel(self) -> bool:
        """Whether there is a third route."""
        return self._tunnel is not None

    @property
    def dialed_tcp(self) -> int:
        """How many TCP connections were begun."""
        connects = self._network.connects
        return sum(count for (_, port), count in connects.items() if port != 53) - self._resent

    @property
    def has_tunnelled(self) -> bool:
        """Whether Soar's resolver was asked: all its questions together are one connection."""
        return self._network.connects[RESOLVER, 53] > 0

    @property
    def reached(self) -> int:
        """How many TCP connections came as far as somebody who answers for the site, through the proxy included."""
        return sum(site.connections for site in self._sites)

    @classmethod
    @asynccontextmanager
    async def of(
        cls,
        kind: Kind,
        authorities: Authorities,
        *,
        seed: int,
        in_memory: bool = False,
        tunnel: Tunnel | None = None,
    ) -> AsyncIterator[World]:
        """Run such a network while the context lasts; the same seed gives the same one.

        Args:
            kind: what is wrong with it.
            authorities: who makes its certificates.
            seed: of its dice.
            in_memory: whether to do without sockets, for virtual clocks.
            tunnel: what is behind the third route; it needs sockets.
        """
        link = lab.Profile(delay=DELAY, jitter=JITTER)
        home = lab.Network(seed=seed, up=link, down=link, in_memory=in_memory)
        abroad = lab.Network(seed=seed, up=_ABROAD, down=_ABROAD, in_memory=in_memory)
        async with abroad, home, anyio.create_task_group() as group:
            home.rules += kind.rules
            proxy = lab.Socks5Proxy(connect=abroad.connector())
            # What a forger has is a certificate for the name, from an authority of its own.
            forged = await authorities.forger.make_server_context(HOST)
            sites = (
                await abroad.add_site(HOST, ADDRESS, authority=authorities.trusted),
                await home.add_site(HOST, ADDRESS, authority=authorities.trusted),
                await home.add_site("forged.example", _FORGED, context=forged),
            )
            await home.add_site(
                "proxy.example", PROXY[0], port=PROXY[1], handler=proxy.serve_stream
            )
            zone = await home.add_name_server("ns.example", _NAME_SERVER)
            if kind.forges:
                zone.rules.append(lab.Forge(name=HOST, addresses=(_FORGED,)))
            if tunnel is not None:
                tunnel.join(home)
            if kind.flaps:
                group.start_soon(_flap, home, kind.flaps, seed)
            names = AskedNames(home, _NAME_SERVER)
            yield cls(home, names, authorities.client, sites, tunnel, resends=kind.flaps > 0)
            group.cancel_scope.cancel()


async def _flap(network: lab.Network, period: float, seed: int) -> None:
    """Take the site's address away and give it back; where in that a dial begins is for the dice."""
    lost = lab.Blackhole(address=ADDRESS)
    dice = random.Random(seed)
    first = dice.uniform(0.0, 2 * period)
    away = first < period
    if away:
        network.rules.append(lost)
    await anyio.sleep(first if away else first - period)
    while True:
        away = not away
        if away:
            network.rules.append(lost)
            network.cut(ADDRESS)
        else:
            network.rules.remove(lost)
        await anyio.sleep(period)
