"""The making of a session: a first message, its flights over the paths, and answers that come too early (SPEC 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from racer.errors import RemoteProtocolError
from transports.soar.core.client.events import HandshakeEnded
from transports.soar.core.client.flight import FIRST_TIMEOUT_S, Flight
from transports.soar.core.client.questions import FRAGMENT
from transports.soar.core.crypto.fragments import FRAGMENT_OVERHEAD, MOST_FRAGMENTS
from transports.soar.core.crypto.handshake import FirstMessage, RetryCookie, frames_room
from transports.soar.core.crypto.retries import RetryCode
from transports.soar.core.crypto.terms import Status, Terms
from transports.soar.core.dns.zone import PartialAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transports.soar.core.client.dice import Dice
    from transports.soar.core.client.numbers import PacketNumbers
    from transports.soar.core.client.packets import Packets
    from transports.soar.core.client.path import Path
    from transports.soar.core.client.questions import Question
    from transports.soar.core.client.reasons import EndReason
    from transports.soar.core.client.settings import ClientSettings
    from transports.soar.core.crypto.grants import Grant
    from transports.soar.core.crypto.retries import Retry
    from transports.soar.core.dns.answers import Form
    from transports.soar.core.dns.zone import NameClass, Zone
    from transports.soar.core.instants import Instant
    from transports.soar.core.streams.sender import Sent
    from transports.soar.core.streams.table import StreamTable

__all__ = ("Handshake",)

_MOST_HELD: Final = 16  # answers to early packets that are kept until they can be opened
_MOST_HELD_EACH: Final = 4  # of one question, of which an injector may answer all
_FRAME_HEAD: Final = 8  # octets that the frames around what is queued may take


class _Before(NamedTuple):
    """The first message that a RETRY answered, what it carried, and the numbers of the packets under it."""

    first: FirstMessage
    made_at: float
    records: list[Sent]
    numbers: PacketNumbers


class Handshake:
    """One handshake under way.

    Args:
        owner: the session, as questions name it.
        zone: whose names carry it; the message binds it.
        grant: the credential to show, or `None`.
        settings, paths, table, packets, dice: the session's.
        now: when it begins.

    Attributes:
        first: the first message of now.
        began_at: seconds, awake clock.
        flight: when what is sent.
        is_retry: whether a RETRY was obeyed.
        held: early answers that cannot be opened yet: path, question, octets carried, octets of the message, when it came.
        made_at: when the first message was made, and so first sent, elapsed clock.
        records: what the first message carries.
    """

    __slots__ = (
        "_before",
        "_dice",
        "_grant",
        "_owner",
        "_packets",
        "_paths",
        "_settings",
        "_table",
        "began_at",
        "first",
        "flight",
        "held",
        "is_retry",
        "made_at",
        "records",
        "zone",
    )

    def __init__(
        self,
        *,
        owner: object,
        zone: Zone,
        grant: Grant | None,
        settings: ClientSettings,
        paths: Mapping[int, Path],
        table: StreamTable,
        packets: Packets,
        dice: Dice,
        now: Instant,
    ) -> None:
        self._owner = owner
        self._grant = grant
        self._settings = settings
        self._paths = paths
        self._table = table
        self._packets = packets
        self._dice = dice
        self.zone = zone
        self.began_at = now.awake
        self.flight = Flight(now.awake)
        self.first: FirstMessage | None = None
        self.is_retry = False
        self._before: _Before | None = None
        self.held: list[tuple[Path, Question, bytes, int, float]] = []
        self.made_at = now.elapsed
        self.records: list[Sent] = []

    def make_first(self, now: Instant) -> None:
        """Make the first message, with what is queued by now in it, as far as it has room."""
        self._make(now, wall=now.wall, cookie=None)

    def retry(self, retry: Retry, now: Instant) -> None:
        """Begin anew as a RETRY asks for; at most one is obeyed (SPEC 7.7)."""
        first = self.first
        assert first is not None, "a RETRY answers a first message"
        self.is_retry = True
        self._before = _Before(first, self.made_at, self.records, self._packets.numbers)
        self.flight = Flight(now.awake)
        self.held.clear()
        self._table.lost(self.records)
        wall = float(retry.time) if retry.code is RetryCode.CLOCK else now.wall
        self._make(now, wall=wall, cookie=RetryCookie(retry.cookie, first.sid))

    def revive(self, question: Question, payload: bytes) -> Terms | None:
        """Take an answer to the message before the RETRY; return the terms if it is a welcome, whose session goes on.

        So whoever forges a RETRY, as everybody with the public key can, only has something said twice.
        """
        before = self._before
        assert before is not None, "only a RETRY puts another first message in the place of one"
        assert question.first is before.first, "at most one is obeyed"
        try:
            terms = before.first.receive(payload)
        except RemoteProtocolError:
            return None
        if not isinstance(terms, Terms) or terms.status is not Status.WELCOME:
            return None
        self._before = None
        self.held.clear()
        self._table.lost(self.records)
        self.first, self.made_at, self.records, numbers = before
        self._packets.resume(before.first, before.first.seals, numbers)
        return terms

    def hold(self, path: Path, question: Question, payload: bytes, octets: int, now: float) -> None:
        """Keep what may be the answer to an early packet until `msg2` is there."""
        held = self.held
        if len(held) < _MOST_HELD:
            same = sum(kept is question for _, kept, *_ in held)
            if same < _MOST_HELD_EACH:
                held.append((path, question, payload, octets, now))

    def send(self, now: Instant) -> None:
        """Send the waves that are due."""
        if now.awake < self.flight.next_at:
            return
        if self.first is None:
            self.make_first(now)
        chosen = self._chosen()
        if not chosen:
            self.flight.next_at = now.awake + FIRST_TIMEOUT_S
            return
        best = chosen[0]
        count = self.flight.count
        timeout = best.polls.probe_timeout if best.is_known else FIRST_TIMEOUT_S
        wave = self.flight.take(now.awake, timeout)
        for path in chosen:
            forms = wave.forms
            if path.forms.is_proven and path.forms.current not in forms:
                forms = (path.forms.current, *forms) if count else (path.forms.current,)
            for form in forms:
                self._send_pieces(path, form, now, is_long=wave.is_long)

    def ended(
        self,
        session: int,
        question: Question | None,
        path: Path | None,
        now: Instant,
        error: EndReason | None,
    ) -> HandshakeEnded:
        """Return the event that tells of its end, by the answer to `question` on `path` if that was it."""
        return HandshakeEnded(
            session=session,
            seconds=now.awake - self.began_at,
            waves=self.flight.count,
            form="" if question is None else question.form.name,
            path=-1 if path is None else path.index,
            error=error,
        )

    def _make(self, now: Instant, *, wall: float, cookie: RetryCookie | None) -> None:
        capacity = self.zone.classes[1].capacity
        size = capacity - FRAGMENT_OVERHEAD
        room = frames_room(capacity, cookie=cookie is not None, grant=self._grant is not None)
        queued = self._table.queued_octets()
        needed = queued + _FRAME_HEAD if queued else 0
        while room - size >= needed:
            room -= size
        frames = bytearray()
        self.records = self._table.fill(frames, room)
        self._packets.note_first(self.records, now.elapsed)
        self.made_at = now.elapsed
        self.first = FirstMessage(
            public=self._settings.public_key,
            zone=self.zone.wire,
            wall=wall,
            frames=bytes(frames),
            capacity=capacity,
            entropy=self._dice.entropy,
            cookie=cookie,
            grant=self._grant,
        )
        self._packets.begin(self.first, self.first.seals)

    def _chosen(self) -> list[Path]:
        """Return the paths of the next wave: the best, and another while one is of unknown quality."""
        paths = [path for path in self._paths.values() if path.zone == self.zone]
        paths.sort(key=lambda path: path.expected())
        if len(paths) < 2:
            return paths
        best, *others = paths
        unknown = [path for path in others if not path.is_known]
        if unknown:
            return [best, unknown[self.flight.count % len(unknown)]]
        if not best.is_known or self.flight.count:
            return [best, others[self.flight.count % len(others)]]
        return [best]

    def _send_pieces(self, path: Path, form: Form, now: Instant, *, is_long: bool) -> None:
        first = self.first
        assert first is not None, "it is made before it is sent"
        name_class = self._long_class(len(first.message)) if is_long else self.zone.classes[1]
        for packet in first.fragments(name_class.capacity, form=form, entropy=self._dice.entropy):
            question = path.ask(
                packet,
                owner=self._owner,
                number=FRAGMENT,
                form=form,
                name_class=name_class.number,
                size_class=0,
                may_park=False,
                shard=self._packets.shard,
                # What minimising makes of a long name is left to chance no more (SPEC 4.5); others have no partial names.
                partials=PartialAnswer.NODATA,
                dice=self._dice,
                now=now,
            )
            question.first = first

    def _long_class(self, octets: int) -> NameClass:
        """Return the class of names that carries so many octets in the fewest pieces, the smallest of those."""

        def pieces(name_class: NameClass) -> int:
            return -(-octets // (name_class.capacity - FRAGMENT_OVERHEAD))

        fitting = [each for each in self.zone.classes.values() if pieces(each) <= MOST_FRAGMENTS]
        return min(fitting, key=lambda each: (pieces(each), each.number))
