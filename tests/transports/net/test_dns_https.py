"""DoH's request and response, without a network: what is asked, what counts as an answer, and how much of it is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import RemoteProtocolError
from transports._net.dns_https import HTTP1Exchange, http2_exchange
from transports._net.dns_messages import MAX_MESSAGE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from transports._net.dns_https import HTTPExchange

BODY = b"the question"
TYPE = ("content-type", "application/dns-message")

Exchange = Callable[[str, str, bytes], "HTTPExchange"]
BOTH: list[Exchange] = [HTTP1Exchange, http2_exchange]

both = pytest.mark.parametrize("make", BOTH, ids=["HTTP/1.1", "HTTP/2"])


def made(make: Exchange) -> HTTPExchange:
    return make("dns.example:8443", "/dns-query", BODY)


def server(request: bytes) -> h2.connection.H2Connection:
    """Return the server's side of HTTP/2, having read `request`."""
    conn = h2.connection.H2Connection(
        h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
    )
    conn.initiate_connection()
    conn.receive_data(request)
    return conn


def response(
    exchange: HTTPExchange,
    body: bytes,
    *,
    status: int = 200,
    headers: Iterable[tuple[str, str]] = (TYPE,),
) -> bytes:
    """Return a whole response to the exchange's request, in its version."""
    request = exchange.bytes_to_send()
    if isinstance(exchange, HTTP1Exchange):
        fields = "".join(f"{name}: {value}\r\n" for name, value in headers)
        head = f"HTTP/1.1 {status} Whatever\r\n{fields}Content-Length: {len(body)}\r\n\r\n"
        return head.encode() + body
    conn = server(request)
    conn.send_headers(1, [(":status", str(status)), *headers])
    for start in range(0, len(body), 16_000):
        conn.send_data(1, body[start : start + 16_000])
    conn.end_stream(1)
    return conn.data_to_send()


def test_the_request_in_http1() -> None:
    exchange = made(HTTP1Exchange)
    assert exchange.bytes_to_send() == (
        b"POST /dns-query HTTP/1.1\r\nHost: dns.example:8443\r\nAccept: application/dns-message\r\n"
        b"Content-Type: application/dns-message\r\nContent-Length: 12\r\nConnection: close\r\n\r\nthe question"
    )
    assert exchange.bytes_to_send() == b""
    assert not exchange.is_done


def test_the_request_in_http2() -> None:
    conn = h2.connection.H2Connection(
        h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
    )
    conn.initiate_connection()
    events = conn.receive_data(made(http2_exchange).bytes_to_send())
    (request,) = [e for e in events if isinstance(e, h2.events.RequestReceived)]
    assert [(str(name), str(value)) for name, value in request.headers or ()] == [
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "dns.example:8443"),
        (":path", "/dns-query"),
        ("accept", "application/dns-message"),
        ("content-type", "application/dns-message"),
        ("content-length", "12"),
    ]
    (data,) = [e for e in events if isinstance(e, h2.events.DataReceived)]
    assert data.data == BODY
    assert any(isinstance(e, h2.events.StreamEnded) for e in events)
    assert conn.remote_settings[h2.settings.SettingCodes.ENABLE_PUSH] == 0


@both
@pytest.mark.parametrize("step", [1, 7, 10_000])
@pytest.mark.parametrize("body", [b"", b"answer", bytes(MAX_MESSAGE)], ids=len)
def test_the_response_may_come_in_any_pieces(make: Exchange, step: int, body: bytes) -> None:
    exchange = made(make)
    data = response(exchange, body)
    if step == 1 and len(data) > 9_999:
        step = 3
    for start in range(0, len(data), step):
        assert not exchange.is_done
        exchange.receive_data(data[start : start + step])
        if not exchange.is_done:
            exchange.bytes_to_send()
    assert exchange.is_done
    assert exchange.bytes_to_send() == b""
    assert exchange.message() == body


@both
@pytest.mark.parametrize("kind", ["application/dns-message; q=1", "Application/DNS-Message"])
def test_the_type_counts_in_any_case_and_without_parameters(make: Exchange, kind: str) -> None:
    exchange = made(make)
    exchange.receive_data(response(exchange, b"answer", headers=[("content-type", kind)]))
    assert exchange.message() == b"answer"


@both
@pytest.mark.parametrize(
    ("status", "headers", "words"),
    [
        (403, [TYPE], "it answered with HTTP status 403"),
        (204, [TYPE], "it answered with HTTP status 204"),
        (302, [("location", "/x")], "it answered with HTTP status 302"),
        (503, [], "it answered with HTTP status 503"),
        (200, [], "it answered with something else than application/dns-message"),
        (200, [("content-type", "text/html")], "something else than application/dns-message"),
        (200, [TYPE, TYPE], "something else than application/dns-message"),
    ],
)
def test_a_response_without_an_answer_is_not_read_on(
    make: Exchange, status: int, headers: list[tuple[str, str]], words: str
) -> None:
    exchange = made(make)
    with pytest.raises(RemoteProtocolError, match=words):
        exchange.receive_data(response(exchange, b"a page", status=status, headers=headers))
    assert not exchange.is_done


@both
def test_an_answer_that_is_too_long_is_not_read_on(make: Exchange) -> None:
    exchange = made(make)
    with pytest.raises(RemoteProtocolError, match=f"an answer of more than {MAX_MESSAGE} octets"):
        exchange.receive_data(response(exchange, bytes(MAX_MESSAGE + 1)))


@pytest.mark.parametrize(
    ("make", "data"),
    [
        (HTTP1Exchange, b"SSH-2.0-x\r\n\r\n"),
        (HTTP1Exchange, bytes(99)),
        (HTTP1Exchange, b"HTTP/1.1 200 OK\r\nx\r\n\r\n"),
        (http2_exchange, bytes(99)),
    ],
)
def test_who_speaks_something_else_is_told_apart(make: Exchange, data: bytes) -> None:
    exchange = made(make)
    exchange.bytes_to_send()
    with pytest.raises(RemoteProtocolError, match=r"it does not speak HTTP"):
        exchange.receive_data(data)


@pytest.mark.parametrize(
    ("make", "data"),
    [
        (HTTP1Exchange, b"HTTP/1.1 100 Continue\r\n\r\n" * 400),
        (http2_exchange, b"HTTP/1.1 200 OK\r\n" * 400),
    ],
)
def test_who_talks_for_ever_is_not_listened_to(make: Exchange, data: bytes) -> None:
    exchange = made(make)
    exchange.bytes_to_send()
    with pytest.raises(RemoteProtocolError, match="it sent more than 131072 octets"):
        for _ in range(30):
            exchange.receive_data(data)


def test_a_head_without_end_is_not_read_on() -> None:
    exchange = made(HTTP1Exchange)
    with pytest.raises(RemoteProtocolError, match="it does not speak HTTP"):
        for _ in range(10):
            exchange.receive_data(b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 20_000)


def test_interim_responses_are_skipped() -> None:
    exchange = made(HTTP1Exchange)
    exchange.receive_data(b"HTTP/1.1 103 Early Hints\r\n\r\n" + response(exchange, b"answer"))
    assert exchange.message() == b"answer"

    exchange = made(http2_exchange)
    conn = server(exchange.bytes_to_send())
    conn.send_headers(1, [(":status", "103")])
    conn.send_headers(1, [(":status", "200"), TYPE])
    conn.send_data(1, b"answer", end_stream=True)
    exchange.receive_data(conn.data_to_send())
    assert exchange.message() == b"answer"


def test_a_body_without_length_ends_with_the_connection() -> None:
    """RFC 9112 §6.3."""
    exchange = made(HTTP1Exchange)
    exchange.receive_data(b"HTTP/1.1 200 OK\r\nContent-Type: application/dns-message\r\n\r\nans")
    exchange.receive_data(b"wer")
    assert not exchange.is_done
    exchange.receive_eof()
    assert exchange.is_done
    assert exchange.message() == b"answer"


@pytest.mark.parametrize("size", [0, 10, 70])
def test_a_response_that_breaks_off_is_none(size: int) -> None:
    exchange = made(HTTP1Exchange)
    exchange.receive_data(response(exchange, b"answer")[:size])
    exchange.receive_eof()
    assert not exchange.is_done


def test_an_http2_server_may_say_goodbye_with_its_answer() -> None:
    exchange = made(http2_exchange)
    conn = server(exchange.bytes_to_send())
    conn.send_headers(1, [(":status", "200"), TYPE])
    conn.send_data(1, b"answer", end_stream=True)
    conn.close_connection(0)
    exchange.receive_data(conn.data_to_send())
    assert exchange.message() == b"answer"


@pytest.mark.parametrize("how", ["reset", "goaway", "goaway before"])
def test_an_http2_server_may_refuse(how: str) -> None:
    exchange = made(http2_exchange)
    conn = server(exchange.bytes_to_send())
    if how == "reset":
        conn.reset_stream(1, 0xB)
    elif how == "goaway":
        conn.close_connection(0xB)
    else:
        conn.close_connection(0, last_stream_id=0)
    with pytest.raises(RemoteProtocolError, match="it ended the request with HTTP/2 error code "):
        exchange.receive_data(conn.data_to_send())


def test_an_http2_connection_that_ends_is_no_answer() -> None:
    exchange = made(http2_exchange)
    exchange.receive_eof()
    assert not exchange.is_done


@both
@given(data=st.lists(st.binary(max_size=60), max_size=6), prefix=st.integers(0, 200))
def test_any_octets_are_a_response_or_none(make: Exchange, data: list[bytes], prefix: int) -> None:
    exchange = made(make)
    try:
        exchange.receive_data(response(exchange, b"answer")[:prefix])
        for part in data:
            exchange.receive_data(part)
            exchange.bytes_to_send()
        exchange.receive_eof()
    except RemoteProtocolError:
        return
    if exchange.is_done:
        assert len(exchange.message()) <= MAX_MESSAGE
