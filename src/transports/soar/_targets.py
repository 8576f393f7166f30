"""The server's side of a stream: a name looked up once, an address that was judged, and octets both ways (SPEC 18.5)."""

from __future__ import annotations

import errno
import ipaddress
import logging
import socket
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
from anyio.abc import SocketAttribute

from racer.abc import Progress
from racer.errors import ErrorType, TransportBusy, TransportError
from transports._net.addresses import Family
from transports._net.drive import close_by_force
from transports._net.eyeballs import connect_name
from transports._net.tcp import connect_socket, wrap_socket
from transports._net.wakeup import Wakeup
from transports.soar.core.streams.frames import RefusalReason, ResetCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import ByteStream

    from racer.abc import DialTCP
    from transports._net.eyeballs import Dial
    from transports._net.resolve import Resolver
    from transports.soar._policy import TargetPolicy
    from transports.soar.core.server.server_stream import ServerStream
    from transports.soar.core.streams.targets import Target

_T = TypeVar("_T")

__all__ = ("CONNECT_TIMEOUT", "MAX_CONNECTING", "Refused", "TargetConnector", "Tunnel")

CONNECT_TIMEOUT: Final = 10.0  # seconds for a lookup and the connection
MAX_CONNECTING: Final = 512  # connections in the making, of all sessions; more are refused at once
_READ: Final = 65_536
_FAMILIES: Final = (Family.IPV6, Family.IPV4) if socket.has_ipv6 else (Family.IPV4,)

_STREAM_ERRORS: Final = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError)

logger = logging.getLogger("racer.soar")


class Refused(Exception):
    """A target that is not connected to.

    Attributes:
        reason: what the client is told.
        words: for the log.
    """

    def __init__(self, reason: RefusalReason, words: str) -> None:
        """Keep both."""
        super().__init__(words)
        self.reason = reason
        self.words = words


class _NotAllowed(OSError):
    """An address that the policy refuses, among others of a name."""


class TargetConnector:
    """Connects to targets that the policy allows.

    Args:
        policy: judges names and addresses.
        resolver: looks names up.
        timeout: seconds for all of it.
        dial_tcp: makes the connections, to addresses that were judged, in place of our own sockets.
    """

    def __init__(
        self,
        policy: TargetPolicy,
        resolver: Resolver,
        *,
        timeout: float = CONNECT_TIMEOUT,
        dial_tcp: DialTCP | None = None,
    ) -> None:
        """Connect to nothing yet."""
        self.policy = policy
        self._resolver = resolver
        self._timeout = timeout
        self._dial_tcp = dial_tcp
        self._connecting = 0

    async def connect(self, target: Target) -> ByteStream:
        """Return a stream to `target`; the caller closes it.

        Raises:
            Refused: why not, as the client is told.
        """
        if self._connecting >= MAX_CONNECTING:
            raise Refused(RefusalReason.TOO_MANY_STREAMS, "too many connections in the making")
        self._connecting += 1
        try:
            with anyio.fail_after(self._timeout):
                if self._dial_tcp is not None:
                    return await self._connect(target, self._dial_tcp, close_by_force)
                sock = await self._connect(target, connect_socket, _close_socket)
                return await wrap_socket(sock)
        except TimeoutError as exc:
            raise Refused(RefusalReason.TIMED_OUT, "not connected in time") from exc
        except (OSError, TransportError) as exc:
            raise _refused(exc) from exc
        finally:
            self._connecting -= 1

    async def _connect(
        self, target: Target, make: Dial[_T], discard: Callable[[_T], Awaitable[None]]
    ) -> _T:
        host, port = target
        if not isinstance(host, str):
            self._judge(str(host), port, name=None)
            return await make(str(host), port)
        if words := self.policy.refuses_name(host, port):
            raise Refused(RefusalReason.POLICY, words)

        async def dial(address: str, port: int) -> _T:
            self._judge(address, port, name=host)
            return await make(address, port)

        return await connect_name(
            host.rstrip("."),
            port,
            resolver=self._resolver,
            families=_FAMILIES,
            dial=dial,
            discard=discard,
            attempt_delay=0.25,
            resolution_delay=0.05,
            progress=Progress(),
        )

    def _judge(self, address: str, port: int, *, name: str | None) -> None:
        parsed = ipaddress.ip_address(address)
        if words := self.policy.refuses_address(parsed, port, name=name):
            raise _NotAllowed(errno.EACCES, words)


class Tunnel:
    """One stream of a client's, and the connection that it leads to.

    Args:
        stream: the core's.
        flush: sends what the core has to say.
    """

    def __init__(self, stream: ServerStream, flush: Callable[[], None]) -> None:
        """Connect to nothing yet."""
        self.stream = stream
        self._flush = flush
        self._readable = Wakeup()
        self._writable = Wakeup()
        self._scope = anyio.CancelScope()
        self._reads_target = True

    def readable(self) -> None:
        """The client has sent octets, or its end."""
        self._readable.set()

    def writable(self) -> None:
        """There is room for the target's octets."""
        self._writable.set()

    def stop(self) -> None:
        """The client reads no more; what it sends still goes on."""
        self._reads_target = False
        self._writable.set()

    def cancel(self) -> None:
        """End at once: the stream or its session is over."""
        self._scope.cancel()

    async def run(self, connector: TargetConnector) -> str:
        """Connect, carry octets until both directions have ended, and return how that went, for telemetry."""
        with self._scope:
            try:
                target = await connector.connect(self.stream.target)
            except Refused as exc:
                logger.debug("a target was refused: %s", exc.words)
                self.stream.refuse(exc.reason)
                self._flush()
                return exc.reason.name.lower()
            try:
                self.stream.opened()
                self._flush()
                await self._carry(target)
            finally:
                await close_by_force(target)
            return "closed"
        self.stream.reset(ResetCode.CLOSED)
        self._flush()
        return "cancelled"

    async def _carry(self, target: ByteStream) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._from_target, target)
                await self._to_target(target)
        except* _STREAM_ERRORS:
            self.stream.reset(ResetCode.RESET_BY_TARGET)
            self._flush()

    async def _to_target(self, target: ByteStream) -> None:
        stream = self.stream
        while True:
            while data := stream.read(_READ):
                await target.send(data)
                self._flush()  # the window that was freed
            if stream.at_end:
                await target.send_eof()
                return
            await self._readable.wait()

    async def _from_target(self, target: ByteStream) -> None:
        stream = self.stream
        while self._reads_target:
            room = stream.room
            if not room:
                await self._writable.wait()
                continue
            try:
                data = await target.receive(min(room, _READ))
            except anyio.EndOfStream:
                stream.finish()
                self._flush()
                return
            stream.write(data)
            self._flush()
        # Nobody reads it any more: it may as well stop sending.
        raw = target.extra(SocketAttribute.raw_socket, None)
        if raw is not None:
            raw.shutdown(socket.SHUT_RD)


async def _close_socket(sock: socket.socket) -> None:
    sock.close()


def _refused(exc: Exception) -> Refused:
    """Return what the client is told of a connection that failed."""
    causes = list(_leaves(exc))
    if causes and all(isinstance(cause, _NotAllowed) for cause in causes):
        return Refused(RefusalReason.POLICY, str(causes[0]))
    words = str(exc)
    if isinstance(exc, TransportBusy):
        return Refused(RefusalReason.TOO_MANY_STREAMS, words)
    if isinstance(exc, TransportError):
        found = exc.error_type is ErrorType.DNS_FAILURE
        return Refused(RefusalReason.NAME_NOT_FOUND if found else RefusalReason.INTERNAL, words)
    codes = {cause.errno for cause in causes if isinstance(cause, OSError)}
    codes.discard(errno.EACCES)
    if errno.ECONNREFUSED in codes:
        return Refused(RefusalReason.CONNECTION_REFUSED, words)
    if errno.ETIMEDOUT in codes:
        return Refused(RefusalReason.TIMED_OUT, words)
    return Refused(RefusalReason.UNREACHABLE, words)


def _leaves(exc: BaseException) -> list[BaseException]:
    """Return the errors of the single addresses that `connect_name` tried."""
    if isinstance(exc, BaseExceptionGroup):
        return [leaf for each in exc.exceptions for leaf in _leaves(each)]
    if isinstance(exc.__cause__, BaseExceptionGroup):
        return _leaves(exc.__cause__)
    return [exc]
