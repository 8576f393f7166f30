"""What is going on in a dialer, as frozen data."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from racer._logs import log_error
from racer.abc import TransportStatus

if TYPE_CHECKING:
    from racer._report import Attempt
    from racer._roster import Place

__all__ = ("DialerStatus", "EntrantStatus", "status_of")

logger = logging.getLogger("racer.dialer")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrantStatus:
    """One entrant, as it is now.

    Attributes:
        name: the entrant's.
        start_delay, tier: its place in the race.
        active: attempts under way, those that only clean up included.
        last: its last attempt that began; `None` before the first.
        transport: what the guest says of itself: health, sessions.
    """

    name: str
    start_delay: float
    tier: int
    active: int
    last: Attempt | None
    transport: TransportStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class DialerStatus:
    """A dialer, as it is now.

    Attributes:
        entrants: in the order listed.
        races: races under way.
        cleanups: leftovers of decided attempts that are still being closed (R22).
        closed: whether it has ended.
        generation: grows with every `replace`, `reconfigure` and `update_credential`, from 1; each dial span has the one
            that its race was made in as `racer.config.generation`.
        leaving: guests that were replaced or taken out, and are still in use.
    """

    entrants: tuple[EntrantStatus, ...]
    races: int
    cleanups: int
    closed: bool
    generation: int = 1
    leaving: int = 0

    def __getitem__(self, name: str) -> EntrantStatus:
        """Return the entrant of that name; `KeyError` if there is none."""
        for entrant in self.entrants:
            if entrant.name == name:
                return entrant
        raise KeyError(name)


def status_of(place: Place, *, redacted: bool) -> EntrantStatus:
    """Return one entrant as it is now; a guest that cannot tell is said to be so.

    Args:
        place: the entrant's.
        redacted: whether the error of one that cannot is logged without its own words (T5).
    """
    try:
        told: object = place.lodger.guest.status()
        if not isinstance(told, TransportStatus):
            msg = f"status() returned {type(told).__name__}, not a TransportStatus"
            raise TypeError(msg)  # noqa: TRY301 - logged like any other of its bugs
    except Exception as exc:  # noqa: BLE001 - a guest's bug, which hides no other's status
        log_error(
            logger,
            logging.ERROR,
            "transport %r failed to tell its status",
            place.name,
            error=exc,
            redacted=redacted,
        )
        told = TransportStatus(health=f"its status() failed: {type(exc).__name__}")
    return EntrantStatus(
        name=place.name,
        start_delay=place.start_delay,
        tier=place.tier,
        active=place.tenure.active,
        last=place.tenure.last,
        transport=told,
    )
