"""A stream as the program that dialed holds it, whatever session carries it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from racer.errors import LocalProtocolError
from transports.soar.core.client.events import (
    StreamReadable,
    StreamReset,
    StreamStopped,
    StreamWritable,
)
from transports.soar.core.streams import events as told
from transports.soar.core.streams.frames import ResetCode

if TYPE_CHECKING:
    from transports.soar.core.client.dial import Dial
    from transports.soar.core.client.reasons import EndReason
    from transports.soar.core.client.session import Session
    from transports.soar.core.streams.table import StreamTable

__all__ = ("MOST_BEFORE_OPEN", "ClientStream")

MOST_BEFORE_OPEN: Final = 64 * 1024
"""Octets that may be written before the target is connected: they are kept, so that a dial can be repaired."""


class ClientStream:
    """One stream to a target.

    What is written before the target is connected is kept until then. All methods may be called at any time; on a
    stream that has failed they do nothing.

    Attributes:
        dial: whose stream this is.
        is_connected: whether the target is connected.
        failure: why the stream is over, if its session was; `None` otherwise.
    """

    __slots__ = (
        "_before",
        "_finished",
        "_held",
        "_number",
        "_session",
        "_table",
        "dial",
        "failure",
        "is_connected",
    )

    def __init__(self, dial: Dial) -> None:
        self.dial = dial
        self.is_connected = False
        self.failure: EndReason | None = None
        self._session: Session | None = None
        self._table: StreamTable | None = None  # what has come can be read after the session's end
        self._number = -1
        self._before = bytearray()
        self._held = False
        self._finished = False

    # --- the program's side -----------------------------------------------------------------

    def room(self) -> int:
        """Return how many octets `write` takes now. After 0, `StreamWritable` or `DialOpened` says when there is room."""
        session = self._session
        if session is None or self._finished:
            return 0
        if not self.is_connected:
            return MOST_BEFORE_OPEN - len(self._before)
        return session.table.room(self._number)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take octets to send, at most `room()`.

        Raises:
            LocalProtocolError: more than there is room for, or after `finish()`.
        """
        session = self._session
        if session is None:
            return
        if self._finished:
            msg = "a stream was written to after its end"
            raise LocalProtocolError(msg)
        if not self.is_connected:
            if len(data) > MOST_BEFORE_OPEN - len(self._before):
                msg = f"{len(data)} octets before the target is connected are more than there is room for"
                raise LocalProtocolError(msg)
            self._before += data
            if self._held:
                return
        session.table.write(self._number, data)

    def finish(self) -> None:
        """End this direction behind what was written."""
        self._finished = True
        if self._session is not None and not self._held:
            self._session.table.finish(self._number)

    def reset(self, code: int = ResetCode.CANCELLED) -> None:
        """End both directions at once, and forget the stream."""
        session = self._session
        if session is None:
            return
        session.table.reset(self._number, code)
        session.table.stop(self._number, code)
        session.intake.forget(self._number)
        self._session = self._table = None

    def close(self) -> None:
        """Read no more and write no more; what was written is still delivered, and the stream forgotten."""
        session = self._session
        if session is None:
            return
        if self._held:
            self.reset()  # nothing of it was given to the session
            return
        session.table.finish(self._number)
        session.table.stop(self._number, ResetCode.CLOSED)
        session.intake.forget(self._number)
        self._session = self._table = None

    def read(self, most: int) -> bytes:
        """Return the next octets, at most `most`; `b""` if there are none now."""
        return b"" if self._table is None else self._table.read(self._number, most)

    def at_end(self) -> bool:
        """Return whether all was read and the target has ended its direction."""
        return self._table is not None and self._table.at_end(self._number)

    # --- the client's side ------------------------------------------------------------------

    def bind(self, session: Session, number: int, *, hold: bool) -> None:
        """Let `session` carry the stream, with what was written so far.

        Args:
            session: it has the stream open.
            number: the stream's there.
            hold: whether to give it nothing but the target until its handshake is over.
        """
        self._session = session
        self._table = session.table
        self._number = number
        self._held = hold
        session.intake.streams[number] = self
        if not hold:
            self._pour()

    def unbind(self) -> float | None:
        """Part from a session that is over; return when an octet was first sent through it, if one was."""
        session = self._session
        assert session is not None, "it is parted from once"
        session.intake.forget(self._number)
        self._session = None
        return session.packets.first_sent.get(self._number)

    @property
    def number(self) -> int:
        """The stream's number in its session."""
        return self._number

    def release(self) -> None:
        """Give the session what was held back."""
        if self._held:
            self._held = False
            self._pour()

    def fail(self, reason: EndReason) -> None:
        """Be over, both ways: the session is. What has come before can still be read."""
        self.failure = reason
        self._session = None

    def take(self, event: told.StreamEvent) -> None:
        """Take an event of the session's table."""
        emit = self.dial.emit
        match event:
            case told.StreamConnected():
                self._connect()
            case told.StreamRefused():
                self.dial.refused(event.reason)
            case told.StreamReadable():
                emit(StreamReadable(stream=self))
            case told.StreamWritable():
                emit(StreamWritable(stream=self))
            case told.StreamReset():
                if self.is_connected:
                    emit(StreamReset(stream=self, code=event.code))
                else:
                    self.dial.reset_early(event.code)
            case told.StreamStopped():
                emit(StreamStopped(stream=self, code=event.code))
            case _:
                pass  # it is over when the program has read its end

    def _connect(self) -> None:
        session = self._session
        assert session is not None, "a session tells its own streams"
        self.is_connected = True
        self._before.clear()
        session.intake.connected += 1
        self.dial.opened()

    def _pour(self) -> None:
        session = self._session
        assert session is not None, "a bound stream has a session"
        if self._before:
            session.table.write(self._number, bytes(self._before))
        if self._finished:
            session.table.finish(self._number)
