"""What benchmarks with files have in common as programs: options, checks before minutes are spent, exit codes, progress."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, TextIO

from benchmarks._pictures import has_matplotlib
from benchmarks._results import Comparison, Results, Unusable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

__all__ = (
    "COLUMNS",
    "Parser",
    "Progress",
    "check_output",
    "cut_by",
    "filled",
    "ms",
    "nearest",
    "output_of",
    "run_command",
    "shown",
)

COLUMNS: Final = 80
_OUT: Final = Path(__file__).parent / "out"


class Parser(argparse.ArgumentParser):
    """The options of one benchmark; says what is wrong in one line.

    Args:
        name: of its module.
        description: shown by `--help`.
    """

    def __init__(self, name: str, description: str) -> None:
        """Take `--output`, `--no-pictures` and `--compare` from the start."""
        super().__init__(
            prog=f"python -m benchmarks.{name}",
            description=description.replace("%", "%%"),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.benchmark = name
        self.add_argument(
            "--output",
            type=Path,
            default=output_of(name),
            metavar="DIR",
            help=f"where files go (benchmarks/out/{name})",
        )
        self.add_argument(
            "--no-pictures",
            dest="pictures",
            action="store_false",
            help="draw none: matplotlib is not needed",
        )
        self.add_argument(
            "--compare",
            nargs=2,
            type=Path,
            metavar=("A.json", "B.json"),
            help="measure nothing; say what moved from A to B beyond the noise",
        )

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the command line, and end with 2."""
        print(f"{self.benchmark}: {message} (see --help)", file=sys.stderr)
        raise SystemExit(2)


def output_of(name: str) -> Path:
    """Return the folder for a benchmark's files when nobody names one."""
    return _OUT / name


def run_command(
    parser: Parser,
    argv: Sequence[str] | None,
    measure: Callable[[argparse.Namespace], None],
    *,
    decisive: Sequence[str] = (),
) -> int:
    """Measure, or compare two files of earlier runs.

    Args:
        parser: of the options.
        argv: the arguments; `None` for the program's own.
        measure: measures, prints, writes and draws.
        decisive: settings without which two runs cannot be compared.

    Returns:
        0, or 2 for what cannot be, said in one sentence; 130 when interrupted.
    """
    options = parser.parse_args(argv)
    try:
        if options.compare is not None:
            _compare(parser.benchmark, *options.compare, decisive=decisive)
        else:
            measure(options)
    except Unusable as exc:
        print(f"{parser.benchmark}: {exc}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Who read our output has gone. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _compare(benchmark: str, before: Path, after: Path, *, decisive: Sequence[str]) -> None:
    read = [Results.read(path, benchmark=benchmark) for path in (before, after)]
    for name, one in zip(("before", "after"), read, strict=True):
        print(filled(f"{name}: {one.machine.words}"))
    print()
    for line in Comparison.of(*read, decisive=decisive).lines():
        print(line)


def check_output(options: argparse.Namespace) -> None:
    """Find out that nothing can be drawn or written before minutes are spent.

    Raises:
        Unusable: says what, and what to do.
    """
    if options.pictures and not has_matplotlib():
        msg = "pictures need matplotlib, which comes with the development dependencies: uv sync, or --no-pictures"
        raise Unusable(msg)
    out: Path = options.output
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".probe"
        probe.touch()
        probe.unlink()
    except OSError as exc:
        msg = (
            f"nothing can be written to {out} ({exc.strerror}); choose another folder with --output"
        )
        raise Unusable(msg) from exc


def cut_by(exc: BaseException) -> str:
    """Return the name of what ended a run before its time; task groups put themselves around it."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return type(exc).__name__


def nearest(what: str, text: str, known: Collection[str], *, cutoff: float = 0.6) -> str:
    """Return the sentence that there is no such `what`, with the nearest there is, or all of them."""
    near = difflib.get_close_matches(text, known, n=1, cutoff=cutoff)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
    return f"there is no {what} {text!r:.60}; {hint}"


def shown(path: Path) -> str:
    """Return a path as short as can be."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def filled(text: str) -> str:
    """Return text in lines that fit; lines behind an indented first one are indented further."""
    return textwrap.fill(text, COLUMNS, subsequent_indent="    " if text[:1] == " " else "")


def ms(seconds: float) -> str:
    """Return a time in milliseconds, with one digit behind the point below ten."""
    value = seconds * 1000
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


class Progress:
    """One line on a terminal that says how far it has come; nothing elsewhere.

    Args:
        total: of what is measured, at most.
        out: the terminal.
    """

    def __init__(self, total: int, out: TextIO = sys.stderr) -> None:
        self._total = total
        self._out = out
        self._done = 0
        self._is_shown = out.isatty()

    def step(self, words: str) -> None:
        """Say that one is over."""
        self._done += 1
        if self._is_shown:
            self._out.write(f"\r\x1b[K{f'{self._done}/{self._total}: {words}'[: COLUMNS - 1]}")
            self._out.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self._is_shown:
            self._out.write("\r\x1b[K")
            self._out.flush()
