"""Closing what a race leaves behind: bounded in time, bounded in number, and never in anybody's way (R10, R22)."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ("CLOSE_GRACE", "END_WARNING", "Cleanups", "Closable", "Leftover", "close_within")

logger = logging.getLogger("racer.host")

CLOSE_GRACE: Final = 2.0
"""Seconds a stream may take to close in good order, before it is closed by force (R10)."""

END_WARNING: Final = 1.0
"""Seconds a cancelled guest may take to end, before it is named in a warning (R10)."""


class Closable(Protocol):
    """A stream, or a route for requests."""

    async def aclose(self) -> None:
        """Free it; by force when the call is cancelled."""


async def close_within(
    resource: Closable, *, grace: float = CLOSE_GRACE, scope: anyio.CancelScope
) -> None:
    """Close `resource` in good order within `grace` seconds, else by force; errors in closing are logged, not raised.

    Runs to its end under cancellation. Where a native asyncio cancel cuts through the shield, the resource is closed
    by force before the cancellation goes on (R19).

    Args:
        resource: what to close; it is this function's alone.
        grace: seconds until force is used.
        scope: a fresh scope; cancelling it means force, now.
    """
    try:
        scope.shield = True
        scope.deadline = anyio.current_time() + grace
        with scope:
            await resource.aclose()
    except Exception as exc:  # noqa: BLE001 - a stream that cannot even close has nothing left to tell
        # Without its words, which may name a peer (T5): nothing but this line needs them.
        logger.debug("closing a stream failed: %s", type(exc).__name__)
    except BaseException:
        await _close_by_force(resource)
        raise
    else:
        if scope.cancelled_caught:
            await _close_by_force(resource)


async def _close_by_force(resource: Closable) -> None:
    try:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await resource.aclose()
    except Exception as exc:  # noqa: BLE001 - a stream that cannot even close has nothing left to tell
        logger.debug("closing a stream by force failed: %s", type(exc).__name__)


class Leftover(Protocol):
    """Something of a decided attempt that is still ending."""

    @property
    def transport_name(self) -> str:
        """The entrant's name."""

    @property
    def decided_at(self) -> float:
        """When its outcome was fixed, on the loop's clock."""

    def force(self) -> None:
        """Close by force what racer holds of it; synchronous."""


class Cleanups:
    """Every leftover of one host, oldest first.

    Args:
        limit: how many may be under way; past it the oldest is closed by force (R22).
        on_done: told of each that ended: the transport's name, and the seconds it took.
    """

    def __init__(self, *, limit: int, on_done: Callable[[str, float], None]) -> None:
        """Begin with none."""
        self._limit = limit
        self._on_done = on_done
        self._pending: dict[Leftover, None] = {}
        self._forced: set[Leftover] = set()
        self._warned: set[Leftover] = set()
        self._changed: anyio.Event | None = None

    def __len__(self) -> int:
        """Return how many are under way, those that were already forced included."""
        return len(self._pending) + len(self._forced)

    def __iter__(self) -> Iterator[Leftover]:
        """Yield each, oldest first."""
        yield from self._forced
        yield from self._pending

    def add(self, leftover: Leftover) -> None:
        """Count one in; the oldest makes room by force when the limit is reached."""
        if len(self._pending) >= self._limit:
            oldest = next(iter(self._pending))
            del self._pending[oldest]
            self._forced.add(oldest)
            oldest.force()
        self._pending[leftover] = None

    def discard(self, leftover: Leftover, now: float) -> None:
        """Count one out, if it was in."""
        if leftover in self._pending:
            del self._pending[leftover]
        elif leftover in self._forced:
            self._forced.discard(leftover)
        else:
            return
        self._warned.discard(leftover)
        self._on_done(leftover.transport_name, now - leftover.decided_at)
        if self._changed is not None and not len(self):
            self._changed.set()

    def force_all(self) -> None:
        """Close all by force."""
        for leftover in list(self._pending):
            leftover.force()

    async def drained(self) -> None:
        """Wait until none is under way."""
        while len(self):
            self._changed = anyio.Event()
            try:
                await self._changed.wait()
            finally:
                self._changed = None

    async def watch(self) -> None:
        """Warn of each that takes longer than `END_WARNING`; returns when none is left to watch."""
        while (due := self._next_warning()) is not None:
            await anyio.sleep_until(due)
            self._warn(anyio.current_time())

    # Functions of their own, since a waiting frame would keep alive what its variables name (R13).

    def _next_warning(self) -> float | None:
        times = [one.decided_at for one in self if one not in self._warned]
        return min(times) + END_WARNING if times else None

    def _warn(self, now: float) -> None:
        late = [
            one for one in self if one not in self._warned and one.decided_at + END_WARNING <= now
        ]
        self._warned.update(late)
        # One line a transport: a network that swallows everything would write hundreds at once.
        for name, count in Counter(one.transport_name for one in late).items():
            logger.warning(
                "transport %r has not ended %.1f s after %s over",
                name,
                END_WARNING,
                "its attempt was" if count == 1 else f"{count} of its attempts were",
            )
