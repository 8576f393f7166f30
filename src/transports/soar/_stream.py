"""A stream through the tunnel, as the rest of racer knows streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream

from transports._net.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from racer.errors import TransportError
    from transports.soar.core.client.stream import ClientStream

__all__ = ("MakeError", "SoarStream", "StreamOwner")

# Errors are made where they are raised: one that was kept would keep its traceback, and so this stream, alive (R13).
MakeError: TypeAlias = "Callable[[], TransportError]"
"""Makes an error that says why something is over."""


class StreamOwner(Protocol):
    """What moves the messages of a stream."""

    def flush(self) -> None:
        """Send what the core has to say now."""

    def forget(self, handle: ClientStream) -> None:
        """Have nobody told of this stream any more; if its target is not connected yet, have the dial given up."""


class SoarStream(ByteStream):
    """One stream of a session.

    `receive` and `send` may run side by side, each once. What was sent before `aclose` still arrives, while the session
    lasts; the target then meets the end of the stream, and whatever it sends is dropped.

    Before its target is connected, whoever uses the stream learns of the dial's failure by that very `TransportError`, and
    not by one of the stream's: it is the dial's (`Engine.open`).

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
        """Begin open, with a target that is not connected yet."""
        self._handle = handle
        self._owner = owner
        self._attributes = attributes
        self._readable = Wakeup()
        self._writable = Wakeup()
        self._is_reading = self._is_writing = False
        self._is_connected = False
        self._failure: MakeError | None = None  # both directions are over
        self._reset: MakeError | None = None  # what is received has ended early
        self._stopped: MakeError | None = None  # nobody reads what is sent
        self._is_closed = False
        self._has_finished = False

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """Whatever the transport says about its streams."""
        return self._attributes

    # --- told by the owner ------------------------------------------------------------------

    def connected(self) -> None:
        """The target is."""
        self._is_connected = True
        self._writable.set()

    def readable(self) -> None:
        """There are octets, or the end."""
        self._readable.set()

    def writable(self) -> None:
        """There is room."""
        self._writable.set()

    def reset(self, why: MakeError) -> None:
        """The target's direction ended early."""
        self._reset = why
        self._readable.set()

    def stop(self, why: MakeError) -> None:
        """Write no more: nobody reads it."""
        self._stopped = why
        self._writable.set()

    def fail(self, why: MakeError) -> None:
        """Be over, both ways; what has come before can still be read."""
        self.orphan(why)
        self._readable.set()
        self._writable.set()

    def orphan(self, why: MakeError) -> None:
        """Fail where nobody can wait for it: in a process that was forked from the stream's own."""
        if self._failure is None:
            self._failure = why

    # --- ByteStream -------------------------------------------------------------------------

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        """Return at least one octet, and at most `max_bytes`; a cancelled call has lost none.

        Raises:
            anyio.EndOfStream: the target has sent all.
            anyio.BrokenResourceError: the session or the stream is over; the cause says why.
            anyio.ClosedResourceError: it was closed.
            anyio.BusyResourceError: another task is receiving.
            TransportError: the target could not be connected.
        """
        if max_bytes < 1:
            msg = "max_bytes must be at least 1"
            raise ValueError(msg)
        await anyio.lowlevel.checkpoint()
        if self._is_reading:
            raise anyio.BusyResourceError("receiving from")
        self._is_reading = True
        try:
            while True:
                if self._is_closed:
                    raise anyio.ClosedResourceError
                if data := self._handle.read(max_bytes):
                    self._owner.flush()  # the window that was freed
                    return data
                # A stream that was cut short looks like one at its end, so that is asked last.
                self._raise(self._reset)
                if self._handle.at_end():
                    raise anyio.EndOfStream
                self._raise(self._failure)
                await self._readable.wait()
        finally:
            self._is_reading = False

    async def send(self, item: bytes) -> None:
        """Hand over all of `item`; it is on its way when the session's windows allow.

        Raises:
            anyio.BrokenResourceError: the session or the stream is over, or the target reads no more; the cause says why.
            anyio.ClosedResourceError: it was closed, or `send_eof` was called.
            anyio.BusyResourceError: another task is sending.
            TransportError: the target could not be connected.
        """
        await anyio.lowlevel.checkpoint()
        if self._is_writing:
            raise anyio.BusyResourceError("sending to")
        self._is_writing = True
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
            self._is_writing = False

    async def send_eof(self) -> None:
        """End this direction behind what was sent; may be called twice.

        Raises:
            anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.BusyResourceError, TransportError: as `send`.
        """
        await anyio.lowlevel.checkpoint()
        if self._is_writing:
            raise anyio.BusyResourceError("sending to")
        if self._is_closed or not self._has_finished:
            self._check_writable()
            self._has_finished = True
            self._handle.finish()
            self._owner.flush()

    async def aclose(self) -> None:
        """Let what was sent arrive, and have nothing more to do with the rest; may be called twice."""
        self.abort()
        await anyio.lowlevel.checkpoint()

    def abort(self) -> None:
        """As `aclose`, without a checkpoint; a dial that is still under way is given up."""
        if self._is_closed:
            return
        self._is_closed = True
        self._owner.forget(self._handle)
        self._handle.close()
        self._owner.flush()
        self._readable.set()
        self._writable.set()

    # --- within -----------------------------------------------------------------------------

    def _check_writable(self) -> None:
        if self._is_closed or self._has_finished:
            raise anyio.ClosedResourceError
        self._raise(self._failure)
        self._raise(self._stopped)

    def _raise(self, why: MakeError | None) -> None:
        if why is None:
            return
        if self._is_connected:
            raise anyio.BrokenResourceError from why()
        raise why()
