"""Proxies to fall back on, made by the transport `socks5` that is installed, as a configuration would make it."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread

from racer.abc import MakeContext, Transport
from racer.errors import ConfigError, TransportError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anyio.abc import ByteStream

    from racer.abc import Attempt, Guest, Host, Progress, Target
    from transports._net.connector import Connector
    from transports.proxyless._outline import Socks5At

__all__ = ("InstalledSocks5",)

_GROUP: Final = "racer.transports"
_KIND: Final = "socks5"


class InstalledSocks5(Transport):
    """A transport through a SOCKS5 proxy, made by the entry point `socks5` when it is started.

    Rooms do not import each other, so that the proxy enters by the door that guests have.

    Args:
        at: where the proxy is, and who asks.
        connector: leads there.
    """

    def __init__(self, at: Socks5At, connector: Connector) -> None:
        """Keep both; nothing is made yet."""
        self.name = str(at)
        self._at = at
        self._connector = connector
        self._made: Transport | None = None

    async def start(self, host: Host) -> None:
        """Make it, in a worker thread, since that reads what is installed.

        Raises:
            ConfigError: no such transport is installed, or it does not want such a proxy.
        """
        if self._made is None:
            self._made = await anyio.to_thread.run_sync(_make, self._at, self._connector)
        await self._made.start(host)

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        """Return a raw stream to `target` through the proxy; the caller closes it.

        Raises:
            OSError, TransportError: why not.
        """
        if self._made is None:
            msg = f"{self.name} was not started"
            raise TransportError(msg)
        return await self._made.connect(target, progress)

    def observe(self, attempt: Attempt) -> None:
        """Pass a verdict on."""
        if self._made is not None:
            self._made.observe(attempt)

    async def aclose(self) -> None:
        """Close it."""
        if self._made is not None:
            await self._made.aclose()

    def __repr__(self) -> str:
        """Say which proxy; no credential."""
        return f"<{self.name}>"


class _Way(Transport):
    """TCP as everything else of the owner's goes: through its hook, by its table of hosts."""

    name = "tcp"

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        return await self._connector.connect(target.host, target.port, progress)


def _make(at: Socks5At, connector: Connector) -> Transport:
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
    guest = points[0].load()(MakeContext(name=str(at), options=options, factory=factory))
    if not isinstance(guest, Transport):
        msg = f"fallback: the installed transport {_KIND!r} gives no byte streams"
        raise ConfigError(msg)
    return guest
