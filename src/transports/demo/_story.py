"""A race on a censored network that is made up on this machine: the sockets, the TLS, the resolver and the tunnel are real."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import racer
from racer import lab
from racer.cli._live import watch
from racer.errors import DialError
from transports._net.addresses import Family
from transports._net.resolve import Answer
from transports.demo._dns_path import carry, resolver_before
from transports.direct import Direct
from transports.soar import Soar, SoarServer, generate_key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from racer import RaceReport
    from racer.cli._live import View

__all__ = ("FAST", "HOST", "SLOW", "Censored", "Played", "play")

HOST: Final = "news.example"
# Addresses set apart for documentation, RFC 5737.
ADDRESS: Final = "192.0.2.7"
MIRROR: Final = "198.51.100.7"
RESOLVER: Final = "203.0.113.53"
ZONE: Final = "t.example.com"

SLOW: Final = 1.0
FAST: Final = 0.1
_DELAY: Final = 0.12  # seconds that a byte takes each way: slow enough to watch
_JITTER: Final = 0.03
_STAGGER: Final = 0.8  # seconds from one route's start to the next one's
_TIMEOUT: Final = 30.0  # seconds for the race; it takes a tenth of that
_MAX_ANSWER: Final = 65_536  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What the race came to.

    Attributes:
        report: the race.
        answer: what the site said over the connection that won: status and text; `None` if nobody won.
    """

    report: RaceReport
    answer: tuple[str, str] | None


class Abroad:
    """Looks names up where the server is: there is one."""

    async def resolve(
        self, name: str, families: Sequence[Family], report: Callable[[Answer], None]
    ) -> None:
        """Say where the site is, if it is asked for."""
        for family in families:
            known = name == HOST and family is Family.IPV4
            report(Answer(families=(family,), addresses=(ADDRESS,) if known else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Censored:
    """A network that is up.

    Attributes:
        network: the user's side of it.
        server_key: the Soar server's, which is on the other.
        resolver: what kind of resolver answers in between.
    """

    network: lab.Network
    server_key: str
    resolver: str


@asynccontextmanager
async def censored(authority: lab.Authority, *, seed: int, pace: float) -> AsyncIterator[Censored]:
    """Run the network; `authority` makes its certificates."""
    link = lab.Profile(delay=_DELAY * pace, jitter=_JITTER * pace)
    near = lab.Profile(delay=_DELAY * pace / 10)  # from the server to the site
    home = lab.Network(seed=seed, up=link, down=link)
    abroad = lab.Network(seed=seed, up=near, down=near)
    server = SoarServer(
        domain=ZONE,
        key=generate_key(),
        allow=[f"{ADDRESS}:443"],
        resolver=Abroad(),
        dial_tcp=abroad.dial_tcp,
        uptime=3600.0,
    )
    async with home, abroad, server, resolver_before(ZONE, server.address) as resolver:
        await abroad.add_site(HOST, ADDRESS, authority=authority, handler=lab.hello)
        await home.add_site(HOST, ADDRESS, MIRROR, authority=authority, handler=lab.hello)
        home.add_datagram_site(
            "resolver.example",
            RESOLVER,
            port=53,
            handler=lambda client: carry(client, resolver.address),
        )
        home.rules += [
            lab.Blackhole(address=ADDRESS),
            lab.ResetOnName(names=(HOST,), address=MIRROR),
        ]
        yield Censored(network=home, server_key=server.public_key, resolver=resolver.name)


def entrants(place: Censored, *, pace: float) -> list[racer.Entrant]:
    """Return the routes, in the order of their start."""
    network = place.network

    def straight(address: str) -> Direct:
        return Direct(hosts={HOST: [address]}, dial_tcp=network.dial_tcp)

    tunnel = Soar(
        domain=ZONE,
        server_key=place.server_key,
        resolvers=[f"udp://{RESOLVER}"],
        dial_udp=network.dial_udp,
    )
    return [
        racer.Entrant(straight(ADDRESS), name="direct"),
        racer.Entrant(straight(MIRROR), name="mirror", start_delay=_STAGGER * pace),
        racer.Entrant(tunnel, start_delay=2 * _STAGGER * pace),
    ]


async def play(
    view: View,
    authority: lab.Authority,
    *,
    seed: int,
    pace: float,
    announce: Callable[[Censored], None] | None = None,
) -> Played:
    """Run the race, and say hello over the connection that won.

    Args:
        view: shows it meanwhile; its end is the caller's to show.
        authority: makes the network's certificates, and is trusted.
        seed: of the network's dice.
        pace: what all times are multiplied with.
        announce: is told of the network before the race.
    """
    async with (
        censored(authority, seed=seed, pace=pace) as place,
        racer.Dialer(entrants(place, pace=pace), timeout=_TIMEOUT) as dialer,
    ):
        if announce is not None:
            announce(place)
        race = dialer.race(HOST, tls=authority.client_context())
        try:
            stream = await watch(race, view)
        except DialError as exc:
            return Played(report=exc.report, answer=None)
        async with stream:
            assert isinstance(stream, racer.Connection)
            return Played(report=race.report, answer=await ask(stream))


async def ask(stream: racer.Connection) -> tuple[str, str]:
    """Return status and text of the site's front page."""
    await stream.send(f"GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
    answer = b""
    async for piece in stream:
        answer += piece
        if len(answer) > _MAX_ANSWER:
            break
    head, _, body = answer.decode("utf-8", "replace").partition("\r\n\r\n")
    return head.split("\r\n")[0].partition(" ")[2], body.strip()
