"""A Soar server, the way to it, and targets behind it: all in memory, so that waiting costs nothing and times are exact."""

from __future__ import annotations

import hashlib
import heapq
import itertools
import os
import ssl
from contextlib import asynccontextmanager, suppress
from functools import cache, partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Self

import anyio
import anyio.lowlevel
import trustme
from anyio.abc import ByteStream, UnreliableObjectStream
from anyio.streams.tls import TLSStream

from racer.abc import Progress, Target
from racer.testing import LocalHost
from transports._net.wakeup import Wakeup
from transports.soar import ServerKey, Soar, generate_key
from transports.soar.core.dns.authority import Authority
from transports.soar.core.dns.zone import Zone, Zones
from transports.soar.core.instants import Instant
from transports.soar.core.server import events as told
from transports.soar.core.server.server import Server
from transports.soar.core.server.settings import ServerSettings
from transports.soar.core.server.source import Source
from transports.soar.core.streams.frames import RefusalReason, ResetCode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from types import TracebackType

    from anyio.abc import TaskGroup

    from transports.soar.core.server.server_stream import ServerStream

__all__ = (
    "ADDRESS",
    "RTT",
    "ZONE",
    "MemoryWorld",
    "connect",
    "everything",
    "exactly",
    "pattern",
    "tls_contexts",
    "tunnel",
)

ZONE = "t.example.com"
ADDRESS = "192.0.2.53"
RTT = 0.1
LONG_UP = 1000.0  # seconds: long enough to execute early frames (SPEC 7.9)
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


@cache
def pattern(size: int) -> bytes:
    """Return octets that no two places of a packet have in common."""
    return hashlib.shake_128(b"soar").digest(size)


@cache
def tls_contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return a server's context for every name below `example`, and that of a client who believes it."""
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("tls.example", key_type=trustme.KeyType.ECDSA).configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, client


class Clocks:
    """The loop's clock, and how long the machine has slept beside it."""

    def __init__(self) -> None:
        self.slept = 0.0

    def now(self) -> Instant:
        awake = anyio.current_time()
        return Instant(5000.0 + awake + self.slept, awake, 1_800_000_000 + awake + self.slept)


class Wire:
    """Does what is due later; in order."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._count = itertools.count()
        self._wakeup = Wakeup()

    def later(self, delay: float, act: Callable[[], object]) -> None:
        at = anyio.current_time() + delay
        heapq.heappush(self._due, (at, next(self._count), act))
        if self._due[0][0] == at:
            self._wakeup.set()

    async def run(self) -> None:
        while True:
            while self._due and self._due[0][0] <= anyio.current_time():
                heapq.heappop(self._due)[2]()
            await self._wakeup.wait(self._due[0][0] if self._due else None)


class Datagrams(UnreliableObjectStream[bytes]):
    """The client's socket."""

    def __init__(self, world: MemoryWorld) -> None:
        self._world = world
        self._came: list[bytes] = []
        self._wakeup = Wakeup()
        world.sockets.add(self)

    def deliver(self, message: bytes) -> None:
        self._came.append(message)
        self._wakeup.set()

    async def receive(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        while not self._came:
            await self._wakeup.wait()
        return self._came.pop(0)

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        self._world.ask(item, self)

    async def aclose(self) -> None:
        self._world.sockets.discard(self)
        await anyio.lowlevel.checkpoint()


class Side(ByteStream):
    """The server's end of a stream, as a target's program holds it."""

    def __init__(self, stream: ServerStream, flush: Callable[[], None]) -> None:
        self.stream = stream
        self._flush = flush
        self.wakeup = Wakeup()
        self.room = Wakeup()
        self.is_over = False

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        await anyio.lowlevel.checkpoint()
        while True:
            if data := self.stream.read(max_bytes):
                self._flush()
                return data
            if self.stream.at_end:
                raise anyio.EndOfStream
            if self.is_over:
                raise anyio.BrokenResourceError
            await self.wakeup.wait()

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        while item:
            if self.is_over:
                raise anyio.BrokenResourceError
            if room := self.stream.room:
                self.stream.write(item[:room])
                item = item[room:]
                self._flush()
            else:
                await self.room.wait()

    async def send_eof(self) -> None:
        self.stream.finish()
        self._flush()

    async def aclose(self) -> None:
        self.stream.finish()
        self.stream.stop(ResetCode.CLOSED)
        self._flush()


class MemoryWorld:
    """Runs while its block does.

    Args:
        rtt: seconds there and back, to the server.
        options: of `ServerSettings`.

    Attributes:
        key: the server's.
        clocks: everybody's.
        sockets: the clients' that are open.
        is_up: whether the way leads anywhere.
        opened: the hosts of all streams that reached the server, in order.
        delivered: what has come to `sink.example`.
        questions: how many were asked.
        push: set, has `push.example` say something by itself.
    """

    def __init__(self, *, rtt: float = RTT, **options: Any) -> None:
        self.rtt = rtt
        self.options = options
        self.key: ServerKey = generate_key()
        self.is_up = True
        self.sockets: set[Datagrams] = set()
        self.opened: list[str] = []
        self.delivered = bytearray()
        self.cancelled: list[str] = []
        self.questions = 0
        self.welcomes_before = 0
        self.server: Server | None = None

    async def __aenter__(self) -> Self:
        self.clocks = Clocks()
        self.wire = Wire()
        self.push = anyio.Event()
        self._sides: dict[int, Side] = {}
        self._timer = Wakeup()
        self._tasks: TaskGroup = await anyio.create_task_group().__aenter__()
        self._tasks.start_soon(self.wire.run)
        self._tasks.start_soon(self._keep_time)
        self.start_server(uptime=LONG_UP)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        self._tasks.cancel_scope.cancel()
        return await self._tasks.__aexit__(exc_type, exc, traceback)

    # --- the server

    def start_server(self, *, uptime: float = 0.0, **options: Any) -> None:
        """Begin, or begin anew with the same key and nothing else."""
        zones = Zones([Zone.parse(ZONE)])
        settings: dict[str, Any] = {
            "key": self.key,
            "zones": zones,
            "authority": Authority(zones, {f"ns.{ZONE}": [ip_address(ADDRESS)]}),
            **self.options,
            **options,
        }
        now = self.clocks.now()
        began = now._replace(elapsed=now.elapsed - uptime, wall=now.wall - uptime)
        self.server = Server(ServerSettings(**settings), entropy=os.urandom, now=began)

    def kill_server(self) -> None:
        """Have it gone, and everything that it knew."""
        self.welcomes_before = self.handshakes
        self.server = None
        for side in self._sides.values():
            self._end(side)
        self._sides.clear()

    def restart_server(self, **options: Any) -> None:
        self.kill_server()
        self.start_server(**options)

    @property
    def handshakes(self) -> int:
        """How many sessions were begun."""
        if self.server is None:
            return self.welcomes_before
        counts = self.server.status(self.clocks.now()).handshakes
        return self.welcomes_before + counts.get("welcome", 0)

    @property
    def sessions(self) -> int:
        """How many the server knows."""
        assert self.server is not None
        return len(self.server.sids())

    def flush(self) -> None:
        server = self.server
        if server is None:
            return
        while True:
            while (event := server.next_event()) is not None:
                self._take(event)
            messages = server.messages_to_send(self.clocks.now())
            if not messages:
                break
            for source, message in messages:
                self._answer(source, message)
        self._timer.set()

    def _answer(self, source: Source, message: bytes) -> None:
        sock = source.tag
        assert isinstance(sock, Datagrams)
        if self.is_up:
            self.wire.later(self.rtt / 2, partial(sock.deliver, message))

    def ask(self, message: bytes, sock: Datagrams) -> None:
        self.questions += 1
        if self.is_up:
            self.wire.later(self.rtt / 2, partial(self._arrive, message, sock))

    def _arrive(self, message: bytes, sock: Datagrams) -> None:
        if self.server is not None:
            source = Source(ip_address(ADDRESS).packed, 53, tag=sock)
            self.server.receive_message(message, source, self.clocks.now())
            self.flush()

    async def _keep_time(self) -> None:
        while True:
            due = None if self.server is None else self.server.next_timeout()
            await self._timer.wait(due)
            now = self.clocks.now()
            if self.server is not None and due is not None and now.awake >= due:
                self.server.handle_timeout(now)
                self.flush()

    def _take(self, event: told.ServerEvent) -> None:
        match event:
            case told.StreamOpened(stream=stream, target=target):
                side = self._sides[id(stream)] = Side(stream, self.flush)
                self.opened.append(str(target.host))
                self._tasks.start_soon(self._serve, side)
            case told.StreamReadable(stream=stream):
                self._wake(stream)
            case told.StreamWritable(stream=stream) | told.StreamStopped(stream=stream):
                self._wake(stream)
            case told.StreamReset(stream=stream) | told.StreamOver(stream=stream):
                if (found := self._sides.get(id(stream))) is not None:
                    self._end(found)
            case _:
                pass

    def _wake(self, stream: ServerStream) -> None:
        if (side := self._sides.get(id(stream))) is not None:
            side.wakeup.set()
            side.room.set()

    @staticmethod
    def _end(side: Side) -> None:
        side.is_over = True
        side.wakeup.set()
        side.room.set()

    # --- targets

    async def _serve(self, side: Side) -> None:
        host = str(side.stream.target.host)
        try:
            with suppress(*_GONE):
                await self._play(host, side)
        finally:
            if side.is_over:
                self.cancelled.append(host)
            self._sides.pop(id(side.stream), None)
        self.flush()

    async def _play(self, host: str, side: Side) -> None:
        refusals = {
            "refused.example": RefusalReason.CONNECTION_REFUSED,
            "unreachable.example": RefusalReason.UNREACHABLE,
            "forbidden.example": RefusalReason.POLICY,
        }
        if host in refusals:
            side.stream.refuse(refusals[host])
            return
        if host == "mute.example":
            while not side.is_over:
                await side.wakeup.wait()
            return
        side.stream.opened()
        self.flush()
        match host:
            case "echo.example":
                async for data in side:
                    await side.send(data)
                await side.send_eof()
            case "sink.example":
                async for data in side:
                    self.delivered += data
                await side.send_eof()
            case "lazy.example":  # takes nothing
                await anyio.sleep_forever()
            case "down.example":
                size = int((await side.receive()).decode())
                await side.send(pattern(size))
                await side.send_eof()
            case "up.example":
                await side.send(hashlib.sha256(await everything(side)).digest())
                await side.send_eof()
            case "reset.example":
                await side.send(b"half a ")
                await side.receive()
                side.stream.reset(ResetCode.RESET_BY_TARGET)
            case "push.example":
                await self.push.wait()
                await side.send(b"news")
                await side.send_eof()
            case "tls.example":
                tls = await TLSStream.wrap(side, server_side=True, ssl_context=tls_contexts()[0])
                async for data in tls:
                    await tls.send(data)
            case unknown:
                raise AssertionError(unknown)

    # --- clients

    async def dial_udp(self, address: str, port: int) -> Datagrams:
        await anyio.lowlevel.checkpoint()
        assert (address, port) == (ADDRESS, 53)
        return Datagrams(self)

    def soar(self, **options: Any) -> Soar:
        """Return a client that asks by way of this world."""
        settings: dict[str, Any] = {
            "domain": ZONE,
            "server_key": self.key.public,
            "resolvers": [f"udp://{ADDRESS}"],
            "dial_udp": self.dial_udp,
            "clocks": self.clocks,
        }
        return Soar(**{**settings, **options})

    @asynccontextmanager
    async def started(self, **options: Any) -> AsyncIterator[Soar]:
        """Yield a client that has a host; leaving closes it, and checks that nothing is left."""
        soar = self.soar(**options)
        async with LocalHost() as host:
            await soar.start(host)
            yield soar
            await soar.aclose()
            for _ in range(10):
                await anyio.lowlevel.checkpoint()
            assert host.running == []
            assert host.errors == []
        assert self.sockets == set()


async def connect(soar: Soar, host: str, *, tls: bool = False) -> ByteStream:
    """Return a stream to a target, without a race."""
    return await soar.connect(Target(host, 443 if tls else 80, tls=tls), Progress())


@asynccontextmanager
async def tunnel(host: str, **options: Any) -> AsyncIterator[tuple[MemoryWorld, ByteStream]]:
    """Yield a world of its own, and a stream to a target in it."""
    async with (
        MemoryWorld() as world,
        world.started(**options) as soar,
        await connect(soar, host) as stream,
    ):
        yield world, stream


async def exactly(stream: ByteStream, size: int) -> bytes:
    """Return so many octets."""
    octets = b""
    while len(octets) < size:
        octets += await stream.receive(size - len(octets))
    return octets


async def everything(stream: ByteStream) -> bytes:
    """Return what comes until the end."""
    octets = bytearray()
    async for chunk in stream:
        octets += chunk
    return bytes(octets)
