from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from racer.cli._screen import Screen
from tests.racer.cli.terminal import Terminal

if TYPE_CHECKING:
    from typing import TextIO

UTF8_TERMINAL = {"TERM": "xterm-256color", "LANG": "en_US.UTF-8"}


def pipe(encoding: str) -> TextIO:
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding)


@pytest.mark.parametrize(
    ("env", "plain", "redraws", "colour", "unicode"),
    [
        ({}, False, True, True, True),
        ({"TERM": "dumb"}, False, False, False, True),
        ({"NO_COLOR": "1"}, False, True, False, True),
        ({"NO_COLOR": ""}, False, True, True, True),
        ({}, True, False, False, False),
        ({"LANG": "C"}, False, True, True, False),
        ({"LANG": "POSIX"}, False, True, True, False),
        ({"LC_ALL": "C"}, False, True, True, False),
        ({"LC_CTYPE": "C"}, False, True, True, False),
        # What Python makes of LANG=C by itself (PEP 538).
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, False, True, True, False),
        ({"LANG": "C", "LC_ALL": "en_US.UTF-8"}, False, True, True, True),
        ({"LANG": "C", "LC_CTYPE": "de_DE.UTF-8"}, False, True, True, True),
        ({"LANG": "C.UTF-8"}, False, True, True, True),
        ({"LANG": ""}, False, True, True, True),
        ({"LANG": "", "LC_CTYPE": "C.UTF-8"}, False, True, True, True),
    ],
    ids=str,
)
def test_a_terminal_is_taken_as_its_environment_says(
    env: dict[str, str], plain: bool, redraws: bool, colour: bool, unicode: bool
) -> None:
    screen = Screen.of(Terminal(), plain=plain, env=UTF8_TERMINAL | env)
    assert screen.is_terminal
    assert (screen.redraws, screen.colour, screen.unicode) == (redraws, colour, unicode)


@pytest.mark.parametrize(
    ("encoding", "plain", "unicode"),
    [
        ("utf-8", False, True),
        ("utf-8", True, False),
        ("ascii", False, False),
        ("latin-1", False, False),
        ("cp1252", False, False),
    ],
)
def test_a_pipe_gets_no_escape_sequences_and_what_its_encoding_has(
    encoding: str, plain: bool, unicode: bool
) -> None:
    screen = Screen.of(pipe(encoding), plain=plain, env=UTF8_TERMINAL)
    assert not screen.is_terminal
    assert (screen.redraws, screen.colour, screen.unicode) == (False, False, unicode)
    assert screen.width == 80


def test_an_output_without_an_encoding_takes_ascii() -> None:
    assert not Screen.of(io.StringIO(), env={}).unicode


@pytest.mark.parametrize(
    ("encoding", "env", "shown"),
    [
        ("utf-8", {}, "▶ naïve… ✓ \U0001f3c1"),
        ("utf-8", {"LANG": "C"}, r"\u25b6 na\xefve... \u2713 \U0001f3c1"),
        ("latin-1", {}, r"\u25b6 na\xefve... \u2713 \U0001f3c1"),
        # It has the picture's characters, but not all others.
        ("cp949", {}, r"\u25b6 na\xefve... \u2713 \U0001f3c1"),
    ],
    ids=str,
)
def test_what_cannot_be_written_is_escaped(encoding: str, env: dict[str, str], shown: str) -> None:
    assert Screen.of(pipe(encoding), env=env).text("▶ naïve… ✓ \U0001f3c1") == shown


def test_a_terminals_size_is_asked_for_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen.of(Terminal(), env={})
    for columns, width in (("33", 33), ("100", 100), ("300", 120)):
        monkeypatch.setenv("COLUMNS", columns)
        monkeypatch.setenv("LINES", "11")
        assert screen.size() == (int(columns), 11)
        assert screen.width == width
    assert Screen.of(pipe("utf-8"), env={}).size() == (80, 24)
