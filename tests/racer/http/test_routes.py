"""Transports that take requests race too (H5, H11): a scripted one beside streams."""

from __future__ import annotations

from typing import Any

import anyio
import httpx
import httpx2
import pytest

from racer import Entrant
from racer.abc import Traits
from racer.errors import LocalProtocolError, TransportBusy
from racer.http._messages import Origin as HTTPOrigin
from racer.http._messages import Request, Timeouts
from racer.http._suitable import accepts_events, reason_against, size_of
from racer.http2._upload import Upload
from racer.testing import ScriptedRequestTransport, fails, wins
from tests.racer.http.origin import MemoryWay, Origin
from tests.racer.http.web import URL, Web, answers

pytestmark = pytest.mark.virtual_time


def amp(answer: Any = None, *, script: Any = None, **traits: Any) -> ScriptedRequestTransport:
    async def default(request: Any) -> Any:
        return type(request).__module__ and httpx.Response(200, content=b"by amp")

    return ScriptedRequestTransport(
        "amp", script or wins(), answer=answer or default, traits=Traits(**traits)
    )


@pytest.mark.parametrize("library", [httpx, httpx2])
@pytest.mark.parametrize("given", [httpx, httpx2])
async def test_a_route_is_given_the_clients_request_and_may_answer_in_either_library(
    library: Any, given: Any
) -> None:
    seen: list[Any] = []

    async def answer(request: Any) -> Any:
        seen.append(request)
        return given.Response(201, headers={"x-way": "amp"}, content=await request.aread())

    async with Web(entrants=[amp(answer)], library=library) as web:
        response = await web.post(content=b"body", headers={"x-mine": "1"})
        assert type(response) is library.Response
        assert (response.status_code, response.content) == (201, b"body")
        assert response.headers["x-way"] == "amp"
        assert response.extensions["racer"].transport_name == "amp"
        assert type(seen[0]) is library.Request
        assert (str(seen[0].url), seen[0].headers["x-mine"]) == (URL, "1")


async def test_streams_and_routes_race_by_the_same_rules() -> None:
    async with Origin(answers(200, b"by stream")) as origin:
        stream = Entrant(MemoryWay("stream", origin), start_delay=1.0)
        guest = amp(script=wins(5.0))
        async with Web(entrants=[guest, stream]) as web:
            assert (await web.get()).content == b"by stream"
            assert anyio.current_time() == 1.0
    assert not guest.ledger.open_streams


async def test_a_route_that_fails_or_says_5xx_is_followed_by_another() -> None:
    for answer in (_bad_gateway, _breaks, _nonsense):
        async with Origin(answers(200, b"by stream")) as origin:
            guest = amp(answer)
            async with Web(entrants=[guest, later(origin)]) as web:
                assert (await web.get()).content == b"by stream"
                assert len(guest.attempts) == 1
                await web.settle()
            assert not guest.ledger.open_streams


def later(origin: Origin) -> Entrant:
    return Entrant(MemoryWay("stream", origin), start_delay=1.0)


async def _bad_gateway(request: Any) -> Any:
    return httpx.Response(502)


async def _breaks(request: Any) -> Any:
    msg = "no such cache"
    raise httpx.ReadError(msg)


async def _nonsense(request: Any) -> Any:
    return "200 OK"


async def test_a_post_by_a_route_is_sent_once_and_its_error_names_it() -> None:
    async with (
        Origin(answers(200)) as origin,
        Web(entrants=[amp(_breaks), later(origin)]) as web,
    ):
        with pytest.raises(httpx.ReadError, match=r"amp: .*no such cache"):
            await web.post(content=b"x")
        assert origin.seen == []


async def test_a_request_that_a_route_cannot_carry_goes_on_whatever_it_is() -> None:
    for error in (LocalProtocolError("too long for a URL"), TransportBusy("two at a time")):

        async def answer(request: Any, error: Exception = error) -> Any:
            raise error

        async with Origin(answers(200)) as origin:
            guest = amp(answer)
            async with Web(entrants=[guest, later(origin)]) as web:
                assert (await web.post(content=b"x")).status_code == 200
                assert guest.attempts


async def test_a_route_that_cannot_be_prepared_falls_back_for_every_method() -> None:
    async with Origin(answers(200)) as origin:
        guest = amp(script=fails(0.5))
        async with Web(entrants=[guest, MemoryWay("stream", origin, delay=1.0)]) as web:
            assert (await web.post(content=b"x")).status_code == 200


async def test_a_silent_route_is_left_after_the_same_patience() -> None:
    async def silent(request: Any) -> Any:
        await anyio.sleep_forever()

    async with (
        Origin(answers(200)) as origin,
        Web(entrants=[amp(silent), later(origin)]) as web,
    ):
        assert (await web.get()).status_code == 200
        assert anyio.current_time() == 15.0


async def test_a_route_is_kept_and_used_again() -> None:
    guest = amp()
    async with Web(entrants=[guest]) as web:
        for _ in range(3):
            assert (await web.get()).content == b"by amp"
        assert len(guest.attempts) == 1
        await web.settle()
    assert not guest.ledger.open_streams


async def test_what_a_route_streams_is_streamed_and_closed() -> None:
    closed = 0

    class Ticks(httpx.AsyncByteStream):
        async def __aiter__(self) -> Any:
            for n in range(3):
                await anyio.sleep(1.0)
                yield b"%d" % n

        async def aclose(self) -> None:
            nonlocal closed
            closed += 1

    async def answer(request: Any) -> Any:
        return httpx.Response(200, stream=Ticks())

    async with Web(entrants=[amp(answer)]) as web:
        async with web.client.stream("GET", URL) as response:
            seen = [(anyio.current_time(), chunk) async for chunk in response.aiter_raw()]
        assert seen == [(1.0, b"0"), (2.0, b"1"), (3.0, b"2")]
        await web.settle()
        assert closed == 1


# --- what fits (H5) -------------------------------------------------------------------------------


async def test_a_request_too_large_for_a_route_does_not_ask_it() -> None:
    async with Origin(answers(200)) as origin:
        guest = amp(max_request_bytes=1000)
        ways: list[Any] = [guest, Entrant(MemoryWay("stream", origin), start_delay=2.0)]
        async with Web(entrants=ways) as web:
            assert (await web.post(content=bytes(500))).content == b"by amp"
            response = await web.post(content=bytes(1000))
            attempt = response.extensions["racer"].report["amp"]
            assert (attempt.outcome, attempt.started_at) == ("ineligible", None)
            assert "it takes at most 1000" in attempt.reason
            # Headers ride along: they count.
            assert (await web.get(headers={"x": "y" * 900})).content == b""
            assert len(origin.seen) == 2


async def test_when_nobody_can_take_a_request_the_error_says_why_and_nothing_is_dialed() -> None:
    guest = amp(max_request_bytes=100)
    async with Web(entrants=[guest]) as web:
        with pytest.raises(httpx.ConnectError, match=r"amp: a request of .* takes at most 100"):
            await web.post(content=bytes(200))
        with pytest.raises(httpx.ConnectError, match="unknown length"):
            await web.post(content=_chunks())
        assert guest.attempts == []


async def _chunks() -> Any:
    if False:
        yield b""


async def test_an_event_stream_asks_only_who_can_stream() -> None:
    async with Origin(answers(200, b"streamed")) as origin:
        ways: list[Any] = [
            amp(streaming=False),
            Entrant(MemoryWay("stream", origin), start_delay=2.0),
        ]
        async with Web(entrants=ways) as web:
            accept = {"Accept": "text/event-stream"}
            assert (await web.get(headers=accept)).content == b"streamed"
            web.engine.pool.expire(1e9)
            assert (await web.get()).content == b"by amp"
        async with Web(entrants=[amp(streaming=True)]) as web:
            assert (await web.get(headers=accept)).content == b"by amp"


@pytest.mark.parametrize(
    ("accept", "asks"),
    [
        (b"", False),
        (b"*/*", False),
        (b"text/*", False),
        (b"text/html, application/json", False),
        (b"text/event-stream", True),
        (b"Text/Event-Stream", True),
        (b"text/event-stream, */*;q=0.1", True),
        (b"application/json;q=0.5 , text/event-stream;q=0.9", True),
        (b"text/event-stream;charset=utf-8", True),
        (b"text/event-stream;q=0", False),
        (b"text/event-stream; q=0.000, */*", False),
        (b"text/event-streams", False),
        (b"\xff\xfe;;,,;=", False),
    ],
)
def test_accept_is_parsed_and_not_compared(accept: bytes, asks: bool) -> None:
    assert accepts_events(accept) == asks


def request_of(body: int | None, **headers: str) -> Request:
    upload = Upload(bytes(body)) if body is not None else Upload(source=_chunks())
    return Request(
        method=b"POST",
        origin=HTTPOrigin("https", "example.com", 443),
        target=b"/path",
        headers=[(k.encode(), v.encode()) for k, v in headers.items()],
        upload=upload,
        idempotent=False,
        timeouts=Timeouts(),
    )


def test_a_requests_size_is_what_http1_would_write() -> None:
    written = b"POST /path HTTP/1.1\r\nhost: example.com\r\n\r\n"
    assert size_of(request_of(7, host="example.com")) == len(written) + 7
    assert size_of(request_of(None)) is None


def test_exactly_as_much_as_allowed_is_allowed() -> None:
    request = request_of(100)
    size = size_of(request)
    assert size is not None
    assert reason_against(amp(max_request_bytes=size), request, b"") is None
    assert reason_against(amp(max_request_bytes=size - 1), request, b"") is not None
    assert reason_against(MemoryWay("stream", None), request_of(None), b"") is None
