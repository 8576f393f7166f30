"""A race while it runs: a picture that redraws itself on a terminal, a line for each event in a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import anyio

from racer._cleanup import close_within
from racer._report import Outcome
from racer._words import one_line
from racer.cli._columns import wrapped
from racer.cli._waterfall import MIN_WIDTH, render, seconds
from racer.errors import RacerError

if TYPE_CHECKING:
    from racer._race import Finisher, Race
    from racer._report import Attempt, RaceReport
    from racer.cli._screen import Screen

__all__ = ("Journal", "LivePicture", "Unwatched", "View", "view_on", "watch")

_FRAME: Final = 0.1  # seconds between two looks; a person sees no difference below it
_MARGIN: Final = 10  # columns of a journal's times

# ECMA-48 and its private mode 7 (DECAWM), which every terminal of today knows.
_UP: Final = "\x1b[{}A\r"
_CLEAR_LINE: Final = "\x1b[K"
_CLEAR_BELOW: Final = "\x1b[J"
_NO_WRAP: Final = "\x1b[?7l"
_WRAP: Final = "\x1b[?7h"

_ENDS: Final = {
    Outcome.CONNECTED: "connected",
    Outcome.CONNECT_FAILED: "failed",
    Outcome.TIMED_OUT: "timed out",
    Outcome.LOST_RACE: "lost the race",
    Outcome.CANCELLED: "was cancelled",
}


class View(Protocol):
    """Shows a race as far as it has come. Both calls write, and raise `OSError` where nobody reads any more."""

    def show(self, report: RaceReport) -> None:
        """Take the next snapshot."""

    def end(self, report: RaceReport) -> None:
        """Leave the whole race behind; the last call."""


def view_on(screen: Screen) -> View:
    """Return the view that fits: a picture where it can be redrawn, else a journal."""
    return LivePicture(screen) if screen.redraws else Journal(screen)


class Unwatched:
    """Shows nothing."""

    def show(self, report: RaceReport) -> None:
        """Do nothing."""

    def end(self, report: RaceReport) -> None:
        """Do nothing."""


class LivePicture:
    """The waterfall, drawn anew in its own place.

    While the race runs it never takes more than the screen has: lines that do not fit are cut off, and come with the
    last picture.

    Args:
        screen: a terminal that redraws.
    """

    def __init__(self, screen: Screen) -> None:
        """Begin with nothing drawn."""
        self._screen = screen
        self._drawn: list[str] = []
        self._columns = 0

    def show(self, report: RaceReport) -> None:
        """Draw the snapshot over the one before."""
        columns, rows = self._screen.size()
        lines = self._picture(report)
        room = max(rows - 1, 1)  # the last line is the cursor's
        if len(lines) > room:
            lines = [*lines[: room - 1], "…" if self._screen.unicode else "..."]
        if (lines, columns) == (self._drawn, self._columns):
            return
        # Without wrapping a line is one line, however wide this terminal takes its characters to be. It is cleared
        # before it is drawn: behind one that fills the window, the last character would go.
        drawn = (f"{_CLEAR_LINE}{line}\n" for line in lines)
        self._write(self._back(columns), _NO_WRAP, *drawn, _WRAP, _CLEAR_BELOW)
        self._drawn, self._columns = lines, columns

    def end(self, report: RaceReport) -> None:
        """Draw the whole picture in the place of the last, and leave it there."""
        picture = "\n".join(self._picture(report))
        self._write(self._back(self._screen.size()[0]), _CLEAR_BELOW, f"{picture}\n")
        self._drawn = []

    def _picture(self, report: RaceReport) -> list[str]:
        screen = self._screen
        text = render(report, width=screen.width, colour=screen.colour, unicode=screen.unicode)
        return screen.text(text).split("\n")

    def _back(self, columns: int) -> str:
        """Return what leads to the first line of what is drawn, if that is still where it was.

        When a window is made narrower some terminals break lines that have no room any more, and others cut them:
        nobody knows how many lines there are now. What is there is left as it is.
        """
        if not self._drawn or columns < self._columns:
            return ""
        return _UP.format(len(self._drawn))

    def _write(self, *pieces: str) -> None:
        self._screen.out.write("".join(pieces))
        self._screen.out.flush()


class Journal:
    """A line for everything that happened since the last snapshot, in the order of its time; at the end the waterfall.

    Args:
        screen: where the lines go.
    """

    def __init__(self, screen: Screen) -> None:
        """Begin with nothing told."""
        self._screen = screen
        self._begun: set[str] = set()
        self._ended: set[str] = set()

    def show(self, report: RaceReport) -> None:
        """Write what is new."""
        news = [event for attempt in report.attempts for event in self._news(attempt)]
        # Stable: of what happened in one instant, what the report names first is what led to the rest.
        news.sort(key=lambda event: event[:2])
        for at, _, text in news:
            lines = wrapped(self._screen.text(text), max(self._screen.width, MIN_WIDTH) - _MARGIN)
            first = f"{seconds(at):>{_MARGIN - 2}}  {lines[0]}\n"
            more = (f"{' ' * _MARGIN}{line}\n" for line in lines[1:])
            self._screen.out.write("".join([first, *more]))
        if news:
            self._screen.out.flush()

    def end(self, report: RaceReport) -> None:
        """Write what is new, and the waterfall."""
        self.show(report)
        screen = self._screen
        picture = render(report, width=screen.width, colour=screen.colour, unicode=screen.unicode)
        screen.out.write(f"\n{screen.text(picture)}\n")
        screen.out.flush()

    def _news(self, attempt: Attempt) -> list[tuple[float, bool, str]]:
        """Return what is new of one attempt: when, whether it only follows from a verdict, and the words."""
        name = one_line(attempt.transport)
        news: list[tuple[float, bool, str]] = []
        if attempt.started_at is not None and attempt.transport not in self._begun:
            self._begun.add(attempt.transport)
            news.append((attempt.started_at, False, f"{name} starts"))
        if attempt.finished_at is not None and attempt.transport not in self._ended:
            self._ended.add(attempt.transport)
            follows = attempt.outcome in {Outcome.LOST_RACE, Outcome.CANCELLED}
            news.append((attempt.finished_at, follows, f"{name} {_end_of(attempt)}"))
        return news


def _end_of(attempt: Attempt) -> str:
    end = _ENDS.get(attempt.outcome, attempt.outcome.value)
    if attempt.outcome is Outcome.CONNECTED:
        return end
    stage = f" ({attempt.stage.value})" if attempt.stage else ""
    why = f": {attempt.cause}" if attempt.error is not None else ""
    return f"{end}{stage}{why}"


async def watch(race: Race, view: View) -> Finisher:
    """Run a race, show it meanwhile, and return its first finisher, which is the caller's to close.

    The race is over when this returns or raises, and `view.end(race.report)` is left to the caller. A view whose
    reader has gone ends nothing. Cancelling closes a winner that came in the same instant.

    Raises:
        RacerError: as the race does, unchanged.
    """
    winner: Finisher | None = None
    failure: RacerError | None = None
    try:
        async with anyio.create_task_group() as group:
            try:
                async with race:
                    group.start_soon(_follow, race, view)
                    winner = await anext(race)
            except RacerError as exc:
                failure = exc
            group.cancel_scope.cancel()
    except BaseException:
        if winner is not None:
            await close_within(winner, scope=anyio.CancelScope())
        raise
    try:
        if failure is not None:
            raise failure
        assert winner is not None
        return winner
    finally:
        del failure  # or this frame and the error would keep each other alive


async def _follow(race: Race, view: View) -> None:
    try:
        while True:
            view.show(race.report)
            await anyio.sleep(_FRAME)
    except BrokenPipeError:
        return
