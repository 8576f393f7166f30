from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import anyio
import pytest

from racer.errors import ErrorType, NetworkError
from racer.proxy._call import MAX_EARLY
from racer.proxy._splice import CHUNK, NO_HALF_CLOSE_GRACE
from racer.testing import (
    MemoryStream,
    RecordedEnd,
    ScriptedTransport,
    fails,
    hangs,
    wins,
)
from tests.racer.proxy.scene import ACCEPTED, CONNECT, SOCKS, echo, read, rest, scene, silent

if TYPE_CHECKING:
    from racer.testing import Script

pytestmark = pytest.mark.virtual_time

ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


@pytest.mark.parametrize(
    ("asks", "answer"), [(SOCKS, ACCEPTED), (CONNECT, ESTABLISHED)], ids=["socks5", "connect"]
)
class TestBothProtocols:
    async def test_a_tunnel_carries_both_ways_and_ends_with_both_sides(
        self, asks: bytes, answer: bytes
    ) -> None:
        async with scene(wins(0.5)) as it:
            client = it.client()
            await client.send(asks)
            assert await read(client, len(answer)) == answer
            assert anyio.current_time() == 0.5
            (attempt,) = it.transport.attempts
            assert str(attempt.target) == "news.example:443"
            assert attempt.target.tls is False  # type: ignore[union-attr]
            await client.send(b"ping")
            assert await read(client, 4) == b"ping"
            await client.send_eof()
            assert await rest(client) == b""
            await client.aclose()
            status = it.proxy.status()
            assert (status.sent, status.received, status.tunnels) == (4, 4, 0)
            assert status.attempts == {("tunnel", "connected"): 1}

    async def test_a_request_cut_at_every_byte_is_the_same(
        self, asks: bytes, answer: bytes
    ) -> None:
        async with scene() as it:
            client = it.client(chunk_sizes=[1])
            for index in range(len(asks)):
                await client.send(asks[index : index + 1])
            assert await read(client, len(answer)) == answer
            await client.aclose()

    async def test_what_is_sent_before_the_answer_arrives_in_order(
        self, asks: bytes, answer: bytes
    ) -> None:
        async with scene(wins(1)) as it:
            client = it.client()
            await client.send(asks + b"with it,")
            await anyio.sleep(0.5)
            await client.send(b" meanwhile,")
            assert await read(client, len(answer)) == answer
            await client.send(b" after")
            await client.send_eof()
            assert await rest(client) == b"with it, meanwhile, after"
            await client.aclose()

    @pytest.mark.parametrize("by_force", [False, True])
    async def test_a_client_that_goes_away_ends_its_race_at_once(
        self, asks: bytes, answer: bytes, by_force: bool
    ) -> None:
        async with scene(hangs()) as it:
            client = it.client()
            await client.send(asks)
            await anyio.sleep(2)
            assert it.proxy.status().racing == 1
            client.abort() if by_force else await client.aclose()
            await anyio.sleep(0.001)
            (attempt,) = it.transport.attempts
            assert (attempt.end, attempt.ended_at) == (RecordedEnd.CANCELLED, 2)
            assert it.proxy.status().clients == 0
            assert it.proxy.status().racing == 0
            assert list(it.requests().values()) == [1]
            assert next(iter(it.requests()))[1] == "left"

    async def test_a_client_that_has_said_all_it_wants_is_still_answered(
        self, asks: bytes, answer: bytes
    ) -> None:
        async with scene(wins(3)) as it:
            client = it.client()
            await client.send(asks + b"question")
            await client.send_eof()
            assert await rest(client) == answer + b"question"
            await client.aclose()

    async def test_a_failed_race_is_answered_and_told_once(
        self, asks: bytes, answer: bytes
    ) -> None:
        async with scene(
            fails(0.25, NetworkError("no such host", error_type=ErrorType.DNS_FAILURE))
        ) as it:
            client = it.client()
            await client.send(asks)
            said = b"" if asks is CONNECT else await read(client, 2)
            said = await (rest(client) if asks is SOCKS else read(client, 12))
            assert anyio.current_time() == 0.25
            assert said in {b"\x05\x04\x00\x01" + bytes(6), b"HTTP/1.1 502"}
            await client.aclose()
            (failure,) = it.failures
            assert failure.target == "news.example:443"
            assert failure.words == "could not connect to news.example:443"
            assert failure.details == ("  tunnel: NetworkError: no such host (after 0.2 s)",)
            assert it.proxy.status().attempts == {("tunnel", "connect_failed"): 1}

    async def test_a_race_that_takes_too_long_says_so(self, asks: bytes, answer: bytes) -> None:
        async with scene(hangs(), timeout=7) as it:
            client = it.client()
            await client.send(asks)
            said = await client.receive()
            if asks is SOCKS:
                said += await client.receive()
            assert anyio.current_time() == 7
            assert said[2:4] == b"\x05\x06" if asks is SOCKS else said[:12] == b"HTTP/1.1 504"
            await client.aclose()


async def test_after_a_connect_that_failed_the_client_may_ask_again() -> None:
    transport = ScriptedTransport("tunnel", fails().then(wins()), serve=echo)
    async with scene(transport=transport) as it:
        client = it.client()
        await client.send(CONNECT)
        said = await client.receive()
        assert said.startswith(b"HTTP/1.1 502 ")
        assert b"Connection: close" not in said
        await client.send(CONNECT)
        assert await read(client, len(ESTABLISHED)) == ESTABLISHED
        await client.send(b"ping")
        assert await read(client, 4) == b"ping"
        await client.aclose()


async def test_what_was_said_for_the_target_is_never_taken_for_a_request() -> None:
    async with scene(fails(1)) as it:
        client = it.client()
        await client.send(CONNECT + CONNECT)
        said = await rest(client)
        assert said.count(b"HTTP/1.1 502 ") == 1
        assert b"Connection: close\r\n" in said
        await client.aclose()
        assert len(it.transport.attempts) == 1


REFUSED = OSError(errno.ECONNREFUSED, "Connection refused")


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (fails(error=REFUSED), 5),
        (fails(error=OSError(errno.ENETUNREACH, "Network is unreachable")), 3),
        (fails(error=OSError(errno.EHOSTUNREACH, "No route to host")), 4),
        (fails(error=TimeoutError("slow")), 6),
        (fails(error=RuntimeError("a bug")), 1),
    ],
)
async def test_socks_replies_say_how_it_failed(
    script: Script, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with scene(script) as it:
        client = it.client()
        await client.send(SOCKS)
        assert (await rest(client))[2:4] == bytes([5, code])
        await client.aclose()


async def test_the_end_of_the_target_is_told_and_the_client_may_go_on() -> None:
    heard = bytearray()

    async def farewell(stream: MemoryStream) -> None:
        async with stream:
            await stream.send(b"bye")
            await stream.send_eof()
            async for data in stream:
                heard.extend(data)

    async with scene(serve=farewell) as it:
        client = await it.tunnel()
        assert await rest(client) == b"bye"
        await client.send(b"and you")
        await client.aclose()
        await anyio.sleep(0.001)
        assert heard == b"and you"
        assert it.proxy.status().tunnels == 0


async def test_a_target_that_breaks_breaks_its_client() -> None:
    async def breaks(stream: MemoryStream) -> None:
        await stream.send(b"half of the")
        await stream.receive()
        stream.abort()

    async with scene(serve=breaks) as it:
        client = await it.tunnel()
        assert await read(client, 11) == b"half of the"
        await client.send(b"go on")
        with pytest.raises(anyio.BrokenResourceError):
            await client.receive()
        await client.aclose()


async def test_a_client_that_breaks_breaks_its_target() -> None:
    async with scene(serve=None) as it:
        client = await it.tunnel()
        client.abort()
        peer = it.transport.attempts[0].peer
        assert peer is not None
        with pytest.raises(anyio.BrokenResourceError):
            await peer.receive()
        await peer.aclose()


async def test_a_stream_without_half_close_has_a_little_time_for_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def cannot(self: MemoryStream) -> None:
        raise NotImplementedError

    async def slowly(stream: MemoryStream) -> None:
        async with stream:
            await stream.receive()
            await anyio.sleep(NO_HALF_CLOSE_GRACE - 1)
            await stream.send(b"answer")
            await anyio.sleep_forever()

    async with scene(serve=slowly) as it:
        client = await it.tunnel()
        with monkeypatch.context() as patch:
            patch.setattr(type(it.transport.attempts[0].stream), "send_eof", cannot)
            await client.send(b"question")
            patch.undo()
            await client.send_eof()
            patch.setattr(type(it.transport.attempts[0].stream), "send_eof", cannot)
            assert await read(client, 6) == b"answer"
            with pytest.raises(anyio.BrokenResourceError):
                await client.receive()
            assert anyio.current_time() == NO_HALF_CLOSE_GRACE
        await client.aclose()


# --- bounds ---------------------------------------------------------------------------------


async def test_a_client_that_says_nothing_is_given_up() -> None:
    async with scene(handshake_timeout=30) as it:
        for said in (b"", b"\x05\x01\x00\x05", b"CONNECT news"):
            began = anyio.current_time()
            client = it.client()
            if said:
                await client.send(said)
            await rest(client)
            assert anyio.current_time() == began + 30
            await client.aclose()


async def test_a_tunnel_that_carries_nothing_is_cut_and_others_are_not() -> None:
    async with scene(serve=silent, idle_timeout=100) as it:
        quiet = await it.tunnel()
        busy = await it.tunnel()
        await anyio.sleep(60)
        await busy.send(b"still here")
        with pytest.raises(anyio.BrokenResourceError):
            await quiet.receive()
        assert anyio.current_time() == 100
        with pytest.raises(anyio.BrokenResourceError):
            await busy.receive()
        assert anyio.current_time() == 160
        await quiet.aclose()
        await busy.aclose()


async def test_a_slow_reader_slows_its_target_down() -> None:
    capacity = 1000
    sent = 0

    async def pours(stream: MemoryStream) -> None:
        nonlocal sent
        async with stream:
            for _ in range(10_000):
                await stream.send(b"x" * 1000)
                sent += 1000

    transport = ScriptedTransport("tunnel", wins(capacity=capacity), serve=pours)
    async with scene(transport=transport) as it:
        client = await it.tunnel(capacity=capacity)
        await anyio.sleep(1000)
        # In both streams, in the proxy's hand, and in the hand of who pours: never more.
        assert sent <= 3 * capacity + min(CHUNK, capacity)
        before = sent
        for _ in range(100):
            await read(client, 1000)
        await anyio.sleep(1)
        assert 90_000 <= sent - before <= 110_000
        client.abort()


async def test_a_slow_target_slows_its_client_down() -> None:
    transport = ScriptedTransport("tunnel", wins(capacity=1000), serve=None)
    async with scene(transport=transport) as it:
        client = await it.tunnel(capacity=1000)
        with anyio.move_on_after(1000) as scope:
            await client.send(b"x" * 10_000_000)
        assert scope.cancelled_caught
        assert it.proxy.status().sent <= 3000
        client.abort()
        peer = transport.attempts[0].peer
        assert peer is not None
        peer.abort()


async def test_what_a_client_sends_before_its_answer_is_bounded() -> None:
    async with scene(hangs()) as it:
        client = it.client(capacity=1000)
        await client.send(SOCKS)
        sent = 0
        with anyio.move_on_after(20):
            while True:
                await client.send(b"x" * 1000)
                sent += 1000
        assert MAX_EARLY <= sent <= MAX_EARLY + 2000
        client.abort()


async def test_one_client_too_many_is_refused_in_words_and_room_is_made_again() -> None:
    async with scene(max_connections=2) as it:
        first, second = await it.tunnel(), await it.tunnel()
        third, fourth = it.client(), it.client()
        await third.send(SOCKS)
        assert (await rest(third))[2:4] == b"\x05\x01"
        await third.aclose()
        await fourth.send(CONNECT)
        said = await fourth.receive()
        assert said.startswith(b"HTTP/1.1 503 ")
        assert b"as many connections as it may have" in said
        await fourth.aclose()
        assert len(it.transport.attempts) == 2
        await first.aclose()
        await anyio.sleep(0.001)
        fifth = await it.tunnel()
        await second.aclose()
        await fifth.aclose()


# --- itself ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "a.localhost.", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]"]
)
async def test_it_does_not_dial_itself(host: str) -> None:
    async with scene() as it:
        client = it.client()
        port = it.proxy.address[1]
        await client.send(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        said = await client.receive()
        assert said.startswith(b"HTTP/1.1 403 ")
        assert b"proxy_loop_detected" in said
        assert it.transport.attempts == []
        await client.aclose()
        assert len(it.failures) == 1


async def test_another_port_of_this_machine_is_a_target_like_any_other() -> None:
    async with scene() as it:
        client = it.client()
        await client.send(b"CONNECT 127.0.0.1:9 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await read(client, len(ESTABLISHED)) == ESTABLISHED
        await client.aclose()


async def test_a_name_that_leads_back_is_found_out_by_its_peer() -> None:
    port = 0
    script = wins().tells(lambda progress: progress.peer("127.0.0.1", port))
    async with scene(script, serve=silent) as it:
        port = it.proxy.address[1]
        client = it.client()
        await client.send(SOCKS)
        assert (await rest(client))[2:4] == b"\x05\x02"
        await client.aclose()
        assert it.requests() == {("socks5", "refused"): 1}
