"""All streams of one session, for either side: the application above, packets below (SPEC 10)."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from racer.errors import LocalProtocolError, RemoteProtocolError
from transports.soar.core.streams.controls import Control
from transports.soar.core.streams.events import (
    StreamConnected,
    StreamOpened,
    StreamOver,
    StreamReadable,
    StreamRefused,
    StreamReset,
    StreamStopped,
)
from transports.soar.core.streams.frames import (
    MaxData,
    MaxStreamData,
    MaxStreams,
    Opened,
    RefusalReason,
    Refused,
    Reset,
    ResetCode,
    Stop,
    StreamData,
)
from transports.soar.core.streams.receiver import Receiver
from transports.soar.core.streams.register import Register
from transports.soar.core.streams.send_buffer import MOST_WAITING
from transports.soar.core.streams.sender import Sender, Sent, StreamSent
from transports.soar.core.streams.stream import SendState
from transports.soar.core.streams.tail import Tail
from transports.soar.core.streams.targets import MAX_TARGET, TargetInvalid, read_target
from transports.soar.core.streams.windows import EARLY_WINDOW, Limits

if TYPE_CHECKING:
    from transports.soar.core.streams.events import StreamEvent
    from transports.soar.core.streams.frames import ControlFrame, Frame
    from transports.soar.core.streams.stream import Stream

__all__ = ("StreamTable",)


class StreamTable:
    """The streams of one session.

    The application opens, writes, reads and ends streams, and takes `events`. The session gives frames to `receive`,
    has packets filled by `fill`, and says of each what became of it, by `acked` or `lost`.

    Of a stream that is over, and read to its end, nothing is kept.

    Args:
        client: whose side this is; a client opens streams, a server takes them.
        limits: what this side lets its peer send. A client's are the server's as soon as `welcome` says them.

    Attributes:
        events: what happened, oldest first; the session takes them out.
    """

    def __init__(self, *, client: bool, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._is_client = client
        self.events: deque[StreamEvent] = deque()
        self._streams: dict[int, Stream] = {}
        self._sender = Sender(
            self._streams,
            limit=EARLY_WINDOW if client else self._limits.session_window,
            padded=client,
            events=self.events,
        )
        self._receiver = Receiver(self._limits, self._sender.controls)
        self._register = Register(
            self._streams,
            client=client,
            max_streams=self._limits.max_streams,
            send_limit=EARLY_WINDOW if client else self._limits.stream_window,
            new_window=self._receiver.new_window,
        )

    # --- the session -------------------------------------------------------------------------

    @property
    def last_stream(self) -> int:
        """The highest stream that was opened here, or seen; -1 for none."""
        return self._register.next - 1

    @property
    def live(self) -> int:
        """How many streams are not over."""
        return self._register.live

    @property
    def kept(self) -> int:
        """How many streams are kept: those not over, and those not read to their end."""
        return len(self._streams)

    @property
    def waiting(self) -> int:
        """How many received octets wait for readers."""
        return self._receiver.waiting

    @property
    def sending(self) -> int:
        """How many octets were written here and are not yet acknowledged."""
        return self._sender.held

    def welcome(self, *, stream_window: int, session_window: int, max_streams: int) -> None:
        """Take over what the server said in `msg2` (SPEC 7.6), in octets; until then a client sends little.

        Both sides' windows start with these values.
        """
        limits = self._limits
        self._limits = limits = replace(
            limits,
            stream_window=max(EARLY_WINDOW, stream_window),
            session_window=max(EARLY_WINDOW, session_window),
            most_stream_window=max(limits.most_stream_window, stream_window),
            most_session_window=max(limits.most_session_window, session_window),
            max_streams=max(1, max_streams),
        )
        self._register.max_streams = max_streams
        self._receiver.widen(limits, self._streams.values())
        self._register.send_limit = limits.stream_window
        self._sender.limit = max(self._sender.limit, limits.session_window)
        for stream in self._streams.values():
            stream.send_limit = max(stream.send_limit, limits.stream_window)
            self._sender.refresh(stream)

    def has_queued(self) -> bool:
        """Return whether `fill` would put anything into a packet with room for it."""
        return self._sender.has_queued()

    def queued_octets(self) -> int:
        """Return about how many octets `fill` could put into packets now; more than 0 if any."""
        return self._sender.queued_octets()

    def queue(self, frame: ControlFrame) -> None:
        """Have any frame but STREAM sent, and sent again until it has arrived.

        A newer MAX_…, LEASE, ZONES or END takes the place of the one before.
        """
        self._sender.controls.queue(frame)

    def fill(self, out: bytearray, room: int) -> list[Sent]:
        """Append frames to `out`, at most `room` octets, and return the records of what must arrive.

        Control frames go first, then what was lost, then streams in turn, a packet each. The last frame may be one that
        goes on to the end of the packet: only the packet's own padding, of zeros, may follow it.
        """
        sender = self._sender
        records = sender.fill(out, room)
        while sender.finished:
            self._settle(sender.finished.pop())
        return records

    def tail(self, most_octets: int) -> Tail:
        """Return what remembers this side's last frames, to say up to `most_octets` of them again; see `Tail`."""
        return Tail(self._sender, most_octets=most_octets)

    def acked(self, records: list[Sent]) -> None:
        """Note that the packet with these records has arrived. Doing it twice, or after `lost`, is right too."""
        sender = self._sender
        for record in records:
            if type(record) is StreamSent:
                stream = sender.acked(record)
                if stream is not None:
                    self._settle(stream)
            elif isinstance(record, Control) and sender.controls.acked(record):
                self._on_control_acked(record.frame)

    def lost(self, records: list[Sent]) -> None:
        """Queue anew what still matters of a packet that may not have arrived, or whose frames are to be repeated."""
        sender = self._sender
        for record in records:
            if type(record) is StreamSent:
                sender.lost(record)
            elif isinstance(record, Control):
                sender.controls.lost(record)

    def grow(self, rtt: float, now: float) -> None:
        """Adapt the receive windows to what arrives (SPEC 10.3); cheap unless a round trip has passed.

        Args:
            rtt: the round trip, in seconds.
            now: awake seconds.
        """
        self._receiver.grow(self._streams.values(), rtt, now)

    # --- the application ---------------------------------------------------------------------

    def can_open(self) -> bool:
        """Return whether the server takes one more stream now."""
        return self._is_client and self._register.has_place

    def open(self, header: bytes) -> int:
        """Return the number of a new stream, whose octets begin with `header`: a target (client).

        Raises:
            LocalProtocolError: `can_open` says no.
        """
        if not self.can_open():
            raise LocalProtocolError("no stream can be opened now, or by this side")
        stream = self._register.create()
        stream.announced = True
        self._sender.write(stream, header)
        return stream.number

    def opened(self, number: int) -> None:
        """Tell the client that the stream's target is connected (server)."""
        stream = self._register.get(number)
        if stream is not None and not stream.connected:
            stream.connected = True
            self.queue(Opened(number))

    def refuse(self, number: int, reason: int) -> None:
        """Tell the client that its target isn't and won't be connected; both directions end (server).

        Raises:
            LocalProtocolError: it was said that the target is connected, or octets or the end were written.
        """
        stream = self._register.get(number)
        if stream is None or stream.send_state is not SendState.OPEN:
            return
        if stream.connected or stream.send.end or stream.send.fin_at >= 0:
            raise LocalProtocolError(f"stream {number} is refused after it was connected")
        self._refuse(stream, reason)

    def room(self, number: int) -> int:
        """Return how many octets `write` takes now. After 0, `StreamWritable` says when there is room again."""
        stream = self._register.get(number)
        if stream is None or stream.send_state is not SendState.OPEN or stream.send.fin_at >= 0:
            return 0
        room = stream.send.most_waiting - stream.send.waiting
        if room <= 0:
            stream.starved = True
            return 0
        return room

    def write(self, number: int, data: bytes | bytearray | memoryview) -> None:
        """Take octets to be sent. They are dropped if the peer has stopped the stream; an event says that.

        Raises:
            LocalProtocolError: there is no such stream, its direction was finished, or `data` is more than `room` was
                since the last `write`: it may have shrunk while a program waited for what it asked for.
        """
        stream = self._register.get(number)
        if stream is None or stream.send_state is not SendState.OPEN:
            return
        if len(data) > MOST_WAITING - stream.send.waiting:
            raise LocalProtocolError(f"{len(data)} octets are more than there is room for")
        self._sender.write(stream, data)

    def finish(self, number: int) -> None:
        """End this side's direction behind what was written. Doing it twice changes nothing."""
        stream = self._register.get(number)
        if stream is not None and stream.send_state is SendState.OPEN and stream.send.fin_at < 0:
            stream.send.finish()
            self._sender.refresh(stream)

    def reset(self, number: int, code: int) -> None:
        """End this side's direction at once; what was not acknowledged may never arrive."""
        stream = self._register.get(number)
        if stream is not None:
            self._reset(stream, code)

    def stop(self, number: int, code: int) -> None:
        """Read no more: drop what has come and will come, and ask the peer to reset its direction."""
        stream = self._register.get(number)
        if stream is None or stream.stopped:
            return
        stream.stopped = True
        had_all = stream.receive.has_all
        self._receiver.discard(stream)
        if not (had_all or stream.receive.has_all):
            self.queue(Stop(number, code))
        self._settle(stream)

    def read(self, number: int, most: int) -> bytes:
        """Return the next octets, at most `most`, and let the peer send more; `b""` if there are none now."""
        stream = self._streams.get(number) or self._register.get(number)
        if stream is None:
            return b""
        data = self._receiver.read(stream, most)
        if stream.over:
            self._settle(stream)
        return data

    def readable(self, number: int) -> int:
        """Return how many octets `read` has."""
        stream = self._register.get(number)
        return 0 if stream is None else len(stream.receive.data)

    def has_all(self, number: int) -> bool:
        """Return whether all that the peer will ever send has come, read or not."""
        stream = self._register.get(number)
        return stream is None or stream.receive.has_all

    def at_end(self, number: int) -> bool:
        """Return whether nothing is left to read, and nothing will come. A `StreamReset` says if it ended early."""
        stream = self._register.get(number)
        return stream is None or (stream.receive.has_all and not stream.receive.data)

    # --- the peer ----------------------------------------------------------------------------

    def receive(self, frame: Frame) -> bool:
        """Take in a frame about streams: STREAM, RESET, STOP, MAX_…, OPENED, REFUSED.

        Returns:
            False if the frame is about something else, and so the session's own business.

        Raises:
            RemoteProtocolError: the peer broke a rule of SPEC 10; the session ends.
        """
        if type(frame) is StreamData:
            self._on_data(frame)
            return True
        match frame:
            case Reset():
                self._on_reset(frame)
            case Stop():
                self._on_stop(frame)
            case MaxData():
                self._sender.limit = max(self._sender.limit, frame.octets)
            case MaxStreamData():
                self._on_max_stream_data(frame)
            case MaxStreams():
                self._register.max_streams = max(self._register.max_streams, frame.streams)
            case Opened():
                stream = self._find(frame.stream)
                if stream is not None:
                    self._connect(stream)
            case Refused():
                self._on_refused(frame)
            case _:
                return False
        return True

    def _on_data(self, frame: StreamData) -> None:
        stream = self._streams.get(frame.stream) or self._find(frame.stream)
        if stream is None:
            return
        receive = stream.receive
        # Of what came before the target was known, the application has not been told.
        had_news = stream.announced and bool(
            receive.data or (receive.final_size >= 0 and receive.has_all)
        )
        self._receiver.on_data(stream, frame)
        if not self._is_client:
            if not (stream.announced or stream.refused):
                self._read_target(stream)
        elif not stream.connected:
            self._connect(stream)
        has_all = receive.final_size >= 0 and receive.has_all
        if not had_news and stream.announced and not stream.stopped and (receive.data or has_all):
            self.events.append(StreamReadable(stream.number))
        if has_all:
            self._settle(stream)

    def _on_reset(self, frame: Reset) -> None:
        stream = self._find(frame.stream)
        if stream is None or not self._receiver.on_reset(stream, frame):
            return
        if stream.announced and not stream.stopped:
            self.events.append(StreamReset(stream.number, frame.code))
        if not stream.announced:
            self._reset(stream, ResetCode.CANCELLED)
        self._settle(stream)

    def _on_stop(self, frame: Stop) -> None:
        stream = self._find(frame.stream)
        if stream is None or stream.send_state is not SendState.OPEN:
            return
        self._reset(stream, ResetCode.CANCELLED)
        if stream.announced:
            self.events.append(StreamStopped(stream.number, frame.code))
        else:
            stream.stop_code = frame.code

    def _on_max_stream_data(self, frame: MaxStreamData) -> None:
        stream = self._find(frame.stream)
        if stream is not None and frame.octets > stream.send_limit:
            stream.send_limit = frame.octets
            self._sender.refresh(stream)

    def _on_refused(self, frame: Refused) -> None:
        stream = self._find(frame.stream)
        if stream is None or stream.refused:
            return
        if stream.connected:
            raise RemoteProtocolError(f"stream {frame.stream} is refused after it was connected")
        stream.refused = True
        if not stream.receive.has_all:
            self._receiver.end(stream, 0)
        # The server learns how much was sent, which its windows need (RFC 9000 section 4.5).
        self._reset(stream, ResetCode.CANCELLED)
        self.events.append(StreamRefused(stream.number, frame.reason))
        self._settle(stream)

    # --- within ------------------------------------------------------------------------------

    def _find(self, number: int) -> Stream | None:
        """Return the stream that a peer speaks of, new ones included; `None` if it is over."""
        stream = self._register.find(number)
        if stream is not None or self._is_client:
            return stream
        has_place = self._register.has_place
        stream = self._register.take(number)
        if stream is not None and not has_place:
            self._refuse(stream, RefusalReason.TOO_MANY_STREAMS)
        return stream

    def _connect(self, stream: Stream) -> None:
        """Note that the target is connected: by OPENED, or by octets that overtook it."""
        if not stream.connected and not stream.refused:
            stream.connected = True
            self.events.append(StreamConnected(stream.number))

    def _read_target(self, stream: Stream) -> None:
        """Read the target with which a client's octets begin, as soon as all of it is there."""
        try:
            found = read_target(stream.receive.peek(MAX_TARGET))
        except TargetInvalid:
            self._refuse(stream, RefusalReason.NOT_AN_ADDRESS)
            return
        if found is not None:
            target, size = found
            self._receiver.read(stream, size)
            stream.announced = True
            self.events.append(StreamOpened(stream.number, target))
            if stream.stop_code >= 0:
                self.events.append(StreamStopped(stream.number, stream.stop_code))
        elif stream.receive.has_all:
            self._refuse(stream, RefusalReason.NOT_AN_ADDRESS)

    def _refuse(self, stream: Stream, reason: int) -> None:
        self._sender.abandon(stream)
        stream.refused = stream.stopped = True
        stream.send_state = SendState.ENDING
        self._register.uncount(stream)
        self.queue(Refused(stream.number, reason))
        self._receiver.discard(stream)

    def _reset(self, stream: Stream, code: int) -> None:
        if stream.send_state is not SendState.OPEN:
            return
        self._sender.abandon(stream)
        stream.send_state = SendState.ENDING
        self.queue(Reset(stream.number, code, stream.send.sent))
        self._settle(stream)

    def _on_control_acked(self, frame: ControlFrame) -> None:
        if isinstance(frame, Reset | Refused):
            stream = self._streams.get(frame.stream)
            if stream is not None:
                stream.send_state = SendState.OVER
                self._settle(stream)

    def _settle(self, stream: Stream) -> None:
        """Note what follows when a direction has ended: the stream may be over, and may be forgotten."""
        receive = stream.receive
        if not receive.has_all:
            return
        send_ended = stream.send_state is not SendState.OPEN or stream.send.fin_sent
        if send_ended and not self._is_client:
            # The client may know both ends by now, and open another in its place.
            self._register.uncount(stream)
        if stream.send_state is not SendState.OVER:
            return
        if not stream.over:
            self._register.end(stream)
            if stream.announced:
                self.events.append(StreamOver(stream.number))
        if not receive.data and self._streams.pop(stream.number, None) is not None:
            self._sender.controls.drop_stream(stream.number)
            self._receiver.release(stream)
