"""TLS inside the race: what counts as connected (R7), what is refused, and that nothing of it leaks."""

from __future__ import annotations

import datetime
import ssl
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import trustme
from anyio.abc import SocketAttribute
from anyio.streams.tls import TLSAttribute, TLSStream

from racer import Entrant, Outcome, _tls
from racer.abc import TLS
from racer.errors import AllAttemptsFailed, DialTimeout, ErrorType, Stage, error_type_of
from racer.testing import MemoryStream, ScriptedTransport, StreamLedger, hangs, stream_pair, wins
from tests.racer.scene import HOST, Acting, Scene
from transports.direct import Direct

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from anyio.abc import ByteStream, SocketStream

    from racer import Attempt
    from racer.testing import Script

virtual_time = pytest.mark.virtual_time

WEEK = datetime.timedelta(days=7)
WINS = wins()


@cache
def authority() -> trustme.CA:
    return trustme.CA()


@cache
def server_context(
    *names: str, alpn: tuple[str, ...] = (), expired: bool = False
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ends = datetime.datetime.now(datetime.UTC) + (-WEEK if expired else WEEK)
    leaf = authority().issue_cert(*names, not_before=ends - 4 * WEEK, not_after=ends)
    leaf.configure_cert(context)
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context


@cache
def trusting() -> ssl.SSLContext:
    """A client's context that trusts the authority of these tests and no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority().configure_trust(context)
    return context


async def secured(stream: ByteStream, context: ssl.SSLContext, **options: Any) -> TLSStream:
    return await TLSStream.wrap(stream, ssl_context=context, standard_compatible=False, **options)


def speaks_tls(context: ssl.SSLContext) -> Callable[[ByteStream], Awaitable[None]]:
    """Return a server for the far end of a stream: TLS, then an echo until the client goes."""

    async def serve(far: ByteStream) -> None:
        with suppress(ssl.SSLError, anyio.EndOfStream, anyio.BrokenResourceError):
            stream = await secured(far, context, server_side=True)
            async for chunk in stream:
                await stream.send(chunk)
        await far.aclose()

    return serve


async def says_nothing(far: MemoryStream) -> None:
    await anyio.sleep_forever()


async def resets(far: MemoryStream) -> None:
    await far.receive()
    far.abort()


async def hangs_up(far: MemoryStream) -> None:
    await far.receive()
    await far.aclose()


async def talks_http(far: MemoryStream) -> None:
    await far.receive()
    await far.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await far.aclose()


def behind(
    serve: Callable[[MemoryStream], Awaitable[None]], name: str = "a", script: Script = WINS
) -> ScriptedTransport:
    return ScriptedTransport(name, script, serve=serve)


async def failure_of(scene: Scene, **options: Any) -> Attempt:
    with pytest.raises(AllAttemptsFailed) as caught:
        await scene.dial(port=443, **options)
    await scene.assert_clean()
    return caught.value.report.attempts[0]


# --- verified ---------------------------------------------------------------------------------------


@virtual_time
async def test_a_verified_stream_wins_and_carries_bytes() -> None:
    async with Scene(behind(speaks_tls(server_context(HOST)))) as scene:
        async with await scene.dial(port=443, tls=trusting()) as connection:
            assert connection.report.tls
            assert connection.report["a"].stage is Stage.TLS
            assert connection.extra(TLSAttribute.ssl_object).server_hostname == HOST
            assert connection.extra(TLSAttribute.ssl_object).context is trusting()
            await connection.send(b"hello")
            assert await connection.receive() == b"hello"
            with pytest.raises(NotImplementedError):
                await connection.send_eof()
        await scene.assert_clean()


@virtual_time
async def test_an_end_without_close_notify_is_the_end() -> None:
    context = server_context(HOST)  # here, since making one writes a file: not in racer's own tasks

    async def cuts_off(far: MemoryStream) -> None:
        stream = await TLSStream.wrap(far, server_side=True, ssl_context=context)
        await stream.send(b"half a")
        await far.aclose()

    async with Scene(behind(cuts_off)) as scene:
        connection = await scene.dial(port=443, tls=trusting())
        assert await connection.receive() == b"half a"
        with pytest.raises(anyio.EndOfStream):
            await connection.receive()
        await connection.aclose()


@virtual_time
async def test_a_mute_peer_holds_up_no_close() -> None:
    context = server_context(HOST)

    async def goes_mute(far: MemoryStream) -> None:
        await TLSStream.wrap(far, server_side=True, ssl_context=context)
        await anyio.sleep_forever()

    async with Scene(behind(goes_mute)) as scene:
        connection = await scene.dial(port=443, tls=trusting())
        await connection.aclose()
        assert anyio.current_time() == 0


@pytest.mark.parametrize(
    ("names", "options", "words"),
    [
        pytest.param(["other.example"], {}, "Hostname mismatch", id="wrong-name"),
        pytest.param(["192.0.2.1"], {}, "Hostname mismatch", id="an-address-only"),
        pytest.param([HOST], {"expired": True}, "expired", id="expired"),
    ],
)
@virtual_time
async def test_a_certificate_that_does_not_do(
    names: list[str], options: dict[str, Any], words: str
) -> None:
    async with Scene(behind(speaks_tls(server_context(*names, **options)))) as scene:
        attempt = await failure_of(scene, tls=trusting())
        assert (attempt.stage, attempt.error_type) == (Stage.TLS, ErrorType.CERTIFICATE_INVALID)
        assert words in attempt.cause


@virtual_time
async def test_an_authority_that_is_not_trusted() -> None:
    stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trustme.CA().configure_trust(stranger)
    async with Scene(behind(speaks_tls(server_context(HOST)))) as scene:
        attempt = await failure_of(scene, tls=stranger)
        assert attempt.error_type is ErrorType.CERTIFICATE_INVALID


@pytest.mark.parametrize(
    ("serve", "expected"),
    [
        (resets, ErrorType.CONNECTION_RESET),
        (hangs_up, ErrorType.CONNECTION_RESET),
        (talks_http, ErrorType.TLS_FAILURE),
    ],
)
@virtual_time
async def test_a_peer_that_breaks_the_handshake_off(
    serve: Callable[[MemoryStream], Awaitable[None]], expected: ErrorType
) -> None:
    async with Scene(behind(serve)) as scene:
        attempt = await failure_of(scene, tls=trusting())
        assert (attempt.stage, attempt.error_type) == (Stage.TLS, expected)


# --- a middlebox that accepts and hangs does not win ------------------------------------------------


@virtual_time
async def test_one_that_accepts_and_says_nothing_loses_to_a_later_good_one() -> None:
    good = behind(speaks_tls(server_context(HOST)), "good")
    async with Scene(behind(says_nothing), Entrant(good, start_delay=0.25)) as scene:
        async with await scene.dial(port=443, tls=trusting()) as connection:
            assert (connection.transport_name, anyio.current_time()) == ("good", 0.25)
            attempt = connection.report["a"]
            assert (attempt.outcome, attempt.stage) == (Outcome.LOST_RACE, Stage.TLS)
            await scene.assert_clean(but=[good.attempts[0].stream])
        await scene.assert_clean()


@virtual_time
async def test_one_that_resets_the_handshake_lets_the_next_start_at_once() -> None:
    good = behind(speaks_tls(server_context(HOST)), "good")
    async with Scene(behind(resets), Entrant(good, start_delay=8.0)) as scene:
        connection = await scene.dial(port=443, tls=trusting())
        assert (connection.transport_name, anyio.current_time()) == ("good", 0.0)
        await connection.aclose()


@virtual_time
@pytest.mark.parametrize("close_hangs", [False, True])
async def test_cancelled_and_expired_handshakes_close_the_raw_stream(close_hangs: bool) -> None:
    async with Scene(behind(says_nothing, script=wins(close_hangs=close_hangs))) as scene:
        with anyio.move_on_after(1.0) as scope:
            await scene.dial(port=443, tls=trusting())
        assert scope.cancelled_caught
        assert anyio.current_time() == 1.0
        await scene.assert_clean()
        with pytest.raises(DialTimeout) as caught:
            await scene.dial(port=443, tls=trusting(), timeout=1.0)
        assert caught.value.report["a"].stage is Stage.TLS
        await scene.assert_clean()


@virtual_time
async def test_the_check_sees_the_secured_stream_and_its_refusal_closes_all_the_way_down() -> None:
    async def check(stream: ByteStream) -> bool:
        assert stream.extra(TLSAttribute.standard_compatible) is False
        await stream.send(b"are you there?")
        return await stream.receive() == b"no"

    async with Scene(behind(speaks_tls(server_context(HOST)))) as scene:
        attempt = await failure_of(scene, tls=trusting(), check=check)
        assert (attempt.stage, attempt.error_type) == (Stage.VERIFY, ErrorType.NOT_USABLE)


# --- guests that speak TLS themselves ---------------------------------------------------------------


def insecure(*, verify: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority().configure_trust(context)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
    return context


def with_alpn(*protocols: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority().configure_trust(context)
    context.set_alpn_protocols(list(protocols))
    return context


def own(context: ssl.SSLContext | None, name: str = HOST) -> Acting:
    """Return a guest that gives a stream under TLS of its own making; none of it with None."""
    both = server_context(HOST, "front.example", alpn=("h2", "http/1.1"))

    async def act(guest: Acting) -> ByteStream:
        near, far = stream_pair(name="own")
        guest.ledger.add(near)
        if context is None:
            return near
        ours: list[ByteStream] = []

        async def client() -> None:
            ours.append(await secured(near, context, hostname=name))

        async with anyio.create_task_group() as group:
            group.start_soon(client)
            group.start_soon(partial(secured, far, both, server_side=True))
        return ours[0]

    return Acting("a", act, tls=TLS.OWN)


@virtual_time
@pytest.mark.parametrize(
    ("guest", "alpn", "told"),
    [
        pytest.param(lambda: own(trusting()), (), None, id="verified"),
        pytest.param(lambda: own(with_alpn("h2")), ("h2", "http/1.1"), None, id="alpn-asked-for"),
        pytest.param(lambda: own(trusting()), ("h2",), None, id="no-alpn-at-all"),
        pytest.param(lambda: own(None), (), "shows none", id="no-tls"),
        pytest.param(
            lambda: own(insecure(verify=False)), (), "does not verify", id="certificate-unverified"
        ),
        pytest.param(lambda: own(insecure(verify=True)), (), "does not verify", id="any-name"),
        pytest.param(lambda: own(trusting(), "front.example"), (), "another name", id="other-name"),
        pytest.param(lambda: own(with_alpn("h2")), ("http/1.1",), "'h2'", id="alpn-not-asked-for"),
    ],
)
async def test_tls_of_the_guests_own_has_to_be_shown(
    guest: Callable[[], Acting], alpn: tuple[str, ...], told: str | None
) -> None:
    async with Scene(guest()) as scene:
        scene.dialer._contexts._made[alpn] = trusting()  # no thread on a virtual clock
        if told is None:
            async with await scene.dial(port=443, alpn=alpn) as connection:
                assert connection.report["a"].stage is Stage.VERIFY
            await scene.assert_clean()
            return
        attempt = await failure_of(scene, alpn=alpn)
        assert (attempt.stage, attempt.error_type) == (Stage.VERIFY, ErrorType.NOT_USABLE)
        assert told in attempt.cause


@virtual_time
async def test_a_guests_own_tls_has_to_use_the_callers_context() -> None:
    mine = with_alpn("http/1.1")
    async with Scene(own(mine)) as scene:
        await (await scene.dial(port=443, tls=mine)).aclose()
    async with Scene(own(trusting())) as scene:
        attempt = await failure_of(scene, tls=mine)
        assert "the caller's context" in attempt.cause


@virtual_time
async def test_a_guests_own_tls_is_no_matter_where_none_is_wanted() -> None:
    async with Scene(own(None)) as scene:
        await (await scene.dial(port=443, tls=False)).aclose()
        await (await scene.dial(port=80)).aclose()


# --- contexts ---------------------------------------------------------------------------------------


@pytest.fixture
def system_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Have the system trust the authority of these tests; return a list of the contexts made, by ALPN."""
    bundle = tmp_path / "trusted.pem"
    authority().cert_pem.write_to_path(str(bundle))
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    made: list[tuple[str, ...]] = []
    make = _tls._make

    def counted(alpn: tuple[str, ...]) -> ssl.SSLContext:
        made.append(alpn)
        return make(alpn)

    monkeypatch.setattr(_tls, "_make", counted)
    return made


@pytest.mark.every_loop
async def test_the_systems_trust_is_read_once(system_trust: list[tuple[str, ...]]) -> None:
    guest = behind(speaks_tls(server_context(HOST, alpn=("h2", "http/1.1"))))
    async with Scene(guest) as scene:

        async def dial(*alpn: str) -> None:
            async with await scene.dial(port=443, alpn=alpn) as connection:
                chosen = connection.extra(TLSAttribute.alpn_protocol)
                assert chosen == ("h2" if alpn else None)

        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(dial)
                group.start_soon(dial, "h2")
                group.start_soon(dial, "http/1.1", "h2")
        await dial()
        await scene.assert_clean()
    assert sorted(system_trust) == [(), ("h2",), ("http/1.1", "h2")]


async def test_a_trust_store_that_cannot_be_read_fails_the_attempt_and_is_tried_again(
    system_trust: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    make = _tls._make

    def broken(alpn: tuple[str, ...]) -> ssl.SSLContext:
        raise PermissionError("the trust store is locked")

    async with Scene(behind(speaks_tls(server_context(HOST)))) as scene:
        monkeypatch.setattr(_tls, "_make", broken)
        attempt = await failure_of(scene)
        assert (attempt.stage, attempt.error_type) == (Stage.TLS, ErrorType.PERMISSION_DENIED)
        monkeypatch.setattr(_tls, "_make", make)
        await (await scene.dial(port=443)).aclose()


async def test_no_context_is_made_where_none_is_needed(system_trust: list[tuple[str, ...]]) -> None:
    async with Scene(behind(speaks_tls(server_context(HOST)))) as scene:
        await (await scene.dial(port=443, tls=trusting())).aclose()
        await (await scene.dial(port=80)).aclose()
        await (await scene.dial(port=443, tls=False)).aclose()
    assert system_trust == []


# --- real sockets -----------------------------------------------------------------------------------


class Counted(Direct):
    """The real guest, with the books that a scene looks at."""

    ledger = StreamLedger()
    running = 0


@pytest.mark.every_loop
async def test_over_real_sockets() -> None:
    contexts = [server_context(name) for name in ("127.0.0.1", "127.0.0.2")]

    async def serve(accepted: SocketStream) -> None:
        await speaks_tls(contexts.pop(0))(accepted)

    async with (
        Scene(Counted()) as scene,
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
    ):
        port = listener.extra(SocketAttribute.local_port)
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, serve)
            async with await scene.dial("127.0.0.1", port, tls=trusting()) as connection:
                await connection.send(b"hello")
                assert await connection.receive() == b"hello"
                assert connection.report["direct"].peer == f"127.0.0.1:{port}"
            with pytest.raises(AllAttemptsFailed) as caught:
                await scene.dial("127.0.0.1", port, tls=trusting())
            assert error_type_of(caught.value) is ErrorType.CERTIFICATE_INVALID
            await scene.assert_clean()
            group.cancel_scope.cancel()


@virtual_time
async def test_a_blocked_route_and_a_good_one_as_a_user_meets_them() -> None:
    """Direct is swallowed, another is reset at the ClientHello, and the third is what it says."""
    tunnel = behind(speaks_tls(server_context(HOST)), "tunnel", wins(0.5))
    async with Scene(
        ScriptedTransport("direct", hangs()),
        Entrant(behind(resets, "reset", wins(0.25)), start_delay=0.25),
        Entrant(tunnel, start_delay=8.0),
    ) as scene:
        connection = await scene.dial(port=443, tls=trusting(), timeout=20.0)
        assert (connection.transport_name, anyio.current_time()) == ("tunnel", 8.5)
        assert [(a.transport, a.outcome, a.error_type) for a in connection.report.attempts] == [
            ("direct", Outcome.LOST_RACE, None),
            ("reset", Outcome.CONNECT_FAILED, ErrorType.CONNECTION_RESET),
            ("tunnel", Outcome.CONNECTED, None),
        ]
        await connection.aclose()
