"""A race as one HTML file: the picture, the causes, a table of everything, and the report itself. Pure."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Final

from racer._axis import seconds
from racer._report import Outcome
from racer._telling import came_of_race, cause_of
from racer.report._figure import end_of, figure, range_bar
from racer.report._markup import cell, data_block, document, download, isolated, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from racer._report import Attempt, RaceReport
    from racer.report._replay import Replay

__all__ = ("page",)

_MAX_INDENTED: Final = 200_000  # bytes of JSON that are also shown


def page(report: RaceReport, *, title: str | None = None, replays: Sequence[Replay] = ()) -> str:
    """Return a race as a self-contained HTML page: without scripts, and without anything that is fetched.

    Whatever a peer has put into a report is shown as text. Long texts are cut; the report in the page is whole.

    Args:
        report: the race.
        title: the headline; by default what came of the race.
        replays: what to put beside it, as `compare` and `replay` give.
    """
    told = f"{report.target} {came_of_race(report)}"
    headline = told if title is None else title
    lead = f'<p class="lead">{text(told)}</p>' if title is not None else ""
    parts = [
        f"<header><h1>{text(headline)}</h1>{lead}{_facts(report)}</header>",
        f"<main>{figure(report)}",
        _causes(report),
        *_replays(replays),
        _table(report),
        _source(report),
        "</main>",
    ]
    return document(headline, "\n".join(filter(None, parts)))


def _facts(report: RaceReport) -> str:
    begun = sum(attempt.started_at is not None for attempt in report.attempts)
    facts = {
        "target": isolated(report.target),
        "TLS to it": "part of the race" if report.tls else "none",
        "won by": isolated(report.winner) if report.winner is not None else "nobody",
        "took": text(seconds(report.duration)),
        "had": text(seconds(report.timeout)),
        "attempts begun": f"{begun} of {len(report.attempts)}",
        "began": text(_instant(report.started)),
    }
    items = "".join(
        f"<div><dt>{text(key)}</dt><dd>{value}</dd></div>" for key, value in facts.items()
    )
    return f'<dl class="facts">{items}</dl>'


def _instant(started: float) -> str:
    try:
        when = datetime.datetime.fromtimestamp(started, tz=datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return f"{started:g} s since 1970"
    return f"{when:%Y-%m-%d %H:%M:%S} UTC"


def _causes(report: RaceReport) -> str:
    causes = "".join(
        f"<li>{text(cause)}</li>" for attempt in report.attempts if (cause := cause_of(attempt))
    )
    return f'<h2>What failed, and why</h2><ul class="causes">{causes}</ul>' if causes else ""


def _table(report: RaceReport) -> str:
    rows = "".join(_row(attempt, report) for attempt in report.attempts)
    columns = (
        "entrant",
        "outcome",
        "tier",
        "delay",
        "had",
        "began",
        "ended",
        "stage",
        "reason",
        "peer",
    )
    head = "".join(f'<th scope="col">{text(column)}</th>' for column in columns)
    return (
        "<h2>Every attempt</h2><table><caption>Times are from the race's start; the delay is from the opening "
        f"of the tier, and what an attempt had is from its own start.</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _row(attempt: Attempt, report: RaceReport) -> str:
    won = attempt.transport == report.winner
    outcome = attempt.outcome.value.replace("_", " ")
    if attempt.outcome is Outcome.NOT_STARTED and attempt.started_at is not None:
        outcome = "running"
    why = attempt.error_type.value if attempt.error_type is not None else attempt.reason or ""
    cells = [
        cell("outcome", text(outcome)),
        cell("tier", str(attempt.tier), number=True),
        cell("delay", text(seconds(attempt.start_delay)), number=True),
        cell("had", _time(attempt.timeout), number=True),
        cell("began", _time(attempt.started_at), number=True),
        cell("ended", _time(attempt.finished_at), number=True),
        cell("stage", text(attempt.stage.value) if attempt.stage is not None else ""),
        cell("reason", isolated(why) if why else ""),
        cell("peer", isolated(attempt.peer) if attempt.peer else ""),
    ]
    name = isolated(attempt.transport, most=60)
    return f'<tr{" class=won" if won else ""}><th scope="row">{name}</th>{"".join(cells)}</tr>'


def _time(value: float | None) -> str:
    return "" if value is None else text(seconds(value))


def _replays(replays: Sequence[Replay]) -> Iterator[str]:
    """Yield the table of what other delays would have given, and each race in it that differs from the recorded one."""
    if not replays:
        return
    # Not up to a deadline that nobody came near: that would leave no room for what did happen.
    times = [time for one in replays for time in (one.earliest, one.latest) if time is not None]
    end = 1.25 * max(times, default=max(end_of(one.report) for one in replays))
    head = "".join(
        f'<th scope="col">{column}</th>'
        for column in ("policy", "won by", "usable after", "", "begun", "wasted", "what is known")
    )
    rows = "".join(_replayed(one, end) for one in replays)
    yield (
        "<h2>What other delays would have given</h2>"
        "<p>The same schedule that ran the race, over what the network gave then. An attempt that was cut off was seen "
        "for so long without an end, and nothing more is known of it: a dotted bar is the time in which it may have "
        "made a difference. Wasted are attempts that were begun and not used.</p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )
    for one in replays:
        if not one.changes.is_empty:
            picture = figure(one.report, caption=one.words, unknown_from=one.unknown_from)
            yield f"<h3>{isolated(one.name)}</h3>{picture}"


def _replayed(one: Replay, end: float) -> str:
    known = "all" if one.is_certain else "; ".join(doubt.words for doubt in one.doubts)
    cells = [
        cell("won by", isolated(one.winner) if one.winner is not None else "nobody"),
        cell("usable after", text(one.usable_after), number=True),
        f'<td class="plot">{range_bar(one.earliest, one.latest, end)}</td>',
        cell("begun", str(one.started), number=True),
        cell("wasted", str(one.wasted), number=True),
        cell("what is known", text(known)),
    ]
    return f'<tr><th scope="row">{isolated(one.name)}</th>{"".join(cells)}</tr>'


def _source(report: RaceReport) -> str:
    """Return the report itself: to read, to save, and for programs."""
    compact = report.to_json()
    shown = report.to_json(indent=2) if len(compact) <= _MAX_INDENTED else ""
    pre = f"<pre>{_verbatim(shown)}</pre>" if shown else "<p>It is too long to be shown.</p>"
    link = download(compact, file="race.json", words="Save the report as JSON")
    return (
        f"<h2>The report</h2><p>{link} <span class=screen>It can be played again: "
        "<code>racer replay race.json</code>.</span></p>"
        f'<details class="screen"><summary>Show the JSON</summary>{pre}</details>'
        f"{data_block(compact, name='report')}"
    )


def _verbatim(shown: str) -> str:
    """Return JSON text for an element: it is ASCII, in lines."""
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
