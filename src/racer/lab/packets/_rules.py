"""What a censor on the packet path may do. Rules are data; those of `racer.lab` that make sense for packets are obeyed too."""

from __future__ import annotations

import enum
import fnmatch
from dataclasses import dataclass

from racer.errors import ConfigError
from racer.lab._censor import Rule
from racer.lab._zone import checked_address

__all__ = ("Action", "InjectDNS", "Reassembly", "SNIFilter")


class Reassembly(enum.Enum):
    """How far a censor puts TCP segments together before it looks."""

    NONE = "none"
    """Each segment is looked at alone."""
    IN_ORDER = "in order"
    """Segments that come in their order are put together; a connection that leaves a gap is looked at no more."""
    FULL = "full"
    """Segments are put together in whatever order they come."""


class Action(enum.Enum):
    """What happens to a connection that named a host that is not wanted. The packet that did never arrives."""

    RESET = "reset"
    """Both ends get a reset, and nothing else any more."""
    DROP = "drop"
    """Nothing comes through any more, either way, and nobody says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SNIFilter(Rule):
    """Ends TCP connections whose TLS ClientHello names a host that is not wanted.

    Attributes:
        names: the hosts, as patterns with `*` and `?`; for one that `scans`, the very octets to find.
        reassembly: how far TCP segments are put together.
        joins_records: whether a ClientHello is put together from several TLS records; otherwise the first alone counts.
        scans: whether it searches for a name's octets anywhere in what it sees, instead of reading TLS.
        heeds_ttl: whether it ignores packets that will not live to reach the server.
        action: what it does.
    """

    names: tuple[str, ...] = ("*",)
    reassembly: Reassembly = Reassembly.FULL
    joins_records: bool = True
    scans: bool = False
    heeds_ttl: bool = False
    action: Action = Action.RESET

    def __post_init__(self) -> None:
        """Refuse what matches nothing."""
        Rule.__post_init__(self)
        _check_several(self.names, "names")
        if self.scans and any(set(name) & set("*?[") for name in self.names):
            msg = "names: one that scans looks for octets, and knows no patterns"
            raise ConfigError(msg)

    def matches(self, name: str) -> bool:
        """Return whether a name, in lower case, is among those that are not wanted."""
        return any(fnmatch.fnmatchcase(name, pattern.lower()) for pattern in self.names)

    def finds(self, seen: bytes) -> str | None:
        """Return the first of the names whose octets are in `seen`."""
        return next((name for name in self.names if name.encode() in seen), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectDNS(Rule):
    """Answers DNS questions over UDP in the name server's place, from where the censor stands, so that it is faster.

    Attributes:
        names: those it lies about, as patterns with `*` and `?`.
        addresses: what it says; of the question's family.
        drops: whether the question goes no further; else the true answer comes as well, later.
    """

    port: int | None = 53
    names: tuple[str, ...] = ("*",)
    addresses: tuple[str, ...] = ()
    drops: bool = False

    def __post_init__(self) -> None:
        """Refuse what matches nothing, and what no answer can hold."""
        Rule.__post_init__(self)
        _check_several(self.names, "names")
        _check_several(self.addresses, "addresses")
        for address in self.addresses:
            checked_address(address)


def _check_several(value: object, name: str) -> None:
    if isinstance(value, str):
        msg = f"{name} must be several, such as ({value!r},)"
        raise ConfigError(msg)
