"""A `Zone` that can be asked: over UDP and TCP (RFC 1035, RFC 7766), and over TLS (RFC 7858)."""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from racer.lab._running import Running, Timetable
from racer.lab._server import Server
from racer.lab._sites import Site
from racer.lab._sockets import LOOPBACK, Datagrams, accept, listen

if TYPE_CHECKING:
    import socket
    import ssl

    from anyio.abc import ByteStream, UnreliableObjectStream

    from racer.lab._running import Tasks
    from racer.lab._sockets import SocketEnd
    from racer.lab._zone import Carrier, Reply, Zone

__all__ = ("DoTServer", "NameServer")

_TRIES: Final = 100  # TCP ports that are tried until one is free for UDP as well


class NameServer(Running):
    """A `Zone` on 127.0.0.1, over UDP and TCP on one port. An async context manager.

    Inside a `Network` it need not listen: `serve_stream` and `serve_datagrams` are handlers for sites.

    Args:
        zone: what it knows and does.

    Attributes:
        zone: as given.
        address: where it listens; the port is 0 until it is entered.
    """

    def __init__(self, zone: Zone) -> None:
        """Keep the zone; nothing listens yet."""
        self.zone = zone
        self.address: tuple[str, int] = (LOOPBACK, 0)

    @property
    def url(self) -> str:
        """The server as a resolver's URL."""
        return f"udp://{self.address[0]}:{self.address[1]}"

    async def serve_stream(self, stream: ByteStream) -> None:
        """Answer the questions on one stream, each behind its length, until the client ends its side."""
        await _serve_stream(self.zone, stream, "tcp")

    async def serve_datagrams(self, client: UnreliableObjectStream[bytes]) -> None:
        """Answer the questions of one client until it has gone. What comes from another port never arrives."""
        async with anyio.create_task_group() as group:
            try:
                while True:
                    for reply in self.zone.replies(await client.receive(), over="udp"):
                        if not reply.elsewhere:
                            group.start_soon(_send_datagram, client, reply)
            except anyio.EndOfStream:
                group.cancel_scope.cancel()

    def _start(self, group: Tasks) -> None:
        listening, udp, elsewhere = _listen()
        self.address = (LOOPBACK, udp.port)
        site = Site(self.url, self.serve_stream)
        timetable = Timetable()

        async def serve(end: SocketEnd) -> None:
            try:
                await site.serve(end)
            finally:
                end.abort()

        def take(end: SocketEnd) -> None:
            group.start_soon(serve, end)

        def answer(question: bytes, client: tuple[str, int]) -> None:
            now = anyio.current_time()
            for reply in self.zone.replies(question, over="udp"):
                sender = elsewhere if reply.elsewhere else udp
                timetable.enter(now + reply.after, partial(sender.send, reply.data, client))

        group.start_soon(accept, listening, take)
        group.start_soon(udp.receive_all, answer)
        group.start_soon(elsewhere.receive_all, lambda _, __: None)
        group.start_soon(timetable.run)


class DoTServer(Server):
    """A `Zone` on 127.0.0.1, over TLS. An async context manager.

    Inside a `Network` it need not listen: `serve_stream` is a handler for a site, which brings TLS itself.

    Args:
        zone: what it knows and does.
        context: its TLS context, such as `Authority.server_context` gives.

    Attributes:
        zone: as given.
        address: where it listens; the port is 0 until it is entered.
    """

    def __init__(self, zone: Zone, *, context: ssl.SSLContext | None = None) -> None:
        """Keep the arguments; nothing listens yet."""
        super().__init__(self.serve_stream, context=context)
        self.zone = zone

    @property
    def url(self) -> str:
        """The server as a resolver's URL."""
        return f"tls://{self.address[0]}:{self.address[1]}"

    async def serve_stream(self, stream: ByteStream) -> None:
        """Answer the questions on one stream, each behind its length, until the client ends its side."""
        await _serve_stream(self.zone, stream, "tls")


def _listen() -> tuple[socket.socket, Datagrams, Datagrams]:
    """Return a TCP and a UDP socket on one port, and a UDP socket on another; the caller closes them."""
    # Ports that another program has for UDP are held until there is a better one, so as not to be offered again.
    with ExitStack() as held:
        for _ in range(_TRIES):
            listening = listen()
            try:
                udp = Datagrams(port=listening.getsockname()[1])
            except OSError:
                held.callback(listening.close)
                continue
            try:
                return listening, udp, Datagrams()
            except OSError:
                listening.close()
                udp.close()
                raise
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


async def _send_datagram(client: UnreliableObjectStream[bytes], reply: Reply) -> None:
    await anyio.sleep(reply.after)
    await client.send(reply.data)


async def _serve_stream(zone: Zone, stream: ByteStream, over: Carrier) -> None:
    lock = anyio.Lock()

    async def send(reply: Reply) -> None:
        await anyio.sleep(reply.after)
        async with lock:
            await stream.send(len(reply.data).to_bytes(2, "big") + reply.data)

    buffered = bytearray()
    # Answers overtake each other, and those begun are given after the client has ended its side (RFC 7766 §6.2.1.1).
    async with anyio.create_task_group() as group:
        async for data in stream:
            buffered += data
            while len(buffered) >= 2:
                length = int.from_bytes(buffered[:2], "big")
                if len(buffered) < 2 + length:
                    break
                question = bytes(buffered[2 : 2 + length])
                del buffered[: 2 + length]
                for reply in zone.replies(question, over=over):
                    group.start_soon(send, reply)
