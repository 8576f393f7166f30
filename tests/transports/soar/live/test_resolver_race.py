"""`racer.dial` where nothing but the DNS is left: Soar wins, through unbound as Debian has it."""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import pytest
from anyio.streams.tls import TLSAttribute

import racer
from racer import lab
from racer.errors import AllAttemptsFailed, TargetRefused
from tests.transports.soar.live.resolvers import ZONE
from tests.transports.soar.live.world import everything, world
from transports._net.hosts import Hosts, HostsResolver
from transports._net.resolve import SystemResolver
from transports.direct import Direct
from transports.soar import Soar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.transports.soar.live.resolvers import Resolver, Upstream
    from tests.transports.soar.live.world import World

NAME = "news.example"
ELSEWHERE = "elsewhere.example"  # at an address that the server may not reach
REQUEST = b"GET / HTTP/1.1\r\nHost: news.example\r\n\r\n"


@cache
def authority() -> lab.Authority:
    return lab.Authority()


@dataclass
class Censored:
    """A network on which packets to the site vanish, and a resolver.

    Attributes:
        world: with the Soar server, which is outside and can look the site up.
        port: of the site.
        dialer: that has both ways, and is the loop's default.
        net: what the direct way meets.
    """

    world: World
    port: int
    dialer: racer.Dialer
    net: lab.Network


@asynccontextmanager
async def censored(
    upstream: Upstream, resolver: Resolver, *, name: str = NAME
) -> AsyncIterator[Censored]:
    """Yield such a network; the site's certificate is for `name`."""
    table = Hosts({NAME: ["127.0.0.1"], ELSEWHERE: ["192.0.2.9"]})
    outside = HostsResolver(table, SystemResolver())
    context = await authority().make_server_context(name)
    async with (
        lab.Server(lab.hello, context=context) as site,
        world(upstream, resolver=outside) as it,
        lab.Network() as net,
    ):
        await net.add_site(NAME, "192.0.2.7", port=site.address[1])
        net.rules.append(lab.Blackhole())
        direct = Direct(dial_tcp=net.dial_tcp, hosts=net.hosts)
        soar = Soar(domain=ZONE, server_key=it.server.public_key, resolvers=[resolver.url()])
        async with racer.Dialer([direct, racer.Entrant(soar, start_delay=0.02)]) as dialer:
            racer.set_default_dialer(dialer)
            yield Censored(it, site.address[1], dialer, net)


async def test_soar_wins_where_direct_is_blocked(
    resolver_named: Callable[..., Resolver], upstream: Upstream
) -> None:
    trust = authority().client_context()
    async with censored(upstream, resolver_named("unbound")) as it:
        for _ in range(2):
            async with await racer.dial(NAME, it.port, tls=trust) as stream:
                assert stream.transport_name == "soar"
                certificate = stream.extra(TLSAttribute.peer_certificate)
                assert certificate is not None
                assert ("DNS", NAME) in certificate["subjectAltName"]
                await stream.send(REQUEST)
                assert (await everything(stream)).endswith(b"hello from the lab\n")
        assert [hit.address for hit in it.net.hits] == ["192.0.2.7"] * 2
        assert it.world.handshakes() == {"welcome": 1}


async def test_a_tunnel_to_somebody_else_is_not_taken(
    resolver_named: Callable[..., Resolver], upstream: Upstream
) -> None:
    async with censored(upstream, resolver_named("unbound"), name="false.example") as it:
        with pytest.raises(AllAttemptsFailed) as caught:
            await it.dialer.dial(NAME, it.port, tls=authority().client_context(), only="soar")
        assert caught.value.find(ssl.SSLCertVerificationError)


async def test_what_the_server_will_not_reach_is_said(
    resolver_named: Callable[..., Resolver], upstream: Upstream
) -> None:
    async with censored(upstream, resolver_named("unbound")) as it:
        with pytest.raises(AllAttemptsFailed) as caught:
            await it.dialer.dial(ELSEWHERE, it.port, tls=False, only="soar")
        assert caught.value.find(TargetRefused)
