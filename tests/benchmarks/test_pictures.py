"""Benchmarks' pictures: every text lies within them, and no two series look the same in grey."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks import _pictures as pictures
from benchmarks._pictures import LOOKS, Range
from benchmarks._results import Unusable

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

SERIES = ("racer", "other", "third")
GROUPS = ["clean", "a network with quite a long name", "blackhole"]


def drawn() -> Figure:
    figure, (times, counts) = pictures.new(
        title="Time to a usable connection, and what it cost: a title that is longer than the picture is wide, "
        "which has to be broken",
        width=8, height=pictures.height_of(9), widths=(3, 1),
    )  # fmt: skip
    ranges = [
        Range(middle=0.2, low=0.1, high=0.3),
        Range(middle=None, note="never"),
        Range(middle=3.0, low=2, high=5),
    ]
    pictures.dots(
        times,
        groups=GROUPS,
        series=dict.fromkeys(SERIES, ranges),
        label="seconds",
        log=True,
    )
    pictures.bars(
        counts,
        groups=GROUPS,
        series={name: [0.0, 1.0, 2.0] for name in SERIES},
        label="count",
    )
    pictures.key(figure, times)
    return figure


def test_nothing_is_cut_off(tmp_path: Path) -> None:
    figure = drawn()
    assert pictures.cut_off(figure) == []
    pictures.save(figure, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_cut_off_is_seen() -> None:
    figure, _ = pictures.new(title="x", width=2, height=2)
    figure.text(0.95, 0.5, "far too long for what is left of it")
    assert pictures.cut_off(figure) == ["far too long for what is left of it"]


def test_series_differ_without_colour() -> None:
    assert len({look.marker for look in LOOKS}) == len(LOOKS)
    assert len({look.hatch for look in LOOKS}) == len(LOOKS)


def test_axes_say_what_they_count() -> None:
    labels = [panel.get_xlabel() for panel in drawn().axes]
    assert labels == ["seconds", "count"]


def test_a_picture_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="cannot be written"):
        pictures.save(drawn(), tmp_path / "no folder" / "x.png")


def test_without_matplotlib_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(Unusable, match="uv sync, or --no-pictures"):
        pictures.new(title="x", width=2, height=2)
