"""The Soar benchmark's figures to look at: pictures, and a page that holds everything and needs no network."""

from __future__ import annotations

import base64
import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks import _pictures as pictures
from benchmarks._command import ms
from benchmarks._pictures import Range
from benchmarks._results import Unusable
from benchmarks._soar_links import LINKS
from benchmarks._soar_samples import OURS
from benchmarks._soar_telling import kb
from racer.report import document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from benchmarks._machine import Machine
    from benchmarks._soar_samples import Row, Spread

__all__ = ("Picture", "draw", "write_page")

_WIDTH: Final = 13.0  # inches
_WIDE: Final = 5.0  # times the least that the most has to be for a logarithmic scale
_TITLE: Final = "Soar: byte streams inside DNS, through real resolvers"
_PARTS: Final = ("client", "server", "resolver")
_COLUMNS: Final = (
    "tunnel",
    "cold",
    "spawn",
    "warm",
    "down",
    "up",
    "down, settled",
    "up, settled",
    "questions/KB",
    "CPU ms/MB down",
    "CPU ms/MB up",
    "failed",
)
_MEANING: Final = (
    "Medians, and in brackets from the least to the most. Cold: milliseconds from asking for the first stream of a new "
    "session to its first octet back, in a process that runs; for others' tunnels, whose processes are the tunnel, from "
    "their start. Spawn: the same from the start of the process. Warm: another stream on a session. Down and up: kilobytes "
    "a second over a transfer of fixed time, the start of the tunnel included; settled: the same after a quarter of that "
    "time. CPU: client, server, resolver."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One that was drawn.

    Attributes:
        name: of its file.
        title: what it shows.
        words: how it is read.
        png: itself.
    """

    name: str
    title: str
    words: str
    png: bytes


def draw(rows: Sequence[Row], out: Path) -> list[Picture]:
    """Write all pictures, and return them.

    Raises:
        Unusable: matplotlib is not installed, or nothing can be written there.
    """
    spots = list(dict.fromkeys((row.link, row.resolver) for row in rows))
    by = {(row.link, row.resolver, row.tunnel): row for row in rows}
    groups = [
        f"{link}: {1000 * LINKS[link].round_trip:g} ms\n{resolver}" for link, resolver in spots
    ]
    tunnels = list(dict.fromkeys(row.tunnel for row in rows))

    def dots(titles: Mapping[str, tuple[str, float]], title: str) -> Figure:
        figure, panels = pictures.new(
            title=title,
            width=_WIDTH,
            height=pictures.height_of(len(groups) * max(2, len(tunnels) + 1)),
            widths=[1] * len(titles),
        )
        for panel, (name, (label, scale)) in zip(panels, titles.items(), strict=True):
            _dots(
                panel,
                groups,
                {
                    tunnel: [_range(by.get((*spot, tunnel)), name, scale) for spot in spots]
                    for tunnel in tunnels
                },
                label,
            )
        pictures.key(figure, panels[0])
        return figure

    questions = "Questions that the client asks for each kilobyte (less is better)"
    made = [
        (
            "soar.png",
            "Time to the first octet, and goodput",
            "Mark: the median. Line: from the least to the most. Scales are logarithmic where values lie far apart.",
            dots(
                {
                    "cold": ("cold: ms to the first octet", 1e3),
                    "warm": ("warm: ms to the first octet", 1e3),
                    "down": ("down: KB/s", 1e-3),
                    "up": ("up: KB/s", 1e-3),
                },
                f"{_TITLE}: time to the first octet (less is better), and goodput (more is better)",
            ),
        ),
        (
            "soar-cpu.png",
            "Processor time",
            "For each 10^6 octets. Mark: the median. Line: from the least to the most.",
            _costs(rows, spots, groups),
        ),
        (
            "soar-questions.png",
            "Questions",
            "Mark: the median. Line: from the least to the most.",
            dots(
                {
                    "down_questions": ("down: questions for each KB", 1),
                    "up_questions": ("up: questions for each KB", 1),
                },
                questions,
            ),
        ),
    ]
    drawn = []
    for name, title, words, figure in made:
        pictures.save(figure, out / name)
        drawn.append(Picture(name=name, title=title, words=words, png=(out / name).read_bytes()))
    return drawn


def _dots(
    panel: Axes, groups: Sequence[str], series: dict[str, Sequence[Range]], label: str
) -> None:
    ends = [
        end
        for ranges in series.values()
        for one in ranges
        if one.middle is not None
        for end in (one.low, one.high)
    ]
    # Of a narrow range a logarithmic scale would name next to nothing; where nothing was measured there is none.
    log = bool(ends) and max(ends) > _WIDE * min(ends)
    pictures.dots(panel, groups=groups, series=series, label=label, log=log)
    if ends and not log:
        panel.set_xlim(left=0)


def _range(row: Row | None, name: str, scale: float) -> Range:
    if row is None:
        return Range(middle=None, note="")
    spread: Spread | None = getattr(row, name)
    if spread is None:
        return Range(middle=None, note="did not come up" if row.why else "too little")
    return Range(middle=scale * spread.p50, low=scale * spread.least, high=scale * spread.most)


def _costs(rows: Sequence[Row], spots: Sequence[tuple[str, str]], groups: Sequence[str]) -> Figure:
    """Return the picture of our own tunnel's processor time."""
    figure, panels = pictures.new(
        title="What a megabyte through Soar costs: processor time of each part",
        width=_WIDTH,
        height=pictures.height_of(len(groups) * (len(_PARTS) + 1)),
        widths=(1, 1),
    )
    ours = {(row.link, row.resolver): row for row in rows if row.tunnel == OURS}
    for panel, way in zip(panels, ("down", "up"), strict=True):
        _dots(
            panel,
            groups,
            {part: [_cost(ours.get(spot), f"{way} {part}") for spot in spots] for part in _PARTS},
            f"{way}: ms of a processor for each MB",
        )
    pictures.key(figure, panels[0])
    return figure


def _cost(row: Row | None, name: str) -> Range:
    spread = None if row is None else row.cpu.get(name)
    if spread is None or not spread.p50:
        return Range(middle=None, note="too little to tell")
    return Range(
        middle=1e3 * spread.p50, low=1e3 * max(spread.least, 0.001), high=1e3 * spread.most
    )


# --- the page -------------------------------------------------------------------------------


def write_page(
    path: Path,
    rows: Sequence[Row],
    *,
    links: Mapping[str, str],
    machine: Machine,
    notes: Sequence[str],
    drawn: Sequence[Picture],
) -> None:
    """Write a page that shows everything a person looks at.

    Args:
        path: where.
        rows: what was found.
        links: what lies between, in words, by name.
        machine: where it was measured.
        notes: what else has to be known, such as what links were made of.
        drawn: pictures.

    Raises:
        Unusable: it cannot be written.
    """
    parts = [
        f"<header><h1>{_safe(_TITLE)}</h1><p>{_safe(_MEANING)}</p>",
        *(f"<p>{_safe(note)}</p>" for note in notes),
        f'<p class="soft">{_safe(machine.words)}</p></header><main>',
        *map(_picture, drawn),
    ]
    for link, words in links.items():
        there = [row for row in rows if row.link == link]
        if not there:
            continue
        parts.append(f"<h2>{_safe(link)}</h2><p>{_safe(words)}</p>")
        for resolver in dict.fromkeys(row.resolver for row in there):
            parts.append(f"<h3>through {_safe(resolver)}</h3>")
            parts.append(_table([row for row in there if row.resolver == resolver]))
    parts.append("</main>")
    try:
        path.write_text(document(_TITLE, "\n".join(parts)), encoding="utf-8")
    except OSError as exc:
        msg = f"{path} cannot be written ({exc.strerror}); choose another folder with --output"
        raise Unusable(msg) from exc


def _picture(picture: Picture) -> str:
    encoded = base64.b64encode(picture.png).decode("ascii")
    return (
        f"<h2>{_safe(picture.title)}</h2><p>{_safe(picture.words)}</p>"
        f'<img style="max-width:100%;height:auto;background:#fff" src="data:image/png;base64,{encoded}" '
        f'alt="{_safe(picture.title)}: the tables below hold the same figures.">'
    )


def _table(rows: Sequence[Row]) -> str:
    head = "".join(f'<th scope="col">{column}</th>' for column in _COLUMNS)
    body = "".join(map(_row, rows))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _row(row: Row) -> str:
    cells = (
        _times(row.cold),
        _times(row.spawn),
        _times(row.warm),
        _rates(row.down),
        _rates(row.up),
        _rates(row.down_settled),
        _rates(row.up_settled),
        " / ".join(
            "-" if one is None else f"{one.p50:.1f}"
            for one in (row.down_questions, row.up_questions)
        ),
        _used(row, "down"),
        _used(row, "up"),
        "; ".join(f"{what}: {len(why)}, {why[0]}" for what, why in row.failures.items()) or "none",
    )
    told = "".join(
        f'<td data-label="{label}">{_safe(value)}</td>'
        for label, value in zip(_COLUMNS[1:], cells, strict=True)
    )
    return f'<tr><th scope="row">{_safe(row.tunnel)}</th>{told}</tr>'


def _times(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    return f"{ms(spread.p50)} ms ({ms(spread.least)} to {ms(spread.most)})"


def _rates(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    return f"{kb(spread.p50)} KB/s ({kb(spread.least)} to {kb(spread.most)})"


def _used(row: Row, way: str) -> str:
    parts = [row.cpu.get(f"{way} {part}") for part in _PARTS]
    return " / ".join("-" if one is None else f"{1000 * one.p50:.0f}" for one in parts)


def _safe(text: str) -> str:
    return html.escape(text)
