"""Proxies and targets in memory, found by name, for tests on virtual clocks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from racer import Attempt, Outcome
from racer.abc import Progress, Stage, Target, Transport
from racer.errors import error_type_of
from racer.testing import LocalHost, Script, ScriptedTransport, StreamLedger, stream_pair, wins
from tests.transports.proxy.servers import GONE, ConnectProxy, Socks5Server, echo
from transports.proxy import HttpConnect, Socks5

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from anyio.abc import ByteStream

    from racer.abc import AttributeValue
    from racer.testing import MemoryStream
    from tests.transports.proxy.servers import Handler

__all__ = (
    "BOTH",
    "LABELS",
    "PROTOCOLS",
    "TARGET",
    "Diary",
    "Make",
    "World",
    "both",
    "server_for",
    "settled",
    "talk",
    "verdict",
    "world",
)

TARGET = Target("target.example", 7, tls=False)

Make = Callable[..., Transport]
BOTH: list[Make] = [Socks5, HttpConnect]
LABELS: dict[Make, str] = {
    Socks5: "SOCKS5 proxy p.example:1080",
    HttpConnect: "HTTP proxy p.example:1080",
}
PROTOCOLS: dict[Make, str] = {Socks5: "socks5", HttpConnect: "http-connect"}

both = pytest.mark.parametrize("make", BOTH, ids=lambda make: make.__name__)


_WINS = wins()


class Diary(Progress):
    """Writes down what an attempt tells of itself."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.events: list[tuple[str, dict[str, AttributeValue]]] = []

    def stage(self, stage: Stage) -> None:
        self.told.append(stage)

    def peer(self, address: str, port: int | None = None, *, network: str = "tcp") -> None:
        self.told.append((address, port))

    def event(self, name: str, attributes: Mapping[str, Any] | None = None) -> None:
        self.told.append(name)
        self.events.append((name, dict(attributes or {})))


class World:
    """Servers by name; whoever dials one gets a stream whose far end it serves.

    Attributes:
        servers: `target.example` echoes; the rest is the test's.
        ledger: both ends of every stream made here.
        host: where servers run.
    """

    def __init__(self, host: LocalHost) -> None:
        self.servers: dict[str, Handler] = {"target.example": echo}
        self.ledger = StreamLedger()
        self.host = host

    async def dial(self, name: str, port: int) -> ByteStream:
        handler = self.servers[name]
        near, far = stream_pair(name=f"{name}:{port}", ledger=self.ledger)
        self.host.start_soon(self._serve, handler, far, name=name)
        return near

    def base(self, server: Handler, script: Script = _WINS, **options: Any) -> ScriptedTransport:
        """Return a transport that leads to `server`, whatever it is asked for."""

        async def serve(far: MemoryStream) -> None:
            await self._serve(server, far)

        return ScriptedTransport("base", script, serve=serve, ledger=self.ledger, **options)

    async def started(self, transport: Transport) -> Transport:
        await transport.start(self.host)
        return transport

    @staticmethod
    async def _serve(handler: Handler, far: MemoryStream) -> None:
        async with far:
            with suppress(*GONE):
                await handler(far)


async def settled() -> None:  # called on virtual clocks only
    """Return when everything that was about to happen has.

    `anyio.wait_all_tasks_blocked` overlooks the callbacks of asyncio's tasks that have just ended; a moment of virtual
    time does not.
    """
    await anyio.sleep(0.01)


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """Yield a world whose servers must have found nothing wrong with their clients when it ends."""
    async with LocalHost() as host:
        yield World(host)
    assert host.errors == []


def server_for(make: Make, at: World, **options: Any) -> Handler:
    kind: Callable[..., Handler] = Socks5Server if make is Socks5 else ConnectProxy
    return kind(at.dial, **options)


async def talk(stream: ByteStream, first: bytes = b"") -> None:
    """Prove that an echo is behind the stream, that either way may end first, and close it."""
    async with stream:
        await stream.send(b"ping")
        await stream.send_eof()
        got = b""
        async for chunk in stream:
            got += chunk
        assert got == first + b"ping"


def verdict(error: BaseException | None = None, stage: Stage = Stage.HANDSHAKE) -> Attempt:
    return Attempt(
        transport="entrant",
        outcome=Outcome.CONNECT_FAILED if error else Outcome.CONNECTED,
        stage=stage,
        error=error,
        error_type=error_type_of(error) if error else None,
        started_at=0.0,
        finished_at=1.0,
    )
