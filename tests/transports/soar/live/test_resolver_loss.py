"""Several resolvers of which some die, fall silent, or lie."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from racer import lab
from tests.transports.soar.live.resolvers import running
from tests.transports.soar.live.world import everything, exactly, pattern, world

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.transports.soar.live.resolvers import Resolver, Upstream
    from tests.transports.soar.live.world import Client

SIZE = 400_000
NOT_YET = "no answer yet"


@pytest.fixture
def mortal(tmp_path: Path, upstream: Upstream) -> Iterator[Resolver]:
    """An unbound for this test alone."""
    with running("unbound", tmp_path / "mortal", upstream) as resolver:
        yield resolver


def is_in_use(client: Client, resolver: Resolver) -> bool:
    return NOT_YET not in str(client.soar.status().details[resolver.url()])


@contextmanager
def stopped(resolver: Resolver) -> Iterator[None]:
    """Have a resolver take questions and do nothing about them."""
    for process in resolver.processes:
        os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in resolver.processes:
            os.kill(process.pid, signal.SIGCONT)


async def test_a_stream_outlives_a_resolver(
    mortal: Resolver, resolver_named: Callable[..., Resolver], upstream: Upstream
) -> None:
    both = [mortal.url(), resolver_named("unbound").url()]
    async with (
        world(upstream) as it,
        it.client(both) as client,
        client.open(b"down %d" % SIZE) as stream,
    ):
        begun = await exactly(stream, SIZE // 8)
        assert is_in_use(client, mortal)
        mortal.kill()
        assert begun + await everything(stream) == pattern(SIZE)
        assert it.handshakes() == {"welcome": 1}


async def test_a_stream_outlives_a_resolver_that_falls_silent(
    mortal: Resolver, resolver_named: Callable[..., Resolver], upstream: Upstream
) -> None:
    both = [mortal.url(), resolver_named("unbound").url()]
    async with (
        world(upstream) as it,
        it.client(both) as client,
        client.open(b"down %d" % SIZE) as stream,
    ):
        begun = await exactly(stream, SIZE // 8)
        assert is_in_use(client, mortal)
        with stopped(mortal):
            assert begun + await everything(stream) == pattern(SIZE)
        assert it.handshakes() == {"welcome": 1}


LIES = {
    "NXDOMAIN": (),
    "an address": (lab.Forge(addresses=("127.0.0.2",)),),
    "SERVFAIL": (lab.Fail(rcode="SERVFAIL"),),
    "REFUSED": (lab.Fail(rcode="REFUSED"),),
    "garbage": (lab.Garbage(),),
    "nothing": (lab.Drop(),),
    "truncated": (lab.Truncate(),),
}


@pytest.mark.parametrize("rules", LIES.values(), ids=LIES)
async def test_a_liar_does_not_win_against_an_honest_resolver(
    rules: tuple[lab.NameRule, ...],
    resolver_named: Callable[..., Resolver],
    upstream: Upstream,
) -> None:
    honest = resolver_named("unbound")
    async with (
        lab.NameServer(lab.Zone({}, rules)) as liar,
        world(upstream) as it,
        it.client([liar.url, honest.url()]) as client,
    ):
        await client.echo()
        await client.download(50_000)
        await client.upload(5_000)
        assert liar.zone.asked
        assert NOT_YET in str(client.soar.status().details[liar.url])
        assert it.handshakes() == {"welcome": 1}
