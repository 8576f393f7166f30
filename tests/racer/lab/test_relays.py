"""Relays in front of servers that exist already: on sockets, with the links of the network."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from racer import lab
from racer.testing import EchoServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.abc import ByteStream, UDPSocket

pytestmark = pytest.mark.every_loop


async def read_all(stream: ByteStream) -> bytes:
    return b"".join([data async for data in stream])


@pytest.fixture
async def udp_server() -> AsyncIterator[tuple[str, int]]:
    """Answers each datagram with its sender's port and what was in it."""

    async def serve(udp: UDPSocket) -> None:
        async for data, (host, port) in udp:
            await udp.sendto(b"%d %b" % (port, data), host, port)

    async with (
        await anyio.create_udp_socket(local_host="127.0.0.1") as udp,
        anyio.create_task_group() as group,
    ):
        group.start_soon(serve, udp)
        yield "127.0.0.1", udp.extra(anyio.abc.SocketAttribute.local_port)
        group.cancel_scope.cancel()


class TestTCP:
    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
    async def test_it_leads_to_the_server(self, host: str) -> None:
        data = bytes(range(256)) * 2000
        link = lab.Profile(delay=0.001, jitter=0.002)
        async with (
            EchoServer() as server,
            lab.TCPRelay(host, server.target.port, up=link, down=link) as relay,
            await anyio.connect_tcp(*relay.address) as stream,
            anyio.create_task_group() as group,
        ):
            group.start_soon(stream.send, data)
            got = b""
            while len(got) < len(data):
                got += await stream.receive()
            assert got == data
            await stream.send_eof()
            assert await read_all(stream) == b""

    async def test_corruption_flips_bits(self) -> None:
        async with (
            EchoServer() as server,
            lab.TCPRelay("127.0.0.1", server.target.port, up=lab.Profile(corrupt=1.0)) as relay,
            await anyio.connect_tcp(*relay.address) as stream,
        ):
            await stream.send(b"\0")
            assert (await stream.receive())[0].bit_count() == 1

    async def test_a_server_that_cannot_be_reached_is_a_reset(self) -> None:
        async with (
            EchoServer() as server,
            lab.TCPRelay("127.0.0.1", server.refusing_target.port) as relay,
            await anyio.connect_tcp(*relay.address) as stream,
        ):
            with pytest.raises(anyio.BrokenResourceError) as caught:
                await stream.receive()
            assert isinstance(caught.value.__cause__, OSError)
            assert caught.value.__cause__.errno == errno.ECONNRESET

    async def test_leaving_ends_connections_under_way(self) -> None:
        async with EchoServer() as server:
            slow = lab.Profile(delay=1000.0)
            async with lab.TCPRelay("127.0.0.1", server.target.port, down=slow) as relay:
                stream = await anyio.connect_tcp(*relay.address)
                await stream.send(b"x")
                while not server.connections:
                    await anyio.lowlevel.checkpoint()
            async with stream:
                with pytest.raises(anyio.BrokenResourceError):
                    await stream.receive()
            while server.connections:
                await anyio.lowlevel.checkpoint()


class TestUDP:
    async def test_each_client_has_a_socket_of_its_own_behind_it(
        self, udp_server: tuple[str, int]
    ) -> None:
        link = lab.Profile(delay=0.001)
        async with lab.UDPRelay(*udp_server, up=link, down=link) as relay:
            behind = set()
            for word in (b"one", b"two"):
                async with await anyio.create_connected_udp_socket(*relay.address) as udp:
                    for _ in range(2):
                        await udp.send(word)
                        port, said = (await udp.receive()).split()
                        assert said == word
                        behind.add(port)
            assert len(behind) == 2

    async def test_what_is_doubled_comes_twice_and_what_is_lost_never(
        self, udp_server: tuple[str, int]
    ) -> None:
        async with (
            lab.UDPRelay(*udp_server, down=lab.Profile(duplicate=1.0)) as relay,
            await anyio.create_connected_udp_socket(*relay.address) as udp,
        ):
            await udp.send(b"x")
            assert await udp.receive() == await udp.receive()
        async with (
            lab.UDPRelay(*udp_server, up=lab.Profile(loss=0.5), seed=1) as relay,
            await anyio.create_connected_udp_socket(*relay.address) as udp,
        ):
            for number in range(30):
                await udp.send(b"%d" % number)
            arrived = [int((await udp.receive()).split()[1])]
            while arrived[-1] < 25:
                arrived.append(int((await udp.receive()).split()[1]))
            assert arrived == sorted(arrived)
            assert 5 < len(arrived) < 22

    async def test_nobody_behind_it_is_silence(self) -> None:
        async with (
            await anyio.create_udp_socket(local_host="127.0.0.1") as other,
            lab.UDPRelay("127.0.0.1", other.extra(anyio.abc.SocketAttribute.local_port)) as relay,
        ):
            await other.aclose()
            async with await anyio.create_connected_udp_socket(*relay.address) as udp:
                for _ in range(3):  # the kernel answers the relay with errors
                    await udp.send(b"x")
                    await anyio.lowlevel.checkpoint()
