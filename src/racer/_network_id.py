"""Which network this machine is in, as a short text that tells nobody else anything: for whoever remembers by network."""

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
# Of a table that is read; a router with the whole Internet's routes has more.
_MAX_CHARACTERS: Final = 262_144
_PROBES: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def network_id() -> str:
    """Return a text that is the same whenever this machine is in the same network, and most likely another elsewhere.

    It is a hash of the default routes and the name servers or, where the system shows no routes, of the addresses that
    this machine would send from. Nobody is asked, nothing is sent, and no privilege is needed. It blocks for a moment, and is
    best called in a thread.
    """
    facts = _routes() if sys.platform == "linux" else None
    return hashlib.sha256("\n".join(_addresses() if facts is None else facts).encode()).hexdigest()


def _routes() -> list[str] | None:
    """Return the default routes and name servers; `None` where they may not be read."""
    routes, routes_v6 = _lines(_ROUTES), _lines(_ROUTES_V6)
    if routes is None and routes_v6 is None:
        return None
    # Interface, destination, gateway; in the second table destination, its length, source, its length, next hop, …
    rows = [line.split() for line in routes or ()]
    facts = [f"4 {row[0]} {row[2]}" for row in rows if len(row) > 2 and row[1] == "00000000"]
    rows = [line.split() for line in routes_v6 or ()]
    facts += [
        f"6 {row[9]} {row[4]}"
        for row in rows
        if len(row) > 9 and row[1].strip("0") == "" and row[9] != "lo"
    ]
    servers = _lines(_RESOLVERS) or ()
    facts += [line.strip() for line in servers if line.startswith("nameserver")]
    return sorted(facts)


def _lines(path: Path) -> list[str] | None:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_CHARACTERS).splitlines()
    except OSError:
        return None


def _addresses() -> list[str]:
    """Return the addresses that this machine would send from: connecting a UDP socket sends nothing."""
    found = []
    for family, somewhere in _PROBES:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((somewhere, 53))
            found.append(str(sock.getsockname()[0]))
    return found
