"""Questions to one resolver in datagrams (RFC 1035)."""

from __future__ import annotations

import logging
import math
from collections import deque
from typing import TYPE_CHECKING, Final

import anyio
from anyio.abc import SocketAttribute

from racer.errors import RacerError
from transports._net.drive import close_by_force
from transports._net.wakeup import Wakeup

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Sequence

    from anyio.abc import TaskGroup, UnreliableObjectStream

    from transports.soar.carriers.abc import Deliver, Failed

__all__ = ("UDPCarrier",)

_MAX_DATAGRAM: Final = (
    4096  # octets; we never ask for more, and a larger buffer costs time for each datagram
)
_BATCH: Final = 64  # datagrams taken in one go, so that other tasks get their turn
_MAX_WAITING: Final = 256  # questions that wait for a socket
_FAREWELL: Final = (
    10.0  # seconds that a replaced socket still listens: late answers count (SPEC 5.4)
)
_IDLE: Final = 30.0  # seconds without a question after which the socket is closed
_RETRY: Final = 0.25  # seconds between tries to open a socket

_PATH_ERRORS: Final = (OSError, RacerError, anyio.BrokenResourceError, anyio.ClosedResourceError)

logger = logging.getLogger("racer.soar")


class UDPCarrier:
    """Has one socket at a time, and the one before for as long as answers may still come to it.

    Args:
        open_datagrams: makes a socket that talks to the resolver alone; over a plain socket, datagrams are read and
            written without a task switch for each.
    """

    def __init__(
        self, open_datagrams: Callable[[], Awaitable[UnreliableObjectStream[bytes]]]
    ) -> None:
        """Open nothing."""
        self._open_datagrams = open_datagrams
        self._waiting: deque[bytes] = deque(maxlen=_MAX_WAITING)
        self._current: _Socket | None = None
        self._wanted: Wakeup | None = None
        self._is_wanted = False

    def send(self, messages: Sequence[bytes], *, fresh: bool = False) -> None:
        """As `Carrier.send`."""
        current = self._current
        if current is not None and not fresh and current.send(messages):
            return
        if current is not None and fresh:
            current.retire()
            self._current = None
        self._waiting.extend(messages)
        self._is_wanted = True
        if self._wanted is not None:
            self._wanted.set()

    async def run(self, deliver: Deliver, failed: Failed) -> None:
        """As `Carrier.run`."""
        self._wanted = Wakeup()
        async with anyio.create_task_group() as tasks:
            while True:
                if not self._is_wanted:
                    await self._wanted.wait()
                    continue
                self._is_wanted = False
                await self._open(tasks, deliver, failed)

    async def _open(self, tasks: TaskGroup, deliver: Deliver, failed: Failed) -> None:
        try:
            stream = await self._open_datagrams()
        except _PATH_ERRORS as exc:
            self._waiting.clear()
            failed(exc)
            await anyio.sleep(_RETRY)
            return
        held = _Socket(stream)
        self._current = held
        tasks.start_soon(self._serve, held, deliver, failed)
        waiting = list(self._waiting)
        self._waiting.clear()
        held.send(waiting)

    async def _serve(self, held: _Socket, deliver: Deliver, failed: Failed) -> None:
        try:
            await held.serve(deliver)
        except _PATH_ERRORS as exc:
            if self._current is held:
                self._current = None
                failed(exc)
        finally:
            if self._current is held:
                self._current = None
            await close_by_force(held.stream)


class _Socket:
    """One socket, for as long as it is of use."""

    def __init__(self, stream: UnreliableObjectStream[bytes]) -> None:
        self.stream = stream
        self._sock: socket.socket | None = stream.extra(SocketAttribute.raw_socket, None)
        self._queue: deque[bytes] = deque(maxlen=_MAX_WAITING)
        self._queued = Wakeup()
        self._used_at = anyio.current_time()
        self._scope = anyio.CancelScope()
        self._is_retired = False

    def send(self, messages: Sequence[bytes]) -> bool:
        """Send, or say that this socket is of no more use."""
        if self._is_retired:
            return False
        self._used_at = anyio.current_time()
        if self._sock is None:
            self._queue.extend(messages)
            self._queued.set()
            return True
        try:
            for message in messages:
                self._sock.send(message)
        except BlockingIOError:
            pass  # the system's buffer is full: the rest is lost, as it may be on any link
        except OSError as exc:
            # An answer of the network to an earlier datagram, or no way there now; the reader meets it as well.
            logger.debug("a datagram was not taken: %s", type(exc).__name__)
        return True

    def retire(self) -> None:
        """Send no more, and listen only for what is late."""
        self._is_retired = True
        self._scope.deadline = min(self._scope.deadline, anyio.current_time() + _FAREWELL)

    async def serve(self, deliver: Deliver) -> None:
        """Read until it is retired or has had nothing to do for a while.

        Raises:
            OSError, anyio.BrokenResourceError: the network says that questions did not arrive.
        """
        with self._scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch)
                if self._sock is None:
                    tasks.start_soon(self._write)
                    await self._read_stream(deliver)
                else:
                    await self._read_socket(self._sock, deliver)

    async def _watch(self) -> None:
        while (end := self._used_at + _IDLE) > anyio.current_time():  # noqa: ASYNC110 - the end moves on, silently
            await anyio.sleep_until(end)
        self._is_retired = True
        self._scope.cancel()

    async def _read_socket(self, sock: socket.socket, deliver: Deliver) -> None:
        while True:
            await anyio.wait_readable(sock)
            batch: list[bytes] = []
            try:
                for _ in range(_BATCH):
                    batch.append(sock.recv(_MAX_DATAGRAM))  # noqa: PERF401 - until there is none
            except BlockingIOError:
                pass
            except ConnectionRefusedError:
                if not batch:
                    raise
            if batch:
                deliver(batch)

    async def _read_stream(self, deliver: Deliver) -> None:
        while True:
            deliver((await self.stream.receive(),))

    async def _write(self) -> None:
        while True:
            while self._queue:
                await self.stream.send(self._queue.popleft())
            await self._queued.wait(math.inf)
