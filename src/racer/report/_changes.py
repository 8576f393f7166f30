"""What is to be different when a race is played again, and a few policies that others race by. Pure."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from racer._schedule import Lane
from racer._words import one_line
from racer.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from racer._report import Attempt
    from racer.report._record import Entry, Record

__all__ = ("Changes", "policies")

_STAGGER: Final = 0.25  # seconds; RFC 8305 §8, and what Outline's smart dialer takes
_LAST_RESORT: Final = 2.0
"""Seconds of delay from which on an entrant is taken for a last resort; Soar's own are 8, no stagger is so long."""
_KINDLING_TIER: Final = 100  # what kindling gives its DNS tunnel; everything else has 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What to change about a recorded race; by default nothing.

    Attributes:
        delays: seconds after its tier opened at which an entrant is to start, by its name.
        tiers: an entrant's tier, by its name.
        attempt_timeouts: seconds that an attempt may take, by its entrant's name. Otherwise one that used up its own time
            does so again, and the others have what the report says they had; where it is an old one that does not, no end.
        timeout: seconds for the whole race.
        stagger: seconds between one start and the next, in place of all delays; a failure lets the next one start at
            once, as in RFC 8305.
    """

    delays: Mapping[str, float] = field(default_factory=dict)
    tiers: Mapping[str, int] = field(default_factory=dict)
    attempt_timeouts: Mapping[str, float] = field(default_factory=dict)
    timeout: float | None = None
    stagger: float | None = None

    def __post_init__(self) -> None:
        """Refuse times that cannot be kept."""
        for name, seconds in self.delays.items():
            _check_seconds(seconds, f"the delay of {_shown(name)}")
        for name, seconds in self.attempt_timeouts.items():
            _check_seconds(seconds, f"the attempt timeout of {_shown(name)}", least=_ABOVE_NOTHING)
        if self.timeout is not None:
            _check_seconds(self.timeout, "the timeout", least=_ABOVE_NOTHING)
        if self.stagger is not None:
            _check_seconds(self.stagger, "the stagger", least=_ABOVE_NOTHING)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is changed."""
        return self == Changes()

    def check_names(self, known: Sequence[str]) -> None:
        """Raise `ConfigError` for an entrant that was not in the race, naming the nearest that was."""
        for names in (self.delays, self.tiers, self.attempt_timeouts):
            for name in names:
                if name not in known:
                    raise ConfigError(_unknown(name, known))

    def lane(self, entry: Entry) -> Lane:
        """Return an entrant's place in the race that is played."""
        attempt = entry.attempt
        name = attempt.transport
        delay = 0.0 if self.stagger is not None else attempt.start_delay
        return Lane(
            start_delay=self.delays.get(name, delay),
            tier=self.tiers.get(name, attempt.tier),
            timeout=self.attempt_timeouts.get(name, entry.own_time),
        )


def policies(record: Record) -> dict[str, Changes]:
    """Return what the race would be under a few policies, by what people call them; the first changes nothing."""
    attempts = [entry.attempt for entry in record.entries]
    names = [attempt.transport for attempt in attempts]
    flat = dict.fromkeys(names, 0)
    at_once = dict.fromkeys(names, 0.0)
    lowest = min((attempt.tier for attempt in attempts), default=0)
    resorts = {a.transport: _KINDLING_TIER for a in attempts if _is_last_resort(a, lowest)}
    return {
        "as recorded": Changes(),
        "all at once": Changes(delays=at_once, tiers=flat),
        "250 ms stagger": Changes(stagger=_STAGGER, tiers=flat),
        "one after the other": Changes(delays=at_once, tiers=dict(zip(names, range(len(names)), strict=True))),
        # kindling: everything of a tier at once; the DNS tunnel when all others have failed.
        "kindling's tiers": Changes(delays=at_once, tiers=flat | resorts),
    }  # fmt: skip


def _is_last_resort(attempt: Attempt, lowest: int) -> bool:
    return attempt.tier > lowest or attempt.start_delay >= _LAST_RESORT


_ABOVE_NOTHING: Final = math.ulp(0.0)


def _check_seconds(value: object, what: str, *, least: float = 0.0) -> None:
    if not isinstance(value, int | float) or not math.isfinite(value) or value < least:
        bound = "above 0" if least else "0 or more"
        msg = f"{what} must be a number of seconds, {bound}, not {value!r:.40}"
        raise ConfigError(msg)


def _unknown(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        hint = f"; did you mean {_shown(near[0])}?"
    elif known:
        hint = f"; there were {', '.join(_shown(one) for one in known[:10])}"
    else:
        hint = "; it had no entrants"
    return f"no entrant of this race is called {_shown(name)}{hint}"


def _shown(name: str) -> str:
    return repr(one_line(name)[:60])
