"""Dials as data: samples, the rows that sum them up, and how much of it is the machine's noise. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

from benchmarks._results import Figure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from racer import RaceReport

__all__ = (
    "BESIDE",
    "REFERENCE",
    "Lateness",
    "Row",
    "Sample",
    "figures_of",
    "median_race",
    "rows_of",
)

REFERENCE = "racer"
"""The dialer beside which the others stand."""

BESIDE = "connect_tcp"
"""The dialer beside which racer stands in figures that are compared: what it takes is the network's and the machine's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One dial.

    Attributes:
        network: in which network.
        dialer: by whom.
        run: which round.
        seed: of the network.
        usable: whether there was a usable connection before the deadline.
        seconds: until then, or until it was certain that there would be none.
        winner: the route that was usable.
        started: routes that were tried.
        opened: connections that were begun.
        wasted: those of them that nobody used.
        reached: connections that came as far as somebody who answers for the site.
        errors: what kept each of the other routes, from the closed list of `racer.errors.ErrorType`.
        report: the race, if it was one of racer's; no part of what the sample is compared or written by.
    """

    network: str
    dialer: str
    run: int
    seed: int
    usable: bool
    seconds: float
    winner: str | None
    started: int
    opened: int
    wasted: int
    reached: int
    errors: dict[str, str]
    report: RaceReport | None = field(default=None, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, without the report."""
        names = [each.name for each in fields(self) if each.name != "report"]
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """All dials of one dialer in one network.

    Attributes:
        network: in which network.
        dialer: by whom.
        runs: how many.
        failed: how many of them without a usable connection.
        p50: median of the seconds until there was one; of those until failure, when all failed.
        p95: the 95th percentile of the same.
        least: the least of the same.
        most: the most of the same.
        ratio: of the p50s, to racer's; `None` when either had no usable connection.
        outcomes: routes that won, and causes of failures, by how often.
        started: routes that were tried, on average.
        wasted: connections that were begun and not used, on average.
    """

    network: str
    dialer: str
    runs: int
    failed: int
    p50: float
    p95: float
    least: float
    most: float
    ratio: float | None
    outcomes: dict[str, int]
    started: float
    wasted: float

    @classmethod
    def of(cls, samples: Sequence[Sample], reference: float | None) -> Self:
        """Return the row of these, one dialer's in one network, beside racer's p50."""
        usable = [sample for sample in samples if sample.usable]
        times = sorted(sample.seconds for sample in usable or samples)
        p50 = statistics.median(times)
        return cls(
            network=samples[0].network,
            dialer=samples[0].dialer,
            runs=len(samples),
            failed=len(samples) - len(usable),
            p50=p50,
            p95=times[round(0.95 * (len(times) - 1))],
            least=times[0],
            most=times[-1],
            ratio=p50 / reference if usable and reference else None,
            outcomes=dict(Counter(map(_outcome, samples)).most_common()),
            started=statistics.fmean(sample.started for sample in samples),
            wasted=statistics.fmean(sample.wasted for sample in samples),
        )


def _outcome(sample: Sample) -> str:
    """Return who won, or what kept the last route."""
    return sample.winner or list(sample.errors.values())[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """How many seconds late the event loop woke up a task that only sleeps: this machine's noise."""

    p50: float
    p95: float
    worst: float

    @classmethod
    def of(cls, late: Iterable[float]) -> Self:
        """Return the spread of these."""
        ordered = sorted(late)
        return cls(
            p50=statistics.median(ordered),
            p95=ordered[round(0.95 * (len(ordered) - 1))],
            worst=ordered[-1],
        )


def rows_of(samples: Sequence[Sample]) -> list[Row]:
    """Return a row for each dialer in each network: networks as they come, and in each racer first."""
    rows = []
    for network in dict.fromkeys(sample.network for sample in samples):
        there = [sample for sample in samples if sample.network == network]
        names = sorted({one.dialer for one in there}, key=lambda name: (name != REFERENCE, name))
        by_dialer = {name: [one for one in there if one.dialer == name] for name in names}
        reference = Row.of(by_dialer[REFERENCE], None)
        p50 = None if reference.failed == reference.runs else reference.p50
        rows += [Row.of(each, p50) for each in by_dialer.values()]
    return rows


def figures_of(samples: Sequence[Sample]) -> list[Figure]:
    """Return what can be compared with another run: seconds and waste of each dialer in each network, and racer's ratios.

    A ratio is one of seconds in the same run, so in the same network and within the same moments: most of what a machine
    does besides is in both. Where a dialer was not connected there is no time.
    """
    return [figure for figure in _figures_of(samples) if figure.values]


def _figures_of(samples: Sequence[Sample]) -> Iterator[Figure]:
    by: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        by.setdefault((sample.network, sample.dialer), []).append(sample)
    for (network, dialer), there in by.items():
        name = f"{network}/{dialer}"
        times = tuple(one.seconds for one in there if one.usable)
        yield Figure(name=name, unit="s", values=times)
        wasted = tuple(float(one.wasted) for one in there)
        yield Figure(name=f"{name}: wasted", unit="count", values=wasted)
        failed = tuple(float(not one.usable) for one in there)
        yield Figure(name=f"{name}: failed", unit="share", values=failed)
        if dialer == REFERENCE:
            beside = {one.run: one for one in by.get((network, BESIDE), [])}
            ratios = tuple(
                one.seconds / other.seconds
                for one in there
                if one.usable and (other := beside.get(one.run)) is not None and other.usable
            )
            yield Figure(name=f"{name}: to {BESIDE}", unit="ratio", values=ratios)


def median_race(samples: Sequence[Sample], network: str) -> RaceReport | None:
    """Return the report of racer's dial in a network that took the median time; `None` if there is none."""
    told = sorted(
        (
            one
            for one in samples
            if one.network == network and one.dialer == REFERENCE and one.report is not None
        ),
        key=lambda one: (not one.usable, one.seconds),
    )
    return told[len(told) // 2].report if told else None
