"""One session through each resolver that Debian has, as it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from racer.errors import ErrorType, TargetRefused
from tests.transports.soar.live.resolvers import RESOLVERS
from tests.transports.soar.live.world import exactly, world
from transports.soar.core.client import partials
from transports.soar.core.dns.zone import PartialAnswer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.transports.soar.live.resolvers import Resolver, Upstream


@pytest.fixture(params=sorted(RESOLVERS))
def resolver(request: pytest.FixtureRequest, resolver_named: Callable[..., Resolver]) -> Resolver:
    return resolver_named(request.param)


async def test_the_second_dial_takes_the_session_of_the_first(
    resolver: Resolver, upstream: Upstream
) -> None:
    async with world(upstream) as it, it.client([resolver.url()]) as client:
        await client.echo(b"cold")
        await client.echo(b"warm")
        assert it.handshakes() == {"welcome": 1}
        assert len(client.soar.status().sessions) == 1


async def test_octets_arrive_as_they_were_sent(resolver: Resolver, upstream: Upstream) -> None:
    async with world(upstream) as it, it.client([resolver.url()]) as client:
        await client.download(300_000)
        await client.upload(50_000)
        assert it.handshakes() == {"welcome": 1}


async def test_a_target_speaks_up_on_an_idle_stream(resolver: Resolver, upstream: Upstream) -> None:
    async with (
        world(upstream) as it,
        it.client([resolver.url()]) as client,
        client.open(b"push") as stream,
    ):
        await client.becomes_idle()
        it.push.set()
        assert await exactly(stream, 4) == b"news"


async def test_a_target_that_refuses_says_so(resolver: Resolver, upstream: Upstream) -> None:
    async with world(upstream) as it, it.client([resolver.url()]) as client:
        with pytest.raises(TargetRefused) as caught:
            async with client.open(b"echo", it.nobody):
                pass
        assert caught.value.error_type is ErrorType.CONNECTION_REFUSED
        await client.echo(b"and the session goes on")
        assert it.handshakes() == {"welcome": 1}


async def test_partial_names_that_are_refused_harm_no_upload_and_save_unbound_a_question(
    resolver: Resolver, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a delay nothing shows which resolver it is (SPEC 12.8), so each is taken for Unbound here, from the start on.

    On a busy machine the first upload could else be over before the search is, or late answers look like losses.
    """
    monkeypatch.setattr(partials, "_costs_a_round_trip", lambda *_, **__: True)
    monkeypatch.setattr(partials, "_NXDOMAIN", PartialAnswer.REFUSED)
    async with world(upstream) as it, it.client([resolver.url()]) as client:
        await client.upload(50_000)
        before = it.server.status().questions
        await client.upload(50_000)
        after = it.server.status().questions
        packets, others = (after[kind] - before[kind] for kind in ("packet", "other"))
        if resolver.name in {"unbound", "dnsmasq"}:  # the latter in front of the former
            assert 0.3 * packets < others < 1.2 * packets  # NXDOMAIN makes it two for each
        assert it.handshakes() == {"welcome": 1}
