"""A race as a picture for pages: one row an entrant on one time axis, told apart by pattern and mark, not by colour alone. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from racer._axis import seconds, ticks
from racer._report import Attempt, Outcome
from racer._telling import came_of
from racer.report._markup import isolated, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from racer._report import RaceReport

__all__ = ("end_of", "figure", "percent", "range_bar")

_COLUMNS: Final = 44  # characters that fit under the narrowest track
_HEIGHT: Final = 30  # px of a row
_THICK: Final = 14  # px of a bar
_MAX_NAME: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """How an outcome is drawn: the class of its bar, the mark at its end (around 0, 0), and what a key says."""

    kind: str
    mark: str
    words: str


_LOOKS: Final = {
    Outcome.CONNECTED: _Look(kind="good", mark="M3,0 L7,5 L14,-6", words="connected"),
    Outcome.CONNECT_FAILED: _Look(kind="bad", mark="M-5,-5 L5,5 M-5,5 L5,-5", words="failed"),
    Outcome.TIMED_OUT: _Look(kind="late", mark="M0,-9 L0,9", words="timed out"),
    Outcome.LOST_RACE: _Look(kind="idle", mark="M-3,0 A3,3 0 1 0 3,0 A3,3 0 1 0 -3,0", words="lost the race"),
    Outcome.CANCELLED: _Look(kind="gone", mark="M-4,0 L4,0", words="cancelled"),
    Outcome.NOT_STARTED: _Look(kind="open", mark="M-3,-5 L3,0 L-3,5", words="running"),
}  # fmt: skip

_UNKNOWN: Final = _Look(kind="open", mark="M-3,-5 L3,0 L-3,5", words="not known")


def end_of(report: RaceReport) -> float:
    """Return the seconds that an axis for this race has to show."""
    times = [report.duration, *(a.finished_at or 0.0 for a in report.attempts)]
    return max(filter(math.isfinite, times), default=0.0)


def percent(time: float, end: float) -> str:
    """Return where an instant stands on an axis from 0 to `end`; what lies outside stands at its edge."""
    share = min(max(time / end, 0.0), 1.0) if end > 0 and time > 0 else 0.0
    return f"{100 * share:.3f}%"


def figure(
    report: RaceReport,
    *,
    caption: str = "",
    end: float | None = None,
    unknown_from: Mapping[str, float] | None = None,
) -> str:
    """Return the picture of a race as HTML with inline SVG, for a page made by `document`.

    It fits every width, and says of each row in words what it shows.

    Args:
        report: the race.
        caption: plain text below it.
        end: seconds that the axis shows, so that several pictures have one measure; by default what the race took.
        unknown_from: seconds from which on nobody knows what an attempt does, by its entrant's name.
    """
    picture = _Picture(report, end_of(report) if end is None else end, unknown_from or {})
    told = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
    rows = "".join(picture.rows())
    return f'<figure class="waterfall">{rows}{picture.key()}{told}</figure>'


def range_bar(earliest: float | None, latest: float | None, end: float) -> str:
    """Return a bar for a table: solid up to the earliest, dotted up to the latest, or to the edge where there is none."""
    solid = 0.0 if earliest is None else earliest
    until = end if latest is None else latest
    look = _LOOKS[Outcome.CONNECT_FAILED if latest is None else Outcome.CONNECTED]
    bars = _bar(look.kind, 0.0, solid, end) if solid else ""
    if until > solid:
        bars += _bar(look.kind if earliest is None else _UNKNOWN.kind, solid, until, end)
    return (
        f'<svg width="100%" height="{_HEIGHT}" aria-hidden="true">'
        f"{_in_the_middle(bars + _mark(look, until, end))}</svg>"
    )


class _Picture:
    """One picture's measures."""

    def __init__(self, report: RaceReport, end: float, unknown_from: Mapping[str, float]) -> None:
        self._report = report
        self._end = end
        self._unknown_from = unknown_from
        self._ticks = [(tick, percent(tick, end)) for tick in ticks(end, _COLUMNS)]
        self._grid = "".join(
            f'<line class="grid" x1="{at}" x2="{at}" y1="0" y2="100%"/>' for _, at in self._ticks
        )

    def rows(self) -> Iterator[str]:
        if any(attempt.started_at is not None for attempt in self._report.attempts):
            labels = "".join(_label(tick, at) for tick, at in self._ticks)
            yield (
                '<div class="row axis" aria-hidden="true"><div class="who"></div>'
                f'<div class="track"><svg>{labels}</svg></div>'
                '<div class="what soft">time from the start</div></div>'
            )
        for attempt in self._report.attempts:
            won = attempt.transport == self._report.winner
            kind = " won" if won else " idle" if attempt.started_at is None else ""
            name = isolated(attempt.transport, most=_MAX_NAME)
            badge = ' <span class="badge">▶ winner</span>' if won else ""
            yield (
                f'<div class="row{kind}"><div class="who">{name}{badge}</div>'
                f'{self._track(attempt)}<div class="what">{text(self._came_of(attempt))}</div></div>'
            )

    def key(self) -> str:
        """Return what the patterns mean, of those that are in the picture."""
        shown = {a.outcome for a in self._report.attempts if a.started_at is not None}
        looks = [look for outcome, look in _LOOKS.items() if outcome in shown]
        if self._unknown_from:
            looks.append(_UNKNOWN)
        items = "".join(
            f'<li><svg width="52" height="{_HEIGHT}" aria-hidden="true">'
            f"{_in_the_middle(_bar(look.kind, 0.0, 0.75, 1.0) + _mark(look, 0.75, 1.0))}</svg>{text(look.words)}</li>"
            for look in looks
        )
        return f'<ul class="key" aria-label="key">{items}</ul>' if items else ""

    def _came_of(self, attempt: Attempt) -> str:
        unknown = self._unknown_from.get(attempt.transport)
        return came_of(attempt) if unknown is None else f"not known after {seconds(unknown)}"

    def _track(self, attempt: Attempt) -> str:
        if attempt.started_at is None:
            return ""
        began, end = attempt.started_at, self._end
        until = end if attempt.finished_at is None else attempt.finished_at
        look = _LOOKS[attempt.outcome]
        known = self._unknown_from.get(attempt.transport)
        if known is None:
            bars = _bar(look.kind, began, until, end) + _mark(look, until, end)
        else:
            bars = _bar("idle", began, known, end) if known > began else ""
            bars += _bar(_UNKNOWN.kind, known, until, end) + _mark(_UNKNOWN, until, end)
        name = text(attempt.transport, most=_MAX_NAME)
        span = f"from {seconds(began)} to {seconds(until)}, {self._came_of(attempt)}"
        return (
            f'<div class="track"><svg role="img"><title>{name}: {text(span)}</title>'
            f"{self._grid}{_in_the_middle(bars)}</svg></div>"
        )


def _in_the_middle(shapes: str) -> str:
    """Return shapes drawn around a line at half the height of whatever they stand in."""
    return f'<svg y="50%" overflow="visible">{shapes}</svg>'


def _bar(kind: str, began: float, until: float, end: float) -> str:
    share = 100 * max(min(until, end) - began, 0.0) / end if end > 0 else 0.0
    return (
        f'<rect class="bar {kind}" x="{percent(began, end)}" y="{-_THICK // 2}" '
        f'width="{share:.3f}%" height="{_THICK}"/>'
    )


def _mark(look: _Look, at: float, end: float) -> str:
    shape = f'd="{look.mark}"'
    return (
        f'<svg x="{percent(at, end)}" overflow="visible">'
        f'<path class="halo" {shape}/><path class="mark {look.kind}" {shape}/></svg>'
    )


def _label(tick: float, at: str) -> str:
    anchor = "middle" if tick else "start"
    words = seconds(tick) if tick else "0"
    return f'<text x="{at}" y="14" text-anchor="{anchor}">{text(words)}</text>'
