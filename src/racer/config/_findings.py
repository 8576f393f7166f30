"""What is wrong with a configuration file: every problem, each in its line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from racer._words import one_line
from racer.config._lines import lines_of
from racer.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from racer.config._lines import KeyPath

__all__ = ("Findings", "Problem")

_MAX_PROBLEMS: Final = 100
_MAX_KEY: Final = 100  # characters of a key that are shown
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        line: where, from 1; `None` where that is not certain.
        key: of what, as it would be said; empty for the whole file.
        reason: what was expected, and what was meant.
    """

    line: int | None
    key: str
    reason: str

    def told(self, file: Path) -> str:
        """Return it as `FILE:LINE: key: reason`."""
        where = f"{file}:{self.line}" if self.line is not None else str(file)
        return one_line(": ".join(part for part in (where, self.key, self.reason) if part))


class Findings:
    """Collects problems.

    Args:
        file: what is looked at.
    """

    def __init__(self, file: Path) -> None:
        """Begin with none."""
        self.problems: list[Problem] = []
        self.causes: list[Exception] = []
        self._file = file
        self._is_cut = False
        self._text = ""
        self._data: Mapping[str, Any] = {}
        self._lines: dict[KeyPath, int] | None = None

    @property
    def is_full(self) -> bool:
        """Whether so much is wrong that what is found now is not told any more."""
        return self._is_cut

    def look_at(self, text: str, data: Mapping[str, Any]) -> None:
        """Take the file's content: lines are looked up in it."""
        self._text, self._data = text, data

    def add(
        self, path: KeyPath, reason: str, *, at: KeyPath = (), cause: Exception | None = None
    ) -> None:
        """Note that something is wrong with what `path` leads to.

        Args:
            path: to the value, or to the one that is missing.
            reason: what was expected.
            at: the place of which the line is told where it is not the value's own.
            cause: the error behind it, if it may be shown.
        """
        self.add_line(self.line_of(at or path), self._called(path), reason, cause=cause)

    def add_line(
        self, line: int | None, key: str, reason: str, *, cause: Exception | None = None
    ) -> None:
        """Note that something is wrong in a line."""
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(Problem(line=line, key=key, reason=reason))
            if cause is not None:
                self.causes.append(cause)
        else:
            self._is_cut = True

    def line_of(self, path: KeyPath) -> int | None:
        """Return the line of a value; of what it stands in, where it is not there itself; `None` if that is not certain."""
        if self._lines is None:
            self._lines = lines_of(self._text, self._data)
        for size in range(len(path), 0, -1):
            if (line := self._lines.get(path[:size])) is not None:
                return line
        return None

    def error(self) -> ConfigError:
        """Return all of it as one error, in the order of the lines."""
        self.problems.sort(key=lambda one: one.line or 0)
        told = tuple(dict.fromkeys(problem.told(self._file) for problem in self.problems))
        if self._is_cut:
            told += (f"{self._file}: and more than these {_MAX_PROBLEMS}",)
        error = ConfigError("\n".join(told))
        error.problems = told
        if len(self.causes) == 1:
            error.__cause__ = self.causes[0]
        elif self.causes:
            error.__cause__ = ExceptionGroup("what is wrong", self.causes)
        return error

    def _called(self, path: KeyPath) -> str:
        """Return how a key is called: `timeout`, `entrant 2 'name': options.domain`."""
        match path:
            case ("entrant", int(index), *rest):
                label = f"entrant {index + 1}{self._name_of(index)}"
                return f"{label}: {_dotted(rest)}" if rest else label
            case _:
                return _dotted(list(path))

    def _name_of(self, index: int) -> str:
        entrant = self._data["entrant"][index]
        names = (entrant.get("name"), entrant.get("transport")) if isinstance(entrant, dict) else ()
        return next((f" {name!r:.60}" for name in names if name and isinstance(name, str)), "")


def _dotted(path: list[str | int]) -> str:
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step + 1}]"
        else:
            text += f"{'.' if text else ''}{step if _BARE.fullmatch(step) else repr(step)}"
    return text if len(text) <= _MAX_KEY else f"{text[: _MAX_KEY - 3]}..."
