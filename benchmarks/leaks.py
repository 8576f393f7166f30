"""Whether anything is left of ten thousand races: `python -m benchmarks.leaks [--races N]`.

Each race is over real sockets on loopback and TLS. One entrant wins; the others are refused, hang in the handshake, or
hang and are slow to close. Every tenth caller gives up within a few milliseconds, before or after the win. What is open
is told ten times on the way, where it should be a plateau, and after `Dialer.aclose()`, where it should be nothing: the
exit status is 1 if it is not.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import random
import resource
import ssl
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from anyio.abc import ByteStream

from benchmarks._loops import chosen_loops, count, run_on
from benchmarks._peer import Peer, peer
from benchmarks._sdk import SDK, SpanCount
from racer import Dialer
from racer.abc import Target, Transport
from racer.errors import AllAttemptsFailed
from transports.direct import Direct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from racer.abc import Progress

__all__ = ("Census", "main")

_AT_ONCE: Final = 20  # races under way
_ROWS: Final = 10
_CANCELLED: Final = 0.1  # of all callers
_PATIENCE: Final = 0.006  # seconds, at most, of a caller that gives up
_SLOW: Final = 0.03  # seconds a slow close takes
_STUCK: Final = 0.01  # of all slow closes: those that end by force only
_SETTLE: Final = 1.0  # seconds the loop gets for what aclose() has left to its callbacks


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """What is there at one moment; of file descriptors and tasks, those beyond what was there before the dialer.

    Attributes:
        races: how many have begun and ended.
        won: how many gave their caller a stream.
        cancelled: how many were given up by their caller first.
        failed: how many had no winner; not expected.
        fds: open file descriptors.
        tasks: living tasks.
        closing: cleanups under way.
        spans: started.
        open_spans: started and not ended.
        memory: resident bytes.
    """

    races: int
    won: int
    cancelled: int
    failed: int
    fds: int
    tasks: int
    closing: int
    spans: int
    open_spans: int
    memory: int

    @property
    def is_clean(self) -> bool:
        """Whether nothing is left."""
        return not (self.fds or self.tasks or self.closing or self.open_spans)


@dataclass(slots=True)
class _Tally:
    """What has become of the races so far."""

    won: int = 0
    cancelled: int = 0
    failed: int = 0


# --- entrants -------------------------------------------------------------------------------


class _Via(Transport):
    """Connects to a fixed port instead of the target's."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self._direct = Direct()
        self._there = Target("127.0.0.1", port, tls=False)

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        del target
        return await self._direct.connect(self._there, progress)


class _SlowToClose(_Via):
    """Gives streams that take their time to close, and some that close by force only."""

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        return _Reluctant(await super().connect(target, progress))


class _Reluctant(ByteStream):
    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._delay = 3600.0 if random.random() < _STUCK else _SLOW

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return self._stream.extra_attributes

    async def receive(self, max_bytes: int = 65536) -> bytes:
        return await self._stream.receive(max_bytes)

    async def send(self, item: bytes) -> None:
        await self._stream.send(item)

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        try:
            await anyio.sleep(self._delay)
        finally:
            await self._stream.aclose()


# --- counting -------------------------------------------------------------------------------


def _fds() -> int:
    return len(os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd"))  # noqa: PTH208 - an extra fd


def _tasks() -> int:
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return int(trio.lowlevel.current_statistics().tasks_living)
    return len(asyncio.all_tasks())


def _memory() -> int:
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # the most there ever was


@dataclass(slots=True)
class _Counter:
    """Takes the census, relative to the moment it was made."""

    spans: SpanCount
    tally: _Tally = field(default_factory=_Tally)
    fds: int = field(default_factory=_fds)
    tasks: int = field(default_factory=_tasks)

    def census(self, closing: int) -> Census:
        tally, spans = self.tally, self.spans
        return Census(
            races=tally.won + tally.cancelled + tally.failed,
            won=tally.won,
            cancelled=tally.cancelled,
            failed=tally.failed,
            fds=_fds() - self.fds,
            tasks=_tasks() - self.tasks,
            closing=closing,
            spans=spans.started,
            open_spans=spans.started - spans.ended,
            memory=_memory(),
        )


# --- racing ---------------------------------------------------------------------------------


async def _run(far: Peer, races: int, report: Callable[[Census], None]) -> Census:
    """Race, report along the way, and return what is left after the end."""
    spans = SpanCount()
    sdk = SDK(spans, metrics=True)
    try:
        # A loop keeps something of the first connection, whoever makes it: uvloop a spare file descriptor.
        await (await anyio.connect_tcp("127.0.0.1", far.silent)).aclose()
        await anyio.sleep(_SETTLE / 20)
        counter = _Counter(spans)
        await _races(far, races, counter, sdk, report)
        with anyio.move_on_after(_SETTLE):
            while not counter.census(0).is_clean:  # noqa: ASYNC110 - a file descriptor does not say when it goes
                await anyio.sleep(0.01)
        return counter.census(0)
    finally:
        sdk.shutdown()


async def _races(
    far: Peer, races: int, counter: _Counter, sdk: SDK, report: Callable[[Census], None]
) -> None:
    context = ssl.create_default_context(cadata=far.authority)
    target = Target("127.0.0.1", far.tls, tls=context)
    async with Dialer(
        [
            _Via("refused", far.refused),
            _Via("hanging", far.silent),
            _SlowToClose("slow", far.silent),
            _Via("good", far.tls),
        ],
        tracer_provider=sdk.tracer_provider,
        meter_provider=sdk.meter_provider,
    ) as dialer:
        left = iter(range(races))
        step = max(1, races // _ROWS)

        async def caller() -> None:
            for number in left:
                await _race(dialer, target, counter.tally)
                if (number + 1) % step == 0:
                    report(counter.census(dialer.status().cleanups))

        async with anyio.create_task_group() as callers:
            for _ in range(_AT_ONCE):
                callers.start_soon(caller)


async def _race(dialer: Dialer, target: Target, tally: _Tally) -> None:
    patience = random.uniform(0, _PATIENCE) if random.random() < _CANCELLED else None
    with anyio.move_on_after(patience) as scope:
        try:
            connection = await dialer.dial(target)
        except AllAttemptsFailed:
            tally.failed += 1
            return
        tally.won += 1
        with anyio.CancelScope(shield=True):
            await connection.aclose()
        return
    assert scope.cancelled_caught
    tally.cancelled += 1


# --- telling --------------------------------------------------------------------------------


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Leave out what racer says of each stream that closes by force only: they are meant to."""
    logger = logging.getLogger("racer.host")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


_COLUMNS: Final = ("races", "won", "cut", "fds", "tasks", "closing", "spans", "open", "MB")


def _print_header(loop: str) -> None:
    print(
        f"\n{loop}: four entrants a race, {_AT_ONCE} races at once; fds and tasks beyond the first\n"
    )
    print(f"{'':7}" + "".join(f"{name:>8}" for name in _COLUMNS))


def _print_census(census: Census, *, when: str = "") -> None:
    figures = (
        census.races,
        census.won,
        census.cancelled,
        census.fds,
        census.tasks,
        census.closing,
        census.spans,
        census.open_spans,
    )
    print(f"{when:7}" + "".join(f"{n:>8}" for n in figures) + f"{census.memory / 1e6:>8.0f}")
    if census.failed:
        print(f"{'':7}{census.failed} races had no winner")


def main(argv: Sequence[str] | None = None) -> int:
    """Race, print, and return 1 if anything was left."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.leaks", description=__doc__)
    parser.add_argument("--races", type=count, default=10_000, metavar="N", help="on each loop")
    parser.add_argument("--loops", type=chosen_loops, default=("asyncio", "trio"))
    parser.add_argument("--seed", type=int, default=1, help="of which caller gives up, and when")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args(argv)
    told: dict[str, list[dict[str, int]]] = {}
    clean = True
    with _quiet(), peer(tls=True) as far:
        for loop in options.loops:
            random.seed(options.seed)
            _print_header(loop)
            rows: list[Census] = []

            def report(census: Census, rows: list[Census] = rows) -> None:
                rows.append(census)
                _print_census(census)

            rest = run_on(loop, _run, far, options.races, report)
            _print_census(rest, when="closed")
            clean = clean and rest.is_clean
            told[loop] = [asdict(census) for census in (*rows, rest)]
    if options.json is not None:
        options.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
