"""How a download is shown: lines in a pipe, a bar on a terminal, nothing where that is wanted."""

from __future__ import annotations

import io
import re
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from racer.cli._progress import Bar, Lines, Quiet, octets, progress_on
from racer.cli._ranges import Have
from racer.cli._screen import Screen

pytestmark = pytest.mark.virtual_time

VIA: Any = SimpleNamespace(transport_name="so\x1b[31mar")
ENV = {"TERM": "xterm", "LANG": "C.UTF-8"}


class Out(io.StringIO):
    encoding = "utf-8"

    def __init__(self, *, tty: bool = False) -> None:
        super().__init__()
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty


def words(out: Out) -> str:
    """Return what was written, without escape sequences."""
    return re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", out.getvalue())


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (5_368_709_120, "5.0 GiB"),
        (2**60, "1048576.0 TiB"),
    ],
)
def test_sizes_are_for_people(number: int, text: str) -> None:
    assert octets(number) == text


async def test_lines_come_now_and_then() -> None:
    out = Out()
    view = Lines(Screen.of(out, env=ENV))
    view.tick()
    view.begin(Have(offset=1024, total=4096), VIA)
    for second in range(12):
        view.advance(1024 + 100 * second)
        view.tick()
        await anyio.sleep(1)
    view.note("a\nb")
    view.begin(Have(), VIA)
    view.end()
    assert out.getvalue().splitlines() == [
        r"by so\x1b[31mar: 4.0 KiB, going on at 1.0 KiB",
        "1.5 KiB of 4.0 KiB (37 %), 100 bytes/s",
        "2.0 KiB of 4.0 KiB (49 %), 100 bytes/s",
        "a b",
        r"by so\x1b[31mar: of unknown size",
    ]


@pytest.mark.parametrize(
    ("columns", "env", "plain_marks"),
    [("100", ENV, False), ("40", ENV, False), ("80", ENV | {"LANG": "C"}, True)],
    ids=["wide", "narrow", "ascii"],
)
async def test_a_bar_moves_in_its_place_and_goes(
    columns: str, env: dict[str, str], plain_marks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("LINES", "24")
    out = Out(tty=True)
    view = Bar(Screen.of(out, env=env), "a-very-long-name-of-a-file\x1b[31m.iso")
    view.tick()
    view.begin(Have(offset=0, total=2048), VIA)
    view.advance(1024)
    view.tick()
    view.note("something")
    view.end()
    shown = words(out)
    assert " 50%" in shown
    assert ("1.0/2.0 KiB" in shown) is (columns != "40")
    assert ("━" not in shown) is plain_marks
    assert shown.isascii() is plain_marks
    assert r"by so\x1b[31mar" in shown
    assert "\x1b[31mar" not in out.getvalue()
    assert "something\n" in shown
    assert max(map(len, re.split(r"[\r\n]", shown))) <= int(columns)
    assert out.getvalue().endswith("\x1b[2K")  # the bar's line is cleared


async def test_colour_can_be_unwanted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for env, is_coloured in ((ENV, True), (ENV | {"NO_COLOR": "1"}, False)):
        out = Out(tty=True)
        view = Bar(Screen.of(out, env=env), "x")
        view.begin(Have(total=10), VIA)
        view.advance(5)
        view.tick()
        view.end()
        assert bool(re.search(r"\x1b\[[0-9;]*3[0-9]", out.getvalue())) is is_coloured


@pytest.mark.parametrize(
    ("tty", "moves", "quiet", "kind"),
    [
        (True, True, False, Bar),
        (True, False, False, Lines),
        (False, True, False, Lines),
        (True, True, True, Quiet),
    ],
)
async def test_the_view_that_fits_is_taken(
    tty: bool, moves: bool, quiet: bool, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Out(tty=tty)
    view = progress_on(Screen.of(out, env=ENV), "x", moves=moves, quiet=quiet)
    assert isinstance(view, kind)
    view.begin(Have(), VIA)
    view.advance(1)
    view.note("n")
    view.tick()
    view.end()
    assert (out.getvalue() == "") is quiet
