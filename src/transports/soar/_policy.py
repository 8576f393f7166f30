"""Where a server connects, and where it does not: names before they are looked up, addresses after. Pure."""

from __future__ import annotations

import ipaddress
import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TYPE_CHECKING, Final, TypeAlias

from racer.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ("DEFAULT_PORTS", "Address", "TargetPolicy")

Address: TypeAlias = IPv4Address | IPv6Address
_Network: TypeAlias = IPv4Network | IPv6Network

DEFAULT_PORTS: Final = (80, 443)
_DNS_PORT: Final = 53
_MAX_RULES: Final = 1024

# What is not the public internet, or leads back to this machine's own side of it: the registries of RFC 6890 and what
# has been added to them since, and the forms that hide an IPv4 address in an IPv6 one.
_REFUSED: Final = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",  # this network, RFC 1122
        "10.0.0.0/8",  # private, RFC 1918
        "100.64.0.0/10",  # carrier-grade NAT, RFC 6598
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, and the metadata services of clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments, RFC 6890
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks, RFC 2544
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
        "::/96",  # unspecified, loopback, and the old IPv4-compatible form
        "::ffff:0:0/96",  # IPv4-mapped
        "::ffff:0:0:0/96",  # IPv4-translated, RFC 2765
        "64:ff9b::/96",  # NAT64, RFC 6052
        "64:ff9b:1::/48",  # NAT64 within a site, RFC 8215
        "100::/64",  # discard, RFC 6666
        "2001::/23",  # protocol assignments, Teredo and ORCHID among them
        "2001:db8::/32",
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation, RFC 9637
        "5f00::/16",  # segment routing, RFC 9602
        "fc00::/7",  # unique local
        "fe80::/10",  # link-local
        "fec0::/10",  # site-local
        "ff00::/8",  # multicast
    )
)
_PUBLIC_IPV6: Final = ipaddress.ip_network("2000::/3")  # the only block that is given out
_PATTERN: Final = re.compile(r"(\*\.)?[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63}){0,126}\Z")


class TargetPolicy:
    """Says for each target why it is refused, or that it isn't.

    A name is judged before it is looked up, and each of its addresses afterwards; what is then connected to must be an
    address that was judged (SPEC 18.5). A name alone never makes an address public.

    Args:
        allow: what may be reached; `None` for all that is public. Each is a host name, `*.` and a domain for every name
            below it, an IP address or a network; each may end in `:port` for one more port, or `:*` for all. A network
            or address that is listed here is reached although it is private, since somebody wrote it down.
        ports: that are allowed where a rule names none.
        own: addresses of this server, which are never reached.

    Raises:
        ConfigError: a rule that can't be; says which.
    """

    def __init__(
        self,
        *,
        allow: Sequence[str] | None = None,
        ports: Iterable[int] = DEFAULT_PORTS,
        own: Iterable[Address] = (),
    ) -> None:
        """Read the rules."""
        self._ports = frozenset(_checked_port(port, "ports") for port in ports)
        self._own = frozenset(own)
        self._names: list[tuple[str, frozenset[int] | None]] = []
        self._networks: list[tuple[_Network, frozenset[int] | None]] = []
        self._allows_all = allow is None
        if isinstance(allow, str):
            msg = "allow must be a list of rules, not a text"
            raise ConfigError(msg)
        if allow is not None and len(allow) > _MAX_RULES:
            msg = f"allow: {len(allow)} rules; at most {_MAX_RULES} are taken"
            raise ConfigError(msg)
        for index, rule in enumerate(allow or ()):
            self._read(rule, f"allow[{index}]")

    def refuses_name(self, name: str, port: int) -> str | None:
        """Return why no address of `name` may be connected to, or `None` to look it up."""
        if self._allows_all:
            return None if port in self._ports else f"port {port} is not allowed"
        rules = self._rules_for(name)
        if any(self._takes(ports, port) for ports in rules):
            return None
        # One of its addresses may be in a network that is listed.
        if any(self._takes(ports, port) for _, ports in self._networks):
            return None
        return f"port {port} is not allowed there" if rules else "the name is not allowed"

    def refuses_address(
        self, address: Address, port: int, *, name: str | None = None, is_own: bool = False
    ) -> str | None:
        """Return why `address` may not be connected to, or `None`.

        Args:
            address: as it will be connected to.
            port: likewise.
            name: that it was found under; `None` where the client gave the address itself.
            is_own: whether it was found to be this machine's, listed as such or not.
        """
        address = _plain(address)
        is_own = is_own or address in self._own
        if not (is_own and port == _DNS_PORT) and self._is_listed(address, port):
            return None
        if is_own:
            return "the address is this server's own"
        if not _is_public(address):
            return "the address is not a public one"
        if self._allows_all:
            return None if port in self._ports else f"port {port} is not allowed"
        if name is not None and any(self._takes(ports, port) for ports in self._rules_for(name)):
            return None
        return "the address is not allowed"

    def _is_listed(self, address: Address, port: int) -> bool:
        return any(
            network.version == address.version and address in network and self._takes(ports, port)
            for network, ports in self._networks
        )

    def _rules_for(self, name: str) -> list[frozenset[int] | None]:
        plain = name.lower().rstrip(".")
        return [ports for pattern, ports in self._names if _covers(pattern, plain)]

    def _takes(self, ports: frozenset[int] | None, port: int) -> bool:
        return ports is None or port in ports

    def _read(self, rule: object, where: str) -> None:
        if not isinstance(rule, str) or not rule:
            msg = f"{where} must be a host, *.domain, IP address or network, with or without :port"
            raise ConfigError(msg)
        host, ports = self._split(rule, where)
        try:
            network = ipaddress.ip_network(host, strict=False)
        except ValueError:
            name = host.lower().rstrip(".")
            if "/" in host or not _PATTERN.match(name) or len(name) > 253:
                msg = f"{where}: {rule!r} is no host, *.domain, IP address or network"
                raise ConfigError(msg) from None
            self._names.append((name, ports))
        else:
            self._networks.append((network, ports))

    def _split(self, rule: str, where: str) -> tuple[str, frozenset[int] | None]:
        host, colon, port = rule.rpartition(":")
        if rule.startswith("["):
            host, bracket, behind = rule[1:].partition("]")
            colon, port = behind[:1], behind[1:]
            if not bracket or colon not in {"", ":"}:
                msg = f"{where}: {rule!r} is no address in brackets, with or without :port"
                raise ConfigError(msg)
        elif not colon or rule.count(":") > 1:
            host, colon = rule, ""
        if not colon:
            return host, self._ports
        if port == "*":
            return host, None
        return host, frozenset({_checked_port(int(port) if port.isdecimal() else port, where)})


def _checked_port(port: object, where: str) -> int:
    if not isinstance(port, int) or isinstance(port, bool) or not 1 <= port <= 65_535:
        msg = f"{where}: {port!r} is no port; 1 to 65535 are"
        raise ConfigError(msg)
    return port


def _covers(pattern: str, name: str) -> bool:
    if pattern.startswith("*."):
        return name.endswith(pattern[1:])
    return name == pattern


def _plain(address: Address) -> Address:
    """Return `address` without a scope, which says only which of our own links it is on."""
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return IPv6Address(address.packed)
    return address


def _is_public(address: Address) -> bool:
    if address.version == 6 and address not in _PUBLIC_IPV6:
        return False
    return not any(address.version == net.version and address in net for net in _REFUSED)
