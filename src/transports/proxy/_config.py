"""Proxies from a configuration's options, the chain below them included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from racer.abc import MakeContext, Transport
from racer.errors import ConfigError
from transports.proxy._transport import HttpConnect, Socks5

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("make_http_connect", "make_socks5")

_COMMON: Final = (
    "base",
    "handshake_timeout",
    "password",
    "proxy",
    "server_hostname",
    "tls",
    "username",
)
_BASE: Final = ("name", "options", "transport")


def make_socks5(context: MakeContext) -> Socks5:
    """Return a `Socks5` from its options: those of the class, with `base` as a table.

    The table `base` has the key `transport`, the name of an installed one, and may have `name` and `options`.

    Options:
        proxy: where the server is, `"host:port"`; the port is 1080 where the text has none.
        tls: whether to speak TLS to the server, verified with the system's trust.
        base (table): how it is reached: `{transport = "direct", options = {}}`, any transport that gives byte streams; left
            out: over TCP with the system's resolver.

    Raises:
        ConfigError: an option is unknown or wrong; says which, and why.
    """
    context.refuse_unknown(*_COMMON)
    return Socks5(_text(context.options, "proxy"), name=context.name, **_options(context))


def make_http_connect(context: MakeContext) -> HttpConnect:
    """Return an `HttpConnect` from its options: those of the class, with `base` as a table, as in `make_socks5`.

    Options:
        proxy: where the proxy is, `"host:port"`.
        tls: whether to speak TLS to the proxy, verified with the system's trust.
        base (table): how it is reached: `{transport = "direct", options = {}}`, any transport that gives byte streams; left
            out: over TCP with the system's resolver.
        headers: further fields for the proxy, names to values in ASCII, up to 8192 octets together; treated as secret.

    Raises:
        ConfigError: an option is unknown or wrong; says which, and why.
    """
    context.refuse_unknown(*_COMMON, "headers")
    return HttpConnect(_text(context.options, "proxy"), name=context.name, **_options(context))


def _options(context: MakeContext) -> dict[str, Any]:
    options = {key: value for key, value in context.options.items() if key != "proxy"}
    if "base" in options:
        options["base"] = _base(context, options["base"])
    return options


def _base(context: MakeContext, value: object) -> Transport:
    table = _table(value, "base")
    try:
        MakeContext(name="base", options=table).refuse_unknown(*_BASE)
        kind = _text(table, "transport")
        name = _text(table, "name") if "name" in table else kind
        options = table.get("options", {})
        guest = context.make_guest(kind, name=name, options=_table(options, "options"))
    except ConfigError as exc:
        msg = f"base: {exc}"
        raise ConfigError(msg) from exc
    if not isinstance(guest, Transport):
        msg = f"base: transport {kind!r} gives no byte streams"
        raise ConfigError(msg)
    return guest


def _text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    if not isinstance(value, str):
        msg = f"{key}: {'must be a text' if key in table else 'missing'}"
        raise ConfigError(msg)
    return value


def _table(value: object, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        msg = f"{key}: must be a table"
        raise ConfigError(msg)
    return value
