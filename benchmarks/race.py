"""Who connects through which network, and when: `python -m benchmarks.race [--quick] [--json FILE] [--runs N]`.

racer stands beside what people use instead: one plain connect, and a loop that tries one route after the other. In each
run all of them meet the same network with the same seed, one after the other, in an order that changes from run to run.
A connection counts when TLS is verified and one byte has come back.

Everything happens on real sockets of this machine, so its other work is in the times: what can be relied on are the
ratios, and who won. How late the event loop was while all this ran is told below the tables. With `--virtual` it all
happens in memory on a virtual clock instead.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import textwrap
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

from benchmarks._dialers import DIALERS, ROUTE_TIMEOUT, STAGGER
from benchmarks._loops import count
from benchmarks._networks import DELAY, JITTER, KINDS, Authorities, Kind, World
from benchmarks._packet_race import measure_packets
from benchmarks._samples import Lateness, Row, Sample, rows_of
from racer.lab.packets import why_unavailable
from racer.testing import virtual_backends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks._dialers import Dialed

__all__ = ("main", "measure")

COLUMNS: Final = 80
RUNS: Final = 20
QUICK_RUNS: Final = 3
QUICK_RUNS_WAITING: Final = 2
DEADLINE: Final = 5.0
QUICK_DEADLINE: Final = 3.0
PACKETS_DEADLINE: Final = 10.0
_PULSE: Final = 0.01  # seconds between two looks at how late the loop is


# --- measuring ------------------------------------------------------------------------------


async def measure(
    kind: Kind,
    authorities: Authorities,
    *,
    runs: int,
    seed: int,
    deadline: float,
    in_memory: bool = False,
) -> list[Sample]:
    """Return one network's samples.

    Args:
        kind: the network.
        authorities: whose certificates are shown.
        runs: how often each dialer is sent into it.
        seed: of the first run's network; the next one's is one more.
        deadline: seconds for each dial.
        in_memory: whether to do without sockets, for virtual clocks.
    """
    names = list(DIALERS)
    samples = []
    for run in range(runs):
        for name in names[run % len(names) :] + names[: run % len(names)]:
            async with World.of(kind, authorities, seed=seed + run, in_memory=in_memory) as world:
                dialed = await DIALERS[name](world, deadline)
                sample = _sample(kind, name, world, dialed, run=run, seed=seed + run)
            samples.append(sample)
    return samples


def _sample(
    kind: Kind, dialer: str, world: World, dialed: Dialed, *, run: int, seed: int
) -> Sample:
    usable = dialed.winner is not None
    return Sample(
        network=kind.name,
        dialer=dialer,
        run=run,
        seed=seed,
        usable=usable,
        seconds=dialed.seconds,
        winner=dialed.winner,
        started=dialed.started,
        opened=world.opened,
        wasted=world.opened - usable,
        reached=world.reached,
        errors=dialed.errors,
    )


async def _pulse(late: list[float]) -> None:
    while True:
        due = anyio.current_time() + _PULSE
        await anyio.sleep(_PULSE)
        late.append(anyio.current_time() - due)


async def measure_all(
    authorities: Authorities,
    kinds: Sequence[tuple[Kind, int]],
    *,
    seed: int,
    deadline: float,
    virtual: bool,
) -> tuple[list[Sample], Lateness | None]:
    """Return every sample, printing each network's table as it is done, and how late the loop was.

    Args:
        authorities: whose certificates are shown.
        kinds: the networks, and how often each dialer is sent into it.
        seed: as in `measure`.
        deadline: likewise.
        virtual: whether this runs on a virtual clock, which is never late.
    """
    # What is loaded, made and compiled once is no part of a connection.
    first = KINDS[0]
    await measure(first, authorities, runs=1, seed=seed, deadline=deadline, in_memory=virtual)
    samples: list[Sample] = []
    late: list[float] = []
    gone: BrokenPipeError | None = None
    async with anyio.create_task_group() as group:
        if not virtual:
            group.start_soon(_pulse, late)
        for kind, runs in kinds:
            found = await measure(
                kind, authorities, runs=runs, seed=seed, deadline=deadline, in_memory=virtual
            )
            samples += found
            try:
                _print_network(kind, rows_of(found))
            except BrokenPipeError as exc:  # raised outside, where no group is put around it
                gone = exc
                break
        group.cancel_scope.cancel()
    if gone is not None:
        raise gone
    return samples, Lateness.of(late) if late else None


# --- printing -------------------------------------------------------------------------------

_LINE: Final = "{:12}{:>8}{:>8}{:>8}  {:24}{:>5}{:>7}{:>6}"


def _print_head(*, seed: int, deadline: float) -> None:
    round_trip = 2 * (DELAY + JITTER / 2)
    print(
        _filled(
            "Time until TLS is verified and one byte has come back, in ms, in a lab on this machine "
            f"with {_ms(round_trip)} ms round trips (seed {seed})."
        )
    )
    print()
    print(
        f"racer        direct, and {_ms(STAGGER)} ms later the proxy, unless direct failed before"
    )
    print("connect_tcp  direct alone, in the steps of anyio.connect_tcp(..., tls=True)")
    print(f"fallback     direct, then the proxy, each for at most {ROUTE_TIMEOUT:g} s")
    print()
    print(
        _filled(
            f"Each dial has {deadline:g} s. In brackets: nobody connected, why, and how long that took. "
            "ratio: p50 beside racer's. tried: routes. waste: connections begun and not used."
        )
    )


def _filled(text: str) -> str:
    return textwrap.fill(text, COLUMNS)


def _print_network(kind: Kind, rows: Sequence[Row]) -> None:
    print()
    print(_filled(f"{kind.name}: {kind.words}"))
    print(_LINE.format("", "p50", "p95", "ratio", "won by", "tried", "waste", "fail").rstrip())
    for row in rows:
        all_failed = row.failed == row.runs
        p50, p95 = (f"({_ms(t)})" if all_failed else _ms(t) for t in (row.p50, row.p95))
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        print(
            _LINE.format(
                row.dialer,
                p50,
                p95,
                ratio,
                _outcomes(row),
                f"{row.started:.1f}",
                f"{row.wasted:.1f}",
                f"{row.failed}/{row.runs}",
            )
        )
    sys.stdout.flush()


def _outcomes(row: Row) -> str:
    only = len(row.outcomes) == 1
    told = ", ".join(what if only else f"{what} {n}" for what, n in row.outcomes.items())
    told = f"({told})" if row.failed == row.runs else told
    return told if len(told) <= 24 else f"{told[:21]}..."


def _print_lateness(lateness: Lateness | None) -> None:
    print()
    if lateness is None:
        print("On a virtual clock: exact, and work takes no time.")
        return
    print(
        _filled(
            "This machine's noise: a task that only sleeps was woken up late by "
            f"{_ms(lateness.p50)} ms (p50), {_ms(lateness.p95)} ms (p95), "
            f"{_ms(lateness.worst)} ms (worst). Ratios and winners say more than times do."
        )
    )


def _ms(seconds: float) -> str:
    value = seconds * 1000
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


# --- the command line -----------------------------------------------------------------------


def chosen_kinds(text: str) -> tuple[Kind, ...]:
    """Return the networks of a comma-separated list, for argparse.

    Raises:
        argparse.ArgumentTypeError: one of them is unknown.
    """
    known = {kind.name: kind for kind in KINDS}
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            msg = f"{name!r} is none of {', '.join(known)}"
            raise argparse.ArgumentTypeError(msg)
    return tuple(known[name] for name in dict.fromkeys(names))


def _parser() -> argparse.ArgumentParser:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.race",
        description=__doc__,
    )
    add = parser.add_argument
    add(
        "--quick",
        action="store_true",
        help=f"{QUICK_RUNS} runs, {QUICK_RUNS_WAITING} where dialers wait; less than a minute",
    )
    add("--runs", type=count, metavar="N", help=f"dials of each dialer in each network ({RUNS})")
    add(
        "--networks",
        type=chosen_kinds,
        default=KINDS,
        metavar="A,B",
        help=f"some of {', '.join(kind.name for kind in KINDS)}",
    )
    add(
        "--virtual",
        action="store_true",
        help="in memory, on a virtual clock: no machine's noise, and no waiting",
    )
    add("--packets", action="store_true", help="also in networks of packets (Linux, root)")
    add("--seed", type=int, default=1, metavar="N", help="of the networks' dice (1)")
    add("--json", type=Path, metavar="FILE", help="write every sample there too")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write JSON where asked to."""
    options = _parser().parse_args(argv)
    try:
        _run(options)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Who read our output has gone. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _run(options: argparse.Namespace) -> None:
    kinds = [(kind, options.runs or _usual_runs(kind, options)) for kind in options.networks]
    deadline = QUICK_DEADLINE if options.quick else DEADLINE
    _print_head(seed=options.seed, deadline=deadline)
    backend, backend_options = _backend(options)
    samples, lateness = anyio.run(
        lambda: measure_all(
            Authorities(), kinds, seed=options.seed, deadline=deadline, virtual=options.virtual
        ),
        backend=backend,
        backend_options=backend_options,
    )
    if options.packets:
        samples += _measure_packets(options)
    _print_lateness(lateness)
    if options.json is None:
        return
    told = {
        "python": platform.python_version(),
        "system": platform.platform(),
        "versions": {name: version(name) for name in ("anyio", "racer-dialer")},
        "setting": {
            "seed": options.seed,
            "deadline": deadline,
            "virtual": options.virtual,
            "delay": DELAY,
            "jitter": JITTER,
            "stagger": STAGGER,
            "route_timeout": ROUTE_TIMEOUT,
        },
        "networks": {kind.name: kind.words for kind in options.networks},
        "lateness": None if lateness is None else asdict(lateness),
        "rows": [asdict(row) for row in rows_of(samples)],
        "samples": [asdict(sample) for sample in samples],
    }
    options.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _measure_packets(options: argparse.Namespace) -> list[Sample]:
    """Return the samples of networks of packets, printing each network's table; none where they cannot be had."""
    print()
    if (reason := why_unavailable()) is not None:
        print(f"no networks of packets here: {reason}")
        return []
    print(
        _filled(
            "Packet by packet, in network namespaces of this machine. racer: direct, and 300 ms later proxyless, which "
            "is new to the network each time."
        )
    )
    samples: list[Sample] = []

    def tell(kind: Kind, found: list[Sample]) -> None:
        samples.extend(found)
        _print_network(kind, rows_of(found))

    runs = options.runs or (QUICK_RUNS if options.quick else RUNS)
    anyio.run(lambda: measure_packets(runs=runs, deadline=PACKETS_DEADLINE, tell=tell))
    return samples


def _usual_runs(kind: Kind, options: argparse.Namespace) -> int:
    if not options.quick:
        return RUNS
    return QUICK_RUNS_WAITING if kind.waits else QUICK_RUNS


def _backend(options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    if not options.virtual:
        return "asyncio", {}
    return next(backend for backend in virtual_backends() if backend[0] == "asyncio")


if __name__ == "__main__":
    sys.exit(main())
