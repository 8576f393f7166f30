"""Requests and responses as this room sees them: no HTTP library's own, bytes as they stand on the wire."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from racer._report import RaceReport
    from racer.http2._upload import Upload

__all__ = ("Body", "Headers", "Origin", "Request", "Response", "Timeouts", "Via", "header")

Headers = list[tuple[bytes, bytes]]
"""Fields in the order sent, names in the case given."""


class Origin(NamedTuple):
    """What a connection is good for: scheme, host and port (RFC 6454 §4)."""

    scheme: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """The client's own timeouts, in seconds; `None` for none.

    Attributes:
        connect: for a race.
        read: for each wait for bytes.
        write: for each wait for the peer to take bytes.
        pool: for a place among the connections.
    """

    connect: float | None = None
    read: float | None = None
    write: float | None = None
    pool: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request.

    Attributes:
        method: in the case given.
        origin: where to.
        target: path and query, as sent.
        headers: as the client has them, `Host` included.
        upload: the body.
        idempotent: whether it may be sent again by another route (H2).
        timeouts: the client's.
        original: the HTTP library's own request, for guests that take requests.
    """

    method: bytes
    origin: Origin
    target: bytes
    headers: Headers
    upload: Upload
    idempotent: bool
    timeouts: Timeouts
    original: Any = field(default=None, repr=False)


class Body(Protocol):
    """A response's body, as it comes in. One reader."""

    async def receive(self) -> bytes:
        """Return the next bytes; empty at the end.

        Raises:
            Fault: it ended before its time.
        """

    def receive_nowait(self) -> bytes | None:
        """Return what is here already: empty at the end, `None` when one has to wait."""

    def close(self) -> None:
        """Let go of it, read to its end or not; synchronous, so that nothing can be left behind. Twice is fine."""


@dataclass(slots=True, kw_only=True)
class Response:
    """One response, its head read.

    Attributes:
        status: 200 to 599, or 101.
        reason: the words behind the status; HTTP/2 has none.
        version: `HTTP/1.1`, `HTTP/1.0` or `HTTP/2`.
        headers: as received.
        body: to be read, and closed by whoever has the response.
        stream: what `network_stream` gives for an upgraded connection, an `Upgraded`; `None` elsewhere.
        original: the HTTP library's own response, where a guest gave one.
    """

    status: int
    reason: bytes = b""
    version: bytes = b"HTTP/1.1"
    headers: Headers
    body: Body
    stream: Any = None
    original: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Via:
    """By which way a response came; `response.extensions["racer"]` (H7).

    Attributes:
        transport_name: the entrant's.
        report: the race that made the connection, as data.
        reused: whether the connection had served an earlier request.
    """

    transport_name: str
    report: RaceReport
    reused: bool


def header(headers: Headers, name: bytes) -> bytes | None:
    """Return the first value of a field, by its name in lower case; `None` when there is none."""
    for key, value in headers:
        if key.lower() == name:
            return value
    return None
