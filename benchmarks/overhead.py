"""What `racer.dial` costs over a plain connect: `python -m benchmarks.overhead [--quick] [--output DIR]`.

Each question is answered by a comparison within one run:

* A dial with one direct entrant against `anyio.connect_tcp`, in pairs whose order alternates, over loopback.
* A dial over a transport in memory: racer's own work, and by leaving telemetry out, telemetry's share of it.
* The same as entrants grow from 1 to 32.
* A thousand dials at the same moment, beside a thousand plain connects.
* Memory of a dial under way, of a connection, and of an idle session of Soar's server.
* A request over the race beside one of plain httpx, on a kept connection and on a new one.
* Importing `racer` beside importing `anyio`, each in a fresh interpreter.

A folder gets the figures (JSON), pictures (PNG), and a page with both. `--compare A.json B.json` says what moved.
"""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from benchmarks import _overhead_pages as pages
from benchmarks._command import Parser, check_output, run_command, shown
from benchmarks._loops import LOOPS, chosen_loops, count, is_installed
from benchmarks._machine import Machine
from benchmarks._origin import site
from benchmarks._overhead_dials import (
    GROWTH,
    TARGETS,
    TELEMETRY,
    measure_crowd,
    measure_dial,
    measure_imports,
    measure_own,
)
from benchmarks._overhead_memory import measure_memory
from benchmarks._peer import peer
from benchmarks._results import Figure, Results, Unusable
from benchmarks.http import measure_cost

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from benchmarks._overhead_dials import CrowdCost, DialCost, ImportCost, OwnCost
    from benchmarks._overhead_memory import MemoryCost
    from benchmarks.http import RequestCost

__all__ = ("Effort", "main")

ENTRANTS: Final = (1, 5)
"""Of the races of which telemetry's share is told."""

_SPARE: Final = 200  # files that a process has open besides its connections


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is measured.

    Attributes:
        pairs: dials and plain connects for each row, after a warm-up of a quarter more.
        blocks: blocks of dials over memory for each row, once with and once without telemetry.
        dials: dials in a block.
        crowd: dials at the same moment.
        rounds: of crowds.
        held: dials under way, and connections, of which the memory is told.
        sessions: idle sessions of Soar's server.
        kept: pairs of requests on kept connections.
        new: pairs of requests with a new connection each.
        imports: fresh interpreters for each module.
    """

    pairs: int = 800
    blocks: int = 30
    dials: int = 100
    crowd: int = 1000
    rounds: int = 7
    held: int = 300
    sessions: int = 3000
    kept: int = 800
    new: int = 150
    imports: int = 10


QUICK: Final = Effort(
    pairs=100, blocks=5, dials=20, rounds=2, held=100, sessions=500, kept=100, new=20, imports=3
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Everything that one run measured."""

    dials: list[DialCost]
    own: list[OwnCost]
    growth: list[OwnCost]
    crowds: list[CrowdCost]
    memory: list[MemoryCost]
    requests: list[RequestCost]
    imports: list[ImportCost]

    def figures(self) -> Iterator[Figure]:
        """Yield what can be compared with another run."""
        for cost in self.dials:
            name = f"dial/{cost.loop}/{cost.target}/{cost.telemetry}"
            pairs = zip(cost.raced, cost.plain, strict=True)
            yield Figure(name=name, unit="s", values=cost.raced)
            ratios = tuple(one / other for one, other in pairs)
            yield Figure(name=f"{name}: to connect_tcp", unit="ratio", values=ratios)
        for own in (*self.own, *self.growth):
            name = f"own/{own.loop}/{own.entrants}/{own.telemetry}"
            yield Figure(name=name, unit="s", values=own.told)
        for crowd in self.crowds:
            name = f"crowd/{crowd.loop}/{crowd.dials}"
            yield Figure(name=name, unit="s", values=crowd.raced)
            ratios = tuple(a / b for a, b in zip(crowd.raced, crowd.plain, strict=True))
            yield Figure(name=f"{name}: to connect_tcp", unit="ratio", values=ratios)
        for memory in self.memory:
            yield Figure(name=f"memory/{memory.what}", unit="B", values=(memory.octets,))
        for request in self.requests:
            name = f"http/{request.loop}/{request.protocol}/{request.connection}"
            yield Figure(name=name, unit="s", values=request.raced_times)
            both = zip(request.raced_times, request.plain_times, strict=True)
            ratios = tuple(one / other for one, other in both)
            yield Figure(name=f"{name}: to httpx", unit="ratio", values=ratios)
        for module in self.imports:
            yield Figure(name=f"import/{module.module}", unit="s", values=module.seconds)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: rows, with what is told of each."""
        told: dict[str, Any] = {
            kind: [asdict(row) for row in getattr(self, kind)]
            for kind in ("memory", "requests", "imports")
        }
        told["dials"] = [
            asdict(row) | {"ratio": row.ratio, "extra": row.extra} for row in self.dials
        ]
        for kind, rows in (("own", self.own), ("growth", self.growth)):
            told[kind] = [asdict(row) | {"dial": row.dial, "share": row.share} for row in rows]
        told["crowds"] = [asdict(row) | {"ratio": row.ratio} for row in self.crowds]
        return told


def measure(loops: Sequence[str], effort: Effort) -> Found:
    """Measure, and print each table as it is there."""
    with peer() as far:
        dials = [
            measure_dial(loop, target, telemetry, port=far.silent, pairs=effort.pairs)
            for loop in loops
            for target in TARGETS
            for telemetry in TELEMETRY
        ]
        pages.print_dials(dials)
    block: dict[str, int] = {"blocks": effort.blocks, "dials": effort.dials}
    own = [
        measure_own(loop, entrants, telemetry, **block)
        for loop in loops
        for entrants in ENTRANTS
        for telemetry in TELEMETRY
    ]
    pages.print_own(own)
    fewer = {name: max(1, number // 3) for name, number in block.items()}  # they take longer
    growth = [measure_own(loop, n, TELEMETRY[0], **fewer) for loop in loops for n in GROWTH]
    pages.print_growth(growth)
    crowd = _possible(effort.crowd)
    with peer() as far:  # a new one, without what the first has open yet
        crowds = [
            measure_crowd(loop, port=far.silent, dials=crowd, rounds=effort.rounds)
            for loop in loops
        ]
    pages.print_crowds(crowds)
    if crowd < effort.crowd:
        print(f"\nThis system lets a process open no more than {crowd} at once (ulimit -n).")
    memory = measure_memory(dials=effort.held, sessions=effort.sessions)
    pages.print_memory(memory)
    with site() as https:
        requests = [
            measure_cost(
                loops[0], "httpx", protocol=protocol, connection=kind, far=https, pairs=pairs
            )
            for protocol in ("HTTP/1.1", "HTTP/2")
            for kind, pairs in (("kept", effort.kept), ("new", effort.new))
        ]
    pages.print_requests(requests)
    imports = measure_imports(effort.imports)
    pages.print_imports(imports)
    return Found(
        dials=dials,
        own=own,
        growth=growth,
        crowds=crowds,
        memory=memory,
        requests=requests,
        imports=imports,
    )


def _possible(crowd: int) -> int:
    """Return how many connections this process may open at once, at most so many."""
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return crowd
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = crowd + _SPARE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return max(1, min(crowd, most - _SPARE))
    return crowd


# --- the command line -----------------------------------------------------------------------


def _parser() -> Parser:
    assert __doc__ is not None
    parser = Parser("overhead", __doc__)
    add = parser.add_argument
    add("--quick", action="store_true", help="end within a minute")
    add("--loops", type=chosen_loops, default=LOOPS, help=f"some of {','.join(LOOPS)}")
    add("--pairs", type=count, metavar="N", help="pairs of dials for each row")
    add("--blocks", type=count, metavar="N", help="blocks of dials over memory")
    add("--imports", type=count, metavar="N", help="interpreters for each module")
    return parser


def _effort(options: argparse.Namespace) -> Effort:
    usual = asdict(QUICK if options.quick else Effort())
    wished = {name: getattr(options, name) for name in ("pairs", "blocks", "imports")}
    return Effort(**usual | {name: number for name, number in wished.items() if number})


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write and draw; or compare: see `run_command`."""
    return run_command(_parser(), argv, _run)


def _run(options: argparse.Namespace) -> None:
    check_output(options)
    effort = _effort(options)
    loops = [loop for loop in options.loops if is_installed(loop)]
    for loop in sorted(set(options.loops) - set(loops)):
        print(f"{loop} is not installed; its rows are missing", file=sys.stderr)
    if not loops:
        msg = f"none of these loops is installed; take --loops {LOOPS[0]}"
        raise Unusable(msg)
    machine = Machine.here(
        ("anyio", "opentelemetry-api", "opentelemetry-sdk", "httpx", "h11", "h2", *loops[1:])
    )
    printed = io.StringIO()
    with contextlib.redirect_stdout(_Both(sys.stdout, printed)):
        found = measure(loops, effort)
    out: Path = options.output
    results = Results(
        benchmark="overhead",
        machine=machine,
        setting={"effort": asdict(effort), "loops": loops},
        figures=list(found.figures()),
        details=found.to_dict(),
    )
    results.write(out / "overhead.json")
    drawn = pages.draw(found.dials, found.growth, found.requests, out) if options.pictures else {}
    pages.write_page(out / "overhead.html", printed.getvalue(), machine=machine, drawn=drawn)
    print(f"\nwritten to {shown(out)}: {', '.join(['overhead.json', *drawn, 'overhead.html'])}")


class _Both(io.TextIOBase):
    """Writes to both, so that the page has what was printed."""

    def __init__(self, *outs: Any) -> None:  # noqa: ANN401 - files of text
        self._outs = outs

    def write(self, text: str) -> int:
        for out in self._outs:
            out.write(text)
        return len(text)

    def flush(self) -> None:
        for out in self._outs:
            out.flush()


if __name__ == "__main__":
    sys.exit(main())
