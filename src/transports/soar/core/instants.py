"""Time as a core is told it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ("Instant",)


class Instant(NamedTuple):
    """One moment on the three clocks that Soar needs, in seconds.

    Attributes:
        elapsed: since some fixed point, sleep of the machine included; for how old a session is (SPEC 14.1).
        awake: since some fixed point, sleep excluded; the event loop's clock, for timers and deadlines.
        wall: Unix time; only ever sent in a handshake and compared with a margin (SPEC 7.9).
    """

    elapsed: float
    awake: float
    wall: float
