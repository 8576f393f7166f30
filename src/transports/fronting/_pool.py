"""Which front to try now: what is known of each, which rest, which providers have fallen from grace. Pure: `now` comes in.

A front is *proven* for a while by an answer that came through it. One that fails loses that, and rests, longer each
time; back from its rest it has to prove itself again. A provider whose fronts fail one after the other, without one
success between, is demoted: its fronts come after all others', one at a time, until one succeeds or the time is over.
A provider that answers for one host with refusals is passed over for that host alone.

Nothing is ever ruled out for good: when there is nothing better, what rests is tried, the nearest to its return first.
So an hour without a network costs an hour, and not the fronts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from transports.fronting._names import fronted_host

if TYPE_CHECKING:
    import random
    from collections.abc import Collection, Iterable, Iterator

    from transports.fronting._catalog import Catalog, Front, FrontKey, Provider

__all__ = ("Choice", "Pool", "Remembered")

PROVEN_FOR: Final = 1800.0
"""Seconds that a success is good for."""

REST_FIRST: Final = 60.0
REST_MOST: Final = 7200.0
"""Seconds of the first rest, doubled each time up to the longest; a quarter more or less, so that none return at once."""

STRIKES: Final = 5
"""Fronts of one provider that fail, without one success between, before it is demoted."""

DEMOTED_FIRST: Final = 120.0
DEMOTED_MOST: Final = 3600.0
"""Seconds of the first demotion, doubled each time up to the longest."""

REFUSED_FOR: Final = 600.0
"""Seconds that a provider is passed over for a host that two of its fronts have refused."""

WANTED_LEAST: Final = 2
WANTED: Final = 4
"""Proven fronts: below the first number more are vetted, until there are as many as the second."""

DEMAND_FOR: Final = 300.0
"""Seconds after the last request for a host that fronts are still kept proven for it; nothing is vetted for nobody."""

REMEMBERED_FOR: Final = 86_400.0
"""Seconds that a success is remembered."""

REMEMBERED_MOST: Final = 1000

_MAX_HOSTS: Final = 100  # whose demand is kept in mind; a pattern may serve any number
_NEW_WEIGHT: Final = 0.3  # of the latest time in the running mean


@dataclass(frozen=True, slots=True)
class Choice:
    """A front to try now, and what is known of it; ends in exactly one of the pool's verdicts.

    Attributes:
        front: the front.
        provider: whose it is.
        is_proven: whether it needs no vetting first.
    """

    front: Front
    provider: Provider
    is_proven: bool


@dataclass(frozen=True, slots=True)
class Remembered:
    """A front that has succeeded, and how many seconds ago."""

    key: FrontKey
    age: float


@dataclass(slots=True, eq=False)
class _Standing:
    """What is known of one front."""

    front: Front
    order: float
    last_success: float = -math.inf
    proven_until: float = -math.inf
    rests_until: float = -math.inf
    failures: int = 0
    leases: int = 0
    latency: float = math.inf


@dataclass(slots=True, eq=False)
class _Grace:
    """What is known of one provider."""

    standings: list[_Standing] = field(default_factory=list)
    strikes: set[FrontKey] = field(default_factory=set)
    demoted_until: float = -math.inf
    demotions: int = 0
    turn: int = 0
    leases: int = 0
    refusals: dict[str, set[FrontKey]] = field(default_factory=dict)
    refused_until: dict[str, float] = field(default_factory=dict)


class Pool:
    """The fronts of a catalog. Times are seconds on any clock that only rises.

    Args:
        catalog: the fronts.
        rng: for the order of fronts nobody knows anything about, and the length of rests.
    """

    def __init__(self, catalog: Catalog, *, rng: random.Random) -> None:
        """Begin with nothing known."""
        self._rng = rng
        self._standings: dict[FrontKey, _Standing] = {}
        self._graces: dict[str, _Grace] = {}
        self._demand: dict[str, float] = {}
        self._is_filling = False
        self._turn = 0
        self.replace(catalog)

    @property
    def catalog(self) -> Catalog:
        """The fronts in use."""
        return self._catalog

    def replace(self, catalog: Catalog) -> None:
        """Go on with another catalog; what is known of those that are in both stays."""
        old = self._standings
        self._standings = {}
        self._graces = {name: self._graces.get(name, _Grace()) for name in catalog.providers}
        for provider in catalog.providers.values():
            for front in provider.fronts:
                standing = old.get(front.key)
                if standing is None:
                    standing = _Standing(front, self._rng.random())
                standing.front = front
                self._standings[front.key] = standing
            # By key: a list may have a front twice.
            keys = dict.fromkeys(front.key for front in provider.fronts)
            self._graces[provider.id].standings = [self._standings[key] for key in keys]
        self._catalog = catalog

    # --- what to try ---------------------------------------------------------------------------

    def serves(self, host: str) -> bool:
        """Return whether any provider with a front knows `host`."""
        return self.count_providers(host) > 0

    def count_providers(self, host: str) -> int:
        """Return how many providers with a front know `host`."""
        return sum(bool(provider.fronts) for provider in self._providers_of(host))

    def choose(
        self,
        host: str,
        now: float,
        *,
        tried: Collection[FrontKey] = (),
        avoid: Collection[str] = (),
    ) -> Choice | None:
        """Return the best front for `host`; `None` when all have been tried.

        Args:
            host: the origin's.
            now: the time.
            tried: fronts that are out of the question.
            avoid: providers to come back to only when no other has a front that may do.
        """
        self._note_demand(host, now)
        best: tuple[float, ...] | None = None
        chosen: _Standing | None = None
        for provider in self._providers_of(host):
            grace = self._graces[provider.id]
            burden = self._burden(provider, grace, host, now, avoid)
            for standing in grace.standings:
                if standing.front.key in tried:
                    continue
                rank = self._rank(standing, grace, burden, now)
                if best is None or rank < best:
                    best, chosen = rank, standing
        return self._lease(chosen, now)

    def choose_to_vet(self, now: float) -> Choice | None:
        """Return a front to vet ahead of need; `None` when enough are proven, or nobody needs any."""
        hosts = [host for host, asked in self._demand.items() if now - asked < DEMAND_FOR]
        providers = [p for p in self._catalog.providers.values() if _knows_any(p, hosts)]
        underway = sum(self._graces[p.id].leases for p in providers)
        proven = sum(self._is_proven(p, now) for p in providers)
        if not hosts or proven >= WANTED:
            self._is_filling = False
        elif proven < WANTED_LEAST:
            self._is_filling = True
        if not self._is_filling or proven + underway >= WANTED:
            return None
        best: tuple[float, ...] | None = None
        chosen: _Standing | None = None
        for provider in providers:
            grace = self._graces[provider.id]
            if grace.demoted_until > now:
                continue
            for standing in grace.standings:
                if standing.leases or standing.proven_until > now or standing.rests_until > now:
                    continue
                rank = self._rank(standing, grace, 0, now)
                if best is None or rank < best:
                    best, chosen = rank, standing
        return self._lease(chosen, now)

    def take(self, key: FrontKey, now: float) -> Choice | None:
        """Return a front that there is a line to already; `None` when it is not in the catalog any more."""
        return self._lease(self._standings.get(key), now)

    def family_of(self, front: Front) -> set[FrontKey]:
        """Return the fronts with addresses of the same kind, IPv4 or IPv6: where there is no way to one, there is none to any."""
        kind = ":" in front.address
        return {k for k, s in self._standings.items() if (":" in s.front.address) is kind}

    def next_deadline(self, now: float) -> float:
        """Return when `choose_to_vet` may have another answer by time alone; infinite when it cannot."""
        ends = [asked + DEMAND_FOR for asked in self._demand.values() if asked + DEMAND_FOR > now]
        if not ends:
            return math.inf
        times = [max(ends)]
        for standing in self._standings.values():
            times += [standing.proven_until, standing.rests_until]
        times += [grace.demoted_until for grace in self._graces.values()]
        return min(time for time in times if time > now)

    # --- verdicts ------------------------------------------------------------------------------

    def succeeded(
        self, choice: Choice, now: float, *, took: float, host: str | None = None
    ) -> None:
        """Learn that an answer came through a front.

        Args:
            choice: the front.
            now: the time.
            took: seconds from asking to the answer's head.
            host: the origin that was asked, where it was not the vetting's.
        """
        grace = self._graces.get(choice.front.provider)
        standing = self._release(choice)
        if grace is not None:
            grace.strikes.clear()
            grace.demoted_until, grace.demotions = -math.inf, 0
            if host is not None:
                grace.refusals.pop(host, None)
                grace.refused_until.pop(host, None)
        if standing is not None:
            standing.failures = 0
            standing.last_success, standing.proven_until = now, now + PROVEN_FOR
            standing.rests_until = -math.inf
            known = standing.latency
            standing.latency = took if math.isinf(known) else known + _NEW_WEIGHT * (took - known)

    def failed(self, choice: Choice, now: float) -> None:
        """Learn that a front could not be reached, was not who it should be, or did not answer."""
        standing = self._release(choice)
        if standing is not None:
            standing.failures += 1
            standing.proven_until = -math.inf
            rest = min(REST_MOST, REST_FIRST * 2.0 ** min(standing.failures - 1, 16))
            standing.rests_until = now + rest * self._rng.uniform(0.75, 1.25)
        grace = self._graces.get(choice.front.provider)
        if grace is not None:
            grace.strikes.add(choice.front.key)
            if len(grace.strikes) >= STRIKES:
                self._demote(grace, now)

    def refused(self, choice: Choice, now: float, *, host: str) -> None:
        """Learn that a front answered for `host` with the network's refusal, and not with the origin's word."""
        self.failed(choice, now)
        grace = self._graces.get(choice.front.provider)
        if grace is not None:
            refusals = grace.refusals.setdefault(host, set())
            refusals.add(choice.front.key)
            if len(refusals) > 1:
                refusals.clear()
                grace.refused_until[host] = now + REFUSED_FOR

    def released(self, choice: Choice) -> None:
        """Learn that a try said nothing about its front: it was cancelled, or there was no network."""
        self._release(choice)

    # --- memory --------------------------------------------------------------------------------

    def remember(self, now: float) -> list[Remembered]:
        """Return the fronts that have succeeded within a day, the latest first."""
        known = [s for s in self._standings.values() if now - s.last_success < REMEMBERED_FOR]
        known.sort(key=lambda standing: -standing.last_success)
        return [Remembered(s.front.key, now - s.last_success) for s in known[:REMEMBERED_MOST]]

    def recall(self, remembered: Iterable[Remembered], now: float) -> int:
        """Take what was remembered: those fronts are vetted before others. Return how many the catalog still has."""
        count = 0
        for one in remembered:
            standing = self._standings.get(one.key)
            if standing is not None and 0 <= one.age < REMEMBERED_FOR:
                standing.last_success = max(standing.last_success, now - one.age)
                count += 1
        return count

    # --- for who wants to look -----------------------------------------------------------------

    def proven(self, now: float) -> int:
        """Return how many fronts are proven."""
        return sum(self._is_proven(p, now) for p in self._catalog.providers.values())

    def resting(self, now: float) -> int:
        """Return how many fronts rest."""
        return sum(standing.rests_until > now for standing in self._standings.values())

    def demoted(self, now: float) -> tuple[str, ...]:
        """Return the ids of demoted providers."""
        return tuple(name for name, g in self._graces.items() if g.demoted_until > now)

    # --- within --------------------------------------------------------------------------------

    def _providers_of(self, host: str) -> Iterator[Provider]:
        for provider in self._catalog.providers.values():
            if fronted_host(provider, host) is not None:
                yield provider

    def _note_demand(self, host: str, now: float) -> None:
        self._demand.pop(host, None)  # so that the oldest stands first
        if len(self._demand) >= _MAX_HOSTS:
            del self._demand[next(iter(self._demand))]
        self._demand[host] = now

    def _burden(
        self, provider: Provider, grace: _Grace, host: str, now: float, avoid: Collection[str]
    ) -> int:
        """Return how far down a provider's fronts begin: 0, 2, 4, or 7 behind even what rests."""
        if grace.demoted_until > now:
            return 7 if grace.leases else 4
        is_refusing = grace.refused_until.get(host, -math.inf) > now
        return 2 if is_refusing or provider.id in avoid else 0

    def _rank(
        self, standing: _Standing, grace: _Grace, burden: int, now: float
    ) -> tuple[float, ...]:
        """Return a front's place; the smallest is the best."""
        if standing.proven_until > now:
            return burden, standing.leases, standing.latency, standing.order
        if standing.rests_until > now:
            return 6, standing.rests_until, burden, standing.order
        if (
            standing.leases
        ):  # one try will show whether it does; a second beside it only where nothing else is left
            return 5.5, standing.leases, burden, standing.order
        # Providers take turns, so that one that is blocked does not use up the tries.
        recency = -standing.last_success
        return burden + 1, grace.turn, recency, standing.failures, standing.order

    def _lease(self, standing: _Standing | None, now: float) -> Choice | None:
        if standing is None:
            return None
        provider = self._catalog.providers[standing.front.provider]
        grace = self._graces[provider.id]
        is_proven = standing.proven_until > now
        if not is_proven:
            self._turn += 1
            grace.turn = self._turn
        standing.leases += 1
        grace.leases += 1
        return Choice(standing.front, provider, is_proven)

    def _release(self, choice: Choice) -> _Standing | None:
        """End a try; `None` when the front is not in the catalog any more."""
        grace = self._graces.get(choice.front.provider)
        if grace is not None:
            grace.leases = max(0, grace.leases - 1)
        standing = self._standings.get(choice.front.key)
        if standing is not None:
            standing.leases = max(0, standing.leases - 1)
        return standing

    def _demote(self, grace: _Grace, now: float) -> None:
        lasts = min(DEMOTED_MOST, DEMOTED_FIRST * 2.0 ** min(grace.demotions, 16))
        grace.demoted_until = now + lasts
        grace.demotions += 1
        grace.strikes.clear()

    def _is_proven(self, provider: Provider, now: float) -> int:
        return sum(s.proven_until > now for s in self._graces[provider.id].standings)


def _knows_any(provider: Provider, hosts: Iterable[str]) -> bool:
    return any(fronted_host(provider, host) is not None for host in hosts)
