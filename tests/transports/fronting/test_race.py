"""Fronting in races with stream transports, over httpx and httpx2: it carries what others cannot, and loses when they can."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import httpx2
import pytest
import trustme
from anyio.streams.tls import TLSStream

import racer
from racer.abc import Progress, Target, Transport
from racer.errors import NetworkError
from racer.http import RacerTransport
from racer.testing import ScriptedTransport, fails
from tests.transports.fronting.cdn import ORIGIN, Network
from transports._net.http_connection import HTTPConnection
from transports.fronting import Fronting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

LIBRARIES = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
BLOCKED = fails(0.0)


class Straight(Transport):
    """Reaches the one web server there is, as a network without a censor would."""

    name = "straight"

    def __init__(self, port: int) -> None:
        self._port = port

    async def connect(self, target: Target, progress: Progress) -> Any:
        return await anyio.connect_tcp("127.0.0.1", self._port)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
async def site(authority: trustme.CA, anyio_backend: Any) -> AsyncIterator[int]:
    """Yield the port of a web server that is the origin itself."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(ORIGIN).configure_cert(context)

    async def serve(stream: Any) -> None:
        async with stream:
            try:
                secured = await TLSStream.wrap(
                    stream, server_side=True, ssl_context=context, standard_compatible=False
                )
                await secured.receive()
                await secured.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nstraight")
                await secured.receive()
            except (OSError, anyio.EndOfStream, anyio.BrokenResourceError):
                pass

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield listener.extra(anyio.abc.SocketAttribute.local_port)
        group.cancel_scope.cancel()


async def ask(library: Any, dialer: racer.Dialer, *args: Any, **more: Any) -> Any:
    transport = RacerTransport(dialer)
    async with library.AsyncClient(transport=transport, base_url=f"https://{ORIGIN}") as client:
        return await client.request(*args, **more)


@pytest.fixture(autouse=True)
def trust(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the system trust who signed for the web server; fronts are verified by their list."""
    file = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)


@LIBRARIES
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_blocked_host_is_reached_through_a_front(
    cdn: Network, library: Any, method: str
) -> None:
    entrants: list[Any] = [
        ScriptedTransport("direct", BLOCKED),
        racer.Entrant(Fronting(cdn.fronts("refusing" if method == "GET" else "good", "good"))),
    ]
    async with racer.Dialer(entrants) as dialer:
        response = await ask(library, dialer, method, "/hello")
    assert isinstance(response, library.Response)
    assert response.text == f"{method} "
    assert response.extensions["racer"].transport_name == "fronting"
    report = response.extensions["racer"].report
    assert [attempt.outcome for attempt in report.attempts] == ["connect_failed", "connected"]


@LIBRARIES
async def test_where_the_straight_way_is_open_no_front_is_asked(
    cdn: Network, site: int, library: Any
) -> None:
    fronting = Fronting(cdn.fronts("good"))
    async with racer.Dialer([Straight(site), fronting]) as dialer:
        response = await ask(library, dialer, "GET", "/")
    assert response.text == "straight"
    assert cdn.seen() == []


@LIBRARIES
async def test_a_network_that_refuses_leaves_the_request_to_others(
    cdn: Network, site: int, library: Any
) -> None:
    """kindling S4: a GET that a front answers with 503 goes on to the next route; a POST does not (S6)."""
    fronting = racer.Entrant(Fronting(cdn.fronts("overloaded")), start_delay=0.0)
    late = racer.Entrant(Straight(site), tier=1)
    async with racer.Dialer([fronting, late]) as dialer:
        got = await ask(library, dialer, "GET", "/")
        assert got.text == "straight"
    async with racer.Dialer([racer.Entrant(Fronting(cdn.fronts("overloaded"))), late]) as dialer:
        posted = await ask(library, dialer, "POST", "/once")
        assert posted.status_code == 503


@LIBRARIES
async def test_a_host_that_no_provider_knows_is_not_raced_through_fronts(
    cdn: Network, library: Any
) -> None:
    """K5: the mapping is checked before anything is dialed."""
    entrants = [ScriptedTransport("direct", BLOCKED), Fronting(cdn.fronts("good"))]
    async with racer.Dialer(entrants) as dialer:
        with pytest.raises(library.ConnectError):
            await ask(library, dialer, "GET", "https://elsewhere.example.com/")
        assert cdn.seen() == []
        with pytest.raises(racer.errors.NoTransports):
            await dialer.dial("elsewhere.example.com", only=["fronting"])


@LIBRARIES
async def test_a_post_goes_another_way_when_its_route_has_no_line_any_more(
    cdn: Network, site: int, library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H3: before its first byte may have left, every method falls back."""
    fronting = Fronting(cdn.fronts("good"))
    entrants = [racer.Entrant(fronting, start_delay=0.0), racer.Entrant(Straight(site), tier=1)]
    async with (
        racer.Dialer(entrants) as dialer,
        library.AsyncClient(transport=RacerTransport(dialer)) as client,
    ):
        first = await client.get(f"https://{ORIGIN}/")
        assert first.extensions["racer"].transport_name == "fronting"
        monkeypatch.setattr(HTTPConnection, "has_hung_up", lambda self: True)

        async def hunt(*args: Any, **options: Any) -> Any:
            raise NetworkError("no front could be used")

        monkeypatch.setattr(fronting._hunter, "hunt", hunt)
        posted = await client.post(f"https://{ORIGIN}/once", content=b"x")
    assert posted.text == "straight"
    assert all(path != "/once" for _, path, *_ in cdn.origin.asked)


async def test_a_trust_of_ones_own_is_not_gone_round(cdn: Network) -> None:
    """Who pins a server's certificate gets none of a network's instead."""
    context = ssl.create_default_context()
    async with racer.Dialer([Fronting(cdn.fronts("good"))]) as dialer:
        transport = RacerTransport(dialer, ssl_context=context)
        async with httpx.AsyncClient(transport=transport) as client:
            with pytest.raises(httpx.ConnectError, match="TLS ends at the front"):
                await client.get(f"https://{ORIGIN}/")


async def test_dial_sees_it_as_ineligible(cdn: Network) -> None:
    async with racer.Dialer(
        [ScriptedTransport("direct", BLOCKED), Fronting(cdn.fronts("good"))]
    ) as dialer:
        with pytest.raises(racer.errors.AllAttemptsFailed) as caught:
            await dialer.dial(ORIGIN)
    assert caught.value.report["fronting"].outcome == "ineligible"
