"""A request's way through fronts in exact times: patience, second chances, idle lines, and one chance only."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest

from racer.abc import Origin
from racer.errors import AttemptTimeout, NetworkError, TransportBusy, TransportError
from racer.testing import cancel_everywhere
from tests.transports.fronting.edges import HOST, Edge, Edges, ok
from tests.transports.fronting.lists import catalog, provider
from transports.fronting import _dialing, _route

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.virtual_time


@asynccontextmanager
async def edges(counts: dict[str, int], **changes: Any) -> AsyncIterator[Edges]:
    """Run edges; when they end, every stream has to be closed."""
    async with anyio.create_task_group() as group:
        made = Edges(group, counts, **changes)
        try:
            yield made
        finally:
            group.cancel_scope.cancel()
    made.ledger.assert_all_closed()


def request(method: str = "GET", **more: Any) -> httpx.Request:
    return httpx.Request(method, f"https://{HOST}/", **more)


async def ask(route: Any, method: str = "GET", **more: Any) -> httpx.Response:
    response: httpx.Response = await route.handle(request(method, **more))
    try:
        await response.aread()
    finally:
        await response.aclose()
    return response


async def hangs(edge: Edge, stream: Any, request: str) -> None:
    await anyio.sleep_forever()


async def hangs_up(edge: Edge, stream: Any, request: str) -> None:
    await stream.aclose()


def says(status: int) -> Any:
    async def behave(edge: Edge, stream: Any, request: str) -> None:
        await stream.send(ok(b"no", status=status))

    return behave


async def test_a_front_that_hangs_with_a_get_is_given_fifteen_seconds() -> None:
    async with edges({"one": 1, "two": 1}) as world:
        route = await world.route()
        used = next(edge for edge in world if edge.name == route._idle[0].front.domain)
        used.behave = hangs
        assert (await ask(route)).text == "ok"
        assert anyio.current_time() == _route.HEAD_TIMEOUT
        assert len(used.seen) == 1
        await route.aclose()


async def test_a_post_waits_as_long_as_its_caller_does() -> None:
    async with edges({"one": 1, "two": 1}) as world:
        route = await world.route()
        for edge in world:
            edge.behave = hangs
        with pytest.raises(AttemptTimeout, match="no answer within 40 s"):
            await ask(route, "POST", extensions={"timeout": {"read": 40.0}})
        assert anyio.current_time() == 40
        assert sum(len(edge.seen) for edge in world) == 1
        await route.aclose()


async def test_a_get_that_nobody_answers_has_six_tries() -> None:
    async with edges({"one": 10, "two": 10}) as world:
        for edge in world:
            edge.behave = hangs_up
        route = await world.route()
        with pytest.raises(NetworkError, match="came through no front") as caught:
            await ask(route)
        assert isinstance(caught.value.__cause__, ExceptionGroup)
        assert len(caught.value.__cause__.exceptions) == 6
        assert sum(len(edge.seen) for edge in world) == 6
        assert max(len(edge.seen) for edge in world) == 1
        await route.aclose()


async def test_the_last_refusal_is_the_answer_when_nothing_better_comes() -> None:
    async with edges({"one": 1, "two": 1}) as world:
        for name, status in (("one", 403), ("two", 503)):
            for edge in world.of(name):
                edge.behave = says(status)
        route = await world.route()
        first = route._idle[0].front.provider
        assert (await ask(route)).status_code == {"one": 503, "two": 403}[first]
        assert [len(edge.seen) for edge in world] == [1, 1]
        await route.aclose()


async def test_a_refusal_is_held_over_a_failure_and_dropped_for_an_answer() -> None:
    async with edges({"one": 1, "two": 1, "three": 1}) as world:
        route = await world.route()
        order = [route._idle[0].front.domain]
        plan = iter([says(503), hangs_up, says(200)])

        async def behave(edge: Edge, stream: Any, request: str) -> None:
            order.append(edge.name)
            await next(plan)(edge, stream, request)

        for edge in world:
            edge.behave = behave
        assert (await ask(route)).status_code == 200
        assert len(set(order)) == 3
        await route.aclose()


async def test_what_the_only_network_says_twice_is_no_fault_of_its_fronts() -> None:
    """An origin's outage must not make every front of the one network there is rest."""
    async with edges({"one": 8}) as world:
        for edge in world:
            edge.behave = says(503)
        transport = world.fronting()
        route = await transport.prepare(Origin("https", HOST, 443))
        for _ in range(6):
            assert (await ask(route)).status_code == 503
        assert transport.status().details["fronts.resting"] == 0
        assert transport.status().health == "ok"
        for edge in world:
            edge.behave = says(200)
        assert (await ask(route)).status_code == 200
        await route.aclose()


async def test_a_refusal_over_a_line_that_was_used_goes_to_another_front() -> None:
    async with edges({"one": 2}) as world:
        route = await world.route()
        await ask(route)
        used = next(edge for edge in world if edge.seen)
        used.behave = says(403)
        assert (await ask(route)).status_code == 200
        assert [len(edge.seen) for edge in world if edge is not used] == [1]
        assert len(used.seen) == 2
        await route.aclose()


async def test_a_line_that_was_prepared_long_ago_is_not_trusted_either() -> None:
    async with edges({"one": 1}) as world:
        route = await world.route()
        await anyio.sleep(6)
        await ask(route, "POST", content=b"x")
        (edge,) = world
        assert len(edge.dialed) == 2
        await route.aclose()


async def test_statuses_that_the_list_names_are_refusals_too() -> None:
    async with edges({"one": 1, "two": 1}, validator={"rejectstatus": [418]}) as world:
        for edge in world.of("one"):
            edge.behave = says(418)
        route = await world.route()
        assert (await ask(route)).status_code == 200
        await route.aclose()


@pytest.mark.parametrize(
    ("method", "idle", "again"),
    [("GET", 29.0, False), ("GET", 31.0, True), ("POST", 4.0, False), ("POST", 6.0, True)],
)
async def test_a_line_that_was_idle_for_long_is_not_trusted(
    method: str, idle: float, again: bool
) -> None:
    """An edge closes what is idle; a request that can be sent only once would be lost with the line."""
    async with edges({"one": 1}) as world:
        route = await world.route()
        await ask(route)
        await anyio.sleep(idle)
        await ask(route, method)
        (edge,) = world
        assert len(edge.dialed) == 1 + again
        await route.aclose()


async def test_an_edge_that_closed_an_idle_line_pays_nothing_for_it() -> None:
    async with edges({"one": 1}) as world:
        transport = world.fronting()

        route = await transport.prepare(Origin("https", HOST, 443))
        await ask(route)
        (edge,) = world
        edge.behave = hangs_up
        plan = iter([hangs_up, says(200)])

        async def behave(edge: Edge, stream: Any, request: str) -> None:
            await next(plan)(edge, stream, request)

        edge.behave = behave
        assert (await ask(route)).status_code == 200  # over a new line to the same front
        assert len(edge.dialed) == 2
        assert transport.status().details["fronts.resting"] == 0
        await route.aclose()


async def test_the_rest_of_an_answer_has_the_callers_patience() -> None:
    async def stalls(edge: Edge, stream: Any, request: str) -> None:
        await stream.send(ok(b"12345").replace(b"5\r\n\r\n12345", b"9\r\n\r\n12345"))
        await anyio.sleep_forever()

    async with edges({"one": 1}) as world:
        route = await world.route()
        (edge,) = world
        edge.behave = stalls
        response = await route.handle(request(extensions={"timeout": {"read": 7.0}}))
        with pytest.raises(AttemptTimeout, match="the rest of the answer"):
            await response.aread()
        await response.aclose()
        assert anyio.current_time() == 7
        await route.aclose()


async def test_a_slow_body_outlives_every_patience_of_the_connect() -> None:
    """X3: what was made for connecting does not cut an answer."""

    async def drips(edge: Edge, stream: Any, request: str) -> None:
        await stream.send(b"HTTP/1.1 200 X\r\nContent-Length: 10\r\n\r\n")
        for _ in range(10):
            await anyio.sleep(60)
            await stream.send(b"x")

    async with edges({"one": 1}) as world:
        route = await world.route()
        (edge,) = world
        edge.behave = drips
        assert (await ask(route)).content == b"x" * 10
        assert anyio.current_time() == 600
        await route.aclose()


async def test_cancelled_anywhere_nothing_stays_open_or_leased() -> None:
    """From the first vetting to the last octet, with a refusal held on the way."""
    async with edges({"one": 1, "two": 1}) as world:
        for edge in world.of("one"):
            edge.behave = says(503)
        made: list[Any] = []

        async def story() -> None:
            made.append(world.fronting())
            route = await made[-1].prepare(Origin("https", HOST, 443))
            try:
                await ask(route)
            finally:
                await route.aclose()

        async def verify() -> None:
            assert made[-1].status().details["connections"] == 0
            assert all(s.leases == 0 for s in made[-1]._pool._standings.values())
            assert all(g.leases == 0 for g in made[-1]._pool._graces.values())

        sweep = await cancel_everywhere(story, verify=verify, passes=0)
        assert sweep.cancelled >= 10


async def test_a_closed_route_asks_nobody() -> None:
    async with edges({"one": 1}) as world:
        route = await world.route()
        response = await route.handle(request())
        await route.aclose()
        await route.aclose()
        assert await response.aread() == b"ok"  # what is under way goes on
        await response.aclose()
        with pytest.raises(TransportError, match="closed"):
            await route.handle(request())
        assert "api.example.com" not in repr(route)


async def test_a_list_without_the_front_ends_its_lines() -> None:

    async with edges({"one": 1}) as world:
        transport = world.fronting()
        route = await transport.prepare(Origin("https", HOST, 443))
        assert transport._pool is not None
        transport._pool.replace(catalog(other=provider("other", 0), one=provider("one", 0, hostaliases={}), more=provider("more", 1, hostaliases={})))  # fmt: skip
        with pytest.raises(TransportError, match="no front left"):
            await ask(route)
        await route.aclose()


# --- the dial and the vetting -----------------------------------------------------------------


async def forever() -> None:
    await anyio.sleep_forever()


async def reset() -> None:
    raise ConnectionResetError(104, "Connection reset by peer")


async def vet_hangs(edge: Edge, stream: Any) -> None:
    await anyio.sleep_forever()


async def vet_is_long(edge: Edge, stream: Any) -> None:
    await stream.send(ok(bytes(200_000), status=202))


async def vet_closes(edge: Edge, stream: Any) -> None:
    await stream.send(ok(b"", status=202, Connection="close"))
    await stream.aclose()


async def vet_is_a_page(edge: Edge, stream: Any) -> None:
    await stream.send(ok(b"<html>blocked</html>"))


@pytest.mark.parametrize(
    ("change", "words", "seconds"),
    [
        ({"connects": forever}, "no connection within 5 s", _dialing.TCP_TIMEOUT),
        ({"connects": reset}, "Connection reset", 0.0),
        ({"handshakes": False}, "no TLS within 5 s", _dialing.TLS_TIMEOUT),
        ({"certificate": "other.example.org"}, "its certificate is not for", 0.0),
        ({"vet": vet_hangs}, "no answer to the vetting within 8 s", _dialing.VET_TIMEOUT),
        ({"vet": vet_is_a_page}, "answered with 200 and not with 202", 0.0),
    ],
)
async def test_what_may_go_wrong_on_the_way_to_a_front(
    change: dict[str, Any], words: str, seconds: float
) -> None:
    async with edges({"one": 1}) as world:
        (edge,) = world
        for name, value in change.items():
            setattr(edge, name, value)
        with pytest.raises(TransportError, match=words):
            await world.route()
        assert anyio.current_time() == seconds
        assert edge.seen == []


@pytest.mark.parametrize("vet", [vet_closes, vet_is_long])
async def test_an_edge_may_end_the_connection_with_its_vetting(vet: Any) -> None:
    async with edges({"one": 1}) as world:
        (edge,) = world
        edge.vet = vet
        route = await world.route()
        assert (await ask(route)).text == "ok"
        assert len(edge.dialed) == 2
        await route.aclose()


async def test_without_a_test_page_the_certificate_is_the_proof() -> None:
    async with edges({"one": 1}, testurl=None) as world:
        (edge,) = world
        edge.vet = vet_hangs
        route = await world.route()
        assert (await ask(route)).text == "ok"
        await route.aclose()


async def test_no_more_sockets_than_allowed() -> None:
    async with edges({"one": 3}) as world:
        transport = world.fronting()
        transport._sockets._most = 2

        here = Origin("https", HOST, 443)
        routes = [await transport.prepare(here)]
        routes.append(await transport.prepare(here))
        with pytest.raises(TransportBusy):
            await transport.prepare(here)
        await routes.pop().aclose()
        routes.append(await transport.prepare(here))
        for route in routes:
            await route.aclose()
        assert transport.status().details["connections"] == 0
