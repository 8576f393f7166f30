"""A document read key by key: every surprise is an error that names its place, or a note; nothing is lost in silence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from racer.abc import unknown_key
from racer.errors import ConfigError
from transports._net.addresses import family_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("Reader",)

MAX_NOTES: Final = 50
"""Notes of one document; a foreign one would have one for every line."""

_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]{0,62})(?:\.[a-z0-9_-]{1,63})*\Z")
_PORT = re.compile(r"[1-9][0-9]{0,4}\Z")
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,60}\Z")


class Reader:
    """Reads one document.

    Attributes:
        notes: what a maintainer of the document should know; nothing that stopped it from being read.
        unknown: what stands under keys that nobody knows, by their places.
    """

    def __init__(self) -> None:
        """Begin without notes."""
        self.notes: list[str] = []
        self.unknown: dict[str, Any] = {}

    def note(self, text: str) -> None:
        """Add a note, once, while there is room."""
        if len(self.notes) < MAX_NOTES and text not in self.notes:
            self.notes.append(text)

    def fields(self, value: object, at: str, known: tuple[str, ...]) -> dict[str, Any]:
        """Return a mapping's values by their known keys; what is missing is `None`.

        A key that differs from a known one in case alone is read as that one, with a note: ignoring it could switch off
        a check that its author relies on.

        Raises:
            ConfigError: no mapping.
        """
        found: dict[str, Any] = dict.fromkeys(known)
        folded = {name.casefold(): name for name in known}
        given = self.mapping(value, at)
        for key, inner in given.items():
            meant = folded.get(key.casefold())
            if key in known:
                found[key] = inner
            elif meant is not None and meant not in given:
                self.note(f"{at}: {unknown_key(key, known)} It is read as that.")
                found[meant] = inner
            else:
                self.note(f"{at}: {unknown_key(key, known)}")
                self.unknown[place(at, key)] = inner
        return found

    def mapping(self, value: object, at: str) -> Mapping[str, Any]:
        """Return a mapping.

        Raises:
            ConfigError: it is none.
        """
        if not isinstance(value, dict):
            raise wrong(at, "a mapping", value)
        return value

    def optional_mapping(self, value: object, at: str) -> Mapping[str, Any]:
        """Return a mapping, empty where there is none."""
        return {} if value is None else self.mapping(value, at)

    def items(self, value: object, at: str) -> list[tuple[str, Any]]:
        """Return the items of a list with their places, none where there is no list."""
        if value is None:
            return []
        if not isinstance(value, list):
            raise wrong(at, "a list", value)
        return [(f"{at}[{index}]", item) for index, item in enumerate(value)]

    def text(self, value: object, at: str) -> str:
        """Return a text; a number that was written without quotes is one."""
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str):
            raise wrong(at, "a text", value)
        return value

    def optional_text(self, value: object, at: str) -> str:
        """Return a text, empty where there is none."""
        return "" if value is None else self.text(value, at)

    def flag(self, value: object, at: str) -> bool:
        """Return true or false, false where there is neither."""
        if value is None:
            return False
        if not isinstance(value, bool):
            raise wrong(at, "true or false", value)
        return value

    def number(self, value: object, at: str) -> int:
        """Return a whole number."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong(at, "a whole number", value)
        return value

    def host(self, value: object, at: str) -> str:
        """Return a host name in lower case."""
        name = self.text(value, at).lower()
        if not _NAME.match(name):
            raise wrong(at, "a host name", value)
        return name

    def optional_host(self, value: object, at: str) -> str:
        """Return a host name in lower case, empty where there is none."""
        return "" if value is None or value == "" else self.host(value, at)

    def address(self, value: object, at: str) -> tuple[str, int]:
        """Return an IP address and a port, 443 unless it is given behind the address."""
        text = self.text(value, at)
        if family_of(text) is not None and "%" not in text:
            return text, 443
        bare, colon, port = text.rpartition(":")
        if bare.startswith("[") and bare.endswith("]"):
            bare = bare[1:-1]
        elif ":" in bare:
            colon = ""
        known = colon and "%" not in bare and family_of(bare) is not None
        if not known or not _PORT.match(port) or int(port) > 65535:
            raise wrong(at, "an IP address, with or without a port", value)
        return bare, int(port)


def place(at: str, key: str) -> str:
    """Return where `key` of the mapping at `at` stands."""
    shown = key if _PLAIN.match(key) else repr(key[:60])
    return f"{at}.{shown}" if at else shown


def wrong(at: str, wanted: str, value: object) -> ConfigError:
    """Return the error for a value that is not what is wanted there."""
    shown = "null" if value is None else repr(value)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    return ConfigError(f"{at or 'the document'}: {shown}, where {wanted} belongs")
