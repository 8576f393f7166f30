"""AMP in races with stream transports, over httpx and httpx2: what fits goes, what does not is left to others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import httpx
import httpx2
import pytest

import racer
from benchmarks._amp_cache import CACHE, FRONT, AmpCache, amp_cache
from racer.abc import Progress, Target, Transport
from racer.http import RacerTransport
from racer.testing import ScriptedTransport, fails
from tests.transports.amp.keys import PRIVATE, PUBLIC_PEM
from tests.transports.fronting.cdn import Origin, origin_server
from transports.amp import Amp, AmpBroker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

LIBRARIES = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
BROKER = "amp.broker.example.com"


class Relay(Transport):
    """A stream transport of the last resort."""

    name = "relay"

    async def connect(self, target: Target, progress: Progress) -> Any:
        return await anyio.connect_tcp(target.host, target.port)


class Straight:
    def __init__(self, cache: AmpCache) -> None:
        self._cache = cache

    async def connect(self, host: str, port: int, progress: Any) -> Any:
        return await anyio.connect_tcp("127.0.0.1", self._cache.port)


@pytest.fixture(scope="module")
def origin() -> Iterator[Origin]:
    with origin_server() as running:
        yield running


@pytest.fixture(scope="module")
def cache() -> Iterator[AmpCache]:
    with amp_cache({}) as running:
        yield running


@pytest.fixture
async def amp(origin: Origin, cache: AmpCache, anyio_backend: Any) -> AsyncIterator[Amp]:
    origin.asked.clear()
    cache.asked.clear()
    async with AmpBroker(key=PRIVATE, allow=[f"http://127.0.0.1:{origin.port}"]) as broker:
        cache.hosts[BROKER] = broker.address
        made = Amp(
            f"https://{BROKER}", PUBLIC_PEM, cache_url=f"https://{CACHE}", fronts=[FRONT], tls=cache.context()
        )  # fmt: skip
        made._dialer._connector = Straight(cache)  # type: ignore[assignment]
        yield made


def client(library: Any, dialer: racer.Dialer, origin: Origin) -> Any:
    return library.AsyncClient(
        transport=RacerTransport(dialer), base_url=f"http://127.0.0.1:{origin.port}"
    )


@LIBRARIES
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_blocked_host_is_reached_through_the_cache(
    amp: Amp, origin: Origin, library: Any, method: str
) -> None:
    entrants = [ScriptedTransport("direct", fails(0.0)), amp]
    async with racer.Dialer(entrants) as dialer, client(library, dialer, origin) as http:
        response = await http.request(method, "/hello", content=b"x" if method == "POST" else None)
    assert response.text.startswith(method)
    assert response.extensions["racer"].transport_name == "amp"
    assert len(origin.asked) == 1


@LIBRARIES
@pytest.mark.parametrize(
    "request_of",
    [
        {"method": "POST", "content": b"x" * 6000},
        {"method": "GET", "headers": {"X-Big": "x" * 8000}},
        {"method": "GET", "headers": {"Accept": "text/event-stream"}},
    ],
    ids=["body", "headers", "event stream"],
)
async def test_what_does_not_fit_is_left_to_others(
    amp: Amp, origin: Origin, cache: AmpCache, library: Any, request_of: dict[str, Any]
) -> None:
    """kindling E2 and E3, with headers counted (A8)."""
    entrants = [racer.Entrant(amp, start_delay=0.0), racer.Entrant(Relay(), tier=1)]
    async with racer.Dialer(entrants) as dialer, client(library, dialer, origin) as http:
        response = await http.request(url="/", **request_of)
    assert response.status_code == 200
    assert response.extensions["racer"].transport_name == "relay"
    assert cache.asked == []


@LIBRARIES
async def test_alone_it_says_why_not(amp: Amp, origin: Origin, library: Any) -> None:
    async with racer.Dialer([amp]) as dialer, client(library, dialer, origin) as http:
        with pytest.raises(library.ConnectError, match="at most"):
            await http.post("/", content=b"x" * 6000)
        assert (await http.get("/")).status_code == 200
