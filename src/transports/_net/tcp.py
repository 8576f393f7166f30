"""One TCP connection to one IP address, by a non-blocking connect of our own."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
from typing import TYPE_CHECKING, Final

import anyio
import anyio.abc
import anyio.lowlevel

from transports._net.addresses import Family, family_of, host_port

if TYPE_CHECKING:
    from anyio.abc import SocketStream

__all__ = ("bind_socket", "connect_socket", "named_error", "socket_address", "wrap_socket")

_UNDER_WAY: Final = frozenset({errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EINTR})

_MAX_INTERFACE: Final = 0xFFFF_FFFF  # sin6_scope_id has 32 bits; no interface has this number

# <linux/in.h>; the socket module has no name for it before Python 3.12.
_IP_BIND_ADDRESS_NO_PORT: Final = 24


async def connect_socket(
    address: str, port: int, *, local_address: str | None = None, local_port: int = 0
) -> socket.socket:
    """Return a connected, non-blocking TCP socket without Nagle's delay; the caller closes it.

    Cancellation and failure, wherever they strike, close the socket before they go on. No name is ever looked up.

    Args:
        address: an IP address, IPv6 with a scope (`fe80::1%eth0`) where it needs one.
        port: 1 to 65535.
        local_address: an IP address of this machine to connect from; `None` leaves it to the system.
        local_port: the port to connect from with `local_address`; 0 leaves it to the system.

    Raises:
        OSError: with the system's errno, and a text that names address and port.
        ValueError: not an IP address.
    """
    family = family_of(address)
    if family is None:
        # The socket module would look it up, and block the loop while it does.
        msg = f"{address!r} is not an IP address"
        raise ValueError(msg)
    sock: socket.socket | None = None
    try:
        # Not inherited by other programs (PEP 446).
        sock = socket.socket(
            socket.AF_INET6 if family is Family.IPV6 else socket.AF_INET, socket.SOCK_STREAM
        )
        sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if local_address is not None:
            bind_socket(sock, local_address, local_port)
        code = sock.connect_ex(socket_address(address, port))
        if code in _UNDER_WAY:
            await anyio.wait_writable(sock)
            code = 0
        elif code == 0:
            await anyio.lowlevel.checkpoint()
        _check_connected(sock, code)
    except OSError as exc:
        if sock is not None:
            sock.close()
        raise named_error(exc, host_port(address, port)) from exc.__cause__
    except BaseException:
        if sock is not None:
            sock.close()
        raise
    return sock


async def wrap_socket(sock: socket.socket, *, peer: str = "the peer") -> SocketStream:
    """Return a stream over a connected socket; it owns the socket, and the caller closes it.

    The socket is this function's from the call on: cancellation and failure close it, also where asyncio's own
    `task.cancel()` strikes inside the event loop's set-up.

    Args:
        sock: from `connect_socket`.
        peer: who that is, for errors.

    Raises:
        OSError: the peer has already reset the connection.
    """
    try:
        return await anyio.abc.SocketStream.from_socket(sock)
    except (OSError, ValueError) as exc:
        sock.close()
        # ValueError is anyio's word for a socket that has lost its peer.
        reset = OSError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        raise named_error(exc if isinstance(exc, OSError) else reset, peer) from exc
    except BaseException:
        sock.close()
        raise


def socket_address(address: str, port: int) -> tuple[str, int] | tuple[str, int, int, int]:
    """Return an IP address and port as the socket module wants them.

    Raises:
        OSError: its scope names no interface of this machine.
    """
    if ":" not in address:
        return address, port
    bare, _, scope = address.partition("%")
    return bare, port, 0, _interface(scope) if scope else 0


def _interface(scope: str) -> int:
    """Return the number of the interface that an IPv6 scope names (RFC 4007 §11.2)."""
    try:
        return (
            min(int(scope), _MAX_INTERFACE) if scope.isdecimal() else socket.if_nametoindex(scope)
        )
    except OSError as exc:
        msg = f"this machine has no network interface {scope!r}"
        raise OSError(errno.EADDRNOTAVAIL, msg) from exc


def bind_socket(sock: socket.socket, address: str, port: int) -> None:
    """Bind to an IP address of this machine; port 0 leaves the port to the system.

    Raises:
        OSError: the address is not of this machine, or the port is taken; says which address.
    """
    if sys.platform == "linux" and not port:
        # Choosing the port only when the peer is known lets one local address have more than 28,000 connections.
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
    try:
        sock.bind(socket_address(address, port))
    except OSError as exc:
        msg = f"cannot connect from {address}: {exc.strerror}"
        raise OSError(exc.errno, msg) from exc


def _check_connected(sock: socket.socket, code: int) -> None:
    """Raise `OSError` unless `connect` has succeeded, and with somebody else.

    Args:
        sock: that was connected.
        code: the errno that `connect` gave at once; 0 when none.
    """
    try:
        peer = sock.getpeername()
    except OSError:
        # One that was made and is reset already may have no error to tell any more.
        code = code or sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) or errno.ECONNRESET
        raise OSError(code, os.strerror(code)) from None
    if peer == sock.getsockname():
        # Where the system picks the wanted port for our own end, TCP connects the socket to itself (RFC 9293 §3.5,
        # simultaneous open): nobody listens there.
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))


def named_error(exc: OSError, peer: str) -> OSError:
    """Return the same error with the peer in its text, of the class that fits its errno."""
    text = f"could not connect to {peer}: {exc.strerror or exc}"
    return OSError(text) if exc.errno is None else OSError(exc.errno, text)
