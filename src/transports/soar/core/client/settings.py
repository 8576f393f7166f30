"""What a client is told once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from racer.errors import ConfigError
from transports.soar.core.streams.windows import Limits

if TYPE_CHECKING:
    from transports.soar.core.crypto.grants import Grant
    from transports.soar.core.crypto.keys import PublicKey
    from transports.soar.core.dns.zone import Zone

__all__ = ("ClientSettings",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """A server, and how to use it.

    Attributes:
        public_key: the server's.
        zones: its zones; paths name them by their place here.
        grant: the credential to show, or `None`; in no `repr`.
        session_idle: seconds without activity after which a session is retired.
        limits: what the client takes from the server.
        keep_warm: whether one session is kept confirmed from the first dial on (SPEC 14.6).
        max_stale: seconds that a warm session is kept without being confirmed anew.

    Raises:
        ConfigError: no zone, or a time that is none.
    """

    public_key: PublicKey
    zones: tuple[Zone, ...]
    grant: Grant | None = field(default=None, repr=False)
    session_idle: float = 90.0
    limits: Limits = field(default_factory=Limits)
    keep_warm: bool = False
    max_stale: float = 300.0

    def __post_init__(self) -> None:
        """Check what can be checked without a server."""
        if not self.zones:
            msg = "a Soar client needs a zone"
            raise ConfigError(msg)
        for name in ("session_idle", "max_stale"):
            if not getattr(self, name) > 0:
                msg = f"{name} is {getattr(self, name)}; it is a number of seconds above 0"
                raise ConfigError(msg)
