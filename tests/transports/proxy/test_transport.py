"""Both proxies as transports, over streams in memory: what they send, what they say, what they leave behind."""

from __future__ import annotations

import gc
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from racer.abc import Progress, Stage, Target
from racer.errors import (
    AttemptTimeout,
    CredentialRejected,
    ErrorType,
    NetworkError,
    ProxyRefused,
    RemoteProtocolError,
    TransportBusy,
    TransportError,
)
from racer.testing import (
    LocalHost,
    MemoryStream,
    Script,
    ScriptedTransport,
    cancel_everywhere,
    fails,
    hangs,
    returns,
    stream_pair,
    wins,
)
from tests.transports.proxy.servers import hangs as mute
from tests.transports.proxy.servers import says
from tests.transports.proxy.worlds import (
    LABELS,
    PROTOCOLS,
    TARGET,
    Diary,
    Make,
    World,
    both,
    server_for,
    settled,
    talk,
    world,
)
from transports.proxy import HttpConnect, Socks5

if TYPE_CHECKING:
    from anyio.abc import ByteStream

    from tests.transports.proxy.servers import Handler

pytestmark = pytest.mark.virtual_time


AT_ONCE = wins()


async def reached(
    make: Make, at: World, server: Handler, script: Script = AT_ONCE, **options: Any
) -> ByteStream:
    transport = make("p.example:1080", base=at.base(server, script), **options)
    await transport.start(at.host)
    return await transport.connect(TARGET, Progress())


async def failure(
    make: Make, at: World, server: Handler, script: Script = AT_ONCE, **options: Any
) -> Exception:
    """Return why a connect failed, after checking that it left nothing of its own open."""
    with pytest.raises((TransportError, OSError)) as caught:
        await reached(make, at, server, script, **options)
    at.ledger.assert_all_closed(but=[s for s in at.ledger.streams if s.name.endswith("peer")])
    return caught.value


# --- yes --------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("chunk_sizes", [(), (1,), (3, 1)])
@pytest.mark.parametrize("first", [b"", b"220 target.example\r\n"])
async def test_bytes_go_through_however_the_network_cuts_them(
    make: Make, chunk_sizes: tuple[int, ...], first: bytes
) -> None:
    async with world() as at:
        server = server_for(make, at, first=first)
        stream = await reached(make, at, server, wins(chunk_sizes=chunk_sizes))
        await talk(stream, first)
        await settled()
        at.ledger.assert_all_closed()


@both
async def test_an_attempt_tells_the_bases_story_then_its_own(make: Make) -> None:
    def tell(progress: Progress) -> None:
        progress.stage(Stage.CONNECT)
        progress.peer("192.0.2.9", 1080)

    async with world() as at:
        base = at.base(server_for(make, at), wins().tells(tell))
        transport = await at.started(make("p.example:1080", base=base, password="s3", username="u"))
        diary = Diary()
        await (await transport.connect(TARGET, diary)).aclose()
    assert diary.told == [
        Stage.CONNECT,
        ("192.0.2.9", 1080),
        Stage.HANDSHAKE,
        "racer.proxy.handshake",
    ]
    assert diary.events[0][1] == {
        "racer.proxy.protocol": PROTOCOLS[make],
        "racer.proxy.address": "p.example",
        "racer.proxy.port": 1080,
    }


@both
async def test_the_base_is_asked_for_a_raw_stream_to_the_proxy(make: Make) -> None:
    async with world() as at:
        base = at.base(server_for(make, at))
        transport = await at.started(make(Target("p.example", 443, tls=False), base=base))
        wanted = Target("target.example", 443)  # racer speaks TLS over the tunnel itself
        await (await transport.connect(wanted, Progress())).aclose()
        assert [record.target for record in base.attempts] == [Target("p.example", 443, tls=False)]


@both
async def test_a_credential_opens_the_proxy(make: Make) -> None:
    async with world() as at:
        accounts = {"älice": "pä:ss"}
        server = server_for(make, at, accounts=accounts)
        await talk(await reached(make, at, server, username="älice", password="pä:ss"))


@both
async def test_a_new_credential_is_used_from_the_next_attempt_on(make: Make) -> None:
    async with world() as at:
        base = at.base(server_for(make, at, accounts={"u": "new"}))
        transport = await at.started(
            make("p.example:1080", base=base, username="u", password="old")
        )
        with pytest.raises(CredentialRejected):
            await transport.connect(TARGET, Progress())
        transport.update_credential(("u", "new"))
        await talk(await transport.connect(TARGET, Progress()))
        transport.update_credential(None)
        with pytest.raises(CredentialRejected, match="none was given"):
            await transport.connect(TARGET, Progress())


# --- no: the proxy ----------------------------------------------------------------------------

REFUSALS: list[tuple[Make, dict[str, Any], type[TransportError], ErrorType]] = [
    (Socks5, {"reply": 5}, ProxyRefused, ErrorType.CONNECTION_REFUSED),
    (Socks5, {"reply": 2}, ProxyRefused, ErrorType.PROXY_REFUSED),
    (Socks5, {"accounts": {}}, CredentialRejected, ErrorType.CREDENTIAL_REJECTED),
    (HttpConnect, {"refusal": b"HTTP/1.1 403 F\r\n\r\n"}, ProxyRefused, ErrorType.PROXY_REFUSED),
    (HttpConnect, {"refusal": b"HTTP/1.1 504 T\r\n\r\n"}, ProxyRefused, ErrorType.TIMEOUT),
    (HttpConnect, {"accounts": {}}, CredentialRejected, ErrorType.CREDENTIAL_REJECTED),
]


@pytest.mark.parametrize(("make", "options", "kind", "error_type"), REFUSALS)
async def test_a_no_is_the_proxys_own(
    make: Make, options: dict[str, Any], kind: type[TransportError], error_type: ErrorType
) -> None:
    async with world() as at:
        error = await failure(make, at, server_for(make, at, **options))
        assert type(error) is kind
        assert isinstance(error, TransportError)
        assert (error.error_type, error.stage) == (error_type, Stage.HANDSHAKE)
        assert LABELS[make] in str(error)


LAST_WORDS: list[tuple[Make, bytes, type[TransportError], ErrorType]] = [
    (Socks5, b"\x05\xff", CredentialRejected, ErrorType.CREDENTIAL_REJECTED),
    (HttpConnect, b"HTTP/1.1 403 No\r\n\r\n", ProxyRefused, ErrorType.PROXY_REFUSED),
    # Nothing that is sent would arrive, so this is no yes.
    (HttpConnect, b"HTTP/1.1 200 OK\r\n\r\n", NetworkError, ErrorType.CONNECTION_RESET),
    (Socks5, b"", NetworkError, ErrorType.CONNECTION_RESET),
]


@pytest.mark.parametrize(("make", "words", "kind", "error_type"), LAST_WORDS)
async def test_a_proxy_that_says_why_and_hangs_up_unasked_is_heard(
    make: Make, words: bytes, kind: type[TransportError], error_type: ErrorType
) -> None:
    near, far = stream_pair()
    await far.send(words)
    await far.aclose()
    async with LocalHost() as host:
        transport = make("p.example:1080", base=ScriptedTransport("base", returns(near)))
        await transport.start(host)
        with pytest.raises(TransportError) as caught:
            await transport.connect(TARGET, Progress())
    assert type(caught.value) is kind
    assert caught.value.error_type is error_type
    assert near.closed


SOCKS_GREETED = b"\x05\x00"


@pytest.mark.parametrize(
    ("make", "answers", "words"),
    [
        (Socks5, [], "before its choice of an authentication method"),
        (Socks5, [b"\x05"], "before its choice of an authentication method"),
        (Socks5, [b"\x05\x02"], "before its verdict on the credential"),
        (Socks5, [SOCKS_GREETED], "before its answer to the request"),
        (Socks5, [SOCKS_GREETED, b"\x05\x00\x00\x03\x05na"], "before its answer to the request"),
        (HttpConnect, [], "before its answer to the request"),
        (HttpConnect, [b"HTTP/1.1 200 OK\r\n"], "before its answer to the request"),
    ],
)
async def test_an_end_in_the_middle_says_what_was_owed(
    make: Make, answers: list[bytes], words: str
) -> None:
    async with world() as at:
        error = await failure(make, at, says(*answers), username="u", password="p")
        assert type(error) is NetworkError
        assert (error.error_type, error.stage) == (ErrorType.CONNECTION_RESET, Stage.HANDSHAKE)
        assert f"{LABELS[make]} closed the connection {words}" in str(error)


@both
async def test_a_reset_in_the_middle_says_what_was_owed(make: Make) -> None:
    async def resets(stream: ByteStream) -> None:
        assert isinstance(stream, MemoryStream)
        await stream.receive()
        stream.abort()

    async with world() as at:
        error = await failure(make, at, resets)
        assert type(error) is NetworkError
        assert error.error_type is ErrorType.CONNECTION_RESET
        assert f"the connection to the {LABELS[make]} broke before its" in str(error)


@both
async def test_gibberish_is_a_broken_rule_and_names_the_proxy(make: Make) -> None:
    async with world() as at:
        error = await failure(make, at, says(b"\x16\x03gibberish"))
        assert type(error) is NetworkError
        assert (error.error_type, error.stage) == (ErrorType.PROTOCOL_ERROR, Stage.HANDSHAKE)
        assert isinstance(error.__cause__, RemoteProtocolError)
        assert "this looks like TLS" in str(error)
        assert LABELS[make] in str(error)


@pytest.mark.parametrize(
    ("make", "server", "owed"),
    [
        (Socks5, mute, "its choice of an authentication method"),
        (Socks5, says(b"\x05\x02", then="hang"), "its verdict on the credential"),
        (Socks5, says(SOCKS_GREETED, then="hang"), "its answer to the request"),
        (HttpConnect, mute, "its answer to the request"),
        (HttpConnect, says(b"HTTP/1.1 100 Wait\r\n\r\n", then="hang"), "its answer to the request"),
    ],
)
@pytest.mark.parametrize(("option", "seconds"), [({}, 20.0), ({"handshake_timeout": 3}, 3.0)])
async def test_silence_ends_on_time_and_says_what_was_owed(
    make: Make, server: Handler, owed: str, option: dict[str, float], seconds: float
) -> None:
    async with world() as at:
        error = await failure(make, at, server, wins(1.0), username="u", password="p", **option)
        assert anyio.current_time() == 1.0 + seconds
        assert type(error) is AttemptTimeout
        assert (error.error_type, error.stage) == (ErrorType.TIMEOUT, Stage.HANDSHAKE)
        assert str(error) == f"{LABELS[make]} was silent: {seconds:g} s passed without {owed}"


# --- no: the way to the proxy -----------------------------------------------------------------


@both
async def test_a_proxy_that_cannot_be_reached_is_named_with_the_cause(make: Make) -> None:
    refused = ConnectionRefusedError(111, "could not connect to 192.0.2.9:1080: Connection refused")
    async with world() as at:
        error = await failure(make, at, mute, fails(0.1, refused))
        assert type(error) is NetworkError
        assert error.__cause__ is refused
        assert error.error_type is ErrorType.CONNECTION_REFUSED
        assert error.stage is None  # the race knows how far the base had come
        assert str(error) == (
            f"{LABELS[make]} could not be reached: could not connect to 192.0.2.9:1080: Connection refused"
        )


@both
async def test_the_bases_network_error_keeps_stage_and_reason(make: Make) -> None:
    cause = NetworkError("no such name", stage=Stage.RESOLVE, error_type=ErrorType.DNS_FAILURE)
    async with world() as at:
        error = await failure(make, at, mute, fails(0.1, cause))
        assert type(error) is NetworkError
        assert (error.stage, error.error_type) == (Stage.RESOLVE, ErrorType.DNS_FAILURE)
        assert str(error) == f"{LABELS[make]} could not be reached: no such name"


@both
@pytest.mark.parametrize(
    "own", [TransportBusy("full"), CredentialRejected("of the base"), AttemptTimeout("slow")]
)
async def test_what_the_base_says_of_itself_is_left_alone(make: Make, own: TransportError) -> None:
    async with world() as at:
        assert await failure(make, at, mute, fails(0.1, own)) is own


@both
async def test_a_hanging_base_is_the_races_to_end(make: Make) -> None:
    async with world() as at:
        transport = await at.started(make("p.example:1080", base=at.base(mute, hangs())))
        with anyio.move_on_after(100) as scope:
            await transport.connect(TARGET, Progress())
        assert scope.cancelled_caught


# --- cancellation -----------------------------------------------------------------------------


@both
async def test_a_cancelled_attempt_leaves_nothing_open(make: Make) -> None:
    async with world() as at:
        server = server_for(make, at, accounts={"u": "p"}, first=b"early")
        transport = await at.started(
            make("p.example:1080", base=at.base(server), username="u", password="p")
        )

        async def story() -> None:
            stream = await transport.connect(TARGET, Progress())
            await stream.aclose()

        async def verify() -> None:
            await settled()
            at.ledger.assert_all_closed()

        assert (await cancel_everywhere(story, verify=verify)).cancelled > 10


@both
async def test_a_failure_during_which_the_caller_leaves_leaves_nothing_open(make: Make) -> None:
    async with world() as at:
        transport = await at.started(
            make("p.example:1080", base=at.base(says(b"\x16\x03", then="hang")))
        )

        async def story() -> None:
            with suppress(NetworkError):
                await transport.connect(TARGET, Progress())

        async def verify() -> None:
            open_streams = [s for s in at.ledger.open_streams if s.name == "base"]
            assert open_streams == []

        assert (await cancel_everywhere(story, verify=verify)).cancelled > 5


@both
async def test_a_stream_that_will_not_close_does_not_hold_up_the_failure(make: Make) -> None:
    async with world() as at:
        error = await failure(make, at, says(b"\x16\x03"), wins(close_hangs=True))
        assert anyio.current_time() == 0.0
        assert isinstance(error, NetworkError)


@both
async def test_a_failure_is_gone_when_nobody_holds_it(make: Make) -> None:
    async with world() as at:
        for server in (says(b"\x16\x03"), says(), server_for(make, at, accounts={})):
            transport = await at.started(make("p.example:1080", base=at.base(server)))
            error: weakref.ref[TransportError] | None = None
            gc.disable()
            try:
                try:
                    await transport.connect(TARGET, Progress())
                except TransportError as exc:
                    error = weakref.ref(exc)
                await settled()  # asyncio's cancelled scopes hold on to it for a pass
                assert error is not None
                assert error() is None, "a cycle keeps it alive until the garbage collector comes"
            finally:
                gc.enable()
