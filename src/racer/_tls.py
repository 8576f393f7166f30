"""The one place where a race speaks TLS: cached contexts, the wrap, and the proof demanded of guests that do their own."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import anyio
from anyio.streams.tls import TLSAttribute, TLSStream

from racer.errors import NetworkError, NotUsable, Stage, TransportError, error_type_of

if TYPE_CHECKING:
    from anyio.abc import ByteStream

    from racer._target import Target

__all__ = ("Contexts", "demand_tls", "wrap")


class Contexts:
    """TLS contexts of one dialer, one for each list of ALPN protocols, made once.

    Making one reads the system's trust store, which takes tens of milliseconds; it happens in a worker thread, so that
    neither the loop nor the attempts beside it stand still.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._made: dict[tuple[str, ...], ssl.SSLContext] = {}
        self._making: dict[tuple[str, ...], anyio.Event] = {}

    def has(self, target: Target) -> bool:
        """Return whether `get` will answer at once."""
        return target.tls is not True or target.alpn in self._made

    async def get(self, target: Target) -> ssl.SSLContext:
        """Return the context for `target`: the caller's own, or the cached one with the system's trust."""
        if not isinstance(target.tls, bool):
            return target.tls
        alpn = target.alpn
        while (context := self._made.get(alpn)) is None:
            if (event := self._making.get(alpn)) is not None:
                await event.wait()
                continue
            self._making[alpn] = event = anyio.Event()
            try:
                self._made[alpn] = await anyio.to_thread.run_sync(_make, alpn)
            finally:
                del self._making[alpn]
                event.set()
        return context


def _make(alpn: tuple[str, ...]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context


async def wrap(stream: ByteStream, target: Target, context: ssl.SSLContext) -> TLSStream:
    """Return `stream` under TLS, the peer's certificate and name verified as `context` demands.

    On any failure, and on cancellation, the stream is still the caller's to close.

    A peer's end without close_notify is taken as the end of the stream (RFC 8446 §6.1 leaves that to the protocol
    above): waiting for it would let a mute peer hold up every close.

    Raises:
        ssl.SSLError: the handshake or the verification failed.
        NetworkError: the stream ended or broke before it was through.
        OSError: the path failed.
    """
    try:
        return await TLSStream.wrap(
            stream,
            server_side=False,
            hostname=target.server_hostname,
            ssl_context=context,
            standard_compatible=False,
        )
    except (anyio.EndOfStream, anyio.BrokenResourceError) as exc:  # neither has words of its own
        msg = "the stream was cut off in the TLS handshake"
        if isinstance(exc.__cause__, TransportError):  # a tunnel knows what happened to it
            msg += f": {exc.__cause__}"
        raise NetworkError(msg, error_type=error_type_of(exc)) from exc


def demand_tls(stream: ByteStream, target: Target) -> None:
    """Check that a guest which speaks TLS itself has done so, to the right name and with verification (R7).

    Where the caller brought a context of their own, the guest has to have used that very one.

    Raises:
        NotUsable: says what is missing.
    """
    ssl_object = stream.extra(TLSAttribute.ssl_object, None)
    if ssl_object is None:
        msg = "the transport declares TLS of its own, and its stream shows none"
        raise NotUsable(msg, stage=Stage.VERIFY)
    context = ssl_object.context
    if target.tls is not True:
        # What it demands is the caller's business, but it has to be the one that does.
        if context is not target.tls:
            msg = "the transport's own TLS does not use the caller's context"
            raise NotUsable(msg, stage=Stage.VERIFY)
        return
    if context.verify_mode is not ssl.CERT_REQUIRED or not context.check_hostname:
        msg = "the transport's own TLS does not verify the certificate and its name"
        raise NotUsable(msg, stage=Stage.VERIFY)
    if ssl_object.server_hostname != target.server_hostname:
        msg = "the transport's own TLS was made for another name than the target's"
        raise NotUsable(msg, stage=Stage.VERIFY)
    chosen = ssl_object.selected_alpn_protocol()
    if target.alpn and chosen is not None and chosen not in target.alpn:
        msg = f"the transport's own TLS settled on {chosen!r}, which was not asked for"
        raise NotUsable(msg, stage=Stage.VERIFY)
