"""How long a session is used (SPEC 14): by elapsed time for its age, by awake time and evidence for its liveness."""

from __future__ import annotations

from typing import Final

__all__ = (
    "HANDSHAKE_S",
    "MOST_AGE_S",
    "Liveness",
    "draw_session_idle",
    "has_expired",
)

HANDSHAKE_S: Final = 30.0
"""Time after which a handshake without a proven answer is lost: silent if it was awake (SPEC 14.5)."""
MOST_AGE_S: Final = 24 * 3600.0
"""Elapsed time after which a session takes no new stream (SPEC 14.7)."""

_SPREAD: Final = 0.1
_QUESTIONS: Final = 10
_OPENING_S: Final = 15.0
_ESTABLISHED_S: Final = 60.0


def draw_session_idle(session_idle: float, idle_timeout: float, chance: float) -> float:
    """Return after how many seconds without activity this session is retired (SPEC 14.3).

    Args:
        session_idle: as wished for.
        idle_timeout: after how many seconds of silence the server ends a session.
        chance: 0 to 1; spreads the result over 10 % to either side, so that a crowd of clients doesn't move in step.
    """
    most = (idle_timeout - min(10.0, idle_timeout / 4)) / (1 + _SPREAD)
    return min(session_idle, most) * (1 - _SPREAD + 2 * _SPREAD * chance)


def has_expired(elapsed: float, activity: float, session_idle: float, *, is_busy: bool) -> bool:
    """Return whether a session is to be retired instead of used; both times on the elapsed clock."""
    return not is_busy and elapsed - activity >= session_idle


class Liveness:
    """The evidence that a session's questions get no answers; times are seconds of the awake clock."""

    __slots__ = ("_since", "asked")

    def __init__(self) -> None:
        self.asked = 0
        self._since = 0.0

    def sent(self, now: float, count: int = 1) -> None:
        """Note questions."""
        if not self.asked:
            self._since = now
        self.asked += count

    def answered(self) -> None:
        """Take an authentic answer."""
        self.asked = 0

    def deadline(self, *, is_established: bool) -> float | None:
        """Return when the session is lost if nothing comes until then; `None` while too little was asked."""
        if self.asked < _QUESTIONS:
            return None
        return self._since + (_ESTABLISHED_S if is_established else _OPENING_S)
