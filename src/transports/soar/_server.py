"""The server: an authority for its zones that carries streams for its clients (SPEC 15, 18)."""

from __future__ import annotations

import ipaddress
import logging
import os
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final, Self, assert_never

import anyio

from racer.errors import ConfigError
from transports._net.resolve import SystemResolver
from transports._net.wakeup import Wakeup
from transports.soar._clocks import SystemClocks
from transports.soar._connections import StreamListener
from transports.soar._listeners import DatagramListener, bind
from transports.soar._policy import DEFAULT_PORTS, TargetPolicy
from transports.soar._server_traces import ServerTraces
from transports.soar._targets import TargetConnector
from transports.soar._tunnels import Tunnel
from transports.soar.core.crypto.keys import ServerKey
from transports.soar.core.dns.authority import Authority
from transports.soar.core.dns.zone import Zone, Zones
from transports.soar.core.server import events as told
from transports.soar.core.server.server import Server
from transports.soar.core.server.settings import ServerSettings

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from anyio.abc import TaskGroup
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Tracer

    from racer.abc import DialTCP
    from transports._net.resolve import Resolver
    from transports.soar._clocks import Clocks
    from transports.soar._policy import Address
    from transports.soar.core.server.credentials import IssuedGrant
    from transports.soar.core.server.server_stream import ServerStream
    from transports.soar.core.server.source import Source
    from transports.soar.core.server.status import ServerCounts, ServerStatus

__all__ = ("SoarServer",)

_FAREWELL: Final = 1.0  # seconds in which clients are told that the server shuts down

logger = logging.getLogger("racer.soar")


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
        tracer: of OpenTelemetry; the global provider's by default.
        meter: likewise.
        shows_targets: whether spans name targets and grants.

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
        tracer: Tracer | None = None,
        meter: Meter | None = None,
        shows_targets: bool = False,
    ) -> None:
        """Check the options; no IO."""
        self._host = _checked_host(host)
        self._key = ServerKey.parse(key) if isinstance(key, str) else key
        zones = Zones(
            Zone.parse(text) for text in ([domain] if isinstance(domain, str) else domain)
        )
        self._port = _checked_port(port)
        servers = name_servers or {f"ns.{zones.all[0].text}": [self._host]}
        self._settings = ServerSettings(
            key=self._key,
            zones=zones,
            authority=Authority(
                zones,
                {
                    name: [_address(text, "name_servers") for text in them]
                    for name, them in servers.items()
                },
            ),
            idle_timeout=idle_timeout,
            grants=tuple(grants),
            needs_grant=needs_grant,
            max_sessions=max_sessions,
        )
        self._connector = TargetConnector(
            self._policy(allow, ports, own),
            resolver or SystemResolver(),
            dial_tcp=dial_tcp,
        )
        self._clocks = clocks or SystemClocks()
        self._uptime = uptime
        self._tracer = tracer
        self._meter = meter
        self._shows_targets = shows_targets
        self._block: AbstractAsyncContextManager[None] | None = None
        self._core: Server | None = None
        self._tasks: TaskGroup | None = None
        self._datagrams: DatagramListener | None = None
        self._connections: StreamListener | None = None
        self._timer: Wakeup | None = None
        self._rings_at: float | None = None
        self._traces: ServerTraces | None = None
        self._tunnels: dict[ServerStream, Tunnel] = {}
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

    def reconfigure(
        self,
        *,
        grants: Iterable[IssuedGrant],
        allow: Sequence[str] | None = None,
        ports: Iterable[int] = DEFAULT_PORTS,
        own: Iterable[str] = (),
    ) -> None:
        """Know these grants, and allow these targets, and no others; all of it or nothing. Open streams stay open.

        Raises:
            ConfigError: something can't be; nothing is changed then.
        """
        policy = self._policy(allow, ports, own)
        self.set_grants(grants)
        self._connector.policy = policy

    def _policy(
        self, allow: Sequence[str] | None, ports: Iterable[int], own: Iterable[str]
    ) -> TargetPolicy:
        addresses = {ipaddress.ip_address(self._host), *(_address(text, "own") for text in own)}
        return TargetPolicy(allow=allow, ports=ports, own=addresses)

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            OSError: the address or port is not to be had.
            RuntimeError: it runs already.
        """
        if self._block is not None:
            msg = "the server runs already"
            raise RuntimeError(msg)
        block = self._run()
        await block.__aenter__()
        self._block = block
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Tell the clients, for at most a second, and close everything. One that is cancelled tells them in passing."""
        assert self._block is not None
        block, self._block = self._block, None
        return await block.__aexit__(exc_type, exc, traceback)

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        failure: Exception | None = None
        with ExitStack() as made:
            datagrams, listener = bind(self._host, self._port)
            made.callback(_close, datagrams)
            made.callback(_close, listener)
            self._begin(datagrams, listener)
            made.callback(self._forget)
            assert self._datagrams is not None
            assert self._connections is not None
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                tasks.start_soon(self._datagrams.run)
                tasks.start_soon(self._connections.run)
                tasks.start_soon(self._keep_time)
                try:
                    yield
                except Exception as exc:  # noqa: BLE001 - raised below, where no group wraps it
                    failure = exc
                except BaseException:
                    self._shut_down()
                    raise
                if self._shut_down():
                    await anyio.sleep(_FAREWELL)
                tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    def _begin(self, datagrams: socket.socket, listener: socket.socket) -> None:
        now = self._clocks.now()
        began = now._replace(elapsed=now.elapsed - self._uptime, wall=now.wall - self._uptime)
        self._core = Server(self._settings, entropy=os.urandom, now=began)
        self._address = (self._host, datagrams.getsockname()[1])
        self._datagrams = DatagramListener(datagrams, self)
        self._connections = StreamListener(listener, self)
        self._timer = Wakeup()
        self._rings_at = None
        self._traces = ServerTraces(
            tracer=self._tracer,
            meter=self._meter,
            shows_targets=self._shows_targets,
            count=self._counts,
        )

    def _forget(self) -> None:
        if self._traces is not None:
            self._traces.close()
        self._core = self._address = self._datagrams = self._connections = self._traces = None
        self._tasks = self._timer = None

    def _shut_down(self) -> bool:
        """End all sessions, and return whether there were any; their parked questions are answered with that."""
        core = self._core
        if core is None or not core.sids():
            return False
        core.shutdown(self._clocks.now())
        self.flush()
        return True

    # --- what moves messages ------------------------------------------------------------------

    def receive(self, messages: Sequence[tuple[bytes, Source]]) -> None:
        """As `Taker.receive`."""
        core = self._core
        if core is None:
            return
        now = self._clocks.now()
        for message, source in messages:
            try:
                core.receive_message(message, source, now)
            except Exception:  # a bug that one question finds must not end the server for all
                logger.exception("a question was dropped")
        self.flush()

    def flush(self) -> None:
        """Send what the core has to say, and do what it has told."""
        core, datagrams, connections = self._core, self._datagrams, self._connections
        if core is None or datagrams is None or connections is None:
            return
        now = self._clocks.now()
        event = core.next_event()
        while True:
            while event is not None:
                self._take(event)
                event = core.next_event()
            try:
                outgoing = core.messages_to_send(now)
            except Exception:  # likewise; the next call goes on behind it
                logger.exception("an answer was dropped")
                outgoing = []
            for source, message in outgoing:
                (connections if source.tcp else datagrams).send(message, source)
            event = core.next_event()  # what was sent may have freed room
            if event is None:
                break
        due = core.next_timeout()
        is_sooner = due is not None and (self._rings_at is None or due < self._rings_at)
        if is_sooner and self._timer is not None:
            self._rings_at = due
            self._timer.set()

    async def _keep_time(self) -> None:
        core, timer = self._running(), self._timer
        assert timer is not None
        while True:
            self._rings_at = core.next_timeout()
            await timer.wait(self._rings_at)
            now = self._clocks.now()
            if self._rings_at is not None and now.awake >= self._rings_at:
                try:
                    core.handle_timeout(now)
                except Exception:  # likewise; what has rung doesn't ring again
                    logger.exception("a timeout was dropped")
                self.flush()

    def _take(self, event: told.ServerEvent) -> None:
        traces = self._traces
        assert traces is not None
        match event:
            case told.StreamOpened(stream=stream):
                self._open(stream)
            case told.StreamReadable(stream=stream):
                self._with(stream, Tunnel.readable)
            case told.StreamWritable(stream=stream):
                self._with(stream, Tunnel.writable)
            case told.StreamStopped(stream=stream):
                self._with(stream, Tunnel.stop)
            case told.StreamReset(stream=stream):
                self._with(stream, Tunnel.cancel)
            case told.StreamOver(stream=stream):
                self._with(stream, Tunnel.over)
            case told.SessionStarted():
                traces.session_started(event)
            case told.SessionEnded():
                traces.session_ended(event)
            case _:
                assert_never(event)

    def _with(self, stream: ServerStream, act: Callable[[Tunnel], None]) -> None:
        if (tunnel := self._tunnels.get(stream)) is not None:
            act(tunnel)

    def _open(self, stream: ServerStream) -> None:
        assert self._tasks is not None
        assert self._traces is not None
        tunnel = self._tunnels[stream] = Tunnel(stream, self.flush)
        self._traces.stream_opened(tunnel)
        self._tasks.start_soon(self._serve, tunnel)

    async def _serve(self, tunnel: Tunnel) -> None:
        try:
            await tunnel.run(self._connector)
        except Exception:  # a bug that one stream finds must not end all others
            logger.exception("a stream failed")
            tunnel.fail()
        finally:
            del self._tunnels[tunnel.stream]
            if self._traces is not None:
                self._traces.stream_ended(tunnel)

    def _counts(self) -> ServerCounts | None:
        core = self._core
        return None if core is None else core.counts()

    def _running(self) -> Server:
        if self._core is None:
            msg = "the server does not run"
            raise RuntimeError(msg)
        return self._core


def _close(sock: socket.socket) -> None:
    anyio.notify_closing(sock)
    sock.close()


def _address(text: str, where: str) -> Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        msg = f"{where}: {text!r} is no IP address"
        raise ConfigError(msg) from None


def _checked_host(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        msg = f"host must be an IP address of this machine, not {host!r}"
        raise ConfigError(msg) from None


def _checked_port(port: int) -> int:
    if not 0 <= port <= 65_535:
        msg = f"port is {port}; it must be from 0, for any that is free, to 65535"
        raise ConfigError(msg)
    return port
