"""The resolvers that this machine asks, from its own settings. Blocks for as long as a small file takes."""

from __future__ import annotations

import sys
from typing import Final

from racer.errors import ErrorType, NetworkError
from transports._net.addresses import family_of
from transports._net.resolver_urls import ResolverURL

__all__ = ("system_resolvers",)

_FILE: Final = "/etc/resolv.conf"  # resolv.conf(5)
_MAX_CHARACTERS: Final = 65_536  # of it
_MAX_SYSTEM: Final = 3  # as many as the C library asks


def system_resolvers() -> tuple[ResolverURL, ...]:
    """Return the resolvers that this machine asks, as far as they are addresses, at most three.

    Raises:
        NetworkError: it has none.
    """
    servers = _of_windows() if sys.platform == "win32" else _of_file()
    addresses = [server for server in servers if family_of(server) is not None][:_MAX_SYSTEM]
    if not addresses:
        msg = "this machine has no resolver"
        raise NetworkError(msg, error_type=ErrorType.DNS_FAILURE)
    return tuple(
        ResolverURL.parse(f"udp://[{address}]" if ":" in address else f"udp://{address}")
        for address in dict.fromkeys(addresses)
    )


def _of_file() -> list[str]:
    # Read here: dnspython, which reads it too, takes a tenth of a second to load.
    try:
        with open(_FILE, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - nor is pathlib there
            lines = file.read(_MAX_CHARACTERS).splitlines()
    except OSError as exc:
        msg = f"this machine's resolvers could not be found: {exc}"
        raise NetworkError(msg, error_type=ErrorType.DNS_FAILURE) from exc
    words = [line.split() for line in lines]
    return [each[1] for each in words if len(each) > 1 and each[0] == "nameserver"]


def _of_windows() -> list[str]:
    import dns.exception  # noqa: PLC0415 - a tenth of a second, for those who need it
    import dns.resolver  # noqa: PLC0415 - likewise

    try:
        servers = dns.resolver.Resolver(configure=True).nameservers
    except dns.exception.DNSException as exc:
        msg = f"this machine's resolvers could not be found: {exc}"
        raise NetworkError(msg, error_type=ErrorType.DNS_FAILURE) from exc
    return [server for server in servers if isinstance(server, str)]
