"""Who may use a server, and to reach what (SPEC 3.3, 17)."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from racer.errors import ConfigError
from transports.soar.core.crypto.terms import Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from transports.soar.core.crypto.grants import Grant
    from transports.soar.core.crypto.handshake import First
    from transports.soar.core.streams.targets import Target

__all__ = ("GrantBook", "IssuedGrant", "TargetRule")

_RULE: Final = re.compile(r"(?:\[(?P<bracketed>[^\]]+)\]|(?P<bare>[^:\[\]]+)):(?P<port>\*|\d{1,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRule:
    """One line of what a grant allows.

    Attributes:
        host: a name in lower case, `*.` and a name for all below it, `*` for every host, or None with a network.
        network: addresses; a name never matches them, whatever it resolves to.
        port: a port, or None for each.
    """

    host: str | None = None
    network: ipaddress.IPv4Network | ipaddress.IPv6Network | None = None
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> TargetRule:
        """Return what `text` says: `example.com:443`, `*.example.com:*`, `192.0.2.0/24:80`, `[2001:db8::/32]:443`.

        Raises:
            ConfigError: it is none of these; says why.
        """
        match = _RULE.fullmatch(text)
        if match is None or (port := match["port"]) == "0":
            msg = f"the target {text!r} is not of the form host:port, with * for every port and [] around IPv6"
            raise ConfigError(msg)
        number = None if port == "*" else int(port)
        if number is not None and number > 0xFFFF:
            msg = f"the target {text!r} has port {number}; ports end at 65535"
            raise ConfigError(msg)
        host = match["bracketed"] or match["bare"]
        try:
            return cls(network=ipaddress.ip_network(host), port=number)
        except ValueError as exc:
            if match["bracketed"] or "/" in host:
                msg = f"the target {text!r} has no network in it: {exc}"
                raise ConfigError(msg) from exc
        return cls(host=host.lower().rstrip("."), port=number)

    def allows(self, target: Target) -> bool:
        """Return whether `target` is meant."""
        if self.port not in (None, target.port):
            return False
        host = target.host
        if self.network is not None:
            return not isinstance(host, str) and host in self.network
        if self.host == "*":
            return True
        if not isinstance(host, str) or self.host is None:
            return False
        name = host.lower().rstrip(".")
        return name.endswith(self.host[1:]) if self.host.startswith("*.") else name == self.host


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedGrant:
    """A grant as its server knows it.

    Attributes:
        grant: id and secret.
        expires: until when it is good, in Unix seconds; None for no end.
        is_revoked: whether it was taken back.
        targets: what it allows; nothing listed is everything that the server's policy allows.
    """

    grant: Grant
    expires: float | None = None
    is_revoked: bool = False
    targets: tuple[TargetRule, ...] = ()

    def has_expired(self, wall: float) -> bool:
        """Return whether it is over at `wall`, in Unix seconds."""
        return self.expires is not None and wall >= self.expires

    def lease(self, wall: float) -> int:
        """Return for how many seconds it is good from `wall` on, whole ones and at least 1; 0 for no end (SPEC 7.6)."""
        return 0 if self.expires is None else max(1, -int(wall - self.expires))

    def allows(self, target: Target) -> bool:
        """Return whether a stream may be opened to `target`."""
        return not self.targets or any(rule.allows(target) for rule in self.targets)


class GrantBook:
    """All grants that a server knows, the revoked ones too."""

    __slots__ = ("_grants",)

    def __init__(self, grants: Iterable[IssuedGrant] = ()) -> None:
        """Hold `grants`.

        Raises:
            ConfigError: two have the same id.
        """
        self._grants: dict[bytes, IssuedGrant] = {}
        for issued in grants:
            if issued.grant.id in self._grants:
                msg = f"the grant {issued.grant.id.hex()} is listed twice"
                raise ConfigError(msg)
            self._grants[issued.grant.id] = issued

    def get(self, grant_id: bytes) -> IssuedGrant | None:
        """Return the grant of that id, or None."""
        return self._grants.get(grant_id)

    def revoke(self, grant_id: bytes) -> None:
        """Take a grant back; one that isn't known stays unknown."""
        issued = self._grants.get(grant_id)
        if issued is not None:
            self._grants[grant_id] = IssuedGrant(
                grant=issued.grant,
                expires=issued.expires,
                is_revoked=True,
                targets=issued.targets,
            )

    def check(self, first: First, wall: float) -> Status:
        """Return what a first message's grant is worth at `wall`, in the order of SPEC 17.1."""
        shown = first.claims.grant
        if shown is None:
            return Status.GRANT_NEEDED
        issued = self._grants.get(shown[0])
        if issued is None:
            return Status.GRANT_REJECTED
        if issued.is_revoked:
            return Status.GRANT_REVOKED
        if issued.has_expired(wall):
            return Status.GRANT_EXPIRED
        if not first.proves(issued.grant.secret):
            return Status.GRANT_REJECTED
        return Status.WELCOME
