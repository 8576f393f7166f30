"""What `racer.dial` costs over a plain connect: `python -m benchmarks.overhead [--quick] [--json FILE]`.

Three questions, each answered by a comparison within one run:

* A dial with one direct entrant against `anyio.connect_tcp`, in pairs whose order alternates, over loopback.
* A dial over a transport in memory: racer's own work, and by leaving telemetry out, telemetry's share of it.
* Importing `racer` beside importing `anyio`, each in a fresh interpreter.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import anyio
from anyio.lowlevel import checkpoint

import racer
from benchmarks._loops import LOOPS, chosen_loops, count, is_installed, run_on
from benchmarks._memory import Memory
from benchmarks._null import silence
from benchmarks._peer import peer
from benchmarks._sdk import SDK
from transports.direct import Direct

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from anyio.abc import ByteStream

__all__ = ("DialCost", "ImportCost", "OwnCost", "Spread", "main")

TELEMETRY: Final = ("no SDK", "traces", "+ metrics")
"""What OpenTelemetry is: its API alone; the SDK with batch export of spans; and with metrics too."""

_TARGETS: Final = (("literal", "127.0.0.1"), ("name", "localhost"))
_ENTRANTS: Final = (1, 5)
_MODULES: Final = ("anyio", "racer")
_TIMED_IMPORT: Final = (
    "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is measured.

    Attributes:
        pairs: dials and plain connects for each row, after a warm-up of a quarter more.
        blocks: blocks of dials over memory for each row, once with and once without telemetry.
        dials: dials in a block.
        imports: fresh interpreters for each module.
    """

    pairs: int = 800
    blocks: int = 30
    dials: int = 100
    imports: int = 10


QUICK: Final = Effort(pairs=150, blocks=8, dials=40, imports=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Seconds that one thing took, many times."""

    median: float
    p95: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Self:
        """Return median and 95th percentile."""
        ordered = sorted(seconds)
        return cls(median=statistics.median(ordered), p95=ordered[int(0.95 * (len(ordered) - 1))])


@dataclass(frozen=True, slots=True, kw_only=True)
class DialCost:
    """A dial with one direct entrant beside a plain connect.

    Attributes:
        loop: the event loop.
        target: `literal`, or `name` for one that is looked up.
        telemetry: what OpenTelemetry was set up to be.
        pairs: how many of each were timed.
        connect_tcp: `anyio.connect_tcp`, until there is a stream.
        dial: `racer.dial`, likewise.
        ratio: of the medians, dial to connect.
        dropped: spans that began and were not exported; anything but 0 means that the row shows too little.
    """

    loop: str
    target: str
    telemetry: str
    pairs: int
    connect_tcp: Spread
    dial: Spread
    ratio: float
    dropped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCost:
    """A dial over transports in memory that answer at once, losers and their closing included.

    Attributes:
        loop: the event loop.
        entrants: how many start together.
        telemetry: what OpenTelemetry was set up to be.
        dials: how many of each were timed.
        dial: seconds a dial.
        share: seconds of it that are gone when the telemetry is left out.
        dropped: as in `DialCost`.
    """

    loop: str
    entrants: int
    telemetry: str
    dials: int
    dial: float
    share: float
    dropped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportCost:
    """Importing a module in a fresh interpreter."""

    module: str
    runs: int
    seconds: Spread


# --- measuring ------------------------------------------------------------------------------


def measure_dial(loop: str, target: str, telemetry: str, *, port: int, pairs: int) -> DialCost:
    """Return one row of the first table."""
    sdk = _sdk(telemetry)
    warm_up = pairs // 4
    plain, raced = run_on(loop, _pairs, dict(_TARGETS)[target], port, pairs + warm_up, sdk)
    exported = 0 if sdk is None else sdk.shutdown()
    expected = 0 if sdk is None else 2 * (pairs + warm_up)
    connect_tcp, dial = Spread.of(plain[warm_up:]), Spread.of(raced[warm_up:])
    return DialCost(
        loop=loop,
        target=target,
        telemetry=telemetry,
        pairs=pairs,
        connect_tcp=connect_tcp,
        dial=dial,
        ratio=dial.median / connect_tcp.median,
        dropped=expected - exported,
    )


async def _pairs(
    host: str, port: int, pairs: int, sdk: SDK | None
) -> tuple[list[float], list[float]]:
    async def connect() -> ByteStream:
        return await anyio.connect_tcp(host, port)

    async def dial() -> ByteStream:
        return await racer.dial(host, port, tls=False)

    async with _dialer(1, sdk, direct=True) as dialer:
        racer.set_default_dialer(dialer)
        plain: list[float] = []
        raced: list[float] = []
        first, second = (connect, plain), (dial, raced)
        gc.collect()
        for _ in range(pairs):
            for make, times in (first, second):
                times.append(await _timed(make))
            first, second = second, first
    return plain, raced


async def _timed(make: Callable[[], Awaitable[ByteStream]]) -> float:
    began = time.perf_counter()
    stream = await make()
    took = time.perf_counter() - began
    await stream.aclose()
    await _settle()
    return took


async def _settle() -> None:
    """Let the loop finish what the last dial left to it, so that the next one does not pay."""
    for _ in range(3):
        await checkpoint()


def measure_own(loop: str, entrants: int, telemetry: str, *, effort: Effort) -> OwnCost:
    """Return one row of the second table."""
    sdk = _sdk(telemetry)
    blocks = effort.blocks + 1  # the first warms up
    told, untold = run_on(loop, _blocks, entrants, blocks, effort.dials, sdk)
    exported = 0 if sdk is None else sdk.shutdown()
    expected = 0 if sdk is None else (1 + entrants) * blocks * effort.dials
    shares = [one - other for one, other in zip(told[1:], untold[1:], strict=True)]
    return OwnCost(
        loop=loop,
        entrants=entrants,
        telemetry=telemetry,
        dials=effort.blocks * effort.dials,
        dial=statistics.median(told[1:]) / effort.dials,
        share=statistics.median(shares) / effort.dials,
        dropped=expected - exported,
    )


async def _blocks(
    entrants: int, blocks: int, dials: int, sdk: SDK | None
) -> tuple[list[float], list[float]]:
    async with _dialer(entrants, sdk) as told, silence(_dialer(entrants, sdk)) as untold:
        times: dict[racer.Dialer, list[float]] = {told: [], untold: []}
        order = [told, untold]
        for _ in range(blocks):
            for dialer in order:
                gc.collect()
                began = time.perf_counter()
                for _ in range(dials):
                    await (await dialer.dial("127.0.0.1", 9, tls=False)).aclose()
                    await _settle()
                times[dialer].append(time.perf_counter() - began)
            order.reverse()
    return times[told], times[untold]


def _sdk(telemetry: str) -> SDK | None:
    return None if telemetry == "no SDK" else SDK(metrics=telemetry == "+ metrics")


def _dialer(entrants: int, sdk: SDK | None, *, direct: bool = False) -> racer.Dialer:
    guests = [Direct()] if direct else [Memory(f"memory-{n}") for n in range(entrants)]
    return racer.Dialer(
        guests,
        tracer_provider=None if sdk is None else sdk.tracer_provider,
        meter_provider=None if sdk is None else sdk.meter_provider,
    )


def measure_imports(runs: int) -> list[ImportCost]:
    """Return the third table; modules take turns."""
    times: dict[str, list[float]] = {module: [] for module in _MODULES}
    for run in range(runs + 1):
        for module, seconds in times.items():
            took = subprocess.run(  # noqa: S603 - our own interpreter
                [sys.executable, "-c", _TIMED_IMPORT.format(module)],
                capture_output=True,
                check=True,
                text=True,
            ).stdout
            if run:  # the first reads the files from the disk
                seconds.append(float(took))
    return [
        ImportCost(module=module, runs=runs, seconds=Spread.of(seconds))
        for module, seconds in times.items()
    ]


# --- telling --------------------------------------------------------------------------------


def _print_dials(costs: Iterable[DialCost]) -> None:
    print("\nOne direct entrant against anyio.connect_tcp, loopback, microseconds\n")
    print(f"{'':28}{'connect_tcp':>15}{'racer.dial':>17}{'ratio of':>12}")
    print(
        f"{'loop':9}{'target':9}{'telemetry':10}{'p50':>8}{'p95':>7}{'p50':>9}{'p95':>8}{'p50':>12}"
    )
    for cost in costs:
        plain, dial = cost.connect_tcp, cost.dial
        print(
            f"{cost.loop:9}{cost.target:9}{cost.telemetry:10}{_us(plain.median):>8}{_us(plain.p95):>7}"
            f"{_us(dial.median):>9}{_us(dial.p95):>8}{cost.ratio:>12.2f}{_warning(cost.dropped)}"
        )


def _print_own(costs: Iterable[OwnCost]) -> None:
    print("\nracer's own work: transports in memory that answer at once, microseconds\n")
    print(f"{'loop':9}{'entrants':>8} {'telemetry':10}{'a dial':>8}{'of it telemetry':>17}")
    for cost in costs:
        print(
            f"{cost.loop:9}{cost.entrants:>8} {cost.telemetry:10}{_us(cost.dial):>8}"
            f"{_us(cost.share):>17}{_warning(cost.dropped)}"
        )


def _print_imports(costs: Iterable[ImportCost]) -> None:
    print("\nImport in a fresh interpreter, milliseconds\n")
    print(f"{'module':9}{'p50':>8}{'p95':>8}")
    for cost in costs:
        took = cost.seconds
        print(f"{cost.module:9}{took.median * 1e3:>8.1f}{took.p95 * 1e3:>8.1f}")


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.0f}"


def _warning(dropped: int) -> str:
    return f" ({dropped} spans lost)" if dropped else ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="end within half a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument(
        "--loops", type=chosen_loops, default=LOOPS, help=f"some of {','.join(LOOPS)}"
    )
    parser.add_argument("--pairs", type=count, metavar="N", help="pairs of dials for each row")
    parser.add_argument("--blocks", type=count, metavar="N", help="blocks of dials over memory")
    parser.add_argument("--imports", type=count, metavar="N", help="interpreters for each module")
    return parser


def _effort(options: argparse.Namespace) -> Effort:
    usual = QUICK if options.quick else Effort()
    return Effort(
        pairs=options.pairs or usual.pairs,
        blocks=options.blocks or usual.blocks,
        dials=usual.dials,
        imports=options.imports or usual.imports,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write JSON where asked to."""
    options = _parser().parse_args(argv)
    effort = _effort(options)
    loops = [loop for loop in options.loops if is_installed(loop)]
    for loop in sorted(set(options.loops) - set(loops)):
        print(f"{loop} is not installed; its rows are missing", file=sys.stderr)
    with peer() as far:
        dials = [
            measure_dial(loop, target, telemetry, port=far.silent, pairs=effort.pairs)
            for loop in loops
            for target, _ in _TARGETS
            for telemetry in TELEMETRY
        ]
    _print_dials(dials)
    own = [
        measure_own(loop, entrants, telemetry, effort=effort)
        for loop in loops
        for entrants in _ENTRANTS
        for telemetry in TELEMETRY
    ]
    _print_own(own)
    imports = measure_imports(effort.imports)
    _print_imports(imports)
    if options.json is not None:
        told = {
            "python": platform.python_version(),
            "system": platform.platform(),
            "versions": {name: version(name) for name in ("anyio", "opentelemetry-sdk")},
            "effort": asdict(effort),
            "dials": [asdict(cost) for cost in dials],
            "own": [asdict(cost) for cost in own],
            "imports": [asdict(cost) for cost in imports],
        }
        options.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
