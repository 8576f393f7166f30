"""How a host lets go: of one stream that a race left behind, and of all its guests at the end (R10, R19)."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import anyio

from racer._cleanup import close_within
from racer._logs import log_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from racer._cleanup import Cleanups, Closable

__all__ = ("Closer", "close_at_once", "say_goodbye")

logger = logging.getLogger("racer.host")


class Closer:
    """Closes one stream that a race handed to the host, then gives back the guest it came of.

    Args:
        cleanups: where it counts itself.
        resource: what to close.
        transport_name: the entrant's name.
        release: gives the guest back; not before, or one that was replaced would be closed under its stream.

    Attributes:
        transport_name: the entrant's name.
        decided_at: when the stream was handed over, on the loop's clock.
    """

    def __init__(
        self,
        cleanups: Cleanups,
        resource: Closable,
        transport_name: str,
        release: Callable[[], None],
    ) -> None:
        """Count itself among `cleanups`; `run` closes."""
        self.transport_name = transport_name
        self.decided_at = anyio.current_time()
        self._cleanups = cleanups
        self._resource = resource
        self._release = release
        self._scope = anyio.CancelScope()
        cleanups.add(self)

    def force(self) -> None:
        """Close by force, now or as soon as it runs."""
        self._scope.cancel()

    async def run(self) -> None:
        """Close, bounded."""
        try:
            await close_within(self._resource, scope=self._scope)
        finally:
            self._cleanups.discard(self, anyio.current_time())
            self._release()


async def close_at_once(resource: Closable) -> None:
    """Close by force what has no host any more."""
    scope = anyio.CancelScope()
    scope.cancel()
    await close_within(resource, scope=scope)


async def say_goodbye(
    goodbyes: Mapping[str, Callable[[], Awaitable[None]]],
    *,
    limit: float,
    spawn: Callable[[Callable[[], Awaitable[None]], str], None],
    redacted: bool,
) -> None:
    """Run every guest's `aclose` at the same time; waits no longer than `limit`, not even for one that shields itself.

    Args:
        goodbyes: the `aclose` functions by the guests' names.
        limit: seconds each may take.
        spawn: starts a task of that name.
        redacted: whether errors are logged without their own words.
    """
    left = set(goodbyes)
    if not left:
        return
    all_said = anyio.Event()

    async def say(name: str) -> None:
        try:
            # Shielded, since where a loop ends, trio has already cancelled all that is in the group.
            with anyio.move_on_after(limit, shield=True):
                await goodbyes[name]()
                left.discard(name)
        except Exception as exc:  # noqa: BLE001 - a guest's bug, which hurts no other
            left.discard(name)
            log_error(
                logger,
                logging.ERROR,
                "closing transport %r failed",
                name,
                error=exc,
                redacted=redacted,
            )
        finally:
            if not left:
                all_said.set()

    for name in goodbyes:
        spawn(partial(say, name), f"{name} aclose")
    with anyio.move_on_after(limit):
        await all_said.wait()
    for name in sorted(left):
        logger.warning("transport %r did not close within %.1f s", name, limit)
