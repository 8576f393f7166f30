from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import h11
import pytest

from racer.errors import ErrorType, NetworkError
from racer.testing import ScriptedTransport, fails, hangs, wins
from tests.racer.proxy.scene import Scene, read, scene, silent

if TYPE_CHECKING:
    from racer.testing import MemoryStream

pytestmark = pytest.mark.virtual_time


def get(path: str = "/", host: str = "news.example", *fields: str) -> bytes:
    lines = [f"GET http://{host}{path} HTTP/1.1", f"Host: {host}", *fields, "", ""]
    return "\r\n".join(lines).encode()


class Origin:
    """Speaks HTTP/1.1, one connection after the other, and keeps what it was asked.

    Attributes:
        requests: method, path and fields of each.
        bodies: what came with each.
    """

    def __init__(self, *, pause: float = 0.0, pieces: tuple[bytes, ...] = (b"hello",)) -> None:
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.bodies: list[bytes] = []
        self._pause = pause
        self._pieces = pieces

    async def __call__(self, stream: MemoryStream) -> None:
        http = h11.Connection(h11.SERVER)
        async with stream:
            async for data in stream:
                http.receive_data(data)
                while (event := http.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                    self._take(event)
                    if isinstance(event, h11.EndOfMessage):
                        await self._answer(http, stream)

    def _take(self, event: Any) -> None:
        match event:
            case h11.Request():
                fields = {k.decode(): v.decode() for k, v in event.headers}
                self.requests.append((event.method.decode(), event.target.decode(), fields))
                self.bodies.append(b"")
            case h11.Data():
                self.bodies[-1] += event.data
            case _:
                pass

    async def _answer(self, http: h11.Connection, stream: MemoryStream) -> None:
        size = str(sum(map(len, self._pieces)))
        head = h11.Response(status_code=200, headers=[("Content-Length", size), ("Via", "x")])
        await stream.send(http.send(head) or b"")
        for piece in self._pieces:
            await anyio.sleep(self._pause)
            if self.requests[-1][0] != "HEAD":
                await stream.send(http.send(h11.Data(data=piece)) or b"")
        http.send(h11.EndOfMessage())
        http.start_next_cycle()


async def response(client: MemoryStream, method: bytes = b"GET") -> tuple[h11.Response, bytes]:
    """Return one response, and its body."""
    http = h11.Connection(h11.CLIENT)
    http.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
    head, body = None, b""
    while True:
        event = http.next_event()
        match event:
            case h11.Response():
                head = event
            case h11.Data():
                body += event.data
            case h11.EndOfMessage():
                assert head is not None
                return head, body
            case h11.InformationalResponse():
                pass
            case h11.NEED_DATA:
                http.receive_data(await client.receive(1))
            case _:
                raise AssertionError(event)


async def test_requests_are_forwarded_over_a_connection_that_is_kept() -> None:
    origin = Origin()
    async with scene(wins(0.5), serve=origin) as it:
        client = it.client()
        for path in ("/a?b", "/c"):
            await client.send(
                get(path, "news.example", "X-Mine: 1", "Proxy-Connection: keep-alive")
            )
            head, body = await response(client)
            assert (head.status_code, body) == (200, b"hello")
        assert anyio.current_time() == 0.5
        await client.aclose()
        assert origin.requests == [
            ("GET", "/a?b", {"host": "news.example", "x-mine": "1"}),
            ("GET", "/c", {"host": "news.example", "x-mine": "1"}),
        ]
        (attempt,) = it.transport.attempts
        assert str(attempt.target) == "news.example:80"
        assert it.requests() == {("http", "connected"): 2}


async def test_one_connection_of_a_client_leads_to_several_sites() -> None:
    async with scene(serve=Origin()) as it:
        client = it.client()
        for host in ("a.example", "b.example:8080", "a.example"):
            await client.send(get("/", host))
            assert (await response(client))[1] == b"hello"
        targets = [str(attempt.target) for attempt in it.transport.attempts]
        assert targets == ["a.example:80", "b.example:8080"]
        await client.aclose()


async def test_pipelined_requests_are_answered_in_order() -> None:
    origin = Origin()
    async with scene(serve=origin) as it:
        client = it.client()
        await client.send(get("/1") + get("/2") + get("/3"))
        for _ in range(3):
            assert (await response(client))[1] == b"hello"
        assert [path for _, path, _ in origin.requests] == ["/1", "/2", "/3"]
        await client.aclose()


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        (["Content-Length: 300"], b"x" * 300),
        (["Transfer-Encoding: chunked"], b"12c\r\n" + b"x" * 300 + b"\r\n0\r\n\r\n"),
    ],
)
async def test_a_body_is_forwarded_as_it_comes(fields: list[str], body: bytes) -> None:
    origin = Origin()
    async with scene(serve=origin) as it:
        client = it.client()
        lines = ["POST http://news.example/ HTTP/1.1", "Host: news.example", *fields, "", ""]
        await client.send("\r\n".join(lines).encode())
        for index in range(0, len(body), 50):
            await client.send(body[index : index + 50])
            await anyio.sleep(0.1)
        assert (await response(client, b"POST"))[1] == b"hello"
        assert origin.bodies == [b"x" * 300]
        await client.send(get())
        assert (await response(client))[1] == b"hello"
        await client.aclose()


async def test_a_body_waits_for_100_continue() -> None:
    async with scene(serve=Origin()) as it:
        client = it.client()
        await client.send(
            b"POST http://news.example/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
        )
        assert (await read(client, 13)).startswith(b"HTTP/1.1 100 ")
        await client.send(b"abc")
        said = b""
        while not said.endswith(b"\r\n\r\n"):
            said += await client.receive(1)
        assert (await response(client, b"POST"))[1] == b"hello"
        await client.aclose()


async def test_head_has_no_body() -> None:
    async with scene(serve=Origin()) as it:
        client = it.client()
        await client.send(b"HEAD http://news.example/ HTTP/1.1\r\nHost: x\r\n\r\n")
        head, body = await response(client, b"HEAD")
        assert (dict(head.headers)[b"content-length"], body) == (b"5", b"")
        await client.send(get())
        assert (await response(client))[1] == b"hello"
        await client.aclose()


async def test_a_response_arrives_piece_by_piece() -> None:
    async with scene(serve=Origin(pause=1, pieces=(b"one ", b"two"))) as it:
        client = it.client()
        await client.send(get())
        data = b""
        while not data.endswith(b"one "):
            data += await client.receive()
        assert anyio.current_time() == 1
        assert await client.receive() == b"two"
        assert anyio.current_time() == 2
        await client.aclose()


async def test_a_race_that_fails_is_told_and_the_client_may_ask_again() -> None:
    error = NetworkError("no such host", error_type=ErrorType.DNS_FAILURE)
    transport = ScriptedTransport("tunnel", fails(error=error).then(wins()), serve=Origin())
    async with scene(transport=transport) as it:
        client = it.client()
        await client.send(get())
        head, body = await response(client)
        assert head.status_code == 502
        assert body == (
            b"racer: could not connect to news.example:80:\n"
            b"  tunnel: NetworkError: no such host (after 0.0 s)\n"
        )
        await client.send(get())
        assert (await response(client))[1] == b"hello"
        await client.aclose()
        assert it.requests() == {("http", "failed"): 1, ("http", "connected"): 1}
        assert len(it.failures) == 1


async def test_what_is_no_http_is_a_bad_gateway() -> None:
    async def babbles(stream: MemoryStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"SSH-2.0-babble\r\n")

    async with scene(serve=babbles) as it:
        client = it.client()
        await client.send(get())
        head, body = await response(client)
        assert head.status_code == 502
        assert b"news.example:80 gave no proper response" in body
        await client.aclose()


async def test_a_response_cut_short_does_not_look_whole() -> None:
    async def cuts(stream: MemoryStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")

    async with scene(serve=cuts) as it:
        client = it.client()
        await client.send(get())
        with pytest.raises(anyio.BrokenResourceError):
            while True:
                await client.receive()
        await client.aclose()


@pytest.mark.parametrize("by_force", [False, True])
async def test_a_client_that_goes_away_ends_the_race_for_its_request(by_force: bool) -> None:
    async with scene(hangs()) as it:
        client = it.client()
        await client.send(get())
        await anyio.sleep(2)
        client.abort() if by_force else await client.aclose()
        await anyio.sleep(0.001)
        assert it.transport.attempts[0].ended_at == 2
        assert it.proxy.status().clients == 0
        assert it.requests() == {("http", "left"): 1}


async def test_a_client_that_goes_away_ends_a_response_that_does_not_come() -> None:
    async with scene(serve=silent) as it:
        client = it.client()
        await client.send(get())
        await anyio.sleep(2)
        await client.aclose()
        await anyio.sleep(0.001)
        assert it.proxy.status().clients == 0
        assert it.transport.ledger.open_streams == ()


async def test_a_client_that_goes_away_within_its_body_ends_its_request() -> None:
    async with scene(serve=Origin()) as it:
        client = it.client()
        await client.send(
            b"POST http://news.example/ HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf"
        )
        await anyio.sleep(1)
        await client.aclose()
        await anyio.sleep(0.001)
        assert it.proxy.status().clients == 0


async def test_a_request_that_carries_nothing_is_cut() -> None:
    async with scene(serve=silent, idle_timeout=100) as it:
        client = it.client()
        await client.send(get())
        with pytest.raises(anyio.BrokenResourceError):
            await client.receive()
        assert anyio.current_time() == 100
        await client.aclose()


async def test_a_response_that_comes_slowly_is_not_cut() -> None:
    pieces = (b"a", b"b", b"c", b"d")
    async with scene(serve=Origin(pause=60, pieces=pieces), idle_timeout=100) as it:
        client = it.client()
        await client.send(get())
        assert (await response(client))[1] == b"abcd"
        assert anyio.current_time() == 240
        await client.aclose()


async def test_http_1_0_gets_its_response_and_the_end() -> None:
    async with scene(serve=Origin()) as it:
        client = it.client()
        await client.send(b"GET http://news.example/ HTTP/1.0\r\n\r\n")
        said = b""
        async for data in client:
            said += data
        assert said.endswith(b"hello")
        await client.aclose()


async def test_it_does_not_fetch_from_itself() -> None:
    async with scene() as it:
        client = it.client()
        port = it.proxy.address[1]
        await client.send(get("/metrics", f"127.0.0.1:{port}"))
        assert (await response(client))[0].status_code == 403
        await client.aclose()
        assert it.transport.attempts == []


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_who_leaves_with_the_whole_response_has_been_answered(method: str) -> None:
    async def lingers(stream: MemoryStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
            if method == "GET":
                await stream.send(b"hello")
            await anyio.sleep_forever()

    async with scene(serve=lingers) as it:
        for _ in range(20):
            client = it.client()
            await client.send(f"{method} http://news.example/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            await response(client, method.encode())
            client.abort()  # before the proxy's own task runs again
            await anyio.sleep(0.001)
        assert it.requests() == {("http", "connected"): 20}


async def test_connections_are_shared_by_no_two_clients() -> None:
    async with scene(serve=Origin()) as it:
        for _ in range(2):
            client = it.client()
            await client.send(get())
            assert (await response(client))[1] == b"hello"
            await client.aclose()
        assert len(it.transport.attempts) == 2


async def test_a_slow_reader_slows_the_response_down() -> None:
    sent = 0

    async def pours(stream: MemoryStream) -> None:
        nonlocal sent
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n")
            for _ in range(1000):
                await stream.send(b"x" * 10_000)
                sent += 10_000

    transport = ScriptedTransport("tunnel", wins(capacity=1000), serve=pours)
    async with scene(transport=transport) as it:
        client = it.client(capacity=1000)
        await client.send(get())
        await anyio.sleep(100)
        assert sent <= 300_000
        client.abort()


# --- pages of its own -----------------------------------------------------------------------


async def page(it: Scene, path: str) -> tuple[h11.Response, bytes]:
    client = it.client()
    await client.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    answer = await response(client)
    await client.aclose()
    return answer


async def test_it_says_whether_it_is_ready() -> None:
    async with scene(admin=True) as it:
        head, body = await page(it, "/readyz")
        assert (head.status_code, body) == (200, b"ready\n")
        await it.proxy._dialer.aclose()
        head, body = await page(it, "/readyz")
        assert (head.status_code, body) == (503, b"not ready\n")


async def test_it_tells_its_counts_and_no_host() -> None:
    async with scene(fails(), admin=True) as it:
        client = it.client()
        await client.send(get("/", "secret.example"))
        await response(client)
        await client.aclose()
        head, body = await page(it, "/metrics")
        assert dict(head.headers)[b"content-type"].startswith(b"text/plain; version=0.0.4")
        assert (
            b'racer_proxy_attempts_total{transport="tunnel",outcome="connect_failed"} 1\n' in body
        )
        assert b'racer_proxy_requests_total{protocol="http",outcome="failed"} 1\n' in body
        assert b"secret" not in body


async def test_there_are_no_pages_unless_they_are_wanted() -> None:
    async with scene() as it:
        assert (await page(it, "/readyz"))[0].status_code == 404
