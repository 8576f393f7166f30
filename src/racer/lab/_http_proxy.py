"""An HTTP proxy: CONNECT (RFC 9110 §9.3.6), Basic authentication (RFC 7617), and reasons (RFC 9209)."""

from __future__ import annotations

import base64
import errno
import http
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from racer.lab._proxy import Over, Proxy, ProxyRequest, ProxyStage

if TYPE_CHECKING:
    from collections.abc import Mapping

    import h11
    from anyio.abc import ByteStream

__all__ = ("HttpProxy",)

_MAX_HEAD: Final = 65_536  # octets of a request
_CHALLENGE: Final = {"Proxy-Authenticate": 'Basic realm="lab"'}


class HttpProxy(Proxy):
    """An HTTP/1.1 proxy on 127.0.0.1 that knows CONNECT alone, with Basic authentication or without.

    An async context manager. In memory, or inside a `Network`, it need not listen: `serve_stream` is a handler. After
    a 407 a client may ask again on the same connection.

    Args:
        connect: how targets are reached, such as `Network.connector()`; `None` for TCP from this machine.
        credential: user name and password that are wanted; `None` if anybody may come.
        faults: how it misbehaves, and whom it refuses; the first that applies counts.
        pace: seconds between the bytes of what it says itself; 0 for all at once.
        context: its own TLS context, such as `Authority.server_context` gives; `None` to speak without TLS.

    Attributes:
        requests: what it was asked for, refusals included.
        faults: a list of those given; may be changed at any time.
        tunnels: how many are open.
        address: where it listens; the port is 0 until it is entered.
    """

    scheme = "http"

    @property
    def url(self) -> str:
        """The proxy as a URL, without a credential; `https` when it has a TLS context of its own."""
        scheme = "https" if self._is_secure else "http"
        return f"{scheme}://{self.address[0]}:{self.address[1]}"

    async def _converse(self, stream: ByteStream) -> None:
        await self._reach(ProxyStage.CONNECTED, stream)
        early = b""
        while True:
            head, early = await _read(stream, early)
            if head is None:
                await self._say(stream, _response(400))
                raise Over
            user = self._user(head)
            host, port = head.host, head.port
            self.requests.append(
                ProxyRequest(host=host, port=port, user=user, headers=head.public_headers)
            )
            await self._reach(ProxyStage.REQUEST, stream, host)
            if head.method != "CONNECT":
                await self._say(stream, _response(405, headers={"Allow": "CONNECT"}))
                raise Over
            if self._credential is None or user is not None:
                break
            await self._say(stream, _response(407, headers=_CHALLENGE, stays=True))
        if (refusal := self._refusal(host)) is not None:
            answer = _response(refusal.code, headers=refusal.headers, body=refusal.body)
            await self._say(stream, answer)
            raise Over
        await self._tunnel(stream, host, port, early)

    def _user(self, head: _Head) -> str | None:
        """Return who asks, if a credential is wanted and theirs is right."""
        if self._credential is None:
            return None
        scheme, _, token = head.credential.partition(" ")
        try:
            user, _, password = base64.b64decode(token.strip()).decode().partition(":")
        except ValueError:
            return None
        is_right = scheme.lower() == "basic" and (user, password) == self._credential
        return user if is_right else None

    def _answer(self, error: OSError | None) -> bytes:
        if error is None:
            return b"HTTP/1.1 200 Connection established\r\n\r\n"
        return _response(
            504 if isinstance(error, TimeoutError) else 502,
            headers={"Proxy-Status": f"lab; error={_error_type(error)}"},
        )


_BY_ERRNO: Final = {
    errno.ECONNREFUSED: "connection_refused",
    errno.ECONNRESET: "connection_terminated",
    errno.EHOSTUNREACH: "destination_ip_unroutable",
    errno.ENETUNREACH: "destination_ip_unroutable",
    errno.ETIMEDOUT: "connection_timeout",
}


def _error_type(error: OSError) -> str:
    """Return what RFC 9209 §2.3 calls an error."""
    if isinstance(error, socket.gaierror):
        return "dns_error"
    return _BY_ERRNO.get(error.errno or 0, "proxy_internal_error")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """A request without a body."""

    method: str
    host: str
    port: int
    public_headers: Mapping[str, str]
    credential: str = field(repr=False)


async def _read(stream: ByteStream, early: bytes) -> tuple[_Head | None, bytes]:
    """Return the next request, `None` for what is none, and what was sent behind it.

    Raises:
        EndOfStream: the client ended its side before.
    """
    import h11  # noqa: PLC0415 - only who speaks HTTP pays for it

    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
    try:
        if early:
            connection.receive_data(early)
        while (event := connection.next_event()) is h11.NEED_DATA:
            connection.receive_data(await stream.receive())
    except h11.RemoteProtocolError:
        return None, b""
    if not isinstance(event, h11.Request):
        return None, b""
    return _head(event), connection.trailing_data[0]


def _head(request: h11.Request) -> _Head | None:
    """Return what a request asks for; `None` when its target is no authority (RFC 9110 §9.3.6)."""
    method = request.method.decode("ascii")
    authority = request.target.decode("ascii", "replace")
    if method != "CONNECT":
        # As in http://host:port/path; where there is only a path, nobody knows the host.
        authority = authority.partition("://")[2].partition("/")[0] or "-:0"
    host, colon, port = authority.rpartition(":")
    if method != "CONNECT" and not colon:
        host, port = authority, "80"
    if not host or not (port.isascii() and port.isdigit() and int(port[:6]) <= 65_535):
        return None
    headers = {name.decode("ascii"): value.decode("latin-1") for name, value in request.headers}
    credential = headers.pop("proxy-authorization", "")
    return _Head(
        method=method,
        host=host.removeprefix("[").removesuffix("]"),
        port=int(port[:6]),
        public_headers=headers,
        credential=credential,
    )


def _response(
    code: int,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    stays: bool = False,
) -> bytes:
    """Return a response; `stays` when the connection is good for another request."""
    try:
        reason = http.HTTPStatus(code).phrase
    except ValueError:
        reason = "Unheard of"
    fields = {
        **(headers or {}),
        "Content-Length": str(len(body)),
        "Connection": "keep-alive" if stays else "close",
    }
    lines = [f"HTTP/1.1 {code} {reason}", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body
