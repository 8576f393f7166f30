"""The life of a connection to a resolver: made when there is a question, closed when there has been none for a while."""

from __future__ import annotations

import abc
import math
from collections import deque
from typing import TYPE_CHECKING, Final

import anyio

from racer.errors import ErrorType, NetworkError, RacerError
from transports._net.drive import close_by_force
from transports._net.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from anyio.abc import ByteStream

    from transports.soar.carriers.abc import Deliver, Failed

__all__ = ("ConnectionCarrier", "Machine")

_MAX_WAITING: Final = 256  # questions that wait for a connection
_READ: Final = 65_536
_IDLE: Final = 20.0  # seconds; resolvers close what idles sooner or later (RFC 7766 section 6.2.3)
_SILENCE: Final = (
    5.0  # seconds; who answers nothing for so long is gone, and TCP may take minutes to say so
)
_OPEN_TIMEOUT: Final = 10.0  # seconds for TCP, TLS and what goes before
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 8.0  # seconds between tries to connect, doubling

_PATH_ERRORS: Final = (
    OSError,
    RacerError,
    anyio.EndOfStream,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
)


class Machine(abc.ABC):
    """What turns questions into octets and octets into answers; no IO.

    Attributes:
        trouble: as `Carrier.trouble`.
    """

    def __init__(self) -> None:
        """Begin without trouble."""
        self.trouble = ""

    @abc.abstractmethod
    def ask(self, messages: Sequence[bytes]) -> None:
        """Queue questions; those for which there is no room are dropped."""

    @abc.abstractmethod
    def bytes_to_send(self) -> bytes:
        """Return what is due."""

    @abc.abstractmethod
    def receive_data(self, data: bytes) -> list[bytes]:
        """Return the answers that have come whole.

        Raises:
            RemoteProtocolError: the peer broke the rules; the connection is of no more use.
        """


class ConnectionCarrier:
    """Has one connection at a time; what fails is told, and made anew when there is something to ask.

    Args:
        open_stream: connects to the resolver.
        make_machine: what speaks on one connection.
    """

    def __init__(
        self, open_stream: Callable[[], Awaitable[ByteStream]], make_machine: Callable[[], Machine]
    ) -> None:
        """Open nothing."""
        self._open_stream = open_stream
        self._make_machine = make_machine
        self._waiting: deque[bytes] = deque(maxlen=_MAX_WAITING)
        self._machine: Machine | None = None
        self._trouble = ""  # of the last one
        self._wakeup: Wakeup | None = None
        self._alarm: Wakeup | None = None
        self._wants_fresh = False
        self._asked_at = 0.0
        self._unheard_since = math.inf  # the first question after the last octets that came

    @property
    def trouble(self) -> str:
        """As `Carrier.trouble`."""
        return self._trouble if self._machine is None else self._machine.trouble

    def send(self, messages: Sequence[bytes], *, fresh: bool = False) -> None:
        """As `Carrier.send`."""
        if fresh and self._machine is not None:
            self._wants_fresh = True
            self._machine = None
        if self._machine is None:
            self._waiting.extend(messages)
        else:
            self._machine.ask(messages)
        if self._wakeup is not None and self._alarm is not None:
            self._asked_at = anyio.current_time()
            if self._unheard_since == math.inf:
                self._unheard_since = self._asked_at
                self._alarm.set()
            self._wakeup.set()

    async def run(self, deliver: Deliver, failed: Failed) -> None:
        """As `Carrier.run`."""
        self._wakeup = Wakeup()
        self._alarm = Wakeup()
        pause = _FIRST_PAUSE
        while True:
            while not self._waiting:
                await self._wakeup.wait()
            try:
                with anyio.fail_after(_OPEN_TIMEOUT):
                    stream = await self._open_stream()
            except _PATH_ERRORS as exc:
                self._waiting.clear()
                failed(exc)
                await anyio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            try:
                if await self._serve(stream, deliver, failed):
                    pause = _FIRST_PAUSE
                else:
                    await anyio.sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE)
            finally:
                self._machine = None
                await close_by_force(stream)

    async def _serve(self, stream: ByteStream, deliver: Deliver, failed: Failed) -> bool:
        """Speak until the connection ends; return whether anything had been answered."""
        machine = self._make_machine()
        machine.ask(list(self._waiting))
        self._waiting.clear()
        self._machine = machine
        self._wants_fresh = False
        self._asked_at = self._unheard_since = anyio.current_time()
        heard = False

        async def read() -> None:
            nonlocal heard
            try:
                while True:
                    data = await stream.receive(_READ)
                    self._unheard_since = math.inf
                    messages = machine.receive_data(data)
                    self._trouble = machine.trouble
                    if messages:
                        heard = True
                        deliver(messages)
                    if self._wakeup is not None:
                        self._wakeup.set()  # the machine may have something to say to that
            except _PATH_ERRORS as exc:
                self._lose(machine, exc, failed)
                tasks.cancel_scope.cancel()

        async def write() -> None:
            try:
                await self._write(stream, machine)
            except _PATH_ERRORS as exc:
                self._lose(machine, exc, failed)
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            tasks.start_soon(write)
            if await self._is_silent():
                msg = f"it has not answered for {_SILENCE:g} s"
                self._lose(machine, NetworkError(msg, error_type=ErrorType.TIMEOUT), failed)
            elif self._machine is machine:
                self._machine = None  # whoever asks from now on waits for the next one
            tasks.cancel_scope.cancel()
        return heard

    async def _write(self, stream: ByteStream, machine: Machine) -> None:
        assert self._wakeup is not None
        while not self._wants_fresh:
            while data := machine.bytes_to_send():
                await stream.send(data)
            await self._wakeup.wait()

    async def _is_silent(self) -> bool:
        """Wait until there has been no answer for long, and return true; or no question, and return false."""
        assert self._alarm is not None
        while True:
            idle_at, silent_at = self._asked_at + _IDLE, self._unheard_since + _SILENCE
            now = anyio.current_time()
            if min(idle_at, silent_at) <= now:
                return silent_at <= now
            await self._alarm.wait(min(idle_at, silent_at))

    def _lose(self, machine: Machine, exc: Exception, failed: Failed) -> None:
        if self._machine is machine:
            self._machine = None
            failed(exc)
