"""How to end a trio task that has shielded itself from cancellation."""

from __future__ import annotations

from typing import NoReturn

import outcome
import trio

__all__ = ("TrioGrip",)


class TrioGrip:
    """A hold on the trio task that makes it; see `racer.testing._loops.TaskGrip`.

    Trio has no call for this, but each half of it is public: whoever suspends a task gives trio an abort
    function, which takes the task off whatever list it waits on, and the task may then be rescheduled.
    """

    def __init__(self) -> None:
        """Take hold of the current task."""
        self._task = trio.lowlevel.current_task()

    def throw(self, exc: Exception, trap: object) -> bool:
        """Throw `exc` into the task, suspended at `trap`; return whether that could be done now."""
        if trio.lowlevel.current_statistics().tasks_runnable:
            return False  # it may be one of them, and would be scheduled twice
        abort = getattr(trap, "abort_func", None)
        if abort is None:
            return False

        def raise_cancel() -> NoReturn:
            raise exc

        if abort(raise_cancel) is not trio.lowlevel.Abort.SUCCEEDED:
            return False  # such as a nursery that waits for its children
        trio.lowlevel.reschedule(self._task, outcome.Error(exc))
        return True
