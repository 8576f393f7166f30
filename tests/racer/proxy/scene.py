"""A proxy over scripted transports, and clients of it in memory."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio

from racer import Dialer
from racer.proxy import Failure, Proxy
from racer.testing import ScriptedTransport, StreamLedger, stream_pair, wins

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from anyio.abc import TaskGroup

    from racer.testing import MemoryStream, Script

__all__ = ("ACCEPTED", "CONNECT", "SOCKS", "Scene", "echo", "read", "rest", "scene", "silent")

SOCKS: Final = b"\x05\x01\x00" + b"\x05\x01\x00\x03\x0cnews.example\x01\xbb"
CONNECT: Final = b"CONNECT news.example:443 HTTP/1.1\r\nHost: news.example\r\n\r\n"
ACCEPTED: Final = b"\x05\x00" + b"\x05\x00\x00\x01" + bytes(6)


async def echo(stream: MemoryStream) -> None:
    """Say back what comes, end when it ends."""
    async with stream:
        async for data in stream:
            await stream.send(data)


async def silent(stream: MemoryStream) -> None:
    """Take what comes, and never say anything."""
    async with stream:
        async for _ in stream:
            pass
        await anyio.sleep_forever()


class Scene:
    """A proxy, its one transport, and what whoever runs it heard.

    Attributes:
        proxy: entered.
        transport: the only entrant.
        failures: what `on_failure` was told.
        clients: the books of the streams whose far ends the proxy was given.
    """

    def __init__(self, proxy: Proxy, transport: ScriptedTransport, group: TaskGroup) -> None:
        self.proxy = proxy
        self.transport = transport
        self.failures: list[Failure] = []
        self.clients = StreamLedger()
        self._group = group

    def client(self, **options: Any) -> MemoryStream:
        """Return a client's end of a connection that the proxy has taken."""
        ours, theirs = stream_pair(name="client", **options)
        self.clients.add(theirs)
        self._group.start_soon(self.proxy.serve_stream, theirs)
        return ours

    async def tunnel(self, **options: Any) -> MemoryStream:
        """Return a client's end of a tunnel that stands."""
        client = self.client(**options)
        await client.send(SOCKS)
        assert await read(client, len(ACCEPTED)) == ACCEPTED
        return client

    def requests(self) -> dict[tuple[str, str], int]:
        return dict(self.proxy.status().requests)


async def read(stream: MemoryStream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += await stream.receive(size - len(data))
    return data


async def rest(stream: MemoryStream) -> bytes:
    """Return all that comes until the other side ends."""
    data = b""
    async for piece in stream:
        data += piece
    return data


@asynccontextmanager
async def scene(
    script: Script | None = None,
    *,
    serve: Callable[[MemoryStream], Awaitable[object]] | None = echo,
    transport: ScriptedTransport | None = None,
    timeout: float | None = None,
    entrants: Iterable[Any] | None = None,
    **options: Any,
) -> AsyncIterator[Scene]:
    """Yield a scene; its end checks that no stream is left open."""
    transport = transport or ScriptedTransport("tunnel", script or wins(), serve=serve)
    heard: list[Failure] = []
    options.setdefault("on_failure", heard.append)
    dialer = Dialer(entrants or [transport], timeout=timeout)
    try:
        async with Proxy(dialer, port=0, **options) as proxy, anyio.create_task_group() as group:
            made = Scene(proxy, transport, group)
            made.failures = heard
            yield made
            group.cancel_scope.cancel()
    finally:
        await dialer.aclose()
    assert made.clients.open_streams == ()
    assert transport.ledger.open_streams == ()
    assert transport.misuses == []
