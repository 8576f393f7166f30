"""Guests for tests of what surrounds a race: each does as it is told, and keeps a diary of what it was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

from racer.abc import Traits, Transport
from racer.testing import StreamLedger, stream_pair

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import ByteStream

    from racer.abc import Host, Progress, Target
    from racer.testing import MemoryStream

__all__ = ("Plain", "Starting")

Diary = list[tuple[str, float]]
"""What happened, and when on the loop's clock."""


class Plain(Transport):
    """Connects after `after` seconds, or fails then with `error`.

    Args:
        name: the guest's.
        after: seconds that `connect` takes.
        error: what `connect` raises instead of returning a stream.
        close_delay: seconds that a stream takes to close in good order.
        last_words: seconds that a cancelled `connect` takes to end, whatever anybody does.
        goodbye: what `aclose` does.
        credential: what was last given to `update_credential`.
    """

    def __init__(
        self,
        name: str = "plain",
        *,
        after: float = 0.0,
        error: BaseException | None = None,
        close_delay: float = 0.0,
        last_words: float = 0.0,
        goodbye: Callable[[], Awaitable[object]] | None = None,
        traits: Traits | None = None,
    ) -> None:
        self.name = name
        self.after = after
        self.error = error
        self.close_delay = close_delay
        self.last_words = last_words
        self.goodbye = goodbye
        if traits is not None:
            self.traits = traits
        self.diary: Diary = []
        self.streams: list[MemoryStream] = []
        self.ledger = StreamLedger()
        self.credential: object = None

    @property
    def events(self) -> list[str]:
        return [what for what, _ in self.diary]

    def note(self, what: str) -> None:
        self.diary.append((what, anyio.current_time()))

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        self.note("connect")
        return await self.reach(target, progress)

    async def reach(self, target: Target, progress: Progress) -> ByteStream:
        try:
            await anyio.sleep(self.after)
        finally:
            if self.last_words:
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(self.last_words)
        if self.error is not None:
            raise self.error
        near, _ = stream_pair(name=f"{self.name} {len(self.streams)}", close_delay=self.close_delay)
        self.ledger.add(near)
        self.streams.append(near)
        return near

    def update_credential(self, credential: object) -> None:
        self.credential = credential

    async def aclose(self) -> None:
        self.note("aclose")
        if self.goodbye is not None:
            await self.goodbye()


class Starting(Plain):
    """A guest with a `start` that takes `start_after` seconds, then raises the next of `start_errors`, if any.

    Args:
        driver: a long-lived task to have the host run.
    """

    def __init__(
        self,
        name: str = "starting",
        *,
        start_after: float = 0.0,
        start_errors: list[BaseException] | None = None,
        driver: Callable[[Starting], Awaitable[Any]] | None = None,
        **told: Any,
    ) -> None:
        super().__init__(name, **told)
        self.start_after = start_after
        self.start_errors = start_errors or []
        self.driver = driver
        self.host: Host | None = None

    async def start(self, host: Host) -> None:
        self.note("start")
        self.host = host
        try:
            await anyio.sleep(self.start_after)
        except BaseException:
            self.note("start cancelled")
            raise
        if self.start_errors:
            raise self.start_errors.pop(0)
        if self.driver is not None:
            host.start_soon(self.driver, self, name=f"{self.name} driver")
        self.note("started")
