"""What a network may do to connections that cross it. Rules are data; the middlebox of a `Network` obeys them."""

from __future__ import annotations

import enum
import fnmatch
from dataclasses import dataclass
from typing import ClassVar

from racer.errors import ConfigError
from racer.lab._hello import NeedMore, server_name

__all__ = (
    "AcceptAndHang",
    "Blackhole",
    "Inspector",
    "Refuse",
    "ResetOnName",
    "Rule",
    "Throttle",
    "Verdict",
)


class Verdict(enum.Enum):
    """What a middlebox does with the bytes it has seen."""

    PASS = "pass"  # noqa: S105 - a verdict
    WAIT = "wait"
    """Hold them back until more has come."""
    RESET = "reset"
    SWALLOW = "swallow"
    """Let nothing through any more, and say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule of a censor.

    Attributes:
        address: the addresses it is for, as a pattern with `*` and `?`.
        port: the port it is for; `None` for all.
    """

    at_connect: ClassVar[bool] = False
    """Whether the rule bites before a connection stands."""

    address: str = "*"
    port: int | None = None

    def applies(self, address: str, port: int) -> bool:
        """Return whether this rule is for a destination."""
        return (self.port is None or self.port == port) and fnmatch.fnmatchcase(
            address, self.address
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Blackhole(Rule):
    """Packets vanish: no connection ever stands, and nobody says so."""

    at_connect = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse(Rule):
    """A reset answers the first packet: connection refused."""

    at_connect = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptAndHang(Rule):
    """The connection stands, and nothing ever comes through it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOnName(Rule):
    """The connection is reset when a TLS ClientHello names a host that is not wanted.

    Attributes:
        names: the unwanted names, as patterns with `*` and `?`.
        reassembles: whether the censor puts the ClientHello together from pieces; one that does not looks at each piece
            alone, and lets what it cannot read pass.
    """

    names: tuple[str, ...] = ("*",)
    reassembles: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle(Rule):
    """Connections are slowed down.

    Attributes:
        rate: bytes a second, each way.
    """

    rate: float = 2_000.0

    def __post_init__(self) -> None:
        """Refuse what is no rate."""
        if not self.rate > 0:
            msg = f"rate must be a positive number of bytes a second, not {self.rate!r}"
            raise ConfigError(msg)


class Inspector:
    """Reads one connection's first flight as its rules say. Pure.

    Args:
        rules: those that apply to the connection.
    """

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        """Begin before the first byte."""
        self._hangs = any(isinstance(rule, AcceptAndHang) for rule in rules)
        self._by_name = [rule for rule in rules if isinstance(rule, ResetOnName)]
        self._seen = b""
        self._open = bool(self._by_name)

    def inspect(self, data: bytes) -> Verdict:
        """Return what to do with `data` and all that was held back before it."""
        if self._hangs:
            return Verdict.SWALLOW
        if not self._open:
            return Verdict.PASS
        self._seen += data
        waits = False
        for rule in self._by_name:
            name = server_name(self._seen if rule.reassembles else data)
            if isinstance(name, str) and any(
                fnmatch.fnmatchcase(name, pattern) for pattern in rule.names
            ):
                return Verdict.RESET
            waits = waits or (name is NeedMore.NEED_MORE and rule.reassembles)
        self._open = waits
        return Verdict.WAIT if waits else Verdict.PASS
