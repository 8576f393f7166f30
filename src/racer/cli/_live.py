"""A race while it runs: a picture that redraws itself on a terminal, a line for each event in a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TextIO

import anyio

from racer._report import Outcome
from racer._words import one_line
from racer.cli._waterfall import render, seconds

if TYPE_CHECKING:
    from racer._race import Race
    from racer._report import Attempt, RaceReport

__all__ = ("Journal", "LivePicture", "View", "follow")

_FRAME: Final = 0.1  # seconds between two looks; a person sees no difference below it
_UP_AND_CLEAR: Final = (
    "\x1b[{}A\x1b[J"  # ECMA-48 CUU and ED: to the picture's first line, clear what is below
)


class View(Protocol):
    """Shows a race as far as it has come."""

    def show(self, report: RaceReport) -> None:
        """Take the next snapshot."""


class LivePicture:
    """The waterfall, drawn anew in its own place. For terminals that know ANSI escapes only.

    Args:
        out: the terminal.
        width: columns.
        colour: whether to use ANSI colours.
        unicode: whether to draw with more than ASCII.
    """

    def __init__(self, out: TextIO, *, width: int, colour: bool, unicode: bool) -> None:
        """Begin with nothing drawn."""
        self._out = out
        self._width = width
        self._colour = colour
        self._unicode = unicode
        self._lines = 0

    def show(self, report: RaceReport) -> None:
        """Draw the snapshot over the one before."""
        picture = render(report, width=self._width, colour=self._colour, unicode=self._unicode)
        back = _UP_AND_CLEAR.format(self._lines) if self._lines else ""
        self._out.write(f"{back}{picture}\n")
        self._out.flush()
        self._lines = picture.count("\n") + 1


class Journal:
    """A line for everything that happened since the last snapshot, in the order of its time.

    Args:
        out: where the lines go.
    """

    def __init__(self, out: TextIO) -> None:
        """Begin with nothing told."""
        self._out = out
        self._told: set[tuple[str, str]] = set()

    def show(self, report: RaceReport) -> None:
        """Write what is new."""
        news = [line for attempt in report.attempts for line in self._news(attempt)]
        for at, text in sorted(news):
            self._out.write(f"{seconds(at):>8}  {text}\n")
        self._out.flush()

    def _news(self, attempt: Attempt) -> list[tuple[float, str]]:
        name = one_line(attempt.transport)
        found: list[tuple[float, str, str]] = []
        if attempt.started_at is not None:
            found.append((attempt.started_at, "began", f"{name} starts"))
        if attempt.finished_at is not None and attempt.outcome is not Outcome.NOT_STARTED:
            words = attempt.outcome.value.replace("_", " ")
            why = f": {attempt.cause}" if attempt.error is not None else ""
            found.append((attempt.finished_at, "ended", f"{name} {words}{why}"))
        new = [(at, text) for at, key, text in found if (attempt.transport, key) not in self._told]
        self._told.update((attempt.transport, key) for _, key, _ in found)
        return new


async def follow(race: Race, view: View) -> None:
    """Show a race that was entered until cancelled; the caller shows its end."""
    while True:
        view.show(race.report)
        await anyio.sleep(_FRAME)
