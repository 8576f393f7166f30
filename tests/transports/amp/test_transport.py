"""`Amp` and `AmpBroker` with a cache between them: what fits, what is seen, what is done once, and what is refused."""

from __future__ import annotations

import base64
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import httpx2
import pytest

from benchmarks._amp_cache import CACHE, FRONT, AmpCache, Mood, amp_cache
from racer.abc import MakeContext, Origin, Target
from racer.errors import ConfigError, LocalProtocolError, NotUsable, TargetRefused, TransportError
from racer.testing import LocalHost, check_request_transport
from tests.transports.amp.keys import PRIVATE, PRIVATE_PEM, PUBLIC_PEM
from tests.transports.fronting.cdn import Origin as Asked
from tests.transports.fronting.cdn import free_port, origin_server
from transports.amp import Amp, AmpBroker, generate_key, make, public_key_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

LIBRARIES = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
BROKER = "amp.broker.example.com"


@dataclass
class World:
    """Everything between client and origin."""

    cache: AmpCache
    origin: Asked
    broker: AmpBroker

    @property
    def target(self) -> Target:
        return Target("127.0.0.1", self.origin.port, tls=False)

    @property
    def here(self) -> Origin:
        return Origin("http", "127.0.0.1", self.origin.port)

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.origin.port}{path}"

    async def dial(self, address: str, port: int) -> Any:
        """Stand in for the way to the cache, whatever name it was looked up under."""
        return await anyio.connect_tcp("127.0.0.1", self.cache.port)

    def transport(self, **options: Any) -> Amp:
        chosen = {
            "cache_url": f"https://{CACHE}",
            "fronts": [f"{FRONT}"],
            "tls": self.cache.context(),
            **options,
        }
        made = Amp(f"https://{BROKER}/pages", PUBLIC_PEM, **chosen)
        made._dialer._connector = Straight(self)  # type: ignore[assignment]
        return made


class Straight:
    """Connects to the cache without looking up a name."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.names: list[str] = []

    async def connect(self, host: str, port: int, progress: Any) -> Any:
        self.names.append(host)
        return await self.world.dial(host, port)


@pytest.fixture(scope="module")
def running_origin() -> Iterator[Asked]:
    with origin_server() as origin:
        yield origin


@pytest.fixture(scope="module")
def running_cache() -> Iterator[AmpCache]:
    with amp_cache({}) as cache:
        yield cache


@pytest.fixture
async def world(
    running_origin: Asked, running_cache: AmpCache, anyio_backend: Any
) -> AsyncIterator[World]:
    origin, cache = running_origin, running_cache
    origin.asked.clear()
    cache.asked.clear()
    cache.fetched.clear()
    cache.kept.clear()
    cache.mood = Mood.FAIR
    allow = [f"http://127.0.0.1:{origin.port}"]
    async with AmpBroker(key=PRIVATE, allow=allow, path="/pages/") as broker:
        cache.hosts[BROKER] = broker.address
        yield World(cache, origin, broker)


@asynccontextmanager
async def route_of(world: World, **options: Any) -> AsyncIterator[Any]:
    async with LocalHost() as host:
        transport = world.transport(**options)
        await transport.start(host)
        route = await transport.prepare(world.here)
        try:
            yield route
        finally:
            await route.aclose()
            await transport.aclose()
        assert transport.status().details["connections"] == 0


async def ask(
    world: World,
    route: Any,
    method: str = "GET",
    path: str = "/",
    library: Any = httpx,
    **more: Any,
) -> Any:
    response = await route.handle(library.Request(method, world.url(path), **more))
    try:
        await response.aread()
    finally:
        await response.aclose()
    return response


async def test_conformance(world: World) -> None:
    async def echo(route: Any) -> None:
        assert (await ask(world, route)).text == "GET "

    report = await check_request_transport(
        world.transport,
        ask=echo,
        target=world.target,
        unserved_target=Target("fe80::1%lo", 80),
        secrets=[PRIVATE_PEM],
        passes=1,
    )
    assert report.sweep is not None
    assert report.sweep.cancelled > 0


@LIBRARIES
@pytest.mark.parametrize("fronts", [[], [FRONT]])
async def test_a_request_through_cache_and_broker(
    world: World, library: Any, fronts: list[str]
) -> None:
    async with route_of(world, fronts=fronts) as route:
        response = await ask(
            world, route, "POST", "/hello?x=1", library=library, content=b"body",
            headers={"X-Own": "1", "Connection": "x-gone", "X-Gone": "1"},
        )  # fmt: skip
        names = route._dialer._connector.names
    assert isinstance(response, library.Response)
    assert response.text == "POST body"
    method, path, body, fields = world.origin.asked[-1]
    assert (method, path, body) == ("POST", "/hello?x=1", b"body")
    assert fields["X-Own"] == "1"
    assert "X-Gone" not in fields
    assert names == (fronts or [f"amp-broker-example-com.{CACHE}"])
    (host, _, _), *_ = world.cache.asked
    assert host == f"amp-broker-example-com.{CACHE}"
    assert "hello" not in world.cache.fetched[0]


async def test_each_request_is_a_page_of_its_own(world: World) -> None:
    async with route_of(world) as route:
        for _ in range(3):
            await ask(world, route)
    assert len(set(world.cache.fetched)) == 3
    assert [kept for *_, kept in world.cache.asked] == [False] * 3


async def test_a_page_that_is_fetched_again_is_performed_once(world: World) -> None:
    world.cache.mood = Mood.FETCHES_TWICE
    async with route_of(world) as route:
        assert (await ask(world, route, "POST", content=b"x")).text == "POST x"
    assert len(world.cache.fetched) == 2
    assert len(world.origin.asked) == 1


@pytest.mark.parametrize(
    ("mood", "words"),
    [
        (Mood.REDIRECTS, "redirect past itself"),
        (Mood.REDIRECTS_SILENTLY, "redirect past itself"),
        (Mood.TEARS, "torn|no answer of the broker"),
        (Mood.FORGES, "no answer of the broker"),
        (Mood.ENDLESS, "more than"),
        (Mood.HANGS_UP, "closed"),
    ],
)
async def test_what_a_cache_may_do_to_a_page(world: World, mood: Mood, words: str) -> None:
    world.cache.mood = mood
    async with route_of(world) as route:
        with pytest.raises(TransportError, match=words):
            await ask(world, route, "POST", content=b"x")
        assert len(world.origin.asked) == 1  # and was not sent again
        world.cache.mood = Mood.FAIR
        assert (await ask(world, route)).status_code == 200


async def test_a_get_is_tried_again(world: World) -> None:
    world.cache.mood = Mood.HANGS_UP
    async with route_of(world) as route:
        with pytest.raises(TransportError):
            await ask(world, route)
    assert len(set(world.cache.fetched)) == 3


async def test_a_broker_that_is_gone_is_a_404(world: World) -> None:
    async with route_of(world) as route:
        world.cache.hosts[BROKER] = world.broker.address
        route._broker.place = type(route._broker.place)(
            "https", route._broker.place.host, 443, f"/c/s/{BROKER}/elsewhere/"
        )
        with pytest.raises(NotUsable, match="404"):
            await ask(world, route)


async def test_a_wrong_key_is_refused(world: World) -> None:
    stranger = public_key_of(generate_key())
    transport = Amp(
        f"https://{BROKER}/pages", stranger, cache_url=f"https://{CACHE}", tls=world.cache.context()
    )
    transport._dialer._connector = Straight(world)  # type: ignore[assignment]
    route = await transport.prepare(world.here)
    with pytest.raises(NotUsable, match="404"):  # the broker's 400, as a cache tells it
        await ask(world, route)
    await route.aclose()
    assert world.origin.asked == []


async def test_what_is_not_on_the_list_is_not_asked(world: World) -> None:
    other = f"http://127.0.0.1:{free_port()}"
    port = int(other.rpartition(":")[2])
    async with LocalHost() as host:
        transport = world.transport()
        await transport.start(host)
        route = await transport.prepare(Origin("http", "127.0.0.1", port))
        with pytest.raises(TargetRefused, match="not on its list"):
            await route.handle(httpx.Request("GET", f"{other}/"))
        await route.aclose()
        await transport.aclose()


async def test_an_origin_that_is_down_is_told_apart(world: World) -> None:
    port = free_port()
    async with AmpBroker(key=PRIVATE, allow=[f"http://127.0.0.1:{port}"], path="/pages") as broker:
        world.cache.hosts[BROKER] = broker.address
        route = await world.transport().prepare(Origin("http", "127.0.0.1", port))
        with pytest.raises(TargetRefused, match="could not be asked"):
            await route.handle(httpx.Request("GET", f"http://127.0.0.1:{port}/"))
        await route.aclose()


@pytest.mark.parametrize("status", [204, 403, 503])
async def test_the_origins_own_word_comes_through(world: World, status: int) -> None:
    async with route_of(world) as route:
        response = await ask(world, route, path=f"/status/{status}")
    assert response.status_code == status


async def test_a_redirect_is_left_to_who_asked(world: World) -> None:
    async with route_of(world) as route:
        response = await ask(world, route, path="/redirect")
    assert response.status_code == 302
    assert len(world.origin.asked) == 1


async def test_an_answer_that_is_too_long_is_said_to_be(world: World) -> None:
    allow = [f"http://127.0.0.1:{world.origin.port}"]
    async with AmpBroker(key=PRIVATE, allow=allow, path="/pages", max_response=1000) as broker:
        world.cache.hosts[BROKER] = broker.address
        async with route_of(world) as route:
            for path in ("/large", "/endless"):
                with pytest.raises(TargetRefused):
                    await ask(world, route, path=path)


async def test_large_answers_come_whole(world: World) -> None:
    async with route_of(world) as route:
        response = await ask(world, route, path="/large")
    assert response.content == bytes(range(256)) * 4096


@pytest.mark.parametrize("max_url", [2000, 8000, 16_000])
async def test_the_largest_request_that_always_fits(world: World, max_url: int) -> None:
    """The bound of the traits holds whatever a request is made of, and is no more careful than it has to be."""
    limit = world.transport(max_url=max_url).traits.max_request_bytes
    assert limit is not None
    async with route_of(world, max_url=max_url) as route:
        longest = 0
        for fields in ({}, {"X-Long": "v" * (limit // 3)}, {f"X-{n}": "abcdef" for n in range(8)}):
            bare = httpx.Request("POST", world.url(), headers=fields, content=b"")
            room = limit - size_of(bare) - 4
            if room < 0:
                continue
            request = httpx.Request("POST", world.url(), headers=fields, content=b"b" * room)
            if max_url <= 8000:
                response = await route.handle(request)
                await response.aclose()
                assert response.status_code == 200
                longest = max(longest, world.cache.asked[-1][1])
        with pytest.raises(LocalProtocolError, match="characters"):
            await ask(world, route, "POST", content=b"b" * max_url)
    if max_url <= 8000:
        assert max_url - 700 < longest < max_url


def size_of(request: httpx.Request) -> int:
    """Return its bytes as HTTP/1.1 writes them, as racer.http counts."""
    line = len(request.method) + len(request.url.raw_path) + len("  HTTP/1.1\r\n")
    return line + sum(len(n) + len(v) + 4 for n, v in request.headers.raw) + 2


async def test_headers_count(world: World) -> None:
    """X12: a small body with 8 KB of headers."""
    async with route_of(world) as route:
        with pytest.raises(LocalProtocolError, match="with its headers"):
            await ask(world, route, headers={"X-Big": "x" * 8000})
        assert world.cache.asked == []
        assert (await ask(world, route)).status_code == 200


async def test_a_door_that_stays_shut_is_passed_by(world: World) -> None:
    async with LocalHost() as host:
        transport = world.transport(fronts=["shut.example.net", FRONT])

        class Shut(Straight):
            async def connect(self, host: str, port: int, progress: Any) -> Any:
                self.names.append(host)
                if host.startswith("shut"):
                    raise ConnectionRefusedError
                return await self.world.dial(host, port)

        straight = transport._dialer._connector = Shut(world)  # type: ignore[assignment]
        await transport.start(host)
        for _ in range(4):
            route = await transport.prepare(world.here)
            await ask(world, route)
            await route.aclose()
        assert straight.names.count("shut.example.net") <= 1
        assert straight.names.count(FRONT) == 4
        await transport.aclose()
        with pytest.raises(TransportError, match="closed"):
            await transport.prepare(world.here)


async def test_a_door_with_a_wrong_certificate_is_not_used(world: World) -> None:
    transport = world.transport(fronts=["other.example.net"])
    with pytest.raises(TransportError, match="TLS failed") as caught:
        await transport.prepare(world.here)
    assert caught.value.error_type == "certificate_invalid"
    assert world.cache.asked == []


async def test_without_a_cache_the_broker_itself_is_asked(world: World) -> None:
    _, port = world.broker.address
    transport = Amp(f"http://localhost:{port}/pages/", PUBLIC_PEM, cache_url=None)
    route = await transport.prepare(world.here)
    assert (await ask(world, route)).text == "GET "
    await route.aclose()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cache_url": "ftp://x"}, "cache_url"),
        ({"fronts": "x"}, "list of names"),
        ({"fronts": [1]}, "list of names"),
        ({"fronts": ["a b"]}, "a b"),
        ({"max_url": 100}, "max_url"),
        ({"allow": []}, "1 to 1000"),
        ({"allow": ["example.com"]}, "no origin"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Amp("https://broker.example.com", PUBLIC_PEM, **options)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "broker.example.com",
        "https://",
        "https://u:p@x.example",
        "https://x.example/?q",
        "https://x.example/\r\n",
        "https://x.example:0/",
        5,
    ],
)
def test_urls_that_cannot_be(url: Any) -> None:
    with pytest.raises(ConfigError, match="broker_url") as caught:
        Amp(url, PUBLIC_PEM)
    assert "u:p" not in str(caught.value)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        PRIVATE_PEM,
    ],
    ids=["empty", "junk", "private"],
)
def test_keys_that_cannot_be(key: str) -> None:
    with pytest.raises(ConfigError, match="public_key"):
        Amp("https://broker.example.com", key)


def test_what_is_served() -> None:
    amp = Amp("https://broker.example.com", PUBLIC_PEM, allow=["https://*.example.com"])
    assert amp.serves(Target("api.example.com")) is None
    assert "does not serve" in (amp.serves(Target("example.org")) or "")
    assert "interface" in (amp.serves(Target("fe80::1%lo", 443)) or "")


def test_made_from_a_configuration() -> None:
    options = {
        "broker_url": "https://broker.example.com",
        "public_key": PUBLIC_PEM,
        "cache_url": "",
    }
    assert make(MakeContext(name="pages", options=options)).name == "pages"
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "broker_url: missing"),
        ({"broker_url": 1}, "must be a text"),
        ({"broker_url": "https://x.example"}, "public_key: missing"),
        ({**options, "front": []}, "did you mean 'fronts'"),
    ]
    for given, words in wrong:
        with pytest.raises(ConfigError, match=words):
            make(MakeContext(name="pages", options=given))


def test_no_key_is_shown() -> None:
    body = "".join(PUBLIC_PEM.splitlines()[1:-1])
    broker = AmpBroker(key=PRIVATE_PEM, allow=["https://example.com"])
    assert base64.b64decode(body)
    assert body not in repr(Amp("https://broker.example.com", PUBLIC_PEM))
    assert PRIVATE_PEM.splitlines()[1] not in repr(vars(broker))
