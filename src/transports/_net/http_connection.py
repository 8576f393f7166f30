"""HTTP over one byte stream that is ours alone: a request, then its response, then perhaps the next."""

from __future__ import annotations

import contextlib
import select
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final, cast

import anyio
from anyio.abc import SocketAttribute

from racer.errors import NetworkError, RemoteProtocolError, TransportError, error_type_of
from transports._net.drive import close_by_force
from transports._net.http_client import (
    END,
    Event,
    HTTP1Client,
    HTTPClient,
    RequestHead,
    ResponseHead,
    http2_client,
)
from transports._net.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.abc import AsyncResource, ByteStream

__all__ = ("HTTPConnection",)

_HUNG_UP: Final = (
    getattr(select, "POLLRDHUP", 0) | getattr(select, "POLLHUP", 0) | getattr(select, "POLLERR", 0)
)

_BROKEN: Final = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError)


class HTTPConnection:
    """One connection for one request after the other; it owns its stream. For one task at a time.

    Cancelling a request leaves the connection unfit for another; closing it is still the owner's.

    Args:
        stream: a connected stream, TLS included.
        http2: whether HTTP/2 is spoken on it.
        peer: what errors call the other side.

    Attributes:
        has_sent: whether a byte of the request under way may have left.
    """

    def __init__(self, stream: ByteStream, *, http2: bool, peer: str) -> None:
        """Send nothing yet."""
        self.has_sent = False
        self._stream = stream
        self._client: HTTPClient = http2_client() if http2 else HTTP1Client()
        self._peer = peer
        self._lock = anyio.Lock()
        self._is_fit = True
        self._is_closed = False

    @property
    def is_idle(self) -> bool:
        """Whether it can take a request, as far as is known here."""
        return self._is_fit and not self._is_closed and self._client.is_idle

    def has_hung_up(self) -> bool:
        """Return whether the peer has ended the connection, as far as the system says without a wait."""
        sock = self._stream.extra(SocketAttribute.raw_socket, None)
        if sock is None or not hasattr(select, "poll"):
            return False
        if sock.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(sock.fileno(), _HUNG_UP)
        return bool(poll.poll(0))

    async def request(self, head: RequestHead, body: bytes | AsyncIterator[bytes]) -> ResponseHead:
        """Send a request and return the response's head; `receive_body` gives the rest.

        A server may answer and hang up before it has heard all of the body: its answer counts.

        Args:
            head: of the request.
            body: of the length that `head` says.

        Raises:
            LocalProtocolError: HTTP cannot carry it; nothing was sent.
            NetworkError: the path broke, or the server broke the protocol.
            Exception: what `body` raises.
        """
        self.has_sent = False
        self._client.begin(head)
        self._is_fit = False
        if isinstance(body, bytes) and len(body) <= max(self._client.room, 0):
            if body:
                self._client.add_body(body)
            self._client.end_body()
            await self._flush()
            answer = await self._receive_head()
        else:
            answer = await self._upload(_chunks(body) if isinstance(body, bytes) else body)
        return answer

    async def receive_body(self) -> bytes:
        """Return the next part of the body, empty at its end; from then on the connection may be idle again.

        Raises:
            NetworkError: it broke off.
        """
        event = await self._next_event()
        if event is END:
            self._is_fit = True
            return b""
        if isinstance(event, ResponseHead):
            raise self._failure(RemoteProtocolError("a second response to one request"))
        return event

    async def aclose(self) -> None:
        """Close the stream; again does nothing."""
        if not self._is_closed:
            self._is_closed = True
            await close_by_force(self._stream)

    async def _receive_head(self) -> ResponseHead:
        event = await self._next_event()
        if not isinstance(event, ResponseHead):
            raise self._failure(RemoteProtocolError("a body without a response"))
        return event

    async def _next_event(self, heard: Wakeup | None = None) -> Event:
        try:
            while (event := self._client.next_event()) is None:
                await self._flush()
                try:
                    data = await self._stream.receive()
                except anyio.EndOfStream:
                    self._client.receive_eof()
                else:
                    self._client.receive_data(data)
                if heard is not None:
                    heard.set()
        except (RemoteProtocolError, *_BROKEN) as exc:
            raise self._failure(exc) from exc
        return event

    async def _flush(self) -> None:
        """Send what is due; a peer that does not listen any more may still have said why."""
        async with self._lock:
            data = self._client.bytes_to_send()
            if not data:
                return
            self.has_sent = True
            with contextlib.suppress(*_BROKEN):  # reading will tell
                await self._stream.send(data)

    async def _upload(self, body: AsyncIterator[bytes]) -> ResponseHead:
        """Send the body while listening; whichever way it ends, the head or the first error comes out bare."""
        heard = Wakeup()
        errors: list[Exception] = []
        answer: ResponseHead | None = None
        is_complete = False

        async def send() -> None:
            nonlocal is_complete
            try:
                async for chunk in body:
                    await self._send_chunk(chunk, heard)
                self._client.end_body()
                await self._flush()
                is_complete = True
            except Exception as exc:  # noqa: BLE001 - the application's own; it goes to who asked
                errors.append(exc)
                group.cancel_scope.cancel()
            finally:
                if not is_complete and isinstance(body, AsyncGenerator):  # left half-way
                    await close_by_force(cast("AsyncResource", body))

        async with anyio.create_task_group() as group:
            group.start_soon(send)
            try:
                event = await self._next_event(heard)
                answer = event if isinstance(event, ResponseHead) else None
            except TransportError as exc:
                errors.append(exc)
            if answer is None or not is_complete:
                group.cancel_scope.cancel()
        if errors:
            raise errors[0]
        if answer is None:
            raise self._failure(RemoteProtocolError("a body without a response"))
        return answer

    async def _send_chunk(self, chunk: bytes, heard: Wakeup) -> None:
        view = memoryview(chunk)
        while view:
            room = self._client.room
            if not room:
                await self._flush()
                await heard.wait()
                continue
            self._client.add_body(bytes(view[:room]))
            view = view[room:]
            await self._flush()

    def _failure(self, exc: Exception) -> NetworkError:
        msg = f"{self._peer}: {str(exc) or 'the connection broke'}"
        return NetworkError(msg, error_type=error_type_of(exc))


async def _chunks(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 65536):
        yield body[start : start + 65536]
