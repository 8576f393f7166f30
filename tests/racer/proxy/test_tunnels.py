from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import anyio
import pytest

from racer import Dialer
from racer.errors import ErrorType, NetworkError
from racer.proxy import Proxy
from racer.proxy._call import MAX_EARLY
from racer.proxy._splice import CHUNK, NO_HALF_CLOSE_GRACE
from racer.testing import (
    MemoryStream,
    RecordedEnd,
    ScriptedTransport,
    cancel_everywhere,
    fails,
    hangs,
    stream_pair,
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


# --- stopping -------------------------------------------------------------------------------


async def test_draining_waits_for_tunnels_and_races_and_nobody_else() -> None:
    async with scene(wins(4)) as it:
        idle = it.client()
        racing = it.client()
        await racing.send(SOCKS)
        await anyio.sleep(1)
        async with anyio.create_task_group() as group:

            async def leave() -> None:
                assert await read(racing, len(ACCEPTED)) == ACCEPTED
                await anyio.sleep(6)
                await racing.aclose()

            group.start_soon(leave)
            assert await it.proxy.drain(30) == 0
            assert anyio.current_time() == 10
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await idle.receive()
        await idle.aclose()
        assert not it.proxy.status().is_accepting
        assert not it.proxy.status().is_ready


async def test_draining_ends_with_its_grace_and_says_how_many_are_left() -> None:
    async with scene() as it:
        clients = [await it.tunnel() for _ in range(3)]
        assert await it.proxy.drain(5) == 3
        assert anyio.current_time() == 5
        await clients[0].send(b"still carried")
        assert await read(clients[0], 13) == b"still carried"
        for client in clients:
            await client.aclose()


async def test_leaving_cuts_everything_at_once() -> None:
    transport = ScriptedTransport("tunnel", wins(), serve=silent)
    async with Dialer([transport]) as dialer:
        async with Proxy(dialer, port=0) as proxy, anyio.create_task_group() as group:
            near, far = stream_pair()
            group.start_soon(proxy.serve_stream, far)
            await near.send(SOCKS)
            assert await read(near, len(ACCEPTED)) == ACCEPTED
            group.cancel_scope.cancel()
        with pytest.raises(anyio.BrokenResourceError):
            await near.receive()
        await near.aclose()
    assert transport.ledger.open_streams == ()


@pytest.mark.parametrize(
    "script", [wins(0.1), pytest.param(fails(0.1), marks=pytest.mark.soak)], ids=["wins", "fails"]
)
async def test_a_cancellation_at_any_point_leaves_nothing_open(script: Script) -> None:
    async def story() -> None:
        transport = ScriptedTransport("tunnel", script, serve=echo)
        near, far = stream_pair(ledger=transport.ledger)
        dialer = Dialer([transport])
        is_served = False

        async def serve(proxy: Proxy) -> None:
            nonlocal is_served
            is_served = True
            await proxy.serve_stream(far)

        try:
            async with Proxy(dialer, port=0) as proxy, anyio.create_task_group() as group:
                group.start_soon(serve, proxy)
                await near.send(SOCKS + b"early")
                await near.send_eof()
                await rest(near)
        finally:
            near.abort()
            if not is_served:
                far.abort()
            await dialer.aclose()
            transport.ledger.assert_all_closed()

    await cancel_everywhere(story)


async def test_what_goes_wrong_in_telling_of_failures_hurts_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def stumbles(failure: object) -> None:
        raise RuntimeError("no log left")

    async with scene(fails(), on_failure=stumbles) as it:
        client = it.client()
        await client.send(SOCKS)
        assert (await rest(client))[2:4] == b"\x05\x05"
        await client.aclose()
    assert "on_failure failed" in caplog.text
