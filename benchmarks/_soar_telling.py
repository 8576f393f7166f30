"""The Soar benchmark's figures as text, for a terminal of 80 columns."""

from __future__ import annotations

import statistics
import sys
from typing import TYPE_CHECKING, Final

from benchmarks._command import filled, ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks._soar_links import Link
    from benchmarks._soar_samples import Row, Spread

__all__ = ("kb", "print_head", "print_link", "print_rows", "told_pace")

_LINE: Final = "{:18}{:>14}{:>7}{:>13}{:>8}{:>7}{:>7}{:>6}"


def print_head(*, ground: str, why: str | None, seconds: float, missing: Sequence[str]) -> None:
    """Say what is measured, on what, and who is not there."""
    print(
        filled(
            "Soar through real resolvers: milliseconds until the first octet is back, and kilobytes (10^3 octets) a second "
            f"in transfers of {seconds:g} s, the start of the tunnel included; a new client for each start and each "
            "transfer, and every octet checked."
        )
    )
    print()
    print(filled(f"Links are made {ground}."))
    if why is not None:
        print(filled(f"For network namespaces: {why}."))
    if missing:
        print(filled(f"Peers that were not found on PATH: {', '.join(missing)}."))
    print()
    print(
        filled(
            "cold: a new session in a running process (of peers: from the start of the process). spawn: from the start of "
            "the process. warm: a new stream on a session. In brackets: the worst. q/KB: questions for each kilobyte. "
            "CPU: milliseconds for each megabyte."
        )
    )


def print_link(link: Link) -> None:
    """Say what lies between."""
    print()
    print(filled(f"{link.name}: {link.words}"))
    sys.stdout.flush()


def print_rows(resolver: str, rows: Sequence[Row]) -> None:
    """Print one resolver's table."""
    print()
    head = ("cold ms", "spawn", "warm ms", "down", "up", "q/KB", "")
    print(_LINE.format(f"through {resolver}", *head).rstrip())
    print(_LINE.format("", "", "", "", "KB/s", "KB/s", "down", "up").rstrip())
    for row in rows:
        if row.why:
            print(filled(f"{row.tunnel:18}{row.why}"))
            continue
        print(
            _LINE.format(
                row.tunnel,
                _with_worst(row.cold),
                "-" if row.spawn is None else ms(row.spawn.p50),
                _with_worst(row.warm),
                "-" if row.down is None else kb(row.down.p50),
                "-" if row.up is None else kb(row.up.p50),
                "-" if row.down_questions is None else f"{row.down_questions.p50:.1f}",
                "-" if row.up_questions is None else f"{row.up_questions.p50:.1f}",
            )
        )
        for way in ("down", "up"):
            told = [
                f"{name} {1000 * spread.p50:.0f}"
                for name in ("client", "server", "resolver")
                if (spread := row.cpu.get(f"{way} {name}")) is not None
            ]
            if told:
                print(f"  CPU {way:5} {', '.join(told)}")
        for what, reasons in row.failures.items():
            print(filled(f"  {what}: {len(reasons)} of {row.runs} failed: {reasons[0]}"))
    sys.stdout.flush()


def _with_worst(spread: Spread | None) -> str:
    return "-" if spread is None else f"{ms(spread.p50)} ({ms(spread.most)})"


def kb(rate: float) -> str:
    """Return a rate in kilobytes a second, with one digit behind the point below ten."""
    value = rate / 1000
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def told_pace(paces: Sequence[float]) -> str:
    """Return in words how fast the machine was meanwhile."""
    least, middle, most = (1e6 * of(paces) for of in (min, statistics.median, max))
    return (
        f"The machine's pace, base32 of 140 octets by the standard library, in the pauses: {middle:.1f} us "
        f"({least:.1f} to {most:.1f}). Where processors are the limit, rates go with it."
    )
