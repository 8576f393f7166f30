"""Carriers for every kind of resolver. Loaded when one of them takes a lookup or a connection: a plain one takes neither."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from anyio.streams.tls import TLSAttribute

from racer.abc import Progress
from racer.errors import ErrorType, NetworkError
from transports._net.connector import Connector
from transports._net.drive import close_by_force
from transports._net.resolve import SystemResolver
from transports._net.resolver_urls import Scheme
from transports._net.tls import ClientContext, wrap_tls
from transports.soar.carriers.streams import StreamCarrier
from transports.soar.carriers.udp import UDPCarrier

if TYPE_CHECKING:
    import ssl

    from anyio.abc import ByteStream

    from racer.abc import DialTCP, DialUDP
    from transports._net.resolver_urls import ResolverURL
    from transports.soar.carriers.abc import Carrier

__all__ = ("Carriers",)

_HTTP2: Final = ("h2",)


class Carriers:
    """Makes the carriers of one client, which share what looks names up.

    Args:
        tls: the context for resolvers that are encrypted; `None` for the system's trust.
        dial_tcp: makes connections in place of our own sockets.
        dial_udp: likewise, for datagrams.
    """

    def __init__(
        self, *, tls: ssl.SSLContext | None, dial_tcp: DialTCP | None, dial_udp: DialUDP | None
    ) -> None:
        """Open nothing."""
        self._tls = tls
        self._connector = Connector(SystemResolver(), dial_tcp=dial_tcp, dial_udp=dial_udp)

    def of(self, resolver: ResolverURL) -> Carrier:
        """Return a new carrier of questions to `resolver`; no IO."""
        match resolver.scheme:
            case Scheme.UDP:
                host, port = resolver.server.host, resolver.server.port
                return UDPCarrier(partial(self._connector.open_datagrams, host, port))
            case Scheme.TCP:
                return StreamCarrier(partial(self._open, resolver, None))
            case Scheme.TLS:
                return StreamCarrier(partial(self._open, resolver, ClientContext(self._tls)))
            case Scheme.HTTPS:
                from transports.soar.carriers.https import HTTPSCarrier  # noqa: PLC0415 - h2 takes long to import

                opens = partial(self._open, resolver, ClientContext(self._tls, alpn=_HTTP2))
                return HTTPSCarrier(opens, authority=resolver.authority, path=resolver.path)

    async def _open(self, resolver: ResolverURL, tls: ClientContext | None) -> ByteStream:
        """Return a stream to the resolver, under TLS that names it where that is wanted; the caller closes it."""
        server = resolver.server
        stream = await self._connector.connect(server.host, server.port, Progress())
        if tls is None:
            return stream
        try:
            wrapped = await wrap_tls(
                stream, await tls.get(), server_hostname=server.server_hostname
            )
            if resolver.scheme is Scheme.HTTPS:
                _check_http2(wrapped)
        except BaseException:
            await close_by_force(stream)
            raise
        return wrapped


def _check_http2(stream: ByteStream) -> None:
    """Refuse a stream on which HTTP/2 was not agreed: some resolvers would answer it with silence."""
    agreed = stream.extra(TLSAttribute.alpn_protocol, None)
    if agreed not in _HTTP2:
        msg = "TLS did not agree on HTTP/2: the resolver has none, or resolver_tls does not offer 'h2' by ALPN"
        raise NetworkError(msg, error_type=ErrorType.PROTOCOL_ERROR)
