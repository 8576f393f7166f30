"""Soar through real resolvers, beside its peers: `python -m benchmarks.soar [--quick] [--link T3] [--resolver unbound]`.

A client, a resolver and a server lie behind two links, client to resolver and resolver to server:

  T2  no delay                      T5  20 + 180 ms round trips
  T3  20 + 50 ms round trips        T6  as T5, 2.5 % lost each way on each link
  T4  as T3, 1 % lost each way on each link

Measured are the time to the first octet (cold: a new session; spawn: from the start of the process; warm: a new stream),
goodput both ways, questions for each kilobyte, and processor time for each megabyte, of client, server and resolver.
Every start and every transfer has a client of its own, and every octet is checked. The resolver is unbound at every link,
and each other one that is installed at T3. Tunnels of others' that are on PATH (dnstt, slipstream, iodine, dns2tcp) run
through the first resolver, over the same links, in the same run, with the same transfers.

Links are made of network namespaces on Linux with root and a C compiler, else of relays on loopback.

A folder gets the figures (JSON), pictures (PNG), and a page with both. `--compare A.json B.json` says what moved.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

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
from benchmarks._loops import count
from benchmarks._machine import Machine, pace
from benchmarks._results import Figure, Results, Unusable
from benchmarks._soar_lab import Ground, chosen_ground, compile_sources, in_turns
from benchmarks._soar_links import LINKS, one_link
from benchmarks._soar_measuring import Plan, measure
from benchmarks._soar_pages import draw, write_page
from benchmarks._soar_peers import found_peers
from benchmarks._soar_resolvers import PROGRAMS, installed_resolvers
from benchmarks._soar_samples import figures_of, rows_of
from benchmarks._soar_telling import print_head, print_link, print_rows, told_pace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from benchmarks._soar_links import Link
    from benchmarks._soar_peers import Peer
    from benchmarks._soar_samples import Sample

__all__ = ("main",)

RUNS: Final = 3
QUICK_RUNS: Final = 1
WARM: Final = 3
SECONDS: Final = 4.0
QUICK_SECONDS: Final = 2.0
PATIENCE: Final = 25.0
QUICK_PATIENCE: Final = 6.0
EVERYBODY: Final = "T3"
"""The link at which all resolvers are tried, where none is named."""

QUICK_LINKS: Final = ("T2", "T3", "T6")
_NOT_COMPILED: Final = (
    "The sources could not be compiled: what starts a process is measured with the time that takes."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write and draw; or compare: see `run_command`."""
    return run_command(_parser(), argv, _run)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Course:
    """What is measured at one link."""

    link: Link
    resolvers: list[str]
    peers: list[Peer]


def _run(options: argparse.Namespace) -> None:
    ground, why = chosen_ground(options.network)
    peers, missing = found_peers() if options.peers else ([], [])
    courses = _courses(options, peers)
    check_output(options)
    plan = Plan(
        runs=options.runs or (QUICK_RUNS if options.quick else RUNS),
        warm=WARM,
        seconds=QUICK_SECONDS if options.quick else SECONDS,
        patience=QUICK_PATIENCE if options.quick else PATIENCE,
        seed=options.seed,
        ground=ground,
    )
    machine = Machine.here(("anyio", "cryptography"))
    print_head(ground=ground.words, why=why, seconds=plan.seconds, missing=missing)
    if not compile_sources():
        print(filled(_NOT_COMPILED))
    most = sum(len(one.resolvers) + len(one.peers) for one in courses) * plan.runs * 3
    progress = Progress(most)

    samples: list[Sample] = []
    paces: list[float] = []

    def tell(resolver: str, found: list[Sample]) -> None:
        samples.extend(found)
        progress.clear()
        print_rows(resolver, rows_of(found))

    def done(words: str) -> None:
        progress.step(words)
        paces.append(pace())

    keep = partial(_keep, options, samples, paces, plan, machine=machine, why=why, missing=missing)
    try:
        with in_turns():
            for course in courses:
                progress.clear()
                print_link(course.link)
                anyio.run(_measured, course, plan, tell, done)
    except (Exception, KeyboardInterrupt) as exc:
        if samples:  # minutes of work: what there is, is kept
            keep(cut=cut_by(exc))
        raise
    progress.clear()
    keep()


async def _measured(
    course: _Course,
    plan: Plan,
    tell: Callable[[str, list[Sample]], None],
    done: Callable[[str], None],
) -> None:
    await measure(course.link, course.resolvers, course.peers, plan, tell=tell, done=done)


def _courses(options: argparse.Namespace, peers: list[Peer]) -> list[_Course]:
    """Return what is measured at each link.

    Raises:
        Unusable: no resolver is installed, or one that is wanted is not.
    """
    there = installed_resolvers()
    if not there:
        packages = " ".join(package for _, package in PROGRAMS.values())
        msg = f"a resolver is needed, and none is installed; install one or more (Debian: apt install {packages})"
        raise Unusable(msg)
    wanted: list[str] = list(dict.fromkeys(options.resolver or ()))
    for name in wanted:
        if name != "all" and name not in there:
            msg = f"{name} is not installed (Debian: apt install {PROGRAMS[name][1]}); there are {', '.join(there)}"
            raise Unusable(msg)
    links: list[Link] = list(dict.fromkeys(options.link or ()))
    if not links:
        links = [LINKS[name] for name in QUICK_LINKS] if options.quick else list(LINKS.values())
    everybody = LINKS[EVERYBODY] if LINKS[EVERYBODY] in links else links[0]
    courses = []
    for link in links:
        if "all" in wanted:
            resolvers = there
        elif wanted:
            resolvers = wanted
        else:
            resolvers = there if link is everybody and not options.quick else there[:1]
        # In a quick run who does not come up costs its patience once.
        beside = peers if link is everybody or not options.quick else []
        courses.append(_Course(link=link, resolvers=resolvers, peers=beside))
    return courses


def _keep(
    options: argparse.Namespace,
    samples: list[Sample],
    paces: list[float],
    plan: Plan,
    *,
    machine: Machine,
    why: str | None,
    missing: list[str],
    cut: str = "",
) -> None:
    """Write figures, pictures and page; `cut` names what ended the run before its time."""
    paces = paces or [pace()]
    out: Path = options.output
    rows = rows_of(samples)
    links = {name: LINKS[name].words for name in dict.fromkeys(row.link for row in rows)}
    results = Results(
        benchmark="soar",
        machine=machine,
        setting={
            "seed": plan.seed,
            "runs": plan.runs,
            "warm": plan.warm,
            "seconds": plan.seconds,
            "patience": plan.patience,
            "network": plan.ground.value,
        },
        figures=[*figures_of(samples), Figure(name="machine/pace", unit="s", values=tuple(paces))],
        details={
            "cut short by": cut,
            "links": links,
            "missing peers": missing,
            "rows": [asdict(row) for row in rows],
            "samples": [sample.to_dict() for sample in samples],
        },
    )
    results.write(out / "soar.json")
    drawn = draw(rows, out) if options.pictures else []
    notes = [f"Links were made {plan.ground.words}."]
    if why is not None:
        notes.append(f"For network namespaces: {why}.")
    if missing:
        notes.append(f"Peers that were not found on PATH: {', '.join(missing)}.")
    notes.append(told_pace(paces))
    if cut:
        notes.append(f"The run was cut short by {cut}: what had been measured by then is here.")
    write_page(out / "soar.html", rows, links=links, machine=machine, notes=notes, drawn=drawn)
    names = ["soar.json", *(picture.name for picture in drawn), "soar.html"]
    print()
    print(filled(told_pace(paces)))
    print(filled(f"written to {shown(out)}: {', '.join(names)}"))


# --- the command line -----------------------------------------------------------------------


def one_resolver(text: str) -> str:
    """Return the resolver of that name, or `all`, for argparse.

    Raises:
        argparse.ArgumentTypeError: there is none; says which is nearest, or which there are.
    """
    known = [*PROGRAMS, "all"]
    if text in known:
        return text
    raise argparse.ArgumentTypeError(nearest("resolver", text, known))


def _parser() -> Parser:
    assert __doc__ is not None
    parser = Parser("soar", __doc__)
    add = parser.add_argument
    add(
        "--quick",
        action="store_true",
        help=f"one run at {', '.join(QUICK_LINKS)}, transfers of {QUICK_SECONDS:g} s; less than a minute",
    )
    add("--runs", type=count, metavar="N", help=f"starts, and transfers each way ({RUNS})")
    add(
        "--link",
        type=one_link,
        action="append",
        metavar="NAME",
        help=f"only this one, and others so named: {', '.join(LINKS)}",
    )
    add(
        "--resolver",
        type=one_resolver,
        action="append",
        metavar="NAME",
        help=f"at every link this one, and others so named: {', '.join(PROGRAMS)}; or all",
    )
    add(
        "--network",
        choices=[ground.value for ground in Ground],
        help="what links are made of (the first that can be had)",
    )
    add("--no-peers", dest="peers", action="store_false", help="measure Soar alone")
    add("--seed", type=int, default=1, metavar="N", help="of the links' dice (1)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
