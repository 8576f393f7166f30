"""One session at the server: packets in, answers out (SPEC 8, 9, 13.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from racer.errors import ProtocolError
from transports.soar.core.crypto.headers import Kind, full_number
from transports.soar.core.crypto.notices import EndCode
from transports.soar.core.crypto.packets import ANSWER_OVERHEAD
from transports.soar.core.loss import LossShare
from transports.soar.core.server.parking import Park, Parking
from transports.soar.core.server.receipts import Receipts
from transports.soar.core.server.records import ANSWERED, DEAD, MAX_OUTSTANDING, WAITING, Records
from transports.soar.core.server.replies import room_for
from transports.soar.core.streams.frames import (
    Challenge,
    End,
    Floor,
    Lost,
    LostMap,
    Ping,
    Response,
    StreamData,
    decode,
    encode_frame,
)

if TYPE_CHECKING:
    from transports.soar.core.crypto.headers import Info
    from transports.soar.core.crypto.packets import ServerSeals
    from transports.soar.core.instants import Instant
    from transports.soar.core.server.arrival import Arrival
    from transports.soar.core.server.deadlines import Alarm, Deadlines
    from transports.soar.core.server.question import Question
    from transports.soar.core.server.records import Record
    from transports.soar.core.server.replies import Replies
    from transports.soar.core.server.session_streams import SessionStreams
    from transports.soar.core.streams.frames import Frame
    from transports.soar.core.streams.sender import Sent

__all__ = ("Session", "SessionOwner")

MAX_REPEATS: Final = 3  # of one answer at full size, SPEC 8.6
_CHALLENGE_OCTETS: Final = 5
_DATA: Final = Kind.DATA  # an enumeration is slow to ask for its members
_NO_SAMPLE: Final = (float("inf"), 0.0)
_RECORD_OCTETS: Final = 200  # that one packet number takes
_TAIL_OCTETS: Final = 2_400  # two answers, about (SPEC 11.6)
# A resolver that has waited for so long may have asked again, and takes the answer to its older copy no more.
_HELD_S: Final = 0.03


class SessionOwner(Protocol):
    """What a session needs of its server.

    Attributes:
        replies: where answers go.
        deadlines: where parks end.
    """

    replies: Replies
    deadlines: Deadlines

    def confirm(self, session: Session) -> None:
        """Note that the first data packet has come: the client has the server's answer."""

    def end(self, session: Session, code: EndCode, now: Instant) -> None:
        """End the session."""

    def wake(self, sid: bytes) -> None:
        """Note that what the session holds, or has to say, may have changed."""

    def deny(self, session: Session, question: Question, now: Instant) -> None:
        """Answer with a notice that there's no such session."""

    def keep_repeats(self, session: Session, now: Instant) -> None:
        """Note that the session keeps an answer for repeats from now on, and none before."""

    def sealed_allowance(self, session: Session) -> int:
        """Return how many octets of answers the session may keep for repeats."""


class Session:
    """The server's half of a session.

    Attributes:
        sid: its name on the wire.
        prefix: where its first message came from.
        zone_indices: zones by wire form; 0 is the handshake's (SPEC 8.2).
        welcome: what fragments of the first message are answered.
        may_execute: whether frames of the first message and of early packets count (SPEC 7.9).
        streams: its streams.
        parking: its questions that wait.
        records: its packet numbers.
        began: when, in elapsed seconds.
        asked: when the newest authentic question came, in elapsed seconds.
        loss: how many of its answers are lost, of those that were given at once.
        is_confirmed: whether a data packet has come.
        has_executed: whether any frame was executed.
        is_over: whether it has ended.
        counted: how many octets the server has on its account.
        alarm: what looks after it next.
        lease_alarm: what ends it with its grant.
    """

    __slots__ = (
        "_owner",
        "_receipts",
        "_rtt",
        "_sample",
        "_seals",
        "_tail",
        "alarm",
        "asked",
        "began",
        "counted",
        "has_executed",
        "is_confirmed",
        "is_over",
        "lease_alarm",
        "loss",
        "may_execute",
        "parking",
        "prefix",
        "records",
        "sid",
        "streams",
        "welcome",
        "zone_indices",
    )

    def __init__(
        self,
        owner: SessionOwner,
        *,
        sid: bytes,
        prefix: bytes,
        seals: ServerSeals,
        zone_indices: dict[bytes, int],
        welcome: bytes,
        streams: SessionStreams,
        receipt_secret: bytes,
        may_execute: bool,
        now: Instant,
    ) -> None:
        """Begin, unconfirmed."""
        self._owner = owner
        self._seals = seals
        self._receipts = Receipts(receipt_secret, sid)
        self.sid = sid
        self.prefix = prefix
        self.zone_indices = zone_indices
        self.welcome = welcome
        self.streams = streams
        self.may_execute = may_execute
        self.records = Records()
        self.parking = Parking()
        self.began = self.asked = now.elapsed
        self.is_confirmed = self.has_executed = self.is_over = False
        self.counted = 0
        self._rtt = 0.0
        self._sample: tuple[float, float] = _NO_SAMPLE
        self.loss = LossShare()
        self._tail = streams.table.tail(_TAIL_OCTETS)
        self.alarm: Alarm | None = None
        self.lease_alarm: Alarm | None = None

    @property
    def octets(self) -> int:
        """How much it holds in memory, about."""
        records = self.records
        return self.streams.octets + records.sealed_octets + _RECORD_OCTETS * len(records)

    # --- packets in ---------------------------------------------------------------------------

    def receive(self, arrival: Arrival, now: Instant, *, is_waiting: bool = True) -> None:
        """Take a packet of this session, and answer its question or park it.

        Args:
            arrival: an early or data packet with this session's SID; junk changes nothing.
            now: the time.
            is_waiting: whether the question is still to be answered.
        """
        header, packet, question = arrival
        records = self.records
        number = full_number(header.x, records.highest)
        opened = self._seals.open_packet(
            header, packet, number, self.zone_indices[question.zone.wire]
        )
        if opened is None or not records.floor <= number < records.floor + MAX_OUTSTANDING:
            if opened is None and header.kind == _DATA and not self.is_confirmed:
                # An earlier process may have welcomed this client, with other keys, and this one a copy of the same
                # first message. The notice is bound to the question, so only who really asked it believes it.
                self._owner.deny(self, question, now)
            elif is_waiting:
                self._owner.replies.empty(question)
            return
        info, payload = opened
        record = records.get(number)
        if record is None:
            record = records.add(number, question.came)
            self.asked = now.elapsed
            is_early = header.kind != _DATA
            if not (is_early or self.is_confirmed):
                self.is_confirmed = True
                self._owner.confirm(self)
            code = None
            if self.may_execute or not is_early:
                code = self.execute(payload, number, info.path, now)
            if code is not None:
                if is_waiting:
                    self._say_end(number, record, question, code, now)
                self._owner.end(self, code, now)
                return
        if is_waiting:
            self._attend(number, record, question, info, now)

    def execute(self, payload: bytes, number: int, path: int, now: Instant) -> EndCode | None:
        """Do what a packet says, and return why the session must end now, if it must."""
        try:
            for frame in decode(payload, from_client=True):
                self.has_executed = True
                if type(frame) is Floor:  # nearly every packet has one, and little else
                    self._raise_floor(number - frame.delta, now)
                elif type(frame) is End:
                    return EndCode.CLOSED
                elif type(frame) is StreamData or not self._execute_own(frame, number, now):
                    self.streams.table.receive(frame)
                    self.parking.note_traffic(path, now)
        except ProtocolError:
            return EndCode.PROTOCOL
        streams = self.streams
        return streams.settle(now) if streams.table.events else None

    def _execute_own(self, frame: Frame, number: int, now: Instant) -> bool:
        """Do what a frame says that is the session's own business; return whether it is."""
        match frame:
            case Lost(deltas):
                for delta in deltas:
                    self._lose(number, number - delta, now)
            case LostMap(delta, bits):
                first = number - delta
                for place in range(8 * len(bits)):
                    if bits[place >> 3] & 0x80 >> (place & 7):
                        self._lose(number, first + place, now)
            case Response(token):
                self._receipts.receive(token)
            case Ping():
                pass
            case _:
                return False
        return True

    def _raise_floor(self, floor: int, now: Instant) -> None:
        """Forget what the client has settled (SPEC 9.2)."""
        freed = self.records.raise_floor(floor)
        if not freed:
            return
        if self.loss.share:
            self.loss.arrived(sum(not record.was_held for _, record in freed))
        table = self.streams.table
        parks = self.parking.parks
        for number, record in freed:
            if record.sent is not None:
                table.acked(record.sent)
            elif number in parks:
                park = parks[number]
                self._unpark(park)
                self._dismiss(park)
        sampled, since = self._sample
        if sampled < self.records.floor:
            # From an answer to the question that settles it is a round trip, or little more.
            sample = now.awake - since
            self._rtt += (sample - self._rtt) / 8 if self._rtt else sample
            self._sample = _NO_SAMPLE
            table.grow(self._rtt, now.awake)

    def _lose(self, of: int, number: int, now: Instant) -> None:
        """Queue anew what was in an answer that has not come (SPEC 9.3)."""
        if number >= of or not self.records.admits(number):
            return
        record = self.records.get(number)
        if record is None:
            self.records.bury(number, now.awake)
            return
        # What was held may only be late, since its resolver asked again.
        if not (record.is_lost or record.was_held):
            self.loss.lost()
        record.is_lost = True
        if record.sent is not None:
            self.streams.table.lost(record.sent)
            record.sent = None
        park = self.parking.parks.get(number)
        if park is not None:
            self._release(park, now)

    # --- answers out --------------------------------------------------------------------------

    def _attend(
        self, number: int, record: Record, question: Question, info: Info, now: Instant
    ) -> None:
        """Answer a copy, or park it."""
        state = record.state
        if not question.fits_form or state is DEAD:
            self._owner.replies.empty(question)
        elif state is ANSWERED:
            self._repeat(record, question, info)
        elif (park := self.parking.parks.get(number)) is not None:
            if question.copy.name != park.question.copy.name:
                # Nobody asked this one anew when the other came: two wait, and neither takes the other's answer.
                self._release(park, now)
                self._repeat(record, question, info)
            elif self.parking.repeat(park, question, now):
                self._release(park, now)
            else:
                self._set_alarm(park)
        elif (
            info.may_park
            and not self._has_words()
            and question.name_class == 1
            and not question.source.tcp
            and not record.is_lost
        ):
            self._park(number, record, question, info, now)
        else:
            self._answer(number, record, question, info, now)

    def _park(
        self, number: int, record: Record, question: Question, info: Info, now: Instant
    ) -> None:
        record.was_held = True
        park = Park(number, question, info, record.since)
        crowded = self.parking.add(park, now)
        if crowded is not None:
            self._cancel(crowded)
            self._answer_park(crowded, now)
        if park.until <= now.awake:  # its first copies came under another type
            self._release(park, now)
        else:
            self._set_alarm(park)

    def _repeat(self, record: Record, question: Question, info: Info) -> None:
        """Answer another copy with the same octets, up to three times (SPEC 8.6)."""
        replies = self._owner.replies
        sealed = record.sealed
        if sealed is None or record.repeats >= MAX_REPEATS:
            replies.empty(question)
            return
        receipt = None if question.source.tcp else self._receipts.of(question.source.address)
        if receipt is not None:
            if len(sealed) > receipt.allowance + ANSWER_OVERHEAD + _CHALLENGE_OCTETS:
                replies.too_big(question)
                return
            receipt.spend(len(sealed))
        if replies.repeat(question, sealed, info.size_class):
            record.repeats += 1

    def _answer(
        self,
        number: int,
        record: Record,
        question: Question,
        info: Info,
        now: Instant,
    ) -> None:
        """Seal the one answer to a packet number, with as much in it as there is and as fits."""
        table = self.streams.table
        room = room_for(question, info.size_class) - ANSWER_OVERHEAD
        out = bytearray()
        left = room
        receipt = None if question.source.tcp else self._receipts.of(question.source.address)
        if receipt is not None:
            out += encode_frame(Challenge(receipt.token))
            left = min(room, receipt.allowance - ANSWER_OVERHEAD) - _CHALLENGE_OCTETS
        held = now.awake - record.since
        sent = [] if record.is_lost or left <= 0 else self._fill(out, left, held)
        backlog = -(-queued // room) if (queued := table.queued_octets()) else 0
        sealed = self._seals.seal_answer(number, backlog, held, bytes(out))
        if not self.records.sealed_octets:
            self._owner.keep_repeats(self, now)
        if self._sample is _NO_SAMPLE:
            self._sample = (number, now.awake)
        self.records.seal(number, record, sealed, sent, keep=self._owner.sealed_allowance(self))
        if receipt is not None:
            receipt.spend(len(sealed))
        if sent:
            self.parking.note_traffic(info.path, now)
            if table.events:
                self.streams.tell()
        self._owner.replies.sealed(question, sealed)

    def _has_words(self) -> bool:
        """Return whether an answer would have anything in it: something new, or what is worth saying again."""
        return self.streams.table.has_queued() or self._tail.is_due()

    def _fill(self, out: bytearray, room: int, held: float) -> list[Sent]:
        """Fill an answer: with what is new, or else, where answers are lost, with what the last ones said."""
        sent = self.streams.table.fill(out, room)
        if not sent:
            return self._tail.fill(out, room, once_more=held > _HELD_S)
        if self.loss.is_notable:
            self._tail.note(sent)
        else:
            self._tail.forget()
        return sent

    def _say_end(
        self, number: int, record: Record, question: Question, code: EndCode, now: Instant
    ) -> None:
        """Answer with the end of the session, if that copy can carry anything."""
        if not question.fits_form or record.state is not WAITING:
            self._owner.replies.empty(question)
            return
        frame = encode_frame(End(code, self.streams.table.last_stream))
        sealed = self._seals.seal_answer(number, 0, now.awake - record.since, frame)
        self._owner.replies.sealed(question, sealed)

    # --- parks --------------------------------------------------------------------------------

    def pump(self, now: Instant) -> None:
        """Answer parked questions, oldest first, while there is something to say."""
        while self._has_words() and (park := self.parking.oldest()) is not None:
            self._release(park, now)

    def finish(self, code: EndCode, now: Instant) -> None:
        """Answer all parked questions with the end of the session; its server takes it out of the table."""
        self.is_over = True
        while (park := self.parking.oldest()) is not None:
            self._unpark(park)
            record = self.records.get(park.number)
            if record is None or code is EndCode.UNKNOWN:
                self._dismiss(park)
            else:
                self._say_end(park.number, record, park.question, code, now)
                if park.elsewhere is not None:
                    self._owner.replies.empty(park.elsewhere)

    def _release(self, park: Park, now: Instant) -> None:
        self._unpark(park)
        self._answer_park(park, now)

    def _answer_park(self, park: Park, now: Instant) -> None:
        record = self.records.get(park.number)
        assert record is not None, "what is parked is above the floor"
        self._answer(park.number, record, park.question, park.info, now)
        if park.elsewhere is not None:
            self._repeat(record, park.elsewhere, park.info)

    def _dismiss(self, park: Park) -> None:
        self._owner.replies.empty(park.question)
        if park.elsewhere is not None:
            self._owner.replies.empty(park.elsewhere)

    def _unpark(self, park: Park) -> None:
        self.parking.remove(park)
        self._cancel(park)

    def _cancel(self, park: Park) -> None:
        if park.alarm is not None:
            self._owner.deadlines.cancel(park.alarm)

    def _set_alarm(self, park: Park) -> None:
        if park.alarm is not None:
            if park.alarm.when == park.until:
                return
            self._owner.deadlines.cancel(park.alarm)

        def end(now: Instant) -> None:
            self._release(park, now)
            self._owner.wake(self.sid)

        park.alarm = self._owner.deadlines.set(park.until, end)
