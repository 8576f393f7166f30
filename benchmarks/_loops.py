"""What the benchmarks' command lines share: event loops by the names they go by in tables, and counts."""

from __future__ import annotations

import argparse
import importlib.util
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ("LOOPS", "chosen_loops", "count", "is_installed", "run_on")

_T = TypeVar("_T")

LOOPS: Final = ("asyncio", "uvloop", "trio")


def is_installed(loop: str) -> bool:
    """Return whether that loop can be run here."""
    return importlib.util.find_spec(loop) is not None


def chosen_loops(text: str) -> tuple[str, ...]:
    """Return the loops of a comma-separated list, for argparse.

    Raises:
        argparse.ArgumentTypeError: one of them is unknown.
    """
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in LOOPS:
            msg = f"{name!r} is none of {', '.join(LOOPS)}"
            raise argparse.ArgumentTypeError(msg)
    return names


def count(text: str) -> int:
    """Return a number of things to measure, for argparse.

    Raises:
        argparse.ArgumentTypeError: not a whole number of at least one.
    """
    if not text.isdecimal() or not int(text):
        msg = f"{text!r} is no whole number of at least one"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def run_on(loop: str, fn: Callable[..., Awaitable[_T]], *args: Any) -> _T:  # noqa: ANN401 - the arguments of `fn`
    """Run `fn(*args)` on a new loop of that name."""
    backend = "trio" if loop == "trio" else "asyncio"
    options = {"use_uvloop": True} if loop == "uvloop" else {}
    return anyio.run(fn, *args, backend=backend, backend_options=options)
