"""An HTTP proxy to the byte: what is asked, what is answered, and what ends the conversation."""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer import lab
from racer.testing import run_virtual, stream_pair

if TYPE_CHECKING:
    from anyio.abc import ByteStream

pytestmark = pytest.mark.virtual_time

SITE = "192.0.2.7"
NAME = "news.example"
OPEN = b"HTTP/1.1 200 Connection established\r\n\r\n"
network = partial(lab.Network, in_memory=True)


def ask(authority: str = "news.example:443", *fields: str, method: str = "CONNECT") -> bytes:
    lines = [f"{method} {authority} HTTP/1.1", f"Host: {authority}", *fields, "", ""]
    return "\r\n".join(lines).encode()


def basic(credential: str, scheme: str = "Basic") -> str:
    return f"Proxy-Authorization: {scheme} {base64.b64encode(credential.encode()).decode()}"


async def converse(proxy: lab.HttpProxy, *words: bytes) -> bytes:
    """All that the proxy says to a client who says these words and ends its side."""
    near, far = stream_pair()
    async with near, anyio.create_task_group() as group:
        group.start_soon(lab.Site("proxy", proxy.serve_stream).serve, far)
        told = b""
        try:
            for word in words:
                await near.send(word)
                await anyio.sleep(1)
            await near.send_eof()
            async for data in near:
                told += data
        except anyio.BrokenResourceError:
            pass
        return told
    raise AssertionError


@pytest.mark.parametrize(
    ("authority", "host", "port"),
    [
        ("news.example:443", NAME, 443),
        ("192.0.2.7:443", SITE, 443),
        ("[2001:db8::7]:443", "2001:db8::7", 443),
    ],
)
async def test_any_kind_of_authority_is_understood(authority: str, host: str, port: int) -> None:
    async with network() as net:
        await net.add_site(NAME, SITE, "2001:db8::7")
        proxy = lab.HttpProxy(connect=net.connector())
        assert await converse(proxy, ask(authority, "X-Mine: 1"), b"hello") == OPEN + b"hello"
        assert proxy.requests == [
            lab.ProxyRequest(host=host, port=port, headers={"host": authority, "x-mine": "1"})
        ]


@pytest.mark.parametrize(
    ("field", "is_right"),
    [
        (basic("user:secret"), True),
        (basic("user:secret", "basic"), True),
        (basic("user:wrong"), False),
        (basic("user:secret", "Bearer"), False),
        (basic("no colon"), False),
        ("Proxy-Authorization: Basic ???", False),
        ("Proxy-Authorization: Basic /w==", False),
        ("X-None: 1", False),
    ],
)
async def test_who_wants_a_credential_gets_it(field: str, is_right: bool) -> None:
    async with network() as net:
        await net.add_site(NAME, SITE)
        proxy = lab.HttpProxy(connect=net.connector(), credential=("user", "secret"))
        told = await converse(proxy, ask("news.example:443", field))
        if is_right:
            assert told == OPEN
        else:
            assert told.startswith(b"HTTP/1.1 407 Proxy Authentication Required\r\n")
            assert b'\r\nProxy-Authenticate: Basic realm="lab"\r\n' in told
        (request,) = proxy.requests
        assert request.user == ("user" if is_right else None)
        assert "proxy-authorization" not in request.headers
        assert "secret" not in repr(proxy.requests) + repr(proxy)


async def test_after_a_407_a_client_may_ask_again() -> None:
    async with network() as net:
        await net.add_site(NAME, SITE)
        proxy = lab.HttpProxy(connect=net.connector(), credential=("user", "secret"))
        told = await converse(proxy, ask(), ask("news.example:443", basic("user:secret")), b"hello")
        assert told.startswith(b"HTTP/1.1 407 ")
        assert told.endswith(OPEN + b"hello")
        assert [request.user for request in proxy.requests] == [None, "user"]


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (
            lab.ProxyRefusal(code=403),
            b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        ),
        (
            lab.ProxyRefusal(code=503, headers={"Retry-After": "5"}, body=b"later", host="news.*"),
            b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlater",
        ),
        (
            lab.ProxyRefusal(code=799),
            b"HTTP/1.1 799 Unheard of\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        ),
        (lab.ProxyRefusal(code=200, host="other.example"), OPEN),
    ],
)
async def test_any_status_can_be_scripted(refusal: lab.ProxyRefusal, told: bytes) -> None:
    async with network() as net:
        await net.add_site(NAME, SITE)
        proxy = lab.HttpProxy(connect=net.connector(), faults=[refusal])
        assert await converse(proxy, ask()) == told


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (b"garbage\r\n\r\n", 400),
        (b"CONNECT news.example HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"CONNECT news.example:x HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"CONNECT news.example:65536 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"CONNECT news.example:99999999999 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"CONNECT :443 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"CONNECT news.example:443 HTTP/1.1\r\n\r\n", 400),  # no Host
        (b"CONNECT news.example:443 HTTP/1.1\r\nHost: " + b"x" * 70_000, 400),
        (ask("http://news.example/", method="GET"), 405),
        (ask("http://news.example:8080/x", method="POST"), 405),
        (ask("/", method="GET"), 405),
    ],
)
async def test_what_it_does_not_do_it_says(words: bytes, status: int) -> None:
    told = await converse(lab.HttpProxy(), words)
    assert told.startswith(b"HTTP/1.1 %d " % status)
    assert told.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("target", "host", "port"),
    [("http://news.example/", NAME, 80), ("http://news.example:81", NAME, 81), ("/", "-", 0)],
)
async def test_what_it_declines_is_noted(target: str, host: str, port: int) -> None:
    proxy = lab.HttpProxy()
    await converse(proxy, ask(target, method="GET"))
    assert [(request.host, request.port) for request in proxy.requests] == [(host, port)]


async def nowhere(host: str, port: int) -> ByteStream:
    raise OSError("nowhere")


@given(
    st.one_of(
        st.binary(max_size=300),
        st.binary(max_size=100).map(
            lambda data: b"CONNECT " + data + b" HTTP/1.1\r\nHost: x\r\n\r\n"
        ),
        st.binary(max_size=100).map(lambda data: ask()[:-2] + data + b"\r\n\r\n"),
    )
)
def test_garbage_is_never_an_exception(octets: bytes) -> None:
    run_virtual(converse, lab.HttpProxy(connect=nowhere, credential=("user", "secret")), octets)
