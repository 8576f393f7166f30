"""TLS to a peer on the way: contexts made once and off the loop, and the wrap."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import anyio.to_thread
from anyio.streams.tls import TLSStream

if TYPE_CHECKING:
    from anyio.abc import ByteStream

__all__ = ("ClientContext", "wrap_tls")


class ClientContext:
    """A TLS context for the client's side, made at most once for its owner.

    Args:
        given: the caller's own context, used as it is; `None` for one with the system's trust, which verifies the
            peer's certificate and name.
        alpn: protocols to offer with the latter, most wanted first.
    """

    def __init__(self, given: ssl.SSLContext | None = None, *, alpn: tuple[str, ...] = ()) -> None:
        """Make nothing yet."""
        self._context = given
        self._alpn = alpn

    async def get(self) -> ssl.SSLContext:
        """Return the context; the first call takes tens of milliseconds, in a worker thread."""
        if self._context is None:
            # Calls that overlap make one each; any of them is as good.
            self._context = await anyio.to_thread.run_sync(_make, self._alpn)
        return self._context


def _make(alpn: tuple[str, ...]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context


async def wrap_tls(
    stream: ByteStream, context: ssl.SSLContext, *, server_hostname: str | None
) -> TLSStream:
    """Return `stream` under TLS, verified as `context` demands; works on a stream that is TLS already.

    On failure and cancellation `stream` is still the caller's to close. A peer's end without close_notify is taken as
    the end of the stream (RFC 8446 §6.1): waiting for it would let a mute peer hold up every close.

    Args:
        stream: what carries it.
        context: a client's.
        server_hostname: a name in ASCII, or an IP address, for SNI and for the certificate; `None` sends none, and takes
            a context that demands none.

    Raises:
        ssl.SSLError: the handshake or the verification failed.
        OSError, anyio.BrokenResourceError, anyio.EndOfStream: the path did.
    """
    return await TLSStream.wrap(
        stream,
        server_side=False,
        hostname=server_hostname,
        ssl_context=context,
        standard_compatible=False,
    )
