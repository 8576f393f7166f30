"""The clocks of the machine that Soar runs on."""

from __future__ import annotations

import time
from typing import Final, Protocol

import anyio

from transports.soar.core.instants import Instant

__all__ = ("Clocks", "SystemClocks")

# Counts while the machine sleeps; where there is none (macOS counts sleep in another way, Windows in `monotonic`
# already) a sleeping laptop is taken for one that was awake (SPEC 14.1).
_BOOTTIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


class Clocks(Protocol):
    """Tells the time; `awake` must be the event loop's own clock, since deadlines are waited for on it."""

    def now(self) -> Instant:
        """Return this moment on all three clocks."""


class SystemClocks:
    """The real ones."""

    __slots__ = ()

    def now(self) -> Instant:
        """As `Clocks.now`; inside a running event loop."""
        elapsed = time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)
        return Instant(elapsed, anyio.current_time(), _unix_time())


def _unix_time() -> float:
    # Only ever sent in a handshake and compared with a margin of 90 s (SPEC 7.9): durations never use it.
    return time.time()  # noqa: TID251
