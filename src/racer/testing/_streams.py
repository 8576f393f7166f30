"""Byte streams in memory that behave like sockets, and remember whether and how they were closed."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import ByteStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from racer.testing._ledger import StreamLedger

__all__ = ("MemoryStream", "loop_time", "stream_pair")

_CAPACITY = 65_536  # bytes; a common size of a kernel's socket buffer


def stream_pair(
    *,
    name: str = "stream",
    capacity: int = _CAPACITY,
    chunk_sizes: Sequence[int] = (),
    close_delay: float = 0.0,
    close_hangs: bool = False,
    attributes: Mapping[Any, object] | None = None,
    ledger: StreamLedger | None = None,
) -> tuple[MemoryStream, MemoryStream]:
    """Return two connected streams, near and far; what one sends the other receives.

    Whoever is handed an end closes it. The near end is the one for the code under test: its closing can be
    scripted, and it carries the typed attributes.

    Args:
        name: The near end's name, for errors; the far one is called ``<name>'s peer``.
        capacity: Bytes that one direction holds before `send` waits.
        chunk_sizes: How many bytes successive calls of `receive` return at most, in turn and over again:
            ``[1]`` cuts at every byte. Empty for no limit but the caller's.
        close_delay: Seconds that the near end's `aclose` takes, unless it is cancelled.
        close_hangs: The near end's `aclose` never ends, unless it is cancelled.
        attributes: Typed attributes of the near end, each with its value.
        ledger: Where to enter both ends.

    Raises:
        ValueError: A size or delay is not a number that could be kept.

    Example:
        >>> from racer.testing import run_virtual
        >>> async def talk() -> bytes:
        ...     near, far = stream_pair()
        ...     async with near, far:
        ...         await near.send(b"ping")
        ...         return await far.receive()
        >>> run_virtual(talk)
        b'ping'
    """
    if capacity < 1:
        raise ValueError(f"capacity must be at least 1 byte, not {capacity!r}")
    if any(size < 1 for size in chunk_sizes):
        raise ValueError(f"chunk_sizes must be at least 1 byte each, not {list(chunk_sizes)!r}")
    if not 0 <= close_delay < math.inf:
        raise ValueError(f"close_delay must be 0 or more finite seconds, not {close_delay!r}")
    there, back = _Pipe(capacity, chunk_sizes), _Pipe(capacity, chunk_sizes)
    near = MemoryStream(name, receives=back, sends=there, attributes=attributes or {})
    near.close_delay = math.inf if close_hangs else close_delay
    far = MemoryStream(f"{name}'s peer", receives=there, sends=back, attributes={})
    if ledger is not None:
        ledger.add(near)
        ledger.add(far)
    return near, far


class MemoryStream(ByteStream):
    """One end of a `stream_pair`.

    It raises what anyio's socket streams raise: `ClosedResourceError` after, or during, one's own
    `aclose`; `BrokenResourceError` when the peer has gone; `BusyResourceError` when two tasks send, or two
    receive, at once; `EndOfStream` after the peer's `send_eof` or `aclose`, once all its bytes are read. An
    end that was closed by force *resets*: its peer loses what it had not read.

    Attributes:
        name: For errors and ledgers.
        made_at: When it was made, on the event loop's clock; None outside a loop.
        closed: Whether its resources are free.
        closed_at: When they became so; None while open, and when freed outside a loop.
        closed_by_force: Whether `abort`, or the cancellation of `aclose`, freed them.
        close_delay: Seconds that `aclose` takes, unless it is cancelled; may be infinite.
    """

    def __init__(
        self, name: str, *, receives: _Pipe, sends: _Pipe, attributes: Mapping[Any, object]
    ) -> None:
        """Use `stream_pair`, which makes both ends."""
        self.name = name
        self.made_at = loop_time()
        self.closed = False
        self.closed_at: float | None = None
        self.closed_by_force = False
        self.close_delay = 0.0
        self._inbound = receives
        self._outbound = sends
        self._attributes = dict(attributes)
        self._closing = False
        self._sent_eof = False
        self._receive_guard = anyio.ResourceGuard("reading from")
        self._send_guard = anyio.ResourceGuard("writing to")

    def __repr__(self) -> str:
        """Return its name and state."""
        state = "open"
        if self.closed:
            state = "closed by force" if self.closed_by_force else "closed"
        elif self._closing:
            state = "closing"
        return f"<MemoryStream {self.name!r} {state}>"

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """The typed attributes, as anyio reads them."""
        return {key: partial(self._attributes.__getitem__, key) for key in self._attributes}

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        """Return the next bytes from the peer: at least one, at most `max_bytes`."""
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be at least 1, not {max_bytes!r}")
        with self._receive_guard:
            await anyio.lowlevel.checkpoint()
            while True:
                self._check_open()
                if self._inbound.broken:
                    raise anyio.BrokenResourceError
                if self._inbound.buffer:
                    return self._inbound.take(max_bytes)
                if self._inbound.ended:
                    raise anyio.EndOfStream
                await self._inbound.change()

    async def send(self, item: bytes) -> None:
        """Send all bytes, waiting for the peer while it does not read.

        A cancelled call may have sent a part.
        """
        left = memoryview(item)
        with self._send_guard:
            await anyio.lowlevel.checkpoint()
            while True:
                self._check_open()
                if self._sent_eof:
                    raise anyio.ClosedResourceError
                if self._outbound.broken or self._outbound.abandoned:
                    raise anyio.BrokenResourceError
                left = left[self._outbound.put(left) :]
                if not left:
                    return
                await self._outbound.change()

    async def send_eof(self) -> None:
        """End one's own direction; the other goes on. Calling it again does nothing."""
        with self._send_guard:
            await anyio.lowlevel.checkpoint()
            self._check_open()
            self._sent_eof = True
            self._outbound.end()

    async def aclose(self) -> None:
        """Close both directions; a cancelled call closes them by force."""
        if self.closed:
            await anyio.lowlevel.checkpoint()
            return
        self._closing = True
        self._wake_both()
        try:
            await anyio.sleep(self.close_delay)
        except BaseException:
            self.abort()
            raise
        self._free(by_force=False)

    def abort(self) -> None:
        """Reset the connection at once: the peer's `receive` and `send` raise `BrokenResourceError`."""
        self._free(by_force=True)

    def _free(self, *, by_force: bool) -> None:
        if self.closed:
            return
        self.closed = True
        self.closed_at = loop_time()
        self.closed_by_force = by_force
        self._inbound.abandon()
        if by_force:
            self._outbound.break_off()
        else:
            self._outbound.end()
        self._wake_both()

    def _check_open(self) -> None:
        if self._closing or self.closed:
            raise anyio.ClosedResourceError

    def _wake_both(self) -> None:
        self._inbound.wake()
        self._outbound.wake()


class _Pipe:
    """One direction: bytes on their way, and what either side has done to it."""

    def __init__(self, capacity: int, chunk_sizes: Sequence[int]) -> None:
        self.buffer = bytearray()
        self.ended = False  # the sender will send no more
        self.abandoned = False  # the receiver has gone
        self.broken = False  # the sender reset it
        self._capacity = capacity
        self._chunk_sizes: Iterator[int] = itertools.cycle(chunk_sizes or [capacity])
        self._changed = anyio.Event()

    def put(self, data: memoryview) -> int:
        """Take in what there is room for; return how many bytes that was."""
        room = self._capacity - len(self.buffer)
        part = data[:room]
        self.buffer += part
        if part:
            self.wake()
        return len(part)

    def take(self, limit: int) -> bytes:
        size = min(limit, next(self._chunk_sizes))
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        self.wake()
        return data

    def end(self) -> None:
        self.ended = True
        self.wake()

    def abandon(self) -> None:
        self.abandoned = True
        self.buffer.clear()
        self.wake()

    def break_off(self) -> None:
        self.broken = True
        self.buffer.clear()
        self.wake()

    def wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def change(self) -> None:
        await self._changed.wait()


def loop_time() -> float | None:
    """Return the event loop's time, or None where none runs, as in a finalizer."""
    try:
        return anyio.current_time()
    except RuntimeError:
        return None
