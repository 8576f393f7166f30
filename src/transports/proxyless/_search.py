"""What a search does next: which resolver to ask, which strategy to try on whose addresses, and when to stop. Pure.

Resolvers are asked in their order, a new one when the last failed or is slow. Each one's addresses are tried with every
strategy in its order. When all strategies fail on what one resolver said, or none has worked for a while, or one failed in a
way that no strategy can mend, the next resolver is asked: addresses that nobody has tried yet get all the strategies once
more. What nothing else could do is left to the fallbacks. The first that works ends it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = (
    "DOUBT_DELAY",
    "MAX_LOOKUPS",
    "STEP_DELAY",
    "Failure",
    "Fallback",
    "LookUp",
    "Probe",
    "Search",
    "Step",
)

STEP_DELAY: Final = 0.25
"""Seconds from one probe's start to the next one's, and from one lookup's to the next; as Outline has it."""

DOUBT_DELAY: Final = 1.0
"""Seconds after a resolver's answer, with nothing that works yet, until the next resolver is asked as well; and seconds that
an answer which seems to be a lie leaves to other resolvers, before more strategies are tried on it."""

MAX_LOOKUPS: Final = 4
"""Resolvers that are asked at once."""


@dataclass(frozen=True, slots=True)
class LookUp:
    """Ask a resolver.

    Attributes:
        resolver: which, by its number.
    """

    resolver: int


@dataclass(frozen=True, slots=True)
class Probe:
    """Try a strategy on a resolver's addresses.

    Attributes:
        resolver: whose addresses, by its number.
        strategy: which, by its number.
        addresses: those that no resolver before has named.
    """

    resolver: int
    strategy: int
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fallback:
    """Try another way altogether.

    Attributes:
        fallback: which, by its number.
    """

    fallback: int


Step: TypeAlias = LookUp | Probe | Fallback


@dataclass(frozen=True, slots=True)
class Failure:
    """A step that failed.

    Attributes:
        step: which.
        error: why.
    """

    step: Step
    error: Exception


@dataclass(slots=True)
class _Answer:
    """What one resolver said, and what was made of it."""

    resolver: int
    addresses: tuple[str, ...]
    at: float
    waiting: list[int] = field(default_factory=list)
    started: int = 0
    running: int = 0
    doubted_at: float = math.inf

    @property
    def is_live(self) -> bool:
        return bool(self.waiting or self.running)


class Search:
    """Decides for one search. Every method is synchronous, and takes `now` in seconds.

    Args:
        resolvers: their numbers, in the order in which they are to be asked.
        strategies: their numbers, in the order in which they are to be tried.
        fallbacks: their numbers, likewise.
        now: when it begins.
        timeout: seconds until it is given up.
        max_probes: probes under way at once.

    Attributes:
        winner: the step that worked; `None` while none has.
        failures: the steps that failed, in the order in which they did.
    """

    def __init__(
        self,
        *,
        resolvers: Iterable[int],
        strategies: Sequence[int],
        fallbacks: Iterable[int] = (),
        now: float,
        timeout: float = math.inf,
        max_probes: int = 6,
    ) -> None:
        """Begin with nothing asked."""
        self.winner: Probe | Fallback | None = None
        self.failures: list[Failure] = []
        self._resolvers = list(resolvers)
        self._strategies = tuple(strategies)
        self._fallbacks = list(fallbacks)
        self._deadline = now + timeout
        self._max_probes = max_probes
        self._answers: list[_Answer] = []
        self._known: set[str] = set()
        self._looking = 0
        self._falling = 0
        self._last_lookup = self._last_probe = -math.inf
        self._lookup_hurries = self._probe_hurries = True

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing is under way, and nothing left to try."""
        return not (self._resolvers or self._fallbacks or self._looking or self._falling) and not (
            self._is_live
        )

    def is_over(self, now: float) -> bool:
        """Return whether there is a winner, or will be none."""
        return self.winner is not None or self.is_exhausted or now >= self._deadline

    def start_due(self, now: float) -> list[Step]:
        """Return the steps that begin now; they are under way from now on."""
        due: list[Step] = []
        while not self.is_over(now) and (step := self._next_due(now)) is not None:
            due.append(step)
        return due

    def next_timeout(self) -> float:
        """Return when to look again if nothing happens before."""
        return min(self._lookup_at(), self._probe_at(), self._fallback_at(), self._deadline)

    def looked_up(self, resolver: int, addresses: Iterable[str], now: float) -> None:
        """Take a resolver's answer; what another one has named already is being tried, or was."""
        self._looking -= 1
        new = tuple(dict.fromkeys(a for a in addresses if a not in self._known))
        self._known.update(new)
        if new:
            answer = _Answer(resolver, new, now, list(self._strategies))
            self._answers.append(answer)
            self._probe_hurries = True
        else:
            self._lookup_hurries = True

    def failed(
        self, step: Step, error: Exception, now: float, *, wrong_address: bool = False
    ) -> None:
        """Learn that a step has failed.

        Args:
            step: which.
            error: why.
            now: when.
            wrong_address: for a probe, whether that speaks against the address rather than the strategy.
        """
        self.failures.append(Failure(step, error))
        match step:
            case LookUp():
                self._looking -= 1
                self._lookup_hurries = True
            case Probe():
                answer = self._answer_of(step)
                answer.running -= 1
                if wrong_address:
                    answer.doubted_at = min(answer.doubted_at, now)
                self._probe_hurries = True
            case Fallback():
                self._falling -= 1
                self._probe_hurries = True

    def succeeded(self, step: Probe | Fallback) -> None:
        """Learn that a step has worked; the first one wins."""
        if isinstance(step, Probe):
            self._answer_of(step).running -= 1
        else:
            self._falling -= 1
        if self.winner is None:
            self.winner = step

    def _answer_of(self, probe: Probe) -> _Answer:
        return next(each for each in self._answers if each.resolver == probe.resolver)

    @property
    def _is_live(self) -> bool:
        return any(answer.is_live for answer in self._answers)

    @property
    def _running(self) -> int:
        return self._falling + sum(answer.running for answer in self._answers)

    def _next_due(self, now: float) -> Step | None:
        if now >= self._probe_at():
            # Whoever has had the fewest turns: a lie that came first does not hold up the truth.
            ready = (each for each in self._answers if each.waiting and self._ripe_at(each) <= now)
            answer = min(ready, key=lambda each: (each.doubted_at < math.inf, each.started))
            self._last_probe, self._probe_hurries = now, False
            answer.started += 1
            answer.running += 1
            return Probe(answer.resolver, answer.waiting.pop(0), answer.addresses)
        if now >= self._lookup_at():
            self._last_lookup, self._lookup_hurries = now, False
            self._looking += 1
            return LookUp(self._resolvers.pop(0))
        if now >= self._fallback_at():
            self._last_probe, self._probe_hurries = now, False
            self._falling += 1
            return Fallback(self._fallbacks.pop(0))
        return None

    def _probe_at(self) -> float:
        if self._running >= self._max_probes:
            return math.inf
        ripe_at = min(
            (self._ripe_at(each) for each in self._answers if each.waiting), default=math.inf
        )
        return ripe_at if self._probe_hurries else max(ripe_at, self._last_probe + STEP_DELAY)

    def _ripe_at(self, answer: _Answer) -> float:
        """Return when the next strategy may be tried on an answer: for a while not, if it is likely to be a lie."""
        if answer.doubted_at == math.inf or not (self._resolvers or self._looking):
            return -math.inf
        return answer.doubted_at + DOUBT_DELAY

    def _lookup_at(self) -> float:
        if not self._resolvers or self._looking >= MAX_LOOKUPS:
            return math.inf
        by_turn = self._last_lookup + STEP_DELAY
        promising = [a.at for a in self._answers if a.is_live and a.doubted_at == math.inf]
        if promising:
            return max(by_turn, promising[-1] + DOUBT_DELAY)
        # All that was said has failed, or is likely to, or nobody has said anything.
        return by_turn if self._looking and not self._lookup_hurries else -math.inf

    def _fallback_at(self) -> float:
        if not self._fallbacks or self._running >= self._max_probes:
            return math.inf
        if self._resolvers or self._looking or self._is_live:
            return math.inf
        return -math.inf if self._probe_hurries else self._last_probe + STEP_DELAY
