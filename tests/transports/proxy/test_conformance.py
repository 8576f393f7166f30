"""Both proxies keep every promise of `racer.abc`: alone, over TLS, in a chain."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from racer.abc import Target
from racer.testing import EchoServer, check_transport
from tests.transports.proxy.servers import (
    ConnectProxy,
    Handler,
    Keys,
    Loopback,
    Socks5Server,
    listening,
)
from tests.transports.proxy.worlds import Make, both
from transports.proxy import Socks5

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence


@pytest.fixture(scope="module")
def keys() -> Keys:
    return Keys.make()


@asynccontextmanager
async def proxied(make: Make, *, hops: int = 1, **options: Any) -> AsyncIterator[list[Target]]:
    """Yield where `hops` proxies listen, which let alice in."""
    async with AsyncExitStack() as stack:
        handlers: Sequence[Handler] = [
            (Socks5Server if make is Socks5 else ConnectProxy)(
                Loopback(), accounts={"alice": "s3cret"}
            )
            for _ in range(hops)
        ]
        yield [await stack.enter_async_context(listening(h, **options)) for h in handlers]


CREDENTIAL = {"username": "alice", "password": "s3cret"}


@pytest.mark.every_loop
@both
async def test_conformance(make: Make) -> None:
    async with EchoServer() as server, proxied(make) as (proxy,):
        report = await check_transport(
            lambda: make(proxy, **CREDENTIAL),
            target=server.target,
            failing_target=server.refusing_target,
            unserved_target=Target("fe80::1%lo", 80),
            secrets=["alice", "s3cret"],
        )
    assert report.skipped == {}
    assert report.sweep is not None
    assert report.sweep.cancelled > 10


@both
async def test_conformance_over_tls(make: Make, keys: Keys) -> None:
    theirs, ours = keys.server, keys.client
    async with EchoServer() as server, proxied(make, tls=theirs) as (proxy,):
        report = await check_transport(
            lambda: make(proxy, tls=ours, **CREDENTIAL),
            target=server.target,
            failing_target=server.refusing_target,
            echoes=False,  # an end one way alone, which the kit asks for, cannot be told over TLS
            secrets=["alice", "s3cret"],
            passes=4,
        )
    assert report.sweep is not None
    assert report.sweep.cancelled > 10


@both
async def test_conformance_of_a_chain(make: Make) -> None:
    async with EchoServer() as server, proxied(make, hops=2) as (near, far):
        report = await check_transport(
            lambda: make(far, base=make(near, **CREDENTIAL), **CREDENTIAL),
            target=server.target,
            failing_target=server.refusing_target,
            secrets=["alice", "s3cret"],
            passes=4,
        )
    assert report.sweep is not None
    assert report.sweep.cancelled > 10
