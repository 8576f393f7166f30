"""`racer replay FILE`: play a recorded race again, with other delays, tiers and timeouts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from racer._report import RaceReport
from racer._words import one_line
from racer.cli._columns import cut, cut_middle, padded, width_of, wrapped
from racer.cli._program import SECONDS, CommandError, Exit, json_option, plain_option
from racer.cli._screen import Screen
from racer.cli._waterfall import render
from racer.errors import InvalidReport
from racer.report import Changes, compare, page, replay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from racer.report import Replay

__all__ = ("command",)

_T = TypeVar("_T")

_STDIN: Final = "-"
_MAX_FILE: Final = (
    16 * 1024 * 1024
)  # bytes that are read at all; a report has its own, smaller limit
_COLUMNS: Final = ("policy", "won by", "usable after", "begun", "wasted")

_HELP: Final = """\
Play a recorded race again, and show what other delays would have given.

FILE is a race's report in JSON, as `racer dial --json` prints it; `-` reads standard input.

The schedule that runs real races steps over what the network gave. What one race cannot tell stays open: a loser was cut
off, and how long it would have taken is not known.

\b
  racer replay race.json
  racer replay race.json --delay soar=2 --timeout 30
  racer replay race.json --html race.html
"""


@click.command(help=_HELP)
@click.argument("file", type=click.Path())
@click.option(
    "--delay",
    "delays",
    metavar="NAME=S",
    multiple=True,
    help="Start NAME so many seconds after its tier opened (repeatable).",
)
@click.option(
    "--tier", "tiers", metavar="NAME=N", multiple=True, help="Put NAME into tier N (repeatable)."
)
@click.option(
    "--attempt-timeout",
    "attempt_timeouts",
    metavar="NAME=S",
    multiple=True,
    help="Give NAME so many seconds for its attempt (repeatable).",
)
@click.option("--timeout", type=SECONDS, metavar="S", help="Seconds for the whole race.")
@click.option(
    "--stagger",
    type=SECONDS,
    metavar="S",
    help="One start every so many seconds in place of all delays; a failure lets the next one start at once.",
)
@click.option(
    "--html", "html", metavar="OUT", type=click.Path(), help="Write all of it as a page, too."
)
@json_option
@plain_option
def command(
    file: str,
    *,
    delays: tuple[str, ...],
    tiers: tuple[str, ...],
    attempt_timeouts: tuple[str, ...],
    timeout: float | None,
    stagger: float | None,
    html: str | None,
    as_json: bool,
    plain: bool,
) -> None:  # fmt: skip
    """Play a recorded race again."""
    report = _read(file)
    changes = Changes(
        delays=_pairs(delays, "--delay", float),
        tiers=_pairs(tiers, "--tier", int),
        attempt_timeouts=_pairs(attempt_timeouts, "--attempt-timeout", float),
        timeout=timeout,
        stagger=stagger,
    )
    replays = list(compare(report))
    if not changes.is_empty:
        replays.append(replay(report, changes=changes, name="as asked"))
    if html is not None:
        Path(html).write_text(page(report, replays=replays), encoding="utf-8")
    if as_json:
        told = {"target": report.target, "replays": [_told(one) for one in replays]}
        click.echo(json.dumps(told, indent=2))
        return
    screen = Screen.of(sys.stdout, plain=plain)
    click.echo(screen.text("\n".join(_lines(report, replays, screen))))


def _read(file: str) -> RaceReport:
    """Return the report in a file.

    Raises:
        CommandError: it cannot be read, or holds no report.
    """
    name = "standard input" if file == _STDIN else file
    try:
        if file == _STDIN:
            content = sys.stdin.buffer.read(_MAX_FILE)
        else:
            with Path(file).open("rb") as opened:
                content = opened.read(_MAX_FILE)
        return RaceReport.from_json(content)
    except OSError as exc:
        msg = f"{name} cannot be read: {exc.strerror or type(exc).__name__}"
        raise CommandError(msg, Exit.WRONG_USE) from exc
    except InvalidReport as exc:
        msg = f"{name} is no race report: {exc}"
        raise CommandError(msg, Exit.WRONG_USE) from exc


def _told(one: Replay) -> dict[str, Any]:
    return one.to_dict() | {"report": json.loads(one.report.to_json())}


def _pairs(given: tuple[str, ...], option: str, kind: Callable[[str], _T]) -> dict[str, _T]:
    """Return what NAME=VALUE options say; the last one of a name counts."""
    found: dict[str, _T] = {}
    for one in given:
        name, _, value = one.rpartition("=")
        try:
            found[name] = kind(value if name else "")
        except ValueError as exc:
            wanted = "a whole number" if kind is int else "a number of seconds"
            msg = f"{option} takes NAME=VALUE with {wanted}, not {one!r:.60}"
            raise CommandError(msg, Exit.WRONG_USE) from exc
    return found


def _lines(report: RaceReport, replays: list[Replay], screen: Screen) -> Iterator[str]:
    """Yield the recorded race, the race as asked if any, the table, and what cannot be known."""

    def picture(one: RaceReport) -> str:
        return render(one, width=screen.width, colour=screen.colour, unicode=screen.unicode)

    yield picture(report)
    if replays[-1].name == "as asked":
        yield ""
        yield from wrapped("As asked:", screen.width)
        yield picture(replays[-1].report)
    yield ""
    yield from _table(replays, screen.width)
    notes = [f"{one.name}: {one.words}" for one in replays if not one.is_certain]
    if replays[0].held:
        notes.append(
            "Streams of this race were held and sent back; for how long is not recorded, and left out."
        )
    if notes:
        yield ""
    for note in notes:
        yield from wrapped(note, screen.width, "  ")


def _table(replays: list[Replay], width: int) -> Iterator[str]:
    rows = [_COLUMNS, *(_row(one) for one in replays)]
    widths = [max(width_of(row[n]) for row in rows) for n in range(len(_COLUMNS))]
    spare = width - sum(widths) - 2 * (len(widths) - 1)
    widths[1] = max(widths[1] + min(spare, 0), 6)  # names are what may be long
    for row in rows:
        cells = [
            padded(cut_middle(text, room), room) for text, room in zip(row, widths, strict=True)
        ]
        yield cut("  ".join(cells).rstrip(), width)


def _row(one: Replay) -> tuple[str, ...]:
    return (
        one.name,
        one_line(one.winner or "nobody"),
        one.usable_after,
        str(one.started),
        str(one.wasted),
    )
