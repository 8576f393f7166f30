"""Proxies from a configuration: options, the chain below, and errors that say where and quote no secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio.to_thread
import pytest

from racer import config
from racer._registry import make
from racer.abc import MakeContext, Target
from racer.errors import ConfigError
from racer.testing import ScriptedRequestTransport
from tests.transports.proxy.servers import ConnectProxy, Loopback, Socks5Server, echo, listening
from transports.proxy import HttpConnect, Socks5, make_http_connect, make_socks5

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from racer.abc import Guest

CHAIN = """
[[entrant]]
transport = "socks5"
name = "work"
start_delay = 0.3
[entrant.options]
proxy = "far.example:{far}"
username = "u"
password = "s3cret"
[entrant.options.base]
transport = "http-connect"
name = "office"
[entrant.options.base.options]
proxy = "127.0.0.1:{near}"
headers = {{ X-Team = "racer" }}
"""


async def test_a_chain_from_a_file_carries_bytes(tmp_path: Path) -> None:
    names = {"far.example": "127.0.0.1", "target.example": "127.0.0.1"}
    outer = ConnectProxy(Loopback(names))
    inner = Socks5Server(Loopback(names), accounts={"u": "s3cret"})
    async with listening(echo) as target, listening(outer) as near, listening(inner) as far:
        file = tmp_path / "racer.toml"
        file.write_text(CHAIN.format(near=near.port, far=far.port))
        async with await anyio.to_thread.run_sync(config.load, file) as dialer:
            async with await dialer.dial("target.example", target.port, tls=False) as conn:
                await conn.send(b"ping")
                assert await conn.receive() == b"ping"
            assert conn.transport_name == "work"
            (shown,) = dialer.status().entrants
    assert "s3cret" not in repr(shown)
    ((authority, headers),) = outer.requests
    assert authority == f"far.example:{far.port}"
    assert headers["x-team"] == "racer"
    assert inner.requests == [("name", "target.example", target.port)]


def test_options_become_those_of_the_class() -> None:
    made = make_socks5(
        MakeContext(name="n", options={"proxy": "p.example", "tls": True, "handshake_timeout": 3})
    )
    assert isinstance(made, Socks5)
    assert made.name == "n"
    assert made.status().details["proxy"] == "p.example:1080"
    http = make_http_connect(
        context_of(
            {
                "proxy": "p.example:1",
                "base": {"transport": "socks5", "options": {"proxy": "q.example"}},
            }
        )
    )
    assert isinstance(http, HttpConnect)
    assert http.status().details["base"] == "socks5"
    assert http.status().details["base.proxy"] == "q.example:1080"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "^proxy: missing$"),
    ({"proxy": 7}, "^proxy: must be a text$"),
    (
        {"proxy": "p.example:1", "pasword": "s3cret"},
        "unknown key 'pasword'; did you mean 'password'",
    ),
    ({"proxy": "p.example:1", "password": "s3cret"}, "without username="),
    ({"proxy": "p.example:1", "tls": "s3cret"}, "tls must be"),
    ({"proxy": "p.example:1", "base": "s3cret"}, "^base: must be a table$"),
    ({"proxy": "p.example:1", "base": {}}, "^base: transport: missing$"),
    (
        {"proxy": "p.example:1", "base": {"transport": "socks5", "name": 7}},
        "^base: name: must be a",
    ),
    (
        {"proxy": "p.example:1", "base": {"transport": "socks5", "proxy": "s3cret"}},
        "^base: unknown key",
    ),
    (
        {"proxy": "p.example:1", "base": {"transport": "socks5", "options": 7}},
        "^base: options: must",
    ),
    ({"proxy": "p.example:1", "base": {"transport": "socks5"}}, "^base: proxy: missing$"),
    (
        {"proxy": "p.example:1", "base": {"transport": "sock5"}},
        "^base: transport 'sock5' is not installed: .*did you mean 'socks5'",
    ),
    (
        {
            "proxy": "p.example:1",
            "base": {
                "transport": "socks5",
                "options": {
                    "proxy": "p.example",
                    "base": {"transport": "socks5", "options": {"proxy": "a b"}},
                },
            },
        },
        "^base: base: 'a b'",
    ),
]


@pytest.mark.parametrize(("options", "words"), WRONG)
@pytest.mark.parametrize("factory", [make_socks5, make_http_connect])
def test_a_wrong_option_says_where_and_quotes_no_secret(
    factory: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        factory(context_of(options))
    assert "s3cret" not in str(caught.value)


def make_amp(context: MakeContext) -> ScriptedRequestTransport:
    async def answer(_: object) -> None: ...

    return ScriptedRequestTransport(context.name, answer=answer)


def context_of(options: dict[str, Any]) -> MakeContext:
    def factory(kind: str, name: str, options: Mapping[str, Any]) -> Guest:
        if kind == "amp":
            return make_amp(MakeContext(name=name, options=options))
        if kind == "socks5":
            return make_socks5(MakeContext(name=name, options=options, factory=factory))
        if kind == "http-connect":
            return make_http_connect(MakeContext(name=name, options=options, factory=factory))
        return make(kind, name=name, options=options)

    return MakeContext(name="n", options=options, factory=factory)


def test_a_base_that_gives_no_streams_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^base: transport 'amp' gives no byte streams$"):
        make_socks5(context_of({"proxy": "p.example", "base": {"transport": "amp"}}))


def test_a_base_needs_somebody_who_makes_it() -> None:
    options = {"proxy": "p.example", "base": {"transport": "direct"}}
    with pytest.raises(ConfigError, match=r"^base: transport 'direct' cannot be made here"):
        make_socks5(MakeContext(name="n", options=options))


def test_further_fields_are_for_http_alone() -> None:
    options = {"proxy": "p.example:1", "headers": {"X": "y"}}
    make_http_connect(MakeContext(name="n", options=options))
    with pytest.raises(ConfigError, match="unknown key 'headers'"):
        make_socks5(MakeContext(name="n", options=options))


def test_the_names_are_installed() -> None:
    assert Socks5("p.example").serves(Target("target.example")) is None
    for kind in ("socks5", "http-connect"):
        options = {
            "proxy": "p.example:1",
            "base": {"transport": kind, "options": {"proxy": "q.example:1"}},
        }
        assert make_socks5(context_of(options)).status().details["base"] == kind
        made = make("socks5", name="n", options=options)
        assert made.status().details["base"] == kind
