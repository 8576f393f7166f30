"""What a guest has to say about itself, as frozen data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from racer.abc import AttributeValue

__all__ = ("SessionStatus", "TransportStatus")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """One session of a guest, as `Dialer.status()` shows it.

    Attributes:
        id: a short public handle, no secret.
        state: the guest's own word for its state.
        streams: open streams.
        idle: seconds since the peer last proved that it knows the session; `None` when unknown.
    """

    id: str
    state: str
    streams: int = 0
    idle: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportStatus:
    """What a guest has to say about itself now.

    Attributes:
        health: one word or sentence: `ok` when there is nothing to say.
        sessions: its sessions, newest first.
        details: whatever else helps; no secret.
    """

    health: str = "ok"
    sessions: tuple[SessionStatus, ...] = ()
    details: Mapping[str, AttributeValue] = field(default_factory=dict)
