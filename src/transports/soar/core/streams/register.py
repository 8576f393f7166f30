"""Which streams there are, were, and may be: numbers in the order of opening (SPEC 10.1, 10.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from racer.errors import LocalProtocolError, RemoteProtocolError
from transports.soar.core.streams.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from transports.soar.core.streams.windows import ReceiveWindow

__all__ = (
    "MAX_AHEAD",
    "MAX_LINGERING",
    "MAX_STREAM",
    "Register",
    "StreamLimitExceeded",
    "StreamUnknown",
)

MAX_STREAM: Final = (1 << 30) - 1
"""The highest number: with it any frame about a stream still fits the smallest packet."""

MAX_LINGERING: Final = 4096
"""Streams that a server keeps beyond those at once: refused, or ended and not yet acknowledged."""

MAX_AHEAD: Final = 1024
"""Streams that a server has not seen yet, though it has seen a later one. Packets overtake each other."""


class StreamUnknown(RemoteProtocolError):
    """A server spoke of a stream that its client never opened."""


class StreamLimitExceeded(RemoteProtocolError):
    """A client opened more streams than any limit explains."""


class Register:
    """The streams of a session that are not forgotten, by number.

    Numbers are given in order, so those that are over need no memory: they are all that are below the next one, and
    neither kept nor unseen.

    Args:
        client: whether this side opens streams, rather than its peer.
        max_streams: how many at once.
        send_limit: octets that the peer takes of a new stream.
        new_window: makes what this side takes of it.

    Attributes:
        streams: those that are kept.
        next: all numbers before it were opened here, or are kept, over or unseen.
        live: how many streams are not over.
    """

    __slots__ = (
        "_counted",
        "_is_client",
        "_new_window",
        "_unseen",
        "live",
        "max_streams",
        "next",
        "send_limit",
        "streams",
    )

    def __init__(
        self,
        streams: dict[int, Stream],
        *,
        client: bool,
        max_streams: int,
        send_limit: int,
        new_window: Callable[[], ReceiveWindow],
    ) -> None:
        self._is_client = client
        self._new_window = new_window
        self._unseen: set[int] = set()
        self._counted = 0
        self.streams = streams
        self.max_streams = max_streams
        self.send_limit = send_limit
        self.next = 0
        self.live = 0

    @property
    def has_place(self) -> bool:
        """Whether one more stream is within those at once."""
        return self._counted < self.max_streams and self.next <= MAX_STREAM

    def create(self) -> Stream:
        """Return a new stream of this side's, under the next number."""
        self.next += 1
        return self._add(self.next - 1)

    def get(self, number: int) -> Stream | None:
        """Return a stream by the number that the application has; `None` if it is over.

        Raises:
            LocalProtocolError: there never was one.
        """
        stream = self.streams.get(number)
        if stream is None and not 0 <= number < self.next:
            raise LocalProtocolError(f"there is no stream {number}")
        return stream

    def find(self, number: int) -> Stream | None:
        """Return a stream by the number that the peer sent; `None` if it is over, or not seen before.

        Raises:
            StreamUnknown: this client never opened it.
        """
        stream = self.streams.get(number)
        if stream is None and number >= self.next and self._is_client:
            raise StreamUnknown(f"a server spoke of stream {number}, and {self.next} were opened")
        return stream

    def take(self, number: int) -> Stream | None:
        """Return a stream that a client opened just now, as its first frame is here; `None` if it is over.

        Raises:
            StreamLimitExceeded: there are too many, or this one is too far ahead of the others.
        """
        if number >= self.next:
            if number - self.next + len(self._unseen) > MAX_AHEAD or number > MAX_STREAM:
                raise StreamLimitExceeded(f"stream {number} came after stream {self.next - 1}")
            self._unseen.update(range(self.next, number))
            self.next = number + 1
        elif number in self._unseen:
            self._unseen.remove(number)
        else:
            return None
        if len(self.streams) >= self.max_streams + MAX_LINGERING:
            raise StreamLimitExceeded(f"{len(self.streams)} streams have not ended")
        return self._add(number)

    def uncount(self, stream: Stream) -> None:
        """Count a stream no more toward those at once."""
        if stream.counted:
            stream.counted = False
            self._counted -= 1

    def end(self, stream: Stream) -> None:
        """Note that a stream is over."""
        stream.over = True
        self.live -= 1
        self.uncount(stream)

    def _add(self, number: int) -> Stream:
        stream = Stream(number, send_limit=self.send_limit, window=self._new_window())
        self.streams[number] = stream
        stream.counted = True
        self._counted += 1
        self.live += 1
        return stream
