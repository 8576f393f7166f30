"""What an operator has to publish, and what to hand to clients. Pure."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ("client_configuration", "zone_records")


def zone_records(zones: Sequence[str], name_servers: Mapping[str, Sequence[str]]) -> str:
    """Return the records that delegate `zones`, for whoever runs their parents: lines of a zone file.

    Args:
        zones: the server's.
        name_servers: their names, and the addresses of each.
    """
    lines = [f"{zone}. 3600 IN NS {server}." for zone in zones for server in name_servers]
    for server, addresses in name_servers.items():
        if not addresses and any(server == z or server.endswith(f".{z}") for z in zones):
            lines.append(f"{server}. 3600 IN A <the public address of this server>")
        for text in addresses:
            kind = "AAAA" if ipaddress.ip_address(text).version == 6 else "A"
            lines.append(f"{server}. 3600 IN {kind} {text}")
    return "\n".join(lines) + "\n"


def client_configuration(zones: Sequence[str], public_key: str, *, needs_grant: bool) -> str:
    """Return a piece of `racer.toml` with which a client reaches this server."""
    domain = f'"{zones[0]}"' if len(zones) == 1 else "[" + ", ".join(f'"{z}"' for z in zones) + "]"
    lines = [
        "[[entrant]]",
        'transport = "soar"',
        "",
        "[entrant.options]",
        f"domain = {domain}",
        f'server_key = "{public_key}"',
        'resolvers = ["system"]',
    ]
    if needs_grant:
        lines.append('credential = "soargrant1..."  # from: grant')
    return "\n".join(lines) + "\n"
