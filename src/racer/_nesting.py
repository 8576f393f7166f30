"""Dials within dials: a guest may dial through the dialer that runs it, but not without end."""

from __future__ import annotations

import contextvars
import weakref
from typing import TYPE_CHECKING, Final

from racer.errors import TransportCrashed

if TYPE_CHECKING:
    from racer._attempt import Run
    from racer._roster import Place
    from racer._target import Target

__all__ = ("endless", "enter")

_MAX_DEPTH: Final = 8
_MAX_SAME: Final = 2  # once is nobody's mistake: a caller's check may well open a second connection

# The attempts in which the running task dials, outermost first. Weak: an attempt's own context is among its parts.
_above: contextvars.ContextVar[tuple[weakref.ref[Run], ...]] = contextvars.ContextVar(
    "racer_attempts", default=()
)


def enter(run: Run) -> None:
    """Let whatever dials inside `run` be known as such."""
    run.context.run(_above.set, (*_above.get(), weakref.ref(run)))


def endless(place: Place, target: Target) -> TransportCrashed | None:
    """Return the failure of an attempt by `place` that this task would begin inside itself; `None` if it would not.

    Dials inside one another are also bounded in number, for those that ask for another target each time.
    """
    if not (chain := _above.get()):
        return None
    above = [run for ref in chain if (run := ref()) is not None and run.is_undecided]
    same = [
        run
        for run in above
        if run.place.tenure is place.tenure
        and (run.target.host, run.target.port) == (target.host, target.port)
    ]
    if len(same) >= _MAX_SAME:
        msg = "it dials its own target through its own dialer; leave it out with exclude=, or dial by another one"
        return TransportCrashed(msg)
    if len(above) >= _MAX_DEPTH:
        msg = f"{len(above)} dials inside one another, which is taken for one without end"
        return TransportCrashed(msg)
    return None
