"""When which pieces of a first message are sent (SPEC 7.3, 7.5): one flight, and then others in other forms."""

from __future__ import annotations

from typing import Final, NamedTuple

from transports.soar.core.dns.answers import Form

__all__ = ("FIRST_TIMEOUT_S", "Flight", "Wave")

FIRST_TIMEOUT_S: Final = 0.4
"""How long a path without any answer is waited for before the next form is tried beside the first."""

_HURRIES: Final = 3  # waves in a handshake that an explicit failure may bring forward
_SLOW_S: Final = 0.5  # between questions once nothing has come for long: two a second (SPEC 12.5)


class Wave(NamedTuple):
    """One sending of the whole first message, or of the same in two forms.

    Attributes:
        forms: in which it is asked.
        is_long: whether it goes as one piece in a long name, instead of pieces with one label each.
    """

    forms: tuple[Form, ...]
    is_long: bool = False


_FIRST: Final = (
    Wave((Form.DS,)),
    # Most often a piece was lost. If not, DS is blocked here.
    Wave((Form.DS, Form.TXT)),
    Wave((Form.SOA,)),
)
# From 1.2 s on: one piece can neither be lost apart from others nor be mixed with an observer's.
_THEN: Final = (
    Wave((Form.TXT,), is_long=True),
    Wave((Form.DS,), is_long=True),
    Wave((Form.DS,)),
    Wave((Form.SOA,), is_long=True),
    Wave((Form.TXT,)),
)
_PIECES: Final = 3  # of a first message, about


class Flight:
    """The waves of one handshake; times are seconds of the awake clock.

    Args:
        now: when it begins.

    Attributes:
        count: waves sent so far.
        next_at: when the next one is due.
    """

    __slots__ = ("_hurries", "_may_hurry", "count", "next_at")

    def __init__(self, now: float) -> None:
        self.count = 0
        self.next_at = now
        self._hurries = _HURRIES
        self._may_hurry = False

    def take(self, now: float, timeout: float) -> Wave:
        """Return the wave that is due now, and set when the next one is.

        Args:
            now: when.
            timeout: the probe timeout of the path that it is sent on.
        """
        count = self.count
        self.count = count + 1
        self._may_hurry = True
        if count < len(_FIRST):
            self.next_at = now + timeout
            return _FIRST[count]
        wave = _THEN[(count - len(_FIRST)) % len(_THEN)]
        questions = 1 if wave.is_long else _PIECES * len(wave.forms)
        self.next_at = now + max(timeout, _SLOW_S * questions)
        return wave

    def hurry(self, now: float) -> bool:
        """Bring the next wave forward, since a question of the last one failed openly; return whether it is.

        Once for each wave, and at most three times: whoever forges failures makes no flood of it.
        """
        if not self._may_hurry or not self._hurries or now >= self.next_at:
            return False
        self._may_hurry = False
        self._hurries -= 1
        self.next_at = now
        return True
