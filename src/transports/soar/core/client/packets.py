"""The packets of one session: what goes into them, on which path, and what their fate means (SPEC 8, 9, 13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from transports.soar.core.client.lengths import MOST_SMALL, class_again, class_for, way_again
from transports.soar.core.client.numbers import FLOOR_EVERY, PacketNumbers
from transports.soar.core.client.polling import FRESH_POLLS, FreshPolls, Polls
from transports.soar.core.client.questions import IN_FLIGHT
from transports.soar.core.crypto.headers import INFOS, Kind
from transports.soar.core.crypto.packets import PACKET_OVERHEAD
from transports.soar.core.streams.frames import FrameType
from transports.soar.core.streams.sender import StreamSent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transports.soar.core.client.dice import Dice
    from transports.soar.core.client.partials import Timed
    from transports.soar.core.client.path import Path
    from transports.soar.core.client.questions import Question
    from transports.soar.core.crypto.handshake import FirstMessage
    from transports.soar.core.crypto.packets import ClientSeals, Opened
    from transports.soar.core.dns.zone import Zone
    from transports.soar.core.instants import Instant
    from transports.soar.core.streams.sender import Sent
    from transports.soar.core.streams.table import StreamTable

__all__ = ("Packets",)

_PING: Final = bytes((FrameType.PING,))
_MOST_WHEN_FULL: Final = (
    64  # questions out while the server's floor is far behind, so that numbers last
)
_MOST_UNSAID: Final = 64  # settled numbers that a server may go on remembering of an idle session
_REPORTS_IN_A_POLL: Final = 4
_MOST_TO_TELL: Final = 16  # questions out for news of losses alone
_MANY_REPORTS: Final = 2 * _REPORTS_IN_A_POLL
_ANY_SHARD: Final = 32
_UPLOAD: Final = 8192  # octets queued for which it is worth knowing a path's resolver
_MOST_AGAIN: Final = 8  # questions that only say again what others carry (SPEC 11.6)


class Packets:
    """What a session has sent and still owes.

    Args:
        owner: the session, as questions name it.
        zone: of the handshake; it has index 0 (SPEC 8.2).
        paths: all of the client's.
        table: the session's streams.
        dice: for ids and names.

    Attributes:
        first: the first message whose session these packets are in; questions of another one don't count.
        zones: zones that the server has the session under, and their indexes.
        numbers, polls: each about its own matter.
        outstanding: questions neither answered nor lost.
        parked: those of them that may park.
        owed: those of them that carry what must arrive.
        first_sent: when an octet of each stream was first sent, elapsed clock.
        shard: see SPEC 4.4.
    """

    __slots__ = (
        "_dice",
        "_fresh",
        "_has_spoken",
        "_heard_from",
        "_kind",
        "_news",
        "_owner",
        "_paths",
        "_seals",
        "_table",
        "_tail",
        "_unsent",
        "first",
        "first_sent",
        "numbers",
        "outstanding",
        "owed",
        "parked",
        "polls",
        "shard",
        "zones",
    )

    def __init__(
        self,
        *,
        owner: object,
        zone: Zone,
        paths: Mapping[int, Path],
        table: StreamTable,
        dice: Dice,
    ) -> None:
        self._owner = owner
        self._paths = paths
        self._table = table
        self._dice = dice
        self._seals: ClientSeals | None = None
        self._kind = Kind.EARLY
        self._news = (
            -1
        )  # the highest number whose answer brought what the server keeps until it is settled
        # No answer to this number or one above: the server may not have heard that its welcome came.
        self._heard_from = -1
        self._unsent: set[int] = set()
        self._fresh = FreshPolls()
        self._has_spoken = False  # whether this turn has sent stream octets
        self._tail = table.tail(MOST_SMALL)  # of this turn
        self.first: FirstMessage | None = None
        self.first_sent: dict[int, float] = {}
        self.zones: dict[bytes, int] = {zone.wire: 0}
        self.numbers = PacketNumbers()
        self.polls = Polls()
        self.outstanding = 0
        self.parked = 0
        self.owed = 0
        # Until the server has said how many shards it has, every name is for the same one.
        self.shard = (_ANY_SHARD, dice.octet() % _ANY_SHARD)

    # --- the life of the session ------------------------------------------------------------

    def begin(self, first: FirstMessage, seals: ClientSeals) -> None:
        """Send early packets under `first` from here on; what was sent under another first message is sent anew."""
        if self.first is not None:
            self.take_back()
        self.first = first
        self._seals = seals
        self.numbers = PacketNumbers()
        self.outstanding = self.parked = self.owed = 0

    def resume(self, first: FirstMessage, seals: ClientSeals, numbers: PacketNumbers) -> None:
        """Go on in the session of `first`, where `begin` left it for another's; `numbers` are its own."""
        self.take_back()
        self.first = first
        self._seals = seals
        self.numbers = numbers
        flying = [
            question
            for path in self._paths.values()
            for question in path.recovery.in_flight()
            if question.first is first and question.number >= 0
        ]
        self.outstanding = len(flying)
        self.parked = sum(question.may_park for question in flying)
        self.owed = 0
        # Nobody noted what was lost or answered meanwhile.
        numbers.lose_all_but({question.number for question in flying})

    def establish(self, shards: int) -> None:
        """Send data packets from here on."""
        self._kind = Kind.DATA
        self._heard_from = self.numbers.next
        self.shard = (shards, self.shard[1] % shards)

    def take_back(self) -> None:
        """Queue anew what all packets so far carried: they were not executed, and their answers acknowledge nothing."""
        for path in self._paths.values():
            for question in path.recovery.pending.values():
                if question.owner is self._owner and question.records:
                    if question.fate is IN_FLIGHT and question.needs_answer:
                        self._table.lost(question.records)
                        self.owed -= 1
                    question.records = []
                    question.needs_answer = False

    def watch(self, stream: int) -> None:
        """Note when the first octet of `stream` is sent."""
        self._unsent.add(stream)

    # --- sending ----------------------------------------------------------------------------

    def send(self, now: Instant, *, is_busy: bool) -> bool:
        """Send what is queued, and the polls that a busy session owes; return whether something waits for room."""
        self._has_spoken = False
        self._tail.forget()
        if self._table.has_queued() and not self.numbers.is_full and not self._send_queued(now):
            blocked = self._table.has_queued()
        else:
            blocked = False
        if is_busy:
            wanted = self.polls.wanted(
                now.awake,
                outstanding=self.outstanding,
                parked=self.parked,
                window=sum(
                    int(path.window.size)
                    for path in self._usable()
                    if not (path.is_doubted or path.is_spare)
                ),
            )
            if reports := len(self.numbers.to_report):
                # The server sends anew what it is told was lost, and not before.
                told_by = min(1 + reports // _REPORTS_IN_A_POLL, _MOST_TO_TELL)
                wanted = max(wanted, told_by - self.outstanding)
            if self.numbers.is_full:
                wanted = min(wanted, _MOST_WHEN_FULL - self.outstanding)
            fresh = self._fresh.wanted(now.awake) if self._has_spoken else 0
            if is_again := self._tail.is_due():
                fresh = FRESH_POLLS  # they have room for a small message
            wanted = max(wanted, fresh)
            if wanted <= 0 and self._is_unheard(now.awake):
                wanted = 1  # two a second are the evidence that a session is lost, or find out that it isn't
            if wanted > 0:
                blocked = not self._send_polls(now, wanted, fresh=fresh) or blocked
            if is_again:
                self._say_again(now)
        elif (
            self.polls.lingers(now.awake)
            and not self.outstanding
            and self._has_news()
            and self._ask_once(now, may_park=False)
        ):
            self.polls.lingered()
        return blocked

    def _has_news(self) -> bool:
        """Whether a session that isn't busy has something to say: that it is welcomed, or what the server may forget."""
        numbers = self.numbers
        return (
            self._heard_from >= 0
            or numbers.confirmed <= self._news
            or numbers.unsaid > _MOST_UNSAID
        )

    def say(self, frames: bytes, now: Instant) -> bool:
        """Send one question with `frames` alone, which nobody watches over; return whether there was a way."""
        return self._ask_once(now, frames=frames, may_park=False)

    def ping(self, now: Instant) -> bool:
        """Ask for nothing but an answer; return whether there was a way."""
        return self._ask_once(now, frames=_PING, may_park=False)

    def open_answer(self, number: int, payload: bytes) -> Opened | None:
        """Return the answer to packet `number`, opened; `None` unless it is authentic."""
        assert self._seals is not None, "answers come after `begin`"
        return self._seals.open_answer(number, payload)

    def patience(self) -> float:
        """Return the probe timeout of the best path, in seconds, parking included."""
        return min((path.patience for path in self._usable()), default=1.0)

    def best_round_trip(self) -> float | None:
        """Return the least smoothed round trip of the paths that have one, in seconds."""
        return min(
            (path.polls.srtt for path in self._usable() if path.polls.is_known), default=None
        )

    def _send_queued(self, now: Instant) -> bool:
        """Send frames while there is room; return whether all were sent."""
        table = self._table
        for path in self._ranked():
            if path.is_doubted:
                self._probe(path, now)
                continue
            flight = free = path.room(now.awake)
            name_class, alike = 1, 0
            while free > 0:
                if not alike:
                    queued = table.queued_octets()
                    name_class, alike = class_for(path, queued, flight, now.awake)
                    if name_class > 1 and queued > _UPLOAD:
                        self._compare(path, now)
                if not self._ask(path, now, name_class=name_class):
                    return True
                free -= 1
                alike -= 1
                if not alike and not table.has_queued():
                    return True
        return False

    def _compare(self, path: Path, now: Instant) -> None:
        """Ask, with nothing in it, what shows whether the path's resolver is Unbound (SPEC 12.8)."""
        if path.partials.next_at <= now.awake:
            for lane in path.pair(now.awake):
                self._ask(path, now, frames=_PING, is_poll=True, lane=lane)

    def _send_polls(self, now: Instant, wanted: int, *, fresh: int) -> bool:
        """Send `wanted` polls, of which `fresh` may pass a full window; return whether there was room for them."""
        if self.numbers.is_exhausted:
            return True
        must = max(self.polls.floor(now.awake) - self.parked, self._is_unheard(now.awake), fresh)
        for path in self._ranked():
            if path.is_doubted and wanted > 0:
                wanted -= self._probe(path, now)
                continue
            sizes, up = path.sizes.down, path.sizes.up
            free = path.room(now.awake)
            may_grow = path.sizes.has_begun and not path.recovery.probes
            usual = sizes.current if may_grow else sizes.steps[0]
            trial = sizes.next_trial(now.awake) if may_grow and self.polls.backlog > 1 else None
            while wanted > 0 and (free > 0 or (must > 0 and path.room(now.awake, poll=True))):
                size_class = usual if trial is None else trial
                trial = None
                # Much news of losses has room in longer names only: told four at a time, they would beget more.
                name_class = up.steps[0]
                if len(self.numbers.to_report) > _MANY_REPORTS:
                    longer = up.next_trial(now.awake) if may_grow else None
                    name_class = up.current if longer is None else longer
                self._ask(
                    path,
                    now,
                    name_class=name_class,
                    size_class=size_class,
                    # News that makes room for more numbers is to be answered at once.
                    may_park=name_class == up.steps[0]
                    and not (self.numbers.is_full and self.numbers.to_report),
                    is_poll=True,
                )
                free -= 1
                must -= 1
                wanted -= 1
        return wanted <= 0

    def _say_again(self, now: Instant) -> None:
        """Send what a small message consists of once more, as far as no poll has had room for it (SPEC 11.6)."""
        path = None if self.numbers.is_full else way_again(self._ranked())
        free = 0 if path is None else min(_MOST_AGAIN, path.room(now.awake))
        while path is not None and free > 0 and self._tail.is_due():
            name_class = class_again(path, self._tail.octets, now.awake)
            self._ask(path, now, name_class=name_class, is_poll=True)
            free -= 1

    def _probe(self, path: Path, now: Instant) -> bool:
        """Ask, where others have no room, whether a doubted path answers by now, with nothing in it; return whether."""
        if not path.room(now.awake, poll=True):
            return False
        return self._ask(path, now, frames=_PING, is_poll=True)

    def _ask_once(self, now: Instant, *, frames: bytes = b"", may_park: bool) -> bool:
        if self.numbers.is_exhausted:
            return False
        for path in self._ranked():
            if path.room(now.awake, poll=True):
                return self._ask(path, now, frames=frames, may_park=may_park, is_poll=True)
        return False

    def _usable(self) -> list[Path]:
        return [path for path in self._paths.values() if path.zone.wire in self.zones]

    def unheard_at(self, now: float) -> float | None:
        """Return when the next question is due because none is answered on any path; `None` if they are, so far."""
        asked = self._asked()
        if self._is_unheard(now):
            # A spare that is asked already gets no more.
            free = [path for path in asked if not (path.is_spare and path.window.in_flight)]
            return min((p.silence.next_question(now, p.patience) for p in free), default=None)
        slow = [path.silence.slow_at(now, path.patience) for path in asked]
        return max((at for at in slow if at is not None), default=None)

    def _is_unheard(self, now: float) -> bool:
        """Whether all paths have been asked in vain for long; a handshake has its own way to go on then."""
        asked = self._asked()
        return self._kind is Kind.DATA and bool(asked) and all(path.is_slow(now) for path in asked)

    def _asked(self) -> list[Path]:
        """Return the paths whose silence tells: one that is doubted may not have been asked for long."""
        usable = self._usable()
        return [path for path in usable if not path.is_doubted] or usable

    def _ranked(self) -> list[Path]:
        """Return the paths that the server has the session under, by when an answer is expected."""
        usable = self._usable()
        if len(usable) > 1:
            usable.sort(key=lambda path: path.expected())
        return usable

    def _ask(
        self,
        path: Path,
        now: Instant,
        *,
        name_class: int = 1,
        size_class: int | None = None,
        may_park: bool = False,
        is_poll: bool = False,
        frames: bytes = b"",
        lane: Timed | None = None,
    ) -> bool:
        """Send one packet; only a poll is sent with nothing in it. Return whether it was."""
        numbers = self.numbers
        number = numbers.next
        capacity = path.zone.classes[name_class].capacity
        out = bytearray(frames)
        room = capacity - PACKET_OVERHEAD
        floor = -1
        reports: tuple[int, ...] = ()
        if is_poll or numbers.to_report or number - numbers.told_at >= FLOOR_EVERY:
            floor, reports = numbers.tell(out, number, room, is_poll=is_poll)
        records = self._table.fill(out, room - len(out)) if not frames else []
        if not (records or is_poll):
            numbers.untold(reports)
            return False
        again = [] if records or frames else self._tail.fill(out, room - len(out))
        if floor >= 0:
            numbers.told_at = number
        if size_class is None:
            sizes = path.sizes
            size_class = sizes.down.current if sizes.has_begun else sizes.down.steps[0]
        form = path.forms.current if lane is None else lane.form
        index = self.zones[path.zone.wire]
        seals = self._seals
        assert seals is not None, "packets are sent after `begin`"
        packet = seals.seal_packet(
            self._kind,
            form,
            numbers.take(),
            INFOS[path.index << 4 | size_class << 2 | may_park << 1],
            bytes(out),
            capacity=capacity,
            zone_index=index,
        )
        question = path.ask(
            packet,
            owner=self._owner,
            number=number,
            form=form,
            name_class=name_class,
            size_class=size_class,
            may_park=may_park,
            shard=self.shard,
            partials=path.partials.answer,
            lane=lane,
            dice=self._dice,
            now=now,
        )
        question.first = self.first
        question.floor = floor
        question.reports = reports
        self.outstanding += 1
        self.parked += may_park
        if may_park:
            self._fresh.sent(question)
        if records:
            self._watch_over(question, records, path, now)
        elif again:
            question.records = again
        return True

    def _watch_over(
        self, question: Question, records: list[Sent], path: Path, now: Instant
    ) -> None:
        """Take `question` as one that carries what must arrive."""
        question.records = records
        question.needs_answer = True
        self.owed += 1
        if type(records[-1]) is StreamSent:
            if path.recovery.loss.is_notable:
                self._tail.note(records)
            if not self._has_spoken:
                self._has_spoken = True
                self.polls.moved(now.awake)
            if self._unsent:
                self._note_first(records, now.elapsed)

    def _note_first(self, records: list[Sent], elapsed: float) -> None:
        for record in records:
            if type(record) is StreamSent and record.stream in self._unsent:
                self._unsent.discard(record.stream)
                self.first_sent[record.stream] = elapsed

    def note_first(self, records: list[Sent], elapsed: float) -> None:
        """Note when the streams in `records`, which a first message carries, were first sent."""
        if self._unsent:
            self._note_first(records, elapsed)

    # --- their fate -------------------------------------------------------------------------

    def answered(self, question: Question, *, has_frames: bool) -> None:
        """Take `question` as answered, by an authentic answer; its fate is still what it was before."""
        if question.fate is IN_FLIGHT:
            self._count_out(question)
        if has_frames and question.number > self._news:
            self._news = question.number
        if question.number >= self._heard_from:
            self._heard_from = -1
        numbers = self.numbers
        numbers.settle(question.number)
        if question.floor >= 0 or question.reports:
            numbers.told(question.floor, question.reports)
        if question.records:
            self._table.acked(question.records)

    def lost(self, question: Question) -> None:
        """Take `question`, until now in flight, as lost: what it carried is queued anew (SPEC 11.4)."""
        self._count_out(question)
        self.numbers.lost(question.number)
        if question.reports:
            self.numbers.untold(question.reports)
        if question.needs_answer:  # what says something again is no news if it is lost
            self._table.lost(question.records)

    def _count_out(self, question: Question) -> None:
        self.outstanding -= 1
        self.parked -= question.may_park
        self.owed -= question.needs_answer
