"""The transport as a client uses it: bodies both ways, kept connections, ends of all kinds, and every cancellation."""

from __future__ import annotations

import gc
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import httpx2
import pytest

from racer import Dialer, set_default_dialer
from racer.errors import ConfigError, DialerClosed, InvalidTarget
from racer.http import Limits, RacerTransport, Via
from racer.testing import cancel_everywhere, run_virtual
from tests.racer.http.origin import MemoryWay, Origin
from tests.racer.http.web import URL, Web, answers
from tests.racer.http2.test_frames import goaway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.racer.http.origin import Talk

pytestmark = pytest.mark.virtual_time

PROTOCOLS = pytest.mark.parametrize("protocol", ["HTTP/1.1", "HTTP/2"])


async def echo(talk: Talk) -> None:
    await talk.respond(200, await talk.body(), content_type=talk.headers.get("content-type", "-"))


# --- what comes back ------------------------------------------------------------------------------


@PROTOCOLS
@pytest.mark.parametrize("library", [httpx, httpx2])
async def test_a_response_is_the_librarys_own_and_says_by_which_way_it_came(
    library: Any, protocol: str
) -> None:
    async def answer(talk: Talk) -> None:
        await talk.respond(201, b"made", x_kind="test", set_cookie="a=1")

    async with Web({"direct": answer}, library=library, protocol=protocol) as web:
        response = await web.get()
        assert type(response) is library.Response
        assert (response.status_code, response.text) == (201, "made")
        assert response.headers["x-kind"] == "test"
        assert response.http_version == protocol
        assert web.client.cookies["a"] == "1"
        via = response.extensions["racer"]
        assert isinstance(via, Via)
        assert (via.transport_name, via.reused) == ("direct", False)
        assert via.report["direct"].outcome == "connected"


@PROTOCOLS
async def test_nothing_is_added_to_a_request_unless_asked_for(protocol: str) -> None:
    async with Web({"direct": echo}, protocol=protocol) as web:
        await web.get(headers={"X-Mine": "1"})
        names = set(web.origins["direct"].seen[0].headers)
        assert names - {"connection"} == {
            "host",
            "accept",
            "accept-encoding",
            "user-agent",
            "x-mine",
        }
    async with Web({"direct": echo}, protocol=protocol, tag_requests="my app") as web:
        await web.get()
        headers = web.origins["direct"].seen[0].headers
        assert (headers["x-racer-app"], headers["x-racer-transport"]) == ("my app", "direct")


async def test_fields_of_the_connection_stay_out_of_http2() -> None:
    async with Web({"direct": echo}, protocol="HTTP/2") as web:
        headers = {"Connection": "close", "TE": "gzip", "Upgrade": "x", "Keep-Alive": "1"}
        response = await web.post(headers=headers, content=iterate(b"a", b"b"))
        assert response.content == b"ab"
        seen = web.origins["direct"].seen[0].headers
        assert not {"connection", "te", "upgrade", "keep-alive", "transfer-encoding"} & set(seen)


async def iterate(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        await anyio.sleep(0.5)
        yield chunk


# --- bodies (H12) ---------------------------------------------------------------------------------


@PROTOCOLS
async def test_bodies_large_and_small_get_through_both_ways(protocol: str) -> None:
    async with Web({"direct": echo}, protocol=protocol) as web:
        for size in (0, 1, 65_536, 65_537, 300_000):
            body = bytes(size)
            assert (await web.post(content=body)).content == body
        assert (await web.post(content=iterate(b"one", b"", b"two"))).content == b"onetwo"
        assert (await web.post(files={"f": b"file"})).headers["content-type"][:9] == "multipart"
        assert web.connects() == {"direct": 1}


@PROTOCOLS
async def test_a_download_comes_as_it_is_sent(protocol: str) -> None:
    async def tick(talk: Talk) -> None:
        await talk.begin(200, {"content-type": "text/event-stream"}, False)
        for n in range(3):
            await talk.send(b"data: %d\n\n" % n)
            await anyio.sleep(1.0)
        await talk.end()

    async with Web({"direct": tick}, protocol=protocol) as web:
        async with web.client.stream("GET", URL) as response:
            seen = [(anyio.current_time(), line) async for line in response.aiter_lines() if line]
        assert seen == [(0.0, "data: 0"), (1.0, "data: 1"), (2.0, "data: 2")]


@PROTOCOLS
async def test_an_upload_is_sent_as_it_comes(protocol: str) -> None:
    arrived: list[tuple[float, bytes]] = []

    async def listen(talk: Talk) -> None:
        async for chunk in talk.chunks():
            arrived.extend([(anyio.current_time(), chunk)] if chunk else [])
        await talk.respond(200)

    async with Web({"direct": listen}, protocol=protocol) as web:
        await web.post(content=iterate(b"1", b"2"))
        assert arrived == [(0.5, b"1"), (1.0, b"2")]


@PROTOCOLS
async def test_a_streamed_body_that_is_marked_is_kept_for_another_route_in_bounds(
    protocol: str,
) -> None:
    async def refuse(talk: Talk) -> None:
        await talk.body()
        await talk.respond(502)

    marked = {"racer": {"idempotent": True}}
    ways = {"a": refuse, "b": echo}
    async with Web(ways, protocol=protocol) as web:
        response = await web.post(content=iterate(b"once", b"more"), extensions=marked)
        assert response.content == b"oncemore"
    ways = {"a": refuse, "b": echo}
    async with Web(ways, protocol=protocol) as web:
        big = [bytes(600_000)] * 2
        response = await web.post(content=iterate(*big), extensions=marked)
        assert response.status_code == 502  # too long to be kept: sent once


@PROTOCOLS
async def test_an_error_of_the_callers_own_body_reaches_the_caller(protocol: str) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise KeyError

    async with Web({"a": echo, "b": echo}, protocol=protocol) as web:
        with pytest.raises(KeyError):
            await web.post(content=broken())
        assert (await web.get()).status_code == 200


async def test_a_body_that_is_not_as_long_as_it_says_is_the_callers_fault() -> None:
    async with Web({"a": echo, "b": echo}) as web:
        with pytest.raises(httpx.LocalProtocolError):
            await web.post(content=iterate(b"12345"), headers={"Content-Length": "3"})
        assert web.asked()["b"] == 0


@PROTOCOLS
async def test_a_body_is_read_long_after_its_race(protocol: str) -> None:
    """kindling's trap K2: the connect's own context ended, and the body with it."""

    async def slow(talk: Talk) -> None:
        await talk.begin(200, {}, False)
        for _ in range(5):
            await anyio.sleep(100.0)
            await talk.send(b"x")
        await talk.end()

    async with Web({"a": slow, "b": MemoryWay("b", None, delay=5.0)}, protocol=protocol) as web:
        async with web.client.stream("GET", URL) as response:
            assert web.dialer.status().races == 0
            assert b"".join([chunk async for chunk in response.aiter_raw()]) == b"xxxxx"
        assert anyio.current_time() == 500.0


@PROTOCOLS
async def test_a_body_that_is_cut_off_is_an_error_that_names_the_route(protocol: str) -> None:
    async def cut(talk: Talk) -> None:
        await talk.begin(200, {"content-length": "100"}, False)
        await talk.send(b"half")
        await anyio.sleep(1.0)
        await anyio.aclose_forcefully(talk.wire.stream)

    async with Web({"a": cut}, protocol=protocol) as web:
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)) as caught:
            await web.get()
        assert caught.value.__cause__ is not None
        async with web.client.stream("GET", URL) as response:
            chunks = response.aiter_raw()
            assert await anext(chunks) == b"half"
            with pytest.raises(httpx.TransportError):
                await anext(chunks)


# --- kept connections (H6) ------------------------------------------------------------------------


@PROTOCOLS
async def test_a_server_that_closes_idle_connections_costs_nobody_a_request(protocol: str) -> None:
    async with Web({"direct": echo}, protocol=protocol) as web:
        for _ in range(3):
            assert (await web.post(content=b"x")).content == b"x"
            await anyio.aclose_forcefully(web.origins["direct"].wires[-1].stream)
            await anyio.sleep(0.1)
            assert web.engine.pool.connections == 0  # heard at once, by whoever listens meanwhile
        assert web.connects() == {"direct": 3}


async def test_closing_right_under_a_request_costs_a_safe_one_nothing() -> None:
    """The server's end and the request pass each other on the wire."""
    closed = 0

    async def once(talk: Talk) -> None:
        nonlocal closed
        if talk.target == "/second" and talk.wire.http.our_state and talk.connection == 1:
            closed += 1
            await anyio.aclose_forcefully(talk.wire.stream)
            return
        await talk.respond(200)

    async with Web({"direct": once, "other": answers(200)}) as web:
        await web.get()
        response = await web.get(URL + "second")
        assert response.extensions["racer"].transport_name == "direct"
        assert (closed, web.connects()["direct"]) == (1, 2)
        with pytest.raises(httpx.TransportError):
            web.origins["direct"].answer = lambda talk: anyio.aclose_forcefully(talk.wire.stream)
            await web.post()


async def test_what_comes_unasked_on_an_idle_connection_is_its_end() -> None:
    async with Web({"direct": echo}) as web:
        await web.get()
        await web.origins["direct"].wires[0].stream.send(b"HTTP/1.1 200 OK\r\n\r\nsurprise")
        await anyio.sleep(0.1)
        assert (await web.get()).status_code == 200
        assert web.connects() == {"direct": 2}


async def test_what_comes_behind_a_response_is_not_the_next_one() -> None:
    async def two(talk: Talk) -> None:
        await talk.wire.stream.send(
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\nsmuggled"
        )
        await anyio.sleep_forever()

    async with Web({"direct": two}) as web:
        assert (await web.get()).text == "ok"
        assert web.engine.pool.connections == 0


@pytest.mark.parametrize("header", ["close", "Close"])
async def test_connection_close_is_obeyed(header: str) -> None:
    async def last(talk: Talk) -> None:
        await talk.respond(200, b"bye", connection=header)

    async with Web({"direct": last}) as web:
        assert (await web.get()).text == "bye"
        assert web.engine.pool.connections == 0


@PROTOCOLS
async def test_idle_connections_expire_by_themselves(protocol: str) -> None:
    limits = Limits(keepalive_expiry=30.0)
    async with Web({"direct": echo}, protocol=protocol, limits=limits) as web:
        await web.get()
        await anyio.sleep(29.0)
        assert web.engine.pool.idle == 1
        await anyio.sleep(2.1)
        assert web.engine.pool.connections == web.origins["direct"].open == 0
        await web.get()
        assert web.connects() == {"direct": 2}


async def test_goaway_between_two_requests_costs_none() -> None:
    async with Web({"direct": echo}, protocol="HTTP/2") as web:
        for n in range(3):
            assert (await web.post(content=b"x")).content == b"x"
            await web.origins["direct"].wires[-1].send_raw(goaway(1, 0))
            await anyio.sleep(0.1 * n)
        assert web.connects() == {"direct": 3}


async def test_a_post_that_the_server_did_not_act_on_is_sent_again() -> None:
    async def leaving(talk: Talk) -> None:
        if talk.connection == 1 and len(web.origins["direct"].seen) == 2:
            await talk.wire.send_raw(goaway(1, 0))
            await anyio.sleep_forever()
        await talk.respond(200, await talk.body())

    async with Web({"direct": leaving}, protocol="HTTP/2") as web:
        await web.get()
        assert (await web.post(content=b"once")).content == b"once"
        assert web.connects() == {"direct": 2}


async def test_many_requests_to_an_http2_origin_make_one_race_and_a_cancelled_leader_is_replaced() -> (
    None
):
    async def answer(talk: Talk) -> None:
        await anyio.sleep(1.0)
        await talk.respond(200)

    async def leader() -> None:
        with anyio.move_on_after(0.5):
            await web.get()

    slow = MemoryWay("direct", Origin(answer, prior_knowledge=True), delay=2.0)
    async with Web({"direct": slow}, protocol="HTTP/2") as web:
        async with anyio.create_task_group() as group:
            group.start_soon(leader)
            await anyio.sleep(0.1)
            for _ in range(30):
                group.start_soon(web.get)
            await anyio.sleep(0.1)
            assert web.connects() == {"direct": 1}
        assert web.connects() == {"direct": 2}
        assert anyio.current_time() == 3.5


async def test_a_pool_timeout_is_the_librarys() -> None:
    async def slow(talk: Talk) -> None:
        await anyio.sleep(10.0)
        await talk.respond(200)

    timeout = httpx.Timeout(None, pool=3.0)
    limits = httpx.Limits(max_connections=1)
    async with (
        Web({"direct": slow}, limits=limits, timeout=timeout) as web,
        anyio.create_task_group() as group,
    ):
        group.start_soon(web.get)
        await anyio.sleep(0.1)
        with pytest.raises(httpx.PoolTimeout):
            await web.get()
        assert anyio.current_time() == 3.1


# --- cancellation ---------------------------------------------------------------------------------


@PROTOCOLS
@pytest.mark.parametrize("kind", ["fallback", "upload", "stream"])
async def test_cancelled_anywhere_nothing_is_left(protocol: str, kind: str) -> None:
    async def answer(talk: Talk) -> None:
        await talk.body()
        if kind == "fallback" and talk.wire.origin is web.origins["a"]:
            await talk.respond(502, b"bad")
            return
        await talk.begin(200, {}, False)
        await talk.send(b"one")
        await anyio.sleep(0.1)
        await talk.send(b"two")
        await talk.end()

    ways = {"a": MemoryWay("a", Origin(answer, prior_knowledge=protocol == "HTTP/2"), delay=0.1)}
    if kind == "fallback":
        ways["b"] = MemoryWay("b", Origin(answer, prior_knowledge=protocol == "HTTP/2"), delay=0.2)
    limits = Limits(max_connections=2)
    # httpx itself leaves generators to the garbage collector when a reader stops half-way.
    async with Web(ways, protocol=protocol, limits=limits, library=httpx2) as web:

        async def story() -> None:
            if kind == "upload":
                assert (await web.post(content=bytes(100_000))).text == "onetwo"
            elif kind == "stream":
                async with (
                    web.client.stream("GET", URL) as response,
                    aclosing(response.aiter_raw()) as chunks,
                ):
                    assert await anext(chunks) == b"one"
            else:
                assert (await web.get()).text == "onetwo"

        async def verify() -> None:
            await web.assert_clean()

        await story()
        sweep = await cancel_everywhere(story, verify=verify, passes=1)
        assert sweep.cancelled >= 2


# --- dropped --------------------------------------------------------------------------------------


@PROTOCOLS
async def test_a_response_that_is_dropped_unread_is_closed_with_a_warning(protocol: str) -> None:
    async def endless(talk: Talk) -> None:
        await talk.begin(200, {}, False)
        while True:
            await talk.send(b"x" * 1000)

    async with Web({"direct": endless}, protocol=protocol) as web:
        request = web.client.build_request("GET", URL)
        response = await web.client.send(request, stream=True)
        with pytest.warns(ResourceWarning, match="without being read"):  # noqa: PT031 - both are it
            del response, request
            gc.collect()
        await anyio.sleep(0.1)
        assert web.engine.pool.in_use == 0


# --- the end --------------------------------------------------------------------------------------


@PROTOCOLS
async def test_after_its_end_it_serves_nobody_and_lets_readers_finish(protocol: str) -> None:
    async def slow(talk: Talk) -> None:
        await talk.begin(200, {}, False)
        await anyio.sleep(5.0)
        await talk.send(b"done")
        await talk.end()

    async with Web({"direct": slow}, protocol=protocol) as web:
        async with web.client.stream("GET", URL) as response:
            await web.transport.aclose()
            await web.transport.aclose()
            assert await response.aread() == b"done"
        with pytest.raises(DialerClosed, match="this transport is closed"):
            await web.get()
        await anyio.sleep(2.0)
        assert web.origins["direct"].open == 0


async def test_the_dialers_end_under_a_request_is_told() -> None:
    async def ask() -> None:
        with pytest.raises(DialerClosed):
            await web.get()

    async with (
        Web({"direct": MemoryWay("direct", Origin(), delay=99.0)}) as web,
        anyio.create_task_group() as group,
    ):
        group.start_soon(ask)
        await anyio.sleep(1.0)
        await web.dialer.aclose()


async def test_it_may_be_made_and_closed_without_a_loop_or_a_request() -> None:
    transport = RacerTransport(Dialer([MemoryWay("a", None)]))
    await transport.aclose()
    assert "0 connections" in repr(transport)


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"dialer": "direct"}, "racer.Dialer or None"),
        ({"http1": False, "http2": False}, "leave no protocol"),
        ({"limits": 5}, "limits must be"),
        ({"retry_statuses": 500}, "retry_statuses"),
        ({"tag_requests": "a\r\nb: c"}, "tag_requests"),
        ({"tag_requests": ""}, "tag_requests"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        RacerTransport(**options)


@pytest.mark.parametrize(
    "extension", [True, {"idempotent": "yes"}, {"idempotnt": True}, ["idempotent"]]
)
async def test_a_wrong_extension_is_named(extension: Any) -> None:
    async with Web({"direct": echo}) as web:
        with pytest.raises(ConfigError, match="extensions"):
            await web.get(extensions={"racer": extension})


async def test_what_cannot_be_asked_for_is_the_librarys_error() -> None:
    async with Web({"direct": echo}) as web:
        with pytest.raises(httpx.UnsupportedProtocol, match="ftp"):
            await web.get("ftp://origin.example/")
        with pytest.raises(httpx.ConnectError) as caught:
            await web.get("http://no_such_name/")
        assert isinstance(caught.value.__cause__, InvalidTarget)
        with pytest.raises(ConfigError, match="httpx"):
            await web.transport.handle_async_request("GET")  # type: ignore[call-overload]


async def test_a_subclass_of_the_users_own_is_known() -> None:
    class Mine(httpx2.Request):
        pass

    async with Web({"direct": echo}, library=httpx2) as web:
        response = await web.client.send(Mine("POST", URL, content=b"x"))
        assert type(response) is httpx2.Response


# --- several loops --------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_one_client_serves_loops_in_turn_by_the_default_dialer_of_each(backend: Any) -> None:
    transport = RacerTransport()

    async def visit() -> int:
        async with Origin(answers(200)) as origin:
            way = MemoryWay("direct", origin)
            async with Dialer([way]) as dialer:
                set_default_dialer(dialer)
                for _ in range(2):
                    request = httpx.Request("GET", URL)
                    response = await transport.handle_async_request(request)
                    await response.aread()
                    await response.aclose()
            return way.connects

    assert [run_virtual(visit, backend=backend) for _ in range(3)] == [1, 1, 1]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_dialer_that_was_given_belongs_to_its_loop_also_where_a_connection_is_kept(
    backend: Any,
) -> None:
    dialer = Dialer([MemoryWay("direct", None)])
    transport = RacerTransport(dialer)

    async def visit(expected: type[Exception]) -> None:
        with pytest.raises(expected):
            await transport.handle_async_request(httpx.Request("GET", URL))

    run_virtual(partial(visit, httpx.ConnectError), backend=backend)
    run_virtual(partial(visit, ConfigError), backend=backend)


async def test_a_bug_in_a_guests_stream_is_its_failure() -> None:
    class Buggy(MemoryWay):
        async def connect(self, target: Any, progress: Any) -> Any:
            stream = await super().connect(target, progress)

            async def receive(max_bytes: int = 65536) -> bytes:
                await anyio.lowlevel.checkpoint()
                raise ZeroDivisionError

            stream.receive = receive  # type: ignore[method-assign]
            return stream

    for protocol in ("HTTP/1.1", "HTTP/2"):
        h2 = protocol == "HTTP/2"
        ways = {
            "buggy": Buggy("buggy", Origin(answers(200), prior_knowledge=h2)),
            "b": answers(200),
        }
        async with Web(ways, delays={"b": 1.0}, protocol=protocol) as web:
            assert (await web.get()).extensions["racer"].transport_name == "b"
            with pytest.raises(httpx.ReadError, match="buggy"):
                web.engine.memory._origins.clear()
                web.engine.pool.expire(1e9)
                await web.post(content=b"x")


@PROTOCOLS
@pytest.mark.parametrize("expiry", [60.0, None])
async def test_the_dialers_end_closes_what_was_kept_even_if_nobody_closed_the_transport(
    protocol: str, expiry: float | None
) -> None:
    async with Origin(answers(200), prior_knowledge=protocol == "HTTP/2") as origin:
        way = MemoryWay("direct", origin)
        h2 = protocol == "HTTP/2"
        async with Dialer([way]) as dialer:
            limits = Limits(keepalive_expiry=expiry)
            transport = RacerTransport(dialer, http1=not h2, http2=h2, limits=limits)
            response = await transport.handle_async_request(httpx.Request("GET", URL))
            assert await response.aread() == b""
            assert transport._engine.pool.idle == 1
        assert transport._engine.pool.connections == 0
        await anyio.sleep(0.1)  # for the far end to hear of it
        assert way.ledger.open_streams == ()
