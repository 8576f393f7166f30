"""The Soar benchmark's measurements as data: samples, rows that sum them up, and figures. Pure."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from benchmarks._results import Figure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ("OURS", "Row", "Sample", "Spread", "figures_of", "rows_of")

OURS: Final = "soar"
"""The tunnel that is racer's."""

_MB: Final = 1e6
_LEAST: Final = 50_000
"""Octets of a transfer of which it is told what each costs: of fewer, most is the tunnel's start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One process of a client, and what it measured.

    Attributes:
        link: over which.
        resolver: through which.
        tunnel: ours, or a peer's name.
        what: `start`, `down` or `up`.
        run: which round.
        failed: why there is nothing else, or `None`.
        cold: seconds from asking for the first stream to its first octet back; for peers, from the start of the process.
        spawn: the same from the start of the process.
        warm: seconds to the first octet back of each further stream.
        octets: that have arrived, of a transfer.
        seconds: in which they did, the start of the tunnel included.
        settled: octets a second, once a quarter of the time was over.
        right: whether all of them were those that were sent.
        questions: datagrams that the client sent.
        client_cpu: processor seconds of the client.
        server_cpu: likewise, of the server.
        resolver_cpu: likewise, of the resolver.
    """

    link: str
    resolver: str
    tunnel: str
    what: str
    run: int
    failed: str | None = None
    cold: float = 0.0
    spawn: float = 0.0
    warm: tuple[float, ...] = ()
    octets: int = 0
    seconds: float = 0.0
    settled: float = 0.0
    right: bool = True
    questions: int = 0
    client_cpu: float = 0.0
    server_cpu: float = 0.0
    resolver_cpu: float = 0.0

    @property
    def rate(self) -> float:
        """Octets a second, over all of the time."""
        return self.octets / self.seconds if self.seconds else 0.0

    @property
    def has_much(self) -> bool:
        """Whether enough has arrived to say what it costs."""
        return self.octets >= _LEAST

    @property
    def asked(self) -> float:
        """Questions for each 1,000 octets."""
        return 1000 * self.questions / self.octets

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One thing measured several times: the median, the least and the most, and the 95th percentile."""

    p50: float
    p95: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Self | None:
        """Return it; `None` of nothing."""
        ordered = sorted(values)
        if not ordered:
            return None
        return cls(
            p50=statistics.median(ordered),
            p95=ordered[round(0.95 * (len(ordered) - 1))],
            least=ordered[0],
            most=ordered[-1],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One tunnel over one link through one resolver.

    Attributes:
        link: over which.
        resolver: through which.
        tunnel: whose.
        runs: how many starts, and transfers each way, were tried.
        failures: why some of them came to nothing, by what was tried.
        cold: seconds; as in `Sample`, and so are all below.
        spawn: seconds.
        warm: seconds.
        down: octets a second.
        up: octets a second.
        down_settled: octets a second.
        up_settled: octets a second.
        down_questions: questions for each 1,000 octets.
        up_questions: likewise.
        cpu: processor seconds for each 10^6 octets, by way and process, such as `down client`.
    """

    link: str
    resolver: str
    tunnel: str
    runs: int
    failures: dict[str, list[str]]
    cold: Spread | None
    spawn: Spread | None
    warm: Spread | None
    down: Spread | None
    up: Spread | None
    down_settled: Spread | None
    up_settled: Spread | None
    down_questions: Spread | None
    up_questions: Spread | None
    cpu: dict[str, Spread] = field(default_factory=dict)

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Self:
        """Return the row of these, which are one tunnel's over one link through one resolver."""
        well = [one for one in samples if one.failed is None and one.right]
        starts = [one for one in well if one.what == "start"]
        ways = {
            way: [one for one in well if one.what == way and one.octets] for way in ("down", "up")
        }
        failures: dict[str, list[str]] = {}
        for one in samples:
            reason = one.failed or (None if one.right else "octets came that were not sent")
            if reason is None and one.what != "start" and not one.octets:
                reason = "nothing arrived"
            if reason is not None:
                failures.setdefault(one.what, []).append(reason)
        cpu = {
            f"{way} {process}": spread
            for way, there in ways.items()
            for process in ("client", "server", "resolver")
            if (spread := Spread.of(_cpu(one, process) for one in there if one.has_much))
            is not None
        }
        return cls(
            link=samples[0].link,
            resolver=samples[0].resolver,
            tunnel=samples[0].tunnel,
            runs=max(one.run for one in samples) + 1,
            failures=failures,
            cold=Spread.of(one.cold for one in starts),
            spawn=Spread.of(one.spawn for one in starts),
            warm=Spread.of(each for one in starts for each in one.warm),
            down=Spread.of(one.rate for one in ways["down"]),
            up=Spread.of(one.rate for one in ways["up"]),
            down_settled=Spread.of(one.settled for one in ways["down"] if one.settled),
            up_settled=Spread.of(one.settled for one in ways["up"] if one.settled),
            down_questions=Spread.of(one.asked for one in ways["down"] if one.has_much),
            up_questions=Spread.of(one.asked for one in ways["up"] if one.has_much),
            cpu=cpu,
        )

    @property
    def why(self) -> str:
        """Why nothing of it was measured; empty if something was."""
        if any((self.cold, self.down, self.up)):
            return ""
        return next((reasons[0] for reasons in self.failures.values()), "not measured")


def _cpu(sample: Sample, process: str) -> float:
    used: float = getattr(sample, f"{process}_cpu")
    return used / (sample.octets / _MB)


def rows_of(samples: Sequence[Sample]) -> list[Row]:
    """Return a row for each tunnel, in the order in which they were measured."""
    by: dict[tuple[str, str, str], list[Sample]] = {}
    for sample in samples:
        by.setdefault((sample.link, sample.resolver, sample.tunnel), []).append(sample)
    return [Row.of(each) for each in by.values()]


def figures_of(samples: Sequence[Sample]) -> list[Figure]:
    """Return what can be compared with another run; what failed is a share of what was tried."""
    by: dict[tuple[str, str, str], list[Sample]] = {}
    for sample in samples:
        by.setdefault((sample.link, sample.resolver, sample.tunnel), []).append(sample)
    return [
        figure
        for names, there in by.items()
        for figure in _figures("/".join(names), there)
        if figure.values
    ]


def _figures(name: str, samples: Sequence[Sample]) -> Iterator[Figure]:
    well = [one for one in samples if one.failed is None and one.right]
    starts = [one for one in well if one.what == "start"]
    yield Figure(name=f"{name}: cold", unit="s", values=tuple(one.cold for one in starts))
    yield Figure(name=f"{name}: spawn", unit="s", values=tuple(one.spawn for one in starts))
    warm = tuple(each for one in starts for each in one.warm)
    yield Figure(name=f"{name}: warm", unit="s", values=warm)
    for way in ("down", "up"):
        there = [one for one in well if one.what == way and one.octets]
        rates = tuple(one.rate for one in there)
        yield Figure(name=f"{name}: {way}", unit="B/s", values=rates, lower_is_better=False)
        there = [one for one in there if one.has_much]
        asked = tuple(one.asked for one in there)
        yield Figure(name=f"{name}: {way} questions per KB", unit="count", values=asked)
        for process in ("client", "server", "resolver"):
            used = tuple(_cpu(one, process) for one in there)
            yield Figure(name=f"{name}: {way} CPU of the {process}", unit="s/MB", values=used)
    lost = statistics.fmean(one not in well for one in samples)
    yield Figure(name=f"{name}: failed", unit="count", values=(lost,))
