from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.cli._columns import cut, cut_middle, padded, width_of, wrapped

printable = st.text(
    st.characters(exclude_categories=["C", "Z"]) | st.sampled_from(" 日本e\u0301\uff57한")
)


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("", 0),
        ("abc", 3),
        ("日本", 4),
        ("e\u0301", 1),
        ("\uff57", 2),
        ("한", 2),
        ("bücher", 6),
        ("✓", 1),
    ],
)
def test_text_is_as_wide_as_a_terminal_shows_it(text: str, width: int) -> None:
    assert width_of(text) == width
    assert width_of(padded(text, 10)) == 10


@pytest.mark.parametrize(
    ("text", "width", "whole", "both_ends"),
    [
        ("transport", 9, "transport", "transport"),
        ("transport", 8, "transpo…", "tran…ort"),
        ("transport", 3, "tr…", "t…t"),
        ("transport", 2, "t…", "t…"),
        ("transport", 1, "…", "…"),
        ("a b c d e", 5, "a b…", "a…e"),
        ("日本語", 6, "日本語", "日本語"),
        ("日本語", 5, "日本…", "日…語"),
        ("日本語", 4, "日…", "日…"),
        ("abcde\u0301", 4, "abc…", "ab…e\u0301"),
        ("ab\u0301cd", 3, "ab\u0301…", "a…d"),
    ],
)
def test_text_is_cut_to_fit(text: str, width: int, whole: str, both_ends: str) -> None:
    assert cut(text, width) == whole
    assert cut_middle(text, width).replace(" ", "") == both_ends


def test_ascii_has_three_dots() -> None:
    assert cut("transport", 6, "...") == "tra..."
    assert cut("transport", 2, "...") == ".."
    assert cut_middle("transport", 7, "...") == "tr...rt"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("one two", ["one two"]),
        ("one two three", ["one two", "  three"]),
        ("one twothree four", ["one", "  twothree", "  four"]),
        ("abcdefghijklmnopqrstuv", ["abcdefghij", "  klmnopqr", "  stuv"]),
        ("a bcdefghijklmnop", ["a", "  bcdefghi", "  jklmnop"]),
        ("日本語日本語日本語", ["日本語日本", "  語日本語"]),
    ],
)
def test_lines_break_between_words_and_within_long_ones(text: str, lines: list[str]) -> None:
    assert wrapped(text, 10, "  ") == lines


@given(printable, st.integers(8, 40))
def test_wrapping_fits_and_loses_nothing(text: str, width: int) -> None:
    text = " ".join(text.split())
    lines = wrapped(text, width, "  ")
    assert all(width_of(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


@given(printable, st.integers(1, 40))
def test_cutting_fits(text: str, width: int) -> None:
    for short in (cut(text, width), cut_middle(text, width), cut(text, width, "...")):
        assert width_of(short) <= width
        assert short == text or width_of(text) > width
