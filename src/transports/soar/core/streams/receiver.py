"""The receiving side of a session's streams: order, windows, and the ends of directions (SPEC 10.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from transports.soar.core.streams.frames import MaxData, MaxStreamData, Stop, StreamData
from transports.soar.core.streams.receive_buffer import TooManyPieces
from transports.soar.core.streams.windows import FlowControlExceeded, Limits, ReceiveWindow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from transports.soar.core.streams.controls import Controls
    from transports.soar.core.streams.frames import Reset
    from transports.soar.core.streams.stream import Stream

__all__ = ("MAX_ALL_PIECES", "Receiver")

MAX_ALL_PIECES: Final = 8192
"""Pieces of all streams of a session that wait for octets before them: one for every number outstanding (SPEC 8.7)."""


class Receiver:
    """What the peer may send, has sent, and has been read, over all streams.

    The session's limit runs ahead of what was *received*, so that streams which nobody reads block no other, until
    `most_session_window` octets wait. A stream's limit runs ahead of what was *read* of it.

    Args:
        limits: this side's.
        controls: takes the frames that raise limits.
    """

    __slots__ = (
        "_consumed",
        "_controls",
        "_grown",
        "_grown_at",
        "_limits",
        "_pieces",
        "_raise_at",
        "_received",
        "_window",
    )

    def __init__(self, limits: Limits, controls: Controls) -> None:
        self._limits = limits
        self._controls = controls
        self._window = ReceiveWindow(limits.session_window, limits.most_session_window)
        self._received = 0
        self._consumed = 0
        self._pieces = 0
        self._raise_at = 0  # octets received from which on a higher limit is worth a frame
        self._grown = 0  # octets by which windows of streams are wider than at first
        self._grown_at: float | None = None

    @property
    def waiting(self) -> int:
        """How many octets have come, or are missing before ones that came, and were not read."""
        return self._received - self._consumed

    def widen(self, limits: Limits, streams: Iterable[Stream]) -> None:
        """Start all windows as a server has said, which is what it takes for granted (SPEC 10.3)."""
        self._limits = limits
        self._window = ReceiveWindow(limits.session_window, limits.most_session_window)
        for stream in streams:
            stream.window = self.new_window()

    def new_window(self) -> ReceiveWindow:
        """Return the window of a stream that begins."""
        return ReceiveWindow(self._limits.stream_window, self._limits.most_stream_window)

    # --- from the peer ----------------------------------------------------------------------

    def on_data(self, stream: Stream, frame: StreamData) -> None:
        """Take a STREAM frame in.

        Raises:
            FinalSizeChanged: it has octets behind the end, or another end.
            FlowControlExceeded: it has octets behind a limit.
            TooManyPieces: the peer cuts its streams too small.
        """
        _, offset, data, fin = frame
        receive = stream.receive
        stop = offset + len(data)
        if fin or receive.final_size >= 0:
            receive.check(stop, fin=fin)
        if stop > receive.highest:
            self._admit(stream, stop)
        if fin:
            receive.final_size = stop
        consumed = receive.consumed
        pieces = receive.receive(offset, data)
        if pieces:
            self._pieces += pieces
            if self._pieces > MAX_ALL_PIECES:
                raise TooManyPieces(f"the streams of a session wait in {self._pieces} pieces")
        if receive.discards:
            self._consumed += receive.consumed - consumed
        if receive.final_size >= 0 and receive.has_all:
            self._forget_limit(stream)
        if self._received >= self._raise_at:
            self._raise_session()

    def on_reset(self, stream: Stream, frame: Reset) -> bool:
        """Take a RESET in; return whether that changes anything.

        Raises:
            FinalSizeChanged: its final size isn't that of before, or is below what came.
            FlowControlExceeded: its final size is behind a limit.
        """
        receive = stream.receive
        receive.check(frame.final_size, fin=True)
        if frame.final_size > receive.highest:
            self._admit(stream, frame.final_size)
        if receive.has_all:
            return False
        self.end(stream, frame.final_size)
        return True

    def _admit(self, stream: Stream, stop: int) -> None:
        """Count octets up to `stop`, beyond the highest before, against both windows."""
        window, all_windows = stream.window, self._window
        if stop > window.limit:
            raise FlowControlExceeded(
                f"stream {stream.number} goes on to {stop}, its limit is {window.limit}"
            )
        new = stop - stream.receive.highest
        self._received += new
        if self._received > all_windows.limit:
            raise FlowControlExceeded(
                f"{self._received} octets in all, the limit is {all_windows.limit}"
            )
        window.arrived += new
        all_windows.arrived += new

    # --- from the reader --------------------------------------------------------------------

    def read(self, stream: Stream, most: int) -> bytes:
        """Return the stream's next octets, and let the peer send as many more."""
        receive, window = stream.receive, stream.window
        data = receive.read(most)
        self._consumed += len(data)
        if receive.consumed + window.size - window.limit >= window.size >> 2:
            self._raise_stream(stream)
        if self._received >= self._raise_at:
            # With much waiting for readers that stall, all that one has read may be less than a quarter.
            self._raise_session(waits=not receive.data)
        return data

    def discard(self, stream: Stream) -> None:
        """Drop what has come of a stream, and whatever will."""
        receive = stream.receive
        pieces, consumed = receive.pieces, receive.consumed
        receive.discard()
        self._settle(stream, pieces, consumed)

    def end(self, stream: Stream, final_size: int) -> None:
        """Drop what has come of a stream: its direction ends early, at `final_size`, which fits."""
        receive = stream.receive
        pieces, consumed = receive.pieces, receive.consumed
        receive.end_at(final_size)
        self._settle(stream, pieces, consumed)

    def _settle(self, stream: Stream, pieces: int, consumed: int) -> None:
        self._pieces -= pieces
        self._consumed += stream.receive.consumed - consumed
        self._forget_limit(stream)
        self._raise_session(waits=True)

    # --- limits -----------------------------------------------------------------------------

    def grow(self, streams: Iterable[Stream], rtt: float, now: float) -> None:
        """Adapt the windows once in a round trip; call it whenever an answer or a question came.

        Streams together grow by no more than half of what may wait in all, so that grown ones that nobody reads any more
        leave room for others.

        Args:
            streams: those that are not over.
            rtt: the round trip, in seconds.
            now: awake seconds.
        """
        if self._grown_at is None:
            self._grown_at = now
            return
        span = now - self._grown_at
        if span < rtt or span <= 0:
            return
        self._grown_at = now
        self._window.grow(rtt, span)
        for stream in streams:
            window = stream.window
            if window.arrived:
                size = window.size
                window.grow(rtt, span)
                spare = max(0, self._limits.most_session_window // 2 - self._grown)
                window.size = min(window.size, size + spare)
                self._grown += window.size - size
                self._raise_stream(stream)
        self._raise_session()

    def release(self, stream: Stream) -> None:
        """Give back what a stream's window had grown by: the stream is gone."""
        self._grown -= stream.window.size - self._limits.stream_window

    def _raise_stream(self, stream: Stream) -> None:
        receive, window = stream.receive, stream.window
        if receive.final_size >= 0 or stream.stopped:
            return
        if window.advance(receive.consumed + window.size):
            self._controls.queue(MaxStreamData(stream.number, window.limit))

    def _raise_session(self, *, waits: bool = False) -> None:
        window = self._window
        most = self._consumed + self._limits.most_session_window
        limit = min(self._received + window.size, most)
        if window.advance(limit, waits=waits and self._received == window.limit):
            self._controls.queue(MaxData(limit))
        self._raise_at = window.limit - window.size + (window.size >> 2)

    def _forget_limit(self, stream: Stream) -> None:
        """Take back frames that no longer matter to a peer that has ended its direction."""
        if stream.receive.final_size >= 0 or stream.stopped:
            self._controls.drop((MaxStreamData, stream.number))
        if stream.receive.has_all:
            self._controls.drop((Stop, stream.number))
