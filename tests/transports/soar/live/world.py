"""A Soar server, targets behind it, and clients that ask resolvers: all on one loop, over real sockets."""

from __future__ import annotations

import hashlib
import socket
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.abc import SocketAttribute

from racer.abc import Progress, Target
from racer.testing import LocalHost
from tests.transports.soar.live.resolvers import ZONE
from transports.soar import Soar, SoarServer, generate_key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from anyio.abc import ByteStream

    from tests.transports.soar.live.resolvers import Upstream

QUIET = 0.2  # seconds without an answer: the one poll of an idle session is parked
_LINE = 64
_GONE = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


@cache
def pattern(size: int) -> bytes:
    """Return octets that no two places of a packet have in common."""
    return hashlib.shake_128(b"soar").digest(size)


@dataclass
class World:
    """What a story has.

    Attributes:
        server: that runs.
        origin: a target that does what its first line says: `echo`, `down` and a size, `up`, or `push`.
        nobody: a target that refuses connections.
        push: set, has the origin say something by itself.
    """

    server: SoarServer
    origin: Target
    nobody: Target
    push: anyio.Event = field(default_factory=anyio.Event)

    @asynccontextmanager
    async def client(self, resolvers: Sequence[str], **options: Any) -> AsyncIterator[Client]:
        """Yield a client of the server that asks these resolvers; leaving closes it."""
        soar = Soar(
            domain=ZONE, server_key=self.server.public_key, resolvers=list(resolvers), **options
        )
        async with LocalHost() as host:
            await soar.start(host)
            try:
                yield Client(soar, self.origin)
            finally:
                await soar.aclose()

    def handshakes(self) -> dict[str, int]:
        """Return what the server made of first messages, and of how many.

        Resolvers outlive a test, and this server has the address of the one before: what they still ask for that one, under
        another key, is junk here.
        """
        counts = self.server.status().handshakes
        return {kind: n for kind, n in counts.items() if n and kind != "junk"}


@dataclass
class Client:
    """A transport that was started."""

    soar: Soar
    origin: Target

    @asynccontextmanager
    async def open(self, line: bytes, target: Target | None = None) -> AsyncIterator[ByteStream]:
        """Yield a stream to the origin, which was told what to do."""
        stream = await self.soar.connect(target or self.origin, Progress())
        async with stream:
            await stream.send(line + b"\n")
            yield stream

    async def echo(self, octets: bytes = b"ping") -> None:
        """Have octets come back."""
        async with self.open(b"echo") as stream:
            await stream.send(octets)
            assert await exactly(stream, len(octets)) == octets

    async def download(self, size: int) -> None:
        """Fetch a file that has to be the right one."""
        async with self.open(b"down %d" % size) as stream:
            assert await everything(stream) == pattern(size)

    async def upload(self, size: int) -> None:
        """Send a file of which the origin says what has come."""
        async with self.open(b"up") as stream:
            await stream.send(pattern(size))
            await stream.send_eof()
            assert await everything(stream) == hashlib.sha256(pattern(size)).digest()

    async def becomes_idle(self) -> None:
        """Wait until the session has been silent for a while."""
        while (self.soar.status().sessions[0].idle or 0.0) < QUIET:  # noqa: ASYNC110 - nobody tells
            await anyio.sleep(0.01)


async def exactly(stream: ByteStream, size: int) -> bytes:
    """Return so many octets."""
    octets = b""
    while len(octets) < size:
        octets += await stream.receive(size - len(octets))
    return octets


async def everything(stream: ByteStream) -> bytes:
    """Return what comes until the end."""
    octets = bytearray()
    async for chunk in stream:
        octets += chunk
    return bytes(octets)


@asynccontextmanager
async def world(upstream: Upstream, **options: Any) -> AsyncIterator[World]:
    """Yield a server where resolvers look for the zone, with targets; leaving ends it without a farewell.

    Args:
        upstream: where it listens.
        options: of the server.
    """
    made: list[World] = []
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    origin = Target("127.0.0.1", listener.extra(SocketAttribute.local_port), tls=False)

    async def serve_origin(stream: ByteStream) -> None:
        async with stream:
            with suppress(*_GONE):
                await _obey(stream, made[0])

    async def serve(*, task_status: anyio.abc.TaskStatus[SoarServer]) -> None:
        settings: dict[str, Any] = {"key": generate_key(), "allow": ["127.0.0.1:*"]}
        settings |= {"domain": ZONE, "host": upstream.host, "port": upstream.port, "uptime": 1000.0}
        async with SoarServer(**{**settings, **options}) as server:
            task_status.started(server)
            await anyio.sleep_forever()

    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))  # and never listens
        nobody = Target("127.0.0.1", mute.getsockname()[1], tls=False)
        async with listener, anyio.create_task_group() as tasks:
            made.append(World(await tasks.start(serve), origin, nobody))
            tasks.start_soon(listener.serve, serve_origin)
            yield made[0]
            tasks.cancel_scope.cancel()


async def _obey(stream: ByteStream, world: World) -> None:
    line = b""
    while not line.endswith(b"\n"):
        line += await stream.receive(1)
        assert len(line) < _LINE
    match line.split():
        case [b"echo"]:
            async for chunk in stream:
                await stream.send(chunk)
        case [b"down", size]:
            await stream.send(pattern(int(size)))
        case [b"up"]:
            await stream.send(hashlib.sha256(await everything(stream)).digest())
        case [b"push"]:
            await world.push.wait()
            await stream.send(b"news")
        case unknown:
            pytest.fail(f"the origin was told {unknown}")
    await stream.send_eof()
