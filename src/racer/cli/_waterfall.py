"""A race as a picture: one row for each entrant on one time axis, the winner marked, the causes below. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, assert_never

from racer._report import Attempt, Outcome
from racer._words import one_line
from racer.cli._columns import cut, cut_middle, padded, width_of, wrapped
from racer.errors import ErrorType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from racer._report import RaceReport

__all__ = ("render", "seconds")

MIN_WIDTH: Final = 40
_FAILED: Final = frozenset({Outcome.CONNECT_FAILED, Outcome.TIMED_OUT})

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


def seconds(value: float) -> str:
    """Return a time for people: three digits, in ms below a second."""
    if value < 0.9995:
        return f"{_digits(max(value, 0.0) * 1000)} ms"
    return f"{_digits(value)} s"


def _digits(value: float) -> str:
    return f"{value:.0f}" if 999.5 <= value < 1e9 else f"{value:.3g}"


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
        report = self._report
        took = seconds(report.duration)
        # A stream that was handed out first may have been held for a while before the race was over.
        times = {a.transport: a.finished_at for a in report.attempts}
        won_at = times.get(report.winner or "")
        won_in = took if won_at is None else seconds(won_at)
        text = {
            Outcome.CONNECTED: f"connected by {report.winner} in {won_in}",
            Outcome.CONNECT_FAILED: f"not connected: every attempt failed, after {took}",
            Outcome.TIMED_OUT: f"not connected within {seconds(report.timeout)}",
            Outcome.CANCELLED: f"cancelled after {took}",
            Outcome.INELIGIBLE: "not connected: no transport serves it",
        }.get(report.outcome, f"still racing after {took}")
        lines = wrapped(self._safe(f"{report.target} {text}"), self._width)
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
        if attempt.outcome in _FAILED:
            where = [attempt.stage.value if attempt.stage else "", one_line(attempt.peer or "")]
            facts = ", ".join(filter(None, where))
            text = f"{name}{f' ({facts})' if facts else ''}: {attempt.cause}"
        elif attempt.outcome is Outcome.INELIGIBLE and width_of(self._result(attempt)) > self._room:
            text = f"{name}: {self._result(attempt)}"
        elif attempt.outcome is Outcome.CONNECTED and attempt.peer:
            text = f"{name}: peer {one_line(attempt.peer)}"
        else:
            return []
        return wrapped(self._safe(text), self._width, "  ")

    def _result(self, attempt: Attempt) -> str:
        """Return what came of an attempt, in a few words."""
        at = "" if attempt.finished_at is None else f" at {seconds(attempt.finished_at)}"
        stage = f" ({attempt.stage.value})" if attempt.stage else ""
        match attempt.outcome:
            case Outcome.CONNECTED:
                text = f"connected{at}"
            case Outcome.CONNECT_FAILED:
                kind = attempt.error_type
                vague = kind is None or kind is ErrorType.OTHER
                text = f"{'failed' if vague else kind}{at}"
            case Outcome.TIMED_OUT:
                text = f"timed out{at}{stage}"
            case Outcome.LOST_RACE:
                text = f"lost the race{stage}"
            case Outcome.CANCELLED:
                text = f"cancelled{stage}"
            case Outcome.INELIGIBLE:
                text = f"ineligible: {one_line(attempt.reason or 'no reason given')}"
            case Outcome.NOT_STARTED:
                if attempt.started_at is not None:
                    text = f"running{stage}"
                elif attempt.tier:
                    text = f"not started (tier {attempt.tier})"
                else:
                    text = f"not started (due at {seconds(attempt.start_delay)})"
            case _:
                assert_never(attempt.outcome)
        return self._safe(text)

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
        for tick in _ticks(self._end, self._bar_width):
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


def _ticks(end: float, width: int) -> list[float]:
    """Return round times from 0 to `end`, as many as have room for their labels, with two blanks between."""
    if end < 1e-9:  # a clock's own grain
        return [0.0]
    magnitude = 10.0 ** (math.floor(math.log10(end)) - 2)
    for step in (magnitude * factor for factor in (10, 20, 25, 50, 100, 200, 250, 500)):
        ticks = [index * step for index in range(int(end / step + 1e-9) + 1)]
        if max(len(seconds(tick)) for tick in ticks) + 2 <= step / end * (width - 1):
            return ticks
    return [0.0]
