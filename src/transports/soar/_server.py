"""The server: an authority for its zones that carries streams for its clients (SPEC 15, 18)."""

from __future__ import annotations

import ipaddress
import os
from typing import TYPE_CHECKING, Final, Self

import anyio

from racer.errors import ConfigError
from transports._net.resolve import SystemResolver
from transports._net.wakeup import Wakeup
from transports.soar._clocks import SystemClocks
from transports.soar._listeners import DatagramListener, StreamListener, bind
from transports.soar._policy import DEFAULT_PORTS, TargetPolicy
from transports.soar._targets import TargetConnector, Tunnel
from transports.soar.core.crypto.keys import ServerKey
from transports.soar.core.dns.authority import Authority
from transports.soar.core.dns.zone import Zone, Zones
from transports.soar.core.server import events as told
from transports.soar.core.server.server import Server
from transports.soar.core.server.settings import ServerSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from anyio.abc import TaskGroup

    from racer.abc import DialTCP
    from transports._net.resolve import Resolver
    from transports.soar._clocks import Clocks
    from transports.soar.core.server.credentials import IssuedGrant
    from transports.soar.core.server.server_stream import ServerStream
    from transports.soar.core.server.source import Source
    from transports.soar.core.server.status import ServerStatus

__all__ = ("SoarServer",)

_FAREWELL: Final = 1.0  # seconds in which clients are told that the server shuts down


class SoarServer:
    """Serves while its block runs: `async with SoarServer(...) as server`.

    On leaving, sessions are told that the server shuts down, and everything is closed.

    Args:
        domain: the zone, or several.
        key: the server's key, as `generate_key()` makes one, or its text.
        host: an IP address of this machine.
        port: for UDP and TCP; 0 takes a free one.
        idle_timeout: seconds of silence after which a session ends; 0.1 to 600.
        allow: targets that may be reached, as for `TargetPolicy`; `None` for all public ones.
        ports: that may be reached where a rule names none.
        grants: credentials that it knows.
        needs_grant: whether clients have to show one.
        name_servers: names of the zones' name servers, with their addresses; by default `ns.` and the zone.
        own: addresses of this machine, which are never reached, besides `host`.
        max_sessions: at once.
        resolver: looks targets up; the system's by default.
        dial_tcp: makes connections to targets' addresses, once they were judged, in place of our own sockets.
        clocks: tell the time.
        uptime: seconds for which it counts as running already; for tests and benchmarks, since a server executes early
            frames only 90 s after its start (SPEC 7.9). A server that takes over a running one's key must leave it 0.

    Raises:
        ConfigError: an option that cannot be; says which.
    """

    def __init__(
        self,
        *,
        domain: str | Sequence[str],
        key: ServerKey | str,
        host: str = "127.0.0.1",
        port: int = 0,
        idle_timeout: float = 120.0,
        allow: Sequence[str] | None = None,
        ports: Iterable[int] = DEFAULT_PORTS,
        grants: Iterable[IssuedGrant] = (),
        needs_grant: bool = False,
        name_servers: Mapping[str, Iterable[str]] | None = None,
        own: Iterable[str] = (),
        max_sessions: int = 20_000,
        resolver: Resolver | None = None,
        dial_tcp: DialTCP | None = None,
        clocks: Clocks | None = None,
        uptime: float = 0.0,
    ) -> None:
        """Check the options; no IO."""
        self._host = _checked_host(host)
        self._port = port
        self._key = ServerKey.parse(key) if isinstance(key, str) else key
        zones = Zones(
            Zone.parse(text) for text in ([domain] if isinstance(domain, str) else domain)
        )
        addresses = {ipaddress.ip_address(text) for text in own} | {
            ipaddress.ip_address(self._host)
        }
        servers = name_servers or {f"ns.{zones.all[0].text}": [self._host]}
        self._settings = ServerSettings(
            key=self._key,
            zones=zones,
            authority=Authority(
                zones,
                {
                    name: [ipaddress.ip_address(text) for text in them]
                    for name, them in servers.items()
                },
            ),
            idle_timeout=idle_timeout,
            grants=tuple(grants),
            needs_grant=needs_grant,
            max_sessions=max_sessions,
        )
        self._connector = TargetConnector(
            TargetPolicy(allow=allow, ports=ports, own=addresses),
            resolver or SystemResolver(),
            dial_tcp=dial_tcp,
        )
        self._clocks = clocks or SystemClocks()
        self._uptime = uptime
        self._core: Server | None = None
        self._tasks: TaskGroup | None = None
        self._datagrams: DatagramListener | None = None
        self._streams: StreamListener | None = None
        self._timer: Wakeup | None = None
        self._rings_at: float | None = None
        self._tunnels: dict[int, Tunnel] = {}
        self._address: tuple[str, int] | None = None

    # --- the program's side -------------------------------------------------------------------

    @property
    def address(self) -> tuple[str, int]:
        """The IP address and port on which it listens.

        Raises:
            RuntimeError: it does not run.
        """
        if self._address is None:
            msg = "the server does not run"
            raise RuntimeError(msg)
        return self._address

    @property
    def public_key(self) -> str:
        """What clients need to know of it."""
        return self._key.public.to_text()

    def status(self) -> ServerStatus:
        """Return how it is: sessions, leases, counts.

        Raises:
            RuntimeError: it does not run.
        """
        return self._running().status(self._clocks.now())

    def revoke(self, grant_id: bytes) -> None:
        """Take a grant back; its sessions end."""
        self._running().revoke(grant_id, self._clocks.now())
        self.flush()

    def set_grants(self, grants: Iterable[IssuedGrant]) -> None:
        """Know these grants and no others.

        Raises:
            ConfigError: two have one id; nothing is changed then.
        """
        self._running().set_grants(grants, self._clocks.now())
        self.flush()

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            OSError: the address or port is not to be had.
        """
        datagrams, listener = bind(self._host, self._port)
        self._address = (self._host, datagrams.getsockname()[1])
        now = self._clocks.now()
        began = now._replace(
            elapsed=now.elapsed - self._uptime, awake=now.awake, wall=now.wall - self._uptime
        )
        self._core = Server(self._settings, entropy=os.urandom, now=began)
        self._datagrams = DatagramListener(datagrams, self)
        self._streams = StreamListener(listener, self)
        self._timer = Wakeup()
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._datagrams.run)
        self._tasks.start_soon(self._streams.run)
        self._tasks.start_soon(self._keep_time, self._timer)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Tell the clients, for at most a second, and close everything."""
        assert self._tasks is not None
        try:
            if exc is None and self._core is not None and self._core.sids():
                self._core.shutdown(self._clocks.now())
                self.flush()
                await anyio.sleep(_FAREWELL)
        finally:
            self._tasks.cancel_scope.cancel()
            result = await self._tasks.__aexit__(exc_type, exc, traceback)
            self._address = None
            self._core = None
        return result

    # --- what moves messages ------------------------------------------------------------------

    def receive(self, messages: Sequence[tuple[bytes, Source]]) -> None:
        """As `Taker.receive`."""
        core = self._core
        if core is None:
            return
        now = self._clocks.now()
        for message, source in messages:
            core.receive_message(message, source, now)
        self.flush()

    def flush(self) -> None:
        """Send what the core has to say, and do what it has told."""
        core, datagrams, streams = self._core, self._datagrams, self._streams
        if core is None or datagrams is None or streams is None:
            return
        now = self._clocks.now()
        while True:
            while (event := core.next_event()) is not None:
                self._take(event)
            outgoing = core.messages_to_send(now)
            if not outgoing:
                break
            for source, message in outgoing:
                (streams if source.tcp else datagrams).send(message, source)
        due = core.next_timeout()
        is_sooner = due is not None and (self._rings_at is None or due < self._rings_at)
        if is_sooner and self._timer is not None:
            self._rings_at = due
            self._timer.set()

    async def _keep_time(self, timer: Wakeup) -> None:
        core = self._running()
        while True:
            self._rings_at = core.next_timeout()
            await timer.wait(self._rings_at)
            now = self._clocks.now()
            if self._rings_at is not None and now.awake >= self._rings_at:
                core.handle_timeout(now)
                self.flush()

    def _take(self, event: told.ServerEvent) -> None:
        match event:
            case told.StreamOpened(stream=stream):
                self._open(stream)
            case told.StreamReadable(stream=stream):
                self._with(stream, Tunnel.readable)
            case told.StreamWritable(stream=stream):
                self._with(stream, Tunnel.writable)
            case told.StreamStopped(stream=stream):
                self._with(stream, Tunnel.stop)
            case told.StreamReset(stream=stream) | told.StreamOver(stream=stream):
                self._with(stream, Tunnel.cancel)
            case _:
                pass

    def _with(self, stream: ServerStream, act: Callable[[Tunnel], None]) -> None:
        if (tunnel := self._tunnels.get(id(stream))) is not None:
            act(tunnel)

    def _open(self, stream: ServerStream) -> None:
        assert self._tasks is not None
        tunnel = self._tunnels[id(stream)] = Tunnel(stream, self.flush)
        self._tasks.start_soon(self._serve, tunnel)

    async def _serve(self, tunnel: Tunnel) -> None:
        try:
            await tunnel.run(self._connector)
        finally:
            self._tunnels.pop(id(tunnel.stream), None)

    def _running(self) -> Server:
        if self._core is None:
            msg = "the server does not run"
            raise RuntimeError(msg)
        return self._core


def _checked_host(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        msg = f"host must be an IP address of this machine, not {host!r}"
        raise ConfigError(msg) from None
