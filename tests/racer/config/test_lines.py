"""On which line each key stands: what the scanner says is so, and where it is not sure it says nothing."""

from __future__ import annotations

import itertools
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.config._lines import MAX_DEPTH, KeyPath, lines_of


def scan(text: str) -> dict[KeyPath, int]:
    return lines_of(text, tomllib.loads(text))


def test_every_kind_of_key() -> None:
    text = '''\
# a comment [not.a.table] = 1
top = 1
"quoted \\u00df key" = 2
'literal "key"'.inner = 3
dotted.one = 4
dotted . "two" = 5

[table]   # another
key = 6
  [ "table" . sub ]
key = 7
[[list]]
key = """
[fake]
key = 1 # ""
"""
[[list]]
key = \'\'\'
[[list]]
\'\'\'
deep = [ # [
  1,
  "]",
  { a = 2, b = [3,
    4] },
]
[list.inner]
key = 8
[[list.more]]
[[list.more]]
date = 1979-05-27 07:32:00
'''
    assert scan(text) == {
        ("top",): 2,
        ("quoted ß key",): 3,
        ('literal "key"',): 4,
        ('literal "key"', "inner"): 4,
        ("dotted",): 5,
        ("dotted", "one"): 5,
        ("dotted", "two"): 6,
        ("table",): 8,
        ("table", "key"): 9,
        ("table", "sub"): 10,
        ("table", "sub", "key"): 11,
        ("list",): 12,
        ("list", 0): 12,
        ("list", 0, "key"): 13,
        ("list", 1): 17,
        ("list", 1, "key"): 18,
        ("list", 1, "deep"): 21,
        ("list", 1, "deep", 0): 22,
        ("list", 1, "deep", 1): 23,
        ("list", 1, "deep", 2): 24,
        ("list", 1, "deep", 2, "a"): 24,
        ("list", 1, "deep", 2, "b"): 24,
        ("list", 1, "deep", 2, "b", 0): 24,
        ("list", 1, "deep", 2, "b", 1): 25,
        ("list", 1, "inner"): 27,
        ("list", 1, "inner", "key"): 28,
        ("list", 1, "more"): 29,
        ("list", 1, "more", 0): 29,
        ("list", 1, "more", 1): 30,
        ("list", 1, "more", 1, "date"): 31,
    }


@pytest.mark.parametrize("quotes", range(3))
@pytest.mark.parametrize("mark", ['"', "'"])
def test_long_strings_that_end_in_quotes(mark: str, quotes: int) -> None:
    inner = f"\n{mark * 2}x{mark}\n# {mark * quotes}"
    text = f"a = {mark * 3}{inner}{mark * 3}\nb = 1"
    assert tomllib.loads(text)["a"] == inner.removeprefix("\n")
    assert scan(text) == {("a",): 1, ("b",): 4}


def test_a_header_of_its_own_counts_more_than_one_below_it() -> None:
    assert scan("[a.b]\nx = 1\n[a]\ny = 2") == {
        ("a",): 3,
        ("a", "b"): 1,
        ("a", "b", "x"): 2,
        ("a", "y"): 4,
    }


def test_line_breaks_of_both_kinds_count_once() -> None:
    assert scan("a = 1\r\n\r\n[b]\r\nc = '''\r\n\r\n'''\r\nd = 2")["b", "d"] == 7


@pytest.mark.parametrize(
    "text",
    [
        f"x = 1\ny = {'[' * (MAX_DEPTH + 2)}{']' * (MAX_DEPTH + 2)}",
        f"x = 1\n{'a.' * 64}b = 1",
    ],
)
def test_beyond_its_bounds_there_are_no_lines_at_all(text: str) -> None:
    assert scan(text) == {}


def test_lines_of_other_data_are_not_told() -> None:
    assert lines_of("a = 1", {"b": 1}) == {}
    assert lines_of("a = [1, 2]", {"a": [1]}) == {}
    assert lines_of("a.b = 1", {"a": 1}) == {}


# --- against tomllib: each value is a number of its own, which stands in the text where it stands ---

KEYS = st.sampled_from(
    ["a", "b", "c-d", "1", '"q"', '"\\u0061"', "'l\"'", '"x.y"', '"# ["', '\'"""\'', '"é"']
)
BLANK = st.sampled_from(["", " ", "\t"])
BREAK = st.sampled_from(["", "\n", " # ] } \" '''\n", "\r\n"])
DECOYS = ['"[a]"', '"""\n[a]\nb = 1\n"""', "'''\n[[a]]\n'''", '"\\"]"', "'}'", '""""q"""']


@st.composite
def values(draw: st.DrawFn, numbers: Any, depth: int = 0) -> str:
    kind = draw(st.integers(0, 5 if depth < 3 else 2))
    if kind <= 1:
        return str(next(numbers))
    if kind == 2:
        return draw(st.sampled_from(DECOYS))
    if kind == 3:
        keys = draw(st.lists(KEYS, max_size=3, unique=True))
        pairs = [
            f"{key}{draw(BLANK)}={draw(BLANK)}{draw(values(numbers, depth + 1))}" for key in keys
        ]
        return f"{{{draw(BLANK)}{', '.join(pairs)}{draw(BLANK)}}}"
    inner = [draw(values(numbers, depth + 1)) for _ in range(draw(st.integers(0, 3)))]
    gap = draw(BREAK)
    comma = draw(st.sampled_from(["", ","])) if inner else ""
    return f"[{gap}{f',{gap}'.join(inner)}{gap}{comma}{gap}]"


@st.composite
def documents(draw: st.DrawFn) -> str:
    numbers = itertools.count(100_001)
    lines = []
    for _ in range(draw(st.integers(1, 12))):
        keys = draw(st.lists(KEYS, min_size=1, max_size=3))
        name = f"{draw(BLANK)}.{draw(BLANK)}".join(keys)
        match draw(st.integers(0, 5)):
            case 0:
                lines.append(f"[{draw(BLANK)}{name}{draw(BLANK)}]{draw(BREAK)}")
            case 1:
                lines.append(f"[[{name}]]")
            case 2:
                lines.append(draw(st.sampled_from(["", "# [x]", "\t"])))
            case _:
                lines.append(f"{draw(BLANK)}{name}{draw(BLANK)}= {draw(values(numbers))} # 'c")
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines)


def numbers_in(data: Any, path: KeyPath = ()) -> dict[KeyPath, int]:
    if isinstance(data, dict):
        parts = [numbers_in(value, (*path, key)) for key, value in data.items()]
    elif isinstance(data, list):
        parts = [numbers_in(value, (*path, index)) for index, value in enumerate(data)]
    else:
        return {path: data} if isinstance(data, int) and data > 100_000 else {}
    return {key: value for part in parts for key, value in part.items()}


@given(documents())
def test_what_tomllib_takes_has_every_value_in_its_line(text: str) -> None:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        assert isinstance(lines_of(text, {}), dict)
        return
    lines = lines_of(text, data)
    found = numbers_in(data)
    assert {path: lines[path] for path in found} == {
        path: text.count("\n", 0, text.index(str(number))) + 1 for path, number in found.items()
    }


@given(st.text(st.sampled_from("ab.=[]{}\"'#\\\n\r ,1"), max_size=40), st.booleans())
def test_anything_gives_lines_or_none(text: str, is_prefixed: bool) -> None:
    text = f"a = 1\n{text}" if is_prefixed else text
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        data = {"a": 1}
    count = text.count("\n") + 1
    assert all(1 <= line <= count for line in lines_of(text, data).values())
