"""Resolvers that are set up in other ways than they come, and other ways to ask them."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from tests.transports.soar.carriers.driven import driven
from tests.transports.soar.live.resolvers import HOST, ZONE
from tests.transports.soar.live.world import world
from transports._net.resolver_urls import ResolverURL
from transports._net.udp import connect_datagrams
from transports.soar import _system_resolvers
from transports.soar._ways import make_ways

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from anyio.abc import UnreliableObjectStream

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


async def test_the_machine_s_own_resolvers(
    resolver_named: Callable[..., Resolver],
    upstream: Upstream,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """They have no ports but 53, which is not ours to listen on: a hook leads from there to one that is."""
    settings = tmp_path / "resolv.conf"
    settings.write_text("nameserver 192.0.2.53\nnameserver 2001:db8::53\n", encoding="utf-8")
    monkeypatch.setattr(_system_resolvers, "_FILE", str(settings))
    resolver = resolver_named("unbound")
    asked: list[tuple[str, int]] = []

    async def dial_udp(address: str, port: int) -> UnreliableObjectStream[bytes]:
        asked.append((address, port))
        return await connect_datagrams(HOST, resolver.port)

    async with world(upstream) as it, it.client(["system"], dial_udp=dial_udp) as client:
        await client.echo()
        await client.download(20_000)
        assert it.handshakes() == {"welcome": 1}
        assert set(client.soar.status().details) == {"udp://192.0.2.53", "udp://[2001:db8::53]"}
    assert set(asked) == {("192.0.2.53", 53), ("2001:db8::53", 53)}


async def test_a_context_that_offers_no_http2_is_told_of(front: Front) -> None:
    """Unbound hangs up on it without a word."""
    deaf = ssl.create_default_context(cadata=front.pem)
    deaf.verify_flags &= ~ssl.VERIFY_X509_STRICT
    url = ResolverURL.parse(front.resolver.url("https"))
    (way,) = make_ways([url], zones=[ZONE], tls=deaf, dial_tcp=None, dial_udp=None)
    async with driven(way.carrier) as told:
        way.carrier.send([b"question"])
        await told.until(failures=1)
    assert "TLS did not agree on HTTP/2" in str(told.failures[0][1])
