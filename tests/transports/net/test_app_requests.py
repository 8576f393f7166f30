"""Requests and responses of two libraries, taken and given as each has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import httpx2
import pytest

from racer.errors import LocalProtocolError
from transports._net.app_requests import make_response, read_request
from transports._net.http_client import ResponseHead

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

LIBRARIES = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])


async def parts() -> AsyncIterator[bytes]:
    yield b"one"
    yield b"two"


@LIBRARIES
def test_a_request_is_read(library: Any) -> None:
    request = library.Request(
        "POST", "https://user:secret@EXAMPLE.com:8443/p?q=1#f", headers={"X-Own": "1"}, content=b"ab",
        extensions={"timeout": {"read": 3.0}},
    )  # fmt: skip
    app = read_request(request)
    assert (app.method, app.scheme, app.host, app.port) == ("POST", "https", "example.com", 8443)
    assert (app.target, app.body, app.body_length) == ("/p?q=1", b"ab", 2)
    assert app.url == "https://example.com:8443/p?q=1"
    assert app.read_timeout == 3.0
    names = [name.lower() for name, _ in app.fields]
    assert b"x-own" in names
    assert not {b"host", b"content-length"} & set(names)
    assert "secret" not in repr(app)
    head = app.head("edge.example.net", (b"x-more", b"2"))
    assert head.authority == "edge.example.net"
    assert head.fields[-1] == (b"x-more", b"2")


@LIBRARIES
@pytest.mark.parametrize(
    ("method", "content", "extensions", "repeatable"),
    [
        ("GET", None, {}, True),
        ("HEAD", None, {}, True),
        ("OPTIONS", None, {}, True),
        ("POST", b"x", {}, False),
        ("PUT", b"x", {}, False),
        ("DELETE", None, {}, False),
        ("POST", b"x", {"racer": {"idempotent": True}}, True),
        ("POST", b"x", {"racer": {"idempotent": False}}, False),
        ("POST", b"x", {"racer": "idempotent"}, False),
        ("GET", parts, {}, False),  # its body can be taken once
    ],
)
def test_what_may_be_repeated(
    library: Any, method: str, content: Any, extensions: dict[str, Any], repeatable: bool
) -> None:
    body = content() if callable(content) else content
    request = library.Request(method, "http://h/", content=body, extensions=extensions)
    assert read_request(request).is_repeatable == repeatable


@LIBRARIES
async def test_a_body_that_is_streamed(library: Any) -> None:
    app = read_request(library.Request("POST", "http://h/", content=parts()))
    assert app.body_length is None
    assert not isinstance(app.body, bytes)
    assert [chunk async for chunk in app.body] == [b"one", b"two"]
    sized = library.Request("POST", "http://h/", headers={"Content-Length": "6"}, content=parts())
    assert read_request(sized).body_length == 6


@LIBRARIES
def test_a_body_that_would_block(library: Any) -> None:
    def blocking() -> Iterator[bytes]:
        yield b"x"

    with pytest.raises(LocalProtocolError, match="synchronously"):
        read_request(library.Request("POST", "http://h/", content=blocking()))


@pytest.mark.parametrize("thing", ["GET /", None, object(), httpx.Response(200)])
def test_what_is_no_request(thing: object) -> None:
    with pytest.raises(LocalProtocolError, match="a Request of httpx or httpx2"):
        read_request(thing)


@LIBRARIES
async def test_a_response_is_of_the_requests_library(library: Any) -> None:
    chunks = [b"", b"two", b"one"]
    closed: list[bool] = []

    async def receive() -> bytes:
        return chunks.pop()

    async def aclose() -> None:
        closed.append(True)

    head = ResponseHead(
        status=418,
        fields=((b"set-cookie", b"a=1"), (b"set-cookie", b"b=2"), (b"connection", b"close")),
        http_version="HTTP/2",
    )
    request = library.Request("GET", "http://h/")
    response = make_response(request, head, receive, aclose, extensions={"way": 1})
    assert isinstance(response, library.Response)
    assert isinstance(response.stream, library.AsyncByteStream)
    assert response.headers.get_list("set-cookie") == ["a=1", "b=2"]
    assert "connection" not in response.headers
    assert response.extensions["http_version"] == b"HTTP/2"
    assert response.extensions["way"] == 1
    assert await response.aread() == b"onetwo"
    assert closed == [True]
