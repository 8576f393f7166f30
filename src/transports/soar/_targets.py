"""Where a client's stream leads to: a name looked up once, and an address that was judged (SPEC 18.5)."""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections import Counter
from typing import TYPE_CHECKING, Final, TypeVar

import anyio

from racer.abc import Progress
from racer.errors import ErrorType, TransportBusy, TransportError
from transports._net.addresses import Family
from transports._net.drive import close_by_force
from transports._net.eyeballs import connect_name
from transports._net.tcp import connect_socket, socket_address, wrap_socket
from transports.soar.core.streams.frames import RefusalReason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import ByteStream

    from racer.abc import DialTCP
    from transports._net.eyeballs import Dial
    from transports._net.resolve import Resolver
    from transports.soar._policy import TargetPolicy
    from transports.soar.core.streams.targets import Target

_T = TypeVar("_T")

__all__ = ("CONNECT_TIMEOUT", "MAX_CONNECTING", "Refused", "TargetConnector")

CONNECT_TIMEOUT: Final = 10.0  # seconds for a lookup and the connection
MAX_CONNECTING: Final = 512  # connections in the making, of all sessions; more are refused at once
_FAMILIES: Final = (Family.IPV6, Family.IPV4) if socket.has_ipv6 else (Family.IPV4,)
_ATTEMPT_DELAY: Final = 0.25  # seconds, RFC 8305 section 8
_RESOLUTION_DELAY: Final = 0.05  # seconds, RFC 8305 section 8
# What the errors of a target's addresses come to; the first that fits.
_REASONS: Final = (
    (
        frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL)),
        RefusalReason.TOO_MANY_STREAMS,
    ),
    (frozenset((errno.ECONNREFUSED,)), RefusalReason.CONNECTION_REFUSED),
    (frozenset((errno.ETIMEDOUT,)), RefusalReason.TIMED_OUT),
)


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
        policy: judges names and addresses; may be replaced at any time.
        resolver: looks names up.
        timeout: seconds for all of it.
        dial_tcp: makes the connections, to addresses that were judged, in place of our own sockets.
        is_own: says whether an address leads to this machine itself; with `dial_tcp` nobody asks, unless it is given.
    """

    def __init__(
        self,
        policy: TargetPolicy,
        resolver: Resolver,
        *,
        timeout: float = CONNECT_TIMEOUT,
        dial_tcp: DialTCP | None = None,
        is_own: Callable[[str], bool] | None = None,
    ) -> None:
        """Connect to nothing yet."""
        self.policy = policy
        self._resolver = resolver
        self._timeout = timeout
        self._dial_tcp = dial_tcp
        if is_own is None:
            is_own = leads_here if dial_tcp is None else _leads_elsewhere
        self._is_own = is_own
        self._connecting: Counter[bytes] = Counter()

    async def connect(self, target: Target, *, owner: bytes = b"") -> ByteStream:
        """Return a stream to `target`; the caller closes it.

        Args:
            target: the client's wish.
            owner: the session. One may have as many connections in the making as are left for others, so that whoever
                has hundreds hang leaves room for the rest.

        Raises:
            Refused: why not, as the client is told.
        """
        if self._connecting[owner] >= MAX_CONNECTING - self._connecting.total():
            raise Refused(RefusalReason.TOO_MANY_STREAMS, "too many connections in the making")
        self._connecting[owner] += 1
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
            self._connecting[owner] -= 1
            if not self._connecting[owner]:
                del self._connecting[owner]

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
            host.rstrip(".").lower(),
            port,
            resolver=self._resolver,
            families=_FAMILIES,
            dial=dial,
            discard=discard,
            attempt_delay=_ATTEMPT_DELAY,
            resolution_delay=_RESOLUTION_DELAY,
            progress=Progress(),
        )

    def _judge(self, address: str, port: int, *, name: str | None) -> None:
        parsed = ipaddress.ip_address(address)
        words = self.policy.refuses_address(parsed, port, name=name)
        if words is None and self._is_own(address):
            words = self.policy.refuses_address(parsed, port, name=name, is_own=True)
        if words is not None:
            raise _NotAllowed(errno.EACCES, words)


def _leads_elsewhere(_address: str) -> bool:
    return False


def leads_here(address: str) -> bool:
    """Return whether `address` is one of this machine's; nothing is sent.

    To itself a machine speaks from the very address that it speaks to (RFC 6724 section 5, rule 1), and what it would
    speak from is known as soon as a socket for datagrams has a peer.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
            sock.connect(socket_address(address, 9))
            own = sock.getsockname()[0]
    except OSError:  # no way there, or no socket left: connecting will say it
        return False
    return ipaddress.ip_address(own.partition("%")[0]) == ipaddress.ip_address(
        address.partition("%")[0]
    )


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
    codes = {
        cause.errno
        for cause in causes
        if isinstance(cause, OSError) and not isinstance(cause, _NotAllowed)
    }
    reason = next((reason for these, reason in _REASONS if codes & these), None)
    return Refused(reason or RefusalReason.UNREACHABLE, words)


def _leaves(exc: BaseException) -> list[BaseException]:
    """Return the errors of the single addresses that `connect_name` tried."""
    if isinstance(exc, BaseExceptionGroup):
        return [leaf for each in exc.exceptions for leaf in _leaves(each)]
    if isinstance(exc.__cause__, BaseExceptionGroup):
        return _leaves(exc.__cause__)
    return [exc]
