"""What is kept of the last attempt, for who diagnoses. Small: it is loaded while a dial waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from racer.abc import Outcome

if TYPE_CHECKING:
    from racer.abc import Attempt
    from racer.errors import ErrorType

__all__ = ("LastAttempt",)

_MAX_CAUSES: Final = 8


@dataclass(frozen=True, slots=True)
class LastAttempt:
    """What came of the last attempt, as the guest was told.

    Attributes:
        is_connected: whether it won.
        error_type: the reason, if it failed.
        words: what its errors say.
    """

    is_connected: bool
    error_type: ErrorType | None = None
    words: str = ""

    @classmethod
    def of(cls, attempt: Attempt) -> LastAttempt:
        """Return what is to be kept of an attempt: its words, and no error that leads to others."""
        said: list[str] = []
        error = attempt.error
        while error is not None and len(said) < _MAX_CAUSES:
            said.append(str(error))
            error = error.__cause__
        connected = attempt.outcome is Outcome.CONNECTED
        return cls(connected, attempt.error_type, "; ".join(said))
