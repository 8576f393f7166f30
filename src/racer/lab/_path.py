"""The path of one connection: a link each way, and behind it, in front of the site, what a censor makes of it."""

from __future__ import annotations

import enum
import math
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
from anyio.abc import ByteStream

from racer.lab._censor import Verdict
from racer.lab._running import sleep_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from racer.lab._censor import Inspector
    from racer.lab._link import Delivery, StreamLink

__all__ = ("End", "Marked", "Path", "Segments")

_CHUNK: Final = 65_536  # bytes read at once
_WINDOW: Final = 2**20  # bytes under way in one direction before the sender has to wait
_FIN_TIMEOUT: Final = (
    60.0  # seconds a half-closed connection that nobody answers is kept, as on Linux
)
_MAX_MARKS: Final = 4096  # sends remembered until their bytes are read


class End(Protocol):
    """One end of a connection that can be reset: a socket, or a stream in memory."""

    async def receive(self, max_bytes: int = ...) -> bytes:
        """Return the next bytes."""

    async def send(self, item: bytes) -> None:
        """Send all bytes."""

    async def send_eof(self) -> None:
        """End this direction."""

    async def aclose(self) -> None:
        """Close both directions."""

    def abort(self) -> None:
        """Reset the connection at once."""


class Segments:
    """Where each of a sender's sends ended, so that who reads a stream can tell them apart again."""

    def __init__(self) -> None:
        """Begin with nothing sent."""
        self._ends: deque[int] = deque(maxlen=_MAX_MARKS)
        self._sent = 0
        self._read = 0

    def note(self, size: int) -> None:
        """Learn that `size` bytes are about to be sent by one call."""
        self._sent += size
        self._ends.append(self._sent)

    def split(self, data: bytes) -> Iterator[bytes]:
        """Yield what was read next, in the pieces in which it was sent."""
        start = self._read
        self._read += len(data)
        cut = start
        while self._ends and self._ends[0] <= self._read:
            end = self._ends.popleft()
            if end > cut:
                yield data[cut - start : end - start]
                cut = end
        if cut < self._read:
            yield data[cut - start :]


class Marked(ByteStream):
    """A stream that notes where each of its sends ends; everything else is the inner stream's.

    Args:
        inner: the stream; belongs to this one.
        segments: where to note it.
    """

    def __init__(self, inner: ByteStream, segments: Segments) -> None:
        """Take the stream over."""
        self.inner = inner
        self._segments = segments

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """The inner stream's."""
        return self.inner.extra_attributes

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        """Return the next bytes."""
        return await self.inner.receive(max_bytes)

    async def send(self, item: bytes) -> None:
        """Send all bytes, as one segment where they are not too many."""
        self._segments.note(len(item))
        await self.inner.send(item)

    async def send_eof(self) -> None:
        """End this direction."""
        await self.inner.send_eof()

    async def aclose(self) -> None:
        """Close both directions."""
        await self.inner.aclose()

    def __repr__(self) -> str:
        """Return the inner stream's."""
        return f"<lab connection {self.inner!r}>"


class _Signal(enum.Enum):
    END = "end"
    RESET = "reset"


class _Wire:
    """What is under way in one direction."""

    def __init__(self, link: StreamLink) -> None:
        self._link = link
        self._queue: deque[Delivery] = deque()
        self._ended = False
        self._reset_at: float | None = None
        self._bytes = 0
        self._changed = anyio.Event()

    def send(self, data: bytes) -> None:
        """Begin to carry bytes."""
        if not self._ended:
            self._queue += self._link.send(data, anyio.current_time())
            self._bytes += len(data)
            self._wake()

    def end(self) -> None:
        """Begin to carry the end of this direction."""
        self.send(b"")
        self._ended = True

    def reset(self) -> None:
        """Begin to carry a reset; whatever it overtakes is lost."""
        self._ended = True
        if self._reset_at is None:
            self._reset_at = self._link.reset_at(anyio.current_time())
            self._wake()

    async def room(self) -> None:
        """Return when more may be sent; a checkpoint only if it has to wait."""
        while self._bytes >= _WINDOW:
            await self._changed.wait()
        now = anyio.current_time()
        if (ready := self._link.ready_at(now)) > now:
            await sleep_until(ready)

    async def due(self) -> tuple[list[bytes], _Signal | None]:
        """Return what has arrived, once something has: segments, and what came behind them."""
        while (at := self._next_at()) is None or at > anyio.current_time():
            with anyio.CancelScope(deadline=math.inf if at is None else at):
                await self._changed.wait()
        now = anyio.current_time()
        segments: list[bytes] = []
        while self._queue and self._queue[0].at <= now:
            if not (data := self._queue.popleft().data):
                return segments, _Signal.END
            segments.append(data)
        if self._reset_at is None or self._reset_at > now:
            return segments, None
        self._reset_at = math.inf  # it comes once
        return segments, _Signal.RESET

    def delivered(self, size: int) -> None:
        """Learn that `size` bytes have been taken by the other end."""
        self._bytes -= size
        self._wake()

    def _next_at(self) -> float | None:
        times = [] if self._reset_at is None else [self._reset_at]
        if self._queue:
            times.append(self._queue[0].at)
        return min(times, default=None)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class Path:
    """Carries one connection between a client and a site until both have ended it, or one has reset it.

    Args:
        client: the end that leads to the client; this path closes it.
        site: the end that leads to the site, likewise.
        up: the link for what the client sends.
        down: the link for what comes back.
        inspector: reads what the client sends, where it comes out of the link; `None` where there is no censor.
        segments: where the client's sends ended, if that is known.
        on_hit: called when the inspector has found something.
    """

    def __init__(
        self,
        client: End,
        site: End,
        *,
        up: StreamLink,
        down: StreamLink,
        inspector: Inspector | None = None,
        segments: Segments | None = None,
        on_hit: Callable[[Inspector], None] = lambda _: None,
    ) -> None:
        """Take both ends over; nothing moves before `run`."""
        self._client = client
        self._site = site
        self._up = _Wire(up)
        self._down = _Wire(down)
        self._inspector = inspector
        self._segments = segments or Segments()
        self._on_hit = on_hit
        self._held: list[bytes] = []
        self._open_directions = 2
        self._silent = False
        self._scope = anyio.CancelScope()

    async def run(self) -> None:
        """Carry it; when this ends, however it ends, both ends are closed."""
        try:
            with self._scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._read, self._client, self._up, self._segments)
                    group.start_soon(self._read, self._site, self._down, Segments())
                    group.start_soon(self._deliver_up)
                    group.start_soon(self._deliver_down)
            await self._client.aclose()
            await self._site.aclose()
        finally:
            self._client.abort()
            self._site.abort()

    def reset(self) -> None:
        """Reset both sides at once."""
        self._client.abort()
        self._site.abort()
        self._scope.cancel()

    def hang(self) -> None:
        """Let nothing through any more, neither way."""
        self._silent = True

    async def _read(self, source: End, wire: _Wire, segments: Segments) -> None:
        try:
            while True:
                data = await source.receive(_CHUNK)
                for piece in segments.split(data):
                    wire.send(piece)
                await wire.room()
        except anyio.EndOfStream:
            wire.end()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            wire.reset()

    async def _deliver_up(self) -> None:
        while True:
            segments, signal = await self._up.due()
            data = self._inspected(segments, is_last=signal is _Signal.END)
            if self._silent:
                await self._outlast(signal)
            else:
                await self._hand_over(data, signal, self._site, back=self._down)
            self._up.delivered(sum(map(len, segments)))

    async def _deliver_down(self) -> None:
        while True:
            segments, signal = await self._down.due()
            if not self._silent:
                data = b"".join(segments)
                await self._hand_over(data, signal, self._client, back=self._up)
            self._down.delivered(sum(map(len, segments)))

    async def _hand_over(
        self, data: bytes, signal: _Signal | None, sink: End, *, back: _Wire
    ) -> None:
        try:
            if data:
                await sink.send(data)
            if signal is _Signal.END:
                await sink.send_eof()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            back.reset()  # what TCP answers to bytes for who has gone
            return
        if signal is _Signal.RESET:
            self.reset()
        elif signal is _Signal.END:
            self._open_directions -= 1
            if not self._open_directions:
                self._scope.cancel()

    async def _outlast(self, signal: _Signal | None) -> None:
        """Be silent until the client has given up: nobody answers its end, but its system will not wait for ever."""
        if signal is _Signal.END:
            await anyio.sleep(_FIN_TIMEOUT)
        if signal is not None:
            self.reset()

    def _inspected(self, segments: list[bytes], *, is_last: bool) -> bytes:
        """Return what the censor lets through of what has arrived, and was held back."""
        if self._inspector is None:
            return b"".join(segments)
        passed: list[bytes] = []
        for segment in segments:
            self._held.append(segment)
            verdict = self._inspector.inspect(segment)
            if verdict is Verdict.PASS:
                passed += self._held
                self._held.clear()
            elif verdict is not Verdict.WAIT:
                self._punish(verdict, self._inspector)
                break
        if is_last:
            passed += self._held
            self._held.clear()
        return b"".join(passed)

    def _punish(self, verdict: Verdict, inspector: Inspector) -> None:
        self._held.clear()
        self._on_hit(inspector)
        if verdict is Verdict.HANG:
            self.hang()
        else:
            self._site.abort()
            self._down.reset()
