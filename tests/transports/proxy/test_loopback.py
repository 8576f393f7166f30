"""Both proxies over real sockets on loopback: chains, TLS, TLS in TLS, races, and the conformance kit."""

from __future__ import annotations

import ssl
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.abc import SocketAttribute
from anyio.streams.tls import TLSAttribute, TLSStream

import racer
from racer.abc import Progress, Target, Transport
from racer.errors import AllAttemptsFailed, ErrorType, NetworkError, Stage
from racer.testing import EchoServer
from tests.transports.proxy.servers import (
    ConnectProxy,
    Keys,
    Loopback,
    Socks5Server,
    echo,
    hangs,
    listening,
    says,
)
from tests.transports.proxy.worlds import Diary, Make, both, talk
from transports.direct import Direct
from transports.proxy import HttpConnect, Socks5

if TYPE_CHECKING:
    from anyio.abc import ByteStream

NAMES = {
    "target.example": "127.0.0.1",
    "second.example": "127.0.0.1",
    "third.example": "127.0.0.1",
}


@pytest.fixture(scope="module")
def keys() -> Keys:
    return Keys.make()


def server_for(make: Make, dial: Loopback, **options: Any) -> Any:
    return Socks5Server(dial, **options) if make is Socks5 else ConnectProxy(dial, **options)


async def settle(*servers: Socks5Server | ConnectProxy) -> None:
    """Wait until the servers have seen their clients go, bounded by the test's own timeout."""
    while any(server.open for server in servers):
        await anyio.wait_all_tasks_blocked()


@pytest.mark.every_loop
@both
@pytest.mark.parametrize("host", ["target.example", "127.0.0.1"])
async def test_a_stream_through_a_proxy(make: Make, host: str) -> None:
    dial = Loopback(NAMES)
    server = server_for(make, dial, first=b"220 hello\r\n")
    async with listening(echo) as target, listening(server) as proxy:
        transport = make(proxy)  # without a base: TCP by itself
        diary = Diary()
        stream = await transport.connect(Target(host, target.port, tls=False), diary)
        assert stream.extra(SocketAttribute.remote_port) == proxy.port
        await talk(stream, b"220 hello\r\n")
        await settle(server)
        await transport.aclose()
    assert dial.asked == [(host, target.port)]
    assert diary.told == [
        Stage.CONNECT,
        ("127.0.0.1", proxy.port),
        Stage.HANDSHAKE,
        "racer.proxy.handshake",
    ]


@both
async def test_a_proxy_may_be_given_by_name(make: Make) -> None:
    server = server_for(make, Loopback(NAMES))
    async with listening(echo) as target, listening(server) as proxy:
        transport = make(f"localhost:{proxy.port}")
        await talk(await transport.connect(target, Progress()))


@both
async def test_another_room_may_be_the_base(make: Make) -> None:
    server = server_for(make, Loopback(NAMES))
    async with listening(echo) as target, listening(server) as proxy:
        transport = make(f"localhost:{proxy.port}", base=Direct())
        async with racer.Dialer([transport]) as dialer:
            await talk(await dialer.dial("target.example", target.port, tls=False))
            (entrant,) = dialer.status().entrants
    assert entrant.transport.details["base"] == "direct"


@pytest.mark.every_loop
async def test_a_chain_of_three() -> None:
    dials = [Loopback(NAMES) for _ in range(3)]
    first = Socks5Server(dials[0], accounts={"u": "1"})
    second = ConnectProxy(dials[1], accounts={"u": "2"}, informational=2)
    third = Socks5Server(dials[2], accounts={"u": "3"}, first=b"early")
    async with AsyncExitStack() as stack:
        target = await stack.enter_async_context(listening(echo))
        one, two, three = [
            await stack.enter_async_context(listening(server)) for server in (first, second, third)
        ]
        transport = Socks5(
            f"third.example:{three.port}",
            username="u",
            password="3",
            base=HttpConnect(
                f"second.example:{two.port}",
                username="u",
                password="2",
                base=Socks5(one, username="u", password="1"),
            ),
        )
        wanted = Target("target.example", target.port, tls=False)
        await talk(await transport.connect(wanted, Progress()), b"early")
        await settle(first, second, third)
    assert dials[0].asked == [("second.example", two.port)]
    assert dials[1].asked == [("third.example", three.port)]
    assert dials[2].asked == [("target.example", target.port)]


# --- TLS --------------------------------------------------------------------------------------


@pytest.mark.every_loop
@both
async def test_tls_to_the_proxy_hides_itself(make: Make, keys: Keys) -> None:
    theirs, ours = keys.server, keys.client
    server = server_for(make, Loopback(NAMES))
    async with listening(echo) as target, listening(server, tls=theirs) as proxy:
        transport = make(proxy, tls=ours)
        async with await transport.connect(target, Progress()) as stream:
            await stream.send(b"ping")
            assert await stream.receive() == b"ping"
            assert stream.extra(TLSAttribute.ssl_object, None) is None
            assert stream.extra(SocketAttribute.remote_port) == proxy.port
            with pytest.raises(NotImplementedError):
                await stream.send_eof()
        await settle(server)


@pytest.mark.every_loop
@both
async def test_tls_in_tls_in_tls(make: Make, keys: Keys) -> None:
    theirs, ours = keys.server, keys.client
    inner, outer = (server_for(make, Loopback(NAMES)) for _ in range(2))
    async with AsyncExitStack() as stack:
        target = await stack.enter_async_context(listening(echo, tls=theirs))
        far = await stack.enter_async_context(listening(inner, tls=theirs))
        near = await stack.enter_async_context(listening(outer, tls=theirs))
        transport = make(far, tls=ours, base=make(near, tls=ours, name="near"))
        dialer = await stack.enter_async_context(racer.Dialer([transport]))
        conn = await dialer.dial("target.example", target.port, tls=ours)
        await stack.enter_async_context(conn)
        assert conn.extra(TLSAttribute.ssl_object).server_hostname == "target.example"
        data = bytes(range(256)) * 1000
        async with anyio.create_task_group() as group:
            group.start_soon(conn.send, data)
            got = b""
            while len(got) < len(data):
                got += await conn.receive()
        assert got == data


@both
@pytest.mark.parametrize("name", ["proxy.example", "PROXY.example."])
async def test_the_certificate_may_have_another_name(make: Make, name: str, keys: Keys) -> None:
    theirs, ours = keys.server, keys.client
    seen: list[str | None] = []

    async def handler(stream: ByteStream) -> None:
        assert isinstance(stream, TLSStream)
        await server(stream)

    def sni(_: object, name: str | None, __: object) -> None:
        seen.append(name)

    server = server_for(make, Loopback(NAMES))
    theirs.sni_callback = sni
    try:
        async with listening(echo) as target, listening(handler, tls=theirs) as proxy:
            transport = make(proxy, tls=ours, server_hostname=name)
            await (await transport.connect(target, Progress())).aclose()
    finally:
        theirs.sni_callback = None
    assert seen == ["proxy.example"]


BAD_TLS: list[tuple[dict[str, Any], ErrorType, str]] = [
    ({"server_hostname": "other.example"}, ErrorType.CERTIFICATE_INVALID, "could not be verified"),
    ({"tls": True}, ErrorType.CERTIFICATE_INVALID, "could not be verified"),
]


@both
@pytest.mark.parametrize(("options", "kind", "words"), BAD_TLS)
async def test_a_certificate_is_verified_unless_told_otherwise(
    make: Make, options: dict[str, Any], kind: ErrorType, words: str, keys: Keys
) -> None:
    theirs, ours = keys.server, keys.client
    server = server_for(make, Loopback(NAMES))
    async with listening(server, tls=theirs) as proxy:
        transport = make(proxy, **{"tls": ours, **options})
        with pytest.raises(NetworkError, match=words) as caught:
            await transport.connect(Target("target.example", 7), Progress())
    assert caught.value.error_type is kind
    assert caught.value.stage is Stage.HANDSHAKE
    assert f"proxy {proxy}" in str(caught.value)
    assert not server.requests


@both
async def test_a_proxy_without_tls_fails_as_tls(make: Make, keys: Keys) -> None:
    ours = keys.client
    async with listening(says(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as proxy:
        with pytest.raises(NetworkError, match="TLS to the") as caught:
            await make(proxy, tls=ours).connect(Target("target.example", 7), Progress())
    assert caught.value.error_type is ErrorType.TLS_FAILURE


@both
async def test_an_end_during_tls_says_so(make: Make, keys: Keys) -> None:
    ours = keys.client
    async with listening(says()) as proxy:
        with pytest.raises(NetworkError, match="before its part of the TLS handshake") as caught:
            await make(proxy, tls=ours).connect(Target("target.example", 7), Progress())
    assert caught.value.error_type is ErrorType.CONNECTION_RESET


@pytest.mark.parametrize(("make", "offered"), [(Socks5, None), (HttpConnect, "http/1.1")])
async def test_what_is_offered_over_tls(make: Make, offered: str | None, keys: Keys) -> None:
    context = await make("p.example:443", tls=True)._context.get()  # type: ignore[attr-defined]
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    theirs = keys.server
    chosen: list[str | None] = []

    async def handler(stream: ByteStream) -> None:
        chosen.append(stream.extra(TLSAttribute.alpn_protocol))

    theirs.set_alpn_protocols(["h2", "http/1.1"])
    try:
        async with listening(handler, tls=theirs) as proxy:
            transport = make(proxy, tls=True)
            made = await transport._context.get()  # type: ignore[attr-defined]
            made.load_verify_locations(cadata=keys.authority)
            with pytest.raises(NetworkError):
                await transport.connect(Target("target.example", 7), Progress())
    finally:
        theirs.set_alpn_protocols([])
    assert chosen == [offered]


# --- races ------------------------------------------------------------------------------------


async def lost(transport: Transport, target: Target, **options: Any) -> racer.Attempt:
    """Return the one attempt of a race that nothing won."""
    async with racer.Dialer([transport]) as dialer:
        with pytest.raises(AllAttemptsFailed) as caught:
            await dialer.dial(target, **options)
    (attempt,) = caught.value.report.attempts
    assert attempt.outcome is racer.Outcome.CONNECT_FAILED
    return attempt


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1, "other"),
        (2, "proxy_refused"),
        (3, "host_unreachable"),
        (4, "host_unreachable"),
        (5, "connection_refused"),
        (6, "timeout"),
        (7, "proxy_refused"),
        (8, "proxy_refused"),
        (9, "proxy_refused"),
    ],
)
async def test_a_race_reports_the_reason_of_each_socks_reply(code: int, kind: str) -> None:
    async with listening(Socks5Server(Loopback(), reply=code)) as proxy:
        attempt = await lost(Socks5(proxy), Target("target.example", 7, tls=False))
        assert (attempt.error_type, attempt.stage) == (kind, "handshake")
        assert attempt.transport == "socks5"
        assert attempt.peer == str(proxy)
        assert f"(reply {code:#04x})" in attempt.cause
        assert getattr(attempt.error, "code", None) == code


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "proxy_refused"),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", "host_unreachable"),
        (b"HTTP/1.1 503 Unavailable\r\n\r\n", "resource_exhausted"),
        (b"HTTP/1.1 504 Timeout\r\n\r\n", "timeout"),
        (b"nonsense\r\n\r\n", "protocol_error"),
    ],
)
async def test_a_race_reports_the_reason_of_each_http_status(refusal: bytes, kind: str) -> None:
    async with listening(ConnectProxy(Loopback(), refusal=refusal)) as proxy:
        attempt = await lost(HttpConnect(proxy), Target("target.example", 7, tls=False))
        assert (attempt.error_type, attempt.stage) == (kind, "handshake")


@both
async def test_a_race_reports_a_rejected_credential_and_no_password(make: Make) -> None:
    async with listening(server_for(make, Loopback(), accounts={"alice": "other"})) as proxy:
        attempt = await lost(
            make(proxy, username="alice", password="s3cret"), Target("target.example", 7)
        )
        assert attempt.error_type == "credential_rejected"
        assert "s3cret" not in str(attempt.to_dict())
        assert "alice" not in str(attempt.to_dict())


@both
async def test_a_race_reports_a_proxy_that_is_not_there(make: Make) -> None:
    async with EchoServer() as server:
        attempt = await lost(make(server.refusing_target), Target("target.example", 7))
    assert (attempt.error_type, attempt.stage) == ("connection_refused", "connect")
    assert f"proxy {server.refusing_target} could not be reached" in attempt.cause


@both
async def test_a_race_reports_silence_as_a_timeout(make: Make) -> None:
    async with (
        listening(hangs) as proxy,
        racer.Dialer([make(proxy, handshake_timeout=0.05)]) as dialer,
    ):
        with pytest.raises(AllAttemptsFailed) as caught:
            await dialer.dial("target.example", 7, tls=False)
    (attempt,) = caught.value.report.attempts
    assert (attempt.outcome, attempt.error_type) == ("timed_out", "timeout")
    assert "was silent" in attempt.cause


@both
async def test_a_target_that_refuses_is_not_the_proxys_fault(make: Make) -> None:
    async with EchoServer() as server, listening(server_for(make, Loopback())) as proxy:
        attempt = await lost(make(proxy), server.refusing_target)
    assert (attempt.error_type, attempt.stage) == ("connection_refused", "handshake")


@both
async def test_what_no_proxy_can_reach_is_ineligible(make: Make) -> None:
    async with racer.Dialer([make("127.0.0.1:9")]) as dialer:
        with pytest.raises(racer.errors.NoTransports) as caught:
            await dialer.dial(Target("fe80::1%lo", 7, tls=False))
    assert "interface of this machine" in str(caught.value)
