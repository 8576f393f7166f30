"""The fenced blocks of a Markdown page, run or checked as tests/README.md promises."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import itertools
import re
import shlex
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import click

from racer.cli._exits import CommandError
from racer.cli._program import program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ("LANGUAGES", "Block", "blocks", "check_shell", "missing_tests", "run_python")

LANGUAGES = frozenset({"python", "sh", "text", "toml"})

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL
)
_TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
_TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block; `line` is the page's line of its first line of code."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page, in order."""
    source = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(source):
        indent = match["indent"]
        lines = match["text"].splitlines()
        yield Block(
            page=page,
            line=source.count("\n", 0, match.start("text")) + 1,
            language=match["language"].strip(),
            text="\n".join(line.removeprefix(indent) for line in lines) + "\n",
        )


async def run_python(block: Block, namespace: dict[str, Any]) -> None:
    """Run a block in `namespace`, which the blocks of a page share.

    A block may `await` at its top level: it runs on the loop of the caller. One that does not runs
    in a thread without a loop, where `anyio.run` and blocking calls do no harm. A coroutine
    function `main` that the block defines and never mentions again is awaited.
    """
    # Blank lines in front make a traceback show the page's own line.
    tree = ast.parse("\n" * (block.line - 1) + block.text, filename=str(block.page))
    code = compile(tree, str(block.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        await eval(code, namespace)
    else:
        await anyio.to_thread.run_sync(exec, code, namespace)
    if _leaves_main_uncalled(tree):
        await namespace["main"]()


def check_shell(block: Block, root: Path) -> list[str]:
    """Return what a shell block promises and the repository at `root` does not have."""
    targets = set(_TARGET.findall((root / "Makefile").read_text(encoding="utf-8")))
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    missing = []
    for words in _commands(block.text):
        match words:
            case ["make", *arguments]:
                wanted = {word for word in arguments if "=" not in word and word[0] != "-"}
                missing += [f"make {target}" for target in sorted(wanted - targets)]
            case [python, "-m", module, *_] if python.rpartition("/")[2].startswith("python"):
                if not _is_module(module):
                    missing.append(f"python -m {module}")
            case [("pip" | "uv"), *arguments]:
                extras = re.findall(rf"{project['name']}\[(.*?)\]", " ".join(arguments))
                named = {extra.strip() for group in extras for extra in group.split(",")}
                unknown = named - set(project["optional-dependencies"])
                missing += [f"the extra {extra!r}" for extra in sorted(unknown)]
            case ["racer", *arguments] if wrong := _refusal(arguments):
                missing.append(f"racer {' '.join(arguments)}: {wrong}")
            case [path, *_] if "/" in path and not (root / path).exists():
                missing.append(path)
            case _:
                pass
    return missing


def missing_tests(page: Path, root: Path) -> list[str]:
    """Return which tests a page names, as `file.py::test`, that are in no such file below `root`/tests."""
    return [
        f"{file}::{name}"
        for file, name in _TEST.findall(page.read_text(encoding="utf-8"))
        if not any(
            re.search(rf"^ *(async )?def {name}\(", found.read_text(encoding="utf-8"), re.MULTILINE)
            for found in (root / "tests").rglob(file)
        )
    ]


def _commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each simple command, without prompts, assignments and comments."""
    for line in text.replace("\\\n", " ").splitlines():
        for command in re.split(r"&&|\|\||[;|]", line.removeprefix("$ ")):
            words = shlex.split(command, comments=True)
            while words and re.match(r"[A-Z_]+=", words[0]):
                words.pop(0)
            if words:
                yield words


def _refusal(arguments: list[str]) -> str:
    """Return why the program would refuse these arguments; empty where it would not. Nothing is run."""
    command: click.Command = program
    told = itertools.takewhile(
        lambda word: word[:1] not in {"<", ">"} and word[:2] != "2>", arguments
    )
    context, left = None, ["racer", *told]
    try:
        while left:
            context = command.make_context(left[0], left[1:], parent=context)
            if not isinstance(command, click.Group):
                return ""
            left = [*context._protected_args, *context.args]
            if left:
                _, found, left = command.resolve_command(context, left)
                assert found is not None
                command, left = found, [str(found.name), *left]
    except click.exceptions.Exit:  # the help
        return ""
    except (click.ClickException, CommandError) as exc:
        return str(exc)
    return ""


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _leaves_main_uncalled(tree: ast.Module) -> bool:
    defines = any(isinstance(n, ast.AsyncFunctionDef) and n.name == "main" for n in tree.body)
    mentions = any(isinstance(n, ast.Name) and n.id == "main" for n in ast.walk(tree))
    return defines and not mentions
