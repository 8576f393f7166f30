"""Pump a sans-IO machine over a byte stream until it is done, and close a stream whatever stands in the way."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

import anyio

if TYPE_CHECKING:
    from anyio.abc import AsyncResource, ByteStream

__all__ = ("Machine", "close_by_force", "drive")

logger = logging.getLogger("racer.net")


class Machine(Protocol):
    """One side of a conversation: bytes in, bytes out, no IO. Its own errors are its failure to go on."""

    @property
    def is_done(self) -> bool:
        """Whether nothing more is to be received; what it still wants to say is said before `drive` returns."""

    def bytes_to_send(self) -> bytes:
        """Return what is to be sent now, once; empty when it is the peer's turn."""

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the peer, cut anywhere."""


async def drive(machine: Machine, stream: ByteStream) -> None:
    """Return when `machine` is done; the stream stays the caller's, also on failure and cancellation.

    A peer may say why and hang up without having listened: what it said counts, though sending to it fails.

    Raises:
        anyio.EndOfStream, anyio.BrokenResourceError: the peer ended, or the path broke, before that.
        Exception: whatever the machine raises.
    """
    is_deaf = False
    while True:
        if data := machine.bytes_to_send():
            try:
                await stream.send(data)
            except anyio.BrokenResourceError:
                is_deaf = True
        if machine.is_done:
            if is_deaf:
                raise anyio.BrokenResourceError
            return
        machine.receive_data(await stream.receive())


async def close_by_force(resource: AsyncResource) -> None:
    """Close `resource` at once, in a task that may be cancelled already; errors in closing are logged, not raised.

    Shielded, and no wait: the scope is cancelled before anything in it can begin to wait.
    """
    try:
        with anyio.CancelScope(shield=True) as scope:
            scope.cancel()
            await resource.aclose()
    except Exception:
        logger.debug("closing by force failed", exc_info=True)
