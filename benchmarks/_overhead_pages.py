"""What racer costs, as text for a terminal of 80 columns, as pictures, and as a page that holds both."""

from __future__ import annotations

import base64
import html
import statistics
from typing import TYPE_CHECKING, Final

from benchmarks import _pictures as pictures
from benchmarks._overhead_dials import GROWTH, TELEMETRY, CrowdCost, Spread
from benchmarks._pictures import Range
from benchmarks._results import Unusable
from racer.report import document

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from benchmarks._machine import Machine
    from benchmarks._overhead_dials import DialCost, ImportCost, OwnCost
    from benchmarks._overhead_memory import MemoryCost
    from benchmarks.http import RequestCost

__all__ = (
    "draw",
    "print_crowds",
    "print_dials",
    "print_growth",
    "print_imports",
    "print_memory",
    "print_own",
    "print_requests",
    "write_page",
)

_TITLE: Final = "What racer costs over what one would use without it"
_WIDTH: Final = 10.0  # inches


# --- text -----------------------------------------------------------------------------------


def print_dials(costs: Iterable[DialCost]) -> None:
    """Print the first table."""
    print("\nOne direct entrant against anyio.connect_tcp, loopback, microseconds\n")
    print(f"{'':28}{'connect_tcp':>15}{'racer.dial':>17}{'ratio of':>12}")
    print(
        f"{'loop':9}{'target':9}{'telemetry':10}{'p50':>8}{'p95':>7}{'p50':>9}{'p95':>8}{'p50':>12}"
    )
    for cost in costs:
        plain, dial = Spread.of(cost.plain), Spread.of(cost.raced)
        print(
            f"{cost.loop:9}{cost.target:9}{cost.telemetry:10}{_us(plain.median):>8}{_us(plain.p95):>7}"
            f"{_us(dial.median):>9}{_us(dial.p95):>8}{cost.ratio:>12.2f}{_warning(cost.dropped)}"
        )


def print_own(costs: Iterable[OwnCost]) -> None:
    """Print the second table."""
    print("\nracer's own work: transports in memory that answer at once, microseconds\n")
    print(f"{'loop':9}{'entrants':>8} {'telemetry':10}{'a dial':>8}{'of it telemetry':>17}")
    for cost in costs:
        print(
            f"{cost.loop:9}{cost.entrants:>8} {cost.telemetry:10}{_us(cost.dial):>8}"
            f"{_us(cost.share):>17}{_warning(cost.dropped)}"
        )


def print_growth(costs: Sequence[OwnCost]) -> None:
    """Print the third table: a line for each loop."""
    print("\nThe same as entrants grow, without an SDK, microseconds a dial\n")
    print(f"{'loop':9}" + "".join(f"{n:>8}" for n in GROWTH) + f"{'each more':>11}")
    for loop in dict.fromkeys(cost.loop for cost in costs):
        by = {cost.entrants: cost.dial for cost in costs if cost.loop == loop}
        print(f"{loop:9}" + "".join(f"{_us(by[n]):>8}" for n in GROWTH) + f"{_us(_slope(by)):>11}")


def _slope(by: dict[int, float]) -> float:
    """Return the seconds that each further entrant adds."""
    return statistics.linear_regression(list(by), list(by.values())).slope


def print_crowds(costs: Iterable[CrowdCost]) -> None:
    """Print the fourth table."""
    print("\nMany at the same moment over loopback, milliseconds until all are there\n")
    print(f"{'loop':9}{'dials':>7}{'connect_tcp':>13}{'racer.dial':>12}{'ratio':>8}{'failed':>8}")
    for cost in costs:
        plain, raced = (statistics.median(times) for times in (cost.plain, cost.raced))
        print(
            f"{cost.loop:9}{cost.dials:>7}{plain * 1e3:>13.0f}{raced * 1e3:>12.0f}{cost.ratio:>8.2f}"
            f"{cost.failed:>8}"
        )


def print_memory(costs: Iterable[MemoryCost]) -> None:
    """Print the fifth table."""
    print("\nMemory, kilobytes for each\n")
    for cost in costs:
        print(f"{cost.what:36}{cost.octets / 1e3:>8.1f}  (of {cost.number})")


def print_requests(costs: Iterable[RequestCost]) -> None:
    """Print the sixth table."""
    print("\nA request over the race beside plain httpx, TLS on loopback, microseconds\n")
    print(f"{'loop':9}{'protocol':10}{'connection':12}{'plain':>8}{'raced':>8}{'ratio':>8}")
    for cost in costs:
        print(
            f"{cost.loop:9}{cost.protocol:10}{cost.connection:12}{_us(cost.plain):>8}{_us(cost.raced):>8}"
            f"{cost.ratio:>8.2f}"
        )


def print_imports(costs: Iterable[ImportCost]) -> None:
    """Print the last table."""
    print("\nImport in a fresh interpreter, milliseconds\n")
    print(f"{'module':9}{'p50':>8}{'p95':>8}")
    for cost in costs:
        took = Spread.of(cost.seconds)
        print(f"{cost.module:9}{took.median * 1e3:>8.1f}{took.p95 * 1e3:>8.1f}")


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.0f}"


def _warning(dropped: int) -> str:
    return f" ({dropped} spans lost)" if dropped else ""


# --- pictures -------------------------------------------------------------------------------


def draw(
    dials: Sequence[DialCost],
    growth: Sequence[OwnCost],
    requests: Sequence[RequestCost],
    out: Path,
) -> dict[str, bytes]:
    """Write all pictures, and return them by their files' names.

    Raises:
        Unusable: matplotlib is not installed, or nothing can be written there.
    """
    _draw_dials(dials, out / "overhead.png")
    _draw_growth(growth, out / "overhead-entrants.png")
    _draw_requests(requests, out / "overhead-http.png")
    names = ("overhead.png", "overhead-entrants.png", "overhead-http.png")
    return {name: (out / name).read_bytes() for name in names}


def _draw_dials(costs: Sequence[DialCost], path: Path) -> None:
    spots = list(dict.fromkeys((cost.loop, cost.target) for cost in costs))
    groups = [f"{loop}\n{target}" for loop, target in spots]
    by = {(cost.loop, cost.target, cost.telemetry): cost for cost in costs}
    kinds = ("connect_tcp", *(f"racer.dial, {telemetry}" for telemetry in TELEMETRY))
    figure, panels = pictures.new(
        title="A dial with one direct entrant beside a plain connect, over loopback",
        width=_WIDTH,
        height=pictures.height_of(len(groups) * (len(kinds) + 1)),
    )
    rows = [[by[*spot, telemetry] for telemetry in TELEMETRY] for spot in spots]
    series = {kinds[0]: [_most(row[0].plain) for row in rows]}
    for number, kind in enumerate(kinds[1:]):
        series[kind] = [_most(row[number].raced) for row in rows]
    pictures.dots(
        panels[0],
        groups=groups,
        series=dict(series),
        label="microseconds until there is a stream: median, and from the least to the 95th percentile",
        log=True,
    )
    pictures.key(figure, panels[0])
    pictures.save(figure, path)


def _draw_growth(costs: Sequence[OwnCost], path: Path) -> None:
    loops = list(dict.fromkeys(cost.loop for cost in costs))
    by = {(cost.loop, cost.entrants): cost for cost in costs}
    figure, panels = pictures.new(
        title="racer's own work as entrants grow: transports in memory that all answer at once, losers closed",
        width=_WIDTH,
        height=pictures.height_of(len(GROWTH) * (len(loops) + 1)),
    )
    pictures.dots(
        panels[0],
        groups=[f"{n} entrant{'s' * (n > 1)}" for n in GROWTH],
        series={loop: [_most(by[loop, n].told) for n in GROWTH] for loop in loops},
        label="microseconds a dial: median, and from the least to the 95th percentile of blocks",
        log=True,
    )
    pictures.key(figure, panels[0])
    pictures.save(figure, path)


def _draw_requests(costs: Sequence[RequestCost], path: Path) -> None:
    spots = list(dict.fromkeys((cost.loop, cost.protocol, cost.connection) for cost in costs))
    by = {(cost.loop, cost.protocol, cost.connection): cost for cost in costs}
    figure, panels = pictures.new(
        title="A request over the race beside one over plain httpx: TLS on loopback",
        width=_WIDTH,
        height=pictures.height_of(len(spots) * 3),
    )
    pictures.dots(
        panels[0],
        groups=[f"{protocol}, {connection}\n{loop}" for loop, protocol, connection in spots],
        series={
            "plain httpx": [_most(by[spot].plain_times) for spot in spots],
            "httpx over racer": [_most(by[spot].raced_times) for spot in spots],
        },
        label="microseconds a request: median, and from the least to the 95th percentile",
        log=True,
    )
    pictures.key(figure, panels[0])
    pictures.save(figure, path)


def _most(seconds: Sequence[float]) -> Range:
    """Return microseconds: the median, from the least to the 95th percentile."""
    spread = Spread.of(seconds)
    return Range(middle=spread.median * 1e6, low=spread.least * 1e6, high=spread.p95 * 1e6)


# --- the page -------------------------------------------------------------------------------


def write_page(path: Path, text: str, *, machine: Machine, drawn: dict[str, bytes]) -> None:
    """Write a page with pictures, and the tables as they were printed.

    Raises:
        Unusable: it cannot be written.
    """
    parts = [
        f'<header><h1>{_TITLE}</h1><p class="soft">{html.escape(machine.words)}</p></header><main>',
        *(_picture(name, png) for name, png in drawn.items()),
        f'<h2>Tables</h2><pre style="overflow-x:auto">{html.escape(text)}</pre></main>',
    ]
    try:
        path.write_text(document(_TITLE, "\n".join(parts)), encoding="utf-8")
    except OSError as exc:
        msg = f"{path} cannot be written ({exc.strerror}); choose another folder with --output"
        raise Unusable(msg) from exc


def _picture(name: str, png: bytes) -> str:
    encoded = base64.b64encode(png).decode("ascii")
    return (
        f'<p><img style="max-width:100%;height:auto;background:#fff" src="data:image/png;base64,{encoded}" '
        f'alt="{html.escape(name)}: the tables below hold the same figures."></p>'
    )
