"""The streams of one session, between its packets and the program around the server (SPEC 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from transports.soar.core.crypto.notices import EndCode
from transports.soar.core.server.events import (
    ServerEvent,
    StreamOpened,
    StreamOver,
    StreamReadable,
    StreamReset,
    StreamStopped,
    StreamWritable,
)
from transports.soar.core.server.server_stream import ServerStream
from transports.soar.core.streams import events as table_events
from transports.soar.core.streams.frames import RefusalReason, ResetCode
from transports.soar.core.streams.send_buffer import MAX_WAITING
from transports.soar.core.streams.table import StreamTable

if TYPE_CHECKING:
    from transports.soar.core.instants import Instant
    from transports.soar.core.server.credentials import IssuedGrant
    from transports.soar.core.streams.events import StreamEvent
    from transports.soar.core.streams.targets import Target
    from transports.soar.core.streams.windows import Limits

__all__ = ("SessionStreams", "StreamHost")

MAX_SENDING: Final = 2 << 20  # octets of a session that were written and are not yet acknowledged
_STREAM_OCTETS: Final = 1_400  # that one takes, empty
SCARCE_WAITING: Final = 32 << 10  # octets of a stream that may wait while memory is short


class StreamHost(Protocol):
    """What streams need of their server."""

    @property
    def is_short(self) -> bool:
        """Whether memory is short."""

    def emit(self, event: ServerEvent) -> None:
        """Tell the program around the server."""

    def wake(self, sid: bytes) -> None:
        """Note that a session may have something to say."""


class SessionStreams:
    """A session's streams: frames below, handles and events above.

    Attributes:
        sid: the session's name.
        table: the streams themselves.
        grant: what the client showed, or None; the target of every stream has to be one that it allows.
        is_over: whether the session has ended.
    """

    __slots__ = ("_handles", "_host", "_starved", "grant", "is_over", "sid", "table")

    def __init__(
        self, host: StreamHost, sid: bytes, *, limits: Limits, grant: IssuedGrant | None
    ) -> None:
        """Begin with none."""
        self._host = host
        self._handles: dict[int, ServerStream] = {}
        self._starved: set[int] = set()
        self.sid = sid
        self.grant = grant
        self.table = StreamTable(client=False, limits=limits)
        self.is_over = False

    def __len__(self) -> int:
        """Return how many the program holds."""
        return len(self._handles)

    @property
    def last_stream(self) -> int | None:
        """The highest stream of which anything came, or None."""
        last = self.table.last_stream
        return None if last < 0 else last

    @property
    def octets(self) -> int:
        """How much they hold in memory, about."""
        table = self.table
        return table.waiting + table.sending + _STREAM_OCTETS * table.live

    # --- the session --------------------------------------------------------------------------

    def settle(self, now: Instant) -> EndCode | None:
        """Tell the program what frames have brought about; return why the session must end now, if it must."""
        events = self.table.events
        while events:
            event = events.popleft()
            if isinstance(event, table_events.StreamOpened):
                if self.grant is not None and self.grant.has_expired(now.wall):
                    return EndCode.EXPIRED
                self._open(event.stream, event.target)
            else:
                self._tell(event)
        return None

    def tell(self) -> None:
        """Tell the program what else has come about; a stream opens only when a frame comes."""
        events = self.table.events
        while events:
            self._tell(events.popleft())

    def end(self) -> None:
        """Tell the program that all streams are over with their session."""
        self.is_over = True
        self.tell()
        handles, self._handles = self._handles, {}
        for stream in handles.values():
            self._host.emit(StreamOver(stream))

    def _open(self, number: int, target: Target) -> None:
        if self.grant is not None and not self.grant.allows(target):
            self.table.refuse(number, RefusalReason.GRANT)
            return
        stream = self._handles[number] = ServerStream(self, number, target)
        self._host.emit(StreamOpened(stream, target))

    def _tell(self, event: StreamEvent) -> None:
        stream = self._handles.get(event.stream)
        if stream is None:  # refused here, so nobody knows it
            return
        match event:
            case table_events.StreamReadable():
                self._host.emit(StreamReadable(stream))
            case table_events.StreamWritable():
                self._starved.add(event.stream)
            case table_events.StreamReset(_, code):
                self._host.emit(StreamReset(stream, code))
            case table_events.StreamStopped(_, code):
                self._host.emit(StreamStopped(stream, code))
            case table_events.StreamOver():
                del self._handles[event.stream]
                self._starved.discard(event.stream)
                self._host.emit(StreamOver(stream))
            case _:  # a client's, or `StreamOpened`, which `settle` takes
                pass

    def feed(self) -> None:
        """Say of streams without room that they have some again, once it is worth a read.

        Half of what may wait still does then, so this need not be asked after every packet.
        """
        for number in list(self._starved):
            if self._room(number) >= self._most_waiting() // 2:
                self._starved.discard(number)
                self._host.emit(StreamWritable(self._handles[number]))

    # --- the program --------------------------------------------------------------------------

    def opened(self, number: int) -> None:
        """See `ServerStream.opened`."""
        if not self.is_over:
            self.table.opened(number)
            self._touch()

    def refuse(self, number: int, reason: RefusalReason) -> None:
        """See `ServerStream.refuse`."""
        if not self.is_over:
            self.table.refuse(number, reason)
            self._touch()

    def read(self, number: int, most: int) -> bytes:
        """See `ServerStream.read`."""
        data = self.table.read(number, most)
        self._touch()
        return data

    def at_end(self, number: int) -> bool:
        """See `ServerStream.at_end`."""
        return self.table.at_end(number) or (self.is_over and not self.table.readable(number))

    def is_cut(self, number: int) -> bool:
        """See `ServerStream.is_cut`."""
        return self.is_over and not self.table.has_all(number)

    def room(self, number: int) -> int:
        """See `ServerStream.room`."""
        if self.is_over:
            return 0
        room = self._room(number)
        if room == 0 and number in self._handles:
            self._starved.add(number)
        return room

    def write(self, number: int, data: bytes) -> None:
        """See `ServerStream.write`."""
        if not self.is_over:
            self.table.write(number, data)
            self._touch()

    def finish(self, number: int) -> None:
        """See `ServerStream.finish`."""
        if not self.is_over:
            self.table.finish(number)
            self._touch()

    def reset(self, number: int, code: ResetCode) -> None:
        """See `ServerStream.reset`."""
        if not self.is_over:
            self.table.reset(number, code)
            self.table.stop(number, code)
            self._touch()

    def stop(self, number: int, code: ResetCode) -> None:
        """See `ServerStream.stop`."""
        if not self.is_over:
            self.table.stop(number, code)
            self._touch()

    def _most_waiting(self) -> int:
        return SCARCE_WAITING if self._host.is_short else MAX_WAITING

    def _room(self, number: int) -> int:
        """Return what a stream may be given: the least of its own room, the session's and that of all memory."""
        room = self.table.room(number)
        if not room:
            return 0
        room -= MAX_WAITING - self._most_waiting()
        return max(0, min(room, MAX_SENDING - self.table.sending))

    def _touch(self) -> None:
        self.tell()
        self.feed()
        self._host.wake(self.sid)
