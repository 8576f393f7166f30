"""What `response.extensions["network_stream"]` gives once a server has switched protocols (RFC 9110 §7.8)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import SocketAttribute
from anyio.streams.tls import TLSAttribute

from racer.http2._fault import BROKEN, Fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from racer._connection import Connection
    from racer.http._loop_thread import LoopThread

__all__ = ("SyncUpgraded", "Upgraded")

_ATTRIBUTES = {
    "client_addr": SocketAttribute.local_address,
    "server_addr": SocketAttribute.remote_address,
    "socket": SocketAttribute.raw_socket,
    "ssl_object": TLSAttribute.ssl_object,
}


class Upgraded:
    """The bytes of an upgraded connection, by the names that httpx's network streams have.

    The response owns the connection: closing either closes it.

    Attributes:
        translate: makes the HTTP library's error of a fault; set by who knows the library.
    """

    def __init__(self, connection: Connection, leading: bytes) -> None:
        """Begin with the bytes that came behind the response's head."""
        self.translate: Callable[[Fault], Exception] = lambda fault: fault
        self._connection = connection
        self._leading = bytes(leading)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return at most `max_bytes`; empty at the end.

        Raises:
            Exception: the library's `ReadError`, or `ReadTimeout` after `timeout` seconds.
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
                raise self._error("ReadError", "the connection broke", exc) from exc
        raise self._error("ReadTimeout", "nothing came in time")

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of `buffer`.

        Raises:
            Exception: the library's `WriteError`, or `WriteTimeout` after `timeout` seconds.
        """
        if not buffer:
            return
        with anyio.CancelScope(deadline=_deadline(timeout)):
            try:
                await self._connection.send(buffer)
            except BROKEN as exc:
                raise self._error("WriteError", "the connection broke", exc) from exc
            return
        raise self._error("WriteTimeout", "the peer took nothing in time")

    def _error(self, kind: str, message: str, cause: Exception | None = None) -> Exception:
        fault = Fault(kind, message)
        fault.__cause__ = cause
        return self.translate(fault.of(self._connection.transport_name))

    async def aclose(self) -> None:
        """Close the connection."""
        self._connection.abort()
        await anyio.lowlevel.checkpoint()

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - as httpx's network streams have it
        """Return what the stream says about itself; `None` for what it does not know."""
        attribute = _ATTRIBUTES.get(info)
        return None if attribute is None else self._connection.extra(attribute, None)


class SyncUpgraded:
    """The same for threads."""

    def __init__(self, upgraded: Upgraded, thread: LoopThread) -> None:
        """Say on which loop it lives."""
        self._upgraded = upgraded
        self._thread = thread

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return at most `max_bytes`; empty at the end."""
        return self._thread.call(self._upgraded.read, max_bytes, timeout)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of `buffer`."""
        self._thread.call(self._upgraded.write, buffer, timeout)

    def close(self) -> None:
        """Close the connection."""
        self._thread.call(self._upgraded.aclose)

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - as httpx's network streams have it
        """Return what the stream says about itself; `None` for what it does not know."""
        return self._upgraded.get_extra_info(info)


def _deadline(timeout: float | None) -> float:
    return math.inf if timeout is None else anyio.current_time() + timeout
