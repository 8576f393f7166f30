"""Connections and datagram sockets to names and addresses: by an app's hooks, or by sockets of our own."""

from __future__ import annotations

import errno
import logging
import socket
from typing import TYPE_CHECKING, TypeVar

import anyio

from racer.abc import Stage
from racer.errors import ErrorType, NetworkError
from transports._net.addresses import Family, family_of, host_port
from transports._net.eyeballs import connect_name
from transports._net.tcp import connect_socket, wrap_socket
from transports._net.udp import connect_datagrams

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import ByteStream, UnreliableObjectStream

    from racer.abc import DialTCP, DialUDP, Progress
    from transports._net.eyeballs import Dial
    from transports._net.resolve import Answer, Resolver

__all__ = ("Connector",)

logger = logging.getLogger("racer.net")

_T = TypeVar("_T")


class Connector:
    """Makes connections, with Happy Eyeballs where a name has several addresses (RFC 8305), and sockets for datagrams.

    Keeps nothing open. Cancelling a call closes at once what it had opened.

    Args:
        resolver: names to addresses.
        dial_tcp: makes the connections in place of our own sockets.
        dial_udp: makes the sockets for datagrams in place of our own.
        local_address: an IP address of this machine to connect from; only its family can be reached then.
        attempt_delay: seconds, as for `connect_name`.
        resolution_delay: seconds, as for `connect_name`.
    """

    def __init__(
        self,
        resolver: Resolver,
        *,
        dial_tcp: DialTCP | None = None,
        dial_udp: DialUDP | None = None,
        local_address: str | None = None,
        attempt_delay: float = 0.25,
        resolution_delay: float = 0.05,
    ) -> None:
        """Keep the arguments."""
        self._resolver = resolver
        self._dial_tcp = dial_tcp
        self._dial_udp = dial_udp
        self._local_address = local_address
        self._attempt_delay = attempt_delay
        self._resolution_delay = resolution_delay
        self._families = _families(local_address)

    async def connect(self, host: str, port: int, progress: Progress) -> ByteStream:
        """Return a TCP stream to a name or an IP address; the caller closes it.

        Raises:
            OSError, TransportError: why not; as `connect_name`.
        """
        if self._dial_tcp is not None:
            return await self._connect(host, port, self._dial_tcp, _close_stream, progress)
        sock = await self._connect(host, port, self._connect_socket, _close_socket, progress)
        return await wrap_socket(sock, peer=host_port(host, port))

    async def open_datagrams(self, host: str, port: int) -> UnreliableObjectStream[bytes]:
        """Return a socket for datagrams to and from a name or an IP address alone; the caller closes it.

        Of a name's addresses it is the first that there is a way to.

        Raises:
            OSError: there is no way to any address.
            TransportError: the name could not be looked up.
        """
        addresses = [host] if family_of(host) is not None else await self._look_up(host)
        dial = self._open_socket if self._dial_udp is None else self._dial_udp
        for address in addresses[:-1]:
            try:
                return await dial(address, port)
            except OSError:
                continue
        return await dial(addresses[-1], port)

    async def _look_up(self, name: str) -> list[str]:
        found: list[Answer] = []
        await self._resolver.resolve(name, self._families, found.append)
        addresses = [a for each in found for a in each.addresses if family_of(a) in self._families]
        if addresses:
            return list(dict.fromkeys(addresses))
        errors = [each.error for each in found if each.error is not None]
        msg = f"could not look up {name}: {errors[0]}" if errors else f"{name} has no IP address"
        raise NetworkError(msg, stage=Stage.RESOLVE, error_type=ErrorType.DNS_FAILURE)

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
        self._check_family(address, port)
        return await connect_socket(address, port, local_address=self._local_address)

    async def _open_socket(self, address: str, port: int) -> UnreliableObjectStream[bytes]:
        self._check_family(address, port)
        return await connect_datagrams(address, port, local_address=self._local_address)

    def _check_family(self, address: str, port: int) -> None:
        if self._local_address is not None and family_of(address) not in self._families:
            text = f"could not connect to {host_port(address, port)} from {self._local_address}: not of one family"
            raise OSError(errno.EAFNOSUPPORT, text)


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
