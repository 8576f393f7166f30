"""Datagrams to and from one IP address, over a non-blocking socket of our own."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel
from anyio.abc import SocketAttribute, UnreliableObjectStream

from transports._net.addresses import Family, family_of, host_port
from transports._net.tcp import bind_socket, named_error, socket_address

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ("DatagramSocket", "connect_datagrams")

_MAX_SIZE: Final = 65_535  # octets; no datagram is longer


async def connect_datagrams(
    address: str, port: int, *, local_address: str | None = None
) -> DatagramSocket:
    """Return a UDP socket that talks to one peer alone; the caller closes it.

    The system picks a port of its own for each, and drops what other peers send to it (RFC 5452 §9.2).

    Args:
        address: an IP address, IPv6 with a scope where it needs one.
        port: 1 to 65535.
        local_address: an IP address of this machine to send from; `None` leaves it to the system.

    Raises:
        OSError: there is no way to that address; the text names it.
        ValueError: not an IP address.
    """
    family = family_of(address)
    if family is None:
        msg = f"{address!r} is not an IP address"
        raise ValueError(msg)
    await anyio.lowlevel.checkpoint()  # the last wait before there is a socket to close
    sock: socket.socket | None = None
    try:
        sock = socket.socket(
            socket.AF_INET6 if family is Family.IPV6 else socket.AF_INET, socket.SOCK_DGRAM
        )
        sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
        if local_address is not None:
            bind_socket(sock, local_address, 0)
        sock.connect(socket_address(address, port))
    except OSError as exc:
        if sock is not None:
            sock.close()
        raise named_error(exc, host_port(address, port)) from exc.__cause__
    except BaseException:
        if sock is not None:
            sock.close()
        raise
    return DatagramSocket(sock)


class DatagramSocket(UnreliableObjectStream[bytes]):
    """A connected UDP socket.

    Args:
        sock: connected and non-blocking; belongs to this object from now on.
    """

    def __init__(self, sock: socket.socket) -> None:
        """Take the socket over."""
        self._sock = sock

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """What anyio's own sockets say about themselves."""
        return {
            SocketAttribute.family: lambda: self._sock.family,
            SocketAttribute.local_address: lambda: self._sock.getsockname()[:2],
            SocketAttribute.local_port: lambda: self._sock.getsockname()[1],
            SocketAttribute.raw_socket: lambda: self._sock,
            SocketAttribute.remote_address: lambda: self._sock.getpeername()[:2],
            SocketAttribute.remote_port: lambda: self._sock.getpeername()[1],
        }

    async def receive(self) -> bytes:
        """Return the next datagram of the peer's; a cancelled call has lost none.

        Raises:
            anyio.BrokenResourceError: the network says that what was sent did not arrive; the cause says how.
            anyio.ClosedResourceError: it was closed.
        """
        await anyio.lowlevel.checkpoint()
        while True:
            self._check_open()
            try:
                return self._sock.recv(_MAX_SIZE)
            except BlockingIOError:
                await anyio.wait_readable(self._sock)
            except OSError as exc:
                raise anyio.BrokenResourceError from exc

    async def send(self, item: bytes) -> None:
        """Send a datagram; it may be lost.

        Raises:
            anyio.BrokenResourceError: the system does not take it, or says that an earlier one did not arrive.
            anyio.ClosedResourceError: it was closed.
        """
        await anyio.lowlevel.checkpoint()
        while True:
            self._check_open()
            try:
                self._sock.send(item)
            except BlockingIOError:
                await anyio.wait_writable(self._sock)
            except OSError as exc:
                raise anyio.BrokenResourceError from exc
            else:
                return

    async def aclose(self) -> None:
        """Close; may be called twice."""
        self.close()
        await anyio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close at once; may be called twice."""
        if self._sock.fileno() >= 0:
            anyio.notify_closing(self._sock)
            self._sock.close()

    def _check_open(self) -> None:
        if self._sock.fileno() < 0:
            raise anyio.ClosedResourceError
