"""A proxy to fall back on is the installed transport's, with what the URL says, reached as everything else is."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any

import pytest

from racer.abc import MakeContext, Progress, Target
from racer.errors import ConfigError, TransportError
from racer.testing import LocalHost, ScriptedTransport, wins
from transports._net.connector import Connector
from transports._net.resolve import SystemResolver
from transports.proxyless import _fallbacks
from transports.proxyless._fallbacks import InstalledSocks5
from transports.proxyless._outline import parse_fallback

if TYPE_CHECKING:
    from anyio.abc import ByteStream

SECRET = "hunter2"
contexts: list[MakeContext] = []


def make(context: MakeContext) -> ScriptedTransport:
    contexts.append(context)
    return ScriptedTransport(context.name, wins())


def install(monkeypatch: pytest.MonkeyPatch, *factories: str) -> None:
    points = [EntryPoint("socks5", f"{__name__}:{name}", "racer.transports") for name in factories]
    monkeypatch.setattr(_fallbacks, "entry_points", lambda **_: points)
    monkeypatch.setattr(EntryPoint, "load", lambda self: globals()[self.attr])
    contexts.clear()


def fallback(url: str, dialed: list[tuple[str, int]] | None = None) -> InstalledSocks5:
    async def dial_tcp(address: str, port: int) -> ByteStream:
        assert dialed is not None
        dialed.append((address, port))
        raise OSError("far enough")

    return InstalledSocks5(parse_fallback(url), Connector(SystemResolver(), dial_tcp=dial_tcp))


async def test_it_is_made_when_it_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "make")
    made = fallback(f"socks5://me:{SECRET}@192.0.2.9")
    assert contexts == []
    with pytest.raises(TransportError, match="was not started"):
        await made.connect(Target("news.example"), Progress())
    async with LocalHost() as host:
        await made.start(host)
        (context,) = contexts
        assert context.options == {
            "proxy": "192.0.2.9:1080",
            "base": {"transport": "tcp"},
            "username": "me",
            "password": SECRET,
        }
        await (await made.connect(Target("news.example"), Progress())).aclose()
        await made.aclose()
    assert SECRET not in f"{made!r} {made.name}"


async def test_the_proxy_is_reached_by_the_owners_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "make")
    dialed: list[tuple[str, int]] = []
    made = fallback("socks5://192.0.2.9:99", dialed)
    async with LocalHost() as host:
        await made.start(host)
        base: Any = contexts[0].make_guest("tcp", name="tcp", options={})
        with pytest.raises(OSError, match="far enough"):
            await base.connect(Target("192.0.2.9", 99), Progress())
    assert dialed == [("192.0.2.9", 99)]


async def test_without_the_transport_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    async with LocalHost() as host:
        with pytest.raises(
            ConfigError, match="takes the transport 'socks5', which is not installed"
        ):
            await fallback(f"socks5://me:{SECRET}@192.0.2.9").start(host)


def make_something_else(context: MakeContext) -> object:
    return object()


async def test_what_is_no_transport_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "make_something_else")
    async with LocalHost() as host:
        with pytest.raises(ConfigError, match="gives no byte streams"):
            await fallback("socks5://192.0.2.9").start(host)
