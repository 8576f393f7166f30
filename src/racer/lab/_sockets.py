"""Sockets on 127.0.0.1 whose closing is under control: a reset is a reset on the wire, and needs no `await`."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import socket
import struct
import sys
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream, SocketAttribute

from racer.lab._running import Running

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
_NO_LINGER: Final = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)


class SocketEnd(ByteStream):
    """The accepted end of a TCP connection.

    Args:
        sock: connected; belongs to this object from now on.
        peer_port: the peer's port, where it is known: a socket that was reset does not tell it any more.
    """

    def __init__(self, sock: socket.socket, *, peer_port: int = 0) -> None:
        """Take the socket over."""
        self.peer_port = peer_port
        sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
        with contextlib.suppress(OSError):  # it may have been reset already
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self.closed = False

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """What anyio's own streams say about their sockets."""
        return {
            SocketAttribute.family: lambda: self._sock.family,
            SocketAttribute.local_address: lambda: self._sock.getsockname()[:2],
            SocketAttribute.local_port: lambda: self._sock.getsockname()[1],
            SocketAttribute.raw_socket: lambda: self._sock,
            SocketAttribute.remote_address: lambda: self._sock.getpeername()[:2],
            SocketAttribute.remote_port: lambda: self._sock.getpeername()[1],
        }

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        """Return the next bytes, as anyio's socket streams do."""
        await anyio.lowlevel.checkpoint()
        while True:
            self._check_open()
            try:
                data = self._sock.recv(max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(self._sock)
            except OSError as exc:
                raise anyio.BrokenResourceError from exc
            else:
                if not data:
                    raise anyio.EndOfStream
                return data

    async def send(self, item: bytes) -> None:
        """Send all bytes; a cancelled call may have sent a part."""
        await anyio.lowlevel.checkpoint()
        left = memoryview(item)
        while left:
            self._check_open()
            try:
                left = left[self._sock.send(left) :]
            except BlockingIOError:
                await anyio.wait_writable(self._sock)
            except OSError as exc:
                raise anyio.BrokenResourceError from exc

    async def send_eof(self) -> None:
        """End this direction; the other goes on."""
        await anyio.lowlevel.checkpoint()
        self._check_open()
        with contextlib.suppress(OSError):  # the peer has gone: nothing left to tell it
            self._sock.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        """Close both directions."""
        self._close()
        await anyio.lowlevel.checkpoint()

    def abort(self) -> None:
        """Reset the connection at once."""
        if not self.closed:
            linger_not(self._sock)
            self._close()

    def _close(self) -> None:
        if not self.closed:
            self.closed = True
            anyio.notify_closing(self._sock)
            self._sock.close()

    def _check_open(self) -> None:
        if self.closed:
            raise anyio.ClosedResourceError


def linger_not(sock: socket.socket) -> None:
    """Let the closing of a TCP socket be a reset: it gets no time to linger."""
    with contextlib.suppress(OSError):  # the peer was faster
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)


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
