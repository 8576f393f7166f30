"""What goes into the next packet, and what a packet's fate changes (SPEC 10.5, 9.4)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from transports.soar.core.streams.controls import Control, Controls
from transports.soar.core.streams.events import StreamWritable
from transports.soar.core.streams.stream import SendState
from transports.soar.core.varint import encode, size

if TYPE_CHECKING:
    from transports.soar.core.streams.events import StreamEvent
    from transports.soar.core.streams.stream import Stream

__all__ = ("MAX_KEPT", "Sender", "Sent", "StreamSent")

MAX_KEPT: Final = 8 * 1024 * 1024
"""Octets of a session that may be under way and held for a loss (SPEC 19)."""

_STREAM: Final = 0x08
_OFFSET: Final = 4
_LENGTH: Final = 2
_FIN: Final = 1
_PING: Final = 0x01
_OPEN: Final = SendState.OPEN  # asked for with every answer, and an enumeration is slow
_new: Final = tuple.__new__  # what a named tuple's class does, without its own function in between
_LEAST: Final = 3  # octets of a STREAM frame that says anything: type, stream, and one more


class StreamSent(NamedTuple):
    """What a packet carried of a stream: octets from `start` up to, not with, `stop`; and FIN behind them."""

    stream: int
    start: int
    stop: int
    fin: bool


Sent: TypeAlias = StreamSent | Control
"""One record of what a packet carried. Keep them with the packet's number, and give them back to `acked` or `lost`."""


class Sender:
    """The sending side of a session's streams.

    Args:
        streams: the table's, shared.
        limit: octets over all streams that the peer takes.
        padded: whether packets are filled up with PAD (a client's; SPEC 6.4). If not, a packet's last STREAM frame
            never needs its length.
        events: where it is said that a stream is writable again.

    Attributes:
        controls: all frames but STREAM.
        finished: streams whose FIN went into a packet just now.
        limit: what the peer takes in all.
        sent: octets sent in all, each counted once.
        held: octets written and not settled, over all streams.
    """

    __slots__ = (
        "_due",
        "_events",
        "_fresh",
        "_kept",
        "_lost",
        "_padded",
        "_sendable",
        "_streams",
        "controls",
        "finished",
        "held",
        "limit",
        "sent",
    )

    def __init__(
        self,
        streams: dict[int, Stream],
        *,
        limit: int,
        padded: bool,
        events: deque[StreamEvent],
    ) -> None:
        self._streams = streams
        self._events = events
        self._padded = padded
        self._due: deque[Stream] = deque()
        self._fresh: deque[Stream] = deque()
        self._kept = 0  # octets sent and not settled, over all streams
        self._lost = 0  # octets due again
        self._sendable = 0  # the sum of the streams' own
        self.controls = Controls()
        self.finished: list[Stream] = []
        self.limit = limit
        self.sent = 0
        self.held = 0

    # --- what may be sent -------------------------------------------------------------------

    def write(self, stream: Stream, data: bytes | bytearray | memoryview) -> None:
        """Take octets of a stream in.

        Raises:
            LocalProtocolError: its end was said already.
        """
        stream.send.write(data)
        self.held += len(data)
        self.refresh(stream)

    @property
    def credit(self) -> int:
        """How many octets that were never sent may go now, over all streams."""
        return min(self.limit - self.sent, MAX_KEPT - self._kept)

    def has_queued(self) -> bool:
        """Return whether a packet with room enough would get anything."""
        return bool(self.controls.octets or self._due or (self._fresh and self.credit > 0))

    def queued_octets(self) -> int:
        """Return about how many octets could be sent now, headers of STREAM frames aside; above 0 if any."""
        again = self._lost + len(self._due) + self.controls.octets
        return again + max(0, min(self._sendable, self.credit)) if self._sendable else again

    def refresh(self, stream: Stream) -> None:
        """Look anew at what a stream may send, after a write, an end, or a higher limit."""
        send = stream.send
        sendable = 0
        if stream.send_state is SendState.OPEN:
            sendable = max(0, min(send.end, stream.send_limit) - send.sent)
            if send.fin_due:
                self._enter_due(stream)
        self._sendable += sendable - stream.sendable
        stream.sendable = sendable
        if sendable and not stream.is_fresh:
            stream.is_fresh = True
            self._fresh.append(stream)

    def abandon(self, stream: Stream) -> None:
        """Forget the octets of a stream: its direction ends early."""
        send = stream.send
        self.held -= send.end - send.base
        self._kept -= send.kept
        self._lost -= send.lost.size
        self._sendable -= stream.sendable
        stream.sendable = 0
        send.clear()
        if stream.is_fresh:
            stream.is_fresh = False
            self._fresh.remove(stream)
        self._leave_due(stream)

    # --- a packet ---------------------------------------------------------------------------

    def fill(self, out: bytearray, room: int) -> list[Sent]:
        """Append frames to `out`, at most `room` octets; return the records of what must arrive.

        Frames that are not STREAM go first, then what was lost, then streams in turn. The last STREAM frame may go on
        to the end of the packet, so nothing but the packet's padding may follow.
        """
        records: list[Sent] = []
        if self.controls.octets:
            before = len(out)
            records += self.controls.take(out, room)
            room -= len(out) - before
        if self._due:
            room = self._fill_due(out, room, records)
        if self._fresh:
            self._fill_fresh(out, room, records)
        return records

    def _fill_due(self, out: bytearray, room: int, records: list[Sent]) -> int:
        """Send again what was lost, the oldest of each stream first; return the room that is left."""
        due = self._due
        while due and room >= _LEAST:
            stream = due[0]
            send = stream.send
            lost = send.lost
            # Without lost octets, FIN alone is due, and all octets before it have been sent.
            start, stop = lost.first() if lost else (send.sent, send.sent)
            others = len(due) - 1 + len(self._fresh) + (len(lost) > 1)
            stop, room = self._put(out, room, stream, start, stop, others)
            if stop < 0:
                break
            lost.remove(start, stop)
            self._lost -= stop - start
            fin = stop == send.fin_at
            if fin:
                send.fin_due = False
                self._finish(stream)
            records.append(StreamSent(stream.number, start, stop, fin))
            if not (lost or send.fin_due):
                due.popleft()
                stream.is_due = False
        due.rotate(-1)
        return room

    def _fill_fresh(self, out: bytearray, room: int, records: list[Sent]) -> None:
        """Send what never was, streams in turn."""
        fresh = self._fresh
        credit = min(self.limit - self.sent, MAX_KEPT - self._kept)
        while fresh and credit > 0 and room >= _LEAST:
            stream = fresh[0]
            send = stream.send
            start = send.sent
            octets = min(stream.sendable, credit)
            stop, room = self._put(out, room, stream, start, start + octets, len(fresh) - 1)
            if stop < 0:
                break
            octets = stop - start
            send.sent = stop
            stream.sendable -= octets
            self._sendable -= octets
            self._kept += octets
            self.sent += octets
            credit -= octets
            fin = stop == send.fin_at
            if fin:
                self._finish(stream)
            records.append(_new(StreamSent, (stream.number, start, stop, fin)))
            if stream.sendable:
                fresh.rotate(-1)
            else:
                fresh.popleft()
                stream.is_fresh = False
            if stream.starved and send.waiting <= send.most_waiting // 2:
                stream.starved = False
                self._events.append(StreamWritable(stream.number))

    # --- the same once more -----------------------------------------------------------------

    @property
    def under_way(self) -> int:
        """How many octets were sent and are not settled, over all streams."""
        return self._kept

    def is_open(self, record: Sent) -> bool:
        """Return whether what `record` is of is not known to have arrived, and still matters."""
        if isinstance(record, Control):
            return not record.settled
        stream = self._streams.get(record.stream)
        return (
            stream is not None
            and stream.send_state is _OPEN
            and stream.send.is_open(record.start, record.stop, fin=record.fin)
        )

    def fill_again(self, out: bytearray, room: int, records: list[Sent]) -> list[Sent]:
        """Append what other packets have carried already, in that order, as far as it is open and fits in `room`.

        Args:
            out: a packet that has nothing else to say: while a FIN is due, octets before it would carry it unnoticed.
            room: octets that it still may have.
            records: of what is to be said; what is then left to say stays in it.

        Returns:
            the records of what was said: like those of `fill`.
        """
        said: list[Sent] = []
        while records and room >= _LEAST:
            record = records[0]
            if not self.is_open(record):
                del records[0]
            elif isinstance(record, Control):
                room -= len(record.wire)
                if room < 0:
                    break
                out += record.wire
                said.append(records.pop(0))
            else:
                number, start, stop, fin = record
                stream = self._streams[number]
                start = max(start, min(stream.send.base, stop))
                end, room = self._put(out, room, stream, start, stop, len(records) - 1)
                if end < 0:
                    break
                said.append(StreamSent(number, start, end, end == stream.send.fin_at))
                if end < stop:
                    records[0] = StreamSent(number, end, stop, fin)
                else:
                    del records[0]
        return said

    def _finish(self, stream: Stream) -> None:
        if not stream.send.fin_sent:
            stream.send.fin_sent = True
            self.finished.append(stream)

    def _put(  # noqa: PLR0917 -- by place, as it is called for every packet
        self, out: bytearray, room: int, stream: Stream, start: int, stop: int, others: int
    ) -> tuple[int, int]:
        """Append one STREAM frame with as much of the octets as fits.

        Args:
            out: the packet.
            room: octets that it still may have.
            stream: whose octets.
            start: the first of them.
            stop: past the last of them.
            others: how many other frames wait for what room this one leaves.

        Returns:
            past the last octet that was put, -1 if there is no room for any; and the room that is left, 0 if the frame
            goes on to the end of the packet.
        """
        head = stream.wire_number
        kind = _STREAM
        if start:
            kind |= _OFFSET
            head += encode(start)
        space = room - 1 - len(head)
        spare = space - (stop - start)  # what would be left without a length
        if spare < 0:
            if space <= 0:
                return -1, room
            stop = start + space
            spare = 0
        elif spare == 1 and self._padded:
            # A length of two octets would not fit, and no length would take the padding for an octet of the stream.
            out.append(_PING)
            spare = 0
        if spare and (self._padded or (others and spare > _LEAST)):
            kind |= _LENGTH
            stop = min(stop, start + space - size(stop - start))
            length = encode(stop - start)
            head += length
            left = space - len(length) - (stop - start)
        else:
            left = 0
        send = stream.send
        if stop == send.fin_at:
            kind |= _FIN
        out.append(kind)
        out += head
        base = send.base
        out += send.data[start - base : stop - base]
        return stop, left

    # --- a packet's fate --------------------------------------------------------------------

    def acked(self, record: StreamSent) -> Stream | None:
        """Note that a packet with this record has arrived; return its stream if that ends the direction."""
        number, start, stop, fin = record
        stream = self._streams.get(number)
        if stream is None or stream.send_state is not _OPEN:
            return None
        send = stream.send
        lost = send.lost.size
        settled = send.on_acked(start, stop, fin=fin)
        self._kept -= settled
        self.held -= settled
        if stream.is_due:
            self._lost += send.lost.size - lost
            if not (send.lost or send.fin_due):
                self._leave_due(stream)
        if not send.fin_acked or send.base != send.fin_at:
            return None
        stream.send_state = SendState.OVER
        return stream

    def lost(self, record: StreamSent) -> None:
        """Note that a packet with this record is not known to have arrived; what still matters is sent again."""
        stream = self._streams.get(record.stream)
        if stream is None or stream.send_state is not SendState.OPEN:
            return
        send = stream.send
        lost = send.lost.size
        send.on_lost(record.start, record.stop, fin=record.fin)
        self._lost += send.lost.size - lost
        if send.lost or send.fin_due:
            self._enter_due(stream)

    def _enter_due(self, stream: Stream) -> None:
        if not stream.is_due:
            stream.is_due = True
            self._due.append(stream)

    def _leave_due(self, stream: Stream) -> None:
        if stream.is_due:
            stream.is_due = False
            self._due.remove(stream)
