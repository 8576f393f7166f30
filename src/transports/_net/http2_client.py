"""HTTP/2 (RFC 9113) from the client's side over h2, one request at a time; nothing here does IO."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from racer.errors import LocalProtocolError, RemoteProtocolError
from transports._net.http_client import (
    END,
    MAX_HEAD,
    MAX_INFORMATIONAL,
    Event,
    RequestHead,
    ResponseHead,
    check_head,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ("HTTP2Client",)

_WINDOW: Final = 1 << 20
"""Octets that a response may be ahead of who takes it: at 100 ms of round trip, 80 Mbit/s."""

_STATUS: Final = b":status"


class HTTP2Client:
    """The client's side of one connection; a stream for each request, one after the other."""

    def __init__(self) -> None:
        """Write the preface."""
        config = h2.config.H2Configuration(client_side=True, header_encoding=None)
        self._http = h2.connection.H2Connection(config)
        self._http.local_settings = h2.settings.Settings(
            client=True,
            initial_values={
                h2.settings.SettingCodes.ENABLE_PUSH: 0,
                h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW,
                h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEAD,
            },
        )
        self._http.initiate_connection()
        self._http.increment_flow_control_window(_WINDOW)
        self._stream: int | None = None
        self._events: deque[Event] = deque()
        self._informational = 0
        self._unacknowledged = 0
        self._left: int | None = 0
        self._is_going = False
        self._is_over = False
        self._has_ended_body = False

    @property
    def is_idle(self) -> bool:
        """As `HTTPClient.is_idle`."""
        return self._stream is None and not self._is_going and not self._is_over

    @property
    def room(self) -> int:
        """As `HTTPClient.room`: the smaller of both windows and a frame."""
        if self._stream is None or self._has_ended_body:
            return 0
        try:
            window = self._http.local_flow_control_window(self._stream)
        except h2.exceptions.ProtocolError:  # reset meanwhile
            return 0
        return max(0, min(window, self._http.max_outbound_frame_size))

    def begin(self, head: RequestHead) -> None:
        """As `HTTPClient.begin`."""
        if not self.is_idle:
            msg = "HTTP/2: a request was begun before the last one had ended"
            raise LocalProtocolError(msg)
        check_head(head)
        fields: list[tuple[str | bytes, str | bytes]] = [
            (b":method", head.method.encode("ascii")),
            (b":scheme", b"https"),
            (b":authority", head.authority.encode("ascii")),
            (b":path", head.target.encode("ascii")),
            *((name.lower(), value) for name, value in head.fields),
        ]
        if head.body_length or (head.body_length == 0 and head.method in {"POST", "PUT", "PATCH"}):
            fields.append((b"content-length", str(head.body_length).encode()))
        self._stream = self._http.get_next_available_stream_id()
        self._informational = self._unacknowledged = 0
        self._left = head.body_length
        self._has_ended_body = head.body_length == 0
        try:
            self._http.send_headers(self._stream, fields, end_stream=self._has_ended_body)
        except (h2.exceptions.ProtocolError, ValueError) as exc:
            msg = f"HTTP/2 cannot carry this: {str(exc)[:200]}"
            raise LocalProtocolError(msg) from exc

    def add_body(self, data: bytes) -> None:
        """As `HTTPClient.add_body`."""
        assert self._stream is not None
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                msg = "HTTP/2: the body is longer than was said"
                raise LocalProtocolError(msg)
        if not self._has_ended_body:
            self._http.send_data(self._stream, data)

    def end_body(self) -> None:
        """As `HTTPClient.end_body`."""
        if self._left:
            msg = "HTTP/2: the body is shorter than was said"
            raise LocalProtocolError(msg)
        if not self._has_ended_body and self._stream is not None:
            self._has_ended_body = True
            self._http.end_stream(self._stream)

    def bytes_to_send(self) -> bytes:
        """As `HTTPClient.bytes_to_send`."""
        return self._http.data_to_send()

    def receive_data(self, data: bytes) -> None:
        """As `HTTPClient.receive_data`."""
        try:
            events = self._http.receive_data(data)
        except h2.exceptions.ProtocolError as exc:
            self._is_over = True
            msg = f"not HTTP/2: {str(exc)[:200]}"
            raise RemoteProtocolError(msg) from exc
        for event in events:
            self._take(event)

    def receive_eof(self) -> None:
        """As `HTTPClient.receive_eof`: a response has an end of its own (RFC 9113 §8.1)."""
        self._is_over = True

    def next_event(self) -> Event | None:
        """As `HTTPClient.next_event`."""
        if self._events:
            event = self._events.popleft()
            if isinstance(event, bytes):
                self._acknowledge()
            elif event is END:
                self._finish()
            return event
        if self._is_over:
            msg = "the connection ended before the response did"
            raise RemoteProtocolError(msg)
        return None

    def _take(self, event: object) -> None:
        match event:
            case h2.events.ConnectionTerminated(last_stream_id=last):
                self._is_going = True
                if self._stream is not None and last is not None and last < self._stream:
                    self._is_over = True  # RFC 9113 §6.8: it will not be answered
            case h2.events.StreamReset(stream_id=stream, error_code=code) if stream == self._stream:
                self._reset(code)
            case (
                h2.events.InformationalResponseReceived(stream_id=stream)
                | h2.events.ResponseReceived(stream_id=stream)
                | h2.events.DataReceived(stream_id=stream)
                | h2.events.StreamEnded(stream_id=stream)
            ) if stream == self._stream:
                self._take_part(event)
            case _:
                pass

    def _take_part(self, event: Any) -> None:  # noqa: ANN401 - one of the four above
        match event:
            case h2.events.InformationalResponseReceived():
                self._informational += 1
                if self._informational > MAX_INFORMATIONAL:
                    msg = f"more than {MAX_INFORMATIONAL} answers of 1xx and no final one"
                    raise RemoteProtocolError(msg)
            case h2.events.ResponseReceived():
                self._events.append(_head(event.headers or ()))
            case h2.events.DataReceived():
                self._unacknowledged += event.flow_controlled_length or 0
                if event.data:
                    self._events.append(bytes(event.data))
            case _:
                self._events.append(END)

    def _reset(self, code: int | None) -> None:
        """Take the end of the stream: without an error, the rest of the body was not wanted (RFC 9113 §8.1)."""
        if code == h2.errors.ErrorCodes.NO_ERROR and END in self._events:
            self._has_ended_body = True
            return
        msg = f"the request was reset with HTTP/2 error code {code}"
        raise RemoteProtocolError(msg)

    def _acknowledge(self) -> None:
        """Open the windows again by what has been taken; whole events are, so all that was counted."""
        if self._stream is None or not self._unacknowledged or any(self._bodies()):
            return
        length, self._unacknowledged = self._unacknowledged, 0
        self._http.acknowledge_received_data(length, self._stream)

    def _bodies(self) -> Iterable[bool]:
        return (isinstance(event, bytes) for event in self._events)

    def _finish(self) -> None:
        """End with this stream; one whose body was not sent to its end is reset, so that nobody waits for it."""
        stream, self._stream = self._stream, None
        if stream is None:
            return
        if self._unacknowledged:
            length, self._unacknowledged = self._unacknowledged, 0
            self._http.acknowledge_received_data(length, stream)
        if not self._has_ended_body:
            self._has_ended_body = True
            self._http.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)


def _head(headers: Iterable[tuple[Any, Any]]) -> ResponseHead:
    fields = [(bytes(name), bytes(value)) for name, value in headers]
    status = dict(fields).get(_STATUS, b"")
    if not status.isdigit() or len(status) != 3:
        msg = "a response without a status"
        raise RemoteProtocolError(msg)
    kept = tuple((name, value) for name, value in fields if not name.startswith(b":"))
    return ResponseHead(status=int(status), fields=kept, http_version="HTTP/2")
