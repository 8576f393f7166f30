"""Links for real sockets: a relay listens on 127.0.0.1, and what crosses it to another port meets the link."""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING

import anyio
from anyio.abc import SocketAttribute

from racer.lab._link import CLEAN, DatagramLink, Delivery, Profile, StreamLink

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType
    from typing import Self

    from anyio.abc import (
        ByteStream,
        ConnectedUDPSocket,
        Listener,
        ObjectReceiveStream,
        TaskGroup,
        UDPSocket,
    )

__all__ = ("TCPRelay", "UDPRelay")

_CHUNK = 16_384  # bytes, as in a Network
_IN_FLIGHT = 64  # chunks
_MAX_CLIENTS = 1024  # UDP clients remembered at once; more than any test has


class _Relay:
    """What both relays share: where to, what the link does, and a task group of their own.

    Args:
        host: where the relay leads to.
        port: likewise.
        up: what the link does to what clients send.
        down: what it does to what comes back.
        seed: of its dice.

    Attributes:
        address: where it listens, while it is entered.
    """

    def __init__(
        self, host: str, port: int, *, up: Profile = CLEAN, down: Profile = CLEAN, seed: int = 0
    ) -> None:
        """Keep the arguments; nothing listens yet."""
        self.address: tuple[str, int] = ("127.0.0.1", 0)
        self._upstream = (host, port)
        self._up = up
        self._down = down
        self._seeds = itertools.count(seed * 1_000_003)
        self._group: TaskGroup | None = None

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> bool | None:
        """Stop, and close everything."""
        group, self._group = self._group, None
        if group is None:
            return None
        group.cancel_scope.cancel()
        return await group.__aexit__(exc_type, exc, tb)


class TCPRelay(_Relay):
    """A link for TCP. An async context manager."""

    async def __aenter__(self) -> Self:
        """Begin to listen."""
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self.address = ("127.0.0.1", listener.extra(SocketAttribute.local_port))
        self._group = group = await anyio.create_task_group().__aenter__()
        group.start_soon(self._serve, listener)
        return self

    async def _serve(self, listener: Listener[ByteStream]) -> None:
        async with listener:
            await listener.serve(self._carry)

    async def _carry(self, client: ByteStream) -> None:
        async with client:
            try:
                upstream = await anyio.connect_tcp(*self._upstream)
            except OSError:
                return
            async with upstream, anyio.create_task_group() as group:
                group.start_soon(
                    self._pump,
                    client,
                    upstream,
                    StreamLink(self._up, seed=next(self._seeds)),
                    group,
                )
                group.start_soon(
                    self._pump,
                    upstream,
                    client,
                    StreamLink(self._down, seed=next(self._seeds)),
                    group,
                )

    async def _pump(
        self, source: ByteStream, sink: ByteStream, link: StreamLink, group: TaskGroup
    ) -> None:
        send, receive = anyio.create_memory_object_stream[Delivery](_IN_FLIGHT)
        group.start_soon(self._deliver, receive, sink, group)
        async with send:
            try:
                while True:
                    data = await source.receive(_CHUNK)
                    await send.send(link.send(data, anyio.current_time()))
                    await anyio.sleep_until(link.ready_at(anyio.current_time()))
            except anyio.EndOfStream:
                await send.send(link.send(b"", anyio.current_time()))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                group.cancel_scope.cancel()

    async def _deliver(
        self, receive: ObjectReceiveStream[Delivery], sink: ByteStream, group: TaskGroup
    ) -> None:
        async with receive:
            async for delivery in receive:
                await anyio.sleep_until(delivery.at)
                try:
                    if delivery.data:
                        await sink.send(delivery.data)
                    else:
                        await sink.send_eof()
                except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                    group.cancel_scope.cancel()
                    return


class UDPRelay(_Relay):
    """A link for UDP; each client has a socket of its own behind it. An async context manager."""

    async def __aenter__(self) -> Self:
        """Begin to listen."""
        udp = await anyio.create_udp_socket(local_host="127.0.0.1")
        self.address = ("127.0.0.1", udp.extra(SocketAttribute.local_port))
        self._group = group = await anyio.create_task_group().__aenter__()
        group.start_soon(self._serve, udp, group)
        return self

    async def _serve(self, udp: UDPSocket, group: TaskGroup) -> None:
        up = _Deliveries()
        down = _Deliveries()
        group.start_soon(up.run)
        group.start_soon(down.run)
        up_link = DatagramLink(self._up, seed=next(self._seeds))
        down_link = DatagramLink(self._down, seed=next(self._seeds))
        behind: dict[tuple[str, int], ConnectedUDPSocket] = {}
        async with udp:
            async for data, client in udp:
                place = (str(client[0]), client[1])
                if place not in behind:
                    if len(behind) >= _MAX_CLIENTS:
                        continue
                    behind[place] = await anyio.create_connected_udp_socket(*self._upstream)
                    group.start_soon(self._return, behind[place], udp, place, down, down_link)
                for delivery in up_link.send(data, anyio.current_time()):
                    up.add(delivery, behind[place].send)

    async def _return(
        self,
        upstream: ConnectedUDPSocket,
        udp: UDPSocket,
        client: tuple[str, int],
        down: _Deliveries,
        link: DatagramLink,
    ) -> None:
        async def back(data: bytes) -> None:
            await udp.sendto(data, *client)

        async with upstream:
            while True:
                try:
                    data = await upstream.receive()
                except anyio.BrokenResourceError:  # an ICMP error: nobody listens behind the link
                    await anyio.lowlevel.checkpoint()
                    continue
                for delivery in link.send(data, anyio.current_time()):
                    down.add(delivery, back)


class _Deliveries:
    """Datagrams under way in one direction, handed on when their time comes."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, bytes, Callable[[bytes], Awaitable[None]]]] = []
        self._order = itertools.count()
        self._news = anyio.Event()

    def add(self, delivery: Delivery, send: Callable[[bytes], Awaitable[None]]) -> None:
        heapq.heappush(self._heap, (delivery.at, next(self._order), delivery.data, send))
        self._news.set()

    async def run(self) -> None:
        while True:
            if not self._heap:
                self._news = anyio.Event()
                await self._news.wait()
            at, _, data, send = self._heap[0]
            if at > anyio.current_time():
                self._news = anyio.Event()
                with anyio.move_on_at(at):
                    await self._news.wait()
                continue
            heapq.heappop(self._heap)
            try:
                await send(data)
            except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                continue  # as a network loses it
