"""The race benchmark's figures as text, for a terminal of 80 columns."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Final

from benchmarks._command import COLUMNS, filled, ms
from benchmarks._dialers import ROUTE_TIMEOUT, STAGGER
from benchmarks._networks import DELAY, JITTER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks._networks import Kind
    from benchmarks._samples import Lateness, Row

__all__ = ("WHO", "print_head", "print_lateness", "print_network")

WHO: Final = {
    "racer": f"direct, and {STAGGER * 1000:g} ms later the proxy, unless direct failed before; Soar after 8 s",
    "connect_tcp": "direct alone, in the steps of anyio.connect_tcp(..., tls=True)",
    "fallback": f"one route after the other, each for at most {ROUTE_TIMEOUT:g} s",
    "kindling": "all at once, Soar when all others have failed (kindling's schedule)",
    "outline": "one more every 250 ms, or on a failure (Outline's schedule)",
    "racer-again": "racer, which has dialed once before, with racer.Memory",
}
"""What each dialer does, in words."""

_LINE: Final = "{:11}{:>8}{:>8}{:>11}{:>6} {:18}{:>5}{:>6}{:>6}"


def print_head(*, seed: int, deadline: float) -> None:
    """Say what is measured, and who is who."""
    round_trip = 2 * (DELAY + JITTER / 2)
    print(
        filled(
            "Time until TLS is verified and one byte has come back, in ms, in a lab on this machine "
            f"with {ms(round_trip)} ms round trips (seed {seed})."
        )
    )
    print()
    for name, words in WHO.items():
        print(textwrap.fill(f"{name:12} {words}", COLUMNS, subsequent_indent=" " * 13))
    print()
    print(
        filled(
            f"Each dial has {deadline:g} s where nothing else is said. In brackets: nobody connected, why, and how "
            "long that took. ratio: p50 beside racer's. tried: routes. waste: connections begun and not used."
        )
    )


def print_network(kind: Kind, rows: Sequence[Row], *, note: str = "") -> None:
    """Print one network's table."""
    print()
    time = "" if kind.deadline is None else f"; each dial has {kind.deadline:g} s"
    print(filled(f"{kind.name}: {kind.words}{time}{note}"))
    head = ("", "p50", "p95", "least-most", "ratio", "won by", "tried", "waste", "fail")
    print(_LINE.format(*head).rstrip())
    for row in rows:
        all_failed = row.failed == row.runs
        p50, p95 = (f"({ms(t)})" if all_failed else ms(t) for t in (row.p50, row.p95))
        print(
            _LINE.format(
                row.dialer,
                p50,
                p95,
                "" if all_failed else f"{ms(row.least)}-{ms(row.most)}",
                "" if row.ratio is None else f"{row.ratio:.2f}",
                outcomes(row),
                f"{row.started:.1f}",
                f"{row.wasted:.1f}",
                f"{row.failed}/{row.runs}",
            )
        )
    sys.stdout.flush()


def outcomes(row: Row, *, most: int = 18) -> str:
    """Return who won, and what kept the others, by how often."""
    only = len(row.outcomes) == 1
    told = ", ".join(what if only else f"{what} {n}" for what, n in row.outcomes.items())
    told = f"({told})" if row.failed == row.runs else told
    return told if len(told) <= most else f"{told[: most - 3]}..."


def print_lateness(lateness: Lateness | None) -> None:
    """Say how much of all this is the machine's noise."""
    print()
    print(filled(lateness_in_words(lateness)))


def lateness_in_words(lateness: Lateness | None) -> str:
    """Return how much of all this is the machine's noise."""
    if lateness is None:
        return "On a virtual clock: exact, and work takes no time."
    return (
        "This machine's noise: a task that only sleeps was woken up late by "
        f"{ms(lateness.p50)} ms (p50), {ms(lateness.p95)} ms (p95), "
        f"{ms(lateness.worst)} ms (worst). Ratios and winners say more than times do."
    )
