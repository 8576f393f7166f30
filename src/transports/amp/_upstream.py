"""The broker's own requests: to origins on its list, within bounds of size and time, redirects left to who asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import anyio
from anyio.streams.tls import TLSAttribute

from racer.abc import Progress
from racer.errors import RacerError, RemoteProtocolError
from transports._net.drive import close_by_force
from transports._net.http_client import RequestHead, without_hop_fields
from transports._net.http_connection import HTTPConnection
from transports._net.tls import wrap_tls
from transports.amp._messages import FAILURE_FIELD, InnerRequest, InnerResponse

if TYPE_CHECKING:
    from transports._net.connector import Connector
    from transports._net.tls import ClientContext
    from transports.amp._allow import AllowList

__all__ = ("Upstream",)

_GONE: Final = frozenset({b"content-length", b"transfer-encoding", b"connection", b"keep-alive"})


class Upstream:
    """Performs clients' requests.

    Args:
        allow: which origins.
        connector: makes the connections.
        context: for TLS, which verifies the origins.
        timeout: seconds for one request, its answer's last octet included.
        max_response: octets of an answer's body.
    """

    def __init__(
        self,
        allow: AllowList,
        connector: Connector,
        context: ClientContext,
        *,
        timeout: float,
        max_response: int,
    ) -> None:
        """Keep the arguments."""
        self._allow = allow
        self._connector = connector
        self._context = context
        self._timeout = timeout
        self._max_response = max_response

    async def perform(self, request: InnerRequest) -> InnerResponse:
        """Return the origin's answer; or one with the status 403, 502 or 504 and the reason, marked as the broker's."""
        try:
            scheme, host, port, target = _parts(request.url)
        except ValueError:
            return failure(403, "a URL that cannot be asked for")
        if not self._allow.allows(scheme, host, port):
            return failure(403, "this origin is not on its list")
        answer: InnerResponse | None = None
        with anyio.move_on_after(self._timeout):
            try:
                answer = await self._ask(request, scheme, host, port, target)
            except (RacerError, OSError, anyio.EndOfStream, anyio.BrokenResourceError) as exc:
                answer = failure(502, f"the origin could not be asked: {type(exc).__name__}")
        return answer or failure(504, f"the origin gave no whole answer within {self._timeout:g} s")

    async def _ask(
        self, request: InnerRequest, scheme: str, host: str, port: int, target: str
    ) -> InnerResponse:
        stream = await self._connector.connect(host, port, Progress())
        try:
            secured = stream
            if scheme == "https":
                context = await self._context.get()
                secured = await wrap_tls(stream, context, server_hostname=host)
            http2 = secured.extra(TLSAttribute.alpn_protocol, None) == "h2"
            connection = HTTPConnection(secured, http2=http2, peer="the origin")
            shown = f"[{host}]" if ":" in host else host
            default = 443 if scheme == "https" else 80
            head = RequestHead(
                method=request.method,
                authority=shown if port == default else f"{shown}:{port}",
                target=target,
                fields=without_hop_fields(request.fields),
                body_length=len(request.body),
            )
            answer = await connection.request(head, request.body)
            body = bytearray()
            while chunk := await connection.receive_body():
                body += chunk
                if len(body) > self._max_response:
                    msg = "too long"
                    raise RemoteProtocolError(msg)
            fields = tuple((n, v) for n, v in answer.fields if n not in _GONE | {FAILURE_FIELD})
            return InnerResponse(status=answer.status, fields=fields, body=bytes(body))
        finally:
            await close_by_force(stream)


def failure(status: int, reason: str) -> InnerResponse:
    """Return an answer of the broker's own."""
    text = reason.encode("ascii", "replace")
    return InnerResponse(
        status=status,
        fields=((FAILURE_FIELD, text), (b"content-type", b"text/plain")),
        body=text + b"\n",
    )


def _parts(url: str) -> tuple[str, str, int, str]:
    """Return scheme, host, port and target of a URL.

    Raises:
        ValueError: it is none with a host.
    """
    parts = urlsplit(url)
    scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
    if scheme not in {"http", "https"} or not host or "%" in host or parts.username is not None:
        raise ValueError
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return scheme, host, port or (443 if scheme == "https" else 80), target
