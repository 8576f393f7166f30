"""What can be shown where a program writes: how wide, in colour or not, in which characters, and whether it can redraw."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

__all__ = ("PIPE_WIDTH", "Screen")

PIPE_WIDTH: Final = 80
"""Columns of what nobody says how wide it is."""

_MAX_WIDTH: Final = 120  # columns; a longer bar says no more
_MARKS: Final = "▶━─┼✓✗┃·…"
_COERCED: Final = frozenset({"C.UTF-8", "C.utf8", "UTF-8"})  # PEP 538


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """An output, and what may be sent to it.

    Attributes:
        out: the output.
        is_terminal: whether a person looks at it.
        redraws: whether it obeys escape sequences that move the cursor.
        colour: whether to use ANSI colours.
        unicode: whether it takes more than ASCII.
    """

    out: TextIO
    is_terminal: bool
    redraws: bool
    colour: bool
    unicode: bool

    @classmethod
    def of(cls, out: TextIO, *, plain: bool = False, env: Mapping[str, str] | None = None) -> Self:
        """Return what `out` is.

        Args:
            out: the output.
            plain: whether ASCII only is wanted, without colour and without redrawing.
            env: the environment; `None` for the program's own.
        """
        env = os.environ if env is None else env
        is_terminal = out.isatty()
        # A dumb terminal shows escape sequences as they are.
        redraws = is_terminal and not plain and env.get("TERM") != "dumb"
        return cls(
            out=out,
            is_terminal=is_terminal,
            redraws=redraws,
            colour=redraws and not env.get("NO_COLOR"),  # no-color.org: set and not empty
            unicode=not plain and not _wants_ascii(env) and _can_write(out, _MARKS),
        )

    def size(self) -> tuple[int, int]:
        """Return columns and lines as they are now; of a terminal, where COLUMNS and LINES say nothing else."""
        if not self.is_terminal:
            return PIPE_WIDTH, 24
        return shutil.get_terminal_size((PIPE_WIDTH, 24))

    @property
    def width(self) -> int:
        """Columns for a picture."""
        return min(self.size()[0], _MAX_WIDTH)

    def text(self, text: str) -> str:
        """Return `text` so that it can be written: what the output does not take is escaped."""
        if self.unicode and _can_write(self.out, text):
            return text
        return text.replace("…", "...").encode("ascii", "backslashreplace").decode("ascii")


def _wants_ascii(env: Mapping[str, str]) -> bool:
    """Return whether the locale is said to be C or POSIX, in POSIX's order of precedence.

    Python takes UTF-8 for such a locale, and puts `C.UTF-8` into LC_CTYPE itself (PEP 538, PEP 540); a terminal that was
    told the same does not. A locale that nobody has set says nothing.
    """
    ctype = env.get("LC_CTYPE")
    chosen = env.get("LC_ALL") or (ctype if ctype not in _COERCED else None) or env.get("LANG")
    return chosen in {"C", "POSIX"}


def _can_write(out: TextIO, text: str) -> bool:
    try:
        text.encode(out.encoding or "ascii")
    except (UnicodeError, LookupError):
        return False
    return True
