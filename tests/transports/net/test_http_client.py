"""HTTP without IO, both versions by one face: cut anywhere, bounded, and one request after the other."""

from __future__ import annotations

from typing import Any

import h2.config
import h2.connection
import h2.errors
import h2.events
import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import LocalProtocolError, RemoteProtocolError
from transports._net.http2_client import HTTP2Client
from transports._net.http_client import (
    END,
    HTTP1Client,
    HTTPClient,
    RequestHead,
    ResponseHead,
    http2_client,
    without_hop_fields,
)

GET = RequestHead(method="GET", authority="example.com", target="/", fields=((b"X-A", b"1"),))
POST = RequestHead(method="POST", authority="example.com", target="/p", body_length=5)


def events_of(client: HTTPClient) -> list[Any]:
    found = []
    while (event := client.next_event()) is not None:
        found.append(event)
        if event is END:
            break
    return found


def ask(client: HTTPClient, head: RequestHead, body: bytes = b"") -> bytes:
    client.begin(head)
    if body:
        client.add_body(body)
    client.end_body()
    return client.bytes_to_send()


class Server:
    """The far side of HTTP/2, by h2 itself."""

    def __init__(self) -> None:
        config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        self.http = h2.connection.H2Connection(config)
        self.http.initiate_connection()

    def hear(self, data: bytes) -> list[Any]:
        return self.http.receive_data(data)

    def answer(self, stream: int, body: bytes, *, status: str = "200", end: bool = True) -> bytes:
        self.http.send_headers(stream, [(":status", status), ("x-b", "2")])
        if body:
            self.http.send_data(stream, body)
        if end:
            self.http.end_stream(stream)
        return self.http.data_to_send()


ANSWER = b"HTTP/1.1 200 OK\r\nX-B: 2\r\nContent-Length: 4\r\n\r\nbody"


@pytest.mark.parametrize("step", [1, 2, 7, 1000])
def test_http1_cut_anywhere(step: int) -> None:
    client = HTTP1Client()
    for _ in range(2):  # and again on the same connection
        sent = ask(client, POST, b"12345")
        assert sent.startswith(b"POST /p HTTP/1.1\r\nHost: example.com\r\n")
        assert sent.endswith(b"Content-Length: 5\r\n\r\n12345")
        found = []
        for at in range(0, len(ANSWER), step):
            client.receive_data(ANSWER[at : at + step])
            found += events_of(client)
        assert found[0] == ResponseHead(
            status=200, fields=((b"x-b", b"2"), (b"content-length", b"4")), http_version="HTTP/1.1"
        )
        assert b"".join(found[1:-1]) == b"body"
        assert found[-1] is END
        assert client.is_idle


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_http2_cut_anywhere(step: int) -> None:
    client, server = http2_client(), Server()
    for stream in (1, 3):
        heard = server.hear(ask(client, POST, b"12345"))
        request = next(e for e in heard if isinstance(e, h2.events.RequestReceived))
        fields = {str(n): str(v) for n, v in request.headers or ()}
        assert fields[":authority"] == "example.com"
        assert fields["content-length"] == "5"
        assert "host" not in fields
        data = server.answer(stream, b"body")
        found = []
        for at in range(0, len(data), step):
            client.receive_data(data[at : at + step])
            found += events_of(client)
        assert found[0].status == 200
        assert found[0].get(b"x-b") == b"2"
        assert b"".join(found[1:-1]) == b"body"
        assert found[-1] is END
        assert client.is_idle


@pytest.mark.parametrize(
    ("data", "idle"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n", False),
    ],
)
def test_when_http1_takes_another_request(data: bytes, idle: bool) -> None:
    client = HTTP1Client()
    ask(client, GET)
    assert not client.is_idle
    client.receive_data(data)
    assert events_of(client)[-1] is END
    assert client.is_idle == idle
    if not idle:
        with pytest.raises(LocalProtocolError, match="begun before"):
            client.begin(GET)


def test_http1_without_a_length_ends_with_the_connection() -> None:
    client = HTTP1Client()
    ask(client, GET)
    client.receive_data(b"HTTP/1.1 200 OK\r\n\r\nall")
    assert events_of(client)[-1] == b"all"
    client.receive_eof()
    assert events_of(client) == [END]
    assert not client.is_idle


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"SSH-2.0-x\r\n\r\n", "not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000, "not HTTP/1.1"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 9, "more than 8 answers of 1xx"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "not HTTP/1.1"),
    ],
)
def test_http1_that_is_none(data: bytes, words: str) -> None:
    client = HTTP1Client()
    ask(client, GET)
    client.receive_data(data)
    with pytest.raises(RemoteProtocolError, match=words):
        events_of(client)


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"])
def test_http1_that_ends_too_early(data: bytes) -> None:
    client = HTTP1Client()
    ask(client, GET)
    client.receive_data(data)
    client.receive_eof()
    with pytest.raises(RemoteProtocolError, match="closed before"):
        while events_of(client):
            pass


def test_a_body_waits_for_http2s_windows() -> None:
    client, server = http2_client(), Server()
    client.begin(RequestHead(method="PUT", authority="h", target="/", body_length=200_000))
    sent = 0
    server.hear(client.bytes_to_send())
    client.receive_data(server.http.data_to_send())
    while client.room:
        size = client.room
        client.add_body(bytes(size))
        sent += size
        server.hear(client.bytes_to_send())
    assert sent == 65_535
    server.http.acknowledge_received_data(sent, 1)
    client.receive_data(server.http.data_to_send())
    assert client.room
    with pytest.raises(LocalProtocolError, match="shorter"):
        client.end_body()


def test_windows_of_a_long_response_open_again() -> None:
    client, server = http2_client(), Server()
    server.hear(ask(client, GET))
    client.receive_data(server.http.data_to_send())
    server.hear(client.bytes_to_send())
    server.http.send_headers(1, [(":status", "200")])
    got = 0
    for _ in range(400):
        for _ in range(8):
            if server.http.local_flow_control_window(1) >= 16_384:
                server.http.send_data(1, bytes(16_384))
        client.receive_data(server.http.data_to_send())
        got += sum(len(e) for e in events_of(client) if isinstance(e, bytes))
        server.hear(client.bytes_to_send())
    assert got == 400 * 8 * 16_384


def test_http2_goes_away() -> None:
    client, server = http2_client(), Server()
    server.hear(ask(client, GET))
    data = server.answer(1, b"x")
    server.http.close_connection(last_stream_id=1)
    client.receive_data(data + server.http.data_to_send())
    assert events_of(client)[-1] is END
    assert not client.is_idle
    late, server = http2_client(), Server()
    server.hear(ask(late, GET))
    server.http.close_connection(last_stream_id=0)
    late.receive_data(server.http.data_to_send())
    with pytest.raises(RemoteProtocolError, match="ended before"):
        late.next_event()


def test_http2_resets() -> None:
    client, server = http2_client(), Server()
    server.hear(ask(client, GET))
    server.http.reset_stream(1, h2.errors.ErrorCodes.REFUSED_STREAM)
    with pytest.raises(RemoteProtocolError, match="error code"):
        client.receive_data(server.http.data_to_send())
    # An answer before the whole body, and a reset that says the rest is not wanted (RFC 9113 §8.1).
    client, server = http2_client(), Server()
    client.begin(POST)
    server.hear(client.bytes_to_send())
    data = server.answer(1, b"enough")
    server.http.reset_stream(1, h2.errors.ErrorCodes.NO_ERROR)
    client.receive_data(data + server.http.data_to_send())
    assert events_of(client)[-1] is END
    assert client.is_idle


def test_an_unfinished_body_is_reset_at_the_answers_end() -> None:
    client, server = http2_client(), Server()
    client.begin(POST)
    server.hear(client.bytes_to_send())
    client.receive_data(server.answer(1, b"enough"))
    assert events_of(client)[-1] is END
    (event,) = server.hear(client.bytes_to_send())[-1:]
    assert isinstance(event, h2.events.StreamReset)


@pytest.mark.parametrize(
    ("frames", "words"),
    [(b"HTTP/1.1 400 Bad Request\r\n\r\n", "not HTTP/2|ended"), (b"\x00" * 30, "not HTTP/2")],
)
def test_http2_that_is_none(frames: bytes, words: str) -> None:
    client = HTTP2Client()
    ask(client, GET)
    with pytest.raises(RemoteProtocolError, match=words):
        client.receive_data(frames)
        client.receive_eof()
        client.next_event()


@pytest.mark.parametrize("make", [HTTP1Client, http2_client])
@pytest.mark.parametrize(
    "bad",
    [(b"x-a", b"1\r\nx-evil: 1"), (b"x a", b"1"), (b"x-a\r\n", b"1")],
)
def test_no_field_can_make_another(make: Any, bad: tuple[bytes, bytes]) -> None:
    client = make()
    with pytest.raises(LocalProtocolError, match="cannot carry"):
        client.begin(RequestHead(method="GET", authority="h", target="/", fields=(bad,)))
    assert b"x-evil" not in client.bytes_to_send()


@pytest.mark.parametrize("make", [HTTP1Client, http2_client])
@given(chunks=st.lists(st.binary(min_size=1, max_size=60), max_size=8))
def test_garbage_gives_events_or_one_error(make: Any, chunks: list[bytes]) -> None:
    client = make()
    ask(client, GET)
    try:
        for chunk in chunks:
            client.receive_data(chunk)
            events_of(client)
        client.receive_eof()
        events_of(client)
    except RemoteProtocolError:
        pass


def test_fields_of_one_connection_are_left_out() -> None:
    fields = [
        (b"Host", b"h"), (b"Connection", b"close, X-Mine"), (b"x-mine", b"1"), (b"Keep-Alive", b"1"),
        (b"TE", b"trailers"), (b"Transfer-Encoding", b"chunked"), (b"Content-Length", b"3"),
        (b"Upgrade", b"x"), (b"Proxy-Authorization", b"x"), (b"Cookie", b"a=b"), (b"X-Own", b"1"),
    ]  # fmt: skip
    assert without_hop_fields(fields) == ((b"Cookie", b"a=b"), (b"X-Own", b"1"))


def test_http2_holds_its_own_side_to_the_protocol() -> None:
    client = http2_client()
    client.begin(POST)
    with pytest.raises(LocalProtocolError, match="begun before"):
        client.begin(GET)
    with pytest.raises(LocalProtocolError, match="longer"):
        client.add_body(b"123456")
    idle = http2_client()
    assert idle.room == 0


def test_http2_informs_before_it_answers() -> None:
    client, server = http2_client(), Server()
    server.hear(ask(client, GET))
    for _ in range(8):
        server.http.send_headers(1, [(":status", "103"), ("link", "</x>")])
    client.receive_data(server.answer(1, b"x"))
    assert [e.status for e in events_of(client) if isinstance(e, ResponseHead)] == [200]
    client, server = http2_client(), Server()
    server.hear(ask(client, GET))
    for _ in range(9):
        server.http.send_headers(1, [(":status", "103")])
    with pytest.raises(RemoteProtocolError, match="more than 8 answers of 1xx"):
        client.receive_data(server.http.data_to_send())


def test_http2_that_breaks_off() -> None:
    client, server = http2_client(), Server()
    server.hear(ask(client, GET))
    client.receive_data(server.answer(1, b"half", end=False))
    assert [e for e in events_of(client) if isinstance(e, bytes)] == [b"half"]
    client.receive_eof()
    with pytest.raises(RemoteProtocolError, match="ended before"):
        client.next_event()
    assert not client.is_idle


@pytest.mark.parametrize("make", [HTTP1Client, http2_client])
@pytest.mark.parametrize(
    "head",
    [
        RequestHead(method="GE T", authority="h", target="/"),
        RequestHead(method="", authority="h", target="/"),
        RequestHead(method="GET", authority="h\r\nX: 1", target="/"),
        RequestHead(method="GET", authority="h", target="/ HTTP/1.1"),
        RequestHead(method="GET", authority="h", target="/\u00e9"),
        RequestHead(method="GET", authority="", target="/"),
    ],
)
def test_heads_that_nobody_should_write(make: Any, head: RequestHead) -> None:
    with pytest.raises(LocalProtocolError, match="cannot carry"):
        make().begin(head)
