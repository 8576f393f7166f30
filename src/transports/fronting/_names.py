"""Which name stands where: seen in TLS, demanded of the certificate, and hidden inside the request. Pure."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transports.fronting._catalog import Front, Provider

__all__ = (
    "DEFAULT_POLICY",
    "certifies",
    "fronted_host",
    "restored_location",
    "sni_of",
    "verify_name_of",
)

DEFAULT_POLICY: Final = "default"
"""The policy for countries without one of their own, and for when the country is not known."""


def fronted_host(provider: Provider, host: str) -> str | None:
    """Return the name under which `provider` knows `host`, `None` if it does not.

    Args:
        provider: whose aliases and patterns count, in this order.
        host: in ASCII; case and a final dot mean nothing.
    """
    name = host.lower().rstrip(".")
    if (alias := provider.aliases.get(name)) is not None:
        return alias
    for pattern in provider.passthrough_patterns:
        if pattern.startswith("*."):
            if name.endswith(pattern[1:]) and len(name) > len(pattern) - 1:
                return name
        elif name == pattern:
            return name
    return None


def sni_of(front: Front, provider: Provider, country: str | None) -> str | None:
    """Return the name to send in TLS to `front`, `None` for none at all.

    The country's policy decides, else the default one: if it is on, each address has one name of the list that stays the
    same, since one address seen under many names would stand out. Else it is the front's own.
    """
    policies = provider.sni_policies
    policy = policies.get(country.lower()) if country else None
    policy = policies.get(DEFAULT_POLICY) if policy is None else policy
    if policy is not None and policy.is_on and policy.names:
        digest = hashlib.sha256(front.address.encode()).digest()
        # Eight octets, so that all of a list of thousands can be met.
        return policy.names[int.from_bytes(digest[:8], "big") % len(policy.names)]
    return front.sni or None


def verify_name_of(front: Front, provider: Provider, sni: str | None) -> str:
    """Return the name that the certificate of `front` has to have; never the one that is sent in TLS as a decoy."""
    if sni is None:
        return front.domain
    return front.verify_hostname or provider.verify_hostname or front.domain


def certifies(certificate: Mapping[str, Any] | None, name: str) -> bool:
    """Return whether a certificate, as `ssl` gives it after it has verified it, is for the host `name` (RFC 9525 §6).

    Only its alternative names count, and a wildcard only as the whole of the leftmost label, with two labels behind it.
    """
    wanted = name.lower().rstrip(".")
    names = (certificate or {}).get("subjectAltName", ())
    return any(kind == "DNS" and _matches(str(value), wanted) for kind, value in names)


def _matches(pattern: str, name: str) -> bool:
    pattern = pattern.lower()
    if not pattern.startswith("*."):
        return pattern == name
    rest = pattern[1:]
    label, dot, behind = name.partition(".")
    return bool(label and dot) and rest.count(".") > 1 and "*" not in rest and f".{behind}" == rest


def restored_location(location: bytes, *, fronted: str, origin: str) -> bytes:
    """Return a redirect's target with the origin's own name where the network's name for it stands.

    Whoever follows it would look that name up, and be seen to.
    """
    try:
        text = location.decode("ascii")
        parts = urlsplit(text)
        is_fronted = parts.hostname == fronted and parts.username is None
    except ValueError:
        return location
    if not is_fronted or parts.port not in {None, 80, 443}:
        return location
    return parts._replace(netloc=origin).geturl().encode("ascii")
