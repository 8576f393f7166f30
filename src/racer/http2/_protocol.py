"""The client's side of one HTTP/2 connection, without IO: `h2` thinks, this keeps its streams apart (RFC 9113).

Everything is synchronous. Bytes come in by `receive_data`, and are to be sent from `bytes_to_send`; what happened to a
stream stands in its `Stream`, whose `wake` is called.

Flow control: the connection's window is opened again as soon as bytes arrive, a stream's only when they are read. So a
stream that nobody reads holds at most its own window, and never holds up another.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import TYPE_CHECKING, Final

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from racer.errors import LocalProtocolError, RemoteProtocolError
from racer.http2._frames import GoAway, GoAwayFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ("STREAM_WINDOW", "HTTP2Protocol", "Stream", "StreamFailure")

STREAM_WINDOW: Final = 1024 * 1024
"""Bytes of a response that are taken before somebody reads them."""

CONNECTION_WINDOW: Final = 16 * 1024 * 1024
"""Bytes that the peer may have under way on all streams; opened again on arrival."""

FIRST_STREAMS: Final = 100
"""Streams at once until the peer has said how many it takes (RFC 9113 §6.5.2: not below 100)."""

MAX_HEADERS: Final = 64 * 1024
"""Bytes of a response's headers that are taken."""

_LAST_STREAM: Final = 2**31 - 1
_DEFAULT_WINDOW: Final = 65_535

Fields = list[tuple[bytes, bytes]]


class StreamFailure(enum.Enum):
    """Why a stream ended before its time."""

    RESET = "reset"
    """The peer reset it."""
    UNPROCESSED = "unprocessed"
    """The peer said that it did nothing with it (RFC 9113 §8.7)."""
    CONNECTION = "connection"
    """The connection broke or ended."""


class Stream:
    """One request and its response, as far as they have come.

    Attributes:
        id: the stream's number.
        headers: the response's fields, the status among them; `None` until they are here.
        chunks: bytes of the response that nobody has taken.
        is_ended: whether the response is here to its end.
        failure: why it will never be; `None` while it may.
        reason: the same in words.
        wake: called when any of it has changed, or when more can be sent.
    """

    __slots__ = (
        "chunks",
        "credit",
        "failure",
        "headers",
        "id",
        "is_closed",
        "is_ended",
        "is_upload_ended",
        "reason",
        "wake",
    )

    def __init__(self, stream_id: int, wake: Callable[[], None]) -> None:
        """Begin with nothing received."""
        self.id = stream_id
        self.wake = wake
        self.headers: Fields | None = None
        self.chunks: deque[tuple[bytes, int]] = deque()
        self.credit = 0
        self.is_ended = False
        self.is_closed = False
        self.is_upload_ended = False
        self.failure: StreamFailure | None = None
        self.reason = ""


class HTTP2Protocol:
    """A connection's state. Bytes and intentions in, bytes and news out.

    Attributes:
        streams: those under way, by number.
        is_ended: whether it is of no use to anybody any more; `reason` says why.
        is_leaving: whether the peer takes no more streams.
        heard: how often bytes have come from the peer.
    """

    def __init__(self) -> None:
        """Write the preface."""
        self.streams: dict[int, Stream] = {}
        self.is_ended = False
        self.is_leaving = False
        self.heard = 0
        self.reason = ""
        self._frames = GoAwayFilter()
        self._settled = False
        self._connection_credit = 0
        self._h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=True, header_encoding=None)
        )
        codes = h2.settings.SettingCodes
        self._h2.local_settings = h2.settings.Settings(
            client=True,
            initial_values={
                codes.ENABLE_PUSH: 0,
                codes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
                codes.MAX_HEADER_LIST_SIZE: MAX_HEADERS,
            },
        )
        self._h2.decoder.max_header_list_size = MAX_HEADERS
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(CONNECTION_WINDOW - _DEFAULT_WINDOW)

    # --- what there is to say -----------------------------------------------------------------

    @property
    def max_streams(self) -> int:
        """How many streams may be open at once."""
        if not self._settled:
            return FIRST_STREAMS
        return min(self._h2.remote_settings.max_concurrent_streams, _LAST_STREAM)

    @property
    def can_open(self) -> bool:
        """Whether another stream may be opened now."""
        return (
            not self.is_ended
            and not self.is_leaving
            and len(self.streams) < self.max_streams
            and self._h2.highest_outbound_stream_id < _LAST_STREAM - 2
        )

    def bytes_to_send(self) -> bytes:
        """Return what is due to be sent, once."""
        return self._h2.data_to_send()

    # --- requests -----------------------------------------------------------------------------

    def open(
        self,
        fields: Iterable[tuple[bytes, bytes]],
        wake: Callable[[], None],
        *,
        end_upload: bool = False,
    ) -> Stream:
        """Return a new stream, its header fields written; ask `can_open` before.

        Args:
            fields: pseudo-fields first, names in lower case (RFC 9113 §8.3).
            wake: called when the stream changes.
            end_upload: whether no body follows.

        Raises:
            LocalProtocolError: fields that no request can have.
        """
        stream_id = self._h2.get_next_available_stream_id()
        try:
            self._h2.send_headers(stream_id, fields, end_stream=end_upload)
        except h2.exceptions.ProtocolError as exc:
            # The compressor may have learnt a part of them, of which the peer does not hear: no more after this.
            self.is_leaving = True
            self.reason = "a request could not be encoded"
            raise LocalProtocolError(str(exc)) from exc
        stream = self.streams[stream_id] = Stream(stream_id, wake)
        stream.is_upload_ended = end_upload
        return stream

    def send(self, stream: Stream, data: memoryview) -> int:
        """Write as much of `data` as both windows allow; return how much that was."""
        if stream.is_closed or stream.is_upload_ended or self.is_ended:
            return 0
        total = 0
        while total < len(data):
            room = min(
                self._h2.local_flow_control_window(stream.id),
                self._h2.max_outbound_frame_size,
                len(data) - total,
            )
            if room <= 0:
                break
            self._h2.send_data(stream.id, data[total : total + room].tobytes())
            total += room
        return total

    def end_upload(self, stream: Stream) -> None:
        """Write the end of the request."""
        if not stream.is_closed and not self.is_ended and not stream.is_upload_ended:
            stream.is_upload_ended = True
            self._h2.end_stream(stream.id)
            self._leave_if_done(stream)

    def take(self, stream: Stream) -> bytes:
        """Return all that is here of the response's body, and let the peer send as much again."""
        if not stream.chunks:
            return b""
        data = b"".join(chunk for chunk, _ in stream.chunks)
        stream.credit += sum(credit for _, credit in stream.chunks)
        stream.chunks.clear()
        if stream.credit * 2 >= STREAM_WINDOW and not stream.is_closed and not stream.is_ended:
            self._h2.increment_flow_control_window(stream.credit, stream.id)
            stream.credit = 0
        return data

    def cancel(self, stream: Stream) -> None:
        """Let go of a stream, whatever its state: the peer is told, and its place is free at once."""
        if stream.is_closed:
            return
        self._leave(stream)
        stream.chunks.clear()
        if not self.is_ended:
            self._h2.reset_stream(stream.id, h2.errors.ErrorCodes.CANCEL)

    # --- what comes in ------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the peer, cut anywhere.

        Raises:
            RemoteProtocolError: it does not speak HTTP/2; the connection has ended, and says so to the peer.
        """
        self.heard += 1
        try:
            passed, farewells = self._frames.feed(data)
            events = self._h2.receive_data(passed) if passed else []
        except (h2.exceptions.ProtocolError, RemoteProtocolError) as exc:
            msg = f"the peer broke the rules of HTTP/2: {str(exc) or type(exc).__name__}"
            self.fail(msg)
            raise RemoteProtocolError(msg) from exc
        for event in events:
            self._take(event)
        self._open_connection_window()
        for farewell in farewells:
            self._take_goaway(farewell)

    def fail(self, reason: str) -> None:
        """End: the connection is gone, and with it every stream under way."""
        if self.is_ended:
            return
        self.is_ended = True
        self.reason = reason
        for stream in list(self.streams.values()):
            self._break(stream, StreamFailure.CONNECTION, reason)

    def say_goodbye(self) -> None:
        """Write a GOAWAY and end, in good order."""
        if not self.is_ended:
            self.fail("the connection was closed here")
            self._h2.close_connection()

    def _take(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RemoteSettingsChanged():
                self._settled = True
                self._wake_all()
            case h2.events.WindowUpdated(stream_id=0):
                self._wake_all()
            case h2.events.DataReceived(flow_controlled_length=length):
                self._connection_credit += length or 0
            case _:
                pass
        stream = self.streams.get(getattr(event, "stream_id", None) or 0)
        if stream is not None:
            self._take_for(stream, event)

    def _take_for(self, stream: Stream, event: h2.events.Event) -> None:
        match event:
            case h2.events.ResponseReceived(headers=headers):
                stream.headers = [(bytes(name), bytes(value)) for name, value in headers or ()]
            case h2.events.DataReceived(data=data, flow_controlled_length=length):
                stream.chunks.append((data or b"", length or 0))
            case h2.events.StreamEnded():
                stream.is_ended = True
                self._leave_if_done(stream)
            case h2.events.StreamReset(error_code=code):
                self._take_reset(stream, code or 0)
            case h2.events.WindowUpdated():
                pass
            case _:
                return
        stream.wake()

    def _take_reset(self, stream: Stream, code: int) -> None:
        if code == h2.errors.ErrorCodes.NO_ERROR and stream.is_ended:
            # A complete answer before the request's end (RFC 9113 §8.1): no failure.
            stream.is_upload_ended = True
            self._leave(stream)
            return
        refused = code == h2.errors.ErrorCodes.REFUSED_STREAM
        failure = StreamFailure.UNPROCESSED if refused else StreamFailure.RESET
        self._break(stream, failure, f"the peer reset the stream ({_error_name(code)})")

    def _take_goaway(self, farewell: GoAway) -> None:
        self.is_leaving = True
        self.reason = f"the peer is going away ({_error_name(farewell.error_code)})"
        for stream in list(self.streams.values()):
            if stream.id > farewell.last_stream_id:
                self._break(stream, StreamFailure.UNPROCESSED, self.reason)

    def _break(self, stream: Stream, failure: StreamFailure, reason: str) -> None:
        stream.failure, stream.reason = failure, reason
        self._leave(stream)
        stream.wake()

    def _leave_if_done(self, stream: Stream) -> None:
        if stream.is_ended and stream.is_upload_ended:
            self._leave(stream)

    def _leave(self, stream: Stream) -> None:
        stream.is_closed = True
        self.streams.pop(stream.id, None)

    def _wake_all(self) -> None:
        for stream in list(self.streams.values()):
            stream.wake()

    def _open_connection_window(self) -> None:
        # Below a half, since h2 keeps accounts of its own for what comes on streams that were cancelled.
        if self._connection_credit * 4 >= CONNECTION_WINDOW and not self.is_ended:
            self._h2.increment_flow_control_window(self._connection_credit)
            self._connection_credit = 0


def _error_name(code: int) -> str:
    try:
        return h2.errors.ErrorCodes(code).name
    except ValueError:
        return f"error {code}"
