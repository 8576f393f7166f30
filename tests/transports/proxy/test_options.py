"""Options: what cannot be is refused before any IO, and no secret is ever quoted or shown."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from racer.abc import Target
from racer.errors import ConfigError
from racer.testing import ScriptedRequestTransport, ScriptedTransport
from tests.transports.proxy.worlds import BOTH, Make, both
from transports.proxy import HttpConnect, Socks5

PROXY = "p.example:1080"
WRONG: list[tuple[Make, Any, dict[str, Any], str]] = [
    *((make, "", {}, "host is empty") for make in BOTH),
    *((make, "p.example:http", {}, "port") for make in BOTH),
    *((make, 1080, {}, "proxy must be 'host:port'") for make in BOTH),
    *((make, "http://u:s3cret@p.example:1080", {}, "is a URL") for make in BOTH),
    *((make, "u:s3cret@p.example:1080", {}, "user in front") for make in BOTH),
    *((make, Target("p.example", 443), {}, "tls=True, or Target") for make in BOTH),
    *((make, PROXY, {"tls": "yes"}, "tls must be") for make in BOTH),
    *((make, PROXY, {"tls": None}, "tls must be") for make in BOTH),
    *(
        (make, PROXY, {"tls": ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)}, "server's context")
        for make in BOTH
    ),
    *((make, PROXY, {"server_hostname": "a b"}, "cannot be in a host name") for make in BOTH),
    *((make, PROXY, {"base": ScriptedTransport}, "this is ScriptedTransport") for make in BOTH),
    *((make, PROXY, {"base": object()}, "this is object") for make in BOTH),
    *((make, PROXY, {"name": ""}, "name must be") for make in BOTH),
    *((make, PROXY, {"username": "u"}, "without password=") for make in BOTH),
    *((make, PROXY, {"password": "s3cret"}, "without username=") for make in BOTH),
    *(
        (make, PROXY, {"handshake_timeout": seconds}, "handshake_timeout must be")
        for make in BOTH
        for seconds in (0, -1, float("inf"), float("nan"), True, "3", None)
    ),
    (Socks5, PROXY, {"username": "u", "password": "s3cret" * 50}, "password: 300 octets"),
    (Socks5, PROXY, {"username": "", "password": "s3cret"}, "username: empty"),
    (HttpConnect, PROXY, {"username": "u:v", "password": "s3cret"}, "has a ':'"),
    (HttpConnect, "p.example", {}, "port is missing"),
    (HttpConnect, "2001:db8::1", {}, "port is missing"),
    (HttpConnect, "p example", {}, "cannot be in a host name"),
    (HttpConnect, PROXY, {"headers": "X: s3cret"}, "must be a mapping"),
    (HttpConnect, PROXY, {"headers": 7}, "must be a mapping"),
    (HttpConnect, PROXY, {"headers": ["X"]}, "a pair of a name and a value"),
    (HttpConnect, PROXY, {"headers": {"X Y": "s3cret"}}, "is a token"),
    (HttpConnect, PROXY, {"headers": {"X": "s3cret\r\nY: z"}}, "value of X must be"),
    (HttpConnect, PROXY, {"headers": {"X": " s3cret"}}, "value of X must be"),
    (HttpConnect, PROXY, {"headers": {"X": "s3crét"}}, "value of X must be"),
    (HttpConnect, PROXY, {"headers": {"Host": "s3cret"}}, "Host is not for the caller"),
    (HttpConnect, PROXY, {"headers": {"X": "s" * 8192}}, "more than 8192 octets"),
    (
        HttpConnect,
        PROXY,
        {"headers": {"proxy-authorization": "s3cret"}, "username": "u", "password": "p"},
        "give one of them",
    ),
]


@pytest.mark.parametrize(("make", "proxy", "options", "words"), WRONG)
def test_an_option_that_cannot_be_is_refused_unquoted(
    make: Make, proxy: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        make(proxy, **options)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "credential", ["s3cret", ("s3cret",), ("u", "s3cret", "x"), ("u", 7), ("u", None), 7]
)
@both
def test_an_update_that_is_no_credential_is_refused_unquoted(
    make: Make, credential: object
) -> None:
    with pytest.raises(ConfigError) as caught:
        make(PROXY).update_credential(credential)
    assert "s3cret" not in str(caught.value)


@both
def test_an_update_that_the_protocol_cannot_carry_is_refused(make: Make) -> None:
    transport = make(PROXY)
    wrong = ("u" * 256, "p") if make is Socks5 else ("u:v", "p")
    with pytest.raises(ConfigError, match="username"):
        transport.update_credential(wrong)


@pytest.mark.parametrize(
    ("proxy", "address"),
    [
        ("p.example", "p.example:1080"),
        ("2001:db8::1", "[2001:db8::1]:1080"),
        ("[2001:db8::1]", "[2001:db8::1]:1080"),
        ("[2001:db8::1]:9050", "[2001:db8::1]:9050"),
        ("192.0.2.1:9050", "192.0.2.1:9050"),
        (Target("p.example", 9050), "p.example:9050"),
    ],
)
def test_the_port_of_socks_is_1080_unless_it_is_given(proxy: str | Target, address: str) -> None:
    assert Socks5(proxy).status().details["proxy"] == address


@both
def test_nothing_shows_a_secret(make: Make) -> None:
    options: dict[str, Any] = {"username": "alice", "password": "s3cret"}
    if make is HttpConnect:
        options["headers"] = {"X-Token": "t0ken"}
    transport = make(PROXY, base=ScriptedTransport("base"), **options)
    shown = f"{transport!r} {transport} {transport.status()!r} {transport.traits!r}"
    for secret in ("alice", "s3cret", "t0ken", "X-Token"):
        assert secret not in shown
    assert "p.example:1080" in repr(transport)


@both
def test_a_base_that_gives_no_streams_is_refused(make: Make) -> None:
    async def answer(_: object) -> None: ...

    with pytest.raises(ConfigError, match="gives byte streams"):
        make(PROXY, base=ScriptedRequestTransport("amp", answer=answer))
