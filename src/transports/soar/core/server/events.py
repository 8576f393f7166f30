"""What a server tells the program around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from transports.soar.core.crypto.notices import EndCode
    from transports.soar.core.server.server_stream import ServerStream
    from transports.soar.core.streams.targets import Target

__all__ = (
    "ServerEvent",
    "SessionEnded",
    "SessionStarted",
    "StreamOpened",
    "StreamOver",
    "StreamReadable",
    "StreamReset",
    "StreamStopped",
    "StreamWritable",
)


class SessionStarted(NamedTuple):
    """A client was welcomed. `grant_id` is that of the grant it showed, or None."""

    sid: bytes
    grant_id: bytes | None


class SessionEnded(NamedTuple):
    """A session is no more. All its streams have ended with it; `code` is UNKNOWN after silence."""

    sid: bytes
    code: EndCode


class StreamOpened(NamedTuple):
    """A client asks for a connection to `target`: answer by `stream.opened()` or `stream.refuse()`.

    Its octets may be there already.
    """

    stream: ServerStream
    target: Target


class StreamReadable(NamedTuple):
    """`stream.read` has octets, or `stream.at_end` became true. Said once until all is read."""

    stream: ServerStream


class StreamWritable(NamedTuple):
    """`stream.room` was 0, and no longer is."""

    stream: ServerStream


class StreamReset(NamedTuple):
    """The client's direction has ended early; before `opened()` this cancels the connect (SPEC 10.2)."""

    stream: ServerStream
    code: int


class StreamStopped(NamedTuple):
    """The client reads no more of `stream`; what is written to it is dropped."""

    stream: ServerStream
    code: int


class StreamOver(NamedTuple):
    """Both directions of `stream` have ended, or its session has; what has come can still be read."""

    stream: ServerStream


ServerEvent: TypeAlias = (
    SessionStarted
    | SessionEnded
    | StreamOpened
    | StreamReadable
    | StreamWritable
    | StreamReset
    | StreamStopped
    | StreamOver
)
