"""Proxies to fall back on, made by the transport `socks5` that is installed, as a configuration would make it."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final

from racer.abc import MakeContext, Transport
from racer.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anyio.abc import ByteStream

    from racer.abc import Guest, Progress, Target
    from transports._net.connector import Connector
    from transports.proxyless._outline import Socks5At

__all__ = ("make_socks5",)

_GROUP: Final = "racer.transports"
_KIND: Final = "socks5"


class _Way(Transport):
    """TCP as everything else of the owner's goes: through its hook, by its table of hosts."""

    name = "tcp"

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        return await self._connector.connect(target.host, target.port, progress)

    def __repr__(self) -> str:
        return "PlainTCP()"


def make_socks5(at: Socks5At, connector: Connector) -> Transport:
    """Return a transport through a SOCKS5 proxy; no IO.

    Rooms do not import each other, so that the proxy enters by the door that guests have: its entry point.

    Args:
        at: where it is, and who asks.
        connector: leads there.

    Raises:
        ConfigError: no such transport is installed.
    """
    points = tuple(entry_points(group=_GROUP, name=_KIND))
    if not points:
        msg = f"fallback: {at} takes the transport {_KIND!r}, which is not installed"
        raise ConfigError(msg)

    def factory(kind: str, name: str, options: Mapping[str, Any]) -> Guest:
        del kind, name, options
        return _Way(connector)

    options: dict[str, Any] = {"proxy": str(at.proxy), "base": {"transport": "tcp"}}
    if at.credential is not None:
        options |= {"username": at.credential.username, "password": at.credential.password}
    make = points[0].load()
    guest = make(MakeContext(name=str(at), options=options, factory=factory))
    if not isinstance(guest, Transport):
        msg = f"fallback: the installed transport {_KIND!r} gives no byte streams"
        raise ConfigError(msg)
    return guest
