"""Who connects through which network, and when: `python -m benchmarks.race [--quick] [--network NAME] [--output DIR]`.

racer stands beside what people use instead: one plain connect, a loop that tries one route after the other, and the
schedules of kindling and of Outline over the same routes. In each run all of them meet the same network with the same seed,
one after the other, in an order that changes from run to run. A connection counts when TLS is verified and one byte has
come back.

Everything happens on real sockets of this machine, so its other work is in the times: what can be relied on are the
ratios, and who won. How late the event loop was while all this ran is told below the tables. With `--virtual` it all
happens in memory on a virtual clock instead.

A folder gets the figures (JSON), a picture (PNG), and a page with both. `--compare A.json B.json` says what moved.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import anyio

from benchmarks._command import (
    Parser,
    Progress,
    check_output,
    cut_by,
    filled,
    nearest,
    run_command,
    shown,
)
from benchmarks._dialers import DIALERS, ROUTE_TIMEOUT, STAGGER
from benchmarks._loops import count
from benchmarks._machine import Machine
from benchmarks._networks import DELAY, JITTER, KINDS, Authorities, Kind
from benchmarks._packet_race import measure_packets
from benchmarks._race_measuring import Plan, measure_all
from benchmarks._race_pages import draw, write_page
from benchmarks._race_telling import (
    lateness_in_words,
    print_head,
    print_lateness,
    print_network,
)
from benchmarks._results import Results, Unusable
from benchmarks._samples import figures_of, median_race, rows_of
from benchmarks._tunnel import RESOLVERS, check_resolver
from racer.lab.packets import why_unavailable
from racer.testing import virtual_backends

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks._samples import Lateness, Sample

__all__ = ("main",)

RUNS: Final = 20
QUICK_RUNS: Final = 2
QUICK_RUNS_WAITING: Final = 1
DEADLINE: Final = 5.0
QUICK_DEADLINE: Final = 3.0
PACKETS_DEADLINE: Final = 10.0
_DECISIVE: Final = ("virtual", "delay", "jitter", "stagger", "route_timeout", "resolver")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write and draw; or compare: see `run_command`."""
    return run_command(_parser(), argv, _run, decisive=_DECISIVE)


def _run(options: argparse.Namespace) -> None:
    plans = _plans(options)
    _check(options, plans)
    machine = Machine.here(("anyio", "cryptography"))
    print_head(seed=options.seed, deadline=_deadline(options))
    progress = Progress(sum(plan.runs for _, plan in plans) * len(DIALERS))

    samples: list[Sample] = []
    words: dict[str, str] = {}
    lateness: Lateness | None = None

    def tell(kind: Kind, found: list[Sample]) -> None:
        samples.extend(found)
        words[kind.name] = kind.words
        progress.clear()
        print_network(kind, rows_of(found), note=_note(plan_of[kind.name]))

    plan_of = {kind.name: plan for kind, plan in plans}
    backend, backend_options = _backend(options)
    try:
        _, lateness = anyio.run(
            lambda: measure_all(
                Authorities(),
                plans,
                tell=tell,
                done=lambda kind, dialer, run: progress.step(
                    f"{kind.name}, run {run + 1}, {dialer}"
                ),
            ),
            backend=backend,
            backend_options=backend_options,
        )
        if options.packets:
            _measure_packets(options, samples, words)
    except (Exception, KeyboardInterrupt) as exc:
        if samples:  # minutes of work: what there is, is kept
            _keep(options, samples, lateness, machine, words, cut=cut_by(exc))
        raise
    print_lateness(lateness)
    _keep(options, samples, lateness, machine, words)


def _keep(
    options: argparse.Namespace,
    samples: list[Sample],
    lateness: Lateness | None,
    machine: Machine,
    words: dict[str, str],
    *,
    cut: str = "",
) -> None:
    """Write figures, picture and page; `cut` names what ended the run before its time."""
    out: Path = options.output
    rows = rows_of(samples)
    races = {name: median_race(samples, name) for name in words}
    results = Results(
        benchmark="race",
        machine=machine,
        setting={
            "seed": options.seed,
            "runs": options.runs,
            "quick": options.quick,
            "virtual": options.virtual,
            "deadline": _deadline(options),
            "delay": DELAY,
            "jitter": JITTER,
            "stagger": STAGGER,
            "route_timeout": ROUTE_TIMEOUT,
            "resolver": options.resolver,
        },
        figures=figures_of(samples),
        details={
            "cut short by": cut,
            "networks": words,
            "lateness": None if lateness is None else asdict(lateness),
            "rows": [asdict(row) for row in rows],
            "samples": [sample.to_dict() for sample in samples],
            "races": {name: race.to_json() for name, race in races.items() if race is not None},
        },
    )
    results.write(out / "race.json")
    picture = None
    if options.pictures:
        draw(rows, out / "race.png")
        picture = (out / "race.png").read_bytes()
    write_page(
        out / "race.html",
        rows,
        samples,
        words=words,
        machine=machine,
        noise=lateness_in_words(lateness) + (f" The run was cut short by {cut}." if cut else ""),
        picture=picture,
    )
    print()
    names = ["race.json", *(["race.png"] if options.pictures else []), "race.html"]
    print(f"written to {shown(out)}: {', '.join(names)}")


# --- packets --------------------------------------------------------------------------------


def _measure_packets(
    options: argparse.Namespace, samples: list[Sample], words: dict[str, str]
) -> None:
    """Add the samples of networks of packets, and what is wrong with each, printing their tables."""
    print()
    print(
        filled(
            "Packet by packet, in network namespaces of this machine. racer: direct, and 300 ms later proxyless, which "
            "is new to the network each time."
        )
    )

    def tell(kind: Kind, found: list[Sample]) -> None:
        samples.extend(found)
        words[kind.name] = kind.words
        print_network(kind, rows_of(found))

    runs = options.runs or (QUICK_RUNS if options.quick else RUNS)
    anyio.run(lambda: measure_packets(runs=runs, deadline=PACKETS_DEADLINE, tell=tell))


# --- the command line -----------------------------------------------------------------------


def one_kind(text: str) -> Kind:
    """Return the network of that name, for argparse.

    Raises:
        argparse.ArgumentTypeError: there is none; says which is nearest, or which there are.
    """
    known = {kind.name: kind for kind in KINDS}
    if text in known:
        return known[text]
    raise argparse.ArgumentTypeError(nearest("network", text, known))


def _parser() -> Parser:
    assert __doc__ is not None
    parser = Parser("race", __doc__)
    add = parser.add_argument
    add(
        "--quick",
        action="store_true",
        help=f"{QUICK_RUNS} runs, {QUICK_RUNS_WAITING} where dialers wait, side by side; less than a minute",
    )
    add("--runs", type=count, metavar="N", help=f"dials of each dialer in each network ({RUNS})")
    add(
        "--network",
        type=one_kind,
        action="append",
        metavar="NAME",
        help=f"only this one, and others so named: {', '.join(kind.name for kind in KINDS)}",
    )
    add("--seed", type=int, default=1, metavar="N", help="of the networks' dice (1)")
    add(
        "--virtual",
        action="store_true",
        help="in memory, on a virtual clock: no noise, and no waiting",
    )
    add("--packets", action="store_true", help="also in networks of packets (Linux, root)")
    add(
        "--resolver",
        choices=RESOLVERS,
        default=RESOLVERS[0],
        help="what stands before Soar's server (unbound)",
    )
    return parser


def _plans(options: argparse.Namespace) -> list[tuple[Kind, Plan]]:
    """Return the networks, and how each is measured.

    Raises:
        Unusable: one of them cannot be had on a virtual clock.
    """
    kinds = list(dict.fromkeys(options.network or KINDS))
    if options.virtual:
        real = [kind.name for kind in kinds if kind.tunnelled]
        if options.network and real:
            msg = f"{real[0]} needs sockets, for a real resolver; leave --virtual out"
            raise Unusable(msg)
        kinds = [kind for kind in kinds if not kind.tunnelled]
    return [(kind, _plan(kind, options)) for kind in kinds]


def _plan(kind: Kind, options: argparse.Namespace) -> Plan:
    quick = QUICK_RUNS_WAITING if kind.waits else QUICK_RUNS
    return Plan(
        runs=options.runs or (quick if options.quick else RUNS),
        seed=options.seed,
        deadline=kind.deadline or _deadline(options),
        in_memory=options.virtual,
        # Where only DNS gets out, dialers mostly wait, and for different times.
        side_by_side=not options.virtual and (kind.tunnelled or (options.quick and kind.waits)),
        together=options.quick and kind.waits and not options.virtual,
        resolver=options.resolver,
    )


def _note(plan: Plan) -> str:
    return "; dialers side by side" if plan.side_by_side else ""


def _deadline(options: argparse.Namespace) -> float:
    return QUICK_DEADLINE if options.quick else DEADLINE


def _check(options: argparse.Namespace, plans: list[tuple[Kind, Plan]]) -> None:
    """Find what is missing before minutes are spent.

    Raises:
        Unusable: says what, and what to do.
    """
    if options.packets and (reason := why_unavailable()) is not None:
        msg = f"networks of packets cannot be had here ({reason}); run it as root on Linux, or leave --packets out"
        raise Unusable(msg)
    if any(kind.tunnelled for kind, _ in plans):
        check_resolver(options.resolver)
    check_output(options)


def _backend(options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    if not options.virtual:
        return "asyncio", {}
    return next(backend for backend in virtual_backends() if backend[0] == "asyncio")


if __name__ == "__main__":
    sys.exit(main())
