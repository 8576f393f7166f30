"""Takes hosts and addresses out of what goes into a bug report; each gets a name that stays the same. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ("Pseudonyms",)

_ADDRESS: Final = re.compile(
    r"(?<![\w.:-])(?:\d{1,3}(?:\.\d{1,3}){3}|(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?:\d{0,3}(?:\.\d{1,3}){3})?)(?![\w.-]*[\w-])"
)
_NAME: Final = re.compile(
    r"(?<![\w.-])(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)+[A-Za-z][A-Za-z0-9-]{1,62}(?![\w-])"
)
_OURS: Final = frozenset({"racer", "transports", "anyio", "opentelemetry", "ssl"})
"""First labels of what looks like a host and is a module."""


class Pseudonyms:
    """Gives each host and address a name: `host-1`, `addr-1`. What was seen once keeps its own.

    Args:
        hosts: those that are known, since one of a single label is not to be told from a word.
        home: the user's home directory, which tells their name; becomes `~`.
    """

    def __init__(self, hosts: Iterable[str] = (), *, home: str = "") -> None:
        """Name the known ones first."""
        self._names: dict[str, str] = {}
        self._counts = {"host": 0, "addr": 0}
        self._home = home.rstrip("/\\")
        known = sorted({host for host in hosts if host}, key=lambda host: -len(host))
        for host in known:
            self._pseudonym(host)
        self._known = (
            re.compile(
                "|".join(rf"(?<![\w.-]){re.escape(host)}(?![\w-])" for host in known), re.IGNORECASE
            )
            if known
            else None
        )

    def hide(self, value: Any) -> Any:  # noqa: ANN401 - JSON's values
        """Return a value without hosts and addresses, however deep they stand in it."""
        if isinstance(value, str):
            return self._hide(value)
        if isinstance(value, Mapping):
            return {self._hide(str(key)): self.hide(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.hide(each) for each in value]
        return value

    def _hide(self, text: str) -> str:
        if self._home:
            text = text.replace(self._home, "~")
        if self._known is not None:
            text = self._known.sub(lambda match: self._pseudonym(match.group()), text)
        text = _ADDRESS.sub(self._address, text)
        return _NAME.sub(self._name, text)

    def _address(self, match: re.Match[str]) -> str:
        return self._pseudonym(match.group()) if _is_address(match.group()) else match.group()

    def _name(self, match: re.Match[str]) -> str:
        text = match.group()
        return text if text.split(".")[0] in _OURS else self._pseudonym(text)

    def _pseudonym(self, text: str) -> str:
        key = text.lower().rstrip(".")
        if key not in self._names:
            kind = "addr" if _is_address(key) else "host"
            self._counts[kind] += 1
            self._names[key] = f"{kind}-{self._counts[kind]}"
        return self._names[key]


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
