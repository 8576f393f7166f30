"""Whether an idle connection is still one: asked right before use, or heard as soon as the peer hangs up (H6)."""

from __future__ import annotations

import select
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
from anyio.abc import SocketAttribute

if TYPE_CHECKING:
    from collections.abc import Callable

    from racer._connection import Connection
    from racer._host import LoopHost

__all__ = ("Liveness",)


class Liveness:
    """Knows of anything that comes while a connection is idle; nothing proper does, so that it is the end of it.

    A socket is asked without waiting. A stream without one, such as a tunnel's, is read by a task of the host while it
    is idle: what it says of itself could not be asked.

    Args:
        connection: whose it is; read here only between `watch` and `settled`.
        host: where that task lives.
        on_death: called when the task heard something.
    """

    def __init__(
        self, connection: Connection, host: LoopHost, on_death: Callable[[], None]
    ) -> None:
        """Look for a socket."""
        self._connection = connection
        self._host = host
        self._on_death = on_death
        self._readable = _asker(connection.extra(SocketAttribute.raw_socket, None))
        self._scope: anyio.CancelScope | None = None
        self._ended: anyio.Event | None = None
        self._heard = False

    def is_quiet(self) -> bool:
        """Return whether nothing has come; no IO that waits."""
        return not self._heard and (self._readable is None or not self._readable())

    @property
    def is_watching(self) -> bool:
        """Whether the watching task has not ended, so that nobody else may read."""
        return self._ended is not None

    def watch(self) -> None:
        """Begin to listen, where asking would not do; synchronous."""
        if self._readable is None and self._ended is None and self._host.is_open:
            self._scope, self._ended = anyio.CancelScope(), anyio.Event()
            self._host.start_soon(self._listen, self._scope, self._ended, name="racer http idle")

    def stop(self) -> None:
        """Stop listening; synchronous, `settled` waits for it."""
        if self._scope is not None:
            self._scope.cancel()

    async def settled(self) -> None:
        """Stop listening, and return when that has ended."""
        self.stop()
        if self._ended is not None:
            await self._ended.wait()

    async def _listen(self, scope: anyio.CancelScope, ended: anyio.Event) -> None:
        try:
            with scope:
                # Whatever it gives or raises, it is no idle connection any more.
                with suppress(Exception):
                    await self._connection.receive(1)
                self._heard = True
        finally:
            self._scope = self._ended = None
            ended.set()
            if self._heard:
                self._on_death()


def _asker(sock: Any) -> Callable[[], bool] | None:  # noqa: ANN401 - a socket, or what a loop has in its place
    """Return a function that says whether there is something to read; `None` without a socket."""
    if sock is None:
        return None
    if not hasattr(select, "poll"):  # Windows
        return lambda: bool(select.select([sock], [], [], 0)[0])
    poller = select.poll()
    poller.register(sock.fileno(), select.POLLIN | select.POLLPRI)

    def readable() -> bool:
        return sock.fileno() < 0 or bool(poller.poll(0))

    return readable
