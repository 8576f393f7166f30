"""A stream whose first flight leaves as a strategy wants it, segment by segment; from then on it is the stream within."""

from __future__ import annotations

import socket
import struct
import sys
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream, SocketStream

from racer.abc import Stage
from racer.errors import ErrorType, NetworkError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from transports.proxyless._stages import Flight, Write

__all__ = ("Shaped", "hop_limit_of", "shaped")

_SIOCOUTQNSD: Final = (
    0x894B  # <linux/sockios.h>: octets in the send queue that have not been sent yet
)
_LOOK_AGAIN: Final = 0.002  # seconds
_LOOKS: Final = 1000  # until the network is taken for dead: a full window waits a round trip, be it by satellite
_DEAD_AT_FIRST_HOP: Final = 1


def shaped(stream: ByteStream, flight: Flight, sock: socket.socket | None) -> Shaped:
    """Return `stream` with `flight` in front of it; it owns the stream.

    Args:
        stream: connected, with nothing sent yet.
        flight: what to do with what is sent first.
        sock: the very socket below `stream`, to be written to without detours; `None` where it is somebody else's.

    Raises:
        NetworkError: a segment is to die young, and there is no TCP socket whose hop limit could be set.
    """
    if sock is None and flight.needs_socket and not isinstance(stream, SocketStream):
        msg = "disorder sets the hop limit of a TCP socket, and the connection made by dial_tcp is none"
        raise NetworkError(msg, stage=Stage.CONNECT, error_type=ErrorType.NOT_USABLE)
    return Shaped(stream, flight, sock)


class Shaped(ByteStream):
    """Sends the first flight in the writes that the strategy makes of it; ends that with the peer's first octet.

    Each write is a TCP segment: there is no Nagle's delay, and a write is made when the system has sent the one before.
    """

    def __init__(self, stream: ByteStream, flight: Flight, sock: socket.socket | None) -> None:
        """Take the stream over."""
        self._stream = stream
        self._flight: Flight | None = flight
        self._sock = sock
        self._writing = anyio.Lock()

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """Those of the stream within."""
        return self._stream.extra_attributes

    async def send(self, item: bytes) -> None:
        """Send all of `item`; of a first flight a part may be held back until the rest of it comes, or an answer is awaited.

        Raises:
            anyio.BrokenResourceError: the connection broke.
            anyio.ClosedResourceError: it was closed.
        """
        if self._flight is None:
            await self._stream.send(item)
            return
        async with self._writing:
            for write in self._flight.send(bytes(item)):
                await self._put(write)

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        """Return at least one and at most `max_bytes` octets; a cancelled call loses none."""
        if self._flight is None:
            return await self._stream.receive(max_bytes)
        await self._finish()
        data = await self._stream.receive(max_bytes)
        self._flight = None
        return data

    async def send_eof(self) -> None:
        """End this side's direction, if the stream within can."""
        await self._finish()
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close all the way down."""
        self._flight = None
        await self._stream.aclose()

    async def _finish(self) -> None:
        """Send what is held back."""
        if self._flight is not None and self._flight.is_holding:
            async with self._writing:
                for write in self._flight.finish():
                    await self._put(write)

    async def _put(self, write: Write) -> None:
        if not write.short_lived:
            await self._put_octets(write.data)
            return
        sock = self._any_socket()
        level, option = hop_limit_of(sock.family)
        try:
            usual = sock.getsockopt(level, option)
            sock.setsockopt(level, option, _DEAD_AT_FIRST_HOP)
            try:
                await self._put_octets(write.data)
            finally:
                # What is sent again, is sent with the limit of then.
                sock.setsockopt(level, option, usual)
        except OSError as exc:
            raise anyio.BrokenResourceError from exc

    async def _put_octets(self, data: bytes) -> None:
        if self._sock is not None:
            await anyio.lowlevel.checkpoint()
            data = data[self._write_now(self._sock, data) :]
        if data:
            # The system is full, which no first flight brings about; or it is not for us to write to the socket.
            self._sock = None
            await self._stream.send(data)
        if (sock := self._any_socket(None)) is not None:
            await _until_sent(sock)

    @staticmethod
    def _write_now(sock: socket.socket, data: bytes) -> int:
        if sock.fileno() < 0:
            raise anyio.ClosedResourceError
        try:
            return sock.send(data)
        except BlockingIOError:
            return 0
        except OSError as exc:
            raise anyio.BrokenResourceError from exc

    def _any_socket(self, *default: None) -> Any:  # noqa: ANN401 - asyncio's streams give something like a socket
        if self._sock is not None:
            return self._sock
        if isinstance(self._stream, SocketStream):
            return self._stream.extra(anyio.abc.SocketAttribute.raw_socket)
        (nothing,) = default
        return nothing


def hop_limit_of(family: int) -> tuple[int, int]:
    """Return the socket option for TTL (IPv4) or hop limit (IPv6)."""
    if family == socket.AF_INET6:
        return socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS
    return socket.IPPROTO_IP, socket.IP_TTL


async def _until_sent(sock: socket.socket) -> None:
    """Return when the system has sent all that it was given, or does not say so.

    Linux joins small writes to what waits for a busy interface (`tcp_autocorking`), TCP_NODELAY or not: a cut is only
    sure to be one when the piece before it has left.
    """
    for _ in range(_LOOKS):
        if not _unsent(sock):
            return
        await anyio.sleep(_LOOK_AGAIN)


def _unsent(sock: socket.socket) -> int:
    if sys.platform != "linux":
        return 0
    import fcntl  # noqa: PLC0415 - not on every system

    try:
        told: bytes = fcntl.ioctl(sock.fileno(), _SIOCOUTQNSD, b"\0\0\0\0")
    except (OSError, ValueError):  # closed meanwhile, or no TCP
        return 0
    return int(struct.unpack("i", told)[0])
