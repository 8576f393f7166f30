"""Names of a cache: which is tried first, when the next begins, and what a request does over the line; in exact times."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest

from racer.abc import Origin
from racer.errors import (
    AttemptTimeout,
    LocalProtocolError,
    NetworkError,
    TransportBusy,
    TransportError,
)
from racer.testing import StreamLedger, cancel_everywhere, stream_pair
from tests.transports.amp.keys import PRIVATE, PUBLIC
from transports._net.tls import ClientContext
from transports.amp import _doors, _route
from transports.amp._armor import armor
from transports.amp._crypto import open_request, seal_answer
from transports.amp._doors import Door, DoorDialer, Doors
from transports.amp._messages import InnerRequest, InnerResponse
from transports.amp._route import AmpRoute, Broker
from transports.amp._urls import PREFIX, decode_path, read_base_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from anyio.abc import TaskGroup

pytestmark = pytest.mark.virtual_time

PLACE = read_base_url("http://pages.example.org/", "place")
HERE = Origin("https", "api.example.com", 443)


def page_for(head: bytes, status: int = 200, **fields: str) -> bytes:
    """Return what a cache answers with, a broker's page in it."""
    path = head.split()[1].decode()
    opened = open_request(decode_path(path.removeprefix(f"/{PREFIX}")), PRIVATE)
    asked = InnerRequest.from_json(opened.inner)
    answer = InnerResponse(status=200, body=f"{asked.method} {asked.url}".encode())
    page = armor(seal_answer(answer.to_json(), opened))
    extra = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(page)}\r\n{extra}\r\n".encode() + page


async def fair(stream: Any, head: bytes) -> None:
    await stream.send(page_for(head))


async def mute(stream: Any, head: bytes) -> None:
    await anyio.sleep_forever()


class World:
    """Doors in memory: how long each takes to open, if it does, and what is behind it."""

    def __init__(self, group: TaskGroup, opens: dict[str, float | None]) -> None:
        self.opens = opens
        self.behave: Callable[[Any, bytes], Awaitable[None]] = fair
        self.tried: list[tuple[float, str]] = []
        self.heads: list[bytes] = []
        self.ledger = StreamLedger()
        self._group = group
        self.doors = Doors([Door(name, 80, tls=False) for name in opens], random.Random(1))
        self.dialer = DoorDialer(self, ClientContext(), self.doors, most=8)  # type: ignore[arg-type]

    async def connect(self, host: str, port: int, progress: Any) -> Any:
        self.tried.append((anyio.current_time(), host))
        takes = self.opens[host]
        if takes is None:
            raise ConnectionRefusedError(111, "Connection refused")
        await anyio.sleep(takes)
        near, far = stream_pair(ledger=self.ledger)
        self._group.start_soon(self._serve, far)
        return near

    async def _serve(self, far: Any) -> None:
        try:
            while True:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += await far.receive()
                self.heads.append(head)
                await self.behave(far, head)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        finally:
            with anyio.CancelScope(shield=True):
                await far.aclose()

    async def route(self, **options: Any) -> AmpRoute:
        broker = Broker(PLACE, PUBLIC, max_url=options.pop("max_url", 8000))
        line = await self.dialer.dial()
        return AmpRoute(HERE, line, broker=broker, dialer=self.dialer, doors=self.doors)


@pytest.fixture
async def group(anyio_backend: Any) -> AsyncIterator[TaskGroup]:
    async with anyio.create_task_group() as made:
        yield made
        made.cancel_scope.cancel()


async def ask(route: AmpRoute, method: str = "GET", **more: Any) -> httpx.Response:
    response: httpx.Response = await route.handle(
        httpx.Request(method, "https://api.example.com/x", **more)
    )
    try:
        await response.aread()
    finally:
        await response.aclose()
    return response


async def test_the_next_begins_when_one_fails_or_takes_long(group: TaskGroup) -> None:
    world = World(group, {"shut": None, "slow": 100.0, "open": 0.5})
    world.doors._standings.sort(key=lambda s: ["shut", "slow", "open"].index(s.door.host))
    world.doors._rng = type("InOrder", (), {"sample": lambda self, items, count: list(items)})()
    line = await world.dialer.dial()
    assert [name for _, name in world.tried] == ["shut", "slow", "open"]
    assert [at for at, _ in world.tried] == [0.0, 0.0, 0.75]
    assert line.door.host == "open"
    assert anyio.current_time() == 1.25
    assert world.dialer.open == 1
    await line.aclose()
    await line.aclose()
    assert world.dialer.open == 0


async def test_what_failed_rests_and_comes_last(group: TaskGroup) -> None:
    world = World(group, {"one": None, "two": 0.0, "three": 0.0})
    now = 0.0
    first = world.doors._standings[0].door
    for number in range(8):
        world.doors.failed(first, now)
        rest = min(_doors.REST_MOST, _doors.REST_FIRST * 2**number)
        assert world.doors.order(now + rest - 1)[-1] == first
        heads = {world.doors.order(now + rest)[0] for _ in range(40)}
        assert first in heads
        now += rest
    world.doors.succeeded(first)
    assert first in {world.doors.order(now)[0] for _ in range(40)}


async def test_no_door_opens(group: TaskGroup) -> None:
    world = World(group, {"one": None, "two": 100.0})
    with pytest.raises(NetworkError, match="was not reached") as caught:
        await world.dialer.dial()
    assert isinstance(caught.value.__cause__, ExceptionGroup)
    assert len(caught.value.__cause__.exceptions) == 2
    assert anyio.current_time() in {_doors.TCP_TIMEOUT, _doors.TCP_TIMEOUT + _doors.STAGGER}
    assert world.dialer.open == 0


async def test_no_more_connections_than_allowed(group: TaskGroup) -> None:
    world = World(group, {"one": 0.0})
    lines = [await world.dialer.dial() for _ in range(8)]
    with pytest.raises(TransportBusy, match="limit is 8"):
        await world.dialer.dial()
    assert world.doors.order(0.0)[0].host == "one"
    assert world.doors._standings[0].failures == 0
    for line in lines:
        await line.aclose()


@pytest.mark.parametrize(
    ("method", "idle", "again"),
    [("GET", 29.0, 0), ("GET", 31.0, 1), ("POST", 4.0, 0), ("POST", 6.0, 1)],
)
async def test_a_line_that_was_idle_for_long_is_not_trusted(
    group: TaskGroup, method: str, idle: float, again: int
) -> None:
    world = World(group, {"one": 0.0})
    route = await world.route()
    assert (await ask(route)).text == "GET https://api.example.com/x"
    await anyio.sleep(idle)
    assert (await ask(route, method)).text.startswith(method)
    assert len(world.tried) == 1 + again
    await route.aclose()
    assert world.dialer.open == 0


async def test_a_cache_that_is_mute(group: TaskGroup) -> None:
    world = World(group, {"one": 0.0})
    world.behave = mute
    route = await world.route()
    with pytest.raises(AttemptTimeout, match="no answer within 60 s"):
        await ask(route, "POST", content=b"x")
    assert anyio.current_time() == _route.ANSWER_TIMEOUT
    with pytest.raises(AttemptTimeout, match="no answer within 5 s"):
        await ask(route, extensions={"timeout": {"read": 5.0}})
    assert anyio.current_time() == _route.ANSWER_TIMEOUT + 3 * 5  # a GET is tried three times
    assert len(world.heads) == 4
    await route.aclose()


async def test_a_body_that_comes_bit_by_bit(group: TaskGroup) -> None:
    class Parts:
        def __init__(self, count: int) -> None:
            self.left = count

        def __aiter__(self) -> Parts:
            return self

        async def __anext__(self) -> bytes:
            self.left -= 1
            if self.left < 0:
                raise StopAsyncIteration
            return b"x" * 100

    world = World(group, {"one": 0.0})
    route = await world.route()
    assert (await ask(route, "POST", content=Parts(10))).status_code == 200
    with pytest.raises(LocalProtocolError, match="characters"):
        await ask(route, "POST", content=Parts(100))
    with pytest.raises(LocalProtocolError, match="does not fit into a URL"):
        await ask(route, "POST", content=Parts(20_000))
    assert len(world.heads) == 1
    await route.aclose()


async def test_cancelled_anywhere_nothing_stays_open(group: TaskGroup) -> None:
    world = World(group, {"shut": None, "open": 0.1})

    async def story() -> None:
        route = await world.route()
        try:
            await ask(route)
            await ask(route, "POST", content=b"x")
        finally:
            await route.aclose()

    async def verify() -> None:
        assert world.dialer.open == 0

    sweep = await cancel_everywhere(story, verify=verify, passes=0)
    assert sweep.cancelled > 20


@pytest.mark.parametrize(
    ("url", "words"),
    [("https://other.example.com/", "was asked for"), ("http://api.example.com/", "was asked for")],
)
async def test_a_route_leads_to_one_origin(group: TaskGroup, url: str, words: str) -> None:
    world = World(group, {"one": 0.0})
    route = await world.route()
    with pytest.raises(LocalProtocolError, match=words):
        await route.handle(httpx.Request("GET", url))
    await route.aclose()
    await route.aclose()
    with pytest.raises(TransportError, match="closed"):
        await ask(route)
    assert "api.example.com" not in repr(route)
