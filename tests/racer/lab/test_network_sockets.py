"""The same network on real sockets: what a client's system sees of it, and that nothing of it stays."""

from __future__ import annotations

import errno
import hashlib
import socket
import ssl
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import SocketAttribute
from anyio.streams.tls import TLSStream

from racer import lab
from racer.errors import ConfigError
from racer.testing._outside import count_open_files
from tests.racer.lab.hellos import client_hello

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import ByteStream

pytestmark = pytest.mark.every_loop

SITE = "192.0.2.7"
NAME = "news.example"
SWIFT = lab.Profile(delay=0.001)
AUTHORITY = lab.Authority()
CLIENT = AUTHORITY.client_context()


async def wrap(stream: ByteStream) -> TLSStream:
    return await TLSStream.wrap(
        stream, hostname=NAME, ssl_context=CLIENT, standard_compatible=False
    )


async def read_all(stream: ByteStream) -> bytes:
    return b"".join([data async for data in stream])


async def is_reset(stream: ByteStream) -> bool:
    """Whether reading ends in what the system calls a reset by the peer."""
    with pytest.raises(anyio.BrokenResourceError) as caught:
        await read_all(stream)
    cause = caught.value.__cause__
    return isinstance(cause, OSError) and cause.errno == errno.ECONNRESET


@pytest.mark.parametrize("address", [SITE, "2001:db8::7"])
async def test_a_site_is_behind_any_address(address: str) -> None:
    async with lab.Network(up=SWIFT, down=SWIFT) as net:
        site = await net.add_site(NAME, address, authority=AUTHORITY)
        async with await net.dial_tcp(address, 443) as stream:
            assert isinstance(stream.extra(SocketAttribute.raw_socket).fileno(), int)
            tls = await wrap(stream)
            await tls.send(b"hello")
            assert await tls.receive() == b"hello"
        assert (site.connections, site.handshakes) == (1, 1)


async def test_much_crosses_whole_and_each_direction_ends_for_itself() -> None:
    sent = hashlib.sha256()

    async def digest(stream: ByteStream) -> None:
        seen = hashlib.sha256()
        async for data in stream:
            seen.update(data)
        await stream.send(seen.digest())

    async with lab.Network(up=SWIFT, down=SWIFT) as net:
        await net.add_site(NAME, SITE, handler=digest)
        async with await net.dial_tcp(SITE, 443) as stream:
            for number in range(300):
                chunk = bytes([number % 256]) * 10_000
                sent.update(chunk)
                await stream.send(chunk)
            await stream.send_eof()
            assert await read_all(stream) == sent.digest()


@pytest.mark.parametrize(
    ("rule", "hello"),
    [(lab.ResetOnName(names=(NAME,)), client_hello(NAME)), (None, b"anything")],
)
async def test_a_reset_is_one_on_the_wire(rule: lab.Rule | None, hello: bytes) -> None:
    async def reset(stream: ByteStream) -> None:
        await stream.receive()
        stream.abort()  # type: ignore[attr-defined]

    async with lab.Network() as net:
        await net.add_site(NAME, SITE, handler=reset)
        net.rules += [] if rule is None else [rule]
        async with await net.dial_tcp(SITE, 443) as stream:
            await stream.send(hello)
            assert await is_reset(stream)
        assert [hit.name for hit in net.hits] == ([] if rule is None else [NAME])


async def test_a_clients_reset_arrives() -> None:
    seen = anyio.Event()

    async def watch(stream: ByteStream) -> None:
        with pytest.raises(anyio.BrokenResourceError):
            await read_all(stream)
        seen.set()

    async with lab.Network() as net:
        await net.add_site(NAME, SITE, handler=watch)
        stream = await net.dial_tcp(SITE, 443)
        raw = stream.extra(SocketAttribute.raw_socket)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await anyio.aclose_forcefully(stream)
        await seen.wait()


async def test_a_cut_name_passes_who_joins_no_segments() -> None:
    hello = client_hello(NAME)
    place = hello.index(NAME.encode()) + 4
    async with lab.Network() as net:
        await net.add_site(NAME, SITE)
        net.rules.append(lab.ResetOnName(joins_segments=False))
        for _ in range(20):  # however the kernel cuts what it hands out
            async with await net.dial_tcp(SITE, 443) as stream:
                await stream.send(hello[:place])
                await stream.send(hello[place:])
                await stream.send_eof()
                assert await read_all(stream) == hello


async def test_refusals_and_silence() -> None:
    async with lab.Network() as net:
        site = await net.add_site(NAME, SITE, authority=AUTHORITY)
        net.rules.append(lab.Refuse())
        with pytest.raises(ConnectionRefusedError):
            await net.dial_tcp(SITE, 443)
        with pytest.raises(OSError, match=r"192\.0\.2\.8") as caught:
            net.rules.clear()
            await net.dial_tcp("192.0.2.8", 443)
        assert caught.value.errno == errno.EHOSTUNREACH

        net.rules.append(lab.AcceptAndHang())
        for address in (SITE, "192.0.2.99"):
            async with await net.dial_tcp(address, 443) as stream:
                await stream.send(b"x")
                while not net.cut(address):
                    await anyio.lowlevel.checkpoint()
                assert await is_reset(stream)
        assert site.connections == 0
        assert len(net.hits) == 3


@pytest.mark.parametrize("error", [OSError(errno.EADDRNOTAVAIL, "none left"), ValueError("gone")])
async def test_a_connection_that_fails_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def fail(sock: socket.socket, address: str, port: int) -> None:
        raise error

    async with lab.Network() as net:
        await net.add_site(NAME, SITE)
        monkeypatch.setattr("racer.lab._network.connect", fail)
        with pytest.raises(OSError, match=r"none left|reset by peer"):
            await net.dial_tcp(SITE, 443)
        assert net._dialed == {}


class TestDoors:
    """Programs that can be given no hook come in by a port of 127.0.0.1."""

    async def test_a_door_leads_to_its_site(self) -> None:
        async with lab.Network(up=SWIFT, down=SWIFT) as net:
            await net.add_site(NAME, SITE)
            port = net.door(SITE, 443)
            assert port == net.door(SITE, 443)
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(b"hello")
                assert await stream.receive() == b"hello"
            with pytest.raises(ConfigError, match="no door"):
                net.door(SITE, 80)
            with pytest.raises(ConfigError, match="no door"):
                net.door(SITE, 443, over="udp")
            with pytest.raises(ConfigError, match="not an IP address"):
                net.door(NAME, 443)

    async def test_what_would_be_refused_is_reset(self) -> None:
        async with lab.Network() as net:
            site = await net.add_site(NAME, SITE)
            net.rules.append(lab.Refuse())
            try:
                async with await anyio.connect_tcp("127.0.0.1", net.door(SITE, 443)) as stream:
                    assert await is_reset(stream)
            except OSError:
                pass  # the reset was faster than connect
            assert site.connections == 0
            assert [hit.rule for hit in net.hits] == net.rules

    async def test_what_would_vanish_hangs(self) -> None:
        async with lab.Network() as net:
            site = await net.add_site(NAME, SITE)
            net.rules.append(lab.Blackhole())
            async with await anyio.connect_tcp("127.0.0.1", net.door(SITE, 443)) as stream:
                await stream.send(b"x")
                while not net.cut():
                    await anyio.lowlevel.checkpoint()
                assert await is_reset(stream)
            assert site.connections == 0

    async def test_a_door_where_nobody_is_any_more_is_shut(self) -> None:
        async with lab.Network() as net:
            net.rules.append(lab.AcceptAndHang())
            async with await net.dial_tcp(SITE, 443):
                net.rules.clear()
                door = net._doors[SITE, 443, "tcp"]
                try:
                    async with await anyio.connect_tcp("127.0.0.1", door) as stream:
                        assert await is_reset(stream)
                except OSError:
                    pass  # the reset was faster than connect

    async def test_datagrams_come_through_too(self) -> None:
        async def shout(client: anyio.abc.UnreliableObjectStream[bytes]) -> None:
            async for data in client:
                await client.send(data.upper())

        async with lab.Network(up=SWIFT, down=SWIFT) as net:
            net.add_datagram_site(NAME, SITE, port=9, handler=shout)
            async with await net.dial_udp(SITE, 9) as udp:
                await udp.send(b"hello")
                assert await udp.receive() == b"HELLO"
            port = net.door(SITE, 9, over="udp")
            async with await anyio.create_connected_udp_socket("127.0.0.1", port) as udp:
                await udp.send(b"hello")
                assert await udp.receive() == b"HELLO"


async def everything_under_way(*, leave: Callable[[], None]) -> None:
    """Leave a network while each of its parts is at work."""
    slow = lab.Profile(delay=30.0)
    streams: list[Any] = []
    try:
        async with lab.Network(down=slow) as net, lab.Network() as swift:
            net.rules.append(lab.AcceptAndHang(port=80))
            await net.add_name_server("ns.example", "192.0.2.53", authority=AUTHORITY)
            await swift.add_site(NAME, SITE, handler=lab.mute)
            for _ in range(3):
                stream = await swift.dial_tcp(SITE, 443)
                streams.append(stream)
                await stream.send(bytes(100_000))
            door = swift.door(SITE, 443)
            streams.append(await anyio.connect_tcp("127.0.0.1", door))  # accepted or not
            udp = await net.dial_udp("192.0.2.53", 53)
            streams.append(udp)
            await udp.send(b"x")
            async with anyio.create_task_group() as group:
                group.start_soon(partial(net.dial_tcp, "192.0.2.53", 443))
                group.start_soon(partial(net.dial_tcp, SITE, 80))
                await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()
            leave()
    finally:
        with anyio.CancelScope(shield=True):
            for stream in streams:
                await anyio.aclose_forcefully(stream)


def nothing() -> None:
    pass


def fail() -> None:
    raise ZeroDivisionError


async def test_leaving_at_any_moment_closes_everything() -> None:
    await everything_under_way(leave=nothing)  # whatever is loaded once is loaded now
    before = count_open_files()
    for _ in range(5):
        await everything_under_way(leave=nothing)
        with pytest.raises(ZeroDivisionError):
            await everything_under_way(leave=fail)
        with anyio.CancelScope() as scope:
            await everything_under_way(leave=scope.cancel)
            await anyio.lowlevel.checkpoint()
        assert scope.cancelled_caught
    assert count_open_files() == before


async def test_making_certificates_blocks_nobody() -> None:
    async with lab.Network() as net:
        await net.add_site(NAME, SITE, authority=lab.Authority())


async def test_curl_and_its_like_trust_by_pem() -> None:
    context = ssl.create_default_context(cadata=AUTHORITY.pem().decode())
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    async with lab.Network() as net:
        await net.add_site(NAME, SITE, authority=AUTHORITY, handler=lab.hello)
        async with await anyio.connect_tcp(
            "127.0.0.1",
            net.door(SITE, 443),
            tls=True,
            tls_hostname=NAME,
            ssl_context=context,
        ) as stream:
            await stream.send(b"GET / HTTP/1.1\r\n\r\n")
            assert (await read_all(stream)).endswith(b"hello from the lab\n")
