"""What a table of streams tells its session."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from transports.soar.core.streams.targets import Target

__all__ = (
    "StreamConnected",
    "StreamEvent",
    "StreamOpened",
    "StreamOver",
    "StreamReadable",
    "StreamRefused",
    "StreamReset",
    "StreamStopped",
    "StreamWritable",
)


class StreamOpened(NamedTuple):
    """A client opened `stream` toward `target` (server)."""

    stream: int
    target: Target


class StreamConnected(NamedTuple):
    """The target of `stream` is connected: OPENED came, or octets that prove it (client)."""

    stream: int


class StreamRefused(NamedTuple):
    """The target of `stream` was not connected; both directions end. `reason` as in REFUSED (client)."""

    stream: int
    reason: int


class StreamReadable(NamedTuple):
    """`read` has octets, or `at_end` became true, where neither was so. Said once until all is read."""

    stream: int


class StreamWritable(NamedTuple):
    """`room` was 0 and now is half of the buffer or more."""

    stream: int


class StreamReset(NamedTuple):
    """The peer ended its direction early; what was not read of it is dropped."""

    stream: int
    code: int


class StreamStopped(NamedTuple):
    """The peer reads no more. This side's direction has been reset; what is written to it is dropped."""

    stream: int
    code: int


class StreamOver(NamedTuple):
    """Both directions have ended, and both sides know; what has come can still be read."""

    stream: int


StreamEvent: TypeAlias = (
    StreamOpened
    | StreamConnected
    | StreamRefused
    | StreamReadable
    | StreamWritable
    | StreamReset
    | StreamStopped
    | StreamOver
)
