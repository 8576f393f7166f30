"""SOCKS5 to the byte: what is asked, what is answered, and what ends the conversation."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer import lab
from racer.errors import ConfigError
from racer.testing import run_virtual, stream_pair

if TYPE_CHECKING:
    from anyio.abc import ByteStream

pytestmark = pytest.mark.virtual_time

SITE = "192.0.2.7"
NAME = "news.example"
network = partial(lab.Network, in_memory=True)

HELLO = b"\5\1\0"
WITH_USER = b"\5\2\0\2"
LOGIN = b"\1\4user\6secret"
BY_NAME = b"\5\1\0\3\x0cnews.example\1\xbb"
BY_IPV4 = b"\5\1\0\1\xc0\0\2\7\1\xbb"
BY_IPV6 = b"\5\1\0\4\x20\1\x0d\xb8" + bytes(11) + b"\7\1\xbb"
STANDS = b"\5\0\0\1\0\0\0\0\0\0"


def refused(code: int) -> bytes:
    return bytes([5, code, 0, 1, 0, 0, 0, 0, 0, 0])


async def converse(proxy: lab.Socks5Proxy, *words: bytes) -> bytes:
    """All that the proxy says to a client who says these words and ends its side."""
    near, far = stream_pair()
    async with near, anyio.create_task_group() as group:
        group.start_soon(lab.Site("proxy", proxy.serve_stream).serve, far)
        told = b""
        with contextlib.suppress(anyio.BrokenResourceError):  # it may leave at any word
            for word in words:
                await near.send(word)
        await anyio.sleep(1)
        await near.send_eof()
        with contextlib.suppress(anyio.BrokenResourceError):
            async for data in near:
                told += data
        return told
    raise AssertionError


@pytest.mark.parametrize(
    ("words", "host", "port"),
    [(BY_NAME, NAME, 443), (BY_IPV4, SITE, 443), (BY_IPV6, "2001:db8::7", 443)],
)
async def test_any_kind_of_address_is_understood(words: bytes, host: str, port: int) -> None:
    async with network() as net:
        await net.add_site(NAME, SITE, "2001:db8::7")
        proxy = lab.Socks5Proxy(connect=net.connector())
        assert await converse(proxy, HELLO, words, b"hello") == b"\5\0" + STANDS + b"hello"
        assert proxy.requests == [lab.ProxyRequest(host=host, port=port)]


@pytest.mark.parametrize(
    ("bound", "octets"),
    [
        (("192.0.2.1", 258), b"\1\xc0\0\2\1\1\2"),
        (("2001:db8::1", 258), b"\4\x20\1\x0d\xb8" + bytes(11) + b"\1\1\2"),
        (("gw.example", 258), b"\3\x0agw.example\1\2"),
    ],
)
async def test_it_may_name_any_kind_of_address(bound: tuple[str, int], octets: bytes) -> None:
    async with network() as net:
        await net.add_site(NAME, SITE)
        proxy = lab.Socks5Proxy(connect=net.connector(), bound=bound)
        assert await converse(proxy, HELLO, BY_NAME) == b"\5\0\5\0\0" + octets


@pytest.mark.parametrize("name", ["", "x" * 256])
def test_a_bound_name_that_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="bound"):
        lab.Socks5Proxy(bound=(name, 1))


@pytest.mark.parametrize(
    ("words", "said", "users"),
    [
        ([WITH_USER, LOGIN, BY_NAME], b"\5\2\1\0" + STANDS, ["user"]),
        ([WITH_USER, b"\1\4user\5wrong", BY_NAME], b"\5\2\1\1", []),
        ([WITH_USER, b"\1\4else\6secret", BY_NAME], b"\5\2\1\1", []),
        ([WITH_USER, b"\2\4user\6secret", BY_NAME], b"\5\2\1\1", []),
        ([WITH_USER, b"\1\0\0", BY_NAME], b"\5\2\1\1", []),
        ([HELLO, BY_NAME], b"\5\xff", []),
        ([b"\5\0", BY_NAME], b"\5\xff", []),
    ],
)
async def test_who_wants_a_credential_gets_it(
    words: list[bytes], said: bytes, users: list[str]
) -> None:
    async with network() as net:
        await net.add_site(NAME, SITE)
        proxy = lab.Socks5Proxy(connect=net.connector(), credential=("user", "secret"))
        assert await converse(proxy, *words) == said
        assert [request.user for request in proxy.requests] == users
        assert "secret" not in repr(proxy.requests) + repr(proxy)


async def test_who_wants_none_does_not_ask() -> None:
    assert (await converse(lab.Socks5Proxy(), b"\5\2\2\0"))[:2] == b"\5\0"
    assert await converse(lab.Socks5Proxy(), b"\5\1\2") == b"\5\xff"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([b"\4\1\0"], b""),
        ([HELLO, b"\4" + BY_NAME[1:]], b"\5\0"),
        ([HELLO, b"\5\2\0\1\xc0\0\2\7\1\xbb"], b"\5\0" + refused(7)),  # BIND
        ([HELLO, b"\5\3\0\1\xc0\0\2\7\1\xbb"], b"\5\0" + refused(7)),  # UDP ASSOCIATE
        ([HELLO, b"\5\1\0\2\xc0\0\2\7\1\xbb"], b"\5\0" + refused(8)),  # an address of no kind
        ([HELLO, BY_NAME[:-1]], b"\5\0"),
        ([b"GET / HTTP/1.1\r\n\r\n"], b""),
    ],
)
async def test_what_it_does_not_do_it_says(words: list[bytes], said: bytes) -> None:
    assert await converse(lab.Socks5Proxy(), *words) == said


@pytest.mark.parametrize("code", [1, 2, 6, 9, 255])
async def test_any_reply_can_be_scripted(code: int) -> None:
    proxy = lab.Socks5Proxy(faults=[lab.ProxyRefusal(code=code, host="news.*")])
    assert await converse(proxy, HELLO, BY_NAME) == b"\5\0" + refused(code)
    assert len(proxy.requests) == 1


@pytest.mark.parametrize("stage", [lab.ProxyStage.GREETING, lab.ProxyStage.CREDENTIAL])
@pytest.mark.parametrize("says", [b"", b"\4\0"])
async def test_it_goes_wrong_at_stages_of_its_own(stage: lab.ProxyStage, says: bytes) -> None:
    """Also with another version in its answer, or after a method that it was not offered."""
    proxy = lab.Socks5Proxy(
        credential=("user", "secret"), faults=[lab.ProxyFault(stage=stage, says=says)]
    )
    before = b"" if stage is lab.ProxyStage.GREETING else b"\5\2"
    assert await converse(proxy, WITH_USER, LOGIN, BY_NAME) == before + says
    assert proxy.requests == []


async def nowhere(host: str, port: int) -> ByteStream:
    raise OSError("nowhere")


@given(
    st.one_of(
        st.binary(max_size=600),
        st.binary(max_size=300).map(lambda data: HELLO + data),
        st.binary(max_size=300).map(lambda data: HELLO + b"\5\1\0\3" + data),
    ),
    st.booleans(),
)
def test_garbage_is_never_an_exception(octets: bytes, asks: bool) -> None:
    options: dict[str, Any] = {"credential": ("user", "secret")} if asks else {}
    run_virtual(converse, lab.Socks5Proxy(connect=nowhere, **options), octets)
