"""`Proxy`: a local SOCKS5 and HTTP proxy whose every connection is a race."""

from __future__ import annotations

import errno
import logging
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel

from racer._cleanup import close_within
from racer._dialer import Dialer
from racer._logs import log_error
from racer._socket_end import SocketEnd
from racer.abc import check_seconds
from racer.errors import ConfigError
from racer.proxy._conversation import Conversation
from racer.proxy._house import House
from racer.proxy._listening import checked_host, listen
from racer.proxy._tally import ProxyStatus, Tally
from racer.proxy._users import Users

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

    from anyio.abc import ByteStream, TaskGroup

    from racer.proxy._house import Failure

__all__ = ("HANDSHAKE_TIMEOUT", "IDLE_TIMEOUT", "MAX_CONNECTIONS", "Proxy")

HANDSHAKE_TIMEOUT: Final = 30.0
"""Seconds a client has to say what it wants, and between two requests."""

IDLE_TIMEOUT: Final = 7440.0
"""Seconds in which a tunnel may carry nothing: what NATs have to bear with (RFC 5382 §5, 2 hours 4 minutes)."""

MAX_CONNECTIONS: Final = 1024
"""Clients at once."""

_SPARE: Final = (
    64  # clients beyond the limit, who are told of it; more have to wait until they are taken
)
_PAUSE: Final = 0.1  # seconds before the next try where the system has no socket left
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

logger = logging.getLogger("racer.proxy")


class Proxy:
    """Serves SOCKS5 (RFC 1928, 1929) and HTTP/1.1 (RFC 9110 §9.3.6, RFC 9112 §3.2.2) on one port, told apart by the first octet.

    Each CONNECT is a race to the target that the client named: names are not looked up before it. TLS is the client's
    own, end to end. Requests for http:// URLs are forwarded by `racer.http`. An async context manager, entered once;
    leaving it closes everything at once, `drain` before that lets tunnels come to their end.

    A client that goes away while its race runs ends that race. What it sends before it is answered is carried. A side that
    ends is told to the other, which goes on; a side that breaks, breaks the other.

    Args:
        dialer: who races; whoever made it closes it, after the proxy.
        host: an IP address of this machine to listen on. Only loopback without `users`.
        port: 0 for any that is free.
        users: names to passwords; `None` if anybody may come who reaches the port.
        admin: whether `GET /readyz` and `GET /metrics` are answered, to who asks by an address of this machine.
        max_connections: clients at once; one more is refused in the words of its protocol.
        handshake_timeout: seconds a client has to say what it wants, and between two requests.
        idle_timeout: seconds in which a tunnel, or a forwarded request, may carry nothing before it is cut.
        on_failure: is called for each client that got nothing, with why; synchronous and quick.

    Raises:
        ConfigError: an option that cannot be; says which, and why, and quotes no password.
    """

    def __init__(
        self,
        dialer: Dialer,
        *,
        host: str = "127.0.0.1",
        port: int = 1080,
        users: Mapping[str, str] | None = None,
        admin: bool = False,
        max_connections: int = MAX_CONNECTIONS,
        handshake_timeout: float = HANDSHAKE_TIMEOUT,
        idle_timeout: float = IDLE_TIMEOUT,
        on_failure: Callable[[Failure], None] | None = None,
    ) -> None:
        """Check everything; nothing listens yet."""
        if not isinstance(dialer, Dialer):
            msg = f"a racer.Dialer was expected, not {type(dialer).__name__}"
            raise ConfigError(msg)
        if type(port) is not int or not 0 <= port <= 65535:
            msg = f"port must be a whole number from 0 to 65535, not {port!r:.40}"
            raise ConfigError(msg)
        if type(max_connections) is not int or max_connections < 1:
            msg = (
                f"max_connections must be a whole number of at least 1, not {max_connections!r:.40}"
            )
            raise ConfigError(msg)
        if not isinstance(admin, bool):
            msg = f"admin must be True or False, not {admin!r:.40}"
            raise ConfigError(msg)
        if on_failure is not None and not callable(on_failure):
            msg = f"on_failure must be a function, not {type(on_failure).__name__}"
            raise ConfigError(msg)
        check_seconds(handshake_timeout, "handshake_timeout")
        check_seconds(idle_timeout, "idle_timeout")
        accounts = Users(users)
        self._host = checked_host(host, is_guarded=accounts.are_wanted)
        self._port = port
        self._dialer = dialer
        self._max_connections = max_connections
        self._idle_timeout = float(idle_timeout)
        self._tally = Tally()
        self._house = House(
            dialer=dialer,
            users=accounts,
            tally=self._tally,
            address=None,
            pages=admin,
            handshake_timeout=float(handshake_timeout),
            status=self.status,
            is_full=lambda: len(self._clients) > max_connections,
            on_failure=on_failure,
        )
        self._clients: set[Conversation] = set()
        self._left = anyio.Event()
        self._group: TaskGroup | None = None
        self._accepting: anyio.CancelScope
        self._sweeping: anyio.CancelScope
        self._is_accepting = False

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens, or will; the port is the real one once it was entered."""
        return self._house.address or (self._host, self._port)

    def status(self) -> ProxyStatus:
        """Return what is going on, as frozen data; no IO."""
        tally = self._tally
        return ProxyStatus(
            address=self.address,
            is_accepting=self._is_accepting,
            is_ready=self._is_accepting and self._dialer.is_usable,
            clients=len(self._clients),
            racing=tally.racing,
            tunnels=tally.tunnels,
            accepted=tally.accepted,
            requests=MappingProxyType(dict(tally.requests)),
            attempts=MappingProxyType(dict(tally.attempts)),
            sent=tally.sent,
            received=tally.received,
        )

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            OSError: the address is taken, or not of this machine; says which.
            ConfigError: it was entered before.
            WrongLoop, DialerClosed: the dialer cannot be used here.
        """
        if self._group is not None:
            msg = "a proxy can be entered only once; make another"
            raise ConfigError(msg)
        await self._dialer.host.ensure()
        sock = listen(self._host, self._port)
        self._house.address = sock.getsockname()[:2]
        try:
            self._group = await anyio.create_task_group().__aenter__()
        except BaseException:
            sock.close()
            raise
        self._accepting, self._sweeping = anyio.CancelScope(), anyio.CancelScope()
        # From here on the task owns the socket, also if it never runs.
        self._is_accepting = True
        self._group.start_soon(self._accept, sock, self._accepting, name="racer proxy accept")
        self._group.start_soon(self._cut_idle, self._sweeping, name="racer proxy idle")
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> bool | None:
        """Close everything now: the port, every client, every race and every stream."""
        group = self._group
        assert group is not None
        # Not the group's own scope: it is the block's as well, and would swallow an asyncio `task.cancel()` that comes now.
        self._stop()
        self._sweeping.cancel()
        for client in self._clients:
            client.scope.cancel()
        if exc is None or _is_cancelled(exc):
            return await group.__aexit__(exc_type, exc, tb)
        # What was raised in the block leaves it as it was raised, not in a group.
        await group.__aexit__(None, None, None)
        return False

    def update_users(self, users: Mapping[str, str] | None) -> None:
        """Let these users in from now on, and no others; who has got in already stays.

        Raises:
            ConfigError: an account that cannot be, or none where others than this machine reach the port.
        """
        accounts = Users(users)
        checked_host(self._host, is_guarded=accounts.are_wanted)
        self._house.users = accounts

    async def drain(self, grace: float) -> int:
        """Take no more clients, let those that are at something end, and return how many have not after `grace` seconds.

        Clients that wait for a race or have a tunnel go on; others are closed. Those that are left end with the proxy's own
        end. Cancelling only stops the waiting.
        """
        self._stop()
        self._house.is_stopping = True
        for client in self._clients:
            if client.is_idle:
                client.scope.cancel()
        with anyio.move_on_after(grace):
            while self._clients:
                await self._left.wait()
        await anyio.lowlevel.checkpoint()
        return len(self._clients)

    async def serve_stream(self, stream: ByteStream) -> None:
        """Serve one client over a connection that was made elsewhere, and close it; in memory it need not listen."""
        await self._serve(self._admit(stream), stream)

    def _admit(self, stream: ByteStream) -> Conversation:
        client = Conversation(stream, self._house)
        self._tally.accepted += 1
        self._clients.add(client)
        return client

    # --- the tasks --------------------------------------------------------------------------

    def _stop(self) -> None:
        self._is_accepting = False
        if self._group is not None:
            self._accepting.cancel()

    async def _accept(self, sock: socket.socket, scope: anyio.CancelScope) -> None:
        """Take clients until told to stop; the port is free then."""
        with sock, scope:
            while True:
                while len(self._clients) >= self._max_connections + _SPARE:
                    await self._left.wait()
                try:
                    accepted, _ = sock.accept()
                except BlockingIOError:
                    await anyio.wait_readable(sock)
                except OSError as exc:
                    await self._bear(exc)
                else:
                    assert self._group is not None
                    stream = SocketEnd(accepted, keepalive=True)
                    client = self._admit(stream)
                    self._group.start_soon(self._serve, client, stream, name="racer proxy client")
                    await anyio.lowlevel.checkpoint()

    async def _bear(self, exc: OSError) -> None:
        """Go on after an error of accepting: the client has gone already, or the system has no socket left."""
        if exc.errno in _EXHAUSTED:
            logger.warning("cannot take more clients: %s", exc.strerror)
            await anyio.sleep(_PAUSE)
        else:
            await anyio.lowlevel.checkpoint()

    async def _serve(self, client: Conversation, stream: ByteStream) -> None:
        try:
            await client.run()
        except Exception as exc:  # noqa: BLE001 - a bug, which hurts no other client
            log_error(logger, logging.ERROR, "serving a client failed", error=exc, redacted=True)
        finally:
            self._clients.discard(client)
            self._left.set()
            self._left = anyio.Event()
            await close_within(stream, scope=anyio.CancelScope())

    async def _cut_idle(self, scope: anyio.CancelScope) -> None:
        """End what carries nothing for too long."""
        with scope:
            while True:
                now = anyio.current_time()
                next_look = now + self._idle_timeout
                for moving in self._house.moving:
                    idle_at = moving.moved_at + self._idle_timeout
                    if idle_at <= now:
                        moving.scope.cancel()
                    else:
                        next_look = min(next_look, idle_at)
                await anyio.sleep_until(next_look)


def _is_cancelled(exc: BaseException) -> bool:
    cancelled = anyio.get_cancelled_exc_class()
    if isinstance(exc, BaseExceptionGroup):
        return exc.subgroup(cancelled) is not None
    return isinstance(exc, cancelled)
