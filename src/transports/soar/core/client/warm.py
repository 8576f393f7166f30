"""One session that is kept confirmed, so that the next dial need not wait for a handshake (S14, SPEC 14.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from transports.soar.core.client.events import WarmFailed
from transports.soar.core.client.reasons import Failure
from transports.soar.core.client.states import OPENABLE, SessionState

if TYPE_CHECKING:
    from collections.abc import Callable

    from transports.soar.core.client.dice import Dice
    from transports.soar.core.client.events import ClientEvent
    from transports.soar.core.client.pool import SessionPool
    from transports.soar.core.client.reasons import Over
    from transports.soar.core.client.session import Session
    from transports.soar.core.instants import Instant

__all__ = ("WarmKeeper",)

FIRST_DELAY_S: Final = 1.0
MOST_DELAY_S: Final = 30.0
_MOST_DOUBLINGS: Final = 5

# How much of `session_idle` passes before a sign of life is asked for; what is left is for new tries.
_PING_AFTER: Final = 0.6


class WarmKeeper:
    """Keeps one session of a pool confirmed.

    A refresh that fails for a passing reason leaves what was confirmed in use, marked stale, and is tried again after
    1, 2, 4 … 30 s, each time with full jitter: anywhere between nothing and that. A permanent failure, or `max_stale`
    seconds without confirmation, drops it.

    Args:
        pool: whose sessions.
        max_stale: seconds, elapsed clock.
        dice: for the jitter.
        emit: takes events.

    Attributes:
        session: what is confirmed; `None` while nothing is.
        is_stale: whether the last refresh failed.
        failures: how many did in a row.
        next_at: when the next one is due, awake clock; `None` while none is.
    """

    __slots__ = (
        "_dice",
        "_emit",
        "_is_on",
        "_max_stale",
        "_pinged",
        "_pool",
        "failures",
        "is_stale",
        "next_at",
        "session",
    )

    def __init__(
        self,
        pool: SessionPool,
        *,
        max_stale: float,
        dice: Dice,
        emit: Callable[[ClientEvent], None],
    ) -> None:
        self._pool = pool
        self._max_stale = max_stale
        self._dice = dice
        self._emit = emit
        self._is_on = False
        self._pinged: float | None = None  # elapsed time of a sign of life asked for and not had
        self.session: Session | None = None
        self.is_stale = False
        self.failures = 0
        self.next_at: float | None = None

    def start(self, now: Instant) -> None:
        """Begin, or begin again after a failure that ended it."""
        if not self._is_on:
            self._is_on = True
            self.next_at = now.awake

    def tick(self, now: Instant) -> None:
        """Take in what happened to the session, and refresh it when that is due."""
        if not self._is_on:
            return
        fresh = self._pool.best()
        if fresh is not None and fresh is not self.session:
            self.session = fresh
            self._confirmed()
        session = self.session
        if session is None:
            if self.next_at is not None and now.awake >= self.next_at:
                self.next_at = None
                self._pool.acquire(now)  # its handshake is everybody's
            return
        if self._pinged is not None and session.activity >= self._pinged:
            self._confirmed()
        if now.elapsed - session.activity >= self._max_stale and not session.is_busy:
            self.session = None
            self._pinged = None
            if session.state is SessionState.IDLE:
                session.retire(now)
            self.next_at = now.awake
            return
        self._refresh(session, now)

    def deadline(self, now: Instant) -> float | None:
        """Return when `tick` has something to do, awake clock, as far as elapsed time passes with it."""
        if not self._is_on:
            return None
        session = self.session
        if session is None:
            return self.next_at
        if self._must_wait(session):
            return None  # what ends the wait is heard of, and may come after `next_at`
        if self.next_at is not None:
            return self.next_at
        if self._pinged is not None:
            return None
        return now.awake + max(0.0, self._due(session) - now.elapsed)

    def session_over(self, over: Over, now: Instant) -> None:
        """Take the end of a session of the pool."""
        if not self._is_on or over.reason.failure is Failure.RETIRED:
            if over.session is self.session:
                self.session = None
                self.next_at = now.awake
            return
        if over.session is self.session:
            self.session = None
            self._pinged = None
            self.is_stale = False
            if over.reason.failure is Failure.CLOSED:
                return
            # The session is dropped at once. Making another is the refresh.
            self.next_at = now.awake + self._delay()
        elif self.session is None and not over.session.is_established:
            self._is_on = False
            self.next_at = None
            self._emit(WarmFailed(error=over.reason))

    def _refresh(self, session: Session, now: Instant) -> None:
        if self._must_wait(session):
            return
        if self._pinged is not None:
            # The question is lost, and nothing else is under way.
            if self.next_at is None:
                self.is_stale = True
                self.next_at = now.awake + self._delay()
            if now.awake < self.next_at:
                return
        elif now.elapsed < self._due(session):
            return
        self.next_at = None
        if session.ping(now):
            self._pinged = now.elapsed
        else:
            self.next_at = now.awake + self._delay()
            self._pinged = now.elapsed

    def _must_wait(self, session: Session) -> bool:
        """Whether a sign of life can neither be asked for nor be given up: in use, ending, or a question under way."""
        if session.state not in OPENABLE or session.is_busy:
            return True
        return self._pinged is not None and bool(session.packets.outstanding)

    def _due(self, session: Session) -> float:
        return session.activity + _PING_AFTER * session.session_idle

    def _confirmed(self) -> None:
        self.is_stale = False
        self.failures = 0
        self.next_at = None
        self._pinged = None

    def _delay(self) -> float:
        most = min(MOST_DELAY_S, FIRST_DELAY_S * (1 << min(self.failures, _MOST_DOUBLINGS)))
        self.failures += 1
        return most * self._dice.fraction()
