"""Questions to one resolver as POSTs over one HTTP/2 connection (RFC 8484)."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

from racer.errors import RemoteProtocolError
from transports.soar.carriers.connection import ConnectionCarrier, Machine

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from anyio.abc import ByteStream

__all__ = ("HTTPSCarrier", "HTTPSMachine")

ALPN: Final = ("h2",)

_TYPE: Final = "application/dns-message"
_MAX_STREAMS: Final = 256  # at once; the server's own limit counts too
_MAX_WAITING: Final = 512  # questions that wait for a stream
_MAX_MESSAGE: Final = 65_535
_WINDOW: Final = 1 << 20  # octets that answers may be ahead of us


class HTTPSMachine(Machine):
    """A POST for each question, as many at once as the server takes.

    Args:
        authority: host and port, as a URL has them.
        path: of the requests.
    """

    def __init__(self, authority: str, path: str) -> None:
        """Write the preface."""
        self._head = [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", authority),
            (":path", path),
            ("accept", _TYPE),
            ("content-type", _TYPE),
        ]
        self._http = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=True, header_encoding=None)
        )
        self._http.local_settings = h2.settings.Settings(
            client=True, initial_values={h2.settings.SettingCodes.ENABLE_PUSH: 0}
        )
        self._http.initiate_connection()
        self._http.increment_flow_control_window(_WINDOW)
        self._waiting: list[bytes] = []
        self._ending = ""  # why the peer takes no more
        self._answers: dict[int, bytearray | None] = {}  # None: not an answer, whatever comes

    def ask(self, messages: Sequence[bytes]) -> None:
        """As `Machine.ask`."""
        self._waiting.extend(messages[: max(0, _MAX_WAITING - len(self._waiting))])
        if not self._ending:
            self._begin()

    def bytes_to_send(self) -> bytes:
        """As `Machine.bytes_to_send`."""
        return self._http.data_to_send()

    def receive_data(self, data: bytes) -> list[bytes]:
        """As `Machine.receive_data`."""
        try:
            events = self._http.receive_data(data)
        except h2.exceptions.ProtocolError as exc:
            msg = f"it does not speak HTTP/2: {exc}"
            raise RemoteProtocolError(msg) from exc
        messages = [message for event in events if (message := self._take(event)) is not None]
        if self._ending and not messages:
            raise RemoteProtocolError(self._ending)
        # Otherwise the next octets, or the end of the stream, tell what the peer said behind its last answers.
        if not self._ending:
            self._begin()
        return messages

    def _begin(self) -> None:
        http = self._http
        most = min(_MAX_STREAMS, http.remote_settings.max_concurrent_streams)
        while self._waiting and len(self._answers) < most:
            message = self._waiting[0]
            window = http.remote_settings.initial_window_size  # of the stream that would begin
            if min(http.outbound_flow_control_window, window) < len(message):
                return
            stream = http.get_next_available_stream_id()
            http.send_headers(stream, [*self._head, ("content-length", str(len(message)))])
            http.send_data(stream, message, end_stream=True)
            self._answers[stream] = bytearray()
            del self._waiting[0]

    def _take(self, event: h2.events.Event) -> bytes | None:
        match event:
            case h2.events.ResponseReceived(stream_id=stream, headers=headers):
                fields = dict(headers or ())
                kind = fields.get(b"content-type", b"").partition(b";")[0].strip().lower()
                if fields.get(b":status") != b"200" or kind != _TYPE.encode():
                    self._answers[stream or 0] = None
            case h2.events.DataReceived(stream_id=stream, data=data, flow_controlled_length=size):
                with suppress(h2.exceptions.ProtocolError):  # it was ended in the same breath
                    self._http.acknowledge_received_data(size or 0, stream or 0)
                body = self._answers.get(stream or 0)
                if body is not None:
                    body += data or b""
                    if len(body) > _MAX_MESSAGE:
                        self._answers[stream or 0] = None
            case h2.events.StreamEnded(stream_id=stream):
                body = self._answers.pop(stream or 0, None)
                return bytes(body) if body else None
            case h2.events.StreamReset(stream_id=stream):
                self._answers.pop(stream or 0, None)
            case h2.events.ConnectionTerminated(error_code=code):
                self._ending = f"it ended the connection with HTTP/2 error code {code}"
            case _:
                pass
        return None


class HTTPSCarrier(ConnectionCarrier):
    """Has one HTTP/2 connection at a time, for as long as there are questions.

    Args:
        open_stream: connects to the resolver, up to and with TLS that has chosen `h2`.
        authority: host and port, as a URL has them.
        path: of the requests; may identify an account.
    """

    def __init__(
        self, open_stream: Callable[[], Awaitable[ByteStream]], *, authority: str, path: str
    ) -> None:
        """Open nothing."""
        super().__init__(open_stream, partial(HTTPSMachine, authority, path))
