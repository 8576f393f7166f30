"""Who keeps the sessions: their beginnings, their ends, and what they may hold (SPEC 7.8, 15, 17)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from transports.soar.core.crypto.notices import EndCode, Notice
from transports.soar.core.crypto.terms import Status, Terms
from transports.soar.core.server.credentials import GrantBook
from transports.soar.core.server.early import EarlyPackets
from transports.soar.core.server.events import SessionEnded, SessionStarted
from transports.soar.core.server.records import MAX_SEALED
from transports.soar.core.server.session import Session
from transports.soar.core.server.session_streams import SessionStreams
from transports.soar.core.server.sessions import SessionTable
from transports.soar.core.server.source import prefix_of
from transports.soar.core.server.tombstones import Tombstones
from transports.soar.core.streams.frames import Lease, Zones
from transports.soar.core.streams.windows import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from transports.soar.core.crypto.handshake import First
    from transports.soar.core.instants import Instant
    from transports.soar.core.server.credentials import IssuedGrant
    from transports.soar.core.server.deadlines import Deadlines
    from transports.soar.core.server.events import ServerEvent
    from transports.soar.core.server.question import Question
    from transports.soar.core.server.replies import Replies
    from transports.soar.core.server.settings import ServerSettings

__all__ = ("Keeper",)

UNCONFIRMED_LIFE: Final = 40.0  # seconds, SPEC 15.2
REPEATS_LIFE: Final = 10.0  # seconds of silence after which answers are no longer kept for repeats
SCARCE_SEALED: Final = 64 << 10  # octets that a session keeps for repeats while memory is short
MAX_ZONES_OCTETS: Final = 180  # of a ZONES frame: it has to fit the smallest answer to a poll

# A session can hold, at most: 2 MB to send, 1 MB for repeats, 1 MB received and not yet read.
_LIMITS: Final = Limits(most_stream_window=1 << 20, most_session_window=1 << 20)
_SCARCE_LIMITS: Final = Limits(
    stream_window=32 << 10,
    session_window=64 << 10,
    most_stream_window=32 << 10,
    most_session_window=64 << 10,
)
_INSTANTLY: Final = 1e-6  # seconds; what is due so soon is due now, whatever floats make of sums


class Keeper:
    """All sessions of a server, and the memory of those that were.

    Attributes:
        replies: where answers go.
        deadlines: what has to be done later.
        events: what the program around the server has not been told yet.
        table: the sessions.
        tombstones: the ends.
        early: packets whose first message has not come.
        is_shutting_down: whether no session may begin any more.
        memory: octets that sessions hold, together.
        ends: how many sessions ended, by reason.
    """

    def __init__(
        self,
        settings: ServerSettings,
        *,
        entropy: Callable[[int], bytes],
        replies: Replies,
        deadlines: Deadlines,
        now: Instant,
    ) -> None:
        """Begin with none."""
        self._settings = settings
        self._entropy = entropy
        self._receipt_secret = entropy(32)
        self._book = GrantBook(settings.grants)
        self._ready: dict[bytes, None] = {}
        self._zone_indices, self._zones_frames = _number_zones(settings)
        self.replies = replies
        self.deadlines = deadlines
        self.events: deque[ServerEvent] = deque()
        self.table: SessionTable[Session] = SessionTable(settings.max_sessions)
        self.tombstones = Tombstones(began=now.elapsed)
        self.early = EarlyPackets(deadlines, dismiss=replies.empty)
        self.is_shutting_down = False
        self.memory = 0
        self.ends = {code.name.lower(): 0 for code in EndCode if code is not EndCode.OTHER}

    # --- the door -----------------------------------------------------------------------------

    def welcome(self, sid: bytes) -> bytes | None:
        """Return what fragments of a session's first message are answered, or None if there's no such session."""
        session = self.table.get(sid)
        return None if session is None else session.welcome

    def has_ended(self, sid: bytes, now: Instant) -> bool:
        """Return whether a session of that name is known to have ended."""
        return self.tombstones.get(sid, now) is not None

    def status(self, first: First, question: Question, now: Instant) -> Status:
        """Return whether a first message may begin a session: its credential, then the server's own state."""
        if self._settings.needs_grant:
            status = self._book.check(first, now.wall)
            if status is not Status.WELCOME:
                return status
        if self.is_shutting_down:
            return Status.SHUTTING_DOWN
        if self._is_full or not self.table.has_room(prefix_of(question.source.address)):
            return Status.CAPACITY
        return Status.WELCOME

    def begin(
        self, first: First, question: Question, now: Instant, *, may_execute: bool, known_for: float
    ) -> bytes:
        """Begin a session, whose first frames wait for `greet`; return what its fragments are answered."""
        prefix = prefix_of(question.source.address)
        victim = self.table.victim(prefix)
        if victim is not None:
            self.end(victim, EndCode.CAPACITY, now)
        shown = first.claims.grant
        grant = self._book.get(shown[0]) if self._settings.needs_grant and shown else None
        limits = _SCARCE_LIMITS if self.is_short else _LIMITS
        terms = Terms(
            status=Status.WELCOME,
            time=int(now.wall),
            early_refused=not may_execute,
            known_for=known_for,
            idle_timeout=self._settings.idle_timeout,
            lease=0 if grant is None else grant.lease(now.wall),
            max_streams=self._settings.max_streams,
            stream_window=limits.stream_window,
            session_window=limits.session_window,
            status_key=self._settings.key.status_key(first.sid),
        )
        welcome = first.answer(terms, entropy=self._entropy)
        session = Session(
            self,
            sid=first.sid,
            prefix=prefix,
            seals=first.seals,
            zone_indices=self._zone_indices[question.zone.wire],
            welcome=welcome,
            streams=SessionStreams(self, first.sid, limits=limits, grant=grant),
            receipt_secret=self._receipt_secret,
            may_execute=may_execute,
            now=now,
        )
        self.table.add(session)
        self._look_after(session, now)
        self._mind_lease(session, now)
        self.emit(SessionStarted(session.sid, None if grant is None else grant.grant.id))
        zones = self._zones_frames[question.zone.wire]
        if zones is not None:
            session.streams.table.queue(zones)
        return welcome

    def greet(self, first: First, now: Instant) -> None:
        """Execute what came with a first message that has begun a session, and what came before it."""
        session = self.table.get(first.sid)
        early = self.early.take(first.sid)
        if session is not None and session.may_execute:
            code = session.execute(first.claims.frames, 0, 0, now)
            if code is not None:
                self.end(session, code, now)
        for arrival, is_waiting in early:
            if session is not None and not session.is_over:
                session.receive(arrival, now, is_waiting=is_waiting)
            elif is_waiting:
                self.replies.empty(arrival.question)
        if session is not None:
            self.account(session)

    # --- sessions -----------------------------------------------------------------------------

    @property
    def is_short(self) -> bool:
        """Whether sessions hold so much that they have to do with less."""
        return self.memory > self._settings.memory

    @property
    def _is_full(self) -> bool:
        """Whether memory is so short that somebody has to go."""
        return self.memory > 2 * self._settings.memory

    def confirm(self, session: Session) -> None:
        """Note that a session's first data packet has come."""
        self.table.confirm(session)

    def deny(self, session: Session, question: Question, now: Instant) -> None:
        """Answer a packet that another process welcomed, under the SID of `session`, as if that weren't there."""
        notice = Notice(EndCode.UNKNOWN, self.known_for(now), None)
        self.replies.notice(question, self._settings.key.status_key(session.sid), notice)

    def keep_repeats(self, session: Session, now: Instant) -> None:
        """See to it that a session which falls silent doesn't keep its last answers."""
        when = now.awake + REPEATS_LIFE
        if session.alarm is not None and session.alarm.when > when:
            self.deadlines.cancel(session.alarm)
            session.alarm = self.deadlines.set(when, lambda later: self._look_after(session, later))

    def sealed_allowance(self, session: Session) -> int:  # noqa: ARG002 - the same for all
        """Return how many octets of answers a session may keep for repeats."""
        return SCARCE_SEALED if self.is_short else MAX_SEALED

    def emit(self, event: ServerEvent) -> None:
        """Tell the program around the server."""
        self.events.append(event)

    def wake(self, sid: bytes) -> None:
        """Note that a session may have something to say to its parked questions."""
        self._ready[sid] = None

    def account(self, session: Session) -> None:
        """Count anew what a session holds."""
        octets = 0 if session.is_over else session.octets
        self.memory += octets - session.counted
        session.counted = octets

    def pump(self, now: Instant) -> None:
        """Have sessions answer parked questions for which there is something now.

        What they hold is counted here. When it is too much, one that holds more than its share has to go.
        """
        while self._ready:
            ready, self._ready = self._ready, {}
            for sid in ready:
                session = self.table.get(sid)
                if session is not None:
                    if session.parking.parks:
                        session.pump(now)
                    session.streams.feed()
                    self.account(session)
                    if self._is_full and session.counted > self._settings.memory // len(self.table):
                        self.end(session, EndCode.CAPACITY, now)

    def notice(self, sid: bytes, now: Instant) -> Notice:
        """Return what is to be said of a session that isn't in the table (SPEC 15.4)."""
        known_for = self.known_for(now)
        stone = self.tombstones.get(sid, now)
        if stone is None:
            return Notice(EndCode.UNKNOWN, known_for, None)
        return Notice(EndCode(stone.code), known_for, stone.last_stream)

    def known_for(self, now: Instant) -> float:
        """Return for how many seconds back every end is remembered."""
        return min(self._settings.idle_timeout, self.tombstones.memory(now))

    def end(self, session: Session, code: EndCode, now: Instant) -> None:
        """End a session, tell whom it may concern, and remember it unless that is needless (SPEC 15.2, 15.3)."""
        session.finish(code, now)
        session.streams.end()
        self.table.remove(session)
        self._ready.pop(session.sid, None)
        for alarm in (session.alarm, session.lease_alarm):
            if alarm is not None:
                self.deadlines.cancel(alarm)
        self.account(session)
        # Of one that did nothing, and whose answer nobody has shown to have, nothing may be told: its client may have
        # been welcomed by an earlier process, which did more (SPEC 15.3).
        if code is not EndCode.UNKNOWN and (session.is_confirmed or session.has_executed):
            self.tombstones.add(session.sid, code, session.streams.last_stream, now)
        self.ends[code.name.lower()] += 1
        self.emit(SessionEnded(session.sid, code))

    def end_all(self, code: EndCode, now: Instant) -> None:
        """End all sessions."""
        for session in self.table:
            self.end(session, code, now)

    def _look_after(self, session: Session, now: Instant) -> None:
        """End a session that has been silent for too long, or was never confirmed; else look again when it may be."""
        silent = now.elapsed - session.asked
        left = self._settings.idle_timeout - silent
        if left <= _INSTANTLY:
            self.end(session, EndCode.UNKNOWN, now)
            return
        if not session.is_confirmed:
            left = min(left, session.began + UNCONFIRMED_LIFE - now.elapsed)
            if left <= _INSTANTLY:
                self.end(session, EndCode.CAPACITY, now)
                return
        if session.records.sealed_octets:
            if silent >= REPEATS_LIFE - _INSTANTLY:
                session.records.drop_sealed()
                self.account(session)
            else:
                left = min(left, REPEATS_LIFE - silent)
        session.alarm = self.deadlines.set(
            now.awake + left, lambda later: self._look_after(session, later)
        )

    # --- credentials --------------------------------------------------------------------------

    def revoke(self, grant_id: bytes, now: Instant) -> None:
        """Take a grant back, and end the sessions that showed it."""
        self._book.revoke(grant_id)
        for session in self.table:
            grant = session.streams.grant
            if grant is not None and grant.grant.id == grant_id:
                self.end(session, EndCode.REVOKED, now)

    def set_grants(self, grants: Iterable[IssuedGrant], now: Instant) -> None:
        """Know these grants and no others; sessions end or get a new lease accordingly."""
        self._book = GrantBook(grants)
        for session in self.table:
            old = session.streams.grant
            if old is None:
                continue
            grant = self._book.get(old.grant.id)
            if grant is None or grant.is_revoked:
                self.end(session, EndCode.REVOKED, now)
            elif grant.has_expired(now.wall):
                self.end(session, EndCode.EXPIRED, now)
            else:
                session.streams.grant = grant
                if grant.expires != old.expires:
                    session.streams.table.queue(Lease(grant.lease(now.wall)))
                    self.wake(session.sid)
                    self._mind_lease(session, now)

    def _mind_lease(self, session: Session, now: Instant) -> None:
        """End a session whose grant has expired, or look again when it will have."""
        if session.lease_alarm is not None:
            self.deadlines.cancel(session.lease_alarm)
            session.lease_alarm = None
        grant = session.streams.grant
        if grant is None or grant.expires is None:
            return
        left = grant.expires - now.wall
        if left <= _INSTANTLY:
            self.end(session, EndCode.EXPIRED, now)
            return
        session.lease_alarm = self.deadlines.set(
            now.awake + left, lambda later: self._mind_lease(session, later)
        )


def _number_zones(
    settings: ServerSettings,
) -> tuple[dict[bytes, dict[bytes, int]], dict[bytes, Zones | None]]:
    """Return, for each zone of a handshake, the indices of all zones in it, and the frame that tells the client."""
    indices: dict[bytes, dict[bytes, int]] = {}
    frames: dict[bytes, Zones | None] = {}
    wires = [zone.wire for zone in settings.zones.all]
    for first in wires:
        others = [wire for wire in wires if wire != first]
        indices[first] = {wire: index for index, wire in enumerate([first, *others])}
        told: list[tuple[int, bytes]] = []
        octets = 2
        for wire in others:
            octets += 2 + len(wire)
            if octets > MAX_ZONES_OCTETS:
                break
            told.append((indices[first][wire], wire))
        frames[first] = Zones(tuple(told)) if told else None
    return indices, frames
