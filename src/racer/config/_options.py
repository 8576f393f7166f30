"""What options an installed transport takes, as it says itself, and which of them an error is about.

A guest has to do nothing for it: its factory's return annotation names the class, whose signature has names and defaults,
and whose docstring says under `Args:` what they mean. A factory that takes more than the class, or other things, lists
those under `Options:` in its own docstring.
"""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from racer.abc import Guest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from racer.config._lines import KeyPath

__all__ = ("Option", "options_of", "refused_option", "summary_of")

_ENTRY: Final = re.compile(r"^(?P<name>[A-Za-z_][A-Za-z0-9_-]*)(?: \([^)]*\))?: (?P<words>.*)$")
_SECTION: Final = re.compile(r"^[A-Z][A-Za-z ]*:$")
_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_UNKNOWN: Final = re.compile(r"unknown key (?P<quote>['\"])(?P<key>.*?)(?P=quote)")
_MISSING: Final = re.compile(r"(?P<key>[a-z][a-z0-9_-]*): missing")

# Annotations that TOML has a value for. What else a parameter takes is code, and no option.
_WRITABLE: Final = re.compile(
    r"^(?:bool|int|float|str|Sequence|Iterable|list|tuple|Mapping|dict)\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of a transport.

    Attributes:
        name: its key under `[entrant.options]`.
        meaning: what it does, with its unit and bounds; empty where the guest does not say.
        default: what holds where it is left out; `inspect.Parameter.empty` where it has to be given or is not known.
        needed: whether it has to be given.
    """

    name: str
    meaning: str = ""
    default: object = inspect.Parameter.empty
    needed: bool = False


def options_of(factory: Callable[..., Any]) -> tuple[Option, ...]:
    """Return the options of the guest that a factory makes; those it does not describe are not among them."""
    kind = _made_by(factory)
    found: dict[str, Option] = {}
    if kind is not None:
        meanings = _section(inspect.getdoc(kind), "Args:")
        for parameter in _parameters(kind):
            if parameter.name != "name" and _is_writable(parameter):
                found[parameter.name] = Option(
                    name=parameter.name,
                    meaning=meanings.get(parameter.name, ""),
                    default=parameter.default,
                    needed=parameter.default is inspect.Parameter.empty,
                )
    for name, meaning in _section(inspect.getdoc(factory), "Options:").items():
        known = found.get(name)
        found[name] = Option(
            name=name,
            meaning=meaning,
            default=inspect.Parameter.empty if known is None else known.default,
            needed=known is not None and known.needed,
        )
    return tuple(sorted(found.values(), key=lambda option: not option.needed))


def summary_of(factory: Callable[..., Any]) -> str:
    """Return the first sentence about the guest that a factory makes; empty if it says nothing."""
    kind = _made_by(factory)
    text = inspect.getdoc(kind) if kind is not None else ""
    return (text or "").split("\n\n")[0].replace("\n", " ")


def refused_option(text: str, options: Mapping[str, Any]) -> KeyPath:
    """Return which of `options` a guest's error is about, as far as its words tell; empty if they do not."""
    path: list[str] = []
    table: Any = options
    rest = text
    while isinstance(table, dict):
        if (unknown := _UNKNOWN.match(rest)) and unknown["key"] in table:
            return (*path, unknown["key"])
        match = _KEY.match(rest)
        inner = table.get("options") if path else None
        if match is None:
            break
        if match[0] in table:
            path.append(match[0])
            table = table[match[0]]
        elif isinstance(inner, dict) and match[0] in inner:
            path += ["options", match[0]]
            table = inner[match[0]]
        else:
            break
        rest = rest[match.end() :]
        if not rest.startswith(": "):
            break
        rest = rest[2:]
    if not path:
        if missing := _MISSING.match(text):
            return (missing["key"],)
        named = [key for key in options if re.search(rf"(?<![\w-]){re.escape(key)}(?![\w-])", text)]
        return (named[0],) if len(named) == 1 else ()
    return tuple(path)


def _made_by(factory: Callable[..., Any]) -> type[Guest] | None:
    """Return the class of the guests that a factory makes, if its annotation says so."""
    if isinstance(factory, type):
        return factory if issubclass(factory, Guest) else None
    kind = getattr(factory, "__annotations__", {}).get("return")
    if isinstance(kind, str):
        kind = getattr(sys.modules.get(getattr(factory, "__module__", "")), kind, None)
    return (
        kind if isinstance(kind, type) and issubclass(kind, Guest) and kind is not Guest else None
    )


def _parameters(kind: type[Guest]) -> list[inspect.Parameter]:
    try:
        found = inspect.signature(kind).parameters.values()
    except (TypeError, ValueError):
        return []
    return [one for one in found if one.kind not in {one.VAR_POSITIONAL, one.VAR_KEYWORD}]


def _is_writable(parameter: inspect.Parameter) -> bool:
    """Return whether TOML can say what a parameter takes, as its annotation or its default shows."""
    if isinstance(parameter.default, bool | int | float | str):
        return True
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return any(_WRITABLE.match(part.strip()) for part in _alternatives(text))


def _alternatives(annotation: str) -> list[str]:
    """Return the members of a union, which brackets hold together."""
    parts, depth = [""], 0
    for char in annotation:
        depth += (char in "[(") - (char in "])")
        if char == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def _section(docstring: str | None, title: str) -> dict[str, str]:
    """Return the entries of a section of a docstring in Google's form, by name, each on one line."""
    found: dict[str, str] = {}
    inside, margin, name = False, 0, ""
    for line in (docstring or "").splitlines():
        words = line.strip()
        indent = len(line) - len(line.lstrip())
        if not indent and words:
            inside = words == title
            margin = 0
        elif inside and words:
            margin = margin or indent
            if indent == margin:
                match = _ENTRY.match(words)
                name = match["name"] if match else ""
                if match:
                    found[name] = match["words"]
            elif name:
                found[name] += f" {words}"
    return found
