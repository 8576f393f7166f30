"""Every strategy of every published file completes a real handshake on loopback, twice, and is cut both times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from racer import lab
from racer.abc import Progress, Target
from racer.testing import LocalHost
from tests.transports.proxyless.test_outline import PUBLISHED, published
from transports._net.tls import wrap_tls
from transports.proxyless import Proxyless, parse_strategy
from transports.proxyless._dial import ShapingDialer
from transports.proxyless._hearsay import Known
from transports.proxyless._options import DEFAULT_STRATEGIES
from transports.proxyless._outline import read_outline
from transports.proxyless._stream import Shaped

if TYPE_CHECKING:
    from anyio.abc import ByteStream

    from transports.proxyless._strategies import Strategy

AUTHORITY = lab.Authority()
CONTEXT = AUTHORITY.client_context()
FILES = (
    "smart-kindling.yml",
    "smart-radiance.yml",
    "smart-outline.yaml",
    "smart-outline-broken.yaml",
)


def strategies() -> list[Strategy]:
    """Those of the class, and of the files if they are there."""
    found = [parse_strategy(text) for text in DEFAULT_STRATEGIES]
    for name in FILES:
        if (PUBLISHED / name).is_file():
            config = read_outline((PUBLISHED / name).read_bytes(), skip_unsupported=True)
            found += config.strategies
    return list(dict.fromkeys(found))


async def exchange(stream: ByteStream) -> bytes:
    async with await wrap_tls(stream, CONTEXT, server_hostname="news.example") as secured:
        await secured.send(b"GET / HTTP/1.1\r\n\r\n")
        return await secured.receive()


class Writes:
    """Counts what leaves a shaped stream."""

    def __init__(self, stream: Shaped) -> None:
        self.lengths: list[int] = []
        self._put = stream._put_octets
        stream._put_octets = self.put  # type: ignore[method-assign]

    async def put(self, data: bytes) -> None:
        self.lengths.append(len(data))
        await self._put(data)


@pytest.mark.every_loop
@pytest.mark.parametrize("strategy", strategies(), ids=str)
async def test_a_strategy_handshakes_twice(strategy: Strategy) -> None:
    context = await AUTHORITY.make_server_context("news.example")
    async with lab.Server(lab.hello, context=context) as server:
        target = Target("news.example", server.address[1], tls=CONTEXT)
        first_flights = []
        for _ in range(2):
            stream = await ShapingDialer().dial(target, strategy, Known(["127.0.0.1"]), Progress())
            writes = Writes(stream) if isinstance(stream, Shaped) else None
            assert (await exchange(stream)).startswith(b"HTTP/1.1 200")
            first_flights.append(None if writes is None else writes.lengths)
    assert first_flights[0] == first_flights[1]
    cuts = [stage for stage in strategy.stages if str(stage).startswith("split")]
    if cuts:
        assert first_flights[0] is not None
        assert len(first_flights[0]) > 1


@published
@pytest.mark.parametrize("name", FILES)
async def test_a_published_file_makes_a_transport_that_connects(name: str) -> None:
    text = await anyio.Path(PUBLISHED / name).read_bytes()
    context = await AUTHORITY.make_server_context("news.example")
    options: dict[str, Any] = {"hosts": {"news.example": ["127.0.0.1"]}, "network": lambda: "home"}
    transport = Proxyless.from_outline(text, skip_unsupported=True, **options)
    async with lab.Server(lab.hello, context=context) as server, LocalHost() as host:
        await transport.start(host)
        target = Target("news.example", server.address[1], tls=CONTEXT)
        for _ in range(2):
            stream = await transport.connect(target, Progress())
            assert (await exchange(stream)).startswith(b"HTTP/1.1 200")
        await transport.aclose()
    skipped = transport.status().details.get("unsupported", "")
    assert bool(skipped) is ("broken" in name)
