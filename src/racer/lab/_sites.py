"""Targets to reach: a throw-away certificate authority, and what answers behind a name."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio
from anyio.streams.tls import TLSStream

from racer.errors import ConfigError

if TYPE_CHECKING:
    from anyio.abc import ByteStream

__all__ = ("Authority", "Handler", "Site", "echo", "hello", "mute")

Handler = Callable[["ByteStream"], Awaitable[None]]
"""What a site does with a connection; it need not close the stream."""


class Authority:
    """A certificate authority that nobody trusts but who asks for its context; made in memory, gone with the object.

    Raises:
        ConfigError: the extra `lab` is not installed.
    """

    def __init__(self) -> None:
        """Make the authority's key and certificate."""
        try:
            import trustme  # noqa: PLC0415 - an extra, and slow to load
        except ImportError as exc:
            msg = "racer.lab's certificates need the extra 'lab': install racer-dialer[lab]"
            raise ConfigError(msg) from exc
        self._authority = trustme.CA(organization_name="racer.lab, trusted by nobody")

    def client_context(self) -> ssl.SSLContext:
        """Return a context that trusts this authority and no other."""
        context = ssl.create_default_context(
            cadata=self._authority.cert_pem.bytes().decode("ascii")
        )
        context.verify_flags &= (
            ~ssl.VERIFY_X509_STRICT if hasattr(ssl, "VERIFY_X509_STRICT") else ~0
        )
        return context

    def server_context(self, *names: str, alpn: tuple[str, ...] = ()) -> ssl.SSLContext:
        """Return a context with a fresh certificate for `names`, which may be addresses."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert(*names).configure_cert(context)
        if alpn:
            context.set_alpn_protocols(list(alpn))
        return context

    def pem(self) -> bytes:
        """Return the authority's certificate, for programs such as curl."""
        return self._authority.cert_pem.bytes()


class Site:
    """Something to reach under a name.

    Args:
        name: for certificates and reports.
        handler: what it does with a connection.
        context: its TLS context; `None` for a site that speaks without TLS.

    Attributes:
        name: as given.
        connections: how many came as far as the site.
    """

    def __init__(self, name: str, handler: Handler, *, context: ssl.SSLContext | None) -> None:
        """Keep the arguments."""
        self.name = name
        self.connections = 0
        self._handler = handler
        self._context = context

    async def serve(self, stream: ByteStream) -> None:
        """Serve one connection and close it; a client that goes away early is no error."""
        self.connections += 1
        try:
            async with stream:
                secured: ByteStream = stream
                if self._context is not None:
                    secured = await TLSStream.wrap(
                        stream,
                        server_side=True,
                        ssl_context=self._context,
                        standard_compatible=False,
                    )
                await self._handler(secured)
                await secured.aclose()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError):
            return


async def echo(stream: ByteStream) -> None:
    """Send back whatever comes, until the client ends its side."""
    try:
        while True:
            await stream.send(await stream.receive())
    except anyio.EndOfStream:
        return


async def hello(stream: ByteStream) -> None:
    """Answer one HTTP/1.1 request, whatever it asks, with a short text."""
    seen = b""
    while b"\r\n\r\n" not in seen and len(seen) < 65_536:
        seen += await stream.receive()
    text = b"hello from the lab\n"
    await stream.send(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(text), text)
    )


async def mute(stream: ByteStream) -> None:
    """Accept, and never say anything."""
    del stream
    await anyio.sleep_forever()
