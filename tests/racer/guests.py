"""A scripted guest for tests of its home: with a driver, a goodbye of the test's own, and a diary of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

from racer.testing import Script, ScriptedTransport, wins

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from racer.abc import Host

__all__ = ("Hosted",)

_WINS = wins()


class Hosted(ScriptedTransport):
    """A scripted transport that also runs things in its host.

    Args:
        name: its name.
        script: what it does when it is asked to connect.
        driver: a long-lived task that `start` gives to the host.
        goodbye: what `aclose` does.
        told: as for `ScriptedTransport`.

    Attributes:
        diary: what `note` was told, and when on the loop's clock.
        host: what `start` was given.
    """

    def __init__(
        self,
        name: str = "hosted",
        script: Script = _WINS,
        *,
        driver: Callable[[Hosted], Awaitable[Any]] | None = None,
        goodbye: Callable[[Hosted], Awaitable[object]] | None = None,
        **told: Any,
    ) -> None:
        super().__init__(name, script, **told)
        self.diary: list[tuple[str, float]] = []
        self.host: Host | None = None
        self._driver = driver
        self._goodbye = goodbye

    def note(self, what: str) -> None:
        self.diary.append((what, anyio.current_time()))

    async def start(self, host: Host) -> None:
        await super().start(host)
        self.host = host
        if self._driver is not None:
            host.start_soon(self._driver, self, name=f"{self.name} driver")

    async def aclose(self) -> None:
        self.note("aclose")
        if self._goodbye is not None:
            await self._goodbye(self)
        await super().aclose()
