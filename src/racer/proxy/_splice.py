"""A client and its target made one: bytes both ways, each way to its own end, with no more in hand than one piece."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from anyio.abc import ByteStream

    from racer._connection import Connection
    from racer.proxy._tally import Tally

__all__ = ("CHUNK", "NO_HALF_CLOSE_GRACE", "Splice")

CHUNK: Final = 256 * 1024
"""Bytes of one read, and so the most that is held of one direction beside the streams' own buffers.

A megabyte costs half the processor time that it does with 64 KiB (`python -m benchmarks.proxy`); past this little is won.
"""

NO_HALF_CLOSE_GRACE: Final = 10.0
"""Seconds a target may still speak after its client has ended its side, where the stream cannot tell it so."""

logger = logging.getLogger("racer.proxy")


class Splice:
    """Carries bytes between two streams; both stay the caller's to close.

    Args:
        client: the client's stream.
        target: what its race gave.
        tally: counts what is carried.

    Attributes:
        scope: cancelling it ends both ways.
        moved_at: when something was last carried, on the loop's clock.
        is_whole: whether both ways came to their own end.
    """

    def __init__(self, client: ByteStream, target: Connection, tally: Tally) -> None:
        """Carry nothing yet."""
        self._client = client
        self._target = target
        self._tally = tally
        self._ended = 0
        self.scope = anyio.CancelScope()
        self.moved_at = anyio.current_time()

    @property
    def is_whole(self) -> bool:
        """Whether both ways came to their own end."""
        return self._ended == 2

    async def run(self, early: bytes, reply: bytes = b"") -> None:
        """Carry until both ways have ended, one has broken, or `scope` was cancelled.

        Args:
            early: what the client has said already, and the target has not heard.
            reply: what the target has said already, and the client has not heard.
        """
        with self.scope:
            async with anyio.create_task_group() as group:
                group.start_soon(self._up, early)
                await self._down(reply)

    async def _up(self, data: bytes) -> None:
        client, target, tally = self._client, self._target, self._tally
        try:
            while True:
                if data:
                    self.moved_at = anyio.current_time()
                    await target.send(data)
                    tally.sent += len(data)
                data = await client.receive(CHUNK)
        except anyio.EndOfStream:
            await self._end_up()
        except Exception as exc:  # noqa: BLE001 - whatever a guest's stream raises, its tunnel is over
            self._broke(exc)

    async def _end_up(self) -> None:
        try:
            await self._target.send_eof()
        except NotImplementedError:
            self.scope.deadline = anyio.current_time() + NO_HALF_CLOSE_GRACE
        except Exception as exc:  # noqa: BLE001 - likewise
            self._broke(exc)
        self._ended += 1

    async def _down(self, data: bytes) -> None:
        client, target, tally = self._client, self._target, self._tally
        try:
            while True:
                if data:
                    self.moved_at = anyio.current_time()
                    await client.send(data)
                    tally.received += len(data)
                data = await target.receive(CHUNK)
        except anyio.EndOfStream:
            pass
        except Exception as exc:  # noqa: BLE001 - likewise
            self._broke(exc)
            return
        try:
            await client.send_eof()
        except Exception as exc:  # noqa: BLE001 - the client has gone
            self._broke(exc)
        self._ended += 1

    def _broke(self, exc: Exception) -> None:
        """End both ways: a stream that broke must not look to the other side like one that came to its end."""
        # Without its words, which may name a peer (T5).
        logger.debug("a tunnel broke: %s", type(exc).__name__)
        self._ended = -2
        self.scope.cancel()
