"""What kindling promises about racing HTTP, statement by statement, and its traps, which we do not have.

The letters are those of the list in the project's notes: E eligibility, B budget, P tiers, S sending, H request clones,
R errors, N crashes, L the lazy search; K are traps. Left out, since they are kindling's own ways and not ours:
P3, P4 and E5 (its numbers and log lines), H1 and H3 (headers for the origin, which are trap K9), R4's wording, B1 (its two
budgets: a race has the dialer's, a body or not), L (proxyless is a room of its own).
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest

from racer import Entrant
from racer._roster import Recipe
from racer.abc import Traits
from racer.config import Configuration
from racer.errors import (
    AllAttemptsFailed,
    DialTimeout,
    NoTransports,
    RacerError,
    classify,
)
from racer.testing import (
    ScriptedRequestTransport,
    ScriptedTransport,
    fails,
    hangs,
    returns_none,
    wins,
)
from tests.racer.http.origin import MemoryWay, Origin, Talk
from tests.racer.http.web import URL, Web, answers, hangs_up, never

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.virtual_time

MARKED = {"racer": {"idempotent": True}}


async def by_request(request: Any) -> Any:
    return httpx.Response(200, content=b"by request")


def requests_only(name: str = "amp", script: Any = None, **traits: Any) -> ScriptedRequestTransport:
    return ScriptedRequestTransport(
        name, script or wins(), answer=by_request, traits=Traits(**traits)
    )


# --- eligibility ----------------------------------------------------------------------------------


async def test_e1_a_body_is_whole_on_every_route_and_its_own_error_is_told() -> None:
    bodies: list[bytes] = []

    async def note(talk: Talk) -> None:
        bodies.append(await talk.body())
        await talk.respond(502 if len(bodies) == 1 else 200)

    async with Web({"a": note, "b": note}) as web:
        await web.post(content=b"all of it", extensions=MARKED)
        assert bodies == [b"all of it"] * 2

    async def unreadable() -> AsyncIterator[bytes]:
        yield b"x"
        msg = "disk gone"
        raise OSError(msg)

    async with Web({"a": note}) as web:
        with pytest.raises(OSError, match="disk gone"):
            await web.post(content=unreadable())


@pytest.mark.parametrize(("extra", "fits"), [(0, True), (1, False)])
async def test_e2_a_request_as_large_as_the_limit_fits_and_one_byte_more_does_not(
    extra: int, fits: bool
) -> None:
    async with Web(entrants=[requests_only(max_request_bytes=1000)]) as web:
        head = web.client.build_request("POST", URL, content=bytes(100))
        line = len(b"POST / HTTP/1.1\r\n") + 2
        size = line + sum(len(k) + len(v) + 4 for k, v in head.headers.raw) + 100
        body = bytes(100 + 1000 - size + extra)
        if fits:
            assert (await web.post(content=body)).content == b"by request"
        else:
            with pytest.raises(httpx.ConnectError):
                await web.post(content=body)


@pytest.mark.parametrize(
    ("accept", "asked"), [("text/event-stream", "stream"), ("application/json", "amp")]
)
async def test_e3_an_event_stream_skips_who_cannot_stream(accept: str, asked: str) -> None:
    async with Origin(answers(200)) as origin:
        entrants: list[Any] = [
            requests_only(streaming=False),
            Entrant(MemoryWay("stream", origin), start_delay=1.0),
        ]
        async with Web(entrants=entrants) as web:
            response = await web.get(headers={"Accept": accept})
            assert response.extensions["racer"].transport_name == asked


async def test_e4_without_an_eligible_transport_nothing_is_dialed() -> None:
    guest = requests_only(max_request_bytes=10)
    picky = ScriptedTransport("picky", serves="not this one")
    async with Web(entrants=[guest, picky]) as web:
        with pytest.raises(httpx.ConnectError, match="picky: not this one") as caught:
            await web.post(content=bytes(100))
        assert isinstance(caught.value.__cause__, NoTransports)
        assert (guest.attempts, picky.attempts) == ([], [])


# --- budget ---------------------------------------------------------------------------------------


async def test_b2_the_budget_stretches_to_the_slowest_eligible_transport_and_to_no_other() -> None:
    slow = ScriptedTransport("slow", hangs(), traits=Traits(attempt_timeout=300.0))
    async with Web(entrants=[slow]) as web:
        with pytest.raises(httpx.ConnectTimeout):
            await web.get()
        assert anyio.current_time() == 300.0
    filtered = requests_only("filtered", attempt_timeout=600.0, max_request_bytes=10)
    quick = ScriptedTransport("quick", hangs(), traits=Traits(attempt_timeout=100.0))
    async with Web(entrants=[filtered, quick]) as web:
        began = anyio.current_time()
        with pytest.raises(httpx.ConnectTimeout):
            await web.post(content=bytes(100))
        # The race's own list knows of the filtered one; its time does not count.
        assert anyio.current_time() - began == 100.0


async def test_b3_b4_one_budget_for_all_tiers_and_none_starts_after_it() -> None:
    first = ScriptedTransport("first", hangs())
    last = ScriptedTransport("last")
    entrants: list[Any] = [first, Entrant(last, tier=1)]
    async with Web(entrants=entrants, timeout=httpx.Timeout(None, connect=5.0)) as web:
        with pytest.raises(httpx.ConnectTimeout):
            await web.get()
        assert anyio.current_time() == 5.0
        assert last.attempts == []


async def test_b3_the_callers_cancellation_ends_it() -> None:
    async with Web(entrants=[ScriptedTransport("a", hangs())]) as web:
        with anyio.move_on_after(1.0) as scope:
            await web.get()
        assert scope.cancelled_caught
        await web.assert_clean()


# --- tiers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("default", "dialed"),
    [(answers(200), 0), (None, 1), (answers(502), 1), (hangs_up, 1)],
    ids=["works", "refuses", "says 5xx", "breaks"],
)
async def test_p1_p2_the_last_resort_is_dialed_when_no_earlier_tier_gave_an_answer(
    default: Any, dialed: int
) -> None:
    origins = [Origin(default), Origin(answers(200))]
    async with origins[0], origins[1]:
        first = MemoryWay("first", origins[0] if default else None)
        last = MemoryWay("last", origins[1])
        entrants: list[Any] = [Entrant(last, tier=100), Entrant(first, tier=0)]
        async with Web(entrants=entrants) as web:
            assert (await web.get()).status_code == 200
            assert last.connects == dialed


# --- sending --------------------------------------------------------------------------------------


async def test_s1_requests_are_sent_one_by_one_and_success_waits_for_nobody() -> None:
    async with Web({"a": answers(200), "b": never}, delays={"b": 0.0}) as web:
        assert (await web.get()).status_code == 200
        assert (anyio.current_time(), web.asked()) == (0.0, {"a": 1, "b": 0})


@pytest.mark.parametrize(
    ("method", "repeats"),
    [("GET", True), ("HEAD", True), ("OPTIONS", True), ("TRACE", True)]
    + [(method, False) for method in ("POST", "PUT", "DELETE", "PATCH", "get", "PROPFIND")],
)
async def test_s2_what_may_be_repeated(method: str, repeats: bool) -> None:
    async with Web({"a": answers(500), "b": answers(200)}) as web:
        response = await web.client.send(_request(web, method))
        assert (response.status_code == 200) == (repeats or method == "get")


def _request(web: Web, method: str) -> httpx.Request:
    return web.client.build_request(method, URL)  # type: ignore[no-any-return]


async def test_s3_a_transport_error_goes_on_for_head() -> None:
    async with Web({"a": hangs_up, "b": answers(204)}) as web:
        assert (await web.request("HEAD")).status_code == 204


async def test_s4_the_newest_5xx_is_a_response_and_no_error() -> None:
    async with Web({"a": answers(502), "b": answers(504, b"newest")}) as web:
        assert (await web.get()).content == b"newest"
        assert web.asked() == {"a": 1, "b": 1}


@pytest.mark.parametrize(("method", "status"), [("POST", 422), ("GET", 404)])
async def test_s5_a_4xx_is_never_tried_again(method: str, status: int) -> None:
    async with Web({"a": answers(status), "b": answers(200)}) as web:
        assert (await web.request(method)).status_code == status
        assert web.asked() == {"a": 1, "b": 0}


async def test_s6_a_post_is_sent_once_and_its_5xx_wakes_no_last_resort() -> None:
    async with Origin(answers(500)) as origin:
        last = MemoryWay("last", None)
        entrants: list[Any] = [MemoryWay("a", origin), Entrant(last, tier=1)]
        async with Web(entrants=entrants) as web:
            assert (await web.post(content=b"x")).status_code == 500
            assert (len(origin.seen), last.connects) == (1, 0)


async def test_s7_a_failed_connect_goes_on_for_post_across_tiers() -> None:
    async with Origin(answers(201)) as origin:
        entrants: list[Any] = [MemoryWay("a", None), Entrant(MemoryWay("z", origin), tier=1)]
        async with Web(entrants=entrants) as web:
            assert (await web.post(content=b"x")).status_code == 201


@pytest.mark.parametrize(
    ("extensions", "status"), [(MARKED, 200), ({"racer": {"idempotent": False}}, 502), ({}, 502)]
)
async def test_s8_the_marker(extensions: dict[str, Any], status: int) -> None:
    """And kindling#33: a read-only POST whose first transport says 502."""
    async with Web({"a": answers(502), "b": answers(200)}) as web:
        response = await web.post(content=b"query", extensions=extensions)
        assert response.status_code == status
        assert "racer" not in str(web.origins["a"].seen[0].headers)


async def test_s9_each_redirect_is_a_race_of_its_own() -> None:
    async def moved(talk: Talk) -> None:
        if talk.headers["host"] == "origin.example":
            await talk.respond(302, location="http://other.example/")
        else:
            await talk.respond(200, talk.headers["host"].encode())

    async with Web({"a": moved}) as web:
        response = await web.get(follow_redirects=True)
        assert response.content == b"other.example"
        assert web.connects() == {"a": 2}
        assert response.extensions["racer"].report.target == "other.example:80"


async def test_s10_a_held_5xx_survives_a_later_tier_that_times_out() -> None:
    async with Origin(answers(500, b"held")) as origin:
        late = ScriptedTransport("late", hangs())
        entrants: list[Any] = [MemoryWay("a", origin), Entrant(late, tier=1)]
        async with Web(entrants=entrants, timeout=httpx.Timeout(None, connect=3.0)) as web:
            assert (await web.get()).content == b"held"
            assert anyio.current_time() == 3.0


# --- what is sent ---------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"", b"bytes"])
async def test_h2_each_try_has_the_same_body_and_length(body: bytes) -> None:
    seen: list[tuple[str | None, bytes]] = []

    async def note(talk: Talk) -> None:
        seen.append((talk.headers.get("content-length"), await talk.body()))
        await talk.respond(503 if len(seen) == 1 else 200)

    async with Web({"a": note, "b": note}) as web:
        await web.post(content=body, extensions=MARKED)
    assert seen == [(str(len(body)), body)] * 2


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://example.com/", "example.com:443"),
        ("http://example.com/", "example.com:80"),
        ("https://example.com:8443/", "example.com:8443"),
        ("http://example.com:443/", "example.com:443"),
        ("https://[2001:db8::1]/", "[2001:db8::1]:443"),
        ("http://[2001:db8::1]:8080/", "[2001:db8::1]:8080"),
        ("https://bücher.example/", "xn--bcher-kva.example:443"),
    ],
)
async def test_h4_where_to(url: str, target: str) -> None:
    asked: list[str] = []

    def note(wanted: Any) -> str:
        asked.append(f"{wanted} {wanted.tls is not False}")
        return "only asked"

    async with Web(entrants=[ScriptedTransport("a", serves=note)]) as web:
        with pytest.raises(httpx.ConnectError):
            await web.get(url)
    assert asked[0] == f"{target} {url.startswith('https')}"


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_r1_r2_all_are_named_and_any_can_be_asked_for(method: str) -> None:
    """And kindling#47: three transports, three reasons, and only the last was shown."""
    guests = [
        ScriptedTransport("a", fails(0.1, ConnectionRefusedError(111, "refused"))),
        ScriptedTransport("b", fails(0.2, ssl.SSLError(1, "cut off"))),
        ScriptedTransport("c", fails(0.3, OSError(113, "no route"))),
    ]
    async with Web(entrants=guests) as web:
        with pytest.raises(httpx.ConnectError) as caught:
            await web.request(method)
        for told in ("a: ", "refused", "b: ", "cut off", "c: ", "no route"):
            assert told in str(caught.value)
        cause = caught.value.__cause__
        assert isinstance(cause, AllAttemptsFailed)
        assert cause.find(ssl.SSLError) is not None
        assert classify(cause) == "transient"


async def test_r3_a_send_error_is_named_too() -> None:
    async with Web({"only": hangs_up}) as web:
        with pytest.raises(httpx.TransportError, match=r"^only: ") as caught:
            await web.post(content=b"x")
        assert isinstance(caught.value.__cause__, RacerError)


async def test_r4_r5_at_the_deadline_what_had_failed_is_kept() -> None:
    guests = [
        ScriptedTransport("a", fails(1.0)),
        ScriptedTransport("b", hangs()),
        ScriptedTransport("at the same instant", fails(2.0)),
    ]
    async with Web(entrants=guests, timeout=httpx.Timeout(None, connect=2.0)) as web:
        with pytest.raises(
            httpx.ConnectTimeout, match=r"the deadline passed.*a: .*Refused"
        ) as told:
            await web.post(content=b"x")
        cause = told.value.__cause__
        assert isinstance(cause, DialTimeout)
        assert cause.report["at the same instant"].outcome == "connect_failed"


# --- crashes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", [fails(0.0, ZeroDivisionError()), returns_none()])
async def test_n1_k8_a_bug_in_one_transport_is_its_own(
    script: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with Origin(answers(200)) as origin:
        late = Entrant(MemoryWay("b", origin), start_delay=1.0)
        ways: list[Any] = [ScriptedTransport("buggy", script), late]
        async with Web(entrants=ways) as web:
            assert (await web.post(content=b"x")).status_code == 200
    assert "'buggy' crashed" in caplog.text
    async with Web(entrants=[ScriptedTransport("buggy", script)]) as web:
        with pytest.raises(httpx.ConnectError, match="buggy: ") as caught:
            await web.get()
        assert caught.value.__cause__ is not None


async def test_n2_nor_does_one_in_the_sending_phase_hurt_anybody() -> None:
    """There kindling crashes."""

    async def bug(request: Any) -> Any:
        raise ZeroDivisionError

    broken = ScriptedRequestTransport("broken", answer=bug)
    async with Origin(answers(200)) as origin:
        late = Entrant(MemoryWay("b", origin), start_delay=1.0)
        async with Web(entrants=[broken, late]) as web:
            assert (await web.get()).status_code == 200
            with pytest.raises(httpx.ReadError, match=r"broken: .*ZeroDivisionError"):
                web.engine.memory.forget(next(iter(web.engine.memory._origins)), ["broken"])
                web.engine.pool.expire(1e9)
                await web.post(content=b"x")


# --- the traps ------------------------------------------------------------------------------------


async def test_k1_a_route_that_connects_and_then_hangs_is_left() -> None:
    async with Web({"hangs": never, "works": answers(200)}) as web:
        assert (await web.get()).extensions["racer"].transport_name == "works"
        assert anyio.current_time() == 15.0


async def test_k2_the_end_of_the_race_does_not_end_the_body() -> None:
    async def slow(talk: Talk) -> None:
        await talk.begin(200, {}, False)
        await anyio.sleep(200.0)
        await talk.send(b"late")
        await talk.end()

    async with Web({"a": slow}) as web:
        assert (await web.get()).content == b"late"


async def test_k3_losers_are_closed() -> None:
    ways = {name: MemoryWay(name, Origin(answers(200))) for name in "abc"}
    async with Web(dict(ways)) as web:
        await web.get()
        await web.settle()
        assert [len(way.ledger.open_streams) > 0 for way in ways.values()].count(True) == 1
    streams = [ScriptedRequestTransport(name, answer=by_request) for name in "xyz"]
    async with Web(entrants=list(streams)) as web:
        await web.get()
        await web.settle()
        assert sum(len(guest.ledger.open_streams) for guest in streams) == 1


@pytest.mark.parametrize("stage", ["tcp", "tls"])
async def test_k4_what_dies_before_the_request_left_was_never_sent(stage: str) -> None:
    """A filter that resets the ClientHello: for kindling that POST was sent, and final."""
    ways = {
        "filtered": ScriptedTransport("filtered", wins() if stage == "tls" else fails()),
        "clean": requests_only("clean", script=wins(3.0)),
    }
    ways["filtered"]._serve = _reset  # type: ignore[attr-defined]
    async with Web(dict(ways)) as web:
        response = await web.post("https://origin.example/", content=b"once")
        assert response.extensions["racer"].transport_name == "clean"


async def _reset(stream: Any) -> None:
    await stream.receive()
    await anyio.aclose_forcefully(stream)


async def test_k5_a_host_that_a_route_does_not_map_is_not_dialed_by_it() -> None:
    front = ScriptedRequestTransport(
        "front", answer=by_request, serves=lambda target: f"no front for {target.host}"
    )
    async with Origin(answers(200)) as origin:
        late = Entrant(MemoryWay("b", origin), start_delay=5.0)
        async with Web(entrants=[front, late]) as web:
            response = await web.post(content=b"x")
            assert (response.status_code, front.attempts) == (200, [])
            assert anyio.current_time() == 0.0


async def test_k6_an_endless_error_body_does_not_hold_up_the_next_route() -> None:
    async def endless(talk: Talk) -> None:
        await talk.begin(503, {}, False)
        while True:
            await talk.send(bytes(10_000))
            await anyio.sleep(1.0)

    async with Web({"a": endless, "b": answers(200)}) as web:
        assert (await web.get()).status_code == 200
        assert anyio.current_time() == 0.0


@pytest.mark.parametrize("accept", ["text/event-stream, */*", "TEXT/Event-Stream; charset=utf-8"])
async def test_k7_an_event_stream_is_known_in_any_spelling(accept: str) -> None:
    async with Web(entrants=[requests_only(streaming=False)]) as web:
        with pytest.raises(httpx.ConnectError, match="cannot stream"):
            await web.get(headers={"Accept": accept})


async def test_k9_no_marker_is_visible_to_the_origin_or_a_front() -> None:
    seen: list[Any] = []

    async def note(request: Any) -> Any:
        seen.append(request.headers)
        return httpx.Response(200)

    async with Web(entrants=[ScriptedRequestTransport("front", answer=note)]) as web:
        await web.post(content=b"x", extensions=MARKED)
    assert set(seen[0]) == {
        "host",
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "user-agent",
    }
    assert "racer" not in str(seen[0]).lower()


async def test_k10_what_worked_last_is_remembered() -> None:
    ways = {"bad": answers(502), "good": answers(200)}
    limits = httpx.Limits(max_keepalive_connections=0)
    async with Web(ways, delays={"good": 8.0}, limits=limits) as web:
        for _ in range(4):
            assert (await web.get()).status_code == 200
        assert web.asked() == {"bad": 1, "good": 4}


async def test_k11_a_replaced_transport_is_the_one_that_clients_get() -> None:
    async with Origin(answers(200, b"new")) as new, Web({"a": answers(200, b"old")}) as web:
        assert (await web.get()).content == b"old"
        web.dialer.replace("a", MemoryWay("a", new))
        web.engine.pool.expire(1e9)
        assert (await web.get()).content == b"new"


async def test_k11_no_new_request_goes_by_an_entrant_that_was_taken_out() -> None:
    async with Web({"a": answers(200, b"a"), "b": answers(200, b"b")}, delays={"b": 8.0}) as web:
        assert (await web.get()).content == b"a"
        web.dialer.reconfigure(Configuration(entrants=(Kept(web.ways["b"]),)))  # type: ignore[arg-type]
        assert (await web.get()).content == b"b"
        assert web.asked() == {"a": 1, "b": 1}


class Kept(Recipe):
    """How a guest comes in that is there already, made by hand."""

    def __init__(self, way: MemoryWay) -> None:
        self.name = f"{way.name} again"
        self.start_delay = None
        self.tier = None
        self._origin = way.origin

    def make(self) -> Entrant:
        return Entrant(MemoryWay(self.name, self._origin))

    def has_guest_like(self, other: Recipe) -> bool:
        return False


async def test_k12_a_body_that_breaks_off_is_an_error_that_names_the_route() -> None:
    async def cut(talk: Talk) -> None:
        await talk.begin(200, {"content-length": "100"}, False)
        await talk.send(b"half")
        await anyio.aclose_forcefully(talk.wire.stream)

    async with Web({"a": cut}) as web:
        with pytest.raises(httpx.TransportError, match=r"^a: "):
            await web.get()


async def test_k13_the_second_connection_is_made_as_the_first_was() -> None:
    """Each race asks the guest anew; nothing of a first connection is handed to a second."""
    async with Web({"a": answers(200)}, limits=httpx.Limits(max_keepalive_connections=0)) as web:
        for n in range(1, 4):
            await web.get()
            assert web.connects() == {"a": n}
