"""What a client tells the program that drives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from transports.soar.core.client.dial import Dial
    from transports.soar.core.client.reasons import EndReason
    from transports.soar.core.client.states import SessionState
    from transports.soar.core.client.stream import ClientStream

__all__ = (
    "ClientEvent",
    "DialFailed",
    "DialOpened",
    "DialRepaired",
    "HandshakeEnded",
    "HandshakeStarted",
    "QuestionsLost",
    "SessionChanged",
    "StreamFailed",
    "StreamReadable",
    "StreamReset",
    "StreamStopped",
    "StreamWritable",
    "WarmFailed",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DialOpened:
    """The target is connected: `dial.stream` is the caller's."""

    dial: Dial


@dataclass(frozen=True, slots=True, kw_only=True)
class DialFailed:
    """The dial is over without a stream."""

    dial: Dial
    error: EndReason


@dataclass(frozen=True, slots=True, kw_only=True)
class DialRepaired:
    """The dial's session ended, and another carries it on (SPEC 16).

    Attributes:
        dial: goes on.
        reason: why the session ended.
        proven: whether the target certainly got nothing by then.
    """

    dial: Dial
    reason: EndReason
    proven: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReadable:
    """Octets, or the end, can be read."""

    stream: ClientStream


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWritable:
    """There is room again, after there was none."""

    stream: ClientStream


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReset:
    """The server ended its direction early, with a code of SPEC 10.2."""

    stream: ClientStream
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStopped:
    """The server takes no more of this direction."""

    stream: ClientStream
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFailed:
    """The session of an open stream is over, and so is the stream, both ways."""

    stream: ClientStream
    error: EndReason


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChanged:
    """A session went from one state to another.

    Attributes:
        session: its number at this client.
        before: state.
        after: state.
        reason: why, in words.
    """

    session: int
    before: SessionState
    after: SessionState
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeStarted:
    """A first message was made.

    Attributes:
        session: its number at this client.
        is_retry: whether a RETRY asked for it.
    """

    session: int
    is_retry: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeEnded:
    """The handshake is over.

    Attributes:
        session: its number at this client.
        seconds: awake time since it began.
        waves: how often the first message was sent.
        form: in which the answer came; empty if none did.
        path: on which; -1 if none did.
        error: `None` for a welcome.
    """

    session: int
    seconds: float
    waves: int
    form: str
    path: int
    error: EndReason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionsLost:
    """Questions were taken as lost.

    Attributes:
        path: on which.
        count: how many, at this moment.
    """

    path: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmFailed:
    """Nothing is confirmed, and making a warm session failed: said after the first failure (S14)."""

    error: EndReason


ClientEvent: TypeAlias = (
    DialOpened
    | DialFailed
    | DialRepaired
    | StreamReadable
    | StreamWritable
    | StreamReset
    | StreamStopped
    | StreamFailed
    | SessionChanged
    | HandshakeStarted
    | HandshakeEnded
    | QuestionsLost
    | WarmFailed
)
