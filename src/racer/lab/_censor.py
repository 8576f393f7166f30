"""What a network may do to what crosses it. Rules are data; the middlebox of a `Network` obeys them."""

from __future__ import annotations

import enum
import fnmatch
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from racer.errors import ConfigError
from racer.lab._hello import NeedMore, server_name

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = (
    "AcceptAndHang",
    "Allow",
    "Blackhole",
    "HangOnName",
    "Hit",
    "Inspector",
    "Refuse",
    "ResetOnName",
    "Rule",
    "Throttle",
    "Verdict",
    "matching",
)

Over: TypeAlias = Literal["tcp", "udp"]
_OVER: Final = (None, "tcp", "udp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule of a censor.

    Attributes:
        address: the addresses it is for, as a pattern with `*` and `?`.
        port: the port it is for; `None` for all.
        over: `tcp`, `udp`, or `None` for both.
    """

    address: str = "*"
    port: int | None = None
    over: Over | None = None

    def __post_init__(self) -> None:
        """Refuse what matches nothing."""
        if self.port is not None and not 1 <= self.port <= 65_535:
            msg = f"port must be None, or from 1 to 65535, not {self.port!r}"
            raise ConfigError(msg)
        if self.over not in _OVER:
            msg = f"over must be 'tcp', 'udp' or None, not {self.over!r}"
            raise ConfigError(msg)

    def applies(self, address: str, port: int, over: Over) -> bool:
        """Return whether this rule is for a destination."""
        return (
            self.port in {None, port}
            and self.over in {None, over}
            and fnmatch.fnmatchcase(address, self.address)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Allow(Rule):
    """The rules that come after this one in the list are not for these destinations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blackhole(Rule):
    """Packets vanish: no connection ever stands, no datagram arrives, and nobody says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse(Rule):
    """A reset answers the first packet: connection refused. Datagrams vanish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptAndHang(Rule):
    """The connection stands, also to where no site is, and nothing ever comes through it. Datagrams vanish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _NameRule(Rule):
    """A rule for connections whose TLS ClientHello names a certain host. Not for datagrams.

    Attributes:
        names: the names, as patterns with `*` and `?`.
        joins_segments: whether the censor puts a ClientHello together from several TCP segments. One that does not
            looks at each alone, and sees what is in the one that begins with a ClientHello. A segment is what one
            `send` gave, at most 1460 bytes.
        joins_records: whether it does so from several TLS records. One that does not sees the first alone.
    """

    names: tuple[str, ...] = ("*",)
    joins_segments: bool = True
    joins_records: bool = True

    def __post_init__(self) -> None:
        """Refuse what matches nothing."""
        Rule.__post_init__(self)
        if isinstance(self.names, str):
            msg = f"names must be several patterns, such as ({self.names!r},)"
            raise ConfigError(msg)

    def matches(self, name: str) -> bool:
        """Return whether a name, in lower case, is among those that are not wanted."""
        return any(fnmatch.fnmatchcase(name, pattern.lower()) for pattern in self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOnName(_NameRule):
    """The connection is reset, to both sides, when its TLS ClientHello names a host that is not wanted.

    Attributes:
        names: the unwanted names, as patterns with `*` and `?`.
        joins_segments: whether the censor puts a ClientHello together from several TCP segments. One that does not
            looks at each alone, and sees what is in the one that begins with a ClientHello. A segment is what one
            `send` gave, at most 1460 bytes.
        joins_records: whether it does so from several TLS records. One that does not sees the first alone.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class HangOnName(_NameRule):
    """Nothing comes through any more, either way, once a TLS ClientHello has named a host that is not wanted.

    Attributes:
        names: as for `ResetOnName`.
        joins_segments: as for `ResetOnName`.
        joins_records: as for `ResetOnName`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle(Rule):
    """Each connection is slowed down for itself.

    Attributes:
        rate: bytes a second, each way.
    """

    rate: float = 2_000.0

    def __post_init__(self) -> None:
        """Refuse what is no rate."""
        Rule.__post_init__(self)
        if not 0 < self.rate < math.inf:
            msg = f"rate must be a positive number of bytes a second, not {self.rate!r}"
            raise ConfigError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Something the censor did.

    Attributes:
        at: when, on the loop's clock.
        rule: by which rule.
        address: to what was on its way to there.
        port: likewise.
        over: `tcp` or `udp`.
        name: the server name that it read; `None` when it did not have to look.
    """

    at: float
    rule: Rule
    address: str
    port: int
    over: Over
    name: str | None = None


def matching(rules: Iterable[Rule], address: str, port: int, over: Over) -> tuple[Rule, ...]:
    """Return the rules that are for a destination, in order, up to one that allows it."""
    found = []
    for rule in rules:
        if rule.applies(address, port, over):
            if isinstance(rule, Allow):
                break
            found.append(rule)
    return tuple(found)


class Verdict(enum.Enum):
    """What a middlebox does with the bytes it has seen."""

    PASS = "pass"  # noqa: S105 - a verdict
    WAIT = "wait"
    """Hold them back until more has come."""
    RESET = "reset"
    HANG = "hang"
    """Let nothing through any more, and say nothing."""


class Inspector:
    """Reads how one connection begins, as its rules say. Pure.

    Args:
        rules: those that apply to the connection.

    Attributes:
        hit: the rule that gave `RESET` or `HANG`.
        name: the name for which it did.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Begin before the first byte."""
        self.hit: Rule | None = None
        self.name: str | None = None
        self._rules = [rule for rule in rules if isinstance(rule, _NameRule)]
        self._seen = b""
        self._done = not self._rules

    def inspect(self, segment: bytes) -> Verdict:
        """Return what to do with `segment` and all that was held back before it."""
        if self._done:
            return Verdict.PASS
        # One that does not join never stops looking: any segment may begin with a ClientHello.
        self._seen += segment
        waits = False
        for rule in self._rules:
            seen = self._seen if rule.joins_segments else segment
            name = server_name(seen, joins_records=rule.joins_records)
            if isinstance(name, str) and rule.matches(name):
                self.hit, self.name, self._done = rule, name, True
                return Verdict.RESET if isinstance(rule, ResetOnName) else Verdict.HANG
            waits = waits or (name is NeedMore.NEED_MORE and rule.joins_segments)
        if not waits:
            self._rules = [rule for rule in self._rules if not rule.joins_segments]
            self._done = not self._rules
            self._seen = b""
        return Verdict.WAIT if waits else Verdict.PASS
