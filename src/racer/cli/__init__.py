"""racer on the command line: `racer`, or `python -m racer`. One file a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from racer.cli._exits import Exit, complain, needs

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ("main",)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name, and return its exit code.

    Args:
        argv: the arguments; `None` for the program's own.
    """
    try:
        from racer.cli._program import run  # noqa: PLC0415 - click comes with the extra `cli` only
    except ModuleNotFoundError as exc:
        if not (sentence := needs(exc.name or "")):
            raise
        complain(sentence)
        return Exit.WRONG_USE
    return run(argv)
