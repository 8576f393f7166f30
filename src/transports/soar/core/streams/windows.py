"""How much a receiver lets its peer send (SPEC 10.3; RFC 9000 section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from racer.errors import LocalProtocolError, RemoteProtocolError

__all__ = ("EARLY_WINDOW", "FlowControlExceeded", "Limits", "ReceiveWindow")

KILO: Final = 1024

EARLY_WINDOW: Final = 16 * KILO
"""Octets that a client sends before the server has said how many it takes."""


class FlowControlExceeded(RemoteProtocolError):
    """A peer sent more than it was allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a session may hold, in octets and streams; the server's go into `msg2` (SPEC 7.6).

    Attributes:
        stream_window: what a stream's receiver takes at first before its reader reads.
        session_window: the same for all streams together.
        most_stream_window: what a stream's window may grow to.
        most_session_window: what the session's may grow to, and the most that ever waits for readers.
        max_streams: streams at once.
    """

    stream_window: int = 256 * KILO
    session_window: int = 1024 * KILO
    most_stream_window: int = 4096 * KILO
    most_session_window: int = 8192 * KILO
    max_streams: int = 128

    def __post_init__(self) -> None:
        """Refuse windows that could not work.

        Raises:
            LocalProtocolError: one is below `EARLY_WINDOW`, or more than it may grow to; or no stream is allowed.
        """
        for window, most in (
            (self.stream_window, self.most_stream_window),
            (self.session_window, self.most_session_window),
        ):
            if not EARLY_WINDOW <= window <= most:
                raise LocalProtocolError(
                    f"a window of {window} octets, not {EARLY_WINDOW} to {most}"
                )
        if self.max_streams < 1:
            raise LocalProtocolError(f"max_streams is {self.max_streams}")


class ReceiveWindow:
    """The window of one stream, or of the session: its size, and the limit that the peer was told.

    Attributes:
        size: octets that the peer may be ahead.
        limit: the place up to which it may send.
        arrived: new octets since the last `grow`.
    """

    __slots__ = ("_most", "arrived", "limit", "size")

    def __init__(self, size: int, most: int) -> None:
        self._most = most
        self.size = size
        self.limit = size
        self.arrived = 0

    def advance(self, limit: int, *, waits: bool = False) -> bool:
        """Raise the limit and say so if that is worth a frame: from a quarter of the window on.

        Args:
            limit: the new one; a lower one changes nothing.
            waits: whether the peer waits for any octet more.
        """
        step = limit - self.limit
        if step <= 0 or (step < self.size >> 2 and not waits):
            return False
        self.limit = limit
        return True

    def grow(self, rtt: float, span: float) -> None:
        """Let the window be four times what arrives in a round trip; it never shrinks (SPEC 10.3).

        Args:
            rtt: the round trip in seconds.
            span: seconds since the last call, in which `arrived` octets came.
        """
        wanted = round(4 * self.arrived * rtt / span)
        self.size = min(self._most, max(self.size, wanted))
        self.arrived = 0
