"""Targets to reach: what answers behind a name, and the throw-away certificates it shows."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel
from anyio.streams.tls import TLSStream

from racer.errors import ConfigError

if TYPE_CHECKING:
    from anyio.abc import ByteStream

__all__ = ("Authority", "Handler", "Site", "echo", "hello", "is_gone", "mute")

Handler = Callable[["ByteStream"], Awaitable[None]]
"""What a site does with a connection; it need not close the stream."""

_GOODBYE: Final = 1.0  # seconds a client has to answer the end of TLS
_MAX_HEAD: Final = 65_536  # octets of a request
_GONE: Final = (
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    anyio.IncompleteRead,
    OSError,  # also ssl.SSLError: the client did not like our certificate
)


def is_gone(exc: BaseException) -> bool:
    """Return whether an error only says that the other side went away, or would not go on."""
    if isinstance(exc, BaseExceptionGroup):
        return all(is_gone(each) for each in exc.exceptions)
    return isinstance(exc, _GONE)


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
        self._made: dict[tuple[tuple[str, ...], tuple[str, ...]], ssl.SSLContext] = {}

    def client_context(self, *, alpn: tuple[str, ...] = ()) -> ssl.SSLContext:
        """Return a new context that trusts this authority and no other, and offers `alpn`."""
        context = ssl.create_default_context(cadata=self.pem().decode("ascii"))
        # Python 3.13 asks for extensions that not every trustme puts in.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if alpn:
            context.set_alpn_protocols(list(alpn))
        return context

    def server_context(self, *names: str, alpn: tuple[str, ...] = ()) -> ssl.SSLContext:
        """Return a context with a certificate for `names`, which may be addresses, or begin with `*.`.

        The same context for the same names and `alpn`; the first time it writes a file for a moment, since OpenSSL
        reads certificates from nowhere else.
        """
        if (names, alpn) not in self._made:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            if alpn:
                context.set_alpn_protocols(list(alpn))
            self._authority.issue_cert(*names).configure_cert(context)
            self._made.setdefault((names, alpn), context)
        return self._made[names, alpn]

    async def make_server_context(self, *names: str, alpn: tuple[str, ...] = ()) -> ssl.SSLContext:
        """Return what `server_context` does, without a file being written in the event loop's thread."""
        results: list[ssl.SSLContext | Exception] = []

        def make() -> None:
            try:
                results.append(self.server_context(*names, alpn=alpn))
            except Exception as exc:  # noqa: BLE001 - raised again where it belongs
                results.append(exc)

        threading.Thread(target=make, daemon=True).start()
        while not results:
            # Milliseconds in which this task never waits, for a virtual clock would jump meanwhile.
            await anyio.lowlevel.checkpoint()
        if isinstance(results[0], Exception):
            raise results[0]
        return results[0]

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
        handshakes: how many of them finished TLS.
    """

    def __init__(
        self, name: str, handler: Handler, *, context: ssl.SSLContext | None = None
    ) -> None:
        """Keep the arguments."""
        self.name = name
        self.connections = 0
        self.handshakes = 0
        self._handler = handler
        self._context = context

    async def serve(self, stream: ByteStream) -> None:
        """Serve one connection and close it; a client that goes away early is no error."""
        self.connections += 1
        try:
            async with stream:
                if self._context is None:
                    await self._handler(stream)
                else:
                    await self._serve_tls(stream, self._context)
        except Exception as exc:
            if not is_gone(exc):
                raise

    async def _serve_tls(self, stream: ByteStream, context: ssl.SSLContext) -> None:
        secured = await TLSStream.wrap(
            stream, server_side=True, ssl_context=context, standard_compatible=False
        )
        self.handshakes += 1
        await self._handler(secured)
        # Says close_notify, without which a client may think that it was cut short (RFC 8446 §6.1).
        with anyio.move_on_after(_GOODBYE):
            await secured.unwrap()


async def echo(stream: ByteStream) -> None:
    """Send back whatever comes, until the client ends its side."""
    async for data in stream:
        await stream.send(data)


async def hello(stream: ByteStream) -> None:
    """Answer one HTTP/1.1 request, whatever it asks, with a short text."""
    seen = b""
    while b"\r\n\r\n" not in seen and len(seen) < _MAX_HEAD:
        seen += await stream.receive()
    text = b"hello from the lab\n"
    await stream.send(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(text), text)
    )


async def mute(stream: ByteStream) -> None:
    """Take whatever comes and never say anything, until the client ends its side."""
    async for _ in stream:
        pass
