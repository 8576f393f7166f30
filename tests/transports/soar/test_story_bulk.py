"""Much through one session, over real sockets, with checksums: that nothing wears out, and nothing grows."""

from __future__ import annotations

import hashlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import pytest
from anyio.abc import SocketAttribute

from racer.abc import Progress, Target
from racer.testing import LocalHost
from tests.transports.soar.memory_world import ZONE, everything, pattern
from transports.soar import Soar, SoarServer, generate_key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.abc import ByteStream

BLOCK = pattern(1 << 20)
MB = 1_000_000


class Tunnel:
    """A client, and an origin behind its server that sends as much as it is told, or counts what it gets."""

    def __init__(self, soar: Soar, server: SoarServer, origin: Target) -> None:
        self.soar = soar
        self.server = server
        self.origin = origin

    async def download(self, size: int) -> None:
        """Fetch so many octets, and check them."""
        wanted, got, count = hashlib.sha256(), hashlib.sha256(), 0
        for at in range(0, size, len(BLOCK)):
            wanted.update(BLOCK[: size - at])
        async with await self.soar.connect(self.origin, Progress()) as stream:
            await stream.send(b"down %d\n" % size)
            async for chunk in stream:
                got.update(chunk)
                count += len(chunk)
        assert (count, got.digest()) == (size, wanted.digest())

    async def upload(self, size: int) -> None:
        """Send so many octets, and have their sum back."""
        sent = hashlib.sha256()
        async with await self.soar.connect(self.origin, Progress()) as stream:
            await stream.send(b"up\n")
            for at in range(0, size, len(BLOCK)):
                sent.update(BLOCK[: size - at])
                await stream.send(BLOCK[: size - at])
            await stream.send_eof()
            assert await everything(stream) == sent.digest()

    def assert_one_session(self) -> None:
        assert self.server.status().handshakes["welcome"] == 1


@asynccontextmanager
async def tunnel() -> AsyncIterator[Tunnel]:
    """Yield one over loopback; leaving ends it without a farewell."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    origin = Target("127.0.0.1", listener.extra(SocketAttribute.local_port), tls=False)

    async def serve(*, task_status: anyio.abc.TaskStatus[SoarServer]) -> None:
        async with SoarServer(domain=ZONE, key=generate_key(), allow=["127.0.0.1:*"]) as server:
            task_status.started(server)
            await anyio.sleep_forever()

    async with listener, anyio.create_task_group() as tasks:
        server: SoarServer = await tasks.start(serve)
        tasks.start_soon(listener.serve, obey)
        resolver = f"udp://127.0.0.1:{server.address[1]}"
        soar = Soar(domain=ZONE, server_key=server.public_key, resolvers=[resolver])
        async with LocalHost() as host:
            await soar.start(host)
            yield Tunnel(soar, server, origin)
            await soar.aclose()
        tasks.cancel_scope.cancel()


async def obey(stream: ByteStream) -> None:
    async with stream:
        line = b""
        while not line.endswith(b"\n"):
            line += await stream.receive(1)
        match line.split():
            case [b"down", size]:
                left = int(size)
                while left > 0:
                    await stream.send(BLOCK[:left])
                    left -= len(BLOCK)
            case _:
                got = hashlib.sha256()
                async for chunk in stream:
                    got.update(chunk)
                await stream.send(got.digest())
        await stream.send_eof()


async def test_octets_are_whole_over_loopback() -> None:
    async with tunnel() as it:
        await it.download(MB)
        await it.upload(MB // 10)
        it.assert_one_session()


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_six_times_ten_megabytes_in_a_row() -> None:
    """Peers are known to stall at the third or fourth: nothing may pile up from one to the next."""
    async with tunnel() as it:
        for _ in range(6):
            await it.download(10 * MB)
        it.assert_one_session()


@pytest.mark.soak
@pytest.mark.timeout(14_400)
async def test_a_gigabyte_each_way() -> None:
    """What the server keeps for one session stays what it was."""
    async with tunnel() as it:
        await it.download(1000 * MB)
        await it.upload(1000 * MB)
        it.assert_one_session()
        assert it.server.status().octets < 2 * MB
