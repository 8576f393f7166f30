"""A terminal that obeys as much of ECMA-48 as a live picture needs, and refuses everything else."""

from __future__ import annotations

import io
import re

__all__ = ("Terminal",)

_TOKEN = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|([\n\r])|([^\x1b\n\r]+)")


class Terminal(io.StringIO):
    """What a person sees of what was written, and what has scrolled out at the top.

    Args:
        columns: its width.
        rows: its height.
    """

    encoding = "utf-8"

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        super().__init__()
        self.columns = columns
        self.rows = rows
        self.lines = [""]
        self.writes = 0
        self._row = 0
        self._column = 0
        self._wraps = True

    def isatty(self) -> bool:
        return True

    @property
    def wraps(self) -> bool:
        return self._wraps

    @property
    def top(self) -> int:
        """The index of the first line that is still on the screen."""
        return max(0, len(self.lines) - self.rows)

    @property
    def seen(self) -> str:
        """Everything there is, with what has scrolled out."""
        return "\n".join(line.rstrip() for line in self.lines).rstrip()

    def write(self, text: str) -> int:
        self.writes += 1
        at = 0
        while at < len(text):
            token = _TOKEN.match(text, at)
            assert token is not None, f"this terminal does not know {text[at : at + 10]!r}"
            at = token.end()
            if token[2]:
                self._obey(token[1], token[2])
            elif token[3]:
                self._column = 0
                if token[3] == "\n":  # as the kernel's terminal driver does: with a carriage return
                    self._line_feed()
            else:
                for char in token[4]:
                    self._put(char)
        return len(text)

    def _put(self, char: str) -> None:
        if self._column == self.columns:
            if self._wraps:
                self._column = 0
                self._line_feed()
            else:
                self._column -= 1
        line = self.lines[self._row].ljust(self._column)
        self.lines[self._row] = line[: self._column] + char + line[self._column + 1 :]
        self._column += 1

    def _line_feed(self) -> None:
        self._row += 1
        if self._row == len(self.lines):
            self.lines.append("")

    def _obey(self, argument: str, command: str) -> None:
        match argument, command:
            case _, "A":
                self._row = max(self.top, self._row - int(argument or "1"))
            case "", "J":
                del self.lines[self._row + 1 :]
                self._obey("", "K")
            case "", "K":
                # Behind a full line the cursor is still on its last column.
                column = min(self._column, self.columns - 1)
                self.lines[self._row] = self.lines[self._row][:column]
            case "?7", "l" | "h":
                self._wraps = command == "h"
            case _, "m":
                pass
            case _:
                raise AssertionError(f"this terminal does not know CSI {argument}{command}")
