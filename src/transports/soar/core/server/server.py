"""A Soar server without IO: DNS messages in; DNS messages, events and the next deadline out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from transports.soar.core.crypto.headers import Kind, read_header
from transports.soar.core.crypto.notices import EndCode
from transports.soar.core.dns.answers import Form
from transports.soar.core.dns.questions import read_copy
from transports.soar.core.dns.zone import Whole
from transports.soar.core.server.arrival import Arrival
from transports.soar.core.server.deadlines import Deadlines
from transports.soar.core.server.door import Door
from transports.soar.core.server.keeper import Keeper
from transports.soar.core.server.question import Question
from transports.soar.core.server.replies import Replies
from transports.soar.core.server.status import ServerCounts, ServerStatus, SessionStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from transports.soar.core.instants import Instant
    from transports.soar.core.server.credentials import IssuedGrant
    from transports.soar.core.server.events import ServerEvent
    from transports.soar.core.server.session import Session
    from transports.soar.core.server.settings import ServerSettings
    from transports.soar.core.server.source import Source

__all__ = ("Server",)

_SOMETIMES: Final = 15  # once in 16 packets is soon enough to count what a session holds
_FORMS: Final = (Form.DS, Form.TXT, Form.SOA)
_FRAGMENT: Final = Kind.FRAGMENT  # an enumeration is slow to ask for its members
_new: Final = tuple.__new__  # what a named tuple's class does, without its own function in between


class Server:
    """A Soar server, as a machine.

    After every call that may have made something to say (a message, a timeout, anything done to a stream or session)
    send what `messages_to_send` returns, take the events, and call `handle_timeout` at `next_timeout`.

    Nothing that a stranger sends makes it raise, grow past its bounds, or stay silent, but for what nothing may be said
    to: responses, and fewer octets than a header has (SPEC 18.1).
    """

    def __init__(
        self,
        settings: ServerSettings,
        *,
        entropy: Callable[[int], bytes],
        now: Instant,
        start: float | None = None,
    ) -> None:
        """Begin.

        Args:
            settings: how to behave.
            entropy: returns so many unpredictable octets.
            now: the time.
            start: since when, in Unix seconds, no other process has served the same key and zones; by default now.
                Flights of before that are not executed (SPEC 7.9).
        """
        self._settings = settings
        self._header_key = settings.key.public.header_key
        self._began = now.elapsed
        self._questions = dict.fromkeys(("fragment", "packet", "stray", "other"), 0)
        self._replies = Replies()
        self._deadlines = Deadlines()
        self._keeper = Keeper(
            settings,
            entropy=entropy,
            replies=self._replies,
            deadlines=self._deadlines,
            now=now,
        )
        self._door = Door(
            self._keeper,
            key=settings.key,
            entropy=entropy,
            replies=self._replies,
            deadlines=self._deadlines,
            now=now,
            start=now.wall if start is None else start,
        )

    # --- messages -----------------------------------------------------------------------------

    def receive_message(self, message: bytes, source: Source, now: Instant) -> None:
        """Take one DNS message, whatever it is."""
        copy = read_copy(message)
        if copy is None:
            return
        located = None if copy.fault else self._settings.zones.read(copy.name)
        found = None if located is None else located[2]
        header = read_header(self._header_key, found.packet) if type(found) is Whole else None
        if located is None or header is None or type(found) is not Whole:
            self._questions["other"] += 1
            self._replies.message(source, self._settings.authority.answer(copy, located))
            return
        form = _FORMS[header.form]
        question = _new(Question, (copy, located[1], source, form, found.number, now.awake))
        arrival = _new(Arrival, (header, found.packet, question))
        if header.kind == _FRAGMENT:
            self._questions["fragment"] += 1
            self._door.receive(arrival, now)
            return
        session = self._keeper.table.get(header.sid)
        if session is None:
            self._questions["stray"] += 1
            self._receive_stray(arrival, now)
            return
        self._questions["packet"] += 1
        session.receive(arrival, now)
        if session.parking.parks or not session.records.highest & _SOMETIMES:
            self._keeper.wake(session.sid)

    def messages_to_send(self, now: Instant) -> list[tuple[Source, bytes]]:
        """Return the messages that are to be sent now, in order, and forget them."""
        self._keeper.pump(now)
        return self._replies.take()

    def _receive_stray(self, arrival: Arrival, now: Instant) -> None:
        """Take a packet whose session isn't there: it has ended, or has not begun, or is unknown (SPEC 15.1, 8.4)."""
        sid = arrival.header.sid
        keeper = self._keeper
        if (
            arrival.header.kind == Kind.EARLY
            and not keeper.has_ended(sid, now)
            and not self._door.has_opened(sid, now)
        ):
            keeper.early.add(sid, arrival, now)
            return
        status_key = self._settings.key.status_key(sid)
        self._replies.notice(arrival.question, status_key, keeper.notice(sid, now))

    # --- time and events ----------------------------------------------------------------------

    def next_timeout(self) -> float | None:
        """Return when `handle_timeout` is to be called, in awake seconds; None for never."""
        return self._deadlines.next()

    def handle_timeout(self, now: Instant) -> None:
        """Do what is due."""
        self._deadlines.ring(now)

    def next_event(self) -> ServerEvent | None:
        """Return the oldest event that was not returned yet, or None."""
        events = self._keeper.events
        return events.popleft() if events else None

    # --- the operator -------------------------------------------------------------------------

    def end(self, sid: bytes, code: EndCode, now: Instant) -> bool:
        """End a session for good, and return whether there was one.

        Its parked questions are answered with the reason, later ones with a notice.
        """
        session = self._keeper.table.get(sid)
        if session is None:
            return False
        self._keeper.end(session, code, now)
        return True

    def sids(self) -> list[bytes]:
        """Return the names of all sessions, the oldest first."""
        return [session.sid for session in self._keeper.table]

    def shutdown(self, now: Instant) -> None:
        """End all sessions and take no more. Keep serving for a moment: clients are told by the answers."""
        self._keeper.is_shutting_down = True
        self._keeper.end_all(EndCode.SHUTDOWN, now)

    def revoke(self, grant_id: bytes, now: Instant) -> None:
        """Take a grant back. Its sessions end with that reason, and it begins no more."""
        self._keeper.revoke(grant_id, now)

    def set_grants(self, grants: Iterable[IssuedGrant], now: Instant) -> None:
        """Know these grants and no others from now on.

        Sessions of grants that are gone or revoked end with that reason; those of changed ones get a new lease.

        Raises:
            ConfigError: two have the same id; nothing is changed then.
        """
        self._keeper.set_grants(grants, now)

    def counts(self) -> ServerCounts:
        """Return the figures that are always at hand; costs the same however many sessions there are."""
        keeper = self._keeper
        return ServerCounts(
            sessions=len(keeper.table),
            octets=keeper.memory,
            questions=dict(self._questions),
            answers=dict(self._replies.counts),
            handshakes=dict(self._door.counts),
            ends=dict(keeper.ends),
        )

    def status(self, now: Instant) -> ServerStatus:
        """Return how the server is."""
        keeper = self._keeper
        for session in keeper.table:
            keeper.account(session)
        return ServerStatus(
            uptime=now.elapsed - self._began,
            known_for=keeper.known_for(now),
            is_shutting_down=keeper.is_shutting_down,
            sessions=tuple(_describe(session, now) for session in keeper.table),
            tombstones=len(keeper.tombstones),
            in_part=self._door.in_part,
            early_packets=len(keeper.early),
            octets=keeper.memory,
            questions=dict(self._questions),
            answers=dict(self._replies.counts),
            handshakes=dict(self._door.counts),
            ends=dict(keeper.ends),
        )


def _describe(session: Session, now: Instant) -> SessionStatus:
    grant = session.streams.grant
    expires = None if grant is None else grant.expires
    return SessionStatus(
        sid=session.sid,
        grant_id=None if grant is None else grant.grant.id,
        age=now.elapsed - session.began,
        idle=now.elapsed - session.asked,
        lease=None if expires is None else max(0.0, expires - now.wall),
        streams=len(session.streams),
        parked=len(session.parking),
        octets=session.octets,
        is_confirmed=session.is_confirmed,
    )
