"""What options an installed transport takes, as it says itself, and which of them an error is about.

A guest has to do nothing for it: its factory's return annotation names the class, whose signature has names and defaults,
and whose docstring says under `Args:` what they mean. A factory that takes more than the class, or other things, lists
those under `Options:` in its own docstring.
"""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from racer.abc import Guest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from racer.config._lines import KeyPath

__all__ = ("Option", "made_by", "options_of", "refused_option", "summary_of")

_ENTRY: Final = re.compile(
    r"^(?P<name>[A-Za-z_][A-Za-z0-9_-]*)(?: \((?P<kind>[^)]*)\))?: (?P<words>.*)$"
)
_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_UNKNOWN: Final = re.compile(r"unknown key (?P<quote>['\"])(?P<key>.*?)(?P=quote)")
_MISSING: Final = re.compile(r"(?P<key>[a-z][a-z0-9_-]*): missing")

# Annotations that TOML has a value for. What else a parameter takes is code, and no option.
_KINDS: Final = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "str": "text",
    "Sequence": "list",
    "Iterable": "list",
    "list": "list",
    "tuple": "list",
    "Mapping": "table",
    "dict": "table",
}
_WORD: Final = re.compile(r"\w*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of a transport.

    Attributes:
        name: its key under `[entrant.options]`.
        meaning: what it does, with its unit and bounds; empty where the guest does not say.
        default: what holds where it is left out; `inspect.Parameter.empty` where it has to be given or is not known.
        needed: whether it has to be given.
        kind: of its value: `bool`, `int`, `float`, `text`, `list` or `table`; empty where that is not known.
    """

    name: str
    meaning: str = ""
    default: object = inspect.Parameter.empty
    needed: bool = False
    kind: str = ""


def options_of(factory: Callable[..., Any]) -> tuple[Option, ...]:
    """Return the options of the guest that a factory makes; those it does not describe are not among them."""
    kind = made_by(factory)
    found: dict[str, Option] = {}
    if kind is not None:
        meanings = _section(inspect.getdoc(kind), "Args:")
        for parameter in _parameters(kind):
            if parameter.name != "name" and (value_kind := _kind_of(parameter)):
                found[parameter.name] = Option(
                    name=parameter.name,
                    meaning=meanings.get(parameter.name, ("", ""))[1],
                    default=parameter.default,
                    needed=parameter.default is inspect.Parameter.empty,
                    kind=value_kind,
                )
    for name, (told, meaning) in _section(inspect.getdoc(factory), "Options:").items():
        known = found.get(name, Option(name=name))
        found[name] = replace(known, meaning=meaning, kind=told or known.kind)
    return tuple(sorted(found.values(), key=lambda option: not option.needed))


def summary_of(factory: Callable[..., Any]) -> str:
    """Return the first sentence about the guest that a factory makes; empty if it says nothing."""
    kind = made_by(factory)
    text = inspect.getdoc(kind) if kind is not None else ""
    return (text or "").split("\n\n")[0].replace("\n", " ")


def refused_option(text: str, options: Mapping[str, Any]) -> KeyPath:
    """Return which of `options` a guest's error is about, as far as its words tell; empty if they do not."""
    path: list[str] = []
    table: Any = options
    rest = text
    while isinstance(table, dict):
        if unknown := _UNKNOWN.match(rest):
            return (*path, unknown["key"]) if unknown["key"] in table else tuple(path)
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


def made_by(factory: Callable[..., Any]) -> type[Guest] | None:
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


def _kind_of(parameter: inspect.Parameter) -> str:
    """Return what TOML says for a parameter, as its annotation shows, or else its default; empty if it is code."""
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    words = [_WORD.match(part.strip()) for part in _alternatives(text)]
    kinds = [_KINDS[word[0]] for word in words if word and word[0] in _KINDS]
    default = type(parameter.default).__name__
    return kinds[0] if kinds else _KINDS.get(default, "")


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


def _section(docstring: str | None, title: str) -> dict[str, tuple[str, str]]:
    """Return the entries of a section of a docstring in Google's form: by name the kind, if told, and the words."""
    found: dict[str, tuple[str, str]] = {}
    inside, margin, name = False, 0, ""
    for line in (docstring or "").splitlines():
        words = line.strip()
        indent = len(line) - len(line.lstrip())
        if not words:
            continue
        if not indent:
            inside, margin = words == title, 0
        elif inside:
            margin = margin or indent
            if indent > margin and name:
                found[name] = (found[name][0], f"{found[name][1]} {words}")
            elif indent == margin:
                match = _ENTRY.match(words)
                name = match["name"] if match else ""
                if match:
                    found[name] = (match["kind"] or "", match["words"])
    return found
