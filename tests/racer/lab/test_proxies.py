"""What both proxies do alike: lead to targets, misbehave on demand, and leave nothing behind."""

from __future__ import annotations

import errno
import socket
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest
from anyio.streams.tls import TLSStream

from racer import lab
from racer.abc import Progress, Target
from racer.errors import ConfigError
from racer.testing import EchoServer, StreamLedger, cancel_everywhere, stream_pair
from transports.direct import Direct
from transports.proxy import HttpConnect, Socks5

if TYPE_CHECKING:
    from anyio.abc import ByteStream

SITE = "192.0.2.7"
PROXY = "198.51.100.9"
NAME = "news.example"
AUTHORITY = lab.Authority()
CLIENT = AUTHORITY.client_context()
network = partial(lab.Network, in_memory=True)

ASK = {
    lab.Socks5Proxy: [b"\5\1\0", b"\5\1\0\3\x0cnews.example\1\xbb"],
    lab.HttpProxy: [b"CONNECT news.example:443 HTTP/1.1\r\nHost: news.example:443\r\n\r\n"],
}
STANDS = {
    lab.Socks5Proxy: [b"\5\0", b"\5\0\0\1\0\0\0\0\0\0"],
    lab.HttpProxy: [b"HTTP/1.1 200 Connection established\r\n\r\n"],
}
KINDS = [lab.Socks5Proxy, lab.HttpProxy]
Kind = type[lab.Socks5Proxy] | type[lab.HttpProxy]


async def read_all(stream: ByteStream) -> bytes:
    return b"".join([data async for data in stream])


async def read(stream: ByteStream, count: int) -> bytes:
    got = b""
    while len(got) < count:
        got += await stream.receive()
    return got


async def enter(kind: Kind, stream: ByteStream) -> None:
    """Go through the protocol to an open tunnel."""
    for question, answer in zip(ASK[kind], STANDS[kind], strict=True):
        await stream.send(question)
        assert await read(stream, len(answer)) == answer


@pytest.mark.virtual_time
@pytest.mark.parametrize("kind", KINDS)
class TestTunnel:
    async def test_it_stands_in_a_network_and_leads_to_its_sites(self, kind: Kind) -> None:
        """From afar it is as far to the proxy as from there to the site."""
        link = lab.Profile(delay=0.25)
        async with network(up=link, down=link) as net:
            await net.add_site(NAME, SITE)
            net.rules.append(lab.Blackhole(address=SITE))
            proxy = kind(connect=net.connector(censored=False))
            await net.add_site("proxy.example", PROXY, port=1080, handler=proxy.serve_stream)
            async with await net.dial_tcp(PROXY, 1080) as stream:
                assert anyio.current_time() == 0.5
                await enter(kind, stream)
                turns = len(ASK[kind]) + 1  # the last one waits for the proxy's own connection
                assert anyio.current_time() == 0.5 + turns * 0.5
                assert proxy.tunnels == 1
                began = anyio.current_time()
                await stream.send(b"hello")
                assert await stream.receive() == b"hello"
                assert anyio.current_time() == began + 1.0
                await stream.send_eof()
                assert await read_all(stream) == b""
            await anyio.sleep(1)
            assert proxy.tunnels == 0
            assert [(asked.host, asked.port, asked.user) for asked in proxy.requests] == [
                (NAME, 443, None)
            ]
            assert (net.connects[PROXY, 1080], net.connects[SITE, 443]) == (1, 1)

    async def test_it_may_be_subject_to_the_censor(self, kind: Kind) -> None:
        async with network() as net:
            await net.add_site(NAME, SITE)
            net.rules.append(lab.Refuse(address=SITE))
            near, far = stream_pair()
            proxy = kind(connect=net.connector())
            async with near, anyio.create_task_group() as group:
                group.start_soon(serve, proxy, far)
                with pytest.raises(AssertionError):
                    await enter(kind, near)

    async def test_a_reset_goes_through_either_way(self, kind: Kind) -> None:
        async def reset(stream: ByteStream) -> None:
            await stream.receive()
            stream.abort()  # type: ignore[attr-defined]

        seen: list[float] = []

        async def watch(stream: ByteStream) -> None:
            with pytest.raises(anyio.BrokenResourceError):
                await read_all(stream)
            seen.append(anyio.current_time())

        async with network() as net:
            await net.add_site(NAME, SITE, handler=reset)
            proxy = kind(connect=net.connector())
            await net.add_site("proxy.example", PROXY, port=1080, handler=proxy.serve_stream)
            async with await net.dial_tcp(PROXY, 1080) as stream:
                await enter(kind, stream)
                await stream.send(b"x")
                with pytest.raises(anyio.BrokenResourceError):
                    await stream.receive()
            await net.add_site(NAME, "192.0.2.8", port=444, handler=watch)
            net.hosts[NAME] = ["192.0.2.8"]
            proxy._connect = lambda host, port: net.dial_tcp("192.0.2.8", 444)
            stream = await net.dial_tcp(PROXY, 1080)
            await enter(kind, stream)
            await anyio.aclose_forcefully(stream)
            await anyio.sleep(1)
        assert seen == [0]

    async def test_a_client_that_gives_up_is_not_connected_any_further(self, kind: Kind) -> None:
        cancelled: list[float] = []

        async def connect(host: str, port: int) -> ByteStream:
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.append(anyio.current_time())
            raise AssertionError

        near, far = stream_pair()
        async with anyio.create_task_group() as group:
            group.start_soon(serve, kind(connect=connect), far)
            async with near:
                for question in ASK[kind]:
                    await near.send(question)
                await anyio.sleep(3)
        assert cancelled == [3]
        assert far.closed

    async def test_cancelled_anywhere_nothing_is_left_open(
        self, kind: Kind, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ledger = StreamLedger()
        monkeypatch.setattr("racer.lab._network.stream_pair", partial(stream_pair, ledger=ledger))
        link = lab.Profile(delay=0.25)
        proxies: list[lab.Socks5Proxy | lab.HttpProxy] = []

        async def story() -> None:
            async with network(up=link) as net:
                await net.add_site(NAME, SITE)
                proxies.append(kind(connect=net.connector()))
                await net.add_site("p.example", PROXY, port=80, handler=proxies[-1].serve_stream)
                async with await net.dial_tcp(PROXY, 80) as stream:
                    await enter(kind, stream)
                    await stream.send(b"hello")
                    assert await read(stream, 5) == b"hello"

        async def verify() -> None:
            ledger.assert_all_closed()
            assert all(proxy.tunnels == 0 for proxy in proxies)

        sweep = await cancel_everywhere(story, verify=verify, passes=3)
        assert sweep.cancelled > 50

    async def test_its_connectors_own_error_is_not_taken_for_a_refusal(self, kind: Kind) -> None:
        async def connect(host: str, port: int) -> ByteStream:
            raise AssertionError("not this")

        near, far = stream_pair()
        async with near:
            with pytest.raises(ExceptionGroup) as caught:
                async with anyio.create_task_group() as group:
                    group.start_soon(serve, kind(connect=connect), far)
                    await near.send(b"".join(ASK[kind]))
            assert caught.group_contains(AssertionError, match="not this")

    async def test_what_a_client_sends_too_early_is_not_lost(self, kind: Kind) -> None:
        async def connect(host: str, port: int) -> ByteStream:
            await anyio.sleep(1)
            return await net.dial_tcp(SITE, 443)

        async with network() as net:
            await net.add_site(NAME, SITE)
            near, far = stream_pair()
            async with near, anyio.create_task_group() as group:
                group.start_soon(serve, kind(connect=connect), far)
                await near.send(b"".join(ASK[kind]) + b"ear")
                await anyio.sleep(0.5)
                await near.send(b"ly")
                answers = b"".join(STANDS[kind])
                assert await read(near, len(answers) + 5) == answers + b"early"
                await near.send_eof()
                await read_all(near)

    async def test_its_words_come_at_the_pace_it_was_given(self, kind: Kind) -> None:
        async with network() as net:
            await net.add_site(NAME, SITE)
            near, far = stream_pair()
            async with near, anyio.create_task_group() as group:
                group.start_soon(serve, kind(connect=net.connector(), pace=0.5), far)
                await enter(kind, near)
                pauses = sum(len(answer) - 1 for answer in STANDS[kind])
                assert anyio.current_time() == 0.5 * pauses
                began = anyio.current_time()
                await near.send(b"hello")
                assert await near.receive() == b"hello"
                assert anyio.current_time() == began
                await near.send_eof()

    async def test_a_request_cut_at_every_byte_is_one(self, kind: Kind) -> None:
        async with network() as net:
            await net.add_site(NAME, SITE)
            whole = b"".join(ASK[kind])
            for cut in range(1, len(whole)):
                near, far = stream_pair()
                async with near, anyio.create_task_group() as group:
                    group.start_soon(serve, kind(connect=net.connector()), far)
                    await near.send(whole[:cut])
                    await anyio.sleep(1)
                    await near.send(whole[cut:])
                    answers = b"".join(STANDS[kind])
                    assert await read(near, len(answers)) == answers
                    await near.send_eof()


async def serve(proxy: lab.Socks5Proxy | lab.HttpProxy, stream: ByteStream) -> None:
    """Serve as a site does."""
    await lab.Site("proxy", proxy.serve_stream).serve(stream)


CONNECTED, REQUEST, TUNNEL = (
    lab.ProxyStage.CONNECTED,
    lab.ProxyStage.REQUEST,
    lab.ProxyStage.TUNNEL,
)


@pytest.mark.virtual_time
@pytest.mark.parametrize("kind", KINDS)
class TestFaults:
    async def converse(self, kind: Kind, *faults: Any) -> tuple[bytes, str]:
        """All that a client is told who asks one question after the other, and how it ended."""
        async with network() as net:
            await net.add_site(NAME, SITE, handler=lab.mute)
            near, far = stream_pair()
            async with near, anyio.create_task_group() as group:
                group.start_soon(serve, kind(connect=net.connector(), faults=faults), far)
                told = b""
                for question in ASK[kind]:
                    try:
                        await near.send(question)
                    except anyio.BrokenResourceError:
                        break
                    await anyio.sleep(1)
                try:
                    while True:
                        with anyio.fail_after(10):
                            told += await near.receive()
                except TimeoutError:
                    group.cancel_scope.cancel()
                    return told, "hangs"
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    return told, "ends"
        raise AssertionError

    @pytest.mark.parametrize("stage", [CONNECTED, REQUEST, TUNNEL])
    @pytest.mark.parametrize("then", [lab.Then.CLOSE, lab.Then.HANG])
    @pytest.mark.parametrize("says", [b"", b"\0garbage"])
    async def test_it_goes_wrong_at_any_stage(
        self, kind: Kind, stage: lab.ProxyStage, then: lab.Then, says: bytes
    ) -> None:
        fault = lab.ProxyFault(stage=stage, says=says, then=then)
        stands = STANDS[kind]
        before = {CONNECTED: [], REQUEST: stands[:-1], TUNNEL: stands}[stage]
        told, end = await self.converse(kind, fault)
        assert told == b"".join(before) + says
        assert end == ("hangs" if then is lab.Then.HANG else "ends")

    async def test_it_may_say_more_than_it_should_and_go_on(self, kind: Kind) -> None:
        fault = lab.ProxyFault(stage=TUNNEL, says=b"more", then=lab.Then.GO_ON)
        told, end = await self.converse(kind, fault)
        assert told == b"".join(STANDS[kind]) + b"more"
        assert end == "hangs"  # the site is mute

    @pytest.mark.parametrize("host", ["*", "NEWS.*", "other.example"])
    async def test_faults_are_for_hosts(self, kind: Kind, host: str) -> None:
        _, end = await self.converse(kind, lab.ProxyFault(host=host))
        assert end == ("hangs" if host == "other.example" else "ends")

    async def test_the_first_that_applies_counts(self, kind: Kind) -> None:
        told, _ = await self.converse(
            kind,
            lab.ProxyFault(host="other.example", says=b"1"),
            lab.ProxyFault(says=b"2"),
            lab.ProxyFault(says=b"3"),
        )
        assert told == b"".join(STANDS[kind][:-1]) + b"2"

    async def test_faults_may_change_at_any_time(self, kind: Kind) -> None:
        proxy = kind()
        assert proxy.faults == []
        proxy.faults.append(lab.ProxyFault(stage=CONNECTED))
        near, far = stream_pair()
        async with near:
            await serve(proxy, far)
            assert await read_all(near) == b""
        assert proxy.requests == []


def test_a_pace_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="pace"):
        lab.Socks5Proxy(pace=-1)


@pytest.mark.every_loop
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tls", [False, True])
class TestSockets:
    async def test_a_transport_goes_through(self, kind: Kind, tls: bool) -> None:
        """A client that the lab has not written, through a proxy with TLS and a credential, or without."""
        context = await AUTHORITY.make_server_context("127.0.0.1") if tls else None
        credential = ("user", "secret") if tls else None
        async with (
            lab.Network() as net,
            kind(connect=net.connector(), context=context, credential=credential) as proxy,
        ):
            scheme = {lab.Socks5Proxy: "socks5", lab.HttpProxy: "https" if tls else "http"}[kind]
            assert proxy.url == f"{scheme}://127.0.0.1:{proxy.address[1]}"
            await net.add_site(NAME, SITE, authority=AUTHORITY)
            client = {lab.Socks5Proxy: Socks5, lab.HttpProxy: HttpConnect}[kind](
                Target(*proxy.address),
                base=Direct(),
                username="user" if tls else None,
                password="secret" if tls else None,
                tls=CLIENT if tls else False,
            )
            stream = await client.connect(Target(NAME), Progress())
            secured = await TLSStream.wrap(
                stream, hostname=NAME, ssl_context=CLIENT, standard_compatible=False
            )
            async with secured:
                await secured.send(b"hello")
                assert await secured.receive() == b"hello"
            assert [asked.user for asked in proxy.requests] == ["user" if tls else None]
            await client.aclose()

    async def test_by_itself_it_reaches_what_this_machine_reaches(
        self, kind: Kind, tls: bool
    ) -> None:
        if tls:
            return
        async with EchoServer() as server, kind() as proxy:
            client = {lab.Socks5Proxy: Socks5, lab.HttpProxy: HttpConnect}[kind](
                Target(*proxy.address), base=Direct()
            )
            async with await client.connect(server.target, Progress()) as stream:
                await stream.send(b"hello")
                assert await stream.receive() == b"hello"
            with pytest.raises(Exception, match="refused"):
                await client.connect(server.refusing_target, Progress())
            await client.aclose()


async def test_httpx_goes_through() -> None:
    async with lab.Network() as net, lab.HttpProxy(connect=net.connector()) as proxy:
        await net.add_site(NAME, SITE, authority=AUTHORITY, handler=lab.hello)
        async with httpx.AsyncClient(verify=CLIENT, proxy=proxy.url, trust_env=False) as client:
            response = await client.get(f"https://{NAME}/")
        assert response.text == "hello from the lab\n"
        assert proxy.requests[0].headers["host"] == f"{NAME}:443"


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("error", "socks", "status"),
    [
        (OSError(errno.ECONNREFUSED, ""), 5, 502),
        (OSError(errno.EHOSTUNREACH, ""), 4, 502),
        (OSError(errno.ENETUNREACH, ""), 3, 502),
        (socket.gaierror(socket.EAI_NONAME, ""), 4, 502),
        (OSError(errno.ETIMEDOUT, ""), 1, 504),
        (OSError("strange"), 1, 502),
    ],
)
async def test_why_a_target_was_not_reached_is_told(
    error: OSError, socks: int, status: int
) -> None:
    async def connect(host: str, port: int) -> ByteStream:
        raise error

    expected = {
        lab.Socks5Proxy: b"\5\0\5%c\0\1\0\0\0\0\0\0" % socks,
        lab.HttpProxy: b"HTTP/1.1 %d " % status,
    }
    for kind, start in expected.items():
        near, far = stream_pair()
        async with near, anyio.create_task_group() as group:
            group.start_soon(serve, kind(connect=connect), far)
            await near.send(b"".join(ASK[kind]))
            assert (await read_all(near)).startswith(start)
