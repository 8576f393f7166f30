"""Whether a dial whose session is over may be tried anew (SPEC 16)."""

from __future__ import annotations

from typing import Final, NamedTuple

from transports.soar.core.client.reasons import Failure
from transports.soar.core.crypto.notices import EndCode, Notice

__all__ = ("Verdict", "is_proven", "judge")

# A new session is of no use: the server, or its operator, does not want this client now.
_FINAL_CODES: Final = frozenset({EndCode.OPERATOR, EndCode.REVOKED, EndCode.EXPIRED})


class Verdict(NamedTuple):
    """What becomes of a dial.

    Attributes:
        repair: whether it is tried anew.
        proven: whether the target certainly got nothing of it.
    """

    repair: bool
    proven: bool


def is_proven(
    notice: Notice,
    *,
    stream: int,
    first_sent: float | None,
    received: float,
    executed_from: float = float("-inf"),
) -> bool:
    """Return whether the target has got nothing of `stream` through the session, and never will.

    Args:
        notice: what the server said; an END has no `known_for`, and says 0.
        stream: its number in that session.
        first_sent: when an octet of it was first sent, elapsed clock; `None` if none was.
        received: when the notice came, elapsed clock.
        executed_from: what was first sent before, elapsed clock, an earlier process may have executed.
    """
    if first_sent is None:
        return True
    if notice.code is EndCode.UNKNOWN:
        return first_sent >= received - notice.known_for  # SPEC 16.2
    is_above = notice.last_stream is None or stream > notice.last_stream
    return is_above and first_sent >= executed_from  # SPEC 16.3


def judge(
    failure: Failure, code: int | None, *, proven: bool, replay_safe: bool, repairs_left: int
) -> Verdict:
    """Return what becomes of a dial whose session ended with `failure` and `code` before its stream was open."""
    if failure is Failure.LOST:
        may = True
    elif failure is Failure.ENDED:
        may = code not in _FINAL_CODES
    else:
        # Silence is no news of the session, and a rejected credential stays rejected.
        may = False
    return Verdict(may and repairs_left > 0 and (proven or replay_safe), proven)
