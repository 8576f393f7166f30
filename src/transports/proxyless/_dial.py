"""Connections whose first flight a strategy shapes, and the proof that one of them works."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

import anyio

from racer.abc import Progress, Stage
from racer.errors import ErrorType, NetworkError
from transports._net.addresses import Family, family_of, host_port
from transports._net.connector import Connector
from transports._net.drive import close_by_force
from transports._net.eyeballs import connect_name
from transports._net.tcp import connect_socket, wrap_socket
from transports._net.tls import wrap_tls
from transports.proxyless._stream import shaped

if TYPE_CHECKING:
    import ssl

    from anyio.abc import ByteStream

    from racer.abc import DialTCP, Target
    from transports._net.resolve import Resolver
    from transports.proxyless._strategies import Strategy

__all__ = ("FAMILIES", "ShapingDialer", "prove")

FAMILIES: Final = (Family.IPV6, Family.IPV4) if socket.has_ipv6 else (Family.IPV4,)
"""What is asked for, the preferred first (RFC 8305 §4)."""

_ATTEMPT_DELAY: Final = 0.25  # RFC 8305 §8
_RESOLUTION_DELAY: Final = 0.05  # RFC 8305 §8
_HTTPS: Final = 443


class ShapingDialer:
    """Connects, with Happy Eyeballs (RFC 8305), so that a strategy decides how the first flight leaves.

    Args:
        dial_tcp: makes the connections in place of our own sockets.
    """

    def __init__(self, dial_tcp: DialTCP | None = None) -> None:
        """Keep the hook."""
        self._dial_tcp = dial_tcp

    async def dial(
        self, target: Target, strategy: Strategy, resolver: Resolver, progress: Progress
    ) -> ByteStream:
        """Return a stream to `target`, or to where the strategy leads instead; the caller closes it.

        Raises:
            OSError, TransportError: why not.
        """
        host, port = target.host, target.port
        if strategy.override is not None:
            host = strategy.override.host or host
            port = strategy.override.port or port
        sock: socket.socket | None = None
        if self._dial_tcp is not None:
            connector = Connector(resolver, dial_tcp=self._dial_tcp)
            stream: ByteStream = await connector.connect(host, port, progress)
        else:
            sock = await _connect(host, port, resolver, progress)
            stream = await wrap_socket(sock, peer=host_port(host, port))
        try:
            # A flight of its own for every connection: the second is cut as the first was.
            flight = strategy.begin()
            return stream if flight is None else shaped(stream, flight, sock)
        except BaseException:
            await close_by_force(stream)
            raise


async def _connect(host: str, port: int, resolver: Resolver, progress: Progress) -> socket.socket:
    if family_of(host) is not None:
        progress.stage(Stage.CONNECT)
        progress.peer(host, port)
        return await connect_socket(host, port)
    return await connect_name(
        host,
        port,
        resolver=resolver,
        families=FAMILIES,
        dial=connect_socket,
        discard=_discard,
        attempt_delay=_ATTEMPT_DELAY,
        resolution_delay=_RESOLUTION_DELAY,
        progress=progress,
    )


async def _discard(sock: socket.socket) -> None:
    sock.close()


async def prove(stream: ByteStream, target: Target, context: ssl.SSLContext | None) -> None:
    """Return when `stream` is proven to lead to `target` and back; it is closed in any case.

    With TLS, certificate and name are verified as the context demands, and where HTTP is spoken (port 443, or offered by
    ALPN), a request is sent and an octet of its answer read: some censors let handshakes through and nothing else.

    Raises:
        OSError, TransportError: why it is not.
    """
    try:
        if context is None:
            return
        secured = await wrap_tls(stream, context, server_hostname=target.server_hostname)
        if target.port == _HTTPS or any(name.startswith("h") for name in target.alpn):
            await secured.send(_request(target))
            await secured.receive(1)
    except (anyio.EndOfStream, anyio.BrokenResourceError) as exc:  # neither has words of its own
        msg = "the connection was cut off before anything had come back"
        raise NetworkError(msg, stage=Stage.TLS, error_type=ErrorType.CONNECTION_RESET) from exc
    finally:
        await close_by_force(stream)


def _request(target: Target) -> bytes:
    host = f"[{target.server_hostname}]" if ":" in target.host else target.server_hostname
    port = "" if target.port == _HTTPS else f":{target.port}"
    return f"HEAD / HTTP/1.1\r\nHost: {host}{port}\r\nConnection: close\r\n\r\n".encode("ascii")
