from __future__ import annotations

import base64

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.abc import Target
from racer.proxy._http import END, MAX_REFUSALS, HttpServer
from racer.proxy._requests import Fetch, OpenTunnel, Page, Refusal, Reply, Spoken
from racer.proxy._verdicts import Verdict
from tests.racer.proxy.machines import ALICE, ANYBODY, split, talk

NO = Verdict(reply=Reply.HOST_UNREACHABLE, status=502, error="dns_error", words="no such host")


def request(line: str, *fields: str) -> bytes:
    return "\r\n".join([line, *(fields or ("Host: x",)), "", ""]).encode()


def basic(user: str) -> str:
    return f"Basic {base64.b64encode(user.encode()).decode()}"


@pytest.mark.parametrize(
    ("authority", "target"),
    [
        ("news.example:443", "news.example:443"),
        ("News.Example:8443", "news.example:8443"),
        ("192.0.2.7:22", "192.0.2.7:22"),
        ("[2001:db8::1]:443", "[2001:db8::1]:443"),
    ],
)
def test_connect_is_understood_however_it_is_cut(authority: str, target: str) -> None:
    data = request(f"CONNECT {authority} HTTP/1.1", f"Host: {authority}")
    wanted = OpenTunnel(target=Target.parse(target, tls=False), spoken=Spoken.CONNECT)
    for pieces in ([data], split(data)):
        heard = talk(pieces)
        assert heard.events == [wanted]
        assert heard.said == b""


def test_what_comes_behind_a_connect_is_for_the_target() -> None:
    machine = talk([request("CONNECT news.example:443 HTTP/1.1") + b"\x16\x03\x01 first"]).machine
    assert isinstance(machine, HttpServer)
    machine.accept()
    assert machine.bytes_to_send() == b"HTTP/1.1 200 Connection established\r\n\r\n"
    assert machine.leftover == b"\x16\x03\x01 first"


def test_a_connect_that_failed_says_why_and_the_client_may_ask_again() -> None:
    machine = talk([request("CONNECT news.example:443 HTTP/1.1")]).machine
    assert isinstance(machine, HttpServer)
    machine.refuse(NO)
    said = machine.bytes_to_send()
    assert said.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
    assert b"Proxy-Status: racer; error=dns_error\r\n" in said
    assert said.endswith(b"\r\n\r\nracer: no such host\n")
    assert machine.start_next()
    machine.receive_data(request("CONNECT other.example:443 HTTP/1.1"))
    assert isinstance(machine.next_event(), OpenTunnel)


@pytest.mark.parametrize(
    ("url", "target", "path", "host"),
    [
        ("http://news.example/a?b=c", "news.example:80", b"/a?b=c", b"news.example"),
        ("HTTP://NEWS.example:8080", "news.example:8080", b"/", b"news.example:8080"),
        ("http://news.example?q", "news.example:80", b"/?q", b"news.example"),
        ("http://news.example/a#part", "news.example:80", b"/a", b"news.example"),
        ("http://[2001:db8::1]/", "[2001:db8::1]:80", b"/", b"[2001:db8::1]"),
        ("http://[::1]:81/", "[::1]:81", b"/", b"[::1]:81"),
        ("http://news.example/%7Ea//../b", "news.example:80", b"/%7Ea//../b", b"news.example"),
    ],
)
def test_a_url_is_to_be_fetched(url: str, target: str, path: bytes, host: bytes) -> None:
    data = request(f"GET {url} HTTP/1.1", "Host: elsewhere.example", "Accept: */*")
    for pieces in ([data], split(data)):
        (event,) = talk(pieces).events
        assert event == Fetch(
            target=Target.parse(target, tls=False),
            method="GET",
            path=path,
            headers=((b"Host", host), (b"Accept", b"*/*")),
            has_body=False,
        )


def test_what_is_for_the_proxy_alone_goes_no_further() -> None:
    (event,) = talk(
        [
            request(
                "POST http://news.example/ HTTP/1.1",
                "Host: news.example",
                "X-Kept: 1",
                "Connection: close, X-Named, Content-Length",
                "Proxy-Connection: keep-alive",
                f"Proxy-Authorization: {basic('alice:s3cret')}",
                "Authorization: for the site",
                "X-Named: 1",
                "Keep-Alive: 5",
                "Te: trailers",
                "Upgrade: h2c",
                "Expect: 100-continue",
                "Content-Length: 3",
            )
        ]
    ).events
    assert isinstance(event, Fetch)
    assert event.has_body
    assert event.headers == (
        (b"Host", b"news.example"),
        (b"X-Kept", b"1"),
        (b"Authorization", b"for the site"),
        (b"Content-Length", b"3"),
    )


def test_a_length_beside_an_encoding_is_not_passed_on() -> None:
    (event,) = talk(
        [
            request(
                "POST http://news.example/ HTTP/1.1",
                "Host: news.example",
                "Content-Length: 3",
                "Transfer-Encoding: chunked",
            )
        ]
    ).events
    assert isinstance(event, Fetch)
    assert event.has_body
    assert event.headers == ((b"Host", b"news.example"),)


def test_connect_by_http_1_0_needs_no_host() -> None:
    heard = talk([b"CONNECT news.example:443 HTTP/1.0\r\n\r\nfirst"])
    assert isinstance(heard.events[0], OpenTunnel)
    assert isinstance(heard.machine, HttpServer)
    heard.machine.accept()
    assert heard.machine.bytes_to_send().startswith(b"HTTP/1.1 200 ")
    assert heard.machine.leftover == b"first"


def test_options_of_a_whole_server_is_an_asterisk() -> None:
    (event,) = talk([request("OPTIONS http://news.example HTTP/1.1")]).events
    assert isinstance(event, Fetch)
    assert event.path == b"*"


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        ("CONNECT news.example HTTP/1.1", 400, "host:port"),
        ("CONNECT news.example: HTTP/1.1", 400, "host:port"),
        ("CONNECT news.example:0 HTTP/1.1", 400, "port 0"),
        ("CONNECT news.example:99999 HTTP/1.1", 400, "port 99999"),
        ("CONNECT :443 HTTP/1.1", 400, "empty"),
        ("CONNECT /path HTTP/1.1", 400, "host:port"),
        ("GET https://news.example/ HTTP/1.1", 501, "https://"),
        ("GET ftp://news.example/ HTTP/1.1", 501, "ftp://"),
        ("GET http://alice:s3cret@news.example/ HTTP/1.1", 400, "a user in it"),
        ("GET http://news.example:port/ HTTP/1.1", 400, "port"),
        ("GET http:/// HTTP/1.1", 400, "empty"),
        ("TRACE http://news.example/ HTTP/1.1", 405, "TRACE"),
        ("GET / HTTP/1.1", 404, "a proxy, not a site"),
        ("POST / HTTP/1.1", 405, "POST of a path"),
        ("OPTIONS * HTTP/1.1", 405, "OPTIONS of a path"),
        ("GET /metrics HTTP/1.1", 404, "a proxy, not a site"),
        ("GET / HTTP/2.0", 505, "HTTP/1.1"),
        ("PRI * HTTP/2.0", 505, "HTTP/1.1"),
        ("hello", 400, "neither"),
        ("GET /", 400, "neither"),
        ("GET / HTTP/1.1 more", 400, "neither"),
    ],
)
def test_what_cannot_be_is_answered_in_words(line: str, status: int, words: str) -> None:
    data = request(line)
    for pieces in ([data], split(data)):
        heard = talk(pieces)
        event = heard.events[0]
        assert isinstance(event, Refusal)
        assert words in event.words
        assert heard.said.startswith(f"HTTP/1.1 {status} ".encode())
        assert words.encode() in heard.said
        assert b"s3cret" not in heard.said
        assert "s3cret" not in event.words


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",  # no Host
        b"GET http://x/ HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"GET http://x/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET http://x/ HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n",
        b"GET http://x/ HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 70_000,
        b"G" * 40_000,
    ],
)
def test_a_request_that_breaks_the_rules_is_the_last(data: bytes) -> None:
    heard = talk([data])
    (event,) = heard.events
    assert isinstance(event, Refusal)
    assert event.is_final
    assert heard.said.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
    assert b"Connection: close\r\n" in heard.said


def test_a_connect_with_a_body_is_no_connect() -> None:
    heard = talk(
        [request("CONNECT x.example:1 HTTP/1.1", "Host: x", "Content-Length: 4") + b"body"]
    )
    assert isinstance(heard.events[0], Refusal)
    assert heard.events[0].is_final


@pytest.mark.parametrize(
    "line", ["CONNECT x.example:443 HTTP/1.1", "GET http://x.example/ HTTP/1.1"]
)
def test_a_user_is_asked_for_and_may_try_again(line: str) -> None:
    without = request(line)
    wrong = request(line, "Host: x", f"Proxy-Authorization: {basic('alice:wrong')}")
    right = request(line, "Host: x", f"Proxy-Authorization: {basic('alice:s3cret')}")
    for pieces in ([without + wrong + right], split(without + wrong + right)):
        heard = talk(pieces, users=ALICE)
        first, second, third = heard.events
        assert isinstance(first, Refusal)
        assert isinstance(second, Refusal)
        assert first.is_denied
        assert second.is_denied
        assert isinstance(third, OpenTunnel | Fetch)
        assert heard.said.count(b"HTTP/1.1 407 ") == 2
        assert heard.said.count(b'Proxy-Authenticate: Basic realm="racer"') == 2
        assert b"wrong\r\n" not in heard.said


@pytest.mark.parametrize(
    "credential",
    [
        "",
        "Basic",
        "Basic !!!",
        "Bearer abc",
        basic("alices3cret"),
        basic("alice:s3cret") + "x=",
        "basic",
    ],
)
def test_a_broken_credential_is_a_wrong_one(credential: str) -> None:
    heard = talk(
        [request("CONNECT x.example:1 HTTP/1.1", "Host: x", f"Proxy-Authorization: {credential}")],
        users=ALICE,
    )
    assert isinstance(heard.events[0], Refusal)
    assert heard.events[0].is_denied


def test_two_credentials_are_none() -> None:
    field = f"Proxy-Authorization: {basic('alice:s3cret')}"
    heard = talk([request("CONNECT x.example:1 HTTP/1.1", "Host: x", field, field)], users=ALICE)
    assert isinstance(heard.events[0], Refusal)


def test_guessing_ends_with_the_connection() -> None:
    wrong = request(
        "CONNECT x.example:1 HTTP/1.1", f"Host: x\r\nProxy-Authorization: {basic('a:b')}"
    )
    heard = talk([wrong * 10], users=ALICE)
    assert len(heard.events) == MAX_REFUSALS
    assert [isinstance(event, Refusal) and event.is_final for event in heard.events] == [
        *[False] * (MAX_REFUSALS - 1),
        True,
    ]


# --- bodies, and forwarding a response -----------------------------------------------------


def fetched(
    *fields: str, line: str = "POST http://x.example/ HTTP/1.1", rest: bytes = b""
) -> HttpServer:
    heard = talk([request(line, "Host: x", *fields) + rest])
    assert isinstance(heard.events[0], Fetch)
    assert isinstance(heard.machine, HttpServer)
    return heard.machine


def test_a_body_comes_in_pieces_and_ends() -> None:
    machine = fetched("Content-Length: 6", rest=b"abc")
    assert machine.next_body() == b"abc"
    assert machine.next_body() is None
    machine.receive_data(b"def")
    assert machine.next_body() == b"def"
    assert machine.next_body() is END
    assert machine.next_body() is END


def test_a_chunked_body_is_unwrapped() -> None:
    machine = fetched("Transfer-Encoding: chunked", rest=b"3\r\nabc\r\n0\r\n\r\n")
    assert machine.next_body() == b"abc"
    assert machine.next_body() is END


def test_who_waits_for_100_continue_gets_it() -> None:
    machine = fetched("Content-Length: 3", "Expect: 100-continue")
    assert machine.next_body() is None
    assert machine.bytes_to_send().startswith(b"HTTP/1.1 100 ")


def test_a_body_that_breaks_the_rules_is_an_error() -> None:
    machine = fetched("Transfer-Encoding: chunked", rest=b"no length\r\n")
    with pytest.raises(h11.RemoteProtocolError):
        machine.next_body()


def test_a_response_is_forwarded_without_what_was_for_the_next_hop() -> None:
    machine = fetched(line="GET http://x.example/ HTTP/1.1")
    assert not machine.has_begun
    machine.respond(
        200,
        b"Fine",
        [
            (b"Content-Length", b"3"),
            (b"Connection", b"close, X-Hop"),
            (b"X-Hop", b"1"),
            (b"Keep-Alive", b"timeout=5"),
            (b"X-Kept", b"1"),
        ],
    )
    assert machine.has_begun
    machine.send_body(b"abc")
    machine.end_response()
    assert machine.bytes_to_send() == (
        b"HTTP/1.1 200 Fine\r\nContent-Length: 3\r\nX-Kept: 1\r\n\r\nabc"
    )
    assert machine.start_next()


@pytest.mark.parametrize(
    "fields", [[], [(b"Transfer-Encoding", b"chunked"), (b"Content-Length", b"1")]]
)
def test_a_response_of_unknown_length_is_chunked(fields: list[tuple[bytes, bytes]]) -> None:
    machine = fetched(line="GET http://x.example/ HTTP/1.1")
    machine.respond(200, b"OK", fields)
    machine.send_body(b"abc")
    machine.end_response()
    said = machine.bytes_to_send()
    assert b"Transfer-Encoding: chunked" in said
    assert said.endswith(b"3\r\nabc\r\n0\r\n\r\n")


def test_a_response_before_the_body_was_read_ends_the_connection() -> None:
    machine = fetched("Content-Length: 100000", rest=b"a")
    machine.refuse(NO)
    assert b"Connection: close\r\n" in machine.bytes_to_send()
    assert not machine.start_next()


# --- pages of its own -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:1080", "localhost", "LOCALHOST:9", "[::1]:1080", "127.9.9.9", "192.0.2.9:1080"],
)
def test_pages_are_shown_to_who_asks_by_an_address_of_this_machine(host: str) -> None:
    for path in ("/readyz", "/metrics", "/metrics?x=1"):
        data = request(f"GET {path} HTTP/1.1", f"Host: {host}")
        assert talk([data], pages=True, own_address="192.0.2.9").events == [
            Page(path=path.partition("?")[0])
        ]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        (("Host: evil.example",), 421),
        (("Host: evil.example:1080",), 421),
        (("Host: localhost.evil.example",), 421),
        (("Host: 127.0.0.1.evil.example",), 421),
        (("Host: 192.0.2.9",), 421),
        (("Host: 127.0.0.1", "Origin: https://evil.example"), 403),
        (("Host: 127.0.0.1", "Origin: null"), 403),
        (("Host: 127.0.0.1", "Sec-Fetch-Site: cross-site"), 403),
        (("Host: localhost", "Sec-Fetch-Site: same-site"), 403),
    ],
)
def test_web_pages_are_kept_out_of_them(fields: tuple[str, ...], status: int) -> None:
    heard = talk([request("GET /metrics HTTP/1.1", *fields)], pages=True)
    assert isinstance(heard.events[0], Refusal)
    assert heard.said.startswith(f"HTTP/1.1 {status} ".encode())


def test_a_browser_may_show_them_to_its_user() -> None:
    data = request("GET /metrics HTTP/1.1", "Host: localhost", "Sec-Fetch-Site: none")
    assert talk([data], pages=True).events == [Page(path="/metrics")]


def test_where_users_are_wanted_metrics_are_for_them() -> None:
    heard = talk([request("GET /metrics HTTP/1.1", "Host: localhost")], pages=True, users=ALICE)
    assert heard.said.startswith(b"HTTP/1.1 401 ")
    right = request(
        "GET /metrics HTTP/1.1", "Host: localhost", f"Authorization: {basic('alice:s3cret')}"
    )
    assert talk([right], pages=True, users=ALICE).events == [Page(path="/metrics")]
    ready = request("GET /readyz HTTP/1.1", "Host: localhost")
    assert talk([ready], pages=True, users=ALICE).events == [Page(path="/readyz")]


def test_a_page_is_plain_text_for_whoever_shows_it() -> None:
    machine = HttpServer(ANYBODY, pages=True)
    machine.receive_data(request("HEAD /readyz HTTP/1.1", "Host: localhost"))
    assert isinstance(machine.next_event(), Page)
    machine.page(200, "text/plain", b"ready\n")
    said = machine.bytes_to_send()
    assert b"X-Content-Type-Options: nosniff\r\n" in said
    assert said.endswith(b"\r\n\r\n")  # HEAD


@given(
    st.lists(
        st.sampled_from([
            b"GET ", b"CONNECT ", b"POST ", b"http://x.example/", b"x.example:1", b"/metrics", b" HTTP/1.1\r\n",
            b"Host: localhost\r\n", b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"\r\n", b"abc",
            b"0\r\n\r\n", b"\n", b" ", b"\x00", b"Proxy-Authorization: Basic YWxpY2U6czNjcmV0\r\n",
        ]),
        min_size=1,
        max_size=14,
    ).map(b"".join),
    st.booleans(),
)  # fmt: skip
def test_pieces_of_requests_in_any_order_are_the_same_however_they_are_cut(
    data: bytes, guarded: bool
) -> None:
    users = ALICE if guarded else ANYBODY
    whole, cut = talk([data], users=users, pages=True), talk(split(data), users=users, pages=True)
    assert whole.events == cut.events
    assert whole.said == cut.said
