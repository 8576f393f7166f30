"""`Fronting` against a real network's software: what is seen, what is hidden, and who is asked how often."""

from __future__ import annotations

import gzip
import json
import logging
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import httpx2
import pytest

from racer.abc import MakeContext, Origin, Target
from racer.errors import ConfigError, LocalProtocolError, NotUsable, TransportError
from racer.testing import LocalHost, check_request_transport
from tests.transports.fronting.cdn import ORIGIN, Network, front, hidden
from transports.fronting import Fronting, make

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

LIBRARIES = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
HERE = Origin("https", ORIGIN, 443)


@asynccontextmanager
async def started(fronts: bytes, **options: Any) -> AsyncIterator[Fronting]:
    async with LocalHost() as host:
        transport = Fronting(fronts, **options)
        await transport.start(host)
        try:
            yield transport
        finally:
            await transport.aclose()
        assert transport.status().details["connections"] == 0
    assert host.errors == []


@asynccontextmanager
async def route_to(fronts: bytes, **options: Any) -> AsyncIterator[Any]:
    async with started(fronts, **options) as transport:
        route = await transport.prepare(HERE)
        try:
            yield route
        finally:
            await route.aclose()


async def ask(
    route: Any, method: str = "GET", path: str = "/", library: Any = httpx, **more: Any
) -> Any:
    request = library.Request(method, f"https://{ORIGIN}{path}", **more)
    response = await route.handle(request)
    try:
        await response.aread()
    finally:
        await response.aclose()
    return response


@pytest.mark.every_loop
async def test_conformance(cdn: Network) -> None:
    async def echo(route: Any) -> None:
        assert (await ask(route)).text == "GET "

    report = await check_request_transport(
        lambda: Fronting(cdn.fronts("good")),
        ask=echo,
        target=Target(ORIGIN),
        failing_target=Target("nowhere.example.com"),
        unserved_target=Target("nowhere.example.com"),
        passes=3,
    )
    assert report.sweep is not None
    assert report.sweep.cancelled > 0


@LIBRARIES
@pytest.mark.parametrize(("provider", "protocol"), [("good", "HTTP/2.0"), ("plain", "HTTP/1.1")])
async def test_the_host_is_hidden_under_the_fronts_name(
    cdn: Network, library: Any, provider: str, protocol: str
) -> None:
    sni = {"default": {"usearbitrarysnis": True, "arbitrarysnis": ["shop.example.com"]}}
    async with route_to(cdn.fronts(provider, frontingsnis=sni)) as route:
        response = await ask(route, "POST", "/hello?x=1", library=library, content=b"body")
    assert isinstance(response, library.Response)
    assert response.text == "POST body"
    assert response.extensions["fronting"]["domain"] == front(provider)
    *_, seen = cdn.seen()
    assert (seen.sni, seen.host, seen.protocol) == ("shop.example.com", hidden(provider), protocol)
    method, path, body, fields = cdn.origin.asked[-1]
    assert (method, path, body) == ("POST", "/hello?x=1", b"body")
    assert not any(name.lower().startswith("x-") for name in fields)
    assert all(ORIGIN not in value for value in fields.values())


def posts(cdn: Network, path: str = "/once") -> int:
    return sum(method == "POST" and asked == path for method, asked, *_ in cdn.origin.asked)


def edges_asked(cdn: Network, method: str = "GET") -> list[str]:
    """Return the providers whose edges saw a request for the hidden host, in order."""
    by_port = {kind.port: name for name, kind in cdn.kinds.items()}
    return [
        by_port[seen.port]
        for seen in cdn.seen()
        if seen.method == method and seen.host.startswith("api.")
    ]


async def test_a_get_goes_on_to_another_provider(cdn: Network) -> None:
    """domainfront#15: a provider that vets fine and refuses real requests."""
    async with started(cdn.fronts("refusing", "good", edges=3)) as transport:
        answers = []
        for _ in range(4):
            route = await transport.prepare(HERE)
            answers.append((await ask(route)).text)
            await route.aclose()
    assert answers == ["GET "] * 4
    # Whichever came first, what refused is not asked again and again.
    assert edges_asked(cdn).count("refusing") <= 2


@pytest.mark.parametrize("first", ["refusing", "overloaded"])
async def test_a_post_is_sent_once_whatever_comes_of_it(cdn: Network, first: str) -> None:
    async with route_to(cdn.fronts(first, edges=3)) as route:
        response = await ask(route, "POST", "/once", content=b"x")
    assert response.status_code in {403, 503}
    assert len(edges_asked(cdn, "POST")) == 1
    async with route_to(cdn.fronts("good", edges=3)) as route:
        assert (await ask(route, "POST", "/status/502", content=b"x")).status_code == 502
    assert posts(cdn, "/status/502") == 1


async def test_a_post_that_an_edge_drops_is_lost_and_not_repeated(cdn: Network) -> None:
    async with route_to(cdn.fronts("dropping", edges=3)) as route:
        with pytest.raises(TransportError):
            await ask(route, "POST", "/once", content=b"x")
    assert edges_asked(cdn, "POST") == ["dropping"]


async def test_a_post_marked_idempotent_goes_on(cdn: Network) -> None:
    marked = {"racer": {"idempotent": True}}
    async with route_to(cdn.fronts("refusing", "dropping", "good")) as route:
        response = await ask(route, "POST", "/once", content=b"x", extensions=marked)
    assert response.text == "POST x"
    assert posts(cdn) == 1


async def test_a_post_falls_back_while_nothing_was_sent(cdn: Network) -> None:
    async with route_to(cdn.fronts("impostor", "forger", "vetless", "good")) as route:
        assert (await ask(route, "POST", "/once", content=b"x")).text == "POST x"
    assert posts(cdn) == 1
    assert {seen.host for seen in cdn.seen() if seen.method == "POST"} == {
        "ping.example.net",
        hidden("good"),
    }


@pytest.mark.parametrize("status", [403, 503])
async def test_an_error_with_the_origins_mark_is_its_word(cdn: Network, status: int) -> None:
    async with route_to(cdn.fronts("good", "plain", edges=2)) as route:
        response = await ask(route, path=f"/marked/{status}")
    assert (response.status_code, response.text) == (status, "my own word")
    assert len(edges_asked(cdn)) == 1


@pytest.mark.parametrize("status", [204, 301, 404, 429])
async def test_other_answers_are_final(cdn: Network, status: int) -> None:
    async with route_to(cdn.fronts("good", "plain")) as route:
        assert (await ask(route, path=f"/status/{status}")).status_code == status
    assert len(edges_asked(cdn)) == 1


async def test_what_two_providers_say_is_the_origins_word(cdn: Network) -> None:
    """An outage of the origin does not walk every front, and no front pays for it."""
    async with started(cdn.fronts("good", "plain", edges=3)) as transport:
        route = await transport.prepare(HERE)
        assert (await ask(route, path="/status/503")).status_code == 503
        assert sorted(edges_asked(cdn)) == ["good", "plain"]
        assert transport.status().details["fronts.resting"] == 0
        await route.aclose()


async def test_an_endless_error_is_not_read_to_its_end(cdn: Network) -> None:
    async with route_to(cdn.fronts("good", edges=2)) as route:
        request = httpx.Request("GET", f"https://{ORIGIN}/endless")
        response = await route.handle(request)
        assert response.status_code == 500
        await response.aclose()


@pytest.mark.parametrize("name", ["impostor", "forger"])
async def test_a_front_with_a_wrong_certificate_is_never_used(cdn: Network, name: str) -> None:
    async with started(cdn.fronts(name, edges=3)) as transport:
        with pytest.raises(TransportError) as caught:
            await transport.prepare(HERE)
        assert caught.value.error_type == "certificate_invalid"
        assert transport.status().details["fronts.resting"] == 3
    assert cdn.seen() == []


async def test_a_decoy_name_does_not_vouch_for_a_certificate(cdn: Network) -> None:
    """domainfront#11: the name sent in TLS is the network's choice, not proof of who answers."""
    decoy = {"default": {"usearbitrarysnis": True, "arbitrarysnis": ["other.example.org"]}}
    async with started(cdn.fronts("impostor", frontingsnis=decoy)) as transport:
        with pytest.raises(TransportError, match="certificate is not for impostor"):
            await transport.prepare(HERE)


async def test_the_lists_own_name_is_demanded(cdn: Network) -> None:
    sni = {"default": {"usearbitrarysnis": True, "arbitrarysnis": ["shop.example.com"]}}
    fronts = cdn.fronts("impostor", frontingsnis=sni, verifyHostname="other.example.org")
    async with route_to(fronts) as route:
        assert (await ask(route)).text == "GET "


async def test_a_front_that_does_not_forward_fails_its_vetting(cdn: Network) -> None:
    async with started(cdn.fronts("vetless")) as transport:
        with pytest.raises(TransportError, match="404 and not with 202"):
            await transport.prepare(HERE)
    assert edges_asked(cdn) == []


async def test_a_redirect_does_not_lead_to_the_networks_name(cdn: Network) -> None:
    async with route_to(cdn.fronts("good")) as route:
        response = await ask(route, path="/redirect")
    assert response.headers["location"] == f"https://{ORIGIN}/next"


@pytest.mark.parametrize("provider", ["good", "plain"])
async def test_large_bodies_both_ways(cdn: Network, provider: str) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield bytes(10_000)

    async with route_to(cdn.fronts(provider)) as route:
        for content in (parts(), bytes(400_000)):
            response = await ask(route, "PUT", "/put", content=content)
            assert response.status_code == 200
            assert cdn.origin.asked[-1][2] == bytes(400_000)
        assert len((await ask(route, path="/large")).content) == 1 << 20


@pytest.mark.parametrize("provider", ["good", "plain"])
async def test_a_line_is_used_again(cdn: Network, provider: str) -> None:
    async with route_to(cdn.fronts(provider)) as route:
        for _ in range(3):
            await ask(route)
            await ask(route, "HEAD")
            await ask(route, "POST", content=b"")
        assert len(route._idle) == 1


async def test_requests_at_once_have_lines_of_their_own(cdn: Network) -> None:
    async with route_to(cdn.fronts("good", edges=2)) as route:
        first = await route.handle(httpx.Request("GET", f"https://{ORIGIN}/large"))
        second = await ask(route)
        assert second.text == "GET "
        assert len(await first.aread()) == 1 << 20
        await first.aclose()


async def test_a_half_read_response_takes_its_line_with_it(cdn: Network) -> None:
    async with route_to(cdn.fronts("good")) as route:
        response = await route.handle(httpx.Request("GET", f"https://{ORIGIN}/large"))
        await anext(aiter(response.stream))
        await response.aclose()
        assert route._idle == []
        assert (await ask(route)).text == "GET "


async def test_an_id_that_no_header_can_carry_is_left_out(cdn: Network) -> None:
    """domainfront#14."""
    document = cdn.document("good")
    providers = document["providers"]
    for name, told in {"good\r\nX-Evil: 1": None, "good": "good", "b\u00e4d": None}.items():
        fronts = json.dumps({**document, "providers": {name: providers["good"]}}).encode()
        async with route_to(fronts, via_header="X-Fronted-Via") as route:
            assert (await ask(route)).text == "GET "
        fields = {key.lower(): value for key, value in cdn.origin.asked[-1][3].items()}
        assert fields.get("x-fronted-via") == told
        assert "x-evil" not in fields


@pytest.mark.parametrize(
    ("method", "url", "fields", "words"),
    [
        ("GET", "https://other.example.com/", {}, "asked for https://other"),
        ("GET", f"http://{ORIGIN}/", {}, "asked for http://"),
        ("GET", f"https://{ORIGIN}/", {"Upgrade": "websocket"}, "changes protocols"),
        ("CONNECT", f"https://{ORIGIN}/", {}, "changes protocols"),
    ],
)
async def test_what_a_route_does_not_carry(
    cdn: Network, method: str, url: str, fields: dict[str, str], words: str
) -> None:
    async with route_to(cdn.fronts("good")) as route:
        with pytest.raises(LocalProtocolError, match=words):
            await route.handle(httpx.Request(method, url, headers=fields))
        with pytest.raises(LocalProtocolError, match="not str"):
            await route.handle("GET")
        assert (await ask(route)).text == "GET "


async def test_hop_fields_and_credentials_of_the_way_are_not_passed_on(cdn: Network) -> None:
    fields = {"Connection": "x-mine", "X-Mine": "1", "Proxy-Authorization": "secret", "X-Own": "2"}
    async with route_to(cdn.fronts("good")) as route:
        await ask(route, headers=fields)
    names = {name.lower() for name in cdn.origin.asked[-1][3]}
    assert "x-own" in names
    assert names.isdisjoint({"x-mine", "proxy-authorization"})


async def test_the_bodys_own_error_comes_out_as_it_was_raised(cdn: Network) -> None:
    async def torn() -> AsyncIterator[bytes]:
        yield b"half"
        raise ZeroDivisionError

    async with route_to(cdn.fronts("good")) as route:
        with pytest.raises(ZeroDivisionError):
            await ask(route, "POST", content=torn())


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (Target(ORIGIN), None),
        (Target(ORIGIN.upper()), None),
        (Target(ORIGIN, 80), "https alone"),
        (Target(ORIGIN, 8443, tls=True), "port 443"),
        (Target(ORIGIN, tls=ssl.create_default_context()), "TLS ends at the front"),
        (Target("elsewhere.example.com"), "no provider"),
    ],
)
def test_what_is_served(cdn: Network, target: Target, reason: str | None) -> None:
    said = Fronting(cdn.fronts("good")).serves(target)
    assert said is None if reason is None else reason in (said or "")


async def test_a_file_is_read_at_the_start(cdn: Network, tmp_path: Path) -> None:
    file = tmp_path / "fronts.yaml.gz"
    file.write_bytes(gzip.compress(cdn.fronts("good")))
    transport = Fronting(file)
    assert transport.serves(Target("elsewhere.example.com")) is None
    assert "not read" in transport.status().health
    async with LocalHost() as host:
        await transport.start(host)
        assert transport.serves(Target("elsewhere.example.com")) is not None
        with pytest.raises(NotUsable):
            await transport.prepare(Origin("https", "elsewhere.example.com", 443))
        await transport.aclose()
        with pytest.raises(TransportError, match="was closed"):
            await transport.prepare(HERE)


@pytest.mark.parametrize("content", [None, b"torn: [", b"\x1f\x8b\x08torn"])
async def test_a_file_that_cannot_be_used_fails_the_start(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "fronts.yaml"
    if content is not None:
        file.write_bytes(content)
    async with LocalHost() as host:
        transport = Fronting(file)
        with pytest.raises(ConfigError, match="fronts: "):
            await transport.start(host)
        await transport.aclose()


async def test_several_dialers_may_go_by_one(cdn: Network) -> None:
    async with LocalHost() as host:
        transport = Fronting(cdn.fronts("good"))
        await transport.start(host)
        await transport.start(host)
        await transport.aclose()
        await (await transport.prepare(HERE)).aclose()
        await transport.aclose()
        with pytest.raises(TransportError, match="was closed"):
            await transport.prepare(HERE)


def test_what_a_lists_maintainer_should_know_is_logged(
    cdn: Network, caplog: pytest.LogCaptureFixture
) -> None:
    """domainfront#18: a misspelt key."""
    with caplog.at_level(logging.WARNING, "racer.fronting"):
        Fronting(cdn.fronts("good", passthrupatterns=["*.example.com"]))
    assert "'passthrupatterns'; did you mean 'passthroughpatterns'?" in caplog.text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"country": "Narnia"}, "country"),
        ({"update_urls": "https://a.example"}, "list of URLs"),
        ({"update_urls": ["http://a.example/list"]}, "https URL"),
        ({"update_urls": ["https://me:secret@a.example/list"]}, "without a user"),
        ({"update_interval": 0}, "update_interval"),
        ({"origin_header": "X Bad:"}, "origin_header"),
        ({"via_header": "X\r\nBad"}, "via_header"),
    ],
)
def test_options_that_cannot_be(cdn: Network, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        Fronting(cdn.fronts("good"), **options)
    assert "secret" not in str(caught.value)


async def test_made_from_a_configuration(cdn: Network, tmp_path: Path) -> None:
    file = tmp_path / "fronts.json"
    file.write_bytes(cdn.fronts("good"))
    made = make(MakeContext(name="hidden", options={"fronts": str(file), "country": "ir"}))
    assert made.name == "hidden"
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "missing"),
        ({"fronts": 1}, "must be a path"),
        ({"fronts": "x", "state_dir": 2}, "state_dir"),
        ({"fronts": "x", "http2": "no"}, "http2"),
        ({"fronts": "x", "contry": "ir"}, "did you mean 'country'"),
    ]
    for options, words in wrong:
        with pytest.raises(ConfigError, match=words):
            make(MakeContext(name="hidden", options=options))
