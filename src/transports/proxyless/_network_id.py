"""Which network this machine is in, as a short text that tells nobody else anything. Blocks for a moment."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import sys
from pathlib import Path
from typing import Final

__all__ = ("network_id",)

_ROUTES: Final = Path("/proc/net/route")
_ROUTES_V6: Final = Path("/proc/net/ipv6_route")
_RESOLVERS: Final = Path("/etc/resolv.conf")
_MAX_CHARACTERS: Final = (
    262_144  # of a table that is read; a router with the whole Internet's routes has more
)
_PROBES: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def network_id() -> str:
    """Return a text that is the same whenever this machine is in the same network, and most likely another elsewhere.

    It is made of the default routes and the name servers (Linux), or of this machine's own addresses; a hash of them, so
    that a file of them does not say where its owner was.
    """
    facts = _linux() if sys.platform == "linux" else _addresses()
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _linux() -> list[str]:
    routes = (line.split() for line in _lines(_ROUTES))
    # Interface, destination, gateway; in the second table destination, its length, source, its length, next hop, …
    facts = [f"4 {row[0]} {row[2]}" for row in routes if len(row) > 2 and row[1] == "00000000"]
    routes = (line.split() for line in _lines(_ROUTES_V6))
    facts += [
        f"6 {row[9]} {row[4]}"
        for row in routes
        if len(row) > 9 and int(row[1], 16) == 0 and row[9] != "lo"
    ]
    facts += [line.strip() for line in _lines(_RESOLVERS) if line.startswith("nameserver")]
    return sorted(facts)


def _lines(path: Path) -> list[str]:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_CHARACTERS).splitlines()
    except OSError:
        return []


def _addresses() -> list[str]:
    """Return the addresses that this machine would send from; nothing is sent."""
    found = []
    for family, somewhere in _PROBES:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((somewhere, 53))
            found.append(str(sock.getsockname()[0]))
    return found
