"""One question to one resolver, over each of its carriers on loopback, and what comes of what is no answer."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from racer import lab
from racer.doctor import Resolver, Ways
from racer.doctor._asking import ask
from racer.doctor._messages import Answer, Question, decode, encode
from racer.errors import ConfigError, RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

HOSTS = {"news.example": ["192.0.2.7", "192.0.2.8"]}


@functools.cache
def authority() -> lab.Authority:
    return lab.Authority()


@pytest.fixture(scope="module", autouse=True)
def certificate() -> None:
    for alpn in ((), ("h2", "http/1.1")):  # writes files, so not in a loop
        authority().server_context("localhost", "127.0.0.1", alpn=alpn)


def serving(scheme: str, zone: lab.Zone) -> lab.NameServer | lab.DoTServer | lab.DoHServer:
    if scheme in {"udp", "tcp"}:
        return lab.NameServer(zone)
    alpn = ("h2", "http/1.1") if scheme == "https" else ()
    context = authority().server_context("localhost", "127.0.0.1", alpn=alpn)
    kind: Callable[..., lab.DoTServer | lab.DoHServer]
    kind = lab.DoHServer if scheme == "https" else lab.DoTServer
    return kind(zone, context=context)


@pytest.mark.parametrize(
    ("scheme", "alpn"),
    [("udp", ()), ("tcp", ()), ("tls", ()), ("https", ("h2",)), ("https", ("http/1.1",))],
)
async def test_every_carrier(scheme: str, alpn: tuple[str, ...]) -> None:
    async with serving(scheme, lab.Zone(HOSTS)) as server:
        host, port = server.address[:2]
        resolver = Resolver(scheme=scheme, host=host, port=port, path="/dns-query")
        ways = Ways(resolver_tls=authority().client_context(alpn=alpn))
        heard = await ask(resolver, Question(name="NeWs.example"), ways, limit=20.0)
    assert heard.error == ""
    (answer,) = heard.answers
    assert answer.rcode == "NOERROR"
    assert set(answer.addresses) == set(HOSTS["news.example"])
    assert heard.seconds is not None


async def test_one_that_nobody_can_trust() -> None:
    async with serving("tls", lab.Zone(HOSTS)) as server:
        host, port = server.address[:2]
        resolver = Resolver(scheme="tls", host=host, port=port)
        ways = Ways(resolver_tls=lab.Authority().client_context())
        heard = await ask(resolver, Question(name="news.example"), ways, limit=20.0)
    assert heard.answers == ()
    assert heard.error.startswith("its certificate is not to be trusted (")


async def test_garbage_is_an_error_in_words() -> None:
    zone = lab.Zone(HOSTS)
    zone.rules.append(lab.Garbage(data=b"\0\1\2", over="tcp"))
    async with lab.NameServer(zone) as server:
        host, port = server.address[:2]
        resolver = Resolver(scheme="tcp", host=host, port=port)
        heard = await ask(resolver, Question(name="news.example"), Ways(), limit=20.0)
    assert heard.answers == ()
    assert heard.error == "what came is no answer to the question"


async def test_a_port_where_nobody_listens(free_port: int) -> None:
    resolver = Resolver(scheme="tcp", host="127.0.0.1", port=free_port)
    heard = await ask(resolver, Question(name="news.example"), Ways(), limit=20.0)
    assert heard.answers == ()
    assert heard.error == "it refuses connections"


@pytest.fixture
async def free_port() -> int:
    async with lab.NameServer(lab.Zone({})) as server:
        return server.address[1]


# --- URLs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "label"),
    [
        ("udp://192.0.2.53", "udp://192.0.2.53"),
        ("udp://192.0.2.53:5353", "udp://192.0.2.53:5353"),
        ("tls://[2001:db8::53]", "tls://[2001:db8::53]"),
        ("https://dns.example/secret-account", "https://dns.example"),
        ("https://dns.example:8443/dns-query{?dns}", "https://dns.example:8443"),
    ],
)
def test_a_label_shows_where_it_is_and_no_account(url: str, label: str) -> None:
    resolver = Resolver.parse(url)
    assert resolver.label == label
    assert "secret-account" not in repr(resolver)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "system",
        "ftp://x",
        "udp://",
        "udp://me:pw@192.0.2.53",
        "udp://x:99999",
        "udp://[::1",
        "udp://a b",
    ],
)
def test_what_is_no_resolver(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Resolver.parse(url)
    assert "pw" not in str(caught.value)


# --- messages -------------------------------------------------------------------------------------

QUESTION = Question(name="news.example", id=7)


@settings(max_examples=60)
@given(
    st.binary(max_size=300)
    | st.binary(max_size=300).map(lambda tail: encode(QUESTION)[:2] + b"\x80\0" + tail)
)
def test_any_octets_are_an_answer_none_or_an_error(data: bytes) -> None:
    try:
        answer = decode(data, QUESTION)
    except RemoteProtocolError:
        return
    assert answer is None or isinstance(answer, Answer)


def test_an_answer_to_another_question_is_none() -> None:
    answered = bytearray(encode(Question(name="other.example", id=7)))
    answered[2] |= 0x80
    assert decode(bytes(answered), QUESTION) is None
    assert decode(encode(QUESTION), QUESTION) is None  # a question


def test_a_name_that_no_message_carries() -> None:
    with pytest.raises(ValueError, match="no question can be asked"):
        encode(Question(name="x" * 64))
