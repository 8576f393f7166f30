"""A `Zone` that can be asked over HTTPS (RFC 8484), in HTTP/1.1 or, where the client asks for it, HTTP/2."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

import anyio
from anyio.streams.tls import TLSAttribute

from racer.lab._http import Request, Response
from racer.lab._server import Server

if TYPE_CHECKING:
    import ssl

    from anyio.abc import ByteStream

    from racer.lab._zone import Zone

__all__ = ("DoHServer",)

_TYPE: Final = "application/dns-message"
_HTTP2: Final = "h2"  # as ALPN has it, RFC 9113 §3.1


class DoHServer(Server):
    """A `Zone` on 127.0.0.1, over HTTPS. An async context manager.

    It speaks HTTP/2 where ALPN has chosen `h2` (which takes the library of that name), and HTTP/1.1 otherwise. A
    question without an answer keeps its request waiting. Of several answers the client gets the first.

    Inside a `Network` it need not listen: `serve_stream` is a handler for a site, which brings TLS itself.

    Args:
        zone: what it knows and does.
        context: its TLS context, such as `Authority.server_context` gives; `None` for HTTP without TLS.
        path: where questions are taken.
        status: the HTTP status of every response, whose body is empty unless it is 200.

    Attributes:
        zone: as given.
        path: as given.
        status: as given; may be changed at any time.
        address: where it listens; the port is 0 until it is entered.
    """

    def __init__(
        self,
        zone: Zone,
        *,
        context: ssl.SSLContext | None = None,
        path: str = "/dns-query",
        status: int = 200,
    ) -> None:
        """Keep the arguments; nothing listens yet."""
        super().__init__(self.serve_stream, context=context)
        self.zone = zone
        self.path = path
        self.status = status

    @property
    def url(self) -> str:
        """The server as a resolver's URL."""
        return f"https://{self.address[0]}:{self.address[1]}{self.path}"

    async def serve_stream(self, stream: ByteStream) -> None:
        """Serve one connection until the client ends it."""
        # Both libraries load only when they are spoken.
        if stream.extra(TLSAttribute.alpn_protocol, None) == _HTTP2:
            from racer.lab._http2 import serve  # noqa: PLC0415
        else:
            from racer.lab._http1 import serve  # noqa: PLC0415
        await serve(stream, self._respond)

    async def _respond(self, request: Request) -> Response:
        if self.status != 200:
            return Response(status=self.status)
        question = self._question(request)
        if isinstance(question, Response):
            return question
        if not self.zone.is_question(question):
            return Response(status=400)
        replies = self.zone.replies(question, over="https")
        if not replies:
            await anyio.sleep_forever()
        await anyio.sleep(replies[0].after)
        return Response(
            status=200,
            body=replies[0].data,
            headers=(("content-type", _TYPE), ("cache-control", f"max-age={self.zone.ttl}")),
        )

    def _question(self, request: Request) -> bytes | Response:
        """Return the DNS message in a request, or the response to one without (RFC 8484 §4.1)."""
        url = urlsplit(request.target)
        if url.path != self.path:
            return Response(status=404)
        if request.method == "POST":
            is_message = request.header("content-type").lower() == _TYPE
            return request.body if is_message else Response(status=415)
        if request.method != "GET":
            return Response(status=405, headers=(("allow", "GET, POST"),))
        values = parse_qs(url.query).get("dns", [])
        if len(values) != 1:
            return Response(status=400)
        try:
            return base64.urlsafe_b64decode(values[0] + "=" * (-len(values[0]) % 4))
        except (binascii.Error, ValueError):
            return Response(status=400)
