"""Values as TOML has them, each on one line."""

from __future__ import annotations

import datetime
import re
from typing import Final

__all__ = ("is_writable", "written", "written_key")

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def is_writable(value: object) -> bool:
    """Return whether TOML has such a value."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_writable(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_writable, value))
    return isinstance(value, bool | int | float | str | datetime.date | datetime.time)


def written(value: object) -> str:
    """Return a value as TOML has it; of one that TOML has not, its text."""
    if isinstance(value, dict):
        pairs = [f"{written_key(key)} = {written(each)}" for key, each in value.items()]
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(written, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return f'"{"".join(map(_escaped, value))}"' if isinstance(value, str) else repr(value)


def written_key(key: str) -> str:
    """Return a key, quoted where it has to be."""
    return key if _BARE.fullmatch(key) else written(key)


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return char if char.isprintable() else f"\\U{ord(char):08x}"
