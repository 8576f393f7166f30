"""One question over HTTP/2 (RFC 8484, RFC 9113): `h2` thinks, and nothing here does IO."""

from __future__ import annotations

from typing import Final

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

from racer.errors import RemoteProtocolError
from transports._net.dns_https import MESSAGE_TYPE, Response

__all__ = ("HTTP2Exchange",)

_STREAM: Final = 1  # the first of a client's, RFC 9113 §5.1.1


class HTTP2Exchange:
    """A POST and its response, on a connection of its own.

    Args:
        authority: host and port, as a URL has them.
        path: of the request.
        body: the question.
    """

    def __init__(self, authority: str, path: str, body: bytes) -> None:
        """Write the request."""
        self._response = Response()
        self._http = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        )
        self._http.local_settings = h2.settings.Settings(
            client=True, initial_values={h2.settings.SettingCodes.ENABLE_PUSH: 0}
        )
        self._http.initiate_connection()
        self._http.send_headers(
            _STREAM,
            [
                (":method", "POST"),
                (":scheme", "https"),
                (":authority", authority),
                (":path", path),
                ("accept", MESSAGE_TYPE),
                ("content-type", MESSAGE_TYPE),
                ("content-length", str(len(body))),
            ],
        )
        self._http.send_data(_STREAM, body, end_stream=True)

    @property
    def is_done(self) -> bool:
        """Whether the response has come, to its end."""
        return self._response.is_complete

    def bytes_to_send(self) -> bytes:
        """Return what is due: the request, then what the connection needs; nothing once done."""
        return b"" if self.is_done else self._http.data_to_send()

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the server, cut anywhere.

        Raises:
            RemoteProtocolError: it is not HTTP/2, too long, or no answer.
        """
        self._response.count(len(data))
        try:
            events = self._http.receive_data(data)
        except h2.exceptions.ProtocolError as exc:
            msg = f"it does not speak HTTP/2: {exc}"
            raise RemoteProtocolError(msg) from exc
        for event in events:
            if not self.is_done:
                self._take(event)

    def receive_eof(self) -> None:
        """Learn that the server sends no more; a response has its own end (RFC 9113 §8.1)."""

    def message(self) -> bytes:
        """Return the DNS message in the response, once done."""
        return self._response.message()

    def _take(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.ResponseReceived(headers=headers):
                fields = [(str(name), str(value)) for name, value in headers or ()]
                self._response.begin(dict(fields).get(":status", "missing"), fields)
            case h2.events.DataReceived(data=data):
                self._response.add(data or b"")  # far less than a window may come
            case h2.events.StreamEnded():
                self._response.is_complete = True
            case (
                h2.events.StreamReset(error_code=code)
                | h2.events.ConnectionTerminated(error_code=code)
            ):
                msg = f"it ended the request with HTTP/2 error code {code}"
                raise RemoteProtocolError(msg)
            case _:
                pass
