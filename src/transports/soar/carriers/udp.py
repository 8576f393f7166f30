"""Questions to one resolver in datagrams (RFC 1035)."""

from __future__ import annotations

import errno
import logging
import socket
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio
from anyio.abc import SocketAttribute

from racer.errors import RacerError
from transports._net.drive import close_by_force
from transports._net.udp import DatagramSocket
from transports._net.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from anyio.abc import TaskGroup, UnreliableObjectStream

    from transports.soar.carriers.abc import Deliver, Failed

__all__ = ("UDPCarrier",)

_MAX_DATAGRAM: Final = (
    4096  # octets; we never ask for more, and a larger buffer costs time for each datagram
)
_BUFFER: Final = 1 << 20  # octets, of the socket: for answers that come while the loop is busy
_BATCH: Final = 64  # datagrams taken in one go, so that other tasks get their turn
_MAX_WAITING: Final = 256  # questions that wait for a socket
_FAREWELL: Final = (
    10.0  # seconds that a replaced socket still listens: late answers count (SPEC 5.4)
)
_IDLE: Final = 30.0  # seconds without a question after which the socket is closed
# Seconds after a failure, doubling until something is answered: a closed port answers at once, and to no end.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 1.0

_PATH_ERRORS: Final = (
    OSError,
    RacerError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
)

logger = logging.getLogger("racer.soar")


class UDPCarrier:
    """Has one socket at a time, and the one before for as long as answers may still come to it.

    What fails is told, and made anew after a pause when there is something to ask.

    Args:
        open_datagrams: makes a socket that talks to the resolver alone; over one of our own, datagrams are read and
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
        self._pause = _FIRST_PAUSE
        self._not_before = float("-inf")

    @property
    def trouble(self) -> str:
        """As `Carrier.trouble`: what is no answer is not looked at here."""
        return ""

    def send(self, messages: Sequence[bytes], *, fresh: bool = False) -> None:
        """As `Carrier.send`."""
        current = self._current
        if current is not None and not fresh and current.send(messages):
            return
        if current is not None:
            current.retire()
            self._current = None
        self._waiting.extend(messages)
        self._is_wanted = True
        if self._wanted is not None:
            self._wanted.set()

    async def run(self, deliver: Deliver, failed: Failed) -> None:
        """As `Carrier.run`."""

        def heard(messages: Sequence[bytes]) -> None:
            self._pause = _FIRST_PAUSE
            deliver(messages)

        self._wanted = Wakeup()
        async with anyio.create_task_group() as tasks:
            while True:
                while not self._is_wanted:
                    await self._wanted.wait()
                await anyio.sleep_until(self._not_before)
                await self._open(tasks, heard, failed)

    async def _open(self, tasks: TaskGroup, deliver: Deliver, failed: Failed) -> None:
        try:
            stream = await self._open_datagrams()
        except _PATH_ERRORS as exc:
            self._is_wanted = False
            self._waiting.clear()
            self._fail(exc, failed)
            return
        held = self._current = _Socket(stream)
        tasks.start_soon(self._serve, held, deliver, failed)
        waiting = list(self._waiting)
        self._waiting.clear()
        self._is_wanted = False  # also what was asked for while it was being made
        held.send(waiting)

    async def _serve(self, held: _Socket, deliver: Deliver, failed: Failed) -> None:
        error: Exception | None = None
        try:
            error = await held.serve(deliver)
        finally:
            is_current = self._current is held
            if is_current:
                self._current = None
            await close_by_force(held.stream)
        if error is not None and is_current:
            self._fail(error, failed)

    def _fail(self, error: Exception, failed: Failed) -> None:
        self._not_before = anyio.current_time() + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        logger.debug("a resolver could not be asked: %s", type(error).__name__)
        failed(error)


class _Socket:
    """One socket, for as long as it is of use."""

    def __init__(self, stream: UnreliableObjectStream[bytes]) -> None:
        self.stream = stream
        # An event loop may read from another's socket by itself; only ours is nobody else's.
        self._sock: socket.socket | None = (
            stream.extra(SocketAttribute.raw_socket) if isinstance(stream, DatagramSocket) else None
        )
        if self._sock is not None:
            with suppress(OSError):
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        self._queue: deque[bytes] = deque(maxlen=_MAX_WAITING)
        self._queued = Wakeup()
        self._used_at = anyio.current_time()
        self._scope = anyio.CancelScope()
        self._is_retired = False
        self._error: Exception | None = None

    def send(self, messages: Sequence[bytes]) -> bool:
        """Send, or say that this socket is of no more use. What comes after a failure is lost with the rest."""
        if self._error is not None:
            return True
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
            # There is no way any more, or an earlier datagram met a closed port, which the system tells only once.
            if exc.errno != errno.ENOBUFS:
                self._end(exc)
        return True

    def retire(self) -> None:
        """Send no more, and listen only for what is late."""
        self._is_retired = True
        self._scope.deadline = min(self._scope.deadline, anyio.current_time() + _FAREWELL)

    async def serve(self, deliver: Deliver) -> Exception | None:
        """Read until it is retired or has had nothing to do for a while, or return why questions did not arrive."""
        with self._scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch)
                if self._sock is None:
                    tasks.start_soon(self._write)
                    await self._read_stream(deliver)
                else:
                    await self._read_socket(self._sock, deliver)
        return self._error

    def _end(self, error: Exception | None = None) -> None:
        self._is_retired = True
        self._error = self._error or error
        self._scope.cancel()

    async def _watch(self) -> None:
        while (end := self._used_at + _IDLE) > anyio.current_time():  # noqa: ASYNC110 - the end moves on, silently
            await anyio.sleep_until(end)
        self._end()

    async def _read_socket(self, sock: socket.socket, deliver: Deliver) -> None:
        while self._error is None:
            await anyio.wait_readable(sock)
            batch: list[bytes] = []
            try:
                for _ in range(_BATCH):
                    batch.append(sock.recv(_MAX_DATAGRAM))  # noqa: PERF401 - until there is none
            except BlockingIOError:
                pass
            except OSError as exc:
                self._end(exc)
            if batch:
                deliver(batch)

    async def _read_stream(self, deliver: Deliver) -> None:
        try:
            while True:
                deliver((await self.stream.receive(),))
        except _PATH_ERRORS as exc:
            self._end(exc)

    async def _write(self) -> None:
        try:
            while True:
                while self._queue:
                    await self.stream.send(self._queue.popleft())
                await self._queued.wait()
        except _PATH_ERRORS as exc:
            self._end(exc)
