"""What stands on the server's side of the path, as data. `_serving` is the program that serves it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from racer.errors import ConfigError
from racer.lab._sites import echo, hello
from racer.lab._zone import checked_address

if TYPE_CHECKING:
    from racer.lab._sites import Handler

__all__ = ("HANDLERS", "NameService", "Service", "ask_for")

HANDLERS: Final[dict[str, Handler]] = {"echo": echo, "hello": hello}


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A site on the server's side.

    Attributes:
        names: what its certificate is for.
        addresses: where it listens.
        port: likewise.
        handler: `hello` answers an HTTP/1.1 request, `echo` sends back what it gets.
        tls: whether it speaks TLS.
        forged: whether its certificate is from an authority that nobody trusts, as somebody has who is not the site.
    """

    names: tuple[str, ...]
    addresses: tuple[str, ...]
    port: int = 443
    handler: str = "hello"
    tls: bool = True
    forged: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be served."""
        if self.handler not in HANDLERS:
            msg = f"handler must be one of {', '.join(HANDLERS)}, not {self.handler!r}"
            raise ConfigError(msg)
        for address in self.addresses:
            checked_address(address)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameService:
    """A resolver on the server's side: UDP and TCP on port 53, TLS on 853, HTTPS on 443.

    Attributes:
        addresses: where it listens, and what its certificate is for.
        hosts: names to addresses.
    """

    addresses: tuple[str, ...]
    hosts: dict[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        """Refuse what cannot be served."""
        for address in self.addresses:
            checked_address(address)


def ask_for(services: tuple[Service | NameService, ...]) -> bytes:
    """Return what the process is to be told."""
    told: dict[str, list[dict[str, Any]]] = {"sites": [], "resolvers": []}
    for each in services:
        told["sites" if isinstance(each, Service) else "resolvers"].append(asdict(each))
    return json.dumps(told).encode() + b"\n"
