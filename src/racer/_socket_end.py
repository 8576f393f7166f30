"""The accepted end of a TCP connection, whose closing is under control: a reset is a reset on the wire, without an `await`."""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream, SocketAttribute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ("SocketEnd", "linger_not")

_NO_LINGER: Final = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)


class SocketEnd(ByteStream):
    """The accepted end of a TCP connection: tries first, and waits only where the system has to.

    Args:
        sock: connected; belongs to this object from now on.
        peer_port: the peer's port, where it is known: a socket that was reset does not tell it any more.
        keepalive: whether the system finds out that a silent peer has gone.
    """

    def __init__(self, sock: socket.socket, *, peer_port: int = 0, keepalive: bool = False) -> None:
        """Take the socket over."""
        self.peer_port = peer_port
        sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
        with contextlib.suppress(OSError):  # it may have been reset already
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, int(keepalive))
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
