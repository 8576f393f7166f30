"""Proxyless keeps every promise of `racer.abc`, with TLS and without."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import SocketAttribute

from racer import lab
from racer.abc import Target
from racer.testing import EchoServer, check_transport
from transports.proxyless import Proxyless

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HOSTS = {"news.example": ["127.0.0.1"]}
AUTHORITY = lab.Authority()
CONTEXT = AUTHORITY.client_context()
SECRET = "hunter2"


def make(**options: Any) -> Proxyless:
    return Proxyless(
        resolvers=["udp://127.0.0.1:9", "https://127.0.0.1:9/hunter2"],
        hosts=HOSTS,
        network=lambda: "home",
        **options,
    )


async def test_conformance_without_tls() -> None:
    async with EchoServer() as server:
        report = await check_transport(
            make,
            target=Target("news.example", server.target.port, tls=False),
            failing_target=Target("news.example", server.refusing_target.port, tls=False),
            unserved_target=Target("localhost", 443),
            secrets=[SECRET],
            passes=4,
        )
    assert report.skipped == {}
    assert report.sweep is not None
    assert report.sweep.cancelled > 5


@asynccontextmanager
async def https() -> AsyncIterator[Target]:
    context = await AUTHORITY.make_server_context("news.example")
    async with lab.Server(lab.hello, context=context) as server:
        yield Target("news.example", server.address[1], tls=CONTEXT)


async def test_conformance_with_tls() -> None:
    async with https() as target, await anyio.create_tcp_listener(local_host="127.0.0.1") as mute:
        refusing = Target("news.example", mute.extra(SocketAttribute.local_port), tls=CONTEXT)
        await mute.aclose()
        report = await check_transport(
            lambda: make(strategies=["disorder:0|split:sni|tlsfrag:sni"]),
            target=target,
            failing_target=refusing,
            unserved_target=Target("127.0.0.1", 80),
            echoes=False,
            secrets=[SECRET],
            passes=2,
        )
    assert report.sweep is not None
    assert report.sweep.cancelled > 5
