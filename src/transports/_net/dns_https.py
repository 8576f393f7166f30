"""One question over HTTPS (RFC 8484): `h11` or `h2` thinks, and nothing here does IO."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, Protocol

import h11

from racer.errors import RemoteProtocolError
from transports._net.dns_messages import MAX_MESSAGE
from transports._net.drive import Machine

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ("MESSAGE_TYPE", "HTTP1Exchange", "HTTPExchange", "Response", "http2_exchange")

MESSAGE_TYPE: Final = "application/dns-message"

_MAX_RECEIVED: Final = 131_072  # octets, with all that goes around an answer


class HTTPExchange(Machine, Protocol):
    """A request on its way out, and its response on the way in; the response's parts are bounded."""

    def receive_eof(self) -> None:
        """Learn that the peer sends no more, be the response complete or not."""

    def message(self) -> bytes:
        """Return the DNS message in the response, once done."""


class Response:
    """A response as it comes in; only one that can hold an answer is read on.

    Attributes:
        is_complete: whether its end has come.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.is_complete = False
        self._body = bytearray()
        self._left = _MAX_RECEIVED

    def count(self, octets: int) -> None:
        """Learn that so many more have come, of whatever kind.

        Raises:
            RemoteProtocolError: they are too many.
        """
        self._left -= octets
        if self._left < 0:
            msg = f"it sent more than {_MAX_RECEIVED} octets"
            raise RemoteProtocolError(msg)

    def begin(self, status: str, headers: Iterable[tuple[str, str]]) -> None:
        """Take the head: the status code, names in lower case, and values.

        Raises:
            RemoteProtocolError: no answer can be in it.
        """
        if status != "200":
            msg = f"it answered with HTTP status {status[:9]}"
            raise RemoteProtocolError(msg)
        kinds = [value for name, value in headers if name == "content-type"]
        if len(kinds) != 1 or kinds[0].partition(";")[0].strip().lower() != MESSAGE_TYPE:
            msg = f"it answered with something else than {MESSAGE_TYPE}"
            raise RemoteProtocolError(msg)

    def add(self, data: bytes) -> None:
        """Take a part of the body.

        Raises:
            RemoteProtocolError: it is too long.
        """
        self._body += data
        if len(self._body) > MAX_MESSAGE:
            msg = f"it sent an answer of more than {MAX_MESSAGE} octets"
            raise RemoteProtocolError(msg)

    def message(self) -> bytes:
        """Return the body."""
        return bytes(self._body)


class HTTP1Exchange:
    """A POST and its response in HTTP/1.1.

    Args:
        authority: host and port, as a URL has them.
        path: of the request.
        body: the question.
    """

    def __init__(self, authority: str, path: str, body: bytes) -> None:
        """Write the request."""
        self._response = Response()
        self._http = h11.Connection(h11.CLIENT)
        head = h11.Request(
            method="POST",
            target=path,
            headers=[
                ("Host", authority),
                ("Accept", MESSAGE_TYPE),
                ("Content-Type", MESSAGE_TYPE),
                ("Content-Length", str(len(body))),
                ("Connection", "close"),
            ],
        )
        parts = (head, h11.Data(data=body), h11.EndOfMessage())
        self._to_send = b"".join(self._http.send(part) or b"" for part in parts)

    @property
    def is_done(self) -> bool:
        """Whether the response has come, to its end."""
        return self._response.is_complete

    def bytes_to_send(self) -> bytes:
        """Return the request, once."""
        data, self._to_send = self._to_send, b""
        return data

    def receive_data(self, data: bytes) -> None:
        """Take bytes of the response, cut anywhere.

        Raises:
            RemoteProtocolError: it is not HTTP, or too long.
        """
        self._response.count(len(data))
        if data:  # to h11, none means the end
            self._receive(data)

    def receive_eof(self) -> None:
        """As `HTTPExchange.receive_eof`: without a length, that is the body's end (RFC 9112 §6.3)."""
        with contextlib.suppress(RemoteProtocolError):  # it is not, which shows
            self._receive(b"")

    def message(self) -> bytes:
        """As `HTTPExchange.message`."""
        return self._response.message()

    def _receive(self, data: bytes) -> None:
        try:
            self._http.receive_data(data)
            while not self.is_done:
                event = self._http.next_event()
                if event is h11.NEED_DATA or isinstance(event, h11.ConnectionClosed):
                    return
                self._take(event)
        except h11.RemoteProtocolError as exc:
            msg = f"it does not speak HTTP: {exc}"
            raise RemoteProtocolError(msg) from exc

    def _take(self, event: object) -> None:
        if isinstance(event, h11.Response):
            self._response.begin(
                str(event.status_code),
                [
                    (name.decode("latin-1"), value.decode("latin-1"))
                    for name, value in event.headers
                ],
            )
        elif isinstance(event, h11.Data):
            self._response.add(bytes(event.data))
        elif isinstance(event, h11.EndOfMessage):
            self._response.is_complete = True


def http2_exchange(authority: str, path: str, body: bytes) -> HTTPExchange:
    """Return a POST and its response in HTTP/2 (RFC 9113)."""
    from transports._net.dns_http2 import HTTP2Exchange  # noqa: PLC0415 - only who meets HTTP/2 loads h2

    return HTTP2Exchange(authority, path, body)
