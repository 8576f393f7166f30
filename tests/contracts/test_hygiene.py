"""What no file of the repository may hold, and what no test may wait for."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
MOST_LINES = 500

# Paths of the machine a file was written on. Where a system keeps things (/etc, /usr/bin, /proc)
# and what is given to it (a shebang, ~, $HOME) is not one.
MACHINE_PATH = re.compile(r"(?<![\w./~}-])/(?:work|tmp|home|root|Users|opt|mnt|private/var)/[\w.-]")


@cache
def repository() -> tuple[Path, ...]:
    """Every text file that git knows, or would take."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    files = (ROOT / name.decode() for name in listed.split(b"\0") if name)
    return tuple(f for f in files if f.is_file() and b"\0" not in f.read_bytes())


def machine_paths(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if MACHINE_PATH.search(line)]


def waits(source: str) -> list[int]:
    """Return the lines that call `time.sleep`, which no virtual clock sees.

    Sleeps of the event loops are watched while a test runs: tests/conftest.py.
    """
    if "time.sleep" not in source and "from time import" not in source:
        return []  # next to no file is worth parsing
    tree = ast.parse(source)
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "time"
        for alias in node.names
        if alias.name == "sleep"
    }
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [
        call.lineno
        for call in calls
        if ast.unparse(call) == "time.sleep" or (isinstance(call, ast.Name) and call.id in imported)
    ]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_no_file_names_a_path_of_a_machine() -> None:
    own = Path(__file__).resolve()
    texts = {f: f.read_text(encoding="utf-8") for f in repository() if f.resolve() != own}
    assert {name(f): lines for f, text in texts.items() if (lines := machine_paths(text))} == {}


def test_a_source_file_tells_one_story() -> None:
    lines = {name(f): len(f.read_text(encoding="utf-8").splitlines()) for f in SOURCES}
    assert {f: number for f, number in lines.items() if number > MOST_LINES} == {}


def test_no_test_waits_for_real_time() -> None:
    found = {name(f): waits(f.read_text(encoding="utf-8")) for f in TESTS}
    assert {f: lines for f, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('open("/tmp/log")', True),
        ("see /home/me/racer for more", True),
        ("cd /Users/me/racer", True),
        ("#!/usr/bin/env bash", False),
        ("read /etc/hosts", False),
        ("https://example.com/home/page", False),
        ("$HOME/tmp/x and ~/tmp/x", False),
        ('/proc/net/tcp and "/tmp"', False),
    ],
)
def test_a_machine_path_is_seen(text: str, named: bool) -> None:
    assert bool(machine_paths(text)) == named


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("time.sleep(0.1)", [1]),
        ("import x\ndef test():\n    time.sleep(delay)", [3]),
        ("from time import sleep as nap\nnap(1)", [2]),
        ("await anyio.sleep(1)", []),
        ("from anyio import sleep\nawait sleep(1)", []),
    ],
)
def test_a_wait_is_seen(source: str, lines: list[int]) -> None:
    assert waits(source) == lines
