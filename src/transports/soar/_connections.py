"""Where a server's questions come from: the connections of resolvers (RFC 1035, RFC 7766)."""

from __future__ import annotations

import errno
import ipaddress
import logging
from typing import TYPE_CHECKING, Final

import anyio

from racer.errors import ProtocolError, RemoteProtocolError
from transports._net.drive import close_by_force
from transports._net.tcp import wrap_socket
from transports._net.wakeup import Wakeup
from transports.soar.core.server.source import Source

if TYPE_CHECKING:
    import socket

    from anyio.abc import SocketStream, TaskGroup

    from transports.soar._listeners import Taker

__all__ = ("Questions", "StreamListener")

MAX_CONNECTIONS: Final = 512  # the one that has been silent for longest gives way
IDLE: Final = 30.0  # seconds without a whole question, RFC 7766 section 6.2.3
MAX_BACKLOG: Final = 1 << 20  # octets of answers that a connection doesn't take
MAX_BACKLOGS: Final = (
    64 << 20
)  # the same of all; above it nobody may leave more than a little unread
_A_LITTLE: Final = 64 << 10
_MAX_QUESTION: Final = 4096  # octets; no resolver's is longer
_MIN_QUESTION: Final = 12  # a header, RFC 1035 section 4.1.1
_ACCEPTS: Final = 64  # in one turn of the loop
_PAUSE: Final = 0.5  # seconds for which nothing is accepted when the machine can't hold any more
_SCARCE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

logger = logging.getLogger("racer.soar")


class Questions:
    """Messages behind their lengths (RFC 1035 section 4.2.2), read from octets cut anywhere."""

    __slots__ = ("_received",)

    def __init__(self) -> None:
        """Begin with nothing."""
        self._received = bytearray()

    def receive_data(self, data: bytes) -> list[bytes]:
        """Return the messages that have come whole.

        Raises:
            RemoteProtocolError: a length that no question has.
        """
        received = self._received
        received += data
        messages: list[bytes] = []
        at = 0
        while len(received) >= at + 2:
            size = int.from_bytes(received[at : at + 2])
            if not _MIN_QUESTION <= size <= _MAX_QUESTION:
                msg = f"a question of {size} octets; {_MIN_QUESTION} to {_MAX_QUESTION} are read"
                raise RemoteProtocolError(msg)
            if len(received) < at + 2 + size:
                break
            messages.append(bytes(received[at + 2 : at + 2 + size]))
            at += 2 + size
        del received[:at]
        return messages


class _Connection:
    """One connection of a resolver's.

    Attributes:
        sock: it.
        peer: its address and port.
        answers: octets that it has not taken.
        scope: ends it.
    """

    __slots__ = ("answers", "peer", "scope", "sock", "wakeup")

    def __init__(self, sock: socket.socket, peer: tuple[str, int]) -> None:
        self.sock = sock
        self.peer = peer
        self.answers = bytearray()
        self.wakeup = Wakeup()
        self.scope = anyio.CancelScope()


class StreamListener:
    """Serves connections, except those that are idle for long, or ask and don't read.

    Args:
        sock: listening; the caller closes it once `run` has ended.
        taker: takes what comes.
    """

    def __init__(self, sock: socket.socket, taker: Taker) -> None:
        """Accept nothing yet."""
        self._sock = sock
        self._taker = taker
        self._open: dict[_Connection, None] = {}  # the one silent for longest first
        self._backlog = 0

    def __len__(self) -> int:
        """Return how many connections there are."""
        return len(self._open)

    def send(self, message: bytes, source: Source) -> None:
        """Send an answer on the connection that its question came by, if that is still there."""
        connection = source.tag
        assert isinstance(connection, _Connection)
        if connection not in self._open:
            return
        most = MAX_BACKLOG if self._backlog < MAX_BACKLOGS else _A_LITTLE
        if len(connection.answers) > most:
            connection.scope.cancel()  # it asks and doesn't read
            return
        connection.answers += len(message).to_bytes(2) + message
        self._backlog += len(message) + 2
        connection.wakeup.set()

    async def run(self) -> None:
        """Accept until cancelled, and close every connection then."""
        try:
            async with anyio.create_task_group() as tasks:
                while True:
                    await anyio.wait_readable(self._sock)
                    if not self._accept(tasks):
                        await anyio.sleep(_PAUSE)
        finally:
            for connection in self._open:  # those whose tasks have never run
                connection.sock.close()
            self._open.clear()

    def _accept(self, tasks: TaskGroup) -> bool:
        """Accept what waits; return whether the machine can hold more."""
        for _ in range(_ACCEPTS):
            try:
                sock, peer = self._sock.accept()
            except BlockingIOError:
                return True
            except OSError as exc:
                if exc.errno in _SCARCE:
                    logger.warning("no connection can be accepted: %s", exc.strerror)
                    return False
                continue  # one that was given up meanwhile: accept(2)
            sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
            if len(self._open) >= MAX_CONNECTIONS:
                silent = next(iter(self._open))
                del self._open[silent]
                silent.scope.cancel()
            connection = _Connection(sock, peer[:2])
            self._open[connection] = None
            tasks.start_soon(self._serve, connection)
        return True

    async def _serve(self, connection: _Connection) -> None:
        try:
            with connection.scope:
                stream = await wrap_socket(connection.sock)
                try:
                    await self._talk(stream, connection)
                finally:
                    await close_by_force(stream)
        except* (OSError, anyio.EndOfStream, anyio.BrokenResourceError, ProtocolError) as exc:
            logger.debug("a connection of a resolver's ended: %r", exc.exceptions)
        finally:
            connection.sock.close()
            self._open.pop(connection, None)
            self._backlog -= len(connection.answers)

    async def _talk(self, stream: SocketStream, connection: _Connection) -> None:
        address = ipaddress.ip_address(connection.peer[0].partition("%")[0]).packed
        source = Source(address, connection.peer[1], True, connection)  # noqa: FBT003
        questions = Questions()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._answer, stream, connection)
            connection.scope.deadline = anyio.current_time() + IDLE
            while True:
                messages = questions.receive_data(await stream.receive())
                # Whoever sends an octet now and then has no more time than who sends none.
                if messages and connection in self._open:
                    connection.scope.deadline = anyio.current_time() + IDLE
                    self._open[connection] = self._open.pop(connection)
                    self._taker.receive([(message, source) for message in messages])

    async def _answer(self, stream: SocketStream, connection: _Connection) -> None:
        while True:
            while connection.answers:
                data = bytes(connection.answers)
                connection.answers.clear()
                self._backlog -= len(data)
                await stream.send(data)
            await connection.wakeup.wait()
