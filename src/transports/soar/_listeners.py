"""Where a server's questions come from: datagrams, and connections (RFC 1035, RFC 7766)."""

from __future__ import annotations

import ipaddress
import logging
import socket
from typing import TYPE_CHECKING, Final, Protocol

import anyio
import anyio.abc

from racer.errors import ProtocolError
from transports._net.wakeup import Wakeup
from transports.soar.carriers.streams import StreamMachine
from transports.soar.core.server.source import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyio.abc import SocketStream

__all__ = ("DatagramListener", "StreamListener", "Taker", "bind")

_MAX_DATAGRAM: Final = 4096  # octets; no resolver's question is longer
_BATCH: Final = 64
_MAX_CONNECTIONS: Final = 512
_IDLE: Final = 30.0  # seconds, RFC 7766 section 6.2.3
_MAX_BACKLOG: Final = 1 << 20  # octets of answers that a connection doesn't take
_BUFFER: Final = 1 << 20  # of the socket: what arrives while the loop does something else
_TRIES: Final = 16

logger = logging.getLogger("racer.soar")


class Taker(Protocol):
    """What takes questions."""

    def receive(self, messages: Sequence[tuple[bytes, Source]]) -> None:
        """Take questions, and send what there is to say."""


def bind(host: str, port: int) -> tuple[socket.socket, socket.socket]:
    """Return a socket for datagrams and one that listens, on one address and port; the caller closes both.

    Args:
        host: an IP address of this machine.
        port: 0 for any that both can have.

    Raises:
        OSError: the port is taken, or not ours to use.
    """
    family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
    for attempt in range(_TRIES):
        datagrams = socket.socket(family, socket.SOCK_DGRAM)
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            for sock in (datagrams, listener):
                sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
                if family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                datagrams.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            datagrams.bind((host, port))
            listener.bind((host, datagrams.getsockname()[1]))
            listener.listen(128)
        except OSError:
            datagrams.close()
            listener.close()
            if port or attempt == _TRIES - 1:
                raise
        else:
            return datagrams, listener
    raise AssertionError  # the last try returned or raised


class DatagramListener:
    """Reads in batches, so that one turn of the loop serves many questions.

    Args:
        sock: bound; belongs to this object.
        taker: takes what comes.
    """

    def __init__(self, sock: socket.socket, taker: Taker) -> None:
        """Read nothing yet."""
        self._sock = sock
        self._taker = taker
        self._addresses: dict[str, bytes] = {}
        self.dropped = 0

    def send(self, message: bytes, source: Source) -> None:
        """Send an answer; one that the system doesn't take now is lost, as on any network."""
        try:
            self._sock.sendto(message, source.tag)  # type: ignore[call-overload]
        except OSError:
            self.dropped += 1

    async def run(self) -> None:
        """Read until cancelled, then close."""
        sock = self._sock
        try:
            while True:
                await anyio.wait_readable(sock)
                batch: list[tuple[bytes, Source]] = []
                try:
                    for _ in range(_BATCH):
                        message, peer = sock.recvfrom(_MAX_DATAGRAM)
                        batch.append((message, Source(self._packed(peer[0]), peer[1], False, peer)))  # noqa: FBT003
                except BlockingIOError:
                    pass
                except OSError as exc:  # an ICMP error of an earlier answer
                    logger.debug("a datagram could not be read: %s", type(exc).__name__)
                if batch:
                    self._taker.receive(batch)
        finally:
            anyio.notify_closing(sock)
            sock.close()

    def _packed(self, host: str) -> bytes:
        packed = self._addresses.get(host)
        if packed is None:
            if len(self._addresses) >= 4096:
                self._addresses.clear()
            packed = self._addresses[host] = ipaddress.ip_address(host.partition("%")[0]).packed
        return packed


class _Connection:
    """One connection of a resolver's."""

    def __init__(self) -> None:
        self.answers = bytearray()
        self.wakeup = Wakeup()
        self.is_over = False

    def send(self, message: bytes) -> None:
        if len(self.answers) > _MAX_BACKLOG:
            self.is_over = True  # it asks and doesn't read
        elif not self.is_over:
            self.answers += len(message).to_bytes(2) + message
        self.wakeup.set()


class StreamListener:
    """Serves connections, the ones that have been idle for long not.

    Args:
        sock: listening; belongs to this object.
        taker: takes what comes.
    """

    def __init__(self, sock: socket.socket, taker: Taker) -> None:
        """Accept nothing yet."""
        self._sock = sock
        self._taker = taker
        self._connections = 0

    def send(self, message: bytes, source: Source) -> None:
        """Send an answer on the connection that its question came by."""
        connection = source.tag
        assert isinstance(connection, _Connection)
        connection.send(message)

    async def run(self) -> None:
        """Accept until cancelled, then close everything."""
        listener = await anyio.abc.SocketListener.from_socket(self._sock)
        async with listener:
            await listener.serve(self._serve)

    async def _serve(self, stream: SocketStream) -> None:
        async with stream:
            if self._connections >= _MAX_CONNECTIONS:
                return
            self._connections += 1
            try:
                await self._talk(stream)
            except* (OSError, anyio.EndOfStream, anyio.BrokenResourceError, ProtocolError) as exc:
                logger.debug("a connection of a resolver's ended: %r", exc.exceptions)
            finally:
                self._connections -= 1

    async def _talk(self, stream: SocketStream) -> None:
        peer = stream.extra(anyio.abc.SocketAttribute.raw_socket).getpeername()
        address = ipaddress.ip_address(peer[0].partition("%")[0]).packed
        connection = _Connection()
        source = Source(address, peer[1], True, connection)  # noqa: FBT003
        machine = StreamMachine()

        async def write() -> None:
            while not connection.is_over:
                while connection.answers:
                    data = bytes(connection.answers)
                    connection.answers.clear()
                    await stream.send(data)
                await connection.wakeup.wait()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            with anyio.move_on_after(_IDLE) as idle:
                while True:
                    messages = machine.receive_data(await stream.receive())
                    idle.deadline = anyio.current_time() + _IDLE
                    if messages:
                        self._taker.receive([(message, source) for message in messages])
            tasks.cancel_scope.cancel()
