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
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))
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
    """Return the lines on which a test waits for real time: sleeps of anything but zero.

    Modules and tests marked `virtual_time` may sleep: there it costs nothing and is exact. So may a
    module that imports `run_virtual`, and so brings virtual loops of its own.
    """
    found = []

    def visit(node: ast.AST) -> None:
        if _is_virtual(node):
            return
        if isinstance(node, ast.Call) and _is_sleep(node):
            found.append(node.lineno)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(source))
    return found


def _is_virtual(node: ast.AST) -> bool:
    if isinstance(node, ast.Module):
        if _imports_run_virtual(node):
            return True
        marks: list[ast.expr] = [
            statement.value
            for statement in node.body
            if isinstance(statement, ast.Assign)
            and any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in statement.targets)
        ]
    else:
        marks = getattr(node, "decorator_list", [])
    return any(
        isinstance(part, ast.Attribute) and part.attr == "virtual_time"
        for mark in marks
        for part in ast.walk(mark)
    )


def _imports_run_virtual(module: ast.Module) -> bool:
    return any(
        isinstance(statement, ast.ImportFrom)
        and any(alias.name == "run_virtual" for alias in statement.names)
        for statement in module.body
    )


def _is_sleep(call: ast.Call) -> bool:
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name not in {"sleep", "sleep_until"}:
        return False
    zero = call.args and isinstance(call.args[0], ast.Constant) and not call.args[0].value
    return not (name == "sleep" and zero)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_no_file_names_a_path_of_a_machine() -> None:
    own = Path(__file__).resolve()
    texts = {f: f.read_text(encoding="utf-8") for f in repository() if f.resolve() != own}
    assert {name(f): lines for f, text in texts.items() if (lines := machine_paths(text))} == {}


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_a_source_file_tells_one_story(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@pytest.mark.parametrize("path", TESTS, ids=name)
def test_no_test_waits_for_real_time(path: Path) -> None:
    assert waits(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('open("/tmp/log")', True),
        ("see /home/me/racer for more", True),
        ("cd /work/main", True),
        ("#!/usr/bin/env bash", False),
        ("read /etc/hosts", False),
        ("https://example.com/home/page", False),
        ("$HOME/tmp/x and ~/work/x", False),
        ('/proc/net/tcp and "/tmp"', False),
    ],
)
def test_a_machine_path_is_seen(text: str, named: bool) -> None:
    assert bool(machine_paths(text)) == named


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("await anyio.sleep(1)", [1]),
        ("time.sleep(0.1)", [1]),
        ("await sleep(delay)", [1]),
        ("await anyio.sleep_until(when)", [1]),
        ("await anyio.sleep(0)", []),
        ("await anyio.sleep_forever()", []),
        ("pytestmark = pytest.mark.virtual_time\nawait anyio.sleep(1)", []),
        ("pytestmark = [pytest.mark.virtual_time, x]\nawait anyio.sleep(1)", []),
        ("from racer.testing import run_virtual\nawait anyio.sleep(1)", []),
        ("pytestmark = pytest.mark.soak\nawait anyio.sleep(1)", [2]),
        ("@pytest.mark.virtual_time\nasync def test():\n    await anyio.sleep(1)", []),
        ("async def test():\n    await anyio.sleep(1)", [2]),
    ],
)
def test_a_wait_is_seen(source: str, lines: list[int]) -> None:
    assert waits(source) == lines
