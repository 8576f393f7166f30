"""On which line of a TOML file each key stands, which `tomllib` does not tell. Pure.

Made for text that `tomllib` has taken: what it would not take gives no lines, and never a wrong one. Terms are TOML's
(https://toml.io/en/v1.0.0): header, array of tables, inline table, bare and dotted keys.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("KeyPath", "lines_of")

KeyPath = tuple[str | int, ...]
"""The way to a value: keys of tables and, for members of arrays, their index from 0."""

MAX_DEPTH: Final = (
    64  # arrays and inline tables within each other; beyond it there are no lines at all
)
MAX_PARTS: Final = 64  # of one dotted key; likewise

# Each may match nothing, and takes time that grows with its match alone: no part of one can match what the next can.
_BLANK: Final = re.compile(r"[ \t]*")
_VOID: Final = re.compile(r"(?:[ \t\n]|\r\n|#[^\n]*)*")
_COMMENT: Final = re.compile(r"(?:#[^\n]*)?")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_BASIC: Final = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"')
_LITERAL: Final = re.compile(r"'[^'\n]*'")
_LONG_BASIC: Final = re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*"""(?:"(?:"(?!")|(?!")))?', re.DOTALL)
_LONG_LITERAL: Final = re.compile(r"'''(?:[^']|'(?!''))*'''(?:'(?:'(?!')|(?!')))?", re.DOTALL)
_PLAIN: Final = re.compile(r"[^\[\]{},#\n\r\"'=]+")


class _LostError(Exception):
    """This is not TOML, or more of it than is looked at."""


def lines_of(text: str, data: Mapping[str, Any]) -> dict[KeyPath, int]:
    """Return the line, from 1, of every key, header and member of an array in `text`; empty if that is not certain.

    Args:
        text: of a TOML file.
        data: what `tomllib` makes of it; lines of anything else would be wrong, and are not returned.
    """
    scanner = _Scanner(text)
    try:
        scanner.scan()
    except _LostError:
        return {}
    return scanner.lines if all(_is_in(data, path) for path in scanner.lines) else {}


def _is_in(data: Any, path: KeyPath) -> bool:  # noqa: ANN401 - TOML's values
    for step in path:
        if isinstance(step, int):
            if not isinstance(data, list) or step >= len(data):
                return False
        elif not isinstance(data, dict) or step not in data:
            return False
        data = data[step]
    return True


class _Scanner:
    """Walks once through a text. `lines` is what it has found."""

    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._text = text
        self._at = 0
        self._line = 1
        self._counted = 0  # up to here, line breaks are in `_line`
        self._table: KeyPath = ()
        self._members: dict[KeyPath, int] = {}  # of arrays of tables, so far

    def scan(self) -> None:
        """Walk.

        Raises:
            _LostError: this is not TOML.
        """
        while True:
            self._skip(_VOID)
            if self._at == len(self._text):
                return
            if self._peek("["):
                self._header()
            else:
                self._pair(self._table)
            self._skip(_BLANK)
            self._skip(_COMMENT)
            if self._at < len(self._text) and not self._peek("\n", "\r\n"):
                raise _LostError

    def _header(self) -> None:
        many = self._peek("[[")
        self._at += 2 if many else 1
        self._skip(_BLANK)
        line = self._here()
        *outer, last = self._keys()
        self._skip(_BLANK)
        self._want("]]" if many else "]")
        path: KeyPath = ()
        for key in outer:
            path = self._entered((*path, key), line)
        path = (*path, last)
        if many:
            index = self._members[path] = self._members.get(path, -1) + 1
            self.lines.setdefault(path, line)
            path = (*path, index)
        self.lines[path] = line  # its own header, where a deeper one has come before
        self._table = path

    def _entered(self, path: KeyPath, line: int) -> KeyPath:
        """Return where a header goes on below `path`: in an array of tables, in the last of them."""
        self.lines.setdefault(path, line)
        return (*path, self._members[path]) if path in self._members else path

    def _pair(self, table: KeyPath, depth: int = 0) -> None:
        line = self._here()
        path = table
        for key in self._keys():
            path = (*path, key)
            self.lines.setdefault(path, line)
        self._skip(_BLANK)
        self._want("=")
        self._skip(_BLANK)
        self._value(path, depth)

    def _keys(self) -> list[str]:
        """Return the parts of a key, dotted or not."""
        parts = [self._key()]
        while len(parts) < MAX_PARTS:
            self._skip(_BLANK)
            if not self._peek("."):
                return parts
            self._at += 1
            self._skip(_BLANK)
            parts.append(self._key())
        raise _LostError

    def _key(self) -> str:
        if self._peek('"'):
            quoted = self._take(_BASIC)
            if "\\" not in quoted:
                return quoted[1:-1]
            try:
                return str(tomllib.loads(f"key = {quoted}")["key"])
            except ValueError:
                raise _LostError from None
        return self._take(_LITERAL)[1:-1] if self._peek("'") else self._take(_BARE)

    def _value(self, path: KeyPath, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise _LostError
        if self._peek('"""'):
            self._take(_LONG_BASIC)
        elif self._peek("'''"):
            self._take(_LONG_LITERAL)
        elif self._peek('"'):
            self._take(_BASIC)
        elif self._peek("'"):
            self._take(_LITERAL)
        elif self._peek("["):
            self._array(path, depth)
        elif self._peek("{"):
            self._inline(path, depth)
        else:
            self._take(_PLAIN)  # a number, a date or a truth, with the blanks behind it

    def _array(self, path: KeyPath, depth: int) -> None:
        self._at += 1
        index = 0
        while True:
            self._skip(_VOID)
            if self._peek("]"):
                break
            self.lines[*path, index] = self._here()
            self._value((*path, index), depth + 1)
            index += 1
            self._skip(_VOID)
            if not self._peek(","):
                break
            self._at += 1
        self._want("]")

    def _inline(self, path: KeyPath, depth: int) -> None:
        # Line breaks in it, and a comma at its end, are TOML 1.1's; where tomllib takes neither, there are none.
        self._at += 1
        while True:
            self._skip(_VOID)
            if self._peek("}"):
                break
            self._pair(path, depth + 1)
            self._skip(_VOID)
            if not self._peek(","):
                break
            self._at += 1
        self._want("}")

    def _here(self) -> int:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def _peek(self, *texts: str) -> bool:
        return self._text.startswith(texts, self._at)

    def _want(self, text: str) -> None:
        if not self._peek(text):
            raise _LostError
        self._at += len(text)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        if (match := pattern.match(self._text, self._at)) is not None:
            self._at = match.end()

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise _LostError
        self._at = match.end()
        return match[0]
