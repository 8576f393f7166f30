"""HTTP from the client's side without IO: what is said and heard of one request after the other on a connection.

Both versions have one face. Begin a request, give its body as far as `room` goes, send what is due, give what comes in,
and take the events: the response's head, its body bit by bit, `END`. A response's parts are bounded where they have to
be whole (its head); the body is passed on as it comes, and who takes it bounds it.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

import h11

from racer.errors import LocalProtocolError, RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = (
    "END",
    "MAX_HEAD",
    "MAX_INFORMATIONAL",
    "Event",
    "Fields",
    "HTTP1Client",
    "HTTPClient",
    "RequestHead",
    "ResponseHead",
    "check_head",
    "http2_client",
    "without_hop_fields",
)

Fields: TypeAlias = "tuple[tuple[bytes, bytes], ...]"
"""Header fields, names and values, in order."""

MAX_HEAD: Final = 64 * 1024
"""Octets of a response's head; other clients allow 16 KiB to 256 KiB."""

MAX_INFORMATIONAL: Final = 8
"""Answers of 1xx before the final one; there is no reason for more than two (RFC 9110 §15.2)."""

# RFC 9110 §7.6.1: they speak of one connection, and are never passed on.
_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)


_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")  # RFC 9110 §5.6.2
_VALUE = re.compile(rb"(?:[^\x00-\x20\x7f](?:[^\x00-\x08\x0a-\x1f\x7f]*[^\x00-\x20\x7f])?)?\Z")
_VISIBLE = re.compile(r"[!-~]+\Z")


class _End(enum.Enum):
    END = "end"


END: Final = _End.END
"""The event that a response has come to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    """A request without its body.

    Attributes:
        method: such as `GET`.
        authority: host, with a port where it is not the scheme's own: what `Host` or `:authority` says.
        target: path and query.
        fields: all others; neither `Host` nor what speaks of one connection, which is this side's to say.
        body_length: octets of the body, 0 for none; `None` when nobody knows yet.
    """

    method: str
    authority: str
    target: str
    fields: Fields = ()
    body_length: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHead:
    """A response without its body.

    Attributes:
        status: 200 to 999.
        fields: names in lower case, and values.
        http_version: `HTTP/1.1` or another.
    """

    status: int
    fields: Fields
    http_version: str

    def get(self, name: bytes) -> bytes | None:
        """Return the first value of a field, its name given in lower case."""
        return next((value for key, value in self.fields if key == name), None)


Event: TypeAlias = "ResponseHead | bytes | Literal[_End.END]"


class HTTPClient(Protocol):
    """One side of an HTTP connection; one request at a time."""

    @property
    def is_idle(self) -> bool:
        """Whether a request may begin: none is under way, and the connection can carry one more."""

    @property
    def room(self) -> int:
        """How many octets of the body may be given now; 0 until more has been received."""

    def begin(self, head: RequestHead) -> None:
        """Begin a request.

        Raises:
            LocalProtocolError: not idle, or nothing that HTTP can carry.
        """

    def add_body(self, data: bytes) -> None:
        """Give a part of the body, no longer than `room`."""

    def end_body(self) -> None:
        """Say that the body is complete.

        Raises:
            LocalProtocolError: it is shorter than was said.
        """

    def bytes_to_send(self) -> bytes:
        """Return what is due, once."""

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the server, cut anywhere.

        Raises:
            RemoteProtocolError: it breaks the protocol, or a bound.
        """

    def receive_eof(self) -> None:
        """Learn that the server sends no more."""

    def next_event(self) -> Event | None:
        """Return what has come; `None` when more has to be received first.

        Raises:
            RemoteProtocolError: as in `receive_data`; also where the response ends too early.
        """


class HTTP1Client:
    """HTTP/1.1 (RFC 9112) over h11."""

    def __init__(self) -> None:
        """Begin idle."""
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        self._outgoing: list[bytes] = []
        self._informational = 0
        self._has_begun = False

    @property
    def is_idle(self) -> bool:
        """As `HTTPClient.is_idle`."""
        if self._has_begun and self._http.our_state is h11.DONE is self._http.their_state:
            self._http.start_next_cycle()
            self._has_begun = False
        # Bytes behind a response answer nothing that was asked; behind the connection's end comes nothing.
        return not self._has_begun and self._http.trailing_data == (b"", False)

    @property
    def room(self) -> int:
        """As `HTTPClient.room`; TCP's own window is all there is."""
        return 65536

    def begin(self, head: RequestHead) -> None:
        """As `HTTPClient.begin`."""
        if not self.is_idle:
            msg = "HTTP/1.1: a request was begun before the last one had ended"
            raise LocalProtocolError(msg)
        check_head(head)
        fields = [(b"Host", head.authority.encode("ascii")), *head.fields]
        if head.body_length is None:
            fields.append((b"Transfer-Encoding", b"chunked"))
        elif head.body_length or head.method in {"POST", "PUT", "PATCH"}:
            fields.append((b"Content-Length", str(head.body_length).encode()))
        self._informational = 0
        self._has_begun = True
        self._send(h11.Request, method=head.method, target=head.target, headers=fields)

    def add_body(self, data: bytes) -> None:
        """As `HTTPClient.add_body`."""
        self._send(h11.Data, data=data)

    def end_body(self) -> None:
        """As `HTTPClient.end_body`."""
        self._send(h11.EndOfMessage)

    def bytes_to_send(self) -> bytes:
        """As `HTTPClient.bytes_to_send`."""
        data = b"".join(self._outgoing)
        self._outgoing.clear()
        return data

    def receive_data(self, data: bytes) -> None:
        """As `HTTPClient.receive_data`."""
        if data:  # to h11, none means the end
            self._http.receive_data(data)

    def receive_eof(self) -> None:
        """As `HTTPClient.receive_eof`: without a length, that is the body's end (RFC 9112 §6.3)."""
        if not self._http.trailing_data[1]:
            self._http.receive_data(b"")

    def next_event(self) -> Event | None:
        """As `HTTPClient.next_event`."""
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as exc:
                msg = f"not HTTP/1.1: {str(exc)[:200]}"
                if self._http.trailing_data[1]:
                    msg = "the connection was closed before the response was whole"
                raise RemoteProtocolError(msg) from exc
            match event:
                case h11.InformationalResponse():
                    self._informational += 1
                    _check_informational(self._informational)
                case h11.Response():
                    version = event.http_version.decode("ascii")
                    fields = tuple((bytes(n), bytes(v)) for n, v in event.headers)
                    return ResponseHead(
                        status=event.status_code, fields=fields, http_version=f"HTTP/{version}"
                    )
                case h11.Data():
                    return bytes(event.data)
                case h11.EndOfMessage():
                    return END
                case h11.ConnectionClosed():
                    msg = "the connection was closed before a response came"
                    raise RemoteProtocolError(msg)
                case _:  # NEED_DATA, PAUSED
                    return None

    def _send(self, kind: type[h11.Event], **parts: object) -> None:
        try:
            self._outgoing.append(self._http.send(kind(**parts)) or b"")
        except h11.LocalProtocolError as exc:
            msg = f"HTTP/1.1 cannot carry this: {str(exc)[:200]}"
            raise LocalProtocolError(msg) from exc


def http2_client() -> HTTPClient:
    """Return the client's side of HTTP/2 (RFC 9113)."""
    from transports._net.http2_client import HTTP2Client  # noqa: PLC0415 - only who meets HTTP/2 loads h2

    return HTTP2Client()


def without_hop_fields(fields: Iterable[tuple[bytes, bytes]]) -> Fields:
    """Return `fields` without those that speak of one connection (RFC 9110 §7.6.1), `Host` and `Content-Length`."""
    kept = tuple(fields)
    named = {
        token.strip().lower()
        for name, value in kept
        if name.lower() == b"connection"
        for token in value.split(b",")
    }
    gone = _HOP | named | {b"host", b"content-length"}
    return tuple((name, value) for name, value in kept if name.lower() not in gone)


def check_head(head: RequestHead) -> None:
    """Raise `LocalProtocolError` unless a head can be written as it is, and read in one way only.

    HTTP/2 itself carries any octets, but whoever turns it into HTTP/1.1 further on would make two fields of one
    (RFC 9113 §10.3).
    """
    wrong = None
    if not _TOKEN.match(head.method.encode("utf-8")):
        wrong = "its method"
    elif not _VISIBLE.match(head.authority) or not _VISIBLE.match(head.target):
        wrong = "its URL"
    else:
        for name, value in head.fields:
            if not _TOKEN.match(name) or not _VALUE.match(value):
                wrong = f"the field {name[:60]!r}"
    if wrong is not None:
        msg = f"HTTP cannot carry this request: {wrong}"
        raise LocalProtocolError(msg)


def _check_informational(count: int) -> None:
    if count > MAX_INFORMATIONAL:
        msg = f"more than {MAX_INFORMATIONAL} answers of 1xx and no final one"
        raise RemoteProtocolError(msg)
