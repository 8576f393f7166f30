"""A stream through the tunnel, as the rest of racer knows streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream

from transports._net.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from transports.soar.core.client.stream import ClientStream

__all__ = ("SoarStream", "StreamOwner")

_LINGER: Final = 1.0  # seconds that a close waits for what was written to get into the core


class StreamOwner(Protocol):
    """What moves the messages of a stream."""

    def flush(self) -> None:
        """Send what the core has to say now."""

    def forget(self, stream: ClientStream) -> None:
        """Have nobody told of this stream any more."""


class SoarStream(ByteStream):
    """One stream of a session.

    `receive` and `send` may run side by side, each once. Closing is abrupt unless `send_eof` came first: the target is
    told that its peer is gone.

    Args:
        handle: the core's stream.
        owner: moves its messages.
        attributes: what the stream says of itself.
    """

    def __init__(
        self,
        handle: ClientStream,
        owner: StreamOwner,
        attributes: Mapping[Any, Callable[[], Any]],
    ) -> None:
        """Begin open; the core has said that the target is connected."""
        self._handle = handle
        self._owner = owner
        self._attributes = attributes
        self._readable = Wakeup()
        self._writable = Wakeup()
        self._reading = self._writing = False
        self._error: Exception | None = None
        self._stopped: Exception | None = None
        self._is_closed = False
        self._has_finished = False

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """Whatever the transport says about its streams."""
        return self._attributes

    # --- told by the owner ------------------------------------------------------------------

    def readable(self) -> None:
        """There are octets, or the end."""
        self._readable.set()

    def writable(self) -> None:
        """There is room."""
        self._writable.set()

    def fail(self, error: Exception) -> None:
        """Be over, both ways; what has come before can still be read."""
        if self._error is None:
            self._error = error
        self._readable.set()
        self._writable.set()

    def stop(self, error: Exception) -> None:
        """Write no more: nobody reads it."""
        self._stopped = error
        self._writable.set()

    # --- ByteStream -------------------------------------------------------------------------

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        """Return at least one octet, and at most `max_bytes`; a cancelled call has lost none.

        Raises:
            anyio.EndOfStream: the target has sent all.
            anyio.BrokenResourceError: the session or the stream is over; the cause says why.
            anyio.ClosedResourceError: it was closed.
            anyio.BusyResourceError: another task is receiving.
        """
        if max_bytes < 1:
            msg = "max_bytes must be at least 1"
            raise ValueError(msg)
        await anyio.lowlevel.checkpoint()
        if self._reading:
            raise anyio.BusyResourceError("receiving from")
        self._reading = True
        try:
            while True:
                if self._is_closed:
                    raise anyio.ClosedResourceError
                if data := self._handle.read(max_bytes):
                    self._owner.flush()  # the window that was freed
                    return data
                if self._handle.at_end():
                    raise anyio.EndOfStream
                if self._error is not None:
                    raise anyio.BrokenResourceError from self._error
                await self._readable.wait()
        finally:
            self._reading = False

    async def send(self, item: bytes) -> None:
        """Hand over all of `item`; it is on its way when the session's windows allow.

        Raises:
            anyio.BrokenResourceError: the session or the stream is over, or the target reads no more; the cause says why.
            anyio.ClosedResourceError: it was closed, or `send_eof` was called.
            anyio.BusyResourceError: another task is sending.
        """
        await anyio.lowlevel.checkpoint()
        if self._writing:
            raise anyio.BusyResourceError("sending from")
        self._writing = True
        try:
            view = memoryview(item)
            while True:
                self._check_writable()
                if not view:
                    return
                if room := self._handle.room():
                    self._handle.write(view[:room])
                    view = view[room:]
                    self._owner.flush()
                else:
                    await self._writable.wait()
        finally:
            self._writing = False

    async def send_eof(self) -> None:
        """End this direction behind what was sent; may be called twice."""
        await anyio.lowlevel.checkpoint()
        if self._is_closed:
            raise anyio.ClosedResourceError
        if self._error is not None:
            raise anyio.BrokenResourceError from self._error
        if not self._has_finished:
            self._has_finished = True
            self._handle.finish()
            self._owner.flush()

    async def aclose(self) -> None:
        """End both directions at once; may be called twice."""
        self.abort()
        await anyio.lowlevel.checkpoint()

    def abort(self) -> None:
        """As `aclose`, without a checkpoint."""
        if self._is_closed:
            return
        self._is_closed = True
        self._owner.forget(self._handle)
        if self._error is None:
            self._handle.close()
            self._owner.flush()
        self._readable.set()
        self._writable.set()

    def _check_writable(self) -> None:
        if self._is_closed or self._has_finished:
            raise anyio.ClosedResourceError
        if self._error is not None:
            raise anyio.BrokenResourceError from self._error
        if self._stopped is not None:
            raise anyio.BrokenResourceError from self._stopped
