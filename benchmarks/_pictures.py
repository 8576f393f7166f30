"""Pictures of what benchmarks find: told apart by mark and hatch, not by colour alone, with units on every axis.

matplotlib is a dependency for development; it is loaded when a picture is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from benchmarks._results import Unusable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = (
    "LOOKS",
    "Look",
    "Range",
    "bars",
    "cut_off",
    "dots",
    "has_matplotlib",
    "height_of",
    "key",
    "new",
    "save",
)

_DPI: Final = 144
_ROW: Final = 0.215  # inches of one row of dots
_GREY: Final = "0.55"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How one series is drawn.

    Attributes:
        colour: of the palette by Okabe and Ito, which colour-blind people tell apart.
        marker: matplotlib's name of a mark.
        hatch: of its bars.
        filled: whether the mark is.
    """

    colour: str
    marker: str
    hatch: str
    filled: bool = True


LOOKS: Final = (
    Look(colour="#0072B2", marker="o", hatch=""),
    Look(colour="#D55E00", marker="s", hatch="////"),
    Look(colour="#009E73", marker="^", hatch="....", filled=False),
    Look(colour="#CC79A7", marker="D", hatch="xxxx"),
    Look(colour="#E69F00", marker="v", hatch="\\\\\\\\", filled=False),
    Look(colour="#56B4E9", marker="P", hatch="++"),
    Look(colour="#000000", marker="X", hatch="--", filled=False),
)
"""For the first series, the second, and so on; from the eighth on they come again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """One value with its spread.

    Attributes:
        middle: the value; `None` for one that there is none of.
        low: where the spread begins.
        high: where it ends.
        note: what stands at the right of its row: why there is no value, or how often there was none.
    """

    middle: float | None
    low: float = 0.0
    high: float = 0.0
    note: str = ""


def has_matplotlib() -> bool:
    """Return whether pictures can be drawn here."""
    from importlib.util import find_spec  # noqa: PLC0415 - asked once

    return find_spec("matplotlib") is not None


def new(
    *, title: str, width: float, height: float, widths: Sequence[float] = (1,)
) -> tuple[Figure, list[Axes]]:
    """Return an empty picture and its panels, side by side.

    Args:
        title: what it shows; it is broken where it is too long.
        width: inches.
        height: likewise.
        widths: of the panels, in relation to each other.

    Raises:
        Unusable: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - only who draws loads it
    except ModuleNotFoundError as exc:
        msg = "pictures need matplotlib, which comes with the development dependencies: uv sync, or --no-pictures"
        raise Unusable(msg) from exc
    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, wrap=True)
    panels = figure.subplots(1, len(widths), width_ratios=widths, sharey=True, squeeze=False)
    return figure, list(panels[0])


def height_of(rows: int) -> float:
    """Return the inches that so many rows of dots need, with room for title, axis and key."""
    return 1.6 + _ROW * rows


def dots(
    panel: Axes,
    *,
    groups: Sequence[str],
    series: dict[str, Sequence[Range]],
    label: str,
    log: bool = False,
) -> None:
    """Draw a row for each series in each group: a mark at the middle, a line from low to high.

    Args:
        panel: where.
        groups: names of the groups, from above.
        series: a range for each group, by the series' name.
        label: of the axis, with its unit.
        log: whether the axis is logarithmic.
    """
    from matplotlib.transforms import blended_transform_factory  # noqa: PLC0415 - only who draws loads it

    for number, (name, ranges) in enumerate(series.items()):
        look = LOOKS[number % len(LOOKS)]
        face = look.colour if look.filled else "white"
        mark: dict[str, Any] = {
            "color": look.colour,
            "marker": look.marker,
            "markerfacecolor": face,
        }
        for group, one in enumerate(ranges):
            at = _row(group, number, len(series))
            if one.note:  # beside the axis' right end, whatever its scale
                across = blended_transform_factory(panel.transAxes, panel.transData)
                where: dict[str, Any] = {"transform": across, "ha": "right", "va": "center"}
                panel.text(0.99, at, one.note, fontsize=7, color=look.colour, **where)
            if one.middle is not None:
                panel.plot([one.low, one.high], [at, at], color=look.colour, linewidth=1.6)
                panel.plot([one.middle], [at], markersize=5.5, linestyle="none", **mark)
        panel.plot([], [], label=name, linestyle="-", linewidth=1.6, markersize=5.5, **mark)
    _finish(panel, groups, label, log=log)


def bars(
    panel: Axes, *, groups: Sequence[str], series: dict[str, Sequence[float]], label: str
) -> None:
    """Draw a horizontal bar for each series in each group; arguments as for `dots`."""
    for number, (name, values) in enumerate(series.items()):
        look = LOOKS[number % len(LOOKS)]
        panel.barh(
            [_row(group, number, len(series)) for group in range(len(groups))],
            list(values),
            height=0.72 / (len(series) + 1),
            color=look.colour if look.filled and not look.hatch else "white",
            edgecolor=look.colour,
            hatch=look.hatch,
            label=name,
        )
    panel.set_xlim(left=0)
    _finish(panel, groups, label, log=False)


def save(figure: Figure, path: Path) -> None:
    """Write a picture as PNG, or as what the path's ending says.

    Raises:
        Unusable: it cannot be written there.
    """
    try:
        figure.savefig(path)
    except OSError as exc:
        msg = f"{path} cannot be written ({exc.strerror}); choose another folder"
        raise Unusable(msg) from exc


def cut_off(figure: Figure) -> list[str]:
    """Return the texts of a picture that do not lie within it: there should be none."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - likewise
    from matplotlib.text import Text  # noqa: PLC0415 - likewise

    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    whole, renderer = figure.bbox, canvas.get_renderer()
    # matplotlib also keeps labels for places beyond an axis' ends, which it does not draw.
    beyond = {
        id(label)
        for panel in figure.axes
        for axis in (panel.xaxis, panel.yaxis)
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
        for label in (tick.label1, tick.label2)
    }
    found = []
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if not text.get_text().strip() or id(text) in beyond:
            continue
        box = text.get_window_extent(renderer)
        inside = whole.x0 - 1 <= box.x0 and box.x1 <= whole.x1 + 1
        if not (inside and whole.y0 - 1 <= box.y0 and box.y1 <= whole.y1 + 1):
            found.append(text.get_text())
    return found


def _row(group: int, number: int, series: int) -> float:
    """Return where a series' row of a group is: groups lie at whole numbers, with a gap between them."""
    return group + (number + 1) / (series + 1) - 0.5


def _finish(panel: Axes, groups: Sequence[str], label: str, *, log: bool) -> None:
    panel.set_ylim(len(groups) - 0.5, -0.5)
    panel.set_yticks(range(len(groups)), groups, fontsize=9)
    panel.tick_params(axis="y", length=0)
    for edge in range(1, len(groups)):
        panel.axhline(edge - 0.5, color="0.85", linewidth=0.8, zorder=0)
    if log:
        from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415 - likewise

        panel.set_xscale("log")
        panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panel.xaxis.set_minor_formatter(NullFormatter())
    panel.grid(axis="x", color="0.9", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.set_xlabel(label, fontsize=9)
    panel.tick_params(axis="x", labelsize=8)
    for side in ("top", "right"):
        panel.spines[side].set_color(_GREY)


def key(figure: Figure, panel: Axes) -> None:
    """Put one key for all panels below them."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower left",
        ncols=min(len(labels), 4),
        frameon=False,
        fontsize=9,
    )
