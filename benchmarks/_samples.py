"""Dials as data: samples, the rows that sum them up, and how much of it is the machine's noise. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ("REFERENCE", "Lateness", "Row", "Sample", "rows_of")

REFERENCE = "racer"
"""The dialer beside which the others stand."""


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
