"""A transport over nothing: what is left of a dial over it is racer's own work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from anyio.abc import ByteStream

from racer.abc import Transport

if TYPE_CHECKING:
    from racer.abc import Progress, Target

__all__ = ("Memory",)


class Memory(Transport):
    """Gives a stream at once."""

    def __init__(self, name: str = "memory") -> None:
        """Be called `name`."""
        self.name = name

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        """Return a stream that has ended."""
        del target, progress
        return _Ended()


class _Ended(ByteStream):
    """A stream that carries nothing."""

    async def receive(self, max_bytes: int = 65536) -> bytes:
        del max_bytes
        raise anyio.EndOfStream

    async def send(self, item: bytes) -> None:
        del item
        raise anyio.BrokenResourceError

    async def send_eof(self) -> None:
        pass

    async def aclose(self) -> None:
        pass
