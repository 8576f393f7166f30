"""Which first messages get as far as a handshake (SPEC 7.9, 7.10, 18.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from transports.soar.core.crypto.handshake import clock_error

if TYPE_CHECKING:
    from transports.soar.core.instants import Instant

__all__ = ("KNOWN_FOR", "Calendar", "Rate", "Seen")

HANDSHAKES_BEFORE_COOKIES: Final = 500  # a second, SPEC 18.3
HANDSHAKES_BEFORE_SILENCE: Final = 2_000  # a second, SPEC 18.3
TIME_WINDOW: Final = 90  # seconds that a client's clock may be off, SPEC 7.9
SEEN_FOR: Final = 2 * TIME_WINDOW + 4
"""Seconds, at least, that a first message is remembered: it can be accepted from 90 s before its time until 90 s after,
and 4 s more leave room for whole seconds and a clock that is a little slow."""
KNOWN_FOR: Final = 2.0 * TIME_WINDOW
"""Seconds back to which a server that is old enough knows every first message (SPEC 7.11)."""
CLOCK_SLACK: Final = 1.0  # seconds; a clock set back further counts as a start


class Rate:
    """At most so many in each second of the awake clock."""

    __slots__ = ("_count", "_limit", "_second")

    def __init__(self, limit: int) -> None:
        """Allow `limit` a second."""
        self._limit = limit
        self._second = -1
        self._count = 0

    def take(self, now: Instant) -> bool:
        """Count one and return True, or return False if this second has had its share."""
        second = int(now.awake)
        if second != self._second:
            self._second = second
            self._count = 0
        if self._count >= self._limit:
            return False
        self._count += 1
        return True


class Seen:
    """The first messages of the last three minutes, by SID, in two sets that take turns.

    All that were opened are in it, those too that were rejected or asked for a cookie: each of them may have been
    followed by another for the same dial, so none may begin a session later.
    """

    __slots__ = ("_newer", "_older", "_turned")

    def __init__(self, now: Instant) -> None:
        """Begin empty."""
        self._newer: set[bytes] = set()
        self._older: set[bytes] = set()
        self._turned = now.elapsed

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self._newer) + len(self._older)

    def add(self, sid: bytes, now: Instant) -> None:
        """Remember `sid` for 184 s at least, 368 s at most."""
        self._turn(now)
        self._newer.add(sid)

    def has(self, sid: bytes, now: Instant) -> bool:
        """Return whether `sid` is remembered."""
        self._turn(now)
        return sid in self._newer or sid in self._older

    def _turn(self, now: Instant) -> None:
        age = now.elapsed - self._turned
        if age < SEEN_FOR:
            return
        self._older = self._newer if age < 2 * SEEN_FOR else set()
        self._newer = set()
        self._turned = now.elapsed


class Calendar:
    """What a first message's time says about it.

    A flight that was recorded before the server's start must not be executed, since what was seen then is forgotten
    (SPEC 7.9). After the clock was set back the same flights are of the present again, so that counts as a start too.
    """

    __slots__ = ("_latest", "_start")

    def __init__(self, start: float) -> None:
        """Begin at `start`, in Unix seconds."""
        self._start = start
        self._latest = start

    def is_current(self, time: int, now: Instant) -> bool:
        """Return whether `time` is near enough to the server's clock to be accepted."""
        if now.wall < self._latest - CLOCK_SLACK:
            self._start = max(self._start, self._latest)
        self._latest = max(self._latest, now.wall)
        return abs(clock_error(time, now.wall)) <= TIME_WINDOW

    def may_execute(self, time: int) -> bool:
        """Return whether frames that came with a message of `time` were certainly never executed before the start."""
        return clock_error(time, self._start) > TIME_WINDOW
