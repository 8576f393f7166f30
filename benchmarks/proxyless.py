"""Which trick passes which censor, on the wire: `python -m benchmarks.proxyless [--quick] [--json FILE] [--runs N]`.

Two hosts on this machine, a packet path between them, and in it a censor that reads IP packets. What a client comes to
with each strategy is measured, and what it put on the wire is taken from the path's own capture. Linux and root are needed.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

from benchmarks._loops import count
from benchmarks._wire import CENSORS, DOT, FAR, HOST, NEAR, NETWORKS, SYSTEM, Wire
from racer.lab.packets import why_unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks._wire import Censor, FirstFlight

__all__ = ("STRATEGIES", "Cell", "Cost", "Found", "main")

STRATEGIES: Final = (
    "",
    "split:1",
    "split:2,20*5",
    "split:sni",
    "tlsfrag:1",
    "tlsfrag:sni",
    "split:sni|tlsfrag:sni",
    "disorder:1|split:200",
    "disorder:0|split:1",
    "disorder:0|split:sni|tlsfrag:sni",
)
RUNS: Final = 20
QUICK_RUNS: Final = 3
CONNECTIONS: Final = 100
QUICK_CONNECTIONS: Final = 10
_CUT: Final = ("split:sni", "tlsfrag:sni", "disorder:0|split:sni|tlsfrag:sni")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What one strategy comes to in front of one censor.

    Attributes:
        censor: which.
        strategy: which.
        passes: whether an octet of an answer came back, and the censor did nothing.
        error: why not, from the closed list of `racer.errors.ErrorType`.
    """

    censor: str
    strategy: str
    passes: bool
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one strategy costs where nothing is in the way.

    Attributes:
        strategy: which.
        p50: median of the seconds until an octet of an answer came back.
        extra: median of how much more that was than without a trick in the same round.
        flight: what was on the wire.
    """

    strategy: str
    p50: float
    extra: float
    flight: FirstFlight


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search comes to in one network.

    Attributes:
        network: which.
        resolver: the one that was chosen; `None` when nothing works.
        strategy: likewise.
        first: seconds until the first answer, the search included; until it was given up, when nothing works.
        later: median of the seconds of later dials; `None` when nothing works.
        connections: that were begun to the site or its forger until the first answer.
    """

    network: str
    resolver: str | None
    strategy: str | None
    first: float
    later: float | None
    connections: int


# --- measuring ------------------------------------------------------------------------------


async def measure_matrix(wire: Wire, censors: Sequence[Censor]) -> list[Cell]:
    """Return a cell for each strategy in front of each censor."""
    cells = []
    for censor in censors:
        results = await wire.use(censor, strategies=STRATEGIES)
        cells += [
            Cell(
                censor=censor.name,
                strategy=each["strategy"],
                passes=each["ok"] and wire.is_untouched(each["port"]),
                error=each["error"],
            )
            for each in results
        ]
    return cells


async def measure_costs(wire: Wire, runs: int) -> list[Cost]:
    """Return what each strategy costs in a free network."""
    # What is loaded and compiled once is no part of a connection.
    await wire.use(CENSORS[0], strategies=[""])
    results = await wire.use(CENSORS[0], strategies=STRATEGIES, times=runs)
    by_strategy = {
        text: [each for each in results if each["strategy"] == text] for text in STRATEGIES
    }
    took = {text: [each["seconds"] for each in found] for text, found in by_strategy.items()}
    return [
        Cost(
            strategy=text,
            p50=statistics.median(took[text]),
            extra=statistics.median(
                t - plain for t, plain in zip(took[text], took[""], strict=True)
            ),
            flight=wire.first_flight(by_strategy[text][0]["port"]),
        )
        for text in STRATEGIES
    ]


async def measure_search(wire: Wire, network: Censor, *, times: int, timeout: float) -> Found:
    """Return what a search finds in one network, and what it costs."""
    results = await wire.use(network, resolvers=[SYSTEM, DOT], times=times, timeout=timeout)
    first, *others = results
    chosen = first["chosen"] if first["ok"] else {}
    return Found(
        network=network.name,
        resolver=chosen.get("resolver"),
        strategy=chosen.get("strategy"),
        first=first["seconds"],
        later=statistics.median(each["seconds"] for each in others)
        if first["ok"] and others
        else None,
        connections=wire.connections - len(others)
        if first["ok"]
        else wire.connections // len(results),
    )


async def measure_repeats(wire: Wire, connections: int) -> dict[str, list[FirstFlight]]:
    """Return the first flights of many connections of the same strategy, one after the other."""
    found = {}
    for text in _CUT:
        results = await wire.use(CENSORS[0], strategies=[text], times=connections)
        found[text] = [wire.first_flight(each["port"]) for each in results]
    return found


# --- printing -------------------------------------------------------------------------------


def _print_matrix(cells: Sequence[Cell], censors: Sequence[Censor]) -> None:
    width = max(map(len, STRATEGIES))
    print(f"\n{'':{width}}  " + " ".join(f"{n:>2}" for n in range(1, len(censors) + 1)))
    for strategy in STRATEGIES:
        row = {cell.censor: cell.passes for cell in cells if cell.strategy == strategy}
        marks = " ".join(" ✓" if row[censor.name] else " ·" for censor in censors)
        print(f"{strategy or 'no trick':{width}}  {marks}")
    print()
    for number, censor in enumerate(censors, 1):
        print(f"{number:2} {censor.name}: {censor.words}")


def _print_costs(costs: Sequence[Cost]) -> None:
    width = max(map(len, STRATEGIES))
    print(f"\n{'':{width}} {'p50':>6} {'extra':>6}  again  on the wire: segments, records")
    for cost in costs:
        flight = cost.flight
        print(
            f"{cost.strategy or 'no trick':{width}} {_ms(cost.p50):>6} {_ms(cost.extra):>6}  {flight.sent_again:5}"
            f"  {_short(flight.segments)}; {_short(flight.records)}"
        )


def _print_searches(found: Sequence[Found]) -> None:
    print(f"\n{'':16} {'first':>6} {'later':>6} {'conns':>5}  by")
    for each in found:
        by = f"{each.resolver} + {each.strategy}" if each.strategy else "(nothing works)"
        first = _ms(each.first) if each.strategy else f"({_ms(each.first)})"
        later = "" if each.later is None else _ms(each.later)
        print(f"{each.network:16} {first:>6} {later:>6} {each.connections:5}  {by}")


def _print_repeats(repeats: dict[str, list[FirstFlight]]) -> None:
    print()
    for text, flights in repeats.items():
        alike = sum(
            (flight.segments, flight.records) == (flights[0].segments, flights[0].records)
            for flight in flights
        )
        print(f"{text}: {alike} of {len(flights)} connections left as the first one did")


def _short(numbers: Sequence[int]) -> str:
    shown = "+".join(map(str, numbers[:4]))
    return f"{shown}+… ({len(numbers)})" if len(numbers) > 4 else shown


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f}"


# --- the command line -----------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proxyless", description=__doc__)
    add = parser.add_argument
    add("--quick", action="store_true", help=f"{QUICK_RUNS} runs; about a minute")
    add("--runs", type=count, metavar="N", help=f"connections for each cost ({RUNS})")
    add("--pcap", type=Path, metavar="FILE", help="write what was on the wire last there")
    add("--json", type=Path, metavar="FILE", help="write every figure there too")
    return parser


async def _run(options: argparse.Namespace) -> dict[str, Any]:
    runs = options.runs or (QUICK_RUNS if options.quick else RUNS)
    round_trip = 2 * (NEAR + FAR)
    print(
        f"A client, a censor and {HOST} on this machine, packet by packet; {_ms(round_trip)} ms round trips.\n"
        "✓: TLS was verified, an octet of an answer came back, and the censor saw nothing. Times in ms."
    )
    cells: list[Cell] = []
    if doors := [censor for censor in CENSORS if not censor.near_hops]:
        async with Wire.of(near_hops=0) as wire:
            cells += await measure_matrix(wire, doors)
    async with Wire.of(near_hops=1) as wire:
        cells += await measure_matrix(wire, [censor for censor in CENSORS if censor.near_hops])
        _print_matrix(cells, CENSORS)
        costs = await measure_costs(wire, runs)
        _print_costs(costs)
        repeats = await measure_repeats(wire, QUICK_CONNECTIONS if options.quick else CONNECTIONS)
        _print_repeats(repeats)
        await measure_search(wire, NETWORKS[0], times=1, timeout=20.0)  # as in `measure_costs`
        found = [
            await measure_search(wire, network, times=1 + QUICK_RUNS, timeout=20.0)
            for network in NETWORKS
        ]
        _print_searches(found)
        if options.pcap is not None:
            await anyio.Path(options.pcap).write_bytes(wire.pcap())
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "setting": {"near": NEAR, "far": FAR, "runs": runs},
        "censors": {censor.name: censor.words for censor in (*CENSORS, *NETWORKS)},
        "matrix": [asdict(cell) for cell in cells],
        "costs": [asdict(cost) for cost in costs],
        "searches": [asdict(each) for each in found],
        "repeats": {text: [asdict(f) for f in flights] for text, flights in repeats.items()},
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write JSON where asked to."""
    options = _parser().parse_args(argv)
    if (reason := why_unavailable()) is not None:
        print(f"no packet network here: {reason}", file=sys.stderr)
        return 1
    try:
        told = anyio.run(_run, options)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    if options.json is not None:
        options.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
