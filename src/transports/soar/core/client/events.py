"""What a client tells the program that drives it.

Named tuples: a dozen dataclasses would take longer to make than a session on a near server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

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


class DialOpened(NamedTuple):
    """The target is connected: `dial.stream` is the caller's."""

    dial: Dial


class DialFailed(NamedTuple):
    """The dial is over without a stream."""

    dial: Dial
    error: EndReason


class DialRepaired(NamedTuple):
    """The dial's session ended, and another carries it on (SPEC 16).

    Attributes:
        dial: goes on.
        reason: why the session ended.
        proven: whether the target certainly got nothing by then.
    """

    dial: Dial
    reason: EndReason
    proven: bool


class StreamReadable(NamedTuple):
    """Octets, or the end, can be read."""

    stream: ClientStream


class StreamWritable(NamedTuple):
    """There is room again, after there was none."""

    stream: ClientStream


class StreamReset(NamedTuple):
    """The server ended its direction early, with a code of SPEC 10.2."""

    stream: ClientStream
    code: int


class StreamStopped(NamedTuple):
    """The server takes no more of this direction."""

    stream: ClientStream
    code: int


class StreamFailed(NamedTuple):
    """The session of an open stream is over, and so is the stream, both ways."""

    stream: ClientStream
    error: EndReason


class SessionChanged(NamedTuple):
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


class HandshakeStarted(NamedTuple):
    """A first message was made.

    Attributes:
        session: its number at this client.
        is_retry: whether a RETRY asked for it.
    """

    session: int
    is_retry: bool


class HandshakeEnded(NamedTuple):
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


class QuestionsLost(NamedTuple):
    """Questions were taken as lost.

    Attributes:
        path: on which.
        lost: how many, at this moment.
    """

    path: int
    lost: int


class WarmFailed(NamedTuple):
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
