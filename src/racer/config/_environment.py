"""`${NAME}` in a configuration's texts: the environment's variables, which may be secrets, and how they stay hidden.

A text's `${NAME}` becomes the variable's value; `$${` is a literal `${`. Wherever a value could show, in an error's words
too, stands `${NAME}` again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from racer.config._lines import KeyPath

__all__ = ("Expander", "hide")

_MARK: Final = re.compile(r"\$\$\{|\$\{(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)\})?")
_SHORTEST: Final = 4  # characters of a secret that give it away; fewer occur in any words
_MAX_TEXT: Final = (
    4096  # characters of an error's words that are looked through; the rest is cut off
)
_MAX_SECRET: Final = (
    65_536  # characters of a value; no environment takes one much longer (Linux: 131,072 octets)
)


class Expander:
    """Puts variables in their places; what it has put is in `used`.

    Args:
        environment: the variables.
        complain: is told of each place that cannot be filled, and why; no value is in the words.
    """

    def __init__(
        self, environment: Mapping[str, str], complain: Callable[[KeyPath, str], None]
    ) -> None:
        """Begin with nothing used."""
        self.used: dict[str, str] = {}
        """The values that were put anywhere, by the variables' names."""
        self._environment = environment
        self._complain = complain

    def expand(self, value: Any, path: KeyPath) -> Any:  # noqa: ANN401 - TOML's values
        """Return a copy of `value`, which stands at `path`, with every text in it expanded."""
        match value:
            case str():
                return self._text(value, path)
            case dict():
                return {key: self.expand(each, (*path, key)) for key, each in value.items()}
            case list():
                return [self.expand(each, (*path, index)) for index, each in enumerate(value)]
            case _:
                return value

    def _text(self, text: str, path: KeyPath) -> str:
        def filled(match: re.Match[str]) -> str:
            if match[0] == "$${":
                return "${"
            if (name := match["name"]) is None:
                self._complain(
                    path,
                    "'${' begins the name of an environment variable, as in '${NAME}'; a literal one is written '$${'",
                )
                return match[0]
            value = self._environment.get(name)
            if reason := _reason_against(value):
                self._complain(path, f"the environment variable {name} {reason}")
                return match[0]
            assert value is not None
            self.used[name] = value
            return value

        return _MARK.sub(filled, text)


def _reason_against(value: str | None) -> str | None:
    if value is None:
        return "is not set"
    if not value:
        return "is empty"
    if len(value) > _MAX_SECRET:
        return f"is longer than {_MAX_SECRET} characters"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "is not UTF-8"
    return None


def hide(text: str, secrets: Mapping[str, str], innocent: Iterable[str] = ()) -> str:
    """Return `text` with `${NAME}` wherever a value of `secrets`, or four and more characters of one, stands.

    An error may show a value cut, quoted or in pieces; so every run of characters that a value has too is taken for it.

    Args:
        text: an error's words, of a guest that was given the values.
        secrets: the values, by the variables' names.
        innocent: words that may stand although a value has them too, such as names of options.
    """
    if not secrets:
        return text
    text = text[:_MAX_TEXT]
    spared = {word.casefold() for word in innocent}
    for name, value in sorted(secrets.items(), key=lambda item: -len(item[1])):
        for form in dict.fromkeys([value, repr(value)[1:-1], quote(value, safe="")]):
            text = _hide_one(text, name, form.casefold(), spared)
        mark = f"${{{name}}}"
        while mark * 2 in text:
            text = text.replace(mark * 2, mark)
    return text


def _hide_one(text: str, name: str, secret: str, spared: set[str]) -> str:
    shortest = min(_SHORTEST, len(secret))
    shown: list[str] = []
    at = 0
    while at < len(text):
        end = at
        size = shortest
        # The longest run from here: words are few, and a run that is not in the value cannot grow into one that is.
        while at + size <= len(text) and text[at : at + size].casefold() in secret:
            end = at + size
            size += 1
        if end > at and not _is_spared(text, at, end, spared):
            shown.append(f"${{{name}}}")
            at = end
        else:
            end = max(end, at + 1)
            shown.append(text[at:end])
            at = end
    return "".join(shown)


def _is_spared(text: str, at: int, end: int, spared: set[str]) -> bool:
    """Return whether what stands there is no more than part of an innocent word, blanks and marks around it aside."""
    while at > 0 and _is_of_word(text[at - 1]) and _is_of_word(text[at]):
        at -= 1
    while end < len(text) and _is_of_word(text[end]) and _is_of_word(text[end - 1]):
        end += 1
    return text[at:end].strip(" '\"`:;,.=()").casefold() in spared


def _is_of_word(char: str) -> bool:
    return char.isalnum() or char in "_-"
