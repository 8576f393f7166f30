"""What a benchmark found, as a file, and what moved between two such files.

A file holds figures: a name, a unit, and every value that was measured. Two figures are compared by their medians, and a
difference counts only if the intervals in which the medians lie with 95 % certainty are apart.
"""

from __future__ import annotations

import enum
import json
import math
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from benchmarks._machine import Machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = (
    "SCHEMA",
    "Comparison",
    "Figure",
    "Move",
    "Results",
    "Unusable",
    "Verdict",
    "share",
    "spread",
)

SCHEMA: Final = 1
"""Of the file; another number is another form, which this one does not read."""

_CERTAINTY: Final = 0.95
_LEAST: Final = 0.03  # a share of the median that nobody would act upon
_FEW: Final = 4  # of three and three, the ranges of equals are apart one time in ten
_Z: Final = 1.96  # standard deviations to either side that hold 95 %
_MAX_FILE: Final = 256 * 1024 * 1024  # bytes


class Unusable(Exception):
    """What was asked of a benchmark cannot be; the text says why, and what to do."""


_PLAIN: Final = frozenset({"ratio", "count", "share"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One thing that was measured many times.

    Attributes:
        name: unique within a file, such as `clean/racer`.
        unit: `s`, `ratio`, `B/s`, `count`, `share` and the like; seconds and rates are a machine's own. The values of a
            share are 0 and 1, and what is compared is how many of them are 1.
        values: all of them, in the order in which they were measured.
        lower_is_better: whether less of it is more.
    """

    name: str
    unit: str
    values: tuple[float, ...]
    lower_is_better: bool = True

    @property
    def is_a_machines_own(self) -> bool:
        """Whether it says something about the machine, so that another machine's stands apart."""
        return self.unit not in _PLAIN

    @property
    def spread(self) -> tuple[float, float, float]:
        """What is compared, and the interval in which it lies with 95 % certainty."""
        return share(self.values) if self.unit == "share" else spread(self.values)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "name": self.name,
            "unit": self.unit,
            "values": list(self.values),
            "lower_is_better": self.lower_is_better,
        }


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median, and the interval in which it lies with 95 % certainty; for fewer than six values their range.

    The interval goes from one of the ordered values to another, counted off by the binomial distribution: it asks
    nothing of how the values are distributed.
    """
    ordered = sorted(values)
    count = len(ordered)
    outside, cut = 0.0, 0  # of the interval that leaves out `cut` values at either end
    for left_out in range(count // 2):
        outside += 2 * math.comb(count, left_out) / 2**count
        if outside > 1 - _CERTAINTY:
            break
        cut = left_out
    return statistics.median(ordered), ordered[cut], ordered[count - 1 - cut]


def share(values: Sequence[float]) -> tuple[float, float, float]:
    """Return how many of the values, each 0 or 1, are 1, and the interval in which that lies (Wilson's)."""
    count = len(values)
    found = sum(values) / count
    middle = found + _Z**2 / (2 * count)
    reach = _Z * math.sqrt(found * (1 - found) / count + _Z**2 / (4 * count**2))
    whole = 1 + _Z**2 / count
    return found, max((middle - reach) / whole, 0.0), min((middle + reach) / whole, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Everything that one run of a benchmark found.

    Attributes:
        benchmark: its name, such as `race`.
        machine: where.
        setting: what was chosen: seeds, deadlines, how often.
        figures: what was measured.
        details: more of it, in the benchmark's own form.
    """

    benchmark: str
    machine: Machine
    setting: Mapping[str, Any]
    figures: Sequence[Figure]
    details: Mapping[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write them.

        Raises:
            Unusable: they cannot be written there.
        """
        told = {
            "schema": SCHEMA,
            "benchmark": self.benchmark,
            "machine": self.machine.to_dict(),
            "setting": dict(self.setting),
            "figures": [figure.to_dict() for figure in self.figures],
            "details": dict(self.details),
        }
        try:
            path.write_text(json.dumps(told, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        except OSError as exc:
            msg = f"{path} cannot be written ({exc.strerror}); choose another folder"
            raise Unusable(msg) from exc

    @classmethod
    def read(cls, path: Path, *, benchmark: str | None = None) -> Self:
        """Return what was written.

        Args:
            path: where.
            benchmark: which one's they have to be; any by default.

        Raises:
            Unusable: it cannot be read, or is something else.
        """
        try:
            with path.open("rb") as opened:
                text = opened.read(_MAX_FILE)
        except OSError as exc:
            msg = f"{path} cannot be read ({exc.strerror}); give two files that a benchmark wrote"
            raise Unusable(msg) from exc
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as exc:
            msg = f"{path} is no JSON ({exc}); give files that a benchmark wrote"
            raise Unusable(msg) from exc
        if not isinstance(data, dict) or "schema" not in data or "figures" not in data:
            msg = f"{path} is no benchmark's file; give files that this program wrote"
            raise Unusable(msg)
        if data["schema"] != SCHEMA:
            msg = f"{path} has schema {data['schema']!r:.20}, and this program reads {SCHEMA}; measure again"
            raise Unusable(msg)
        if benchmark not in {None, data.get("benchmark")}:
            msg = f"{path} holds figures of {data.get('benchmark')!r:.40}, not of {benchmark!r}"
            raise Unusable(msg)
        try:
            return cls(
                benchmark=str(data["benchmark"]),
                machine=Machine.from_dict(data["machine"]),
                setting=dict(data["setting"]),
                figures=[_figure(one) for one in data["figures"]],
                details=dict(data.get("details", {})),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as exc:
            msg = f"{path} is damaged ({type(exc).__name__}: {exc}); measure again"
            raise Unusable(msg) from exc


def _figure(data: dict[str, Any]) -> Figure:
    values = tuple(float(value) for value in data["values"])
    if not values or not all(map(math.isfinite, values)):
        msg = f"the values of {data['name']!r:.60}"
        raise ValueError(msg)
    return Figure(
        name=str(data["name"]),
        unit=str(data["unit"]),
        values=values,
        lower_is_better=bool(data["lower_is_better"]),
    )


class Verdict(enum.Enum):
    """What became of a figure."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    """Within the noise."""
    FEW = "of too few values to tell"
    APART = "not comparable"
    GONE = "only before"
    NEW = "only after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One figure in two files.

    Attributes:
        name: the figure's.
        unit: likewise.
        verdict: what became of it.
        before: median and interval; `None` if it is new.
        after: likewise; `None` if it is gone.
    """

    name: str
    unit: str
    verdict: Verdict
    before: tuple[float, float, float] | None
    after: tuple[float, float, float] | None

    @property
    def ratio(self) -> float | None:
        """Of the medians, after to before; `None` where one is missing or nothing."""
        if self.before is None or self.after is None or not self.before[0]:
            return None
        return self.after[0] / self.before[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two files side by side.

    Attributes:
        moves: every figure of either.
        machines: what differs between the machines, so that times stand apart.
        settings: what differs between the settings.
    """

    moves: Sequence[Move]
    machines: Sequence[str]
    settings: Sequence[str]

    @classmethod
    def of(cls, before: Results, after: Results, *, decisive: Sequence[str] = ()) -> Self:
        """Return what moved.

        Args:
            before: what was measured first.
            after: what was measured then.
            decisive: settings without which being the same times and rates stand apart.
        """
        machines = before.machine.unlike(after.machine)
        unlike = [
            key
            for key in sorted({*before.setting, *after.setting})
            if before.setting.get(key) != after.setting.get(key)
        ]
        apart = bool(machines) or any(key in decisive for key in unlike)
        return cls(
            moves=list(_moves(before, after, apart=apart)),
            machines=machines,
            settings=[
                f"another setting{', so times and rates are not compared' if key in decisive else ''}: "
                f"{key}: {before.setting.get(key)} and {after.setting.get(key)}"
                for key in unlike
            ],
        )

    def lines(self) -> Iterator[str]:
        """Yield it in words, line by line: what cannot be compared, what moved, and how much did not."""
        for fact in self.machines:
            yield f"another machine, so times and rates are not compared: {fact}"
        for fact in self.settings:
            yield fact
        moved = [m for m in self.moves if m.verdict in {Verdict.BETTER, Verdict.WORSE}]
        for move in moved:
            yield f"{move.verdict.value:7} {move.name}: {_told(move)}"
        if not moved:
            yield "nothing moved beyond the noise"
        for verdict in (Verdict.SAME, Verdict.FEW, Verdict.APART, Verdict.GONE, Verdict.NEW):
            names = [move.name for move in self.moves if move.verdict is verdict]
            if names:
                listed = (
                    "" if verdict in {Verdict.SAME, Verdict.FEW} else f": {', '.join(names[:8])}"
                )
                more = ", ..." if listed and len(names) > 8 else ""
                yield f"{len(names)} {verdict.value}{listed}{more}"


def _moves(before: Results, after: Results, *, apart: bool) -> Iterator[Move]:
    old = {figure.name: figure for figure in before.figures}
    new = {figure.name: figure for figure in after.figures}
    for name in dict.fromkeys([*old, *new]):
        one, two = old.get(name), new.get(name)
        known = two or one
        assert known is not None
        first = None if one is None else one.spread
        second = None if two is None else two.spread
        if first is None:
            verdict = Verdict.NEW
        elif second is None:
            verdict = Verdict.GONE
        elif (apart and known.is_a_machines_own) or (one and two and one.unit != two.unit):
            verdict = Verdict.APART
        elif one and two and one.unit != "share" and min(len(one.values), len(two.values)) < _FEW:
            verdict = Verdict.SAME if first == second else Verdict.FEW
        else:
            verdict = _verdict(first, second, lower_is_better=known.lower_is_better)
        yield Move(name=name, unit=known.unit, verdict=verdict, before=first, after=second)


def _verdict(
    before: tuple[float, float, float],
    after: tuple[float, float, float],
    *,
    lower_is_better: bool,
) -> Verdict:
    overlap = before[1] <= after[2] and after[1] <= before[2]
    if overlap or abs(after[0] - before[0]) <= _LEAST * abs(before[0]):
        return Verdict.SAME
    return Verdict.BETTER if (after[0] < before[0]) == lower_is_better else Verdict.WORSE


def _told(move: Move) -> str:
    assert move.before is not None
    assert move.after is not None
    one, two = (
        f"{_number(median)} ({_number(low)} to {_number(high)})"
        for median, low, high in (move.before, move.after)
    )
    unit = "" if move.unit in _PLAIN else f" {move.unit}"
    ratio = "" if move.ratio is None else f", x{move.ratio:.2f}"
    return f"{one} -> {two}{unit}{ratio}"


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
