"""Name servers that can be asked: over UDP, TCP and TLS, on sockets and in memory."""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING

import anyio
import dns.message
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.tls import TLSStream

from racer import lab
from racer.errors import ConfigError
from racer.lab import _sockets
from racer.testing import stream_pair

if TYPE_CHECKING:
    from anyio.abc import ByteStream, UnreliableObjectStream

HOSTS = {"news.example": ["192.0.2.7"]}
LIE = "198.51.100.66"
DNS = "192.0.2.53"
AUTHORITY = lab.Authority()
CLIENT = AUTHORITY.client_context()
network = partial(lab.Network, in_memory=True)


def question(name: str = "news.example") -> bytes:
    return dns.message.make_query(name, "A", id=1).to_wire()


def prefixed(*messages: bytes) -> bytes:
    return b"".join(len(message).to_bytes(2, "big") + message for message in messages)


def said(octets: bytes) -> list[str]:
    return [r.to_text() for rrset in dns.message.from_wire(octets).answer for r in rrset]


async def read_message(reader: BufferedByteReceiveStream) -> bytes:
    size = int.from_bytes(await reader.receive_exactly(2), "big")
    return await reader.receive_exactly(size)


class Asker:
    """Sends questions on a stream and reads answers."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._reader = BufferedByteReceiveStream(stream)

    async def ask(self, *questions: bytes) -> None:
        await self._stream.send(prefixed(*questions))

    async def answer(self) -> bytes:
        return await read_message(self._reader)


@pytest.mark.every_loop
class TestSockets:
    async def test_udp_and_tcp_share_a_port(self) -> None:
        zone = lab.Zone(HOSTS)
        async with lab.NameServer(zone) as server:
            assert server.url == f"udp://127.0.0.1:{server.address[1]}"
            async with await anyio.create_connected_udp_socket(*server.address) as udp:
                await udp.send(question())
                assert said(await udp.receive()) == ["192.0.2.7"]
            async with await anyio.connect_tcp(*server.address) as stream:
                asker = Asker(stream)
                await asker.ask(question())
                assert said(await asker.answer()) == ["192.0.2.7"]
        assert [asked.over for asked in zone.asked] == ["udp", "tcp"]

    async def test_a_forger_at_another_port_is_one(self) -> None:
        forge = lab.Forge(addresses=(LIE,), flaw=lab.Flaw.PORT, truth_after=0.001)
        async with (
            lab.NameServer(lab.Zone(HOSTS, [forge])) as server,
            await anyio.create_udp_socket(local_host="127.0.0.1") as udp,
        ):
            await udp.sendto(question(), *server.address)
            senders = {}
            for _ in range(2):
                octets, sender = await udp.receive()
                senders[said(octets)[0]] = sender
            assert senders["192.0.2.7"] == server.address
            assert senders[LIE] != server.address

    async def test_dot_is_length_prefixed_over_tls(self) -> None:
        zone = lab.Zone(HOSTS)
        context = await AUTHORITY.make_server_context("dns.example")
        async with lab.DoTServer(zone, context=context) as server:
            assert server.url.startswith("tls://127.0.0.1:")
            async with await TLSStream.wrap(
                await anyio.connect_tcp(*server.address),
                hostname="dns.example",
                ssl_context=CLIENT,
            ) as stream:
                asker = Asker(stream)
                await asker.ask(question())
                assert said(await asker.answer()) == ["192.0.2.7"]
        assert [asked.over for asked in zone.asked] == ["tls"]

    async def test_garbage_and_early_ends_harm_nobody(self) -> None:
        async with lab.NameServer(lab.Zone(HOSTS)) as server:
            async with await anyio.connect_tcp(*server.address) as stream:
                await stream.send(prefixed(b"garbage", b"") + b"\xff\xff")
            async with await anyio.create_connected_udp_socket(*server.address) as udp:
                await udp.send(b"garbage")
                await udp.send(question())
                assert said(await udp.receive()) == ["192.0.2.7"]

    async def test_where_udp_is_taken_another_port_is_found(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The TCP ports that the system offers first are some that another program has for UDP."""
        taken: list[socket.socket] = []

        def listen() -> socket.socket:
            sock = real()
            if len(taken) < 3:
                taken.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                taken[-1].bind(sock.getsockname())
            return sock

        real = _sockets.listen
        monkeypatch.setattr("racer.lab._nameserver.listen", listen)
        try:
            async with lab.NameServer(lab.Zone(HOSTS)) as server:
                assert server.address[1] not in {sock.getsockname()[1] for sock in taken}
                async with await anyio.create_connected_udp_socket(*server.address) as udp:
                    await udp.send(question())
                    assert said(await udp.receive()) == ["192.0.2.7"]
        finally:
            for sock in taken:
                sock.close()

    @pytest.mark.parametrize("beside", [True, False])
    async def test_where_udp_is_taken_everywhere_it_says_so(
        self, monkeypatch: pytest.MonkeyPatch, beside: bool
    ) -> None:
        def no_udp(*, port: int = 0) -> object:
            if bool(port) is beside:
                raise OSError("address in use")
            return real(port=port)

        real = _sockets.Datagrams
        monkeypatch.setattr("racer.lab._nameserver.Datagrams", no_udp)
        with pytest.raises(OSError, match="in use"):
            async with lab.NameServer(lab.Zone(HOSTS)):
                raise AssertionError


@pytest.mark.virtual_time
class TestMemory:
    async def ask(self, udp: UnreliableObjectStream[bytes], seconds: float = 10) -> list[object]:
        """What is answered within so many seconds, and when."""
        began = anyio.current_time()
        await udp.send(question())
        answers: list[object] = []
        with anyio.move_on_after(seconds):
            while True:
                answers.append((*said(await udp.receive()), anyio.current_time() - began))
        return answers

    async def test_a_network_has_name_servers(self) -> None:
        async with network(up=lab.Profile(delay=0.25), down=lab.Profile(delay=0.5)) as net:
            await net.add_site("news.example", "192.0.2.7")
            zone = await net.add_name_server("dns.example", DNS, authority=AUTHORITY)
            assert zone.hosts is net.hosts
            assert net.hosts["dns.example"] == [DNS]
            async with await net.dial_udp(DNS, 53) as udp:
                assert await self.ask(udp) == [("192.0.2.7", 0.75)]
            for port in (53, 853):
                async with await net.dial_tcp(DNS, port) as stream:
                    secured: ByteStream = stream
                    if port == 853:
                        secured = await TLSStream.wrap(
                            stream,
                            hostname="dns.example",
                            ssl_context=CLIENT,
                            standard_compatible=False,
                        )
                    asker = Asker(secured)
                    began = anyio.current_time()
                    await asker.ask(question())
                    assert said(await asker.answer()) == ["192.0.2.7"]
                    assert anyio.current_time() == began + 0.75
            assert [asked.over for asked in zone.asked] == ["udp", "tcp", "tls"]

    async def test_one_that_cannot_be_adds_nothing(self) -> None:
        async with network() as net:
            await net.add_site("web.example", DNS, port=443)
            with pytest.raises(ConfigError, match="port 443 is taken"):
                await net.add_name_server("dns.example", DNS, authority=AUTHORITY)
            await net.add_name_server("dns.example", DNS)

    @pytest.mark.parametrize(
        ("rules", "expected"),
        [
            ([lab.Delay(seconds=2.0)], [("192.0.2.7", 2.0)]),
            ([lab.Drop()], []),
            (
                [lab.Forge(addresses=(LIE,), truth_after=0.25)],
                [(LIE, 0.0), ("192.0.2.7", 0.25)],
            ),
            # A connected socket gets nothing from other ports.
            (
                [lab.Forge(addresses=(LIE,), flaw=lab.Flaw.PORT, truth_after=0.25)],
                [("192.0.2.7", 0.25)],
            ),
        ],
    )
    async def test_answers_come_to_the_second(
        self, rules: list[lab.NameRule], expected: list[object]
    ) -> None:
        async with network() as net:
            await net.add_name_server("dns.example", DNS, zone=lab.Zone(HOSTS, rules))
            async with await net.dial_udp(DNS, 53) as udp:
                assert await self.ask(udp) == expected

    async def test_answers_on_one_stream_overtake_each_other(self) -> None:
        hosts = HOSTS | {"slow.example": ["192.0.2.8"]}
        zone = lab.Zone(hosts, [lab.Delay(name="slow.*", seconds=1.0), lab.Drop(name="lost.*")])
        near, far = stream_pair(chunk_sizes=[1])
        async with near, anyio.create_task_group() as group:
            group.start_soon(lab.NameServer(zone).serve_stream, far)
            asker = Asker(near)
            await asker.ask(question("lost.example"), question("slow.example"), question())
            assert said(await asker.answer()) == ["192.0.2.7"]
            assert anyio.current_time() == 0
            await near.send_eof()  # what was asked for is still answered
            assert said(await asker.answer()) == ["192.0.2.8"]
            assert anyio.current_time() == 1
        await far.aclose()

    async def test_a_question_cut_anywhere_is_one(self) -> None:
        zone = lab.Zone(HOSTS)
        octets = prefixed(question())
        for cut in range(1, len(octets)):
            near, far = stream_pair()
            async with near, anyio.create_task_group() as group:
                group.start_soon(lab.NameServer(zone).serve_stream, far)
                await near.send(octets[:cut])
                await anyio.sleep(1)
                await near.send(octets[cut:])
                assert said(await Asker(near).answer()) == ["192.0.2.7"]
                await near.send_eof()
            await far.aclose()
