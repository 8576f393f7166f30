"""The race benchmark's figures to look at: a picture, and a page that holds everything and needs no network."""

from __future__ import annotations

import base64
import html
from typing import TYPE_CHECKING, Final

from benchmarks import _pictures as pictures
from benchmarks._command import ms
from benchmarks._pictures import Range
from benchmarks._race_telling import WHO, outcomes
from benchmarks._samples import median_race
from racer.report import document, figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from benchmarks._machine import Machine
    from benchmarks._samples import Row, Sample

__all__ = ("draw", "write_page")

_WIDTH: Final = 9.5  # inches
_TITLE: Final = "Time to a usable connection, and what it costs: racer and what people use instead"
_LEAD: Final = (
    "Time until TLS is verified and one byte has come back. All dialers met the same networks in the same run; "
    "what can be relied on are ratios, and who won."
)
_COLUMNS: Final = (
    "dialer",
    "p50",
    "p95",
    "least to most",
    "beside racer",
    "won by",
    "tried",
    "wasted",
    "failed",
)


def draw(rows: Sequence[Row], path: Path) -> None:
    """Write a picture of all rows.

    Raises:
        Unusable: matplotlib is not installed, or nothing can be written there.
    """
    networks = list(dict.fromkeys(row.network for row in rows))
    dialers = [name for name in WHO if any(row.dialer == name for row in rows)]
    by = {(row.network, row.dialer): row for row in rows}
    picture, (times, waste) = pictures.new(
        title=_TITLE,
        width=_WIDTH,
        height=pictures.height_of(len(networks) * (len(dialers) + 1)),
        widths=(3, 1),
    )
    pictures.dots(
        times,
        groups=networks,
        series={
            name: [_range(by.get((network, name))) for network in networks] for name in dialers
        },
        label="seconds until usable: median, and from the least to the most",
        log=True,
    )
    pictures.bars(
        waste,
        groups=networks,
        series={
            name: [_wasted(by.get((network, name))) for network in networks] for name in dialers
        },
        label="connections wasted a dial",
    )
    pictures.key(picture, times)
    pictures.save(picture, path)


def _range(row: Row | None) -> Range:
    if row is None:
        return Range(middle=None)
    if row.failed == row.runs:
        return Range(middle=None, note=f"never: {next(iter(row.outcomes))}")
    note = f"{row.failed} of {row.runs} never" if row.failed else ""
    return Range(middle=row.p50, low=row.least, high=row.most, note=note)


def _wasted(row: Row | None) -> float:
    return 0.0 if row is None else row.wasted


def write_page(
    path: Path,
    rows: Sequence[Row],
    samples: Sequence[Sample],
    *,
    words: Mapping[str, str],
    machine: Machine,
    noise: str,
    picture: bytes | None,
) -> None:
    """Write a page that holds everything a person looks at.

    Args:
        path: where.
        rows: what was found.
        samples: from which racer's median race in each network is shown.
        words: what is wrong with each network.
        machine: where it was measured.
        noise: how much of it is the machine's own, in words.
        picture: of all rows, as PNG.

    Raises:
        OSError: it cannot be written.
    """
    who = "".join(f"<li><b>{_safe(name)}</b>: {_safe(what)}</li>" for name, what in WHO.items())
    parts = [
        f"<header><h1>{_safe(_TITLE)}</h1>",
        f"<p>{_LEAD}</p>",
        f'<p class="soft">{_safe(machine.words)}<br>{_safe(noise)}</p></header><main>',
        f"<h2>Who is who</h2><ul>{who}</ul>",
        "" if picture is None else _picture(picture),
    ]
    for network in dict.fromkeys(row.network for row in rows):
        there = [row for row in rows if row.network == network]
        parts.append(
            f"<h2>{_safe(network)}</h2><p>{_safe(words.get(network, ''))}</p>{_table(there)}"
        )
        race = median_race(samples, network)
        if race is not None:
            parts.append(figure(race, caption="racer's dial that took the median time"))
    parts.append("</main>")
    path.write_text(document(_TITLE, "\n".join(parts)), encoding="utf-8")


def _picture(png: bytes) -> str:
    encoded = base64.b64encode(png).decode("ascii")
    return (
        f'<h2>All of it</h2><img style="max-width:100%;height:auto;background:#fff" src="data:image/png;base64,{encoded}" '
        'alt="For each network and dialer: the median of the seconds, their range, and the connections wasted. The '
        'tables below hold the same figures.">'
    )


def _table(rows: Sequence[Row]) -> str:
    head = "".join(f'<th scope="col">{column}</th>' for column in _COLUMNS)
    body = "".join(_row(row) for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _row(row: Row) -> str:
    never = row.failed == row.runs
    cells = (
        "never" if never else f"{ms(row.p50)} ms",
        "" if never else f"{ms(row.p95)} ms",
        "" if never else f"{ms(row.least)} to {ms(row.most)} ms",
        "" if row.ratio is None else f"{row.ratio:.2f}",
        outcomes(row, most=60),
        f"{row.started:.1f}",
        f"{row.wasted:.1f}",
        f"{row.failed} of {row.runs}",
    )
    told = "".join(
        f'<td data-label="{label}">{_safe(value)}</td>'
        for label, value in zip(_COLUMNS[1:], cells, strict=True)
    )
    return f'<tr><th scope="row">{_safe(row.dialer)}</th>{told}</tr>'


def _safe(text: str) -> str:
    return html.escape(text)
