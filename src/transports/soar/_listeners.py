"""Where a server's questions come from: the sockets, and the datagrams (RFC 1035); connections are beside this."""

from __future__ import annotations

import ipaddress
import logging
import socket
import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
import anyio.lowlevel

from transports._net.addresses import host_port
from transports._net.tcp import socket_address
from transports.soar.core.server.source import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ("DatagramListener", "Taker", "bind")

_MAX_DATAGRAM: Final = 4096  # octets; no resolver's question is longer
_BATCH: Final = 64  # datagrams in one turn of the loop
_BUFFER: Final = 1 << 20  # octets, of the socket: what arrives while the loop does something else
_WAITING: Final = 128  # connections that the system keeps until they are accepted
_TRIES: Final = 16  # for a port that is free for both
_MAX_KNOWN: Final = 4096  # addresses whose octets are remembered
_new: Final = tuple.__new__  # what a named tuple's class does, without its own function in between
_PAUSE: Final = 0.05  # seconds before a socket is asked again that gave nothing but errors

# <linux/in.h>; the socket module has no name for it.
_IP_PKTINFO: Final = 8
_ANCILLARY: Final = 128  # octets; one address takes 40

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
        OSError: the port is taken, or not ours to use; says which.
    """
    for attempt in range(_TRIES):
        with ExitStack() as made:
            try:
                datagrams = made.enter_context(_bound(socket.SOCK_DGRAM, host, port))
                chosen = datagrams.getsockname()[1]
                listener = made.enter_context(_bound(socket.SOCK_STREAM, host, chosen))
                listener.listen(_WAITING)
            except OSError as exc:
                if port or attempt == _TRIES - 1:
                    msg = f"cannot listen on {host_port(host, port)}: {exc.strerror or exc}"
                    raise OSError(exc.errno, msg) from exc
            else:
                made.pop_all()
                return datagrams, listener
    raise AssertionError  # the last try returned or raised


def _bound(kind: socket.SocketKind, host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, kind)
    try:
        sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if kind == socket.SOCK_DGRAM:
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
        elif sys.platform != "win32":  # where it would let two programs have one port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(socket_address(host, port))
    except BaseException:
        sock.close()
        raise
    return sock


class DatagramListener:
    """Reads in batches, so that one turn of the loop serves many questions.

    On a socket that is bound to all addresses of the machine an answer leaves from the one that was asked, or the
    resolver would not take it; where the system can't tell which that was, it has to be bound to one.

    Args:
        sock: bound; the caller closes it once `run` has ended.
        taker: takes what comes.

    Attributes:
        dropped: how many answers the system did not take.
    """

    def __init__(self, sock: socket.socket, taker: Taker) -> None:
        """Read nothing yet."""
        self._sock = sock
        self._taker = taker
        self._addresses: dict[str, bytes] = {}
        self._tells_address = _ask_for_address(sock)
        self.dropped = 0

    def send(self, message: bytes, source: Source) -> None:
        """Send an answer; one that the system doesn't take now is lost, as on any network."""
        try:
            if self._tells_address:
                tag: Any = source.tag
                self._sock.sendmsg((message,), tag[1], 0, tag[0])
            else:
                self._sock.sendto(message, source.tag)  # type: ignore[call-overload]
        except OSError:
            self.dropped += 1

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            await anyio.wait_readable(self._sock)
            # As long as batches are full, another turn of the loop costs less than asking the system to wake us.
            while await self._read() == _BATCH:
                await anyio.lowlevel.checkpoint()

    async def _read(self) -> int:
        """Take what waits, at most a batch, and return how many reads that were."""
        batch: list[tuple[bytes, Source]] = []
        read = self._read_with_address if self._tells_address else self._read_one
        tries = 0
        try:
            while tries < _BATCH:
                tries += 1
                try:
                    batch.append(read())
                except BlockingIOError:
                    tries -= 1
                    break
        except OSError as exc:  # a system may tell of an earlier answer's fate here
            logger.debug("a datagram could not be read: %s", type(exc).__name__)
        if batch:
            self._taker.receive(batch)
        elif tries:
            await anyio.sleep(_PAUSE)
        return tries

    def _read_one(self) -> tuple[bytes, Source]:
        message, peer = self._sock.recvfrom(_MAX_DATAGRAM)
        return message, _new(Source, (self._packed(peer[0]), peer[1], False, peer))

    def _read_with_address(self) -> tuple[bytes, Source]:
        message, found, _, peer = self._sock.recvmsg(_MAX_DATAGRAM, _ANCILLARY)
        tag = (peer, [(level, kind, _reversed(level, data)) for level, kind, data in found])
        return message, _new(Source, (self._packed(peer[0]), peer[1], False, tag))

    def _packed(self, host: str) -> bytes:
        packed = self._addresses.get(host)
        if packed is None:
            if len(self._addresses) >= _MAX_KNOWN:
                self._addresses.clear()
            packed = self._addresses[host] = ipaddress.ip_address(host.partition("%")[0]).packed
        return packed


def _ask_for_address(sock: socket.socket) -> bool:
    """Have each datagram come with the address that it was sent to, where that isn't known; return whether it will."""
    if not ipaddress.ip_address(sock.getsockname()[0]).is_unspecified:
        return False
    with suppress(OSError, AttributeError):
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
            return True
        if sys.platform == "linux":
            sock.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
            return True
    return False


def _reversed(level: int, data: bytes) -> bytes:
    """Return the ancillary octets with which an answer leaves from where its question came to, by whatever interface.

    An `in_pktinfo` is interface 4, own address 4, address of the header 4; an `in6_pktinfo` address 16, interface 4,
    which link-local addresses need (ip(7), RFC 3542 section 6.1).
    """
    if level == socket.IPPROTO_IP:
        return bytes(4) + data[4:8] + bytes(4)
    return data if data[:2] >= b"\xfe\x80" else data[:16] + bytes(4)
