"""What a dial costs: beside a plain connect, over nothing but memory, and many at once. Every row is taken within one run."""

from __future__ import annotations

import contextlib
import gc
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import anyio
from anyio.lowlevel import checkpoint

import racer
from benchmarks._loops import run_on
from benchmarks._memory import Memory
from benchmarks._null import silence
from benchmarks._sdk import SDK
from transports.direct import Direct

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from anyio.abc import ByteStream

__all__ = (
    "GROWTH",
    "TARGETS",
    "TELEMETRY",
    "CrowdCost",
    "DialCost",
    "ImportCost",
    "OwnCost",
    "Spread",
    "measure_crowd",
    "measure_dial",
    "measure_imports",
    "measure_own",
)

TELEMETRY: Final = ("no SDK", "traces", "+ metrics")
"""What OpenTelemetry is: its API alone; the SDK with batch export of spans; and with metrics too."""

TARGETS: Final = {"literal": "127.0.0.1", "name": "localhost"}
"""What is dialed: an address, or a name that has to be looked up."""

GROWTH: Final = (1, 2, 4, 8, 16, 32)
"""Entrants of a race whose cost is told without telemetry."""

_MODULES: Final = ("anyio", "racer")
_TIMED_IMPORT: Final = (
    "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Seconds that one thing took, many times."""

    median: float
    p95: float
    least: float
    most: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Self:
        """Return median, 95th percentile and range."""
        ordered = sorted(seconds)
        return cls(
            median=statistics.median(ordered),
            p95=ordered[int(0.95 * (len(ordered) - 1))],
            least=ordered[0],
            most=ordered[-1],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DialCost:
    """A dial with one direct entrant beside a plain connect.

    Attributes:
        loop: the event loop.
        target: `literal`, or `name` for one that is looked up.
        telemetry: what OpenTelemetry was set up to be.
        plain: seconds of each `anyio.connect_tcp`, until there is a stream.
        raced: seconds of each `racer.dial`, likewise; it was made beside the connect at the same place.
        dropped: spans that began and were not exported; anything but 0 means that the row shows too little.
    """

    loop: str
    target: str
    telemetry: str
    plain: tuple[float, ...]
    raced: tuple[float, ...]
    dropped: int

    @property
    def ratio(self) -> float:
        """Of the medians, dial to connect."""
        return statistics.median(self.raced) / statistics.median(self.plain)

    @property
    def extra(self) -> float:
        """Seconds by which the medians differ."""
        return statistics.median(self.raced) - statistics.median(self.plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCost:
    """A dial over transports in memory that answer at once, losers and their closing included.

    Attributes:
        loop: the event loop.
        entrants: how many start together.
        telemetry: what OpenTelemetry was set up to be.
        told: seconds a dial, of each block of dials.
        untold: the same with telemetry left out, in blocks between.
        dropped: as in `DialCost`.
    """

    loop: str
    entrants: int
    telemetry: str
    told: tuple[float, ...]
    untold: tuple[float, ...]
    dropped: int

    @property
    def dial(self) -> float:
        """Seconds a dial."""
        return statistics.median(self.told)

    @property
    def share(self) -> float:
        """Seconds of it that are gone when telemetry is left out."""
        return statistics.median(
            one - other for one, other in zip(self.told, self.untold, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdCost:
    """Many dials begun at the same moment, over loopback, beside as many plain connects.

    Attributes:
        loop: the event loop.
        dials: how many.
        plain: seconds until all plain connects had their streams, of each round.
        raced: seconds until all dials had, likewise.
        failed: of all dials of all rounds.
    """

    loop: str
    dials: int
    plain: tuple[float, ...]
    raced: tuple[float, ...]
    failed: int

    @property
    def ratio(self) -> float:
        """Of the medians, dials to connects."""
        return statistics.median(self.raced) / statistics.median(self.plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportCost:
    """Importing a module in a fresh interpreter: seconds of each."""

    module: str
    seconds: tuple[float, ...]


def dialer_of(entrants: int, sdk: SDK | None, *, direct: bool = False) -> racer.Dialer:
    """Return a dialer with so many entrants in memory, or one direct."""
    guests = [Direct()] if direct else [Memory(f"memory-{n}") for n in range(entrants)]
    return racer.Dialer(
        guests,
        tracer_provider=None if sdk is None else sdk.tracer_provider,
        meter_provider=None if sdk is None else sdk.meter_provider,
    )


def _sdk(telemetry: str) -> SDK | None:
    return None if telemetry == "no SDK" else SDK(metrics=telemetry == "+ metrics")


# --- beside a plain connect -----------------------------------------------------------------


def measure_dial(loop: str, target: str, telemetry: str, *, port: int, pairs: int) -> DialCost:
    """Return one row: pairs whose order alternates, after a warm-up of a quarter more."""
    sdk = _sdk(telemetry)
    warm_up = pairs // 4
    plain, raced = run_on(loop, _pairs, TARGETS[target], port, pairs + warm_up, sdk)
    exported = 0 if sdk is None else sdk.shutdown()
    expected = 0 if sdk is None else 2 * (pairs + warm_up)
    return DialCost(
        loop=loop,
        target=target,
        telemetry=telemetry,
        plain=tuple(plain[warm_up:]),
        raced=tuple(raced[warm_up:]),
        dropped=expected - exported,
    )


async def _pairs(
    host: str, port: int, pairs: int, sdk: SDK | None
) -> tuple[list[float], list[float]]:
    async def connect() -> ByteStream:
        return await anyio.connect_tcp(host, port)

    async def dial() -> ByteStream:
        return await racer.dial(host, port, tls=False)

    async with dialer_of(1, sdk, direct=True) as dialer:
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


# --- over nothing but memory ----------------------------------------------------------------


def measure_own(loop: str, entrants: int, telemetry: str, *, blocks: int, dials: int) -> OwnCost:
    """Return one row: blocks with and without telemetry in turn, after one that warms up."""
    sdk = _sdk(telemetry)
    told, untold = run_on(loop, _blocks, entrants, blocks + 1, dials, sdk)
    exported = 0 if sdk is None else sdk.shutdown()
    expected = 0 if sdk is None else (1 + entrants) * (blocks + 1) * dials
    return OwnCost(
        loop=loop,
        entrants=entrants,
        telemetry=telemetry,
        told=tuple(seconds / dials for seconds in told[1:]),
        untold=tuple(seconds / dials for seconds in untold[1:]),
        dropped=expected - exported,
    )


async def _blocks(
    entrants: int, blocks: int, dials: int, sdk: SDK | None
) -> tuple[list[float], list[float]]:
    async with dialer_of(entrants, sdk) as told, silence(dialer_of(entrants, sdk)) as untold:
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


# --- many at once ---------------------------------------------------------------------------


def measure_crowd(loop: str, *, port: int, dials: int, rounds: int) -> CrowdCost:
    """Return one row: rounds of dials and of connects in turn, after one that warms up."""
    plain, raced, failed = run_on(loop, _rounds, port, dials, rounds + 1)
    return CrowdCost(
        loop=loop, dials=dials, plain=tuple(plain[1:]), raced=tuple(raced[1:]), failed=failed
    )


async def _rounds(port: int, dials: int, rounds: int) -> tuple[list[float], list[float], int]:
    plain: list[float] = []
    raced: list[float] = []
    failed = 0
    async with dialer_of(1, None, direct=True) as dialer:

        async def connect() -> ByteStream:
            return await anyio.connect_tcp("127.0.0.1", port)

        async def dial() -> ByteStream:
            return await dialer.dial("127.0.0.1", port, tls=False)

        order = [(connect, plain), (dial, raced)]
        for _ in range(rounds):
            for make, times in order:
                gc.collect()
                took, lost = await _crowd(make, dials)
                times.append(took)
                failed += lost if make is dial else 0
            order.reverse()
    return plain, raced, failed


async def _crowd(make: Callable[[], Awaitable[ByteStream]], dials: int) -> tuple[float, int]:
    """Return the seconds until all are there, and how many never were."""
    streams: list[ByteStream] = []

    async def one() -> None:
        with contextlib.suppress(OSError):  # counted by its absence
            streams.append(await make())

    began = time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(dials):
            group.start_soon(one)
    took = time.perf_counter() - began
    for stream in streams:
        await stream.aclose()
    return took, dials - len(streams)


# --- imports --------------------------------------------------------------------------------


def measure_imports(runs: int) -> list[ImportCost]:
    """Return a row for each module; they take turns."""
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
    return [ImportCost(module=module, seconds=tuple(seconds)) for module, seconds in times.items()]
