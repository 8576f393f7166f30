"""What guests that answer requests are asked with, and answer with: the requests and responses of httpx and httpx2.

Neither library is imported here: who has made a request has loaded one, and the response is of the same one.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from racer.errors import LocalProtocolError, NetworkError
from transports._net.http_client import Fields, RequestHead, ResponseHead, without_hop_fields

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from types import ModuleType

__all__ = ("AppRequest", "ConnectError", "make_response", "read_request")

_LIBRARIES: Final = ("httpx", "httpx2")
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})  # RFC 9110 §9.2.1


class ConnectError(NetworkError):
    """There was no line for a request: nothing of it was sent, so that it may go another way, whatever its method.

    By this name, which both libraries have for it, `racer.http` knows as much (H3).
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class AppRequest:
    """A request as the application made it.

    Attributes:
        method: such as `GET`.
        scheme: `http` or `https`.
        host: in ASCII.
        port: the scheme's own where none was given.
        target: path and query.
        fields: header fields without those of one connection, `Host` and `Content-Length`.
        body: octets, or parts that can be taken once.
        body_length: its octets; `None` when nobody knows yet.
        is_repeatable: whether it may be sent again after it has left once (H2): its method is safe, or the caller
            says so with `extensions={"racer": {"idempotent": True}}`; and its body is at hand.
        read_timeout: seconds that a wait for the server may take; `None` for no limit.
        url: as text, without credentials.
    """

    method: str
    scheme: str
    host: str
    port: int
    target: str
    fields: Fields = field(repr=False)
    body: bytes | AsyncIterator[bytes] = field(repr=False)
    body_length: int | None
    is_repeatable: bool
    read_timeout: float | None
    url: str

    def head(self, authority: str, *more: tuple[bytes, bytes]) -> RequestHead:
        """Return what goes out, addressed to `authority`, with `more` fields behind its own."""
        return RequestHead(
            method=self.method,
            authority=authority,
            target=self.target,
            fields=(*self.fields, *more),
            body_length=self.body_length,
        )


def read_request(request: Any) -> AppRequest:  # noqa: ANN401 - either library's
    """Return what `request` asks for; takes nothing of its body yet.

    Raises:
        LocalProtocolError: no `Request` of httpx or httpx2, or one that wants to change protocols, which only a
            stream could carry.
    """
    _library_of(request)
    url = request.url
    raw = tuple((bytes(name), bytes(value)) for name, value in request.headers.raw)
    if request.method == "CONNECT" or any(name.lower() == b"upgrade" for name, _ in raw):
        msg = "a request that changes protocols (CONNECT, Upgrade) cannot be carried here"
        raise LocalProtocolError(msg)
    body = _body_of(request)
    extensions: Mapping[str, Any] = request.extensions
    marked = extensions.get("racer")
    is_marked = isinstance(marked, dict) and bool(marked.get("idempotent"))
    timeout = (extensions.get("timeout") or {}).get("read")
    host = url.raw_host.decode("ascii")
    netloc = url.netloc.decode("ascii").rpartition("@")[2]
    target = url.raw_path.decode("ascii")
    return AppRequest(
        method=request.method,
        scheme=url.scheme,
        host=host,
        port=url.port or (443 if url.scheme == "https" else 80),
        target=target,
        fields=without_hop_fields(raw),
        body=body,
        body_length=len(body) if isinstance(body, bytes) else _stated_length(raw),
        is_repeatable=isinstance(body, bytes) and (is_marked or request.method in _SAFE),
        read_timeout=timeout,
        url=f"{url.scheme}://{netloc}{target}",
    )


def make_response(
    request: Any,  # noqa: ANN401 - either library's
    head: ResponseHead,
    receive: Callable[[], Awaitable[bytes]],
    aclose: Callable[[], Awaitable[None]],
    *,
    extensions: Mapping[str, Any] | None = None,
) -> Any:  # noqa: ANN401 - the same library's
    """Return a response to `request`; its body is read bit by bit, and is the caller's to close.

    Args:
        request: what it answers.
        head: its head.
        receive: gives the next part of the body, empty at the end.
        aclose: called once the body is closed.
        extensions: further ones for the response.
    """
    library = _library_of(request)
    kept = [(n, v) for n, v in head.fields if n not in {b"connection", b"keep-alive", b"upgrade"}]
    return library.Response(
        head.status,
        headers=kept,
        stream=_stream_class(library)(receive, aclose),
        request=request,
        extensions={"http_version": head.http_version.encode(), **(extensions or {})},
    )


def _library_of(request: object) -> ModuleType:
    for kind in type(request).__mro__:
        name = kind.__module__.partition(".")[0]
        if name in _LIBRARIES and kind.__name__ == "Request":
            return sys.modules[name]
    msg = f"a route handles a Request of httpx or httpx2, not {type(request).__name__}"
    raise LocalProtocolError(msg)


def _body_of(request: Any) -> bytes | AsyncIterator[bytes]:  # noqa: ANN401
    library = _library_of(request)
    try:
        content: bytes = request.content
    except library.RequestNotRead:
        if not hasattr(request.stream, "__aiter__"):
            msg = "the request's body can only be read synchronously"
            raise LocalProtocolError(msg) from None
        parts: AsyncIterator[bytes] = aiter(request.stream)
        return parts
    return content


def _stated_length(raw: Fields) -> int | None:
    stated = [value for name, value in raw if name.lower() == b"content-length"]
    return int(stated[0]) if len(stated) == 1 and stated[0].isdigit() else None


@functools.cache
def _stream_class(library: ModuleType) -> Any:  # noqa: ANN401 - a class made for one library
    base: Any = library.AsyncByteStream

    class _BodyStream(base):  # type: ignore[misc]  # the base is known at run time only
        """A response's body."""

        def __init__(
            self,
            receive: Callable[[], Awaitable[bytes]],
            aclose: Callable[[], Awaitable[None]],
        ) -> None:
            self._receive = receive
            self._aclose = aclose

        def __aiter__(self) -> AsyncIterator[bytes]:
            # No generator: one that is left half-way waits for the garbage collector to end it.
            return self

        async def __anext__(self) -> bytes:
            chunk = await self._receive()
            if not chunk:
                raise StopAsyncIteration
            return chunk

        async def aclose(self) -> None:
            await self._aclose()

    return _BodyStream
