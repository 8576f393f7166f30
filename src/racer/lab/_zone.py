"""What a name server knows, and the lies it tells: rules are data, and nothing here does IO."""

from __future__ import annotations

import enum
import fnmatch
import ipaddress
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from racer.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = (
    "Asked",
    "Carrier",
    "Delay",
    "Drop",
    "Fail",
    "Flaw",
    "Forge",
    "Garbage",
    "NameRule",
    "Reply",
    "Truncate",
    "Zone",
    "checked_address",
)

Carrier: TypeAlias = Literal["udp", "tcp", "tls", "https"]
_CARRIERS: Final = (None, "udp", "tcp", "tls", "https")


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRule:
    """What is done to questions for some names.

    Attributes:
        name: the names, as a pattern with `*` and `?`, without trailing dot.
        kind: the question's type, such as `AAAA`; `None` for all.
        over: `udp`, `tcp`, `tls`, `https`, or `None` for all.
    """

    name: str = "*"
    kind: str | None = None
    over: Carrier | None = None

    def __post_init__(self) -> None:
        """Refuse what matches nothing."""
        if self.over not in _CARRIERS:
            msg = f"over must be 'udp', 'tcp', 'tls', 'https' or None, not {self.over!r}"
            raise ConfigError(msg)

    def applies(self, name: str, kind: str, over: str) -> bool:
        """Return whether this rule is for a question; `name` in lower case."""
        return (
            self.over in {None, over}
            and (self.kind is None or self.kind.upper() == kind)
            and fnmatch.fnmatchcase(name, self.name.lower())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(NameRule):
    """The question, or its answer, vanishes; only what was forged arrives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay(NameRule):
    """Every answer takes `seconds` longer."""

    seconds: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is no delay."""
        NameRule.__post_init__(self)
        _check_seconds(self.seconds, "seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail(NameRule):
    """The true answer is an error.

    Attributes:
        rcode: which, such as `SERVFAIL`, `REFUSED` or `NXDOMAIN`.
    """

    rcode: str = "SERVFAIL"

    def __post_init__(self) -> None:
        """Refuse what is no response code."""
        NameRule.__post_init__(self)
        import dns.exception  # noqa: PLC0415 - as in Zone.replies
        import dns.rcode  # noqa: PLC0415

        try:
            dns.rcode.from_text(self.rcode)
        except dns.exception.DNSException:
            msg = f"{self.rcode!r} is not a DNS response code"
            raise ConfigError(msg) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate(NameRule):
    """The true answer is cut to nothing, and says so (TC): ask again over TCP."""

    over: Carrier | None = "udp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage(NameRule):
    """Octets that are no DNS message come in place of the true answer.

    Attributes:
        data: which.
    """

    data: bytes = b"\x00garbage\xff"


class Flaw(enum.Enum):
    """What a forger who has not seen the question gets wrong; a resolver that checks goes on waiting."""

    ID = "id"
    PORT = "port"
    """It comes from another port than was asked. Over TCP, TLS or HTTPS, and to a connected socket, it never comes."""
    QUESTION = "question"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forge(NameRule):
    """Somebody on the path answers as well. Every rule of this kind that applies gives one forged answer.

    Attributes:
        addresses: what the forged answer says; those of the question's family.
        after: seconds after the question that it comes.
        truth_after: seconds after the question that the true answer comes as well; `None` if it is held back. The
            longest of several counts.
        flaw: what is wrong with it besides; `None` for a perfect forgery.
    """

    addresses: tuple[str, ...] = ()
    after: float = 0.0
    truth_after: float | None = None
    flaw: Flaw | None = None

    def __post_init__(self) -> None:
        """Refuse what nobody could forge."""
        NameRule.__post_init__(self)
        if isinstance(self.addresses, str):
            msg = f"addresses must be several, such as ({self.addresses!r},)"
            raise ConfigError(msg)
        for address in self.addresses:
            checked_address(address)
        _check_seconds(self.after, "after")
        if self.truth_after is not None:
            _check_seconds(self.truth_after, "truth_after")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that a name server got.

    Attributes:
        name: in lower case, without trailing dot.
        kind: the type, such as `A`.
        over: `udp`, `tcp`, `tls` or `https`.
    """

    name: str
    kind: str
    over: str


@dataclass(frozen=True, slots=True)
class Reply:
    """A message that a name server sends back.

    Attributes:
        after: how many seconds after the question.
        data: its octets.
        elsewhere: whether it comes from another port than was asked.
    """

    after: float
    data: bytes
    elsewhere: bool = False


class Zone:
    """What a name server knows and does; pure.

    Names lead to addresses, and to nothing else: other types get an empty answer, other names `NXDOMAIN`.

    Args:
        hosts: name to addresses, such as `Network.hosts`; read at every question, so later changes count.
        rules: what is done to questions. Of `Drop`, `Fail`, `Truncate` and `Garbage` the first that applies counts,
            delays add up, and forgeries come besides.
        ttl: seconds that answers may be kept.

    Attributes:
        asked: every question so far.
        hosts: as given.
        rules: a list of those given; may be changed at any time.
        ttl: as given.
    """

    def __init__(
        self,
        hosts: Mapping[str, Sequence[str]],
        rules: Sequence[NameRule] = (),
        *,
        ttl: int = 60,
    ) -> None:
        """Keep both as they are."""
        self.asked: list[Asked] = []
        self.hosts = hosts
        self.rules = list(rules)
        self.ttl = ttl

    def replies(self, question: bytes, *, over: Carrier) -> list[Reply]:
        """Return what is sent back for the octets of a question, in order of time; nothing for what is none."""
        from racer.lab import _answers  # noqa: PLC0415 - dnspython takes a tenth of a second to load

        return _answers.replies(self, question, over)

    def is_question(self, octets: bytes) -> bool:
        """Return whether these are the octets of a question; `replies` says nothing to others."""
        from racer.lab import _answers  # noqa: PLC0415 - as in `replies`

        return _answers.read(octets) is not None

    def matching(self, asked: Asked) -> tuple[NameRule, ...]:
        """Return the rules for a question, in order."""
        return tuple(r for r in self.rules if r.applies(asked.name, asked.kind, asked.over))


def checked_address(address: str) -> str:
    """Return an IP address in its usual form.

    Raises:
        ConfigError: it is none.
    """
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        msg = f"{address!r} is not an IP address"
        raise ConfigError(msg) from None


def _check_seconds(value: float, name: str) -> None:
    if not 0 <= value < math.inf:
        msg = f"{name} must be a finite number of seconds, at least 0, not {value!r}"
        raise ConfigError(msg)
