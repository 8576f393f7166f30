"""A signal for one task that waits again and again."""

from __future__ import annotations

import anyio

__all__ = ("Wakeup",)


class Wakeup:
    """Wakes the one task that waits, or lets its next wait pass; calls in between count once."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        """Begin unset; needs a running event loop."""
        self._event = anyio.Event()

    def set(self) -> None:
        """Wake; in the loop's own thread."""
        self._event.set()

    async def wait(self, deadline: float | None = None) -> None:
        """Return once `set` has been called, or when `deadline` has come on the loop's clock."""
        if deadline is None:
            await self._event.wait()
        else:
            with anyio.CancelScope(deadline=deadline):
                await self._event.wait()
        if self._event.is_set():
            self._event = anyio.Event()
