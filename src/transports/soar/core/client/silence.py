"""How fast a path may be asked that does not answer (SPEC 12.5, 12.7)."""

from __future__ import annotations

from typing import Final

__all__ = ("Silence",)

SLOW_AFTER: Final = 3  # probe timeouts without an authentic answer
SLOW_S: Final = 0.5
DEAD_AFTER: Final = 6  # the same, while another path has answers
_FIRST_PROBE_S: Final = 2.0
_MOST_PROBE_S: Final = 30.0
# A path that was not asked for so long gets a new chance. One with a full window is asked at probe timeouts alone (11.3),
# so it is longer than those.
_FRESH_START_S: Final = 6.0
_ROOM: Final = 3  # questions before silence means anything


class Silence:
    """How long one path has been asked in vain; times are seconds of the awake clock.

    Attributes:
        is_trusted: whether too little was asked since the last answer for silence to mean anything.
        is_dead: whether it has been silent for so long, while another path has answers, that it is only probed.
    """

    __slots__ = ("_asked", "_fresh_after", "_last", "_probe_s", "_since", "is_dead", "is_trusted")

    def __init__(self) -> None:
        self.is_dead = False
        self.is_trusted = True
        self._since: float | None = None  # since when there are questions without an answer
        self._last = float("-inf")
        self._asked = 0
        self._probe_s = _FIRST_PROBE_S
        self._fresh_after = 0.0

    def sent(self, now: float) -> None:
        """Note that a question is sent."""
        if self._since is None or (not self.is_dead and now - self._last > _FRESH_START_S):
            self._since = self._fresh_after = now
            self._asked = 0
        elif self.is_dead:
            self._probe_s = min(2 * self._probe_s, _MOST_PROBE_S)
        self._asked += 1
        self.is_trusted = self._asked < _ROOM
        self._last = now

    def answered(self, now: float, in_flight: int) -> None:
        """Take an authentic answer, which leaves so many questions without one: they count from now on."""
        self._asked = in_flight
        self.is_trusted = in_flight < _ROOM
        self._since = None if self.is_trusted else now
        self.is_dead = False
        self._probe_s = _FIRST_PROBE_S

    def probes_missed(self, now: float, timeout: float) -> int:
        """Return how many probe timeouts of `timeout` seconds the path has been asked in vain."""
        if self._since is None or self.is_trusted:
            return 0
        return int((max(now, self._last) - self._since) / timeout)

    def judge(self, now: float, timeout: float, *, others_answer: bool) -> bool:
        """Decide whether the path is dead; return whether it has just died."""
        if self.is_dead and not others_answer:
            self.is_dead = False
        elif not self.is_dead and others_answer and self.probes_missed(now, timeout) >= DEAD_AFTER:
            self.is_dead = True
            return True
        return False

    def is_slow(self, now: float, timeout: float) -> bool:
        """Whether three probe timeouts have passed in vain."""
        is_asked = now - self._last <= _FRESH_START_S
        return is_asked and self.probes_missed(now, timeout) >= SLOW_AFTER

    def slow_at(self, now: float, timeout: float) -> float | None:
        """Return when it becomes slow if nothing comes until then; `None` if it is, or is not being asked."""
        if self._since is None or self.is_trusted or self.is_slow(now, timeout):
            return None
        at = self._since + SLOW_AFTER * timeout
        return at if at > now else None

    def is_rested(self, now: float) -> bool:
        """Whether it has not been asked for as long as lies between the questions to a slow path."""
        return now >= self.rested_at

    @property
    def rested_at(self) -> float:
        """From when on it is."""
        return self._last + SLOW_S

    def next_question(self, now: float, timeout: float) -> float:
        """Return when the next question may be sent; the past if at once."""
        if self.is_dead:
            return self._last + self._probe_s
        return self._last + SLOW_S if self.is_slow(now, timeout) else now

    def wants_fresh_socket(self, now: float, timeout: float) -> bool:
        """Whether to use a new source port from the next question on; true once in three probe timeouts of silence."""
        if self.probes_missed(now, timeout) < SLOW_AFTER:
            return False
        if now - self._fresh_after < SLOW_AFTER * timeout:
            return False
        self._fresh_after = now
        return True
