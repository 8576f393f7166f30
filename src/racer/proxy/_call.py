"""A race that is run while its client waits, and given up when the client goes away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from racer._connection import Connection

if TYPE_CHECKING:
    from anyio.abc import ByteStream

    from racer._race import Race

__all__ = ("MAX_EARLY", "Call")

MAX_EARLY: Final = 64 * 1024
"""Bytes that a client may send before it was answered; more wait in its own buffers."""


class Call:
    """One race for one client.

    A client that ends its side before it was answered has gone, unless it has said something for the target already: then
    it may well have said all that it wants to.

    Args:
        stream: the client's.
        early: what it has sent behind its request.

    Attributes:
        connection: what the race gave, the caller's to close; `None` if it gave nothing.
        error: why not; `None` together with `connection` if the client has gone.
        early: what the client has sent for the target by now.
    """

    def __init__(self, stream: ByteStream, early: bytes) -> None:
        """Keep them."""
        self.connection: Connection | None = None
        self.error: Exception | None = None
        self.early = early
        self._stream = stream

    async def make(self, race: Race) -> None:
        """Run the race; set `connection` or `error`, or neither."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch, group.cancel_scope)
                try:
                    async with race:
                        winner = await anext(race)
                        assert isinstance(winner, Connection)  # a race for streams has nothing else
                        self.connection = winner
                except Exception as exc:  # noqa: BLE001 - the client is told, whatever it was
                    self.error = exc
                group.cancel_scope.cancel()
        except BaseException:
            if (
                self.connection is not None
            ):  # it stood in the moment in which all of this was cancelled
                self.connection.abort()
            raise

    async def _watch(self, scope: anyio.CancelScope) -> None:
        try:
            while len(self.early) < MAX_EARLY:
                self.early += await self._stream.receive(MAX_EARLY - len(self.early))
        except anyio.EndOfStream:
            if not self.early:
                scope.cancel()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            scope.cancel()
