"""Which origins a broker may ask: a list, and nothing that is not on it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from racer.errors import ConfigError

__all__ = ("AllowList",)

MAX_ENTRIES: Final = 1000

_HOST = re.compile(r"(?:\*\.)?[a-z0-9-]+(?:\.[a-z0-9-]+)*\Z|\[[0-9a-f:.]+\]\Z")
_PORTS: Final = {"https": 443, "http": 80}


class AllowList:
    """Origins: `https://api.example.com`, with a port where it is not the scheme's own, `*.` for every name below one.

    Args:
        entries: at least one; a broker without a list would be an open relay for whoever has its public key.

    Raises:
        ConfigError: an entry is none.
    """

    def __init__(self, entries: Sequence[str]) -> None:
        """Check every entry."""
        if isinstance(entries, str) or not isinstance(entries, Sequence):
            msg = f"allow must be a list of origins, not {type(entries).__name__}"
            raise ConfigError(msg)
        if not 1 <= len(entries) <= MAX_ENTRIES:
            msg = f"allow must have 1 to {MAX_ENTRIES} origins; it has {len(entries)}"
            raise ConfigError(msg)
        parsed = [_entry(entry) for entry in entries]
        self._exact = {entry for entry in parsed if not entry[1].startswith("*.")}
        self._below = [(s, host[1:], port) for s, host, port in parsed if host.startswith("*.")]

    def allows(self, scheme: str, host: str, port: int) -> bool:
        """Return whether an origin is on the list.

        Args:
            scheme: in lower case.
            host: a name in ASCII or an IP address, IPv6 without brackets.
            port: 1 to 65535.
        """
        name = host.lower().rstrip(".")
        if (scheme, name, port) in self._exact:
            return True
        return any(
            scheme == s and port == p and name.endswith(suffix) and len(name) > len(suffix)
            for s, suffix, p in self._below
        )


def _entry(text: object) -> tuple[str, str, int]:
    msg = f"allow: {str(text)[:80]!r} is no origin such as 'https://api.example.com' or 'https://*.example.com:8443'"
    if not isinstance(text, str):
        raise ConfigError(msg)
    try:
        parts = urlsplit(text.lower())
        port = parts.port
    except ValueError as exc:
        raise ConfigError(msg) from exc
    host = parts.netloc.removesuffix(f":{port}") if port is not None else parts.netloc
    is_bare = parts.path in {"", "/"} and not parts.query and not parts.fragment
    if parts.scheme not in _PORTS or not is_bare or port == 0 or not _HOST.match(host):
        raise ConfigError(msg)
    return parts.scheme, host.strip("[]"), port or _PORTS[parts.scheme]
