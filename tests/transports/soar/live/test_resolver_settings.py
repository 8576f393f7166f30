"""Resolvers that are set up in other ways than they come, and other ways to ask them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import dns.resolver
import pytest

from tests.transports.soar.live.resolvers import HOST
from tests.transports.soar.live.world import world

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from anyio.abc import UDPSocket

    from tests.transports.soar.live.conftest import Front
    from tests.transports.soar.live.resolvers import Resolver, Upstream

# What goes into unbound's `server:` clause.
SETTINGS = {
    "0x20": "use-caps-for-id: yes",
    "512 octets": "max-udp-size: 512\n  edns-buffer-size: 512",
    "TCP to the server": "tcp-upstream: yes",
    "no minimisation": "qname-minimisation: no",
    "strict minimisation": "qname-minimisation-strict: yes",
    "prefetch": "prefetch: yes\n  serve-expired: yes",
    "hardened": "harden-large-queries: yes\n  harden-referral-path: yes\n  harden-short-bufsize: yes\n  aggressive-nsec: yes",
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
async def test_unbound_set_up_otherwise(
    settings: str, resolver_named: Callable[..., Resolver], upstream: Upstream
) -> None:
    resolver = resolver_named("unbound", more=f"  {settings}\n")
    async with world(upstream) as it, it.client([resolver.url()]) as client:
        await client.echo()
        await client.download(60_000)
        await client.upload(10_000)
        assert it.handshakes() == {"welcome": 1}


@pytest.mark.parametrize("way", ["tcp", "tls", "https"])
async def test_unbound_asked_over_a_connection(way: str, front: Front, upstream: Upstream) -> None:
    context = front.trust if way != "tcp" else None
    async with (
        world(upstream) as it,
        it.client([front.resolver.url(way)], resolver_tls=context) as client,
    ):
        await client.echo()
        await client.download(100_000)
        await client.upload(20_000)
        assert it.handshakes() == {"welcome": 1}
