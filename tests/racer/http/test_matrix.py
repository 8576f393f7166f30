"""Every library, loop, protocol and kind of route, over real TLS on loopback, asynchronous and not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import httpx
import httpx2
import pytest

from racer import Dialer
from racer.http import RacerTransport, SyncRacerTransport
from racer.lab import Socks5Proxy
from racer.testing import ScriptedRequestTransport
from tests.racer.http.origin import HOST, Origin, Way, client_tls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from racer.abc import Guest
    from tests.racer.http.origin import Talk

LIBRARIES = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
PROTOCOLS = pytest.mark.parametrize("protocol", ["HTTP/1.1", "HTTP/2"])
URL = f"https://{HOST}/"
BODY = bytes(range(256)) * 500


async def answer(talk: Talk) -> None:
    """Answer as the path says."""
    match talk.target:
        case "/echo":
            await talk.respond(200, await talk.body())
        case "/login":
            await talk.respond(302, location="/home", set_cookie="session=42")
        case "/home":
            await talk.respond(200, f"{talk.headers.get('cookie')}".encode())
        case "/elsewhere":
            await talk.respond(307, location=f"https://{HOST}:8443/echo")
        case "/auth":
            await talk.respond(200 if "authorization" in talk.headers else 401, b"in")
        case "/events":
            await talk.begin(200, {"content-type": "text/event-stream"}, False)
            for n in range(3):
                await talk.send(b"data: %d\n\n" % n)
            await talk.end()
        case _:
            await talk.respond(200, b"hello")


def guests_of(route: str, origin: Origin, proxy: Socks5Proxy) -> list[Guest]:
    if route == "direct":
        return [Way("direct", origin)]
    if route == "proxy":
        from transports.proxy import Socks5

        host, port = proxy.address
        return [Socks5(f"{host}:{port}", name="proxy")]
    return [ScriptedRequestTransport("requests", answer=_by_request)]


async def _by_request(request: Any) -> Any:
    """Answer a request as `answer` does, in the request's own library."""
    library = httpx2 if type(request).__module__.startswith("httpx2") else httpx
    match request.url.path:
        case "/echo":
            return library.Response(200, content=await request.aread())
        case "/login":
            return library.Response(302, headers={"location": "/home", "set-cookie": "session=42"})
        case "/home":
            return library.Response(200, content=str(request.headers.get("cookie")))
        case "/elsewhere":
            return library.Response(307, headers={"location": f"https://{HOST}:8443/echo"})
        case "/auth":
            return library.Response(
                200 if "authorization" in request.headers else 401, content="in"
            )
        case "/events":
            return library.Response(200, content="data: 0\n\ndata: 1\n\ndata: 2\n\n")
        case _:
            return library.Response(200, content="hello")


@LIBRARIES
@PROTOCOLS
@pytest.mark.parametrize("route", ["direct", "proxy", "requests"])
async def test_async(library: Any, protocol: str, route: str) -> None:
    alpn = ("h2", "http/1.1") if protocol == "HTTP/2" else ("http/1.1",)
    async with Origin(answer, tls=True, alpn=alpn) as origin:
        await origin.listen()

        async def to_origin(host: str, port: int) -> Any:
            return await anyio.connect_tcp("127.0.0.1", origin.port)

        async with (
            Socks5Proxy(connect=to_origin) as proxy,
            Dialer(guests_of(route, origin, proxy)) as dialer,
            library.AsyncClient(
                transport=RacerTransport(dialer, ssl_context=client_tls()), timeout=20.0
            ) as client,
        ):
            response = await client.get(URL)
            assert (response.text, response.extensions["racer"].transport_name) == ("hello", route)
            assert route == "requests" or response.http_version == protocol
            assert (await client.post(URL + "echo", content=BODY)).content == BODY
            assert (await client.post(URL + "echo", content=_pieces())).content == BODY
            redirected = await client.get(URL + "login", follow_redirects=True)
            assert (redirected.text, len(redirected.history)) == ("session=42", 1)
            # Each hop to another origin is a race of its own; the body goes along.
            moved = await client.post(URL + "elsewhere", content=b"kept", follow_redirects=True)
            assert moved.content == b"kept"
            assert moved.extensions["racer"].report.target == f"{HOST}:8443"
            assert (await client.get(URL + "auth")).status_code == 401
            assert (await client.get(URL + "auth", auth=("user", "word"))).status_code == 200
            headers = {"Accept": "text/event-stream"}
            async with client.stream("GET", URL + "events", headers=headers) as events:
                lines = [line async for line in events.aiter_lines() if line]
            assert lines == ["data: 0", "data: 1", "data: 2"]
            assert client._transport._engine.pool.in_use == 0


async def _pieces() -> AsyncIterator[bytes]:
    for at in range(0, len(BODY), 10_000):
        yield BODY[at : at + 10_000]


@LIBRARIES
@PROTOCOLS
@pytest.mark.parametrize("route", ["direct", "proxy", "requests"])
async def test_sync(library: Any, protocol: str, route: str) -> None:
    alpn = ("h2", "http/1.1") if protocol == "HTTP/2" else ("http/1.1",)
    async with Origin(answer, tls=True, alpn=alpn) as origin:
        await origin.listen()

        async def to_origin(host: str, port: int) -> Any:
            return await anyio.connect_tcp("127.0.0.1", origin.port)

        async with Socks5Proxy(connect=to_origin) as proxy:
            guests = guests_of(route, origin, proxy)
            await anyio.to_thread.run_sync(_run_sync, library, protocol, route, guests)


def _run_sync(library: Any, protocol: str, route: str, guests: list[Guest]) -> None:
    transport = SyncRacerTransport(Dialer(guests), ssl_context=client_tls())
    transport.own_dialer()
    with library.Client(transport=transport, timeout=20.0) as client:
        response = client.get(URL)
        assert (response.text, response.extensions["racer"].transport_name) == ("hello", route)
        assert route == "requests" or response.http_version == protocol
        assert client.post(URL + "echo", content=BODY).content == BODY
        assert client.get(URL + "login", follow_redirects=True).text == "session=42"
        with client.stream("GET", URL + "events") as events:
            assert [line for line in events.iter_lines() if line] == [
                "data: 0",
                "data: 1",
                "data: 2",
            ]


@LIBRARIES
@PROTOCOLS
async def test_through_soar(library: Any, protocol: str) -> None:
    """The last resort carries it too: HTTP over TLS over a stream inside DNS."""
    from transports.soar import Soar, SoarServer, generate_key

    alpn = ("h2", "http/1.1") if protocol == "HTTP/2" else ("http/1.1",)
    key = generate_key()
    async with Origin(answer, tls=True, alpn=alpn) as origin:
        await origin.listen()
        url = f"https://localhost:{origin.port}/"
        async with SoarServer(
            domain="t.example.com",
            key=key,
            host="127.0.0.2",  # its own address is one that it never connects to
            allow=["127.0.0.1/32", "localhost"],
            ports=[origin.port],
            uptime=100.0,
        ) as server:
            host, port = server.address[:2]
            soar = Soar(
                domain="t.example.com",
                server_key=key.public.to_text(),
                resolvers=[f"udp://{host}:{port}"],
            )
            async with (
                Dialer([soar]) as dialer,
                library.AsyncClient(
                    transport=RacerTransport(dialer, ssl_context=client_tls()), timeout=30.0
                ) as client,
            ):
                response = await client.get(url)
                assert (response.text, response.http_version) == ("hello", protocol)
                assert response.extensions["racer"].transport_name == "soar"
                body = BODY[:20_000]
                assert (await client.post(url + "echo", content=body)).content == body
                async with client.stream("GET", url + "events") as events:
                    assert len([line async for line in events.aiter_lines() if line]) == 3
                assert (await client.get(url)).extensions["racer"].reused
                assert origin.connections == 1


@LIBRARIES
@PROTOCOLS
async def test_a_server_that_closed_an_idle_socket_costs_no_post(
    library: Any, protocol: str
) -> None:
    """A socket is asked right before use: there is no better moment, and what is sent after cannot be taken back."""
    alpn = ("h2", "http/1.1") if protocol == "HTTP/2" else ("http/1.1",)
    async with Origin(answer, tls=True, alpn=alpn) as origin:
        await origin.listen()
        async with (
            Dialer([Way("direct", origin)]) as dialer,
            library.AsyncClient(
                transport=RacerTransport(dialer, ssl_context=client_tls()), timeout=20.0
            ) as client,
        ):
            for n in range(1, 4):
                assert (await client.post(URL + "echo", content=b"x")).content == b"x"
                assert origin.connections == n
                await origin.wires[-1].stream.aclose()
                while origin.open:
                    await anyio.lowlevel.checkpoint()
                await anyio.sleep(0.01)  # for loopback to carry the end


@PROTOCOLS
async def test_a_certificate_for_somebody_else_is_no_connection(protocol: str) -> None:
    async with Origin(tls=True) as origin, Dialer([Way("direct", await origin.listen())]) as dialer:
        transport = RacerTransport(dialer, ssl_context=client_tls())
        async with httpx.AsyncClient(transport=transport) as client:
            with pytest.raises(httpx.ConnectError, match=r"direct: .*certificate"):
                await client.post("https://somebody.example/", content=b"secret")
        assert origin.seen == []


async def test_a_server_that_wants_another_protocol_gets_no_request() -> None:
    async with Origin(tls=True, alpn=()) as origin:
        await origin.listen()
        async with (
            Dialer([Way("direct", origin)]) as dialer,
            httpx.AsyncClient(
                transport=RacerTransport(dialer, ssl_context=client_tls(), http1=False)
            ) as client,
        ):
            with pytest.raises(httpx.ConnectError, match=r"direct: .*does not speak HTTP/2"):
                await client.get(URL)
            assert origin.seen == []
