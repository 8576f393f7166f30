"""The way to a first hop when nobody names another: TCP over the system's resolver."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

from racer.abc import Progress, Stage, Target, Transport
from transports._net.addresses import Family, host_port
from transports._net.eyeballs import connect_name
from transports._net.resolve import Resolver, SystemResolver
from transports._net.tcp import connect_socket, wrap_socket

if TYPE_CHECKING:
    from anyio.abc import ByteStream

__all__ = ("PlainTCP",)

_ATTEMPT_DELAY: Final = 0.25  # RFC 8305 §8
_RESOLUTION_DELAY: Final = 0.05  # RFC 8305 §8


class PlainTCP(Transport):
    """Gives TCP streams to a name or address, with Happy Eyeballs (RFC 8305) and no options.

    Args:
        resolver: names to addresses; `None` for the system's own.
    """

    name = "tcp"

    def __init__(self, *, resolver: Resolver | None = None) -> None:
        """Open nothing."""
        self._resolver = SystemResolver() if resolver is None else resolver

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        """Return a TCP stream to `target`; the caller closes it. Cancellation leaves nothing behind.

        Raises:
            OSError, TransportError: why not.
        """
        host, port = target.host, target.port
        if target.is_address:
            progress.stage(Stage.CONNECT)
            progress.peer(host, port)
            sock = await connect_socket(host, port)
        else:
            sock = await connect_name(
                host,
                port,
                resolver=self._resolver,
                families=tuple(Family) if socket.has_ipv6 else (Family.IPV4,),
                dial=connect_socket,
                discard=_discard,
                attempt_delay=_ATTEMPT_DELAY,
                resolution_delay=_RESOLUTION_DELAY,
                progress=progress,
            )
        return await wrap_socket(sock, peer=host_port(host, port))

    def __repr__(self) -> str:
        """Say what it is."""
        return "PlainTCP()"


async def _discard(sock: socket.socket) -> None:
    sock.close()
