"""A stream as the program around a server holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transports.soar.core.server.session_streams import SessionStreams
    from transports.soar.core.streams.frames import RefusalReason, ResetCode
    from transports.soar.core.streams.targets import Target

__all__ = ("ServerStream",)


class ServerStream:
    """One stream of one session: the client's octets come out, the target's go in.

    When the session has ended, or the stream is over, reading gives what had come and everything else does nothing: a
    program learns of the end by an event, and need not hurry.

    Attributes:
        number: its place among the session's streams.
        target: where the client wants it to lead.
    """

    __slots__ = ("_streams", "number", "target")

    def __init__(self, streams: SessionStreams, number: int, target: Target) -> None:
        """Be one of `streams`."""
        self._streams = streams
        self.number = number
        self.target = target

    @property
    def sid(self) -> bytes:
        """The session's name on the wire."""
        return self._streams.sid

    @property
    def at_end(self) -> bool:
        """Whether all that the client sent has been read, and nothing will follow."""
        return self._streams.at_end(self.number)

    @property
    def is_cut(self) -> bool:
        """Whether the session has ended before all had come that the client would have sent."""
        return self._streams.is_cut(self.number)

    @property
    def room(self) -> int:
        """How many octets `write` should be given now; above that, wait for `StreamWritable` (SPEC 10.4)."""
        return self._streams.room(self.number)

    def opened(self) -> None:
        """Tell the client that the target is connected."""
        self._streams.opened(self.number)

    def refuse(self, reason: RefusalReason) -> None:
        """Tell the client that the target won't be connected, and why; the stream is over with that."""
        self._streams.refuse(self.number, reason)

    def read(self, most: int = 1 << 20) -> bytes:
        """Return the next octets from the client, at most `most`; empty if there are none now."""
        return self._streams.read(self.number, most)

    def write(self, data: bytes) -> None:
        """Send octets to the client."""
        self._streams.write(self.number, data)

    def finish(self) -> None:
        """Say that the target has sent all."""
        self._streams.finish(self.number)

    def reset(self, code: ResetCode) -> None:
        """End both directions at once: the target is gone, or is to be left alone."""
        self._streams.reset(self.number, code)

    def stop(self, code: ResetCode) -> None:
        """Say that nothing more of the client's direction will be read."""
        self._streams.stop(self.number, code)
