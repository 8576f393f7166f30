"""A server that is killed (SIGKILL) in the middle of a stream and started anew on its port: real processes and sockets."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from racer.abc import Progress
from racer.errors import SessionLost
from racer.testing import EchoServer, LocalHost
from tests.transports.soar.memory_world import ZONE, exactly
from transports.soar import Soar, generate_key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.abc import Process

PROGRAM = """
import sys, anyio
from transports.soar import SoarServer

async def main():
    zone, key, port = sys.argv[1:]
    async with SoarServer(domain=zone, key=key, port=int(port), allow=["127.0.0.1:*"]) as server:
        print(server.address[1], flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@asynccontextmanager
async def serving(key: str, port: int = 0) -> AsyncIterator[tuple[Process, int]]:
    """Yield a server's process and port; leaving kills it."""
    command = [sys.executable, "-c", PROGRAM, ZONE, key, str(port)]
    async with await anyio.open_process(command, stderr=None) as process:
        try:
            assert process.stdout is not None
            said = BufferedByteReceiveStream(process.stdout)
            yield process, int(await said.receive_until(b"\n", 10))
        finally:
            with anyio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await process.wait()


async def test_a_stream_learns_that_its_server_is_another_and_the_next_dial_does_not() -> None:
    key = generate_key()
    async with EchoServer() as target, LocalHost() as host:
        async with serving(key.to_text()) as (process, port):
            resolver = f"udp://127.0.0.1:{port}"
            soar = Soar(domain=ZONE, server_key=key.public, resolvers=[resolver])
            await soar.start(host)
            stream = await soar.connect(target.target, Progress())
            await stream.send(b"ping")
            assert await exactly(stream, 4) == b"ping"
            process.kill()
            await process.wait()
        async with serving(key.to_text(), port), stream:
            with pytest.raises(anyio.BrokenResourceError) as caught:
                await stream.receive()
            assert isinstance(caught.value.__cause__, SessionLost)
            assert "the server lost the session" in str(caught.value.__cause__)
            async with await soar.connect(target.target, Progress()) as second:
                await second.send(b"ping")
                assert await exactly(second, 4) == b"ping"
            assert [session.id for session in soar.status().sessions] == ["2"]
            await soar.aclose()
        assert host.errors == []
