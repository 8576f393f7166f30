"""A carrier under way, and what it told."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from transports.soar.carriers.abc import Carrier


@dataclass
class Told:
    """What came out of a carrier, each with the time at which it did."""

    answers: list[tuple[float, bytes]] = field(default_factory=list)
    failures: list[tuple[float, Exception]] = field(default_factory=list)
    changed: anyio.Event = field(default_factory=anyio.Event)

    def deliver(self, messages: Sequence[bytes]) -> None:
        """Take answers."""
        self.answers += [(anyio.current_time(), message) for message in messages]
        self._change()

    def failed(self, error: Exception) -> None:
        """Take a failure."""
        self.failures.append((anyio.current_time(), error))
        self._change()

    async def until(self, *, answers: int = 0, failures: int = 0) -> None:
        """Wait until so much was told."""
        while len(self.answers) < answers or len(self.failures) < failures:
            await self.changed.wait()

    def _change(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


@asynccontextmanager
async def driven(carrier: Carrier) -> AsyncIterator[Told]:
    """Yield what a carrier tells while it runs; leaving cancels it."""
    told = Told()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(carrier.run, told.deliver, told.failed)
        await settle()
        yield told
        tasks.cancel_scope.cancel()


async def settle() -> None:
    """Let everybody do what needs no time."""
    for _ in range(20):
        await anyio.lowlevel.checkpoint()
