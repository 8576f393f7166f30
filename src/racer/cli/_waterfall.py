"""A race as a picture: one row for each entrant on one time axis, the winner marked, the causes below. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from racer._axis import seconds, ticks
from racer._report import Attempt, Outcome
from racer._telling import came_of, came_of_race, cause_of
from racer._words import one_line
from racer.cli._columns import cut, cut_middle, padded, width_of, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from racer._report import RaceReport

__all__ = ("render", "seconds")

MIN_WIDTH: Final = 40

_GREEN, _RED, _YELLOW, _DIM, _BOLD, _RESET = (f"\x1b[{code}m" for code in (32, 31, 33, 2, 1, 0))
_COLOURS: Final = {
    Outcome.CONNECTED: _GREEN,
    Outcome.CONNECT_FAILED: _RED,
    Outcome.TIMED_OUT: _YELLOW,
}  # the others have not failed, and are dim


@dataclass(frozen=True, slots=True, kw_only=True)
class _Style:
    """The characters of a picture."""

    winner: str
    line: str
    winning_line: str
    axis: str
    tick: str
    ellipsis: str
    ends: dict[Outcome, str]


_UNICODE: Final = _Style(
    winner="▶",
    line="─",
    winning_line="━",
    axis="─",
    tick="┼",
    ellipsis="…",
    ends={
        Outcome.CONNECTED: "✓",
        Outcome.CONNECT_FAILED: "✗",
        Outcome.TIMED_OUT: "┃",
        Outcome.LOST_RACE: "·",
        Outcome.CANCELLED: "·",
        Outcome.NOT_STARTED: "…",
    },
)
_ASCII: Final = _Style(
    winner=">",
    line="-",
    winning_line="=",
    axis="-",
    tick="+",
    ellipsis="...",
    ends={
        Outcome.CONNECTED: "*",
        Outcome.CONNECT_FAILED: "x",
        Outcome.TIMED_OUT: "|",
        Outcome.LOST_RACE: ".",
        Outcome.CANCELLED: ".",
        Outcome.NOT_STARTED: ">",
    },
)


def render(
    report: RaceReport, *, width: int = 80, colour: bool = False, unicode: bool = True
) -> str:
    """Return a picture of a race, in lines of at most `width` columns, without a line break at its end.

    A headline; a row for each entrant in the report's order, from when it began to when its outcome was fixed; then in
    full why entrants failed or took no part. Nothing depends on colour.

    Args:
        report: the race; one that is still under way is drawn as far as it has come.
        width: columns, at least 40.
        colour: whether to add ANSI colours.
        unicode: whether to draw with more than ASCII; without it the whole picture is ASCII.
    """
    picture = _Picture(report, max(width, MIN_WIDTH), _UNICODE if unicode else _ASCII)
    lines = [*picture.headline(colour=colour), *picture.rows(colour=colour), *picture.causes()]
    return "\n".join(lines)


class _Picture:
    """One picture's measures: marker, name, bar, what came of it."""

    def __init__(self, report: RaceReport, width: int, style: _Style) -> None:
        self._report = report
        self._width = width
        self._style = style
        times = [report.duration, *(a.finished_at or 0.0 for a in report.attempts)]
        self._end = max(filter(math.isfinite, times), default=0.0)
        names = [width_of(self._safe(a.transport)) for a in report.attempts]
        results = [width_of(self._result(a)) for a in report.attempts if a.started_at is not None]
        self._name_width = min(max(names, default=0), width // 5)
        self._result_width = min(max(results, default=0), width * 2 // 5)
        self._bar_start = 2 + self._name_width + 1
        self._room = width - self._bar_start
        self._bar_width = self._room - 1 - self._result_width

    def headline(self, *, colour: bool) -> list[str]:
        text = f"{self._report.target} {came_of_race(self._report)}"
        lines = wrapped(self._safe(text), self._width)
        return [f"{_BOLD}{line}{_RESET}" for line in lines] if colour else lines

    def rows(self, *, colour: bool) -> Iterator[str]:
        if not self._report.attempts:
            return
        yield ""
        if any(attempt.started_at is not None for attempt in self._report.attempts):
            yield from self._axis()
        for attempt in self._report.attempts:
            won = attempt.transport == self._report.winner
            name = cut_middle(self._safe(attempt.transport), self._name_width, self._style.ellipsis)
            marker = self._style.winner if won else " "
            row = f"{marker} {padded(name, self._name_width)} {self._story(attempt, won=won)}"
            yield f"{_COLOURS.get(attempt.outcome, _DIM)}{row}{_RESET}" if colour else row

    def causes(self) -> Iterator[str]:
        """Yield in full what the rows had no room for."""
        told = [line for attempt in self._report.attempts for line in self._cause(attempt)]
        if told:
            yield ""
            yield from told

    def _story(self, attempt: Attempt, *, won: bool) -> str:
        """Return a row's bar and result; where there is no bar, the reason stands in its place."""
        result = self._result(attempt)
        if attempt.started_at is None:
            return cut(result, self._room, self._style.ellipsis)
        bar = padded(self._bar(attempt, attempt.started_at, won=won), self._bar_width)
        return f"{bar} {cut(result, self._result_width, self._style.ellipsis)}"

    def _cause(self, attempt: Attempt) -> list[str]:
        name = one_line(attempt.transport)
        if (cause := cause_of(attempt)) is not None:
            text = cause
        elif attempt.outcome is Outcome.INELIGIBLE and width_of(self._result(attempt)) > self._room:
            text = f"{name}: {self._result(attempt)}"
        elif attempt.outcome is Outcome.CONNECTED and attempt.peer:
            text = f"{name}: peer {one_line(attempt.peer)}"
        else:
            return []
        return wrapped(self._safe(text), self._width, "  ")

    def _result(self, attempt: Attempt) -> str:
        """Return what came of an attempt, in a few words."""
        return self._safe(came_of(attempt))

    def _bar(self, attempt: Attempt, started_at: float, *, won: bool) -> str:
        first = self._column(started_at)
        last = self._column(self._end if attempt.finished_at is None else attempt.finished_at)
        line = self._style.winning_line if won else self._style.line
        end = self._style.ends.get(attempt.outcome, self._style.line)
        return " " * first + line * (last - first) + end

    def _column(self, time: float) -> int:
        if not (self._end > 0 and time > 0):
            return 0
        return round(min(time / self._end, 1.0) * (self._bar_width - 1))

    def _axis(self) -> Iterator[str]:
        """Yield the labels and the line of the time axis."""
        labels, line = "", [self._style.axis] * self._bar_width
        for tick in ticks(self._end, self._bar_width):
            column = self._column(tick)
            line[column] = self._style.tick
            labels = padded(labels, column) + (seconds(tick) if tick else "0")
        indent = " " * self._bar_start
        yield cut(indent + labels, self._width, "")
        yield indent + "".join(line)

    def _safe(self, text: str) -> str:
        """Return `text` on one line, and in ASCII where the picture is."""
        text = one_line(text)
        if self._style is _ASCII:
            text = text.replace("…", "...").encode("ascii", "backslashreplace").decode()
        return text
