"""`RacerTransport`: what an `AsyncClient` of httpx or httpx2 sends its requests through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, overload

from racer.errors import ConfigError
from racer.http._dropped import closer_for
from racer.http._engine import Engine
from racer.http._exchange import Failure
from racer.http._library import installed, library_of
from racer.http._policy import RETRY_STATUSES
from racer.http._pool import Limits

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Container
    from types import TracebackType
    from typing import Self

    import httpx
    import httpx2

    from racer._dialer import Dialer
    from racer.http._messages import Request

    class _AsyncBase(httpx.AsyncBaseTransport, httpx2.AsyncBaseTransport):  # type: ignore[misc] # each its own Request
        pass

else:
    _AsyncBase: Final = type(
        "_AsyncBase", tuple(each.module.AsyncBaseTransport for each in installed()), {}
    )

__all__ = ("RacerTransport", "encode", "engine_of")


class RacerTransport(_AsyncBase):
    """Sends each request over a connection that won a race; for `AsyncClient(transport=...)` of httpx or httpx2.

    Connections race, requests do not: one request is on the wire at a time (H1). Connections are kept, and shared by
    requests where the server speaks HTTP/2. A request that may be repeated goes on to the next route when one fails or
    answers with a status of `retry_statuses`. `response.extensions["racer"]` says by which way it came.

    What the client is told of `proxy`, `verify`, `cert`, `http1`, `http2` and `limits` does not reach a transport: tell it
    here. `mounts` and `proxy` of a client go round it unseen; `racer.http.AsyncClient` refuses them.

    Args:
        dialer: who races; whoever made it closes it. `None` for the running loop's default dialer.
        http1: whether HTTP/1.1 may be spoken.
        http2: whether HTTP/2 may be; over TLS it is agreed on with the server, without TLS it is spoken only if `http1`
            is off.
        ssl_context: for all servers; `None` for the system's trust. Its list of ALPN protocols is set.
        limits: of the connections kept; `httpx.Limits` fits too. `None` for `Limits()`.
        retry_statuses: statuses that may be the route's fault.
        tag_requests: a name for your app that is told to every server, as `X-Racer-App`, with the route's as
            `X-Racer-Transport`. `None`, the default, adds nothing: servers and observers learn nothing of racer (H7).

    Raises:
        ConfigError: an option that cannot be.
    """

    def __init__(
        self,
        dialer: Dialer | None = None,
        *,
        http1: bool = True,
        http2: bool = True,
        ssl_context: ssl.SSLContext | None = None,
        limits: Limits | httpx.Limits | httpx2.Limits | None = None,
        retry_statuses: Container[int] = RETRY_STATUSES,
        tag_requests: str | None = None,
    ) -> None:
        """Touch no event loop."""
        self._engine = engine_of(
            dialer,
            http1=http1,
            http2=http2,
            ssl_context=ssl_context,
            limits=limits,
            retry_statuses=retry_statuses,
            tag_requests=tag_requests,
        )
        self._dialer = dialer
        self._owns_dialer = False

    def own_dialer(self) -> None:
        """Have `aclose` end the dialer too: it was made for this transport alone."""
        self._owns_dialer = True

    @overload
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response: ...
    @overload
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response: ...
    async def handle_async_request(self, request: Any) -> Any:
        """Return the response; its body is the caller's to close.

        Raises:
            Exception: the library's own (`ConnectError`, `ReadTimeout`, …), with racer's as its `__cause__`; the text
                names every transport that was tried.
            ConfigError: the dialer cannot be used here, or an option of the request is wrong.

        Cancelling at any point leaves no connection, stream or task behind.
        """
        library = library_of(request)
        ours = library.request(request, _Source)
        engine = self._engine
        try:
            response, via = await engine.send(ours)
        except Failure as failure:
            raise library.error(failure) from failure.error
        finally:
            if ours.upload.content is None:
                await ours.upload.aclose()
        name = via.transport_name
        dropped = closer_for((await engine.dialer()).host, name)
        stream = library.async_stream(response.body, library, name, dropped)
        return library.response(response, via, stream)

    async def aclose(self) -> None:
        """Close the connections: idle ones now, others after their last response. The dialer stays. Twice is fine."""
        self._engine.close()
        if self._owns_dialer and self._dialer is not None:
            await self._dialer.aclose()

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Close, as `aclose`."""
        await self.aclose()

    def __repr__(self) -> str:
        """Say how much it is used."""
        pool = self._engine.pool
        return (
            f"<{type(self).__name__}: {pool.connections} connections, {pool.waiting} requests wait>"
        )


class _Source:
    """A request's body that comes bit by bit.

    Closing it closes the caller's own generator too, which the libraries leave to the garbage collector.
    """

    def __init__(self, stream: Any) -> None:  # noqa: ANN401 - the library's
        self._stream = stream
        self._iterator: AsyncIterator[bytes] = stream.__aiter__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._iterator)

    async def aclose(self) -> None:
        for each in (self._iterator, getattr(self._stream, "_stream", None)):
            if (close := getattr(each, "aclose", None)) is not None:
                await close()


def encode(request: Request) -> Any:  # noqa: ANN401 - the library's
    """Return a request as its own library's, for a guest that takes requests."""
    return library_of(request.original).encode(request)


def engine_of(
    dialer: Dialer | None,
    *,
    http1: bool,
    http2: bool,
    ssl_context: ssl.SSLContext | None,
    limits: Limits | httpx.Limits | httpx2.Limits | None,
    retry_statuses: Container[int],
    tag_requests: str | None,
) -> Engine:
    """Return an engine with checked options.

    Raises:
        ConfigError: says which cannot be.
    """
    from racer._dialer import Dialer  # noqa: PLC0415 - a type only, everywhere else

    if dialer is not None and not isinstance(dialer, Dialer):
        msg = f"a racer.Dialer or None was expected, not {type(dialer).__name__}"
        raise ConfigError(msg)
    if not hasattr(retry_statuses, "__contains__"):
        msg = f"retry_statuses must be a set or range of statuses, not {retry_statuses!r:.60}"
        raise ConfigError(msg)
    if tag_requests is not None and not _is_token(tag_requests):
        msg = f"tag_requests must be a name of printable ASCII, not {tag_requests!r:.60}"
        raise ConfigError(msg)
    return Engine(
        dialer,
        http1=http1,
        http2=http2,
        ssl_context=ssl_context,
        limits=_limits(limits),
        retry_statuses=retry_statuses,
        tag=tag_requests,
        encode=encode,
    )


def _is_token(text: object) -> bool:
    return isinstance(text, str) and text.isascii() and text.isprintable() and bool(text.strip())


def _limits(given: Any) -> Limits:  # noqa: ANN401 - ours or either library's
    if given is None or isinstance(given, Limits):
        return given or Limits()
    try:
        return Limits(
            max_connections=given.max_connections,
            max_keepalive_connections=given.max_keepalive_connections,
            keepalive_expiry=given.keepalive_expiry,
        )
    except AttributeError as exc:
        msg = f"limits must be racer.http.Limits or httpx.Limits, not {type(given).__name__}"
        raise ConfigError(msg) from exc
