"""Sockets on 127.0.0.1 whose closing is under control: a reset is a reset on the wire, and needs no `await`."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import socket
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel

from racer._socket_end import SocketEnd, linger_not
from racer.lab._running import Running

if TYPE_CHECKING:
    from collections.abc import Callable

    from racer.lab._running import Tasks


__all__ = (
    "LOOPBACK",
    "Datagrams",
    "SocketEnd",
    "StreamServer",
    "accept",
    "client_socket",
    "connect",
    "connect_to",
    "linger_not",
    "listen",
)

LOOPBACK: Final = "127.0.0.1"
_BACKLOG: Final = 1024
_BUFFER: Final = 4 * 2**20  # bytes; the kernel grants what it may
_BURST: Final = 64  # datagrams that are read before other tasks have their turn


def listen() -> socket.socket:
    """Return a TCP socket that listens on a free port of 127.0.0.1; the caller closes it."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
        sock.bind((LOOPBACK, 0))
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def client_socket() -> socket.socket:
    """Return a TCP socket on a free port of 127.0.0.1, not connected yet; the caller closes it."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.bind((LOOPBACK, 0))
    except BaseException:
        sock.close()
        raise
    return sock


async def connect(sock: socket.socket, address: str, port: int) -> None:
    """Connect a socket to an IP address; whatever happens, closing it is the caller's.

    Raises:
        OSError: why not.
    """
    code = sock.connect_ex((address, port))
    if code in {errno.EINPROGRESS, errno.EWOULDBLOCK}:
        await anyio.wait_writable(sock)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    else:
        await anyio.lowlevel.checkpoint()
    if code:
        raise OSError(code, os.strerror(code))


async def connect_to(host: str, port: int) -> SocketEnd:
    """Return a connection to the first address of a host; the caller closes it.

    Raises:
        OSError: why not.
    """
    [(family, _, _, _, address), *_] = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
        await connect(sock, str(address[0]), port)
    except BaseException:
        sock.close()
        raise
    return SocketEnd(sock)


async def accept(listening: socket.socket, take: Callable[[SocketEnd], None]) -> None:
    """Accept connections until cancelled, and close `listening` then; `take` becomes the owner of each."""
    with listening:
        while True:
            try:
                sock, peer = listening.accept()
            except BlockingIOError:
                await anyio.wait_readable(listening)
            except ConnectionError:  # the client has gone before it was accepted
                await anyio.lowlevel.checkpoint()
            else:
                take(SocketEnd(sock, peer_port=peer[1]))


class StreamServer(Running):
    """Serves each TCP connection to a port of 127.0.0.1 in a task of its own.

    Attributes:
        address: where it listens; the port is 0 until it is entered.
    """

    def __init__(self) -> None:
        """Listen to nothing yet."""
        self.address: tuple[str, int] = (LOOPBACK, 0)

    async def _serve(self, end: SocketEnd, number: int) -> None:
        """Serve one connection; it is closed by force when this ends.

        Args:
            end: the connection.
            number: 1 for the first that was accepted, and so on.
        """
        raise NotImplementedError

    def _start(self, group: Tasks) -> None:
        numbers = itertools.count(1)

        async def hold(end: SocketEnd, number: int) -> None:
            try:
                await self._serve(end, number)
            finally:
                end.abort()

        def take(end: SocketEnd) -> None:
            group.start_soon(hold, end, next(numbers))

        listening = listen()
        self.address = (LOOPBACK, listening.getsockname()[1])
        group.start_soon(accept, listening, take)


class Datagrams:
    """A UDP socket on 127.0.0.1, sending without waiting: what finds no room is lost, as in any network.

    Args:
        port: where to bind it; 0 for a free one.
        connect_to: with whom alone to talk.

    Raises:
        OSError: the port is taken, or there is no such peer.
    """

    def __init__(self, *, port: int = 0, connect_to: tuple[str, int] | None = None) -> None:
        """Open and bind."""
        family = socket.AF_INET
        if connect_to is not None and ":" in connect_to[0]:
            family = socket.AF_INET6
        self._sock = sock = socket.socket(family, socket.SOCK_DGRAM)
        try:
            sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
            if connect_to is None:
                sock.bind((LOOPBACK, port))
            else:
                sock.connect(connect_to)
        except BaseException:
            sock.close()
            raise
        self.port: int = sock.getsockname()[1]

    def send(self, data: bytes, to: tuple[str, int] | None = None) -> None:
        """Send a datagram, to the peer if there is but one."""
        with contextlib.suppress(OSError):
            if to is None:
                self._sock.send(data)
            else:
                self._sock.sendto(data, to)

    async def receive_all(self, take: Callable[[bytes, tuple[str, int]], None]) -> None:
        """Hand each datagram and its sender to `take` until cancelled, or closed."""
        with self._sock:
            while self._sock.fileno() >= 0:
                await anyio.lowlevel.checkpoint()
                for _ in range(_BURST):
                    try:
                        data, sender = self._sock.recvfrom(65_535)
                    except BlockingIOError:
                        with contextlib.suppress(anyio.ClosedResourceError):
                            await anyio.wait_readable(self._sock)
                        break
                    except OSError as exc:  # an ICMP error: nobody listens there
                        if exc.errno == errno.EBADF:
                            break
                        continue
                    take(data, sender[:2])

    def close(self) -> None:
        """Close at once; may be called twice."""
        if self._sock.fileno() >= 0:
            anyio.notify_closing(self._sock)
            self._sock.close()
