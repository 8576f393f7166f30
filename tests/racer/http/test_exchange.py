"""One request over several routes: when it goes on, when it stops, and what its caller gets (H1 to H4, H6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest

from racer import Entrant
from racer.errors import AllAttemptsFailed, AttemptTimeout, NetworkError, NoTransports
from racer.http import RequestFailed
from racer.http._messages import Origin as Origin_
from tests.racer.http.origin import MemoryWay, Origin
from tests.racer.http.web import URL, Web, answers, hangs_up, never

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.racer.http.origin import Talk

pytestmark = pytest.mark.virtual_time

PROTOCOLS = pytest.mark.parametrize("protocol", ["HTTP/1.1", "HTTP/2"])
SAFE = ["GET", "HEAD", "OPTIONS", "TRACE"]
UNSAFE = ["POST", "PUT", "PATCH", "DELETE"]
MARKED = {"racer": {"idempotent": True}}


# --- going on (H2) --------------------------------------------------------------------------------


@PROTOCOLS
@pytest.mark.parametrize("method", SAFE)
async def test_a_safe_request_goes_on_after_a_5xx(method: str, protocol: str) -> None:
    ways = {"a": answers(502, b"bad"), "b": answers(200, b"good")}
    async with Web(ways, delays={"b": 1.0}, protocol=protocol) as web:
        response = await web.request(method)
        assert response.status_code == 200
        assert response.extensions["racer"].transport_name == "b"
        assert web.asked() == {"a": 1, "b": 1}
        assert anyio.current_time() == 0  # nothing else ran: nobody waits for the stagger


@PROTOCOLS
async def test_a_safe_request_goes_on_after_a_broken_connection(protocol: str) -> None:
    ways = {"a": hangs_up, "b": answers(200)}
    async with Web(ways, protocol=protocol) as web:
        assert (await web.get()).status_code == 200
        assert web.asked() == {"a": 1, "b": 1}


@pytest.mark.parametrize("method", UNSAFE)
@pytest.mark.parametrize(("marked", "status"), [(True, 200), (False, 502)])
async def test_another_goes_on_only_when_it_is_marked(
    method: str, marked: bool, status: int
) -> None:
    ways = {"a": answers(502), "b": answers(200)}
    extensions = {"racer": {"idempotent": marked}}
    async with Web(ways) as web:
        response = await web.request(method, content=b"body", extensions=extensions)
        assert response.status_code == status
        assert web.asked() == {"a": 1, "b": int(marked)}


@PROTOCOLS
async def test_an_unsafe_request_that_may_have_left_is_the_callers(protocol: str) -> None:
    ways = {"a": hangs_up, "b": answers(200)}
    async with Web(ways, protocol=protocol) as web:
        with pytest.raises(httpx.TransportError, match=r"^a: "):
            await web.post(content=b"once")
        assert web.asked() == {"a": 1, "b": 0}


@pytest.mark.parametrize("status", [200, 204, 301, 304, 400, 404, 422, 429, 499])
async def test_everything_but_a_5xx_is_final(status: int) -> None:
    async with Web({"a": answers(status), "b": answers(200)}) as web:
        assert (await web.get()).status_code == status
        assert web.connects()["b"] <= 1
        assert web.asked() == {"a": 1, "b": 0}


async def test_which_statuses_may_be_the_routes_fault_is_the_callers_choice() -> None:
    ways = {"a": answers(403), "b": answers(200)}
    async with Web(ways, retry_statuses={403}) as web:
        assert (await web.get()).status_code == 200
    async with Web({"a": answers(503), "b": answers(200)}, retry_statuses=()) as web:
        assert (await web.get()).status_code == 503


async def test_the_newest_5xx_comes_back_when_nothing_better_does() -> None:
    ways = {"a": answers(502, b"from a"), "b": answers(503, b"from b"), "c": None}
    async with Web(ways) as web:
        response = await web.get()
        assert (response.status_code, response.content) == (503, b"from b")
        assert response.extensions["racer"].transport_name == "b"
        assert web.asked() == {"a": 1, "b": 1}


async def test_two_routes_with_the_same_5xx_are_the_servers_own_word() -> None:
    ways = {name: answers(503, name.encode()) for name in "abcd"}
    async with Web(ways, delays={"c": 8.0, "d": 9.0}) as web:
        assert (await web.get()).content == b"b"
        assert web.asked() == {"a": 1, "b": 1, "c": 0, "d": 0}
        # Nor is either of them blamed for it.
        assert web.engine.memory.doubted(Origin_("http", "origin.example", 80), 0) == frozenset()


async def test_a_held_body_is_closed_and_never_read() -> None:
    async def endless(talk: Talk) -> None:
        await talk.begin(502, {"content-type": "text/plain"}, False)
        while True:
            await talk.send(b"x" * 65536)

    async with Web({"a": endless, "b": answers(200)}) as web:
        assert (await web.get()).status_code == 200
        assert anyio.current_time() == 0


# --- one at a time (H1) ---------------------------------------------------------------------------


@PROTOCOLS
async def test_one_request_is_on_the_wire_at_a_time(protocol: str) -> None:
    on_the_wire = 0

    async def answer(talk: Talk) -> None:
        nonlocal on_the_wire
        on_the_wire += 1
        assert on_the_wire == 1
        await anyio.sleep(5.0)
        on_the_wire -= 1
        await talk.respond(502 if talk.wire.origin is web.origins["a"] else 200)

    async with Web({"a": answer, "b": answer, "c": answer}, protocol=protocol) as web:
        assert (await web.get()).status_code == 200
        assert web.asked() == {"a": 1, "b": 1, "c": 0}
        assert anyio.current_time() == 10.0


# --- time (H4) ------------------------------------------------------------------------------------


@PROTOCOLS
async def test_a_route_that_says_nothing_has_15_seconds(protocol: str) -> None:
    async with Web({"a": never, "b": answers(200)}, protocol=protocol) as web:
        assert (await web.get()).status_code == 200
        assert anyio.current_time() == 15.0


@PROTOCOLS
async def test_or_the_clients_own_read_timeout_if_that_is_shorter(protocol: str) -> None:
    async with Web({"a": never, "b": answers(200)}, protocol=protocol, timeout=4.0) as web:
        assert (await web.get()).status_code == 200
        assert anyio.current_time() == 4.0


@PROTOCOLS
async def test_the_last_route_has_all_the_time_the_client_gives(protocol: str) -> None:
    async def late(talk: Talk) -> None:
        await anyio.sleep(100.0)
        await talk.respond(200)

    async with Web({"a": late}, protocol=protocol) as web:
        assert (await web.get()).status_code == 200
        assert anyio.current_time() == 100.0
    async with Web({"a": never, "b": late}, protocol=protocol) as web:
        began = anyio.current_time()
        assert (await web.get()).status_code == 200
        assert anyio.current_time() - began == 115.0


async def test_headers_that_trickle_do_not_stretch_it() -> None:
    async def trickle(talk: Talk) -> None:
        for byte in b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n":
            await anyio.sleep(1.0)
            await talk.wire.stream.send(bytes([byte]))

    async with Web({"a": trickle, "b": answers(200)}) as web:
        assert (await web.get()).extensions["racer"].transport_name == "b"
        assert anyio.current_time() == 15.0


async def test_a_post_waits_as_long_as_its_own_timeouts_say() -> None:
    async with Web({"a": never, "b": answers(200)}, timeout=60.0) as web:
        with pytest.raises(httpx.ReadTimeout, match=r"^a: no response in time$") as caught:
            await web.post(content=b"x")
        assert isinstance(caught.value.__cause__, AttemptTimeout)
        assert anyio.current_time() == 60.0


async def test_a_held_5xx_does_not_outrank_a_timeout_of_the_route_that_last_worked() -> None:
    slow = False

    async def sometimes(talk: Talk) -> None:
        if slow:
            await anyio.sleep_forever()
        await talk.respond(200)

    async with Web({"good": sometimes, "bad": answers(502)}, delays={"bad": 0.3}) as web:
        assert (await web.get()).status_code == 200
        slow = True
        with pytest.raises(httpx.ReadTimeout, match="good: no response in time"):
            await web.get()
        assert web.asked() == {"good": 2, "bad": 1}
    # A route that never worked is another matter.
    async with Web({"silent": never, "bad": answers(502)}) as web:
        assert (await web.get()).status_code == 502


async def test_the_connect_timeout_bounds_a_race() -> None:
    timeout = httpx.Timeout(None, connect=3.0)
    ways = {"a": MemoryWay("a", Origin(), delay=10.0)}
    async with Web(ways, timeout=timeout) as web:
        with pytest.raises(httpx.ConnectTimeout, match=r"a: .*not usable within 3 s"):
            await web.get()
        assert anyio.current_time() == 3.0


# --- before the first byte (H3) -------------------------------------------------------------------


@pytest.mark.parametrize("method", SAFE + UNSAFE)
async def test_every_request_falls_back_while_connecting(method: str) -> None:
    async with Web({"a": None, "b": answers(200)}) as web:
        assert (await web.request(method)).status_code == 200
        assert web.connects() == {"a": 1, "b": 1}


async def test_a_streamed_body_survives_failed_connects_unread() -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"once, "
        yield b"and whole"

    async def echo(talk: Talk) -> None:
        await talk.respond(200, await talk.body())

    async with Web({"a": None, "b": echo}) as web:
        assert (await web.post(content=body())).content == b"once, and whole"


# --- errors (H8) ----------------------------------------------------------------------------------


async def test_when_nobody_connects_the_error_is_the_races() -> None:
    async with Web({"a": None, "b": None}) as web:
        with pytest.raises(httpx.ConnectError, match=r"a: .*refused.*; b: .*refused") as caught:
            await web.get()
        cause = caught.value.__cause__
        assert isinstance(cause, AllAttemptsFailed)
        assert cause.find(ConnectionRefusedError) is not None
        assert caught.value.request.url == URL


async def test_every_route_is_named_whatever_it_failed_of() -> None:
    async with Web({"a": hangs_up, "b": None, "c": never}, timeout=2.0) as web:
        with pytest.raises(httpx.ReadTimeout) as caught:
            await web.get()
        for told in ("a: ", "b: ", "c: no response in time"):
            assert told in str(caught.value)
        cause = caught.value.__cause__
        assert isinstance(cause, RequestFailed)
        assert cause.find(AttemptTimeout) is not None
        assert cause.find(NetworkError) is not None


async def test_when_nobody_serves_the_target_nothing_is_dialed() -> None:
    from racer.testing import ScriptedTransport

    picky = ScriptedTransport("picky", serves="only other hosts")
    async with Web(entrants=[picky]) as web:
        with pytest.raises(httpx.ConnectError, match="picky: only other hosts") as caught:
            await web.get()
        assert isinstance(caught.value.__cause__, NoTransports)
        assert picky.attempts == []


# --- memory (H6) ----------------------------------------------------------------------------------


async def test_after_a_5xx_the_next_post_takes_another_route() -> None:
    """The first trap of the prototype: the broken route's connection was picked for the POST."""
    ways = {"a": answers(502), "b": answers(200)}
    async with Web(ways, delays={"b": 5.0}) as web:
        assert (await web.get()).status_code == 200
        assert (await web.post(content=b"x")).status_code == 200
        assert web.asked() == {"a": 1, "b": 2}
        assert web.connects() == {"a": 1, "b": 1}


async def test_a_route_in_doubt_comes_last_in_a_race_too_and_not_for_ever() -> None:
    ways = {"a": answers(502), "b": answers(200)}
    limits = httpx.Limits(max_keepalive_connections=0)
    async with Web(ways, delays={"b": 5.0}, limits=limits) as web:
        for _ in range(3):
            assert (await web.get()).status_code == 200
        assert web.asked() == {"a": 1, "b": 3}
        await anyio.sleep(60.0)
        assert (await web.get()).status_code == 200
        assert web.asked() == {"a": 2, "b": 4}


async def test_a_route_in_doubt_is_still_better_than_none() -> None:
    fine = False

    async def recovers(talk: Talk) -> None:
        await talk.respond(200 if fine else 502)

    async with Web({"a": recovers, "b": answers(200)}) as web:
        assert (await web.get()).extensions["racer"].transport_name == "b"
        fine = True
        web.ways["b"].origin = None
        web.engine.pool.close()
        web.engine.pool._closed = False
        assert (await web.get()).extensions["racer"].transport_name == "a"


async def test_a_route_that_hung_is_not_asked_first_again() -> None:
    limits = httpx.Limits(max_keepalive_connections=0)
    async with Web({"a": never, "b": answers(200)}, limits=limits) as web:
        await web.get()
        await web.get()
        assert anyio.current_time() == 15.0
        assert web.asked() == {"a": 1, "b": 2}


async def test_a_request_over_a_kept_connection_makes_no_race_and_no_span() -> None:
    from tests.racer.scene import Scene

    scene = Scene(MemoryWay("a", None))
    async with Web({"a": answers(200)}, tracer_provider=scene.provider) as web:
        for reused in (False, True, True):
            via = (await web.get()).extensions["racer"]
            assert via.reused == reused
            assert via.report.winner == "a"
        assert len(scene.spans.named("racer.dial")) == 1
        assert web.connects() == {"a": 1}
    await scene.dialer.aclose()


# --- the race goes on where it stood --------------------------------------------------------------


async def test_an_attempt_under_way_is_the_cheap_next_route() -> None:
    slow = MemoryWay("slow", Origin(answers(200)), delay=1.0)
    third = MemoryWay("third", Origin(answers(200)))

    async def fails_late(talk: Talk) -> None:
        await anyio.sleep(2.0)
        await talk.respond(500)

    ways = {"fast": fails_late, "slow": slow, "third": third}
    async with Web(ways, delays={"third": 8.0}) as web:
        response = await web.get()
        assert response.extensions["racer"].transport_name == "slow"
        assert anyio.current_time() == 2.0  # it had been ready for a second
        assert web.connects() == {"fast": 1, "slow": 1, "third": 0}


async def test_a_5xx_survives_later_routes_that_time_out() -> None:
    ways = {"a": answers(500, b"held"), "b": MemoryWay("b", Origin(), delay=99.0)}
    async with Web(ways, timeout=httpx.Timeout(None, connect=5.0)) as web:
        response = await web.get()
        assert (response.status_code, response.content) == (500, b"held")
        assert anyio.current_time() == 5.0


@PROTOCOLS
async def test_a_route_that_broke_in_a_body_comes_last_for_the_next_request(protocol: str) -> None:
    async def breaks(talk: Talk) -> None:
        await talk.begin(200, {"content-length": "10"}, False)
        await talk.send(b"half")
        await anyio.aclose_forcefully(talk.wire.stream)

    ways = {"a": breaks, "b": answers(200, b"whole")}
    async with Web(ways, delays={"b": 1.0}, protocol=protocol) as web:
        with pytest.raises(httpx.TransportError, match=r"^a: "):
            await web.get()
        assert (await web.get()).content == b"whole"
        assert web.asked() == {"a": 1, "b": 1}


async def test_a_small_pool_has_room_for_a_fallback() -> None:
    """A held response must not keep the only place from the request that holds it."""
    limits = httpx.Limits(max_connections=1)
    async with Web({"a": answers(502, b"x" * 100), "b": answers(200)}, limits=limits) as web:
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(web.get)
        assert web.asked()["b"] == 5


async def test_tiers_and_delays_are_those_of_the_dialer() -> None:
    last = Origin(answers(200, b"last resort"))
    async with last:
        entrants: list[Any] = [
            MemoryWay("a", None),
            Entrant(MemoryWay("z", last), tier=1),
        ]
        async with Web(entrants=entrants) as web:
            assert (await web.get()).content == b"last resort"
