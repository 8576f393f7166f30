"""What `response.extensions["network_stream"]` gives once a server has switched protocols (RFC 9110 §7.8)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import SocketAttribute
from anyio.streams.tls import TLSAttribute

from racer.http2._fault import BROKEN, Fault

if TYPE_CHECKING:
    from racer._connection import Connection

__all__ = ("Upgraded",)

_ATTRIBUTES = {
    "client_addr": SocketAttribute.local_address,
    "server_addr": SocketAttribute.remote_address,
    "socket": SocketAttribute.raw_socket,
    "ssl_object": TLSAttribute.ssl_object,
}


class Upgraded:
    """The bytes of an upgraded connection, by the names that httpx's network streams have.

    The response owns the connection: closing either closes it.
    """

    def __init__(self, connection: Connection, leading: bytes) -> None:
        """Begin with the bytes that came behind the response's head."""
        self._connection = connection
        self._leading = bytes(leading)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return at most `max_bytes`; empty at the end.

        Raises:
            Fault: the connection broke, or nothing came in `timeout` seconds.
        """
        if self._leading:
            data, self._leading = self._leading[:max_bytes], self._leading[max_bytes:]
            return data
        with anyio.CancelScope(deadline=_deadline(timeout)):
            try:
                return await self._connection.receive(max_bytes)
            except anyio.EndOfStream:
                return b""
            except BROKEN as exc:
                raise Fault("ReadError", "the connection broke") from exc
        msg = "nothing came in time"
        raise Fault("ReadTimeout", msg)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of `buffer`.

        Raises:
            Fault: the connection broke, or did not take it in `timeout` seconds.
        """
        if not buffer:
            return
        with anyio.CancelScope(deadline=_deadline(timeout)):
            try:
                await self._connection.send(buffer)
            except BROKEN as exc:
                raise Fault("WriteError", "the connection broke") from exc
            return
        msg = "the peer took nothing in time"
        raise Fault("WriteTimeout", msg)

    async def aclose(self) -> None:
        """Close the connection."""
        self._connection.abort()
        await anyio.lowlevel.checkpoint()

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - as httpx's network streams have it
        """Return what the stream says about itself; `None` for what it does not know."""
        attribute = _ATTRIBUTES.get(info)
        return None if attribute is None else self._connection.extra(attribute, None)


def _deadline(timeout: float | None) -> float:
    return math.inf if timeout is None else anyio.current_time() + timeout
