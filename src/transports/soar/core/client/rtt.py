"""How long an answer takes on one lane: a path's form, with one label or several (SPEC 11.1).

Names of several labels cost some resolvers a second round trip, so they are measured apart: one estimate for both would
call every long name lost.
"""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ("LEAST_WINDOW_S", "RoundTrips")

LEAST_WINDOW_S: Final = 10.0
"""How long the least round trip is remembered (SPEC 12.2)."""

_FIRST_SRTT_S: Final = 0.2  # SPEC 11.5
_FIRST_RTTVAR_S: Final = 0.1
_MARGIN_S: Final = 0.04  # SPEC 11.2 and 11.3


class RoundTrips:
    """The smoothed round trip and its variation (RFC 6298), in seconds, and what follows from them.

    Attributes:
        srtt: smoothed round trip.
        rttvar: mean deviation from it.
        loss_delay: how long after its sending a question is lost, once a later one was answered.
        probe_timeout: the same, with nothing later answered.
        is_known: whether there was any answer.
        least: the least round trip of the 10 s before the last one; the first guess while there was none.
    """

    __slots__ = ("_lows", "is_known", "least", "loss_delay", "probe_timeout", "rttvar", "srtt")

    def __init__(self) -> None:
        self.srtt = _FIRST_SRTT_S
        self.rttvar = _FIRST_RTTVAR_S
        self.is_known = False
        self.least = _FIRST_SRTT_S
        self._lows: deque[tuple[float, float]] = deque()  # (time, round trip), both rising
        self._derive()

    def observe(self, rtt: float, now: float) -> None:
        """Take one round trip, less the time that the server held the question; `now` is on the awake clock."""
        if self.is_known:
            srtt = self.srtt
            self.rttvar += (abs(srtt - rtt) - self.rttvar) / 4
            self.srtt = srtt + (rtt - srtt) / 8
        else:
            self.srtt, self.rttvar, self.is_known = rtt, rtt / 2, True
        self._derive()
        lows = self._lows
        while lows and lows[-1][1] >= rtt:
            lows.pop()
        lows.append((now, rtt))
        while lows[0][0] < now - LEAST_WINDOW_S:
            lows.popleft()
        self.least = lows[0][1]

    def _derive(self) -> None:
        srtt = self.srtt
        spread = 4 * self.rttvar
        self.probe_timeout = srtt + max(spread, _MARGIN_S)
        self.loss_delay = srtt + max(srtt / 4 + spread, _MARGIN_S)
