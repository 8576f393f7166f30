"""HTTP/2 on one connection, safe from cancellation: two tasks of the host do all the IO, requests only wait.

A request touches the protocol's state synchronously and waits for an event. Whatever cancels it meets only that wait, and
leaving is synchronous too: RST_STREAM, so that neither a stream nor bytes that somebody believes sent are ever lost.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import anyio

from racer._cleanup import close_within
from racer.errors import LocalProtocolError, RemoteProtocolError
from racer.http2._fault import BROKEN, Fault
from racer.http2._protocol import HTTP2Protocol, Stream, StreamFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import ByteStream

    from racer.abc import Host
    from racer.http2._protocol import Fields
    from racer.http2._upload import Upload

__all__ = ("HTTP2Body", "HTTP2Connection")

_READ: Final = 65_536
_GOODBYE: Final = 1.0  # seconds the peer has to take what is left when the connection is closed
_MAX_QUEUED: Final = 256 * 1024  # bytes of requests' bodies that wait to be written
_MAX_OWED: Final = (
    2 * 1024 * 1024
)  # bytes that wait to be written in all: more are a flood of pings

_EVERY_FAILURE: Final = {
    StreamFailure.RESET: "RemoteProtocolError",
    StreamFailure.UNPROCESSED: "RemoteProtocolError",
    StreamFailure.CONNECTION: "ReadError",
}


class HTTP2Connection:
    """A client's connection. Any number of requests at once, in the tasks that make them.

    Args:
        stream: connected, ALPN `h2` settled; owned, and closed, by the connection from `start` on.
        host: where its two tasks live.
        on_change: called, synchronously, when more or fewer requests fit than before.
    """

    def __init__(
        self, stream: ByteStream, host: Host, *, on_change: Callable[[], None] | None = None
    ) -> None:
        """Nothing is sent yet."""
        self._stream = stream
        self._host = host
        self._on_change = on_change
        self._protocol = HTTP2Protocol()
        self._out = bytearray()
        self._queued = 0
        self._wake = anyio.Event()
        self._drained = anyio.Event()
        self._scope = anyio.CancelScope()
        self._is_silent = False
        self._capacity = self.capacity

    def start(self) -> None:
        """Begin: from now on the stream is the connection's.

        Raises:
            DialerClosed: the host has ended; the stream is still the caller's.
        """
        self._host.start_soon(self._run, name="racer http2")

    @property
    def capacity(self) -> int:
        """How many requests may be under way at once; 0 when it takes no more."""
        protocol = self._protocol
        if protocol.is_ended or protocol.is_leaving or self._is_silent:
            return 0
        return protocol.max_streams

    @property
    def is_open(self) -> bool:
        """Whether requests that are under way may still be answered."""
        return not self._protocol.is_ended

    @property
    def requests(self) -> int:
        """How many streams are open."""
        return len(self._protocol.streams)

    def abort(self) -> None:
        """Close: requests under way fail, the peer is told; synchronous, within a second. Again does nothing."""
        if not self._protocol.is_ended:
            self._protocol.say_goodbye()
            self._scope.deadline = anyio.current_time() + _GOODBYE
            self._flush()
            self._tell()

    async def request(
        self,
        fields: Fields,
        upload: Upload,
        *,
        read: float | None = None,
        write: float | None = None,
        patience: float | None = None,
    ) -> tuple[Fields, HTTP2Body]:
        """Send a request; return the response's fields, and its body, which is the caller's to close.

        Args:
            fields: pseudo-fields first, names in lower case.
            upload: the body.
            read: seconds to wait for bytes.
            write: seconds to wait until the peer takes more.
            patience: seconds until the response's fields must be here, once all is sent.

        Raises:
            Fault: says whether the request may have been acted on.

        Cancelling resets the stream; the connection goes on.
        """
        exchange = _Exchange(self, self._protocol)
        try:
            return await exchange.run(fields, upload, read, write, patience)
        except BaseException:
            exchange.cancel()
            raise

    # --- for exchanges ------------------------------------------------------------------------

    def flush(self, queued: int = 0) -> None:
        """Have what the protocol has written sent; `queued` bytes of it are of a request's body."""
        self._queued += queued
        self._flush()

    def _flush(self) -> None:
        self._out += self._protocol.bytes_to_send()
        if self._out:
            self._wake.set()

    @property
    def is_congested(self) -> bool:
        """Whether requests' bodies should wait for `drained`."""
        return self._queued >= _MAX_QUEUED

    @property
    def drained(self) -> anyio.Event:
        """Set when the peer has taken something."""
        return self._drained

    def suspect(self, heard: int) -> None:
        """Learn that a request waited in vain; if nothing at all has come since, take no more requests."""
        if heard == self._protocol.heard:
            self._is_silent = True
            self._tell()
            self._end_if_idle()

    def _end_if_idle(self) -> None:
        """End a connection that takes no more requests, once the last is through."""
        if not self.capacity and not self._protocol.streams:
            self.abort()

    def freed(self) -> None:
        """Learn that a stream has ended."""
        self._flush()
        self._end_if_idle()

    # --- the two tasks ------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            with self._scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._read_all)
                    await self._write_all()
                    group.cancel_scope.cancel()
        finally:
            self._protocol.fail("the event loop or the dialer ended")
            self._tell()
            await close_within(self._stream, grace=_GOODBYE, scope=anyio.CancelScope())

    async def _read_all(self) -> None:
        protocol = self._protocol
        try:
            while not protocol.is_ended:
                protocol.receive_data(await self._stream.receive(_READ))
                self._flush()
                if len(self._out) > _MAX_OWED:
                    protocol.fail("the peer asks for answers and does not take them")
                self._tell()
                if protocol.is_leaving:
                    self._end_if_idle()
        except anyio.EndOfStream:
            protocol.fail("the peer ended the connection")
        except RemoteProtocolError:
            pass  # the protocol has ended, and has written why
        except BROKEN as exc:
            protocol.fail(f"the connection broke: {type(exc).__name__}")
        self._scope.deadline = min(self._scope.deadline, anyio.current_time() + _GOODBYE)
        self._flush()
        self._wake.set()
        self._tell()

    async def _write_all(self) -> None:
        try:
            self._flush()
            while True:
                while self._out:
                    data = bytes(self._out)
                    self._out.clear()
                    self._queued = 0
                    await self._stream.send(data)
                    self._drained.set()
                    self._drained = anyio.Event()
                    self._flush()
                if self._protocol.is_ended:
                    return
                self._wake = anyio.Event()
                await self._wake.wait()
        except BROKEN as exc:
            self._protocol.fail(f"the connection broke: {type(exc).__name__}")
            self._tell()

    def _tell(self) -> None:
        if self.capacity != self._capacity:
            self._capacity = self.capacity
            if self._on_change is not None:
                self._on_change()


class _Exchange:
    """One request on its stream."""

    def __init__(self, connection: HTTP2Connection, protocol: HTTP2Protocol) -> None:
        self._connection = connection
        self._protocol = protocol
        self._stream: Stream | None = None
        self._news: anyio.Event | None = None
        self._heard = protocol.heard

    def cancel(self) -> None:
        if self._stream is not None:
            self._protocol.cancel(self._stream)
        self._connection.freed()

    async def run(
        self,
        fields: Fields,
        upload: Upload,
        read: float | None,
        write: float | None,
        patience: float | None,
    ) -> tuple[Fields, HTTP2Body]:
        stream = self._open(fields, upload)
        with anyio.CancelScope() as scope:
            if not upload.is_empty:
                await self._upload(stream, upload, _shorter(write, patience), scope)
            last = math.inf if patience is None else anyio.current_time() + patience
            while stream.headers is None:
                self.check(stream)
                await self.wait(scope, read, last)
            return stream.headers, HTTP2Body(self, stream, read)
        self._connection.suspect(self._heard)
        msg = "no response in time" if stream.is_upload_ended else "the peer took no more in time"
        raise Fault("ReadTimeout" if stream.is_upload_ended else "WriteTimeout", msg, silent=True)

    def _open(self, fields: Fields, upload: Upload) -> Stream:
        if not self._protocol.can_open:
            msg = self._protocol.reason or "the connection has no room for another stream"
            raise Fault("RemoteProtocolError", msg, sent=False, unprocessed=True, silent=True)
        try:
            stream = self._protocol.open(fields, self._wake, end_upload=upload.is_empty)
        except LocalProtocolError as exc:
            raise Fault("LocalProtocolError", str(exc), sent=False) from exc
        self._stream = stream
        self._connection.flush()
        return stream

    async def _upload(
        self, stream: Stream, upload: Upload, write: float | None, scope: anyio.CancelScope
    ) -> None:
        async with upload.reader() as chunks:
            async for chunk in chunks:
                left = memoryview(chunk)
                while left:
                    if self._is_settled(stream):
                        return
                    sent = self._protocol.send(stream, left)
                    left = left[sent:]
                    self._connection.flush(sent)
                    if self._connection.is_congested:
                        scope.deadline = _after(write)
                        await self._connection.drained.wait()
                    elif left:
                        await self.wait(scope, write, math.inf)
                    scope.deadline = math.inf  # the caller's own source takes its time
        if not self._is_settled(stream):
            self._protocol.end_upload(stream)
            self._connection.flush()

    def _is_settled(self, stream: Stream) -> bool:
        """Return whether nobody wants the rest of the body: the stream has failed, or the answer is complete."""
        self.check(stream)
        return stream.is_ended or stream.is_closed

    def check(self, stream: Stream) -> None:
        """Raise what has happened to the stream, once what came before it has been taken."""
        if stream.failure is not None and not stream.chunks:
            raise Fault(
                _EVERY_FAILURE[stream.failure],
                stream.reason,
                unprocessed=stream.failure is StreamFailure.UNPROCESSED,
                silent=stream.headers is None,
            )

    async def wait(self, scope: anyio.CancelScope, timeout: float | None, last: float) -> None:
        """Wait for news of the stream."""
        scope.deadline = min(last, _after(timeout))
        self._news = anyio.Event()
        try:
            await self._news.wait()
        finally:
            self._news = None

    def _wake(self) -> None:
        if self._news is not None:
            self._news.set()

    def take(self, stream: Stream) -> bytes:
        data = self._protocol.take(stream)
        if data:
            self._connection.flush()
        return data

    def waited_in_vain(self) -> None:
        self._connection.suspect(self._heard)

    def note(self) -> None:
        """Remember how often the peer was heard, before a wait."""
        self._heard = self._protocol.heard


class HTTP2Body:
    """The body of one response. One reader; `close` at any moment."""

    __slots__ = ("_closed", "_exchange", "_read", "_stream", "on_end")

    def __init__(self, exchange: _Exchange, stream: Stream, read: float | None) -> None:
        """Nothing is read yet."""
        self._exchange = exchange
        self._stream = stream
        self._read = read
        self._closed = False
        self.on_end: Callable[[], None] | None = None
        """Called once, when the stream is over, read to its end or not."""

    async def receive(self) -> bytes:
        """Return the next bytes; empty at the end.

        Raises:
            Fault: the stream ended before its time, or nothing came in time.

        Cancelling closes it.
        """
        try:
            while (data := self.receive_nowait()) is None:
                await self._wait()
        except BaseException:
            self.close()
            raise
        return data

    async def _wait(self) -> None:
        with anyio.CancelScope() as scope:
            self._exchange.note()
            await self._exchange.wait(scope, self._read, math.inf)
            return
        self._exchange.waited_in_vain()
        msg = "no more of the response in time"
        raise Fault("ReadTimeout", msg)

    def receive_nowait(self) -> bytes | None:
        """Return what is here: empty at the end, `None` when one has to wait."""
        if self._closed:
            return b""
        data = self._exchange.take(self._stream)
        if self._stream.is_ended:
            self.close()
            return data
        if data:
            return data
        try:
            self._exchange.check(self._stream)
        except Fault:
            self.close()
            raise
        return None

    def close(self) -> None:
        """Let go of the stream, which is reset unless it was over; synchronous."""
        if self._closed:
            return
        self._closed = True
        self._exchange.cancel()
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end()


def _after(timeout: float | None) -> float:
    return math.inf if timeout is None else anyio.current_time() + timeout


def _shorter(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else min(one, other)
