"""The sessions of one client: which one a stream is opened on, and when another is made (S5, S7, S13, S15)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from transports.soar.core.client.session import Session
from transports.soar.core.client.states import OPENABLE, SessionState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from transports.soar.core.client.dice import Dice
    from transports.soar.core.client.events import ClientEvent
    from transports.soar.core.client.path import Path
    from transports.soar.core.client.reasons import Over
    from transports.soar.core.client.settings import ClientSettings
    from transports.soar.core.crypto.grants import Grant
    from transports.soar.core.dns.zone import Zone
    from transports.soar.core.instants import Instant

__all__ = ("MOST_SESSIONS", "SessionPool")

MOST_SESSIONS: Final = 16
"""Sessions that are not over, at once."""


class SessionPool:
    """Sessions, and the credential that new ones show.

    Args:
        settings, paths, dice: the client's.
        emit: takes events.
        on_over: is told of every session's end, after it has left the pool.

    Attributes:
        sessions: those that are not over, oldest first.
        generation: of the credential; a change makes a new one.
    """

    __slots__ = (
        "_count",
        "_dice",
        "_emit",
        "_grant",
        "_on_over",
        "_paths",
        "_settings",
        "_shunned",
        "generation",
        "sessions",
    )

    def __init__(
        self,
        settings: ClientSettings,
        *,
        paths: Mapping[int, Path],
        dice: Dice,
        emit: Callable[[ClientEvent], None],
        on_over: Callable[[Over, Instant], None],
    ) -> None:
        self.sessions: list[Session] = []
        self.generation = 0
        self._settings = settings
        self._paths = paths
        self._dice = dice
        self._emit = emit
        self._on_over = on_over
        self._grant = settings.grant
        self._count = 0
        self._shunned: Zone | None = None  # of the last handshake that nothing came of

    def acquire(self, now: Instant) -> Session | None:
        """Return a session to open a stream on: the freshest, one that shakes hands, or a new one.

        `None` if there can be no other. What is too old is retired, what is worn drains. Whether the session is still
        good is asked again by `Session.try_open`, since others may act before.
        """
        usable: list[Session] = []
        for session in tuple(self.sessions):
            if session.state not in OPENABLE or session.generation != self.generation:
                continue
            if session.has_expired(now):
                session.retire(now)
            elif session.is_worn(now):
                session.drain("worn out", now)
            elif session.table.can_open():
                usable.append(session)
        if usable:
            return max(usable, key=_freshness)
        return self._make(now)

    def best(self) -> Session | None:
        """Return the freshest session that is established and takes streams."""
        established = (SessionState.LIVE, SessionState.IDLE)
        usable = [
            session
            for session in self.sessions
            if session.state in established and session.generation == self.generation
        ]
        return max(usable, key=_freshness, default=None)

    def change_credential(self, grant: Grant | None, now: Instant) -> None:
        """Show `grant` from here on; no stream is opened on older sessions, which drain (SPEC 17.2)."""
        self._grant = grant
        self.generation += 1
        for session in tuple(self.sessions):
            session.drain("the credential changed", now)

    def welcomed(self, session: Session, now: Instant) -> None:
        """Let a session drain at once whose credential changed while it shook hands."""
        if session.generation != self.generation:
            session.drain("the credential changed", now)

    def close(self, now: Instant) -> None:
        """Close every session."""
        for session in tuple(self.sessions):
            session.close(now)

    def forget(self) -> None:
        """Drop every session without a word: they belong to another process (SPEC 14.8)."""
        self.sessions.clear()

    def _make(self, now: Instant) -> Session | None:
        zone = self._zone()
        if zone is None or len(self.sessions) >= MOST_SESSIONS:
            return None
        self._count += 1
        session = Session(
            number=self._count,
            zone=zone,
            grant=self._grant,
            generation=self.generation,
            settings=self._settings,
            paths=self._paths,
            dice=self._dice,
            emit=self._emit,
            on_over=self._leave,
            now=now,
        )
        self.sessions.append(session)
        return session

    def _zone(self) -> Zone | None:
        """Return the zone of the path that answers soonest; another one after a handshake in it came to nothing."""
        paths = sorted(self._paths.values(), key=lambda path: (not path.is_known, path.expected()))
        zones = [path.zone for path in paths]
        others = [zone for zone in zones if zone != self._shunned]
        return next(iter(others or zones), None)

    def _leave(self, over: Over, now: Instant) -> None:
        session = over.session
        if session in self.sessions:
            self.sessions.remove(session)
            if not session.is_established:
                self._shunned = session.zone
            self._on_over(over, now)


def _freshness(session: Session) -> tuple[bool, float]:
    return session.is_established, session.activity
