"""When to ask without having anything to say (SPEC 13.1 to 13.3)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from transports.soar.core.client.questions import IN_FLIGHT

if TYPE_CHECKING:
    from transports.soar.core.client.questions import Question

__all__ = ("FRESH_POLLS", "FreshPolls", "Polls")

FRESH_POLLS: Final = 2
"""New polls that a target finds when stream octets reach it."""
# A server ends a park after 0.25 s at the earliest (SPEC 13.4), counted from when it came there.
_FRESH_S: Final = 0.2

ACTIVE_S: Final = 2.0
"""How long after stream octets came or went two polls are kept out."""
FIRST_PAUSE_S: Final = 0.1
MOST_PAUSE_S: Final = 1.4
LINGER: Final = 3
"""Questions that may follow a session's last activity."""
_PAUSES_IN_A_LIFE: Final = (
    8  # that a server's idle timeout has room for: some may be lost, with what they take
)
_LINGER_TIMEOUTS: Final = 2
_MOST_LINGER_S: Final = 8.0
_AHEAD: Final = 2  # questions kept out beyond the backlog


class Polls:
    """How many questions a session owes its server; times are seconds of the awake clock.

    Attributes:
        backlog: full answers that the server could fill, as the newest answer said.
        most_pause: the longest pause after an empty answer.
    """

    __slots__ = (
        "_active_until",
        "_linger",
        "_linger_until",
        "_pause",
        "_paused_until",
        "backlog",
        "most_pause",
    )

    def __init__(self) -> None:
        self.backlog = 0
        self.most_pause = MOST_PAUSE_S
        self._active_until = float("-inf")
        self._pause = FIRST_PAUSE_S
        self._paused_until = float("-inf")
        self._linger = 0
        self._linger_until = float("-inf")

    def outpace(self, idle_timeout: float) -> None:
        """Ask often enough for a server that ends what is silent for `idle_timeout` seconds."""
        self.most_pause = min(MOST_PAUSE_S, idle_timeout / _PAUSES_IN_A_LIFE)

    def moved(self, now: float) -> None:
        """Note that stream octets came or went."""
        self._active_until = now + ACTIVE_S
        self._pause = FIRST_PAUSE_S
        self._paused_until = now

    def answered(self, now: float, *, backlog: int, is_empty: bool) -> None:
        """Take an authentic answer; pause after an empty one while little happens."""
        self.backlog = backlog
        if is_empty and not backlog and now >= self._active_until:
            pause = min(self._pause, self.most_pause)
            self._paused_until = now + pause
            self._pause = 2 * pause

    def fell_idle(self, now: float, timeout: float) -> None:
        """Begin to linger: the session is no longer busy; `timeout` is a probe timeout in seconds."""
        self.backlog = 0
        self._linger = LINGER
        self._linger_until = now + min(_LINGER_TIMEOUTS * timeout, _MOST_LINGER_S)

    def lingers(self, now: float) -> bool:
        """Whether a session that isn't busy may still ask."""
        return self._linger > 0 and now < self._linger_until

    def lingered(self) -> None:
        """Note that it did."""
        self._linger -= 1

    def floor(self, now: float) -> int:
        """Return how many questions that may park a busy session keeps out, whatever the backlog."""
        if now < self._active_until:
            return 2
        return 0 if now < self._paused_until else 1

    def wanted(self, now: float, *, outstanding: int, parked: int, window: int) -> int:
        """Return how many polls a busy session is to send now.

        Args:
            now: when.
            outstanding: its questions that are neither answered nor lost, over all paths.
            parked: those of them that may park.
            window: how many its paths bear in all.
        """
        return max(
            self.floor(now) - parked,
            min(window, self.backlog + _AHEAD) - outstanding if self.backlog else 0,
        )

    def deadline(self, now: float, parked: int) -> float | None:
        """Return when a busy session with `parked` questions out may want another poll, without an answer."""
        return self._paused_until if not parked and now < self._paused_until else None


class FreshPolls:
    """The newest questions that may park.

    What is parked for longer may be answered, with nothing, before the target says anything to the octets that go now.
    """

    __slots__ = ("_newest",)

    def __init__(self) -> None:
        self._newest: deque[Question] = deque(maxlen=FRESH_POLLS)

    def sent(self, question: Question) -> None:
        """Note that `question`, which may park, is sent."""
        self._newest.append(question)

    def wanted(self, now: float) -> int:
        """Return how many have to go with stream octets that are sent now (SPEC 13.2)."""
        oldest = now - _FRESH_S
        return FRESH_POLLS - sum(
            question.fate is IN_FLIGHT and question.sent_at > oldest for question in self._newest
        )
