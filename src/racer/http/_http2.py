"""HTTP/2 in the pool: a request of this room as fields of a stream, and back (RFC 9113 §8.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from racer.http._messages import Response, header
from racer.http2 import HTTP2Connection
from racer.http2._fault import Fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from racer._connection import Connection
    from racer._host import LoopHost
    from racer._report import RaceReport
    from racer.http._messages import Headers, Request

__all__ = ("PooledHTTP2", "fields_of")

# RFC 9113 §8.2.2: what speaks of the connection has no place in HTTP/2. `te` may only say `trailers`.
_CONNECTION_FIELDS: Final = frozenset(
    {b"connection", b"host", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)


class PooledHTTP2:
    """One HTTP/2 connection that won a race.

    Args:
        connection: owned from now on.
        host: where its tasks live.
        on_change: called when more or fewer requests fit.

    Attributes:
        transport_name, report: the connection's.
    """

    def __init__(
        self, connection: Connection, host: LoopHost, on_change: Callable[[], None]
    ) -> None:
        """Start it.

        Raises:
            DialerClosed: the host has ended; the connection is still the caller's.
        """
        self.transport_name: str = connection.transport_name
        self._connection = connection
        self._http2 = HTTP2Connection(connection, host, on_change=on_change)
        self._http2.start()

    @property
    def report(self) -> RaceReport:
        """The race that it won."""
        return self._connection.report

    @property
    def max_requests(self) -> int:
        """How many requests may be under way at once; 0 when it takes no more."""
        return self._http2.capacity

    def is_alive(self) -> bool:
        """Return whether it takes requests; its reader always knows."""
        return self._http2.capacity > 0

    def become_idle(self) -> None:
        """Learn that nobody uses it for now."""

    def abort(self) -> None:
        """Close; requests under way fail. Synchronous."""
        self._http2.abort()

    async def exchange(
        self, request: Request, patience: float | None, done: Callable[[bool], None]
    ) -> Response:
        """Send a request and return its response, as `HTTP1Connection.exchange`; the connection goes on after a fault."""
        timeouts = request.timeouts
        try:
            fields, body = await self._http2.request(
                fields_of(request),
                request.upload,
                read=timeouts.read,
                write=timeouts.write,
                patience=patience,
            )
        except BaseException:
            done(self.is_alive())
            raise
        body.on_end = lambda: done(self.is_alive())
        try:
            status = int(header(fields, b":status") or b"")
        except ValueError:
            body.close()
            msg = "a response without a status"
            raise Fault("RemoteProtocolError", msg) from None
        headers = [(name, value) for name, value in fields if not name.startswith(b":")]
        return Response(status=status, version=b"HTTP/2", headers=headers, body=body)


def fields_of(request: Request) -> Headers:
    """Return a request as the fields of a stream."""
    authority = header(request.headers, b"host") or b""
    fields = [
        (b":method", request.method),
        (b":authority", authority),
        (b":scheme", request.origin.scheme.encode("ascii")),
        (b":path", request.target),
    ]
    for name, value in request.headers:
        lower = name.lower()
        if lower not in _CONNECTION_FIELDS and (lower != b"te" or value == b"trailers"):
            fields.append((lower, value))
    return fields
