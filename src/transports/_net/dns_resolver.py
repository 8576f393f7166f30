"""A resolver with a URL, asked over sockets of our own."""

from __future__ import annotations

import importlib
import socket
import ssl
import sys
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from racer.abc import Progress, Stage
from racer.errors import ErrorType, NetworkError, RacerError
from transports._net.drive import close_by_force
from transports._net.resolve import Answer
from transports._net.resolver_urls import Scheme
from transports._net.special_names import answer_unasked
from transports._net.tls import ClientContext, wrap_tls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anyio.abc import ByteStream, UnreliableObjectStream

    from transports._net.addresses import Family
    from transports._net.connector import Connector
    from transports._net.dns_carriers import Carrier
    from transports._net.dns_messages import Reply
    from transports._net.resolver_urls import ResolverURL

__all__ = ("LOOKUP_TIMEOUT", "DNSResolver", "ResolverTLS")

LOOKUP_TIMEOUT: Final = 8.0
"""Seconds in which a resolver has to answer, everything included: its own name, TLS, repeats, and TCP after UDP."""

_CARRIERS: Final = "transports._net.dns_carriers"
_PATH_ERRORS: Final = (OSError, RacerError, anyio.EndOfStream, anyio.BrokenResourceError)


class ResolverTLS:
    """The TLS contexts of an owner's resolvers: one for each list of protocols, made when first needed.

    Args:
        given: the caller's own, used as it is for all; `None` for the system's trust.
    """

    def __init__(self, given: ssl.SSLContext | None = None) -> None:
        """Make nothing yet."""
        self._given = given
        self._made: dict[tuple[str, ...], ClientContext] = {}

    async def get(self, alpn: tuple[str, ...]) -> ssl.SSLContext:
        """Return the context; the first call takes tens of milliseconds, in a worker thread."""
        holder = self._made.setdefault(alpn, ClientContext(self._given, alpn=alpn))
        return await holder.get()


class DNSResolver:
    """Asks one resolver by Do53, DoT or DoH; both families side by side, and each answer is reported as it comes.

    Names are asked for as they are, without search domains, except for those that are not to be asked for
    (`answer_unasked`). Nothing is remembered: neither answers nor connections. A resolver that is encrypted is verified
    by the name or address in its URL.

    Args:
        url: where it is.
        connector: leads there; looks up the resolver's own name.
        tls: contexts for those that are encrypted.
        hold_on: for those by UDP, as for `DatagramCarrier`.
    """

    def __init__(
        self, url: ResolverURL, connector: Connector, *, tls: ResolverTLS, hold_on: float = 0.0
    ) -> None:
        """Open nothing, load nothing."""
        self.url = url
        self._connector = connector
        self._tls = tls
        self._hold_on = hold_on
        self._carrier: Carrier | None = None
        self._alpn: tuple[str, ...] = ()

    @property
    def is_encrypted(self) -> bool:
        """Whether nobody on the way can answer in its place."""
        return self.url.is_encrypted

    async def prepare(self) -> None:
        """Load what asking takes: code, and the system's trust if it is needed; in worker threads. No other IO."""
        await self._loaded()
        if self.is_encrypted:
            await self._tls.get(self._alpn)

    async def resolve(
        self, name: str, families: Sequence[Family], report: Callable[[Answer], None]
    ) -> None:
        """Report what the resolver says; `Resolver.resolve` says how.

        Raises:
            NetworkError: it did not answer for the families that were not reported, within 8 s or at all.
        """
        if (known := answer_unasked(name, families)) is not None:
            report(known)
            return
        unanswered = set(families)

        def tell(family: Family, reply: Reply) -> None:
            unanswered.discard(family)
            report(self._answer(family, reply))

        try:
            with anyio.move_on_after(LOOKUP_TIMEOUT):
                carrier = await self._loaded()
                await carrier.ask(name, families, tell)
        except _PATH_ERRORS as exc:
            if unanswered:
                raise self._error(f": {_words(exc)}") from exc
        if unanswered:
            raise self._error(f" did not answer within {LOOKUP_TIMEOUT:g} s")

    def __str__(self) -> str:
        """Return the URL, without path."""
        return str(self.url)

    def __repr__(self) -> str:
        """Return the URL, without path."""
        return f"DNSResolver({str(self.url)!r})"

    def _answer(self, family: Family, reply: Reply) -> Answer:
        error: OSError | NetworkError | None = None
        if reply.rcode == "NXDOMAIN":
            words = f"there is no such name, says {self.url} (NXDOMAIN)"
            error = socket.gaierror(socket.EAI_NONAME, words)
        elif reply.rcode != "NOERROR":
            error = self._error(f" answered {reply.rcode}")
        elif reply.is_truncated:
            error = self._error(" cut its answer short, although not by UDP")
        elif reply.flaw:
            error = self._error(f" answered with {reply.flaw}")
        return Answer(families=(family,), addresses=reply.addresses, error=error)

    def _error(self, words: str) -> NetworkError:
        return NetworkError(
            f"{self.url}{words}", stage=Stage.RESOLVE, error_type=ErrorType.DNS_FAILURE
        )

    async def _loaded(self) -> Carrier:
        if self._carrier is None:
            if _CARRIERS not in sys.modules:
                await anyio.to_thread.run_sync(importlib.import_module, _CARRIERS)
            self._carrier = self._make_carrier()
        return self._carrier

    def _make_carrier(self) -> Carrier:
        from transports._net import dns_carriers  # noqa: PLC0415 - it is loaded by now

        match self.url.scheme:
            case Scheme.UDP:
                return dns_carriers.DatagramCarrier(
                    self._open_datagrams, self._open_stream, hold_on=self._hold_on
                )
            case Scheme.TCP:
                return dns_carriers.StreamCarrier(self._open_stream, padded=False)
            case Scheme.TLS:
                return dns_carriers.StreamCarrier(self._open_tls, padded=True)
            case Scheme.HTTPS:
                self._alpn = dns_carriers.HTTPSCarrier.alpn
                return dns_carriers.HTTPSCarrier(
                    self._open_tls, authority=self.url.authority, path=self.url.path
                )

    async def _open_datagrams(self) -> UnreliableObjectStream[bytes]:
        server = self.url.server
        return await self._connector.open_datagrams(server.host, server.port)

    async def _open_stream(self) -> ByteStream:
        server = self.url.server
        return await self._connector.connect(server.host, server.port, Progress())

    async def _open_tls(self) -> ByteStream:
        context = await self._tls.get(self._alpn)
        stream = await self._open_stream()
        try:
            return await wrap_tls(stream, context, server_hostname=self.url.server.server_hostname)
        except BaseException:
            await close_by_force(stream)
            raise


def _words(exc: Exception) -> str:
    """Return what broke, for people."""
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"its certificate could not be verified: {exc.verify_message}"
    if isinstance(exc, ssl.SSLError):
        return f"TLS failed: {exc.reason or exc}"
    if isinstance(exc, anyio.EndOfStream):
        return "it closed the connection before it had answered"
    if isinstance(exc, anyio.BrokenResourceError):
        cause = exc.__cause__
        return (cause.strerror if isinstance(cause, OSError) else None) or "the connection broke"
    return (exc.strerror if isinstance(exc, OSError) else None) or str(exc)
