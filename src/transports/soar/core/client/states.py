"""The states of a session, and which may follow which (SPEC 14.4)."""

from __future__ import annotations

from enum import Enum
from typing import Final

from racer.errors import LocalProtocolError

__all__ = ("FINAL", "OPENABLE", "RETIRED", "TRANSITIONS", "Retired", "SessionState", "follow")


class SessionState(Enum):
    """Where a session is in its life."""

    HANDSHAKING = "handshaking"
    LIVE = "live"
    IDLE = "idle"
    DRAINING = "draining"
    RETIRED = "retired"
    ENDED = "ended"
    LOST = "lost"
    CLOSED = "closed"


_S = SessionState

TRANSITIONS: Final = {
    _S.HANDSHAKING: frozenset({_S.LIVE, _S.IDLE, _S.ENDED, _S.LOST, _S.CLOSED}),
    _S.LIVE: frozenset({_S.IDLE, _S.DRAINING, _S.ENDED, _S.LOST, _S.CLOSED}),
    _S.IDLE: frozenset({_S.LIVE, _S.DRAINING, _S.RETIRED, _S.ENDED, _S.LOST, _S.CLOSED}),
    _S.DRAINING: frozenset({_S.ENDED, _S.LOST, _S.CLOSED}),
    _S.RETIRED: frozenset[_S](),
    _S.ENDED: frozenset[_S](),
    _S.LOST: frozenset[_S](),
    _S.CLOSED: frozenset[_S](),
}
"""What may follow each state."""

FINAL: Final = frozenset(state for state, after in TRANSITIONS.items() if not after)
OPENABLE: Final = frozenset({_S.HANDSHAKING, _S.LIVE, _S.IDLE})
"""The states in which a stream may be opened."""


def follow(before: SessionState, after: SessionState) -> SessionState:
    """Return `after`.

    Raises:
        LocalProtocolError: `after` may not follow `before`.
    """
    if after not in TRANSITIONS[before]:
        msg = f"a session that is {before.value} cannot become {after.value} (SPEC 14.4)"
        raise LocalProtocolError(msg)
    return after


class Retired:
    """What `Session.try_open` says instead of a stream's number: take another session (S7)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "RETIRED"


RETIRED: Final = Retired()
