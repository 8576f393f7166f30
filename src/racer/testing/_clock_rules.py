"""What both virtual clocks agree on: their settings, and the two ways in which time can stop."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ("ClockSettings", "DeadlockError", "Jumps", "LivelockError", "deadlock", "livelock")


class DeadlockError(RuntimeError):
    """Nothing can ever run again: every task waits, no timer is set, and the outside is silent."""


class LivelockError(RuntimeError):
    """Time cannot pass: something was ready in every one of very many passes at one instant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSettings:
    """How a virtual clock behaves.

    Attributes:
        start: What the clock reads when a run begins, in seconds. At 0.0 a timer of 0.3 s fires at
            exactly 0.3; elsewhere floating-point addition decides.
        autojump_threshold: Real seconds of silence from sockets and threads before each jump.
        patience: Real seconds that the outside has to wake a loop that has no timer, before this is
            called a deadlock. Loopback and worker threads answer in milliseconds.
        max_passes: Passes of the scheduler at one instant after which the program is said to spin.
            Ten thousand races one after the other take about 100,000 passes; a busy loop takes a
            million in seconds.
    """

    start: float = 0.0
    autojump_threshold: float = 0.0
    patience: float = 5.0
    max_passes: int = 1_000_000

    def __post_init__(self) -> None:
        """Refuse what no clock could keep."""
        if not (math.isfinite(self.start) and self.start >= 0):
            raise ValueError(f"start must be 0 or more finite seconds, not {self.start!r}")
        for name in ("autojump_threshold", "patience"):
            seconds = getattr(self, name)
            if not seconds >= 0:
                raise ValueError(f"{name} must be 0 or more seconds, not {seconds!r}")
        if self.max_passes < 1:
            raise ValueError(f"max_passes must be at least 1, not {self.max_passes!r}")


class Jumps:
    """Who is told, synchronously and before any timer runs, that a clock has jumped."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self.listeners: list[Callable[[], None]] = []

    def note(self) -> None:
        """Tell every listener that the clock has just jumped."""
        for listener in tuple(self.listeners):
            listener()


def deadlock(now: float, waiting: Iterable[str]) -> DeadlockError:
    """Return the error for a loop that nothing will ever wake."""
    return DeadlockError(
        f"deadlock at t={now}: no task is ready, no timer is set, and nothing outside woke the loop; "
        f"waiting: {_listed(waiting)}"
    )


def livelock(now: float, passes: int, running: Iterable[str]) -> LivelockError:
    """Return the error for a loop that is never idle, so that its clock cannot jump."""
    return LivelockError(
        f"the clock cannot leave t={now}: something was ready in each of {passes} passes; "
        f"alive: {_listed(running)}"
    )


def _listed(tasks: Iterable[str]) -> str:
    return "; ".join(sorted(tasks)) or "no task at all"
