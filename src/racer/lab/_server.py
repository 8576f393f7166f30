"""A handler on a port of 127.0.0.1, with TLS before it or without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from racer.lab._sites import Site, echo
from racer.lab._sockets import StreamServer

if TYPE_CHECKING:
    import ssl

    from racer.lab._sites import Handler
    from racer.lab._sockets import SocketEnd

__all__ = ("Server",)


class Server(StreamServer):
    """Serves TCP connections to a port of 127.0.0.1. An async context manager.

    Args:
        handler: what it does with a connection.
        context: its TLS context, such as `Authority.server_context` gives; `None` to speak without TLS.

    Attributes:
        address: where it listens; the port is 0 until it is entered.
        site: counts connections and handshakes.
    """

    def __init__(self, handler: Handler = echo, *, context: ssl.SSLContext | None = None) -> None:
        """Keep the arguments; nothing listens yet."""
        super().__init__()
        self.site = Site(type(self).__name__, handler, context=context)

    async def _serve(self, end: SocketEnd, number: int) -> None:
        del number
        await self.site.serve(end)
