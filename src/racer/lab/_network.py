"""A small internet on one machine: sites behind addresses, a link, a censor, and hooks that put a transport into it.

On loopback every connection is a real TCP socket to a middlebox on 127.0.0.1; in memory it is a stream pair, which a
virtual clock can drive. What crosses, and what the censor does to it, is the same code.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import socket
import struct
from typing import TYPE_CHECKING

import anyio
from anyio.abc import SocketAttribute, SocketStream

from racer.errors import ConfigError
from racer.lab._censor import Blackhole, Inspector, Refuse, Throttle, Verdict
from racer.lab._link import CLEAN, Delivery, Profile, StreamLink
from racer.lab._sites import Site, echo
from racer.testing import MemoryStream, stream_pair

if TYPE_CHECKING:
    import ssl
    from types import TracebackType
    from typing import Self

    from anyio.abc import ByteStream, Listener, TaskGroup

    from racer.lab._censor import Rule
    from racer.lab._sites import Authority, Handler

__all__ = ("Network",)

_CHUNK = 16_384  # bytes; a TLS record, so that a link's dice fall about once a record
_IN_FLIGHT = 64  # chunks between the two ends of a link, before the sender feels back-pressure


class Network:
    """A network with sites in it, and a censor. An async context manager: what it began ends with it.

    Args:
        seed: of all its dice; the same seed gives the same network.
        up: what the link does to what clients send; a connection takes one round trip to stand.
        down: what it does to what comes back.
        in_memory: whether connections are stream pairs instead of sockets, for virtual clocks.

    Attributes:
        hosts: name to addresses, for a transport's `hosts=` option.
        rules: what the censor does; may be changed at any time, for connections that begin later.
        connects: how many connections were tried, by (address, port).
    """

    def __init__(
        self, *, seed: int = 0, up: Profile = CLEAN, down: Profile = CLEAN, in_memory: bool = False
    ) -> None:
        """Keep the arguments; nothing listens yet."""
        self.hosts: dict[str, list[str]] = {}
        self.rules: list[Rule] = []
        self.connects: dict[tuple[str, int], int] = {}
        self._seed = seed
        self._up = up
        self._down = down
        self._in_memory = in_memory
        self._sites: dict[tuple[str, int], Site] = {}
        self._doors: dict[tuple[str, int], int] = {}
        self._count = 0
        self._group: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        """Begin."""
        self._group = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> bool | None:
        """End every connection and listener."""
        group, self._group = self._group, None
        if group is None:
            return None
        group.cancel_scope.cancel()
        return await group.__aexit__(exc_type, exc, tb)

    async def add_site(
        self,
        name: str,
        *addresses: str,
        port: int = 443,
        authority: Authority | None = None,
        handler: Handler = echo,
        context: ssl.SSLContext | None = None,
    ) -> Site:
        """Return a site that can be reached under `name` from now on.

        Args:
            name: enters `hosts`.
            *addresses: where it is; any address will do, none of them is really used.
            port: where it listens.
            authority: makes its certificate; without one, and without `context`, it speaks without TLS.
            handler: what it does with a connection.
            context: its own TLS context instead.

        Raises:
            ConfigError: no address, or one that is taken.
        """
        if not addresses:
            msg = f"site {name!r} needs at least one address"
            raise ConfigError(msg)
        if context is None and authority is not None:
            context = authority.server_context(name, *addresses)
        site = Site(name, handler, context=context)
        for address in addresses:
            if (address, port) in self._sites:
                msg = f"{address} port {port} is taken by {self._sites[address, port].name!r}"
                raise ConfigError(msg)
            self._sites[address, port] = site
            if not self._in_memory:
                await self._open_door(address, port)
        known = self.hosts.setdefault(name, [])
        known += [address for address in addresses if address not in known]
        return site

    async def dial_tcp(self, address: str, port: int) -> ByteStream:
        """Return a connection to an address of this network; for a transport's `dial_tcp=` option.

        Raises:
            OSError: refused, or no such host.
        """
        place = (address, port)
        self.connects[place] = self.connects.get(place, 0) + 1
        rules = self._rules_for(address, port)
        if any(isinstance(rule, Blackhole) for rule in rules):
            await anyio.sleep_forever()
        round_trip = self._up.delay + self._down.delay
        if round_trip:
            await anyio.sleep(round_trip)
        if place not in self._sites or any(isinstance(rule, Refuse) for rule in rules):
            known = any(address == one for one, _ in self._sites)
            number = errno.ECONNREFUSED if known else errno.EHOSTUNREACH
            raise OSError(number, f"{os.strerror(number)} (lab: {address} port {port})")
        if self._in_memory:
            near, far = stream_pair(
                name=f"{address}:{port}",
                attributes={
                    SocketAttribute.remote_address: place,
                    SocketAttribute.remote_port: port,
                },
            )
            self._running().start_soon(self._carry, far, place)
            return near
        return await _connect(self._doors[place])

    def door(self, address: str, port: int) -> int:
        """Return the port on 127.0.0.1 behind which an address is, for programs that cannot be given a hook.

        Raises:
            ConfigError: nothing is there, or this network is in memory.
        """
        try:
            return self._doors[address, port]
        except KeyError:
            msg = f"no door leads to {address} port {port}"
            raise ConfigError(msg) from None

    def _running(self) -> TaskGroup:
        if self._group is None:
            msg = "this network is not running: use 'async with'"
            raise ConfigError(msg)
        return self._group

    def _rules_for(self, address: str, port: int) -> tuple[Rule, ...]:
        return tuple(rule for rule in self.rules if rule.applies(address, port))

    async def _open_door(self, address: str, port: int) -> None:
        group = self._running()
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self._doors[address, port] = listener.extra(SocketAttribute.local_port)

        async def carry(stream: SocketStream) -> None:
            await self._carry(stream, (address, port))

        async def serve(listener: Listener[SocketStream]) -> None:
            async with listener:
                await listener.serve(carry)

        group.start_soon(serve, listener, name=f"lab door to {address} port {port}")

    async def _carry(self, client: ByteStream, place: tuple[str, int]) -> None:
        """Be the path between one client and a site: the link, and the censor on it."""
        rules = self._rules_for(*place)
        self._count += 1
        seed = self._seed * 1_000_003 + self._count * 2
        inner, outer = stream_pair(name=f"lab path {self._count}")
        path = _Path(client, inner)
        up, down = (self._throttled(profile, rules) for profile in (self._up, self._down))
        try:
            async with anyio.create_task_group() as group:
                path.scope = group.cancel_scope
                group.start_soon(self._sites[place].serve, outer)
                group.start_soon(
                    path.pump, client, inner, StreamLink(up, seed=seed), Inspector(rules)
                )
                group.start_soon(path.pump, inner, client, StreamLink(down, seed=seed + 1), None)
        finally:
            with anyio.CancelScope(shield=True):
                for stream in (client, inner, outer):
                    await anyio.aclose_forcefully(stream)

    def _throttled(self, profile: Profile, rules: tuple[Rule, ...]) -> Profile:
        rates = [rule.rate for rule in rules if isinstance(rule, Throttle)]
        if not rates:
            return profile
        rate = min(rates) if profile.rate is None else min(profile.rate, *rates)
        return dataclasses.replace(profile, rate=rate, queue=max(_CHUNK, int(rate)))


class _Path:
    """The two directions of one connection."""

    def __init__(self, client: ByteStream, inner: MemoryStream) -> None:
        self._client = client
        self._inner = inner
        self.scope = anyio.CancelScope()

    async def pump(
        self, source: ByteStream, sink: ByteStream, link: StreamLink, inspector: Inspector | None
    ) -> None:
        send, receive = anyio.create_memory_object_stream[Delivery](_IN_FLIGHT)
        async with anyio.create_task_group() as group:
            group.start_soon(self._deliver, receive, sink)
            held = b""
            async with send:
                while True:
                    try:
                        data = await source.receive(_CHUNK)
                    except anyio.EndOfStream:
                        await send.send(link.send(b"", anyio.current_time()))
                        return
                    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                        self.reset()
                        return
                    verdict = Verdict.PASS if inspector is None else inspector.inspect(data)
                    if verdict is Verdict.RESET:
                        self.reset()
                        return
                    if verdict is Verdict.SWALLOW:
                        continue
                    held += data
                    if verdict is Verdict.PASS:
                        await send.send(link.send(held, anyio.current_time()))
                        held = b""
                    if (ready := link.ready_at(anyio.current_time())) > anyio.current_time():
                        await anyio.sleep_until(ready)

    async def _deliver(
        self, receive: anyio.abc.ObjectReceiveStream[Delivery], sink: ByteStream
    ) -> None:
        async with receive:
            async for delivery in receive:
                if delivery.at > anyio.current_time():
                    await anyio.sleep_until(delivery.at)
                try:
                    if delivery.data:
                        await sink.send(delivery.data)
                    else:
                        await sink.send_eof()
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    self.reset()
                    return

    def reset(self) -> None:
        """Break both sides at once, as a reset does."""
        for stream in (self._client, self._inner):
            if isinstance(stream, MemoryStream):
                stream.abort()
            else:
                # With no time to linger, closing a TCP socket sends a reset.
                raw = stream.extra(SocketAttribute.raw_socket)
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.scope.cancel()


async def _connect(port: int) -> SocketStream:
    return await anyio.connect_tcp("127.0.0.1", port)
