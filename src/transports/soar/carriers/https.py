"""Questions to one resolver as POSTs over one HTTP/2 connection (RFC 8484)."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from racer.errors import RemoteProtocolError
from racer.http2 import HTTP2Protocol
from transports.soar.carriers.connection import ConnectionCarrier, Machine

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from anyio.abc import ByteStream

    from racer.http2 import Stream

__all__ = ("HTTPSCarrier", "HTTPSMachine")

_TYPE: Final = b"application/dns-message"
_MAX_STREAMS: Final = 256  # at once; the server's own limit counts too
_MAX_WAITING: Final = 512  # questions that wait for a stream
_MAX_MESSAGE: Final = 65_535
_MAX_STATUS: Final = 3  # digits


class HTTPSMachine(Machine):
    """A POST for each question, as many at once as the server takes.

    A server that is going away still answers what it has taken (RFC 9113 section 6.8); only then is the connection over.

    Args:
        authority: host and port, as a URL has them.
        path: of the requests.
    """

    def __init__(self, authority: str, path: str) -> None:
        """Write the preface."""
        super().__init__()
        self._fields = [
            (b":method", b"POST"),
            (b":scheme", b"https"),
            (b":authority", authority.encode()),
            (b":path", path.encode()),
            (b"accept", _TYPE),
            (b"content-type", _TYPE),
        ]
        self._http = HTTP2Protocol()
        self._waiting: deque[bytes] = deque()
        self._unsent: tuple[Stream, memoryview] | None = None  # for want of room at the server
        self._asked: set[Stream] = set()
        self._changed: list[Stream] = []

    def ask(self, messages: Sequence[bytes]) -> None:
        """As `Machine.ask`."""
        self._waiting.extend(messages[: max(0, _MAX_WAITING - len(self._waiting))])
        self._begin()

    def bytes_to_send(self) -> bytes:
        """As `Machine.bytes_to_send`."""
        return self._http.bytes_to_send()

    def receive_data(self, data: bytes) -> list[bytes]:
        """As `Machine.receive_data`."""
        http = self._http
        http.receive_data(data)
        changed = self._changed.copy()
        self._changed.clear()
        messages = [each for stream in changed if (each := self._take(stream)) is not None]
        self._begin()
        if http.is_leaving and not self._asked and not messages:
            raise RemoteProtocolError(http.reason)
        return messages

    def _begin(self) -> None:
        """Send what there is room for."""
        http = self._http
        while self._has_sent() and self._waiting and http.can_open:
            if len(self._asked) >= _MAX_STREAMS:
                return
            message = self._waiting.popleft()
            length = (b"content-length", str(len(message)).encode())
            stream = http.open([*self._fields, length], _nobody)
            stream.wake = partial(self._changed.append, stream)
            self._asked.add(stream)
            self._unsent = stream, memoryview(message)

    def _has_sent(self) -> bool:
        """Send the rest of a question, and return whether nothing is left of it."""
        if self._unsent is None:
            return True
        stream, rest = self._unsent
        rest = rest[self._http.send(stream, rest) :]
        if rest and not stream.is_closed:
            self._unsent = stream, rest
            return False
        self._unsent = None
        self._http.end_upload(stream)
        return True

    def _take(self, stream: Stream) -> bytes | None:
        """Return the message that a stream has brought, once it is whole; let go of one that brings none."""
        if stream not in self._asked:
            return None  # it was let go of in the same breath
        complaint = stream.reason if stream.failure is not None else _complaint(stream)
        if not complaint and not stream.is_ended:
            return None
        self._asked.discard(stream)
        if complaint:
            self.trouble = complaint
            self._http.cancel(stream)
            return None
        self.trouble = ""
        return self._http.take(stream) or None


def _complaint(stream: Stream) -> str:
    """Return what is wrong with the response, as far as it has come; nothing if it may be an answer."""
    if stream.headers is None:
        return ""
    fields = dict(stream.headers)
    status = fields.get(b":status", b"")
    if status != b"200":
        return f"it answered with HTTP status {status[:_MAX_STATUS].decode('latin-1')}"
    kind = fields.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != _TYPE:
        return "it answered with something else than a DNS message"
    if sum(len(chunk) for chunk, _ in stream.chunks) > _MAX_MESSAGE:
        return "it answered with more than a DNS message has"
    return ""


def _nobody() -> None:
    """Be told of a stream that nobody knows yet."""


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
