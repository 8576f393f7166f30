"""The HTTP/2 driver over streams in memory: cancellation, stalls, ends, and what a hostile peer may try."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import anyio
import h2.errors
import h2.settings
import pytest

from racer.http2 import Fault, HTTP2Connection, Upload, _connection
from racer.testing import LocalHost, StreamLedger, cancel_everywhere, stream_pair
from tests.racer.http.origin import Origin, Talk
from tests.racer.http2.test_frames import frame, goaway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

pytestmark = pytest.mark.virtual_time

CODES = h2.settings.SettingCodes


def fields(method: str = "GET", path: str = "/") -> list[tuple[bytes, bytes]]:
    return [
        (b":method", method.encode()),
        (b":authority", b"example.com"),
        (b":scheme", b"http"),
        (b":path", path.encode()),
    ]


class Stage:
    """A connection to an origin, and the books of its streams."""

    def __init__(
        self,
        answer: Callable[[Talk], Awaitable[None]] | None = None,
        *,
        settings: dict[Any, int] | None = None,
        **stream: Any,
    ) -> None:
        self.origin = Origin(answer, prior_knowledge=True, settings=settings)
        self.host = LocalHost()
        self.ledger = StreamLedger()
        self.changes = 0
        self._stream = stream

    def changed(self) -> None:
        self.changes += 1

    async def __aenter__(self) -> Self:
        await self.origin.__aenter__()
        await self.host.__aenter__()
        self.http = HTTP2Connection(
            self.origin.connect(ledger=self.ledger, **self._stream),
            self.host,
            on_change=self.changed,
        )
        self.http.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.http.abort()
        await self.host.__aexit__(None, None, None)
        await self.origin.__aexit__(None, None, None)
        self.ledger.assert_all_closed()

    async def get(self, path: str = "/", **options: Any) -> bytes:
        head, body = await self.http.request(fields(path=path), Upload(), **options)
        assert dict(head)[b":status"] == b"200"
        return b"".join([chunk async for chunk in chunks(body)])

    async def post(self, upload: Upload, **options: Any) -> bytes:
        _, body = await self.http.request(fields("POST"), upload, **options)
        return b"".join([chunk async for chunk in chunks(body)])


async def chunks(body: Any) -> AsyncIterator[bytes]:
    while chunk := await body.receive():
        yield chunk


async def echo(talk: Talk) -> None:
    await talk.respond(200, await talk.body())


# --- what it is for -------------------------------------------------------------------------------


async def test_many_requests_share_it() -> None:
    async def answer(talk: Talk) -> None:
        await anyio.sleep(1.0)
        await talk.respond(200, talk.target.encode())

    async with Stage(answer) as stage:
        got: list[bytes] = []

        async def ask(n: int) -> None:
            got.append(await stage.get(f"/{n}"))

        async with anyio.create_task_group() as group:
            for n in range(50):
                group.start_soon(ask, n)
        assert sorted(got) == sorted(b"/%d" % n for n in range(50))
        assert anyio.current_time() == 1.0
        assert stage.http.requests == 0


async def test_bodies_larger_than_every_window_and_buffer_get_through_both_ways() -> None:
    body = bytes(range(256)) * 5_000  # more than a megabyte
    async with Stage(echo, capacity=1000) as stage:
        assert await stage.post(Upload(body)) == body


async def test_a_body_that_comes_bit_by_bit() -> None:
    async def source() -> AsyncIterator[bytes]:
        for n in range(5):
            await anyio.sleep(1.0)
            yield b"%d" % n

    async with Stage(echo) as stage:
        assert await stage.post(Upload(source=source()), write=0.5) == b"01234"


async def test_a_response_that_comes_bit_by_bit_is_seen_bit_by_bit() -> None:
    async def tick(talk: Talk) -> None:
        await talk.begin(200, {}, False)
        for n in range(3):
            await talk.send(b"%d" % n)
            await anyio.sleep(1.0)
        await talk.end()

    async with Stage(tick) as stage:
        _, body = await stage.http.request(fields(), Upload())
        seen = [(anyio.current_time(), chunk) async for chunk in chunks(body)]
        assert seen == [(0.0, b"0"), (1.0, b"1"), (2.0, b"2")]


# --- cancellation ---------------------------------------------------------------------------------


async def test_cancelled_at_every_point_it_leaves_the_connection_whole() -> None:
    async def answer(talk: Talk) -> None:
        await talk.body()
        await talk.begin(200, {}, False)
        await talk.send(b"one")
        await anyio.sleep(0.1)
        await talk.send(b"two")
        await talk.end()

    async with Stage(answer) as stage:

        async def story() -> None:
            assert await stage.post(Upload(b"x" * 70_000)) == b"onetwo"

        async def verify() -> None:
            assert stage.http.requests == 0
            assert stage.http.capacity == 100
            await story()
            assert stage.origin.connections == 1

        sweep = await cancel_everywhere(story, verify=verify, passes=2)
        assert sweep.cancelled > 5


async def test_a_cancelled_request_is_reset_and_costs_the_others_nothing() -> None:
    async def answer(talk: Talk) -> None:
        await anyio.sleep(5.0)
        await talk.respond(200, b"late")

    settings = {CODES.MAX_CONCURRENT_STREAMS: 3}
    async with Stage(answer, settings=settings) as stage:
        async with anyio.create_task_group() as group:
            group.start_soon(stage.get)
            await anyio.sleep(0.1)
            for _ in range(300):  # far more than the peer takes at once
                with anyio.move_on_after(0.01):
                    await stage.get()
        await anyio.sleep(0.1)
        assert stage.origin.cancelled == 300
        assert stage.origin.connections == 1


async def test_a_response_closed_half_way_is_reset() -> None:
    async def endless(talk: Talk) -> None:
        await talk.begin(200, {}, False)
        while True:
            await talk.send(b"x" * 10_000)

    async with Stage(endless) as stage:
        for _ in range(3):
            _, body = await stage.http.request(fields(), Upload())
            assert await body.receive()
            body.close()
            body.close()
            assert await body.receive() == b""
        await anyio.sleep(0.1)
        assert stage.origin.cancelled == 3


# --- time -----------------------------------------------------------------------------------------


async def test_a_peer_that_opens_no_window_stalls_the_upload_no_longer_than_allowed() -> None:
    async def wait(talk: Talk) -> None:
        talk.wire.withhold_windows = True
        await talk.body()

    async with Stage(wait) as stage:
        with pytest.raises(Fault) as caught:
            await stage.post(Upload(b"x" * 1_000_000), write=3.0)
        assert (caught.value.kind, anyio.current_time()) == ("WriteTimeout", 3.0)
        assert caught.value.sent


async def test_read_timeouts_count_from_the_last_byte_and_patience_from_the_request() -> None:
    async def slow(talk: Talk) -> None:
        await anyio.sleep(2.0)
        await talk.begin(200, {}, False)
        await anyio.sleep(2.0)
        await talk.send(b"x")
        await anyio.sleep(4.0)

    async with Stage(slow) as stage:
        with pytest.raises(Fault, match="no response in time"):
            await stage.get(patience=1.0)
        assert anyio.current_time() == 1.0
        _, body = await stage.http.request(fields(), Upload(), read=3.0)
        assert await body.receive() == b"x"
        with pytest.raises(Fault, match="no more of the response"):
            await body.receive()
        assert anyio.current_time() == 1.0 + 2.0 + 2.0 + 3.0


async def test_a_connection_that_says_nothing_at_all_takes_no_more_requests() -> None:
    async def once(talk: Talk) -> None:
        if len(stage.origin.seen) > 1:
            await anyio.sleep_forever()
        await talk.respond(200)

    async with Stage(once) as stage:
        await stage.get()
        with pytest.raises(Fault):
            await stage.get(read=5.0)
        assert stage.http.capacity == 0
        await anyio.sleep(2.0)
        assert not stage.http.is_open


async def test_one_slow_answer_is_no_silence() -> None:
    async def answer(talk: Talk) -> None:
        await anyio.sleep(10.0 if talk.target == "/slow" else 0.0)
        await talk.respond(200)

    async with Stage(answer) as stage:
        async with anyio.create_task_group() as group:

            async def slow() -> None:
                with pytest.raises(Fault):
                    await stage.get("/slow", read=5.0)

            group.start_soon(slow)
            await anyio.sleep(1.0)
            await stage.get()
        assert stage.http.capacity == 100


# --- how it ends ----------------------------------------------------------------------------------


async def test_goaway_lets_what_was_accepted_end_and_then_closes() -> None:
    async def answer(talk: Talk) -> None:
        if len(stage.origin.seen) == 1:
            await anyio.sleep(1.0)
            await talk.wire.send_raw(goaway(1, 0))
        await anyio.sleep(1.0)
        await talk.respond(200, b"kept")

    async with Stage(answer) as stage:
        got: list[bytes] = []
        refused: list[Fault] = []

        async def first() -> None:
            got.append(await stage.get())

        async def second() -> None:
            await anyio.sleep(0.5)
            try:
                await stage.get(read=9.0)
            except Fault as fault:
                refused.append(fault)

        async with anyio.create_task_group() as group:
            group.start_soon(first)
            group.start_soon(second)
        assert got == [b"kept"]
        assert [(fault.unprocessed, fault.sent) for fault in refused] == [(True, False)]
        assert stage.http.capacity == 0
        await anyio.sleep(1.1)
        assert stage.origin.open == 0


async def test_a_connection_that_breaks_fails_its_requests_and_says_what_may_have_happened() -> (
    None
):
    async def cut(talk: Talk) -> None:
        await anyio.aclose_forcefully(talk.wire.stream)

    async with Stage(cut) as stage:
        with pytest.raises(Fault) as caught:
            await stage.get()
        assert (caught.value.kind, caught.value.sent, caught.value.silent) == (
            "ReadError",
            True,
            True,
        )
        with pytest.raises(Fault) as caught:
            await stage.get()
        assert caught.value.unprocessed
        assert stage.changes >= 1


async def test_the_end_of_the_host_ends_it() -> None:
    faults: list[Fault] = []
    ledger = StreamLedger()

    async def ask(http: HTTP2Connection) -> None:
        try:
            await http.request(fields(), Upload())
        except Fault as fault:
            faults.append(fault)

    async def silent(talk: Talk) -> None:
        await anyio.sleep_forever()

    async with (
        Origin(silent, prior_knowledge=True) as origin,
        anyio.create_task_group() as group,
        LocalHost() as host,
    ):
        http = HTTP2Connection(origin.connect(ledger=ledger), host)
        http.start()
        group.start_soon(ask, http)
        await anyio.sleep(2.0)
    assert [str(fault) for fault in faults] == ["the event loop or the dialer ended"]
    ledger.assert_all_closed()


async def test_it_does_not_wait_long_for_a_peer_that_takes_nothing() -> None:
    near, far = stream_pair(capacity=10)
    async with LocalHost() as host, far:
        http = HTTP2Connection(near, host)
        http.start()
        await anyio.sleep(5.0)
        http.abort()
        http.abort()
        await anyio.sleep(0.9)
        assert not near.closed
        await anyio.sleep(0.2)
        assert near.closed


# --- what a hostile peer may try ------------------------------------------------------------------


async def test_a_flood_of_pings_that_nobody_takes_the_answers_of_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_connection, "_MAX_OWED", 50_000)
    near, far = stream_pair(capacity=1000)
    async with LocalHost() as host, far:
        http = HTTP2Connection(near, host)
        http.start()
        await far.send(frame(4))
        with pytest.raises(anyio.BrokenResourceError):
            for _ in range(100):
                await far.send(frame(6, b"ping!!!!") * 100)
        assert not http.is_open
        assert near.closed


@pytest.mark.parametrize("code", [7, 2])
async def test_a_reset_says_whether_another_try_is_safe(code: int) -> None:
    async def refuse(talk: Talk) -> None:
        talk.wire.http.reset_stream(1, code)
        await talk.wire.flush()

    async with Stage(refuse) as stage:
        with pytest.raises(Fault, match=h2.errors.ErrorCodes(code).name) as caught:
            await stage.get()
        assert caught.value.unprocessed == (code == 7)


async def test_a_peer_that_speaks_something_else_is_found_out_at_once() -> None:
    async def nonsense(talk: Talk) -> None:
        await talk.wire.send_raw(b"HTTP/1.1 505 HTTP Version Not Supported\r\n\r\n")

    async with Stage(nonsense) as stage:
        with pytest.raises(Fault, match="broke the rules"):
            await stage.get()
        assert anyio.current_time() == 0.0


async def test_an_answer_before_the_bodys_end_stops_the_upload() -> None:
    sent = 0

    async def source() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1
            yield b"x" * 10_000
            await anyio.sleep(1.0)

    async def refuse(talk: Talk) -> None:
        await anyio.sleep(2.5)
        await talk.respond(413, b"too much")

    async with Stage(refuse) as stage:
        upload = Upload(source=source())
        head, body = await stage.http.request(fields("POST"), upload)
        await upload.aclose()
        assert dict(head)[b":status"] == b"413"
        assert await body.receive() == b"too much"
        assert sent == 4
        body.close()
        assert stage.http.requests == 0
