"""DNS over HTTPS in both versions of HTTP, with clients that the lab has not written, and some that misbehave."""

from __future__ import annotations

import base64
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import dns.message
import h2.config
import h2.connection
import h2.events
import httpx
import pytest
from anyio.streams.tls import TLSStream
from hypothesis import given
from hypothesis import strategies as st

from racer import lab
from racer.lab._http import Request, Response
from racer.lab._http1 import serve as serve_http1
from racer.lab._http2 import serve as serve_http2
from racer.testing import MemoryStream, run_virtual, stream_pair

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.abc import ByteStream

HOSTS = {
    "news.example": ["192.0.2.7"],
    "many.example": [f"10.0.{n >> 8}.{n & 255}" for n in range(2100)],
}
DNS = "192.0.2.53"
TYPE = {"content-type": "application/dns-message"}
AUTHORITY = lab.Authority()
QUESTION = dns.message.make_query("news.example", "A", id=0).to_wire()
IN_URL = base64.urlsafe_b64encode(QUESTION).rstrip(b"=").decode()


def said(octets: bytes) -> list[str]:
    return [r.to_text() for rrset in dns.message.from_wire(octets).answer for r in rrset]


@pytest.mark.every_loop
class TestSockets:
    @pytest.fixture(params=[False, True], ids=["HTTP/1.1", "HTTP/2"])
    def http2(self, request: pytest.FixtureRequest) -> bool:
        return bool(request.param)

    @asynccontextmanager
    async def serving(
        self, zone: lab.Zone, *, http2: bool, **options: Any
    ) -> AsyncIterator[tuple[lab.DoHServer, httpx.AsyncClient]]:
        alpn = ("h2", "http/1.1") if http2 else ("http/1.1",)
        context = await AUTHORITY.make_server_context("127.0.0.1", alpn=alpn)
        async with (
            lab.DoHServer(zone, context=context, **options) as server,
            httpx.AsyncClient(
                verify=AUTHORITY.client_context(), http2=True, trust_env=False
            ) as client,
        ):
            yield server, client

    async def test_get_and_post_are_answered(self, http2: bool) -> None:
        zone = lab.Zone(HOSTS, ttl=77)
        async with self.serving(zone, http2=http2) as (server, client):
            assert server.url.startswith("https://127.0.0.1:")
            for response in (
                await client.post(server.url, content=QUESTION, headers=TYPE),
                await client.get(server.url, params={"dns": IN_URL}),
                await client.get(server.url, params={"dns": IN_URL}),
            ):
                assert response.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
                assert response.status_code == 200
                assert response.headers["content-type"] == "application/dns-message"
                assert response.headers["cache-control"] == "max-age=77"
                assert said(response.content) == ["192.0.2.7"]
            assert server.site.connections == 1
        assert [asked.over for asked in zone.asked] == ["https"] * 3

    async def test_a_long_answer_comes_whole(self, http2: bool) -> None:
        """Longer than HTTP/2's first window, 65,535 octets (RFC 9113 section 6.9.2), when there are two of them."""
        octets = dns.message.make_query("many.example", "A", id=0).to_wire()
        async with self.serving(lab.Zone(HOSTS), http2=http2) as (server, client):
            for _ in range(2):
                response = await client.post(server.url, content=octets, headers=TYPE)
                assert len(said(response.content)) == 2100

    async def test_what_is_no_question_gets_the_status_it_deserves(self, http2: bool) -> None:
        async with self.serving(lab.Zone(HOSTS), http2=http2) as (server, client):
            send = partial(client.request, headers=TYPE)
            for status, request in (
                (404, client.get(server.url + "x", params={"dns": IN_URL})),
                (400, client.get(server.url)),
                (400, client.get(server.url, params={"dns": [IN_URL, IN_URL]})),
                (400, client.get(server.url, params={"dns": "A"})),
                (400, client.get(server.url, params={"dns": "AAAA"})),
                (405, send("PUT", server.url, content=QUESTION)),
                (415, client.post(server.url, content=QUESTION)),
                (400, send("POST", server.url, content=b"garbage")),
                (413, send("POST", server.url, content=bytes(65_536))),
            ):
                response = await request
                assert response.status_code == status
                assert response.content == b""

    async def test_its_status_can_be_scripted(self, http2: bool) -> None:
        zone = lab.Zone(HOSTS)
        async with self.serving(zone, http2=http2, path="/q", status=503) as (server, client):
            assert server.url.endswith("/q")
            for status in (503, 403):
                server.status = status
                response = await client.get(server.url, params={"dns": IN_URL})
                assert response.status_code == status
        assert zone.asked == []


@pytest.mark.virtual_time
class TestMemory:
    async def test_a_network_has_it_with_its_name_servers(self) -> None:
        link = lab.Profile(delay=0.25)
        async with lab.Network(in_memory=True, up=link, down=link) as net:
            zone = await net.add_name_server(
                "dns.example", DNS, authority=AUTHORITY, zone=lab.Zone(HOSTS)
            )
            stream = await TLSStream.wrap(
                await net.dial_tcp(DNS, 443),
                hostname="dns.example",
                ssl_context=AUTHORITY.client_context(),
                standard_compatible=False,
            )
            async with stream:
                await stream.send(request("POST", body=QUESTION))
                response = await stream.receive()
                assert response.startswith(b"HTTP/1.1 200 ")
                assert anyio.current_time() == 1.5
            assert [asked.over for asked in zone.asked] == ["https"]

    async def test_a_delayed_answer_comes_late_and_a_dropped_one_never(self) -> None:
        zone = lab.Zone(HOSTS, [lab.Delay(seconds=2.0)])
        async with talking(lab.DoHServer(zone).serve_stream) as near:
            await near.send(request("POST", body=QUESTION))
            assert (await near.receive()).startswith(b"HTTP/1.1 200 ")
            assert anyio.current_time() == 2.0
            zone.rules.append(lab.Drop())
            await near.send(request("POST", body=QUESTION))
            with anyio.move_on_after(100) as scope:
                await near.receive()
            assert scope.cancelled_caught

    async def test_of_several_answers_the_first_counts(self) -> None:
        zone = lab.Zone(HOSTS, [lab.Forge(addresses=("198.51.100.66",), truth_after=1.0)])
        async with talking(lab.DoHServer(zone).serve_stream) as near:
            await near.send(request("POST", body=QUESTION))
            octets = (await near.receive()).partition(b"\r\n\r\n")[2]
            assert said(octets) == ["198.51.100.66"]


def request(method: str, *, body: bytes = b"", fields: bytes = b"") -> bytes:
    return (
        b"%b /dns-query HTTP/1.1\r\nHost: x\r\nContent-Type: application/dns-message\r\n%bContent-Length: %d\r\n\r\n%b"
        % (method.encode(), fields, len(body), body)
    )


@asynccontextmanager
async def talking(serve: Any) -> AsyncIterator[MemoryStream]:
    """The client's end of a stream that is being served."""
    near, far = stream_pair()

    async def run(far: ByteStream) -> None:
        async with far:
            await serve(far)

    async with anyio.create_task_group() as group:
        group.start_soon(run, far)
        async with near:
            yield near
            group.cancel_scope.cancel()


async def mirror(request: Request) -> Response:
    return Response(status=200, body=request.method.encode() + b" " + request.body)


@pytest.mark.virtual_time
class TestHttp1:
    async def test_cut_at_every_byte_a_request_is_one(self) -> None:
        octets = request("POST", body=b"hello")
        for cut in range(1, len(octets)):
            async with talking(partial(serve_http1, respond=mirror)) as near:
                await near.send(octets[:cut])
                await anyio.sleep(1)
                await near.send(octets[cut:])
                assert (await near.receive()).endswith(b"\r\n\r\nPOST hello")

    async def test_requests_follow_each_other(self) -> None:
        async with talking(partial(serve_http1, respond=mirror)) as near:
            await near.send(request("POST", body=b"1") + request("POST", body=b"2"))
            await near.send_eof()
            answers = b"".join([data async for data in near])
            assert answers.count(b"HTTP/1.1 200") == 2
            assert answers.endswith(b"POST 2")

    async def test_a_client_that_wants_to_be_told_to_go_on_is(self) -> None:
        async with talking(partial(serve_http1, respond=mirror)) as near:
            head, _, body = request(
                "POST", body=b"x", fields=b"Expect: 100-continue\r\n"
            ).partition(b"\r\n\r\n")
            await near.send(head + b"\r\n\r\n")
            assert (await near.receive()).startswith(b"HTTP/1.1 100 ")
            await near.send(body)
            assert (await near.receive()).endswith(b"POST x")

    async def test_closing_is_obeyed(self) -> None:
        async with talking(partial(serve_http1, respond=mirror)) as near:
            await near.send(request("POST", fields=b"Connection: close\r\n"))
            answers = b"".join([data async for data in near])
            assert answers.startswith(b"HTTP/1.1 200")

    @pytest.mark.parametrize(
        ("octets", "status"),
        [
            (b"garbage\r\n\r\n", 400),
            (request("POST", body=bytes(70_000)), 413),
            (b"GET /" + b"x" * 140_000, 431),
        ],
    )
    async def test_what_is_too_much_or_no_request_is_refused(
        self, octets: bytes, status: int
    ) -> None:
        async with talking(partial(serve_http1, respond=mirror)) as near:
            with anyio.move_on_after(1):
                await near.send(octets)
            answers = await near.receive()
            assert answers.startswith(b"HTTP/1.1 %d " % status)

    async def test_a_body_that_is_left_unread_ends_the_connection(self) -> None:
        async def hasty(request: Request) -> Response:
            return Response(status=200, headers=(("connection", "close"),))

        async with talking(partial(serve_http1, respond=hasty)) as near:
            await near.send(request("POST") * 2)
            answers = b"".join([data async for data in near])
            assert answers.count(b"HTTP/1.1 200") == 1

    async def test_a_client_that_leaves_half_way_leaves(self) -> None:
        async with talking(partial(serve_http1, respond=mirror)) as near:
            await near.send(request("POST", body=b"hello")[:-2])
            await near.send_eof()
            assert (await near.receive()).startswith(b"HTTP/1.1 400 ")

    @given(st.binary(max_size=200))
    def test_garbage_is_never_an_exception(self, octets: bytes) -> None:
        run_virtual(feed, serve_http1, octets)


class Client2:
    """An HTTP/2 client: the library, and a stream in memory."""

    def __init__(self, stream: MemoryStream) -> None:
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.stream = stream
        self.h2.initiate_connection()

    async def send(self, *, body: bytes = b"", end: bool = True) -> int:
        stream_id = self.h2.get_next_available_stream_id()
        headers = [
            (":method", "POST"),
            (":path", "/dns-query"),
            (":scheme", "https"),
            (":authority", "x"),
            ("content-type", "application/dns-message"),
        ]
        self.h2.send_headers(stream_id, headers)
        self.h2.send_data(stream_id, body, end_stream=end)
        await self.flush()
        return stream_id

    async def flush(self) -> None:
        await self.stream.send(self.h2.data_to_send())

    async def bodies(self, count: int, *, acknowledge: bool = True) -> dict[int, bytes]:
        """The bodies of so many responses, in the order of their ends."""
        bodies: dict[int, bytes] = {}
        ended: dict[int, bytes] = {}
        while len(ended) < count:
            for event in self.h2.receive_data(await self.stream.receive()):
                match event:
                    case h2.events.DataReceived(stream_id=int(stream_id), data=bytes(data)):
                        bodies[stream_id] = bodies.get(stream_id, b"") + data
                        if acknowledge:
                            self.h2.acknowledge_received_data(len(data), stream_id)
                    case h2.events.StreamEnded(stream_id=int(stream_id)):
                        ended[stream_id] = bodies.get(stream_id, b"")
                    case _:
                        pass
            await self.flush()
        return ended


@pytest.mark.virtual_time
class TestHttp2:
    async def test_responses_overtake_each_other(self) -> None:
        async def late(request: Request) -> Response:
            await anyio.sleep(int(request.body))
            return await mirror(request)

        async with talking(partial(serve_http2, respond=late)) as near:
            client = Client2(near)
            slow = await client.send(body=b"2")
            quick = await client.send(body=b"1")
            assert list((await client.bodies(2)).items()) == [(quick, b"POST 1"), (slow, b"POST 2")]
            assert anyio.current_time() == 2

    async def test_a_body_waits_for_the_clients_window(self) -> None:
        async def much(request: Request) -> Response:
            return Response(status=200, body=bytes(200_000))

        async with talking(partial(serve_http2, respond=much)) as near:
            client = Client2(near)
            stream_id = await client.send()
            assert await client.bodies(1) == {stream_id: bytes(200_000)}

    async def test_a_request_that_is_taken_back_is_not_answered(self) -> None:
        ended: list[int] = []

        async def never(request: Request) -> Response:
            if request.body == b"answer":
                return await mirror(request)
            try:
                await anyio.sleep_forever()
            finally:
                ended.append(1)
            raise AssertionError

        async with talking(partial(serve_http2, respond=never)) as near:
            client = Client2(near)
            stream_id = await client.send(body=b"wait")
            half = await client.send(body=b"half", end=False)
            await anyio.sleep(1)
            client.h2.reset_stream(stream_id)
            client.h2.reset_stream(half)
            other = await client.send(body=b"answer")
            assert await client.bodies(1) == {other: b"POST answer"}
            assert ended == [1]

    async def test_too_long_a_body_is_refused(self) -> None:
        async with talking(partial(serve_http2, respond=mirror)) as near:
            client = Client2(near)
            stream_id = await client.send(body=bytes(16_000), end=False)
            for last in (False, False, False, True):
                while client.h2.local_flow_control_window(stream_id) < 16_000:
                    client.h2.receive_data(await near.receive())
                client.h2.send_data(stream_id, bytes(16_000), end_stream=last)
                await client.flush()
            assert await client.bodies(1) == {stream_id: b""}

    async def test_a_client_that_breaks_the_rules_is_told_and_left(self) -> None:
        async with talking(partial(serve_http2, respond=mirror)) as near:
            await near.send(b"GET / HTTP/1.1\r\n\r\n" * 3)
            assert b"".join([data async for data in near]) != b""

    @given(st.binary(max_size=200))
    def test_garbage_is_never_an_exception(self, octets: bytes) -> None:
        run_virtual(feed, serve_http2, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + octets)


async def feed(serve: Any, octets: bytes) -> None:
    async with talking(partial(serve, respond=mirror)) as near:
        await near.send(octets)
        await near.send_eof()
        async for _ in near:
            pass
