"""Names and addresses that mean something by themselves, whatever a resolver says (RFC 6761, RFC 6890). Pure."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING, Final

from transports._net.addresses import Family, family_of
from transports._net.resolve import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ("answer_unasked", "is_impossible", "is_internal", "is_local_name")

# No resolver of the Internet can know them: RFC 6761, RFC 6762, RFC 8375, and ICANN's `internal`.
_LOCAL_SUFFIXES: Final = ("home.arpa", "internal", "local", "localhost", "test")

_IMPOSSIBLE: Final = tuple(
    map(
        ipaddress.ip_network,
        ("0.0.0.0/8", "224.0.0.0/4", "255.255.255.255/32", "::/128", "ff00::/8"),
    )
)
_INTERNAL: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "240.0.0.0/4",
            "::1/128",
            "fc00::/7",
            "fe80::/10",
        ),
    )
)
_LOOPBACK: Final = {Family.IPV6: "::1", Family.IPV4: "127.0.0.1"}


def answer_unasked(name: str, families: Sequence[Family]) -> Answer | None:
    """Return the answer for a name that is not to be asked for; `None` for any other.

    `localhost` and what is below it is this machine (RFC 6761 §6.3); `invalid` and `onion` lead nowhere, and asking for
    the latter would betray it (RFC 6761 §6.4, RFC 7686 §2).
    """
    top = name.rstrip(".").rpartition(".")[2]
    if top == "localhost":
        return Answer(families=tuple(families), addresses=tuple(_LOOPBACK[f] for f in families))
    if top in {"invalid", "onion"}:
        error = socket.gaierror(socket.EAI_NONAME, f"names below {top!r} are not in the DNS")
        return Answer(families=tuple(families), error=error)
    return None


def is_local_name(name: str) -> bool:
    """Return whether only this machine or its own network can know a name, so that any address may be right."""
    bare = name.rstrip(".")
    return "." not in bare or any(
        bare == suffix or bare.endswith(f".{suffix}") for suffix in _LOCAL_SUFFIXES
    )


def is_impossible(address: str) -> bool:
    """Return whether nothing can be connected to there: unspecified, multicast, broadcast."""
    return _is_among(address, _IMPOSSIBLE)


def is_internal(address: str) -> bool:
    """Return whether an address means another machine in every network: loopback, private, link-local, reserved.

    Those for documentation are not among them: they lead nowhere, and stand for public ones in examples.
    """
    return _is_among(address, _INTERNAL)


def _is_among(
    address: str, networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]
) -> bool:
    if family_of(address) is None:
        return False
    parsed = ipaddress.ip_address(address)
    mapped = getattr(parsed, "ipv4_mapped", None)
    number = parsed if mapped is None else mapped
    return any(number in network for network in networks if network.version == number.version)
