"""To one front and no further: TCP, TLS under one name and verified for another, and the proof that it forwards."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

import anyio
from anyio.streams.tls import TLSAttribute

from racer.errors import (
    AttemptTimeout,
    ErrorType,
    NetworkError,
    NotUsable,
    Stage,
    TransportBusy,
    TransportError,
    error_type_of,
)
from transports._net.addresses import host_port
from transports._net.drive import close_by_force
from transports._net.http_client import RequestHead
from transports._net.http_connection import HTTPConnection
from transports._net.tls import wrap_tls
from transports.fronting._names import certifies, sni_of, verify_name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import ByteStream
    from anyio.streams.tls import TLSStream

    from racer.abc import DialTCP
    from transports.fronting._catalog import Catalog, Front, Provider

__all__ = ("FrontDialer", "Line", "Sockets", "make_context")

TCP_TIMEOUT: Final = 5.0
TLS_TIMEOUT: Final = 5.0
VET_TIMEOUT: Final = 8.0
"""Seconds for each step."""

VET_STATUS: Final = 202
"""The one answer that proves a front: a page of the network's own, or of a censor, is mostly 200."""

MAX_VET_BODY: Final = 64 * 1024
"""Octets of the answer to a vetting that are read on, so that its connection can be used again."""


class Sockets:
    """How many connections may be open at once."""

    def __init__(self, most: int) -> None:
        """Begin with none open."""
        self._most = most
        self.open = 0

    def take(self) -> None:
        """Count one more.

        Raises:
            TransportBusy: they are too many.
        """
        if self.open >= self._most:
            msg = f"{self.open} connections to fronts are open, and the limit is {self._most}"
            raise TransportBusy(msg)
        self.open += 1

    def give_back(self) -> None:
        """Count one less."""
        self.open -= 1


class Line:
    """A connection to a front; who holds it closes it.

    Attributes:
        connection: for requests.
        address: where it leads, for telemetry.
        idle_since: when its last request had ended, on the loop's clock; when it was made, before that.
        is_used: whether a request has gone over it.
    """

    def __init__(self, connection: HTTPConnection, sockets: Sockets, now: float) -> None:
        """Keep what it is made of; its socket is counted already."""
        self.connection = connection
        self.idle_since = now
        self.is_used = False
        self._sockets = sockets
        self._is_open = True

    async def aclose(self) -> None:
        """Close it at once; again does nothing."""
        if self._is_open:
            self._is_open = False
            self._sockets.give_back()
            await self.connection.aclose()


class FrontDialer:
    """Connects to fronts.

    Args:
        dial_tcp: makes the connections.
        sockets: counts them.
        country: whose policy for names in TLS holds.
        http2: whether HTTP/2 is offered.
    """

    def __init__(
        self, dial_tcp: DialTCP, sockets: Sockets, *, country: str | None, http2: bool
    ) -> None:
        """Keep the arguments."""
        self.sockets = sockets
        self._dial_tcp = dial_tcp
        self._country = country
        self._http2 = http2

    async def dial(
        self, front: Front, provider: Provider, make: Callable[[], ssl.SSLContext]
    ) -> Line:
        """Return a line to `front`, its certificate verified before a byte of a request is sent; the caller closes it.

        Cancellation and failure close what was opened.

        Args:
            front: where to.
            provider: whose it is.
            make: gives the context with the catalog's roots.

        Raises:
            TransportBusy: too many connections are open.
            AttemptTimeout: a step took too long.
            NetworkError: the connection, TLS, or the verification failed; `error_type` says which.
        """
        label = f"front {host_port(front.address, front.port)}"
        self.sockets.take()
        try:
            stream = await self._connect(front, label)
            try:
                secured = await self._secured(stream, front, provider, make(), label)
            except BaseException:
                await close_by_force(stream)
                raise
        except BaseException:
            self.sockets.give_back()
            raise
        # An edge that does not negotiate speaks HTTP/1.1.
        alpn = secured.extra(TLSAttribute.alpn_protocol, None)
        connection = HTTPConnection(secured, http2=alpn == "h2", peer=label)
        return Line(connection, self.sockets, anyio.current_time())

    async def vet(self, line: Line, provider: Provider) -> None:
        """Return when the front has shown that it forwards to the provider's test page; the line stays the caller's.

        Where the provider has no test page, its certificate is all the proof there is.

        Raises:
            NotUsable: another answer than 202.
            AttemptTimeout, NetworkError: no answer.
        """
        if not provider.test_host:
            return
        head = RequestHead(
            method="POST", authority=provider.test_host, target=provider.test_target, body_length=1
        )
        status = None
        with anyio.move_on_after(VET_TIMEOUT):
            answer = await line.connection.request(head, b"a")
            status = answer.status
            if status == VET_STATUS:
                await _drain(line.connection)
        if status is None:
            msg = f"no answer to the vetting within {VET_TIMEOUT:g} s"
            raise AttemptTimeout(msg, stage=Stage.VERIFY)
        if status != VET_STATUS:
            msg = f"the vetting was answered with {status} and not with {VET_STATUS}"
            raise NotUsable(msg, stage=Stage.VERIFY)

    async def _connect(self, front: Front, label: str) -> ByteStream:
        try:
            with anyio.fail_after(TCP_TIMEOUT):
                return await self._dial_tcp(front.address, front.port)
        except TransportError:
            raise
        except TimeoutError as exc:
            msg = f"{label}: no connection within {TCP_TIMEOUT:g} s"
            raise AttemptTimeout(msg, stage=Stage.CONNECT) from exc
        except OSError as exc:
            msg = f"{label}: {exc.strerror or exc}"
            raise NetworkError(msg, stage=Stage.CONNECT, error_type=error_type_of(exc)) from exc

    async def _secured(
        self,
        stream: ByteStream,
        front: Front,
        provider: Provider,
        context: ssl.SSLContext,
        label: str,
    ) -> TLSStream:
        sni = sni_of(front, provider, self._country)
        try:
            with anyio.fail_after(TLS_TIMEOUT):
                secured = await wrap_tls(stream, context, server_hostname=sni)
        except TimeoutError as exc:
            msg = f"{label}: no TLS within {TLS_TIMEOUT:g} s"
            raise AttemptTimeout(msg, stage=Stage.TLS) from exc
        except (OSError, anyio.EndOfStream, anyio.BrokenResourceError) as exc:
            kind = error_type_of(exc)
            what = getattr(exc, "verify_message", None) or getattr(exc, "reason", None) or "cut off"
            msg = f"{label}: TLS failed: {what}"
            raise NetworkError(msg, stage=Stage.TLS, error_type=kind) from exc
        name = verify_name_of(front, provider, sni)
        if not certifies(secured.extra(TLSAttribute.peer_certificate, None), name):
            msg = f"{label}: its certificate is not for {name}"
            raise NetworkError(msg, stage=Stage.TLS, error_type=ErrorType.CERTIFICATE_INVALID)
        return secured


def make_context(catalog: Catalog, *, http2: bool) -> ssl.SSLContext:
    """Return a context that trusts the catalog's roots alone; the name is verified apart from it. Takes milliseconds.

    Raises:
        ssl.SSLError: OpenSSL takes none of a certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # it would demand the name that is sent in TLS, which is a decoy
    context.verify_mode = ssl.CERT_REQUIRED
    # A list may have a root that others know as an intermediate: it is trusted as it is.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata="\n".join(a.pem for a in catalog.authorities))
    context.set_alpn_protocols(["h2", "http/1.1"] if http2 else ["http/1.1"])
    return context


async def _drain(connection: HTTPConnection) -> None:
    left = MAX_VET_BODY
    while chunk := await connection.receive_body():
        left -= len(chunk)
        if left < 0:
            return  # the line is not idle then, and is not used again
