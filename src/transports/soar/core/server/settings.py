"""What a server is told when it begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from racer.errors import ConfigError
from transports.soar.core.server.tombstones import TOMBSTONE_LIFE

if TYPE_CHECKING:
    from transports.soar.core.crypto.keys import ServerKey
    from transports.soar.core.dns.authority import Authority
    from transports.soar.core.dns.zone import Zones
    from transports.soar.core.server.credentials import IssuedGrant

__all__ = ("ServerSettings",)

IDLE_TIMEOUT: Final = 120.0  # seconds, SPEC 15.2
MAX_SESSIONS: Final = 20_000
MEMORY: Final = 256 << 20  # octets of all sessions together, above which windows become small


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How a server is to behave.

    Attributes:
        key: its key pair.
        zones: what it is the authority for; the first is the one that clients are told of.
        authority: what answers everything in and around the zones that is not for a session.
        idle_timeout: seconds of silence that end a session, to a tenth; at most 600.
        max_sessions: at once.
        max_streams: at once, of one session.
        grants: the credentials that it knows.
        needs_grant: whether a client has to show one. If not, none is looked at.
        memory: octets that all sessions may hold before they get small windows; at twice as many, those that hold the
            most have to go.

    Raises:
        ConfigError: a value is out of range.
    """

    key: ServerKey
    zones: Zones
    authority: Authority
    idle_timeout: float = IDLE_TIMEOUT
    max_sessions: int = MAX_SESSIONS
    max_streams: int = 128
    grants: tuple[IssuedGrant, ...] = ()
    needs_grant: bool = False
    memory: int = MEMORY

    def __post_init__(self) -> None:
        """Check the ranges."""
        if not 0.1 <= self.idle_timeout <= TOMBSTONE_LIFE:
            # A tombstone has to outlive what a notice vouches for (SPEC 15.4).
            msg = f"idle_timeout is {self.idle_timeout} s; it must be from 0.1 to {TOMBSTONE_LIFE:.0f}"
            raise ConfigError(msg)
        for name, value, least, most in (
            ("max_sessions", self.max_sessions, 1, 1 << 20),
            ("max_streams", self.max_streams, 1, 0xFFFF),
            ("memory", self.memory, 1 << 20, 1 << 40),
        ):
            if not least <= value <= most:
                msg = f"{name} is {value}; it must be from {least} to {most}"
                raise ConfigError(msg)
