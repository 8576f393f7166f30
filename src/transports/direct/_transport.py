"""TCP straight to the target, with Happy Eyeballs where its name has more than one address."""

from __future__ import annotations

import errno
import logging
import math
import socket
from typing import TYPE_CHECKING, Final, TypeVar, cast

import anyio

from racer.abc import Stage, Transport, TransportStatus
from racer.errors import ConfigError, TransportError
from transports._net.addresses import Family, family_of, host_port
from transports._net.eyeballs import connect_name
from transports._net.resolve import SystemResolver
from transports._net.tcp import connect_socket, wrap_socket

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import ByteStream

    from racer.abc import DialTCP, Host, MakeContext, Progress, Target
    from transports._net.eyeballs import Dial
    from transports._net.resolve import Resolver

__all__ = ("Direct", "make")

logger = logging.getLogger("racer.direct")

_MIN_ATTEMPT_DELAY: Final = 0.010  # RFC 8305 §5: it MUST NOT be shorter

_T = TypeVar("_T")


class Direct(Transport):
    """The target itself over TCP, as any program would reach it; it hides nothing.

    A name's addresses are tried by Happy Eyeballs version 2 (RFC 8305): both families are asked for together, take
    turns, and overlap. One dial has at most 32 sockets open, 16 of each family, and closes all but the one it returns
    before it returns.

    Args:
        resolver: `"system"` for a `SystemResolver`, which is bounded and cancellable, or a `Resolver` of your own; both
            are in `transports.direct`.
        dial_tcp: makes every TCP connection in place of our own sockets, and its stream is what `connect` returns.
            Names are looked up before it is called.
        attempt_delay: seconds from one attempt's start to the next one's while none has failed; at least 0.010, and
            best between 0.1 and 2 (RFC 8305 §8). A failure starts the next at once.
        resolution_delay: seconds that an IPv4 answer waits for the IPv6 one; 0 or more.
        local_address: an IP address of this machine to connect from; only targets of its family can be reached then.
            Not together with `dial_tcp`.

    Raises:
        ConfigError: an option that cannot be; says which, and why.
    """

    name = "direct"

    def __init__(
        self,
        *,
        resolver: str | Resolver = "system",
        dial_tcp: DialTCP | None = None,
        attempt_delay: float = 0.25,
        resolution_delay: float = 0.05,
        local_address: str | None = None,
    ) -> None:
        """Check the options; no IO."""
        self._resolver = _checked_resolver(resolver)
        self._dial_tcp = _checked_dial_tcp(dial_tcp)
        self._attempt_delay = _checked_seconds(
            attempt_delay, "attempt_delay", least=_MIN_ATTEMPT_DELAY
        )
        self._resolution_delay = _checked_seconds(resolution_delay, "resolution_delay", least=0)
        self._local_address = _checked_local_address(local_address, dial_tcp)
        self._families = _families(self._local_address)
        self._users = 0
        self._is_closed = False

    async def start(self, host: Host) -> None:
        """Count one user more: several dialers, or proxies, may go by one `Direct`."""
        del host
        self._users += 1
        self._is_closed = False

    async def aclose(self) -> None:
        """Connect no more, once every user has closed it; streams that were handed out are their holders'."""
        self._users = max(0, self._users - 1)
        self._is_closed = self._users == 0

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        """Return a raw TCP stream to `target`; the caller closes it. Cancelling closes every socket at once.

        Raises:
            OSError: no address could be reached. Its text names address and port; with several addresses its cause is
                an `ExceptionGroup` of all of their errors, and `errno` is set when they agree.
            NetworkError: the name could not be looked up; the cause is the resolver's error.
            TransportBusy: too many earlier lookups are stuck.
            TransportError: it was closed.
        """
        if self._is_closed:
            msg = f"transport {self.name!r} was closed"
            raise TransportError(msg)
        host, port = target.host, target.port
        if self._dial_tcp is not None:
            return await self._connect(host, port, self._dial_tcp, _close_stream, progress)
        sock = await self._connect(host, port, self._connect_socket, _close_socket, progress)
        return await wrap_socket(sock, peer=host_port(host, port))

    def status(self) -> TransportStatus:
        """Return how many lookups are stuck; other resolvers than the system's speak for themselves."""
        if not isinstance(self._resolver, SystemResolver):
            return TransportStatus()
        stuck = self._resolver.stuck
        return TransportStatus(
            health=f"{stuck} name lookups are stuck in the system's resolver" if stuck else "ok",
            details={"lookups.stuck": stuck},
        )

    def __repr__(self) -> str:
        """Return the options that shape it."""
        return (
            f"Direct(resolver={self._resolver!r}, attempt_delay={self._attempt_delay!r}, "
            f"resolution_delay={self._resolution_delay!r}, local_address={self._local_address!r})"
        )

    async def _connect(
        self,
        host: str,
        port: int,
        dial: Dial[_T],
        discard: Callable[[_T], Awaitable[None]],
        progress: Progress,
    ) -> _T:
        if family_of(host) is not None:
            progress.stage(Stage.CONNECT)
            progress.peer(host, port)
            return await dial(host, port)
        return await connect_name(
            host,
            port,
            resolver=self._resolver,
            families=self._families,
            dial=dial,
            discard=discard,
            attempt_delay=self._attempt_delay,
            resolution_delay=self._resolution_delay,
            progress=progress,
        )

    async def _connect_socket(self, address: str, port: int) -> socket.socket:
        if self._local_address is not None and family_of(address) not in self._families:
            text = f"could not connect to {host_port(address, port)} from {self._local_address}: not of one family"
            raise OSError(errno.EAFNOSUPPORT, text)
        return await connect_socket(address, port, local_address=self._local_address)


def make(context: MakeContext) -> Direct:
    """Return a `Direct` from a configuration's options: all of its own but `dial_tcp`, which is code.

    Raises:
        ConfigError: an option is unknown or wrong.
    """
    context.refuse_unknown("attempt_delay", "local_address", "resolution_delay", "resolver")
    return Direct(**context.options)


async def _close_socket(sock: socket.socket) -> None:
    sock.close()


async def _close_stream(stream: ByteStream) -> None:
    try:
        await anyio.aclose_forcefully(stream)
    except Exception:
        # A loser that cannot even close has nothing left to tell the dial.
        logger.debug("closing a stream that was not wanted failed", exc_info=True)


def _families(local_address: str | None) -> tuple[Family, ...]:
    """Return the families to ask for, the preferred first (RFC 8305 §4)."""
    if local_address is not None and (family := family_of(local_address)) is not None:
        return (family,)
    return (Family.IPV6, Family.IPV4) if socket.has_ipv6 else (Family.IPV4,)


def _checked_resolver(resolver: object) -> Resolver:
    if isinstance(resolver, str):
        if resolver != "system":
            msg = f"resolver={resolver!r}: the resolvers known by name are: 'system'"
            raise ConfigError(msg)
        return SystemResolver()
    if not callable(getattr(resolver, "resolve", None)):
        msg = (
            f"resolver must be 'system' or an object with resolve(), not {type(resolver).__name__}"
        )
        raise ConfigError(msg)
    return cast("Resolver", resolver)


def _checked_dial_tcp(dial_tcp: object) -> DialTCP | None:
    if dial_tcp is not None and not callable(dial_tcp):
        msg = f"dial_tcp must be an async function, not {type(dial_tcp).__name__}"
        raise ConfigError(msg)
    return cast("DialTCP | None", dial_tcp)


def _checked_seconds(value: object, name: str, *, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        msg = f"{name} must be a finite number of seconds, not {value!r}"
        raise ConfigError(msg)
    if value < least:
        msg = f"{name}={value!r}: must be at least {least} s (RFC 8305 §8)"
        raise ConfigError(msg)
    return float(value)


def _checked_local_address(address: object, dial_tcp: DialTCP | None) -> str | None:
    if address is None:
        return None
    if not isinstance(address, str) or family_of(address) is None:
        msg = f"local_address must be an IP address of this machine, not {address!r}"
        raise ConfigError(msg)
    if dial_tcp is not None:
        msg = "local_address together with dial_tcp: the hook makes the connections, so it has to choose"
        raise ConfigError(msg)
    return address
