"""A guest's route for requests in the pool: it takes and gives the HTTP library's own requests and responses (H11)."""

from __future__ import annotations

import contextvars
import math
from typing import TYPE_CHECKING, Any

import anyio

from racer.errors import LocalProtocolError, TransportBusy
from racer.http._messages import Response
from racer.http2._fault import Fault

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from racer._connection import RoutedConnection
    from racer._host import LoopHost
    from racer._report import RaceReport
    from racer.http._messages import Request

__all__ = ("RouteConnection",)


class RouteConnection:
    """One route that won a race, for one request after the other.

    Args:
        connection: owned from now on.
        host: where responses are closed that nobody waits for.
        encode: makes the HTTP library's request of ours, body included.

    Attributes:
        transport_name: the route's.
    """

    max_requests = 1

    def __init__(
        self, connection: RoutedConnection, host: LoopHost, encode: Callable[[Request], Any]
    ) -> None:
        """Ask nothing yet."""
        self.transport_name: str = connection.transport_name
        self._connection = connection
        self._host = host
        self._encode = encode
        self._is_open = True

    @property
    def report(self) -> RaceReport:
        """The race that it won."""
        return self._connection.report

    def is_alive(self) -> bool:
        """Return whether nobody closed it here; what is behind a route only its guest knows."""
        return self._is_open

    def become_idle(self) -> None:
        """Learn that nobody uses it for now."""

    def abort(self) -> None:
        """Close; synchronous."""
        self._is_open = False
        self._connection.abort()

    async def exchange(
        self, request: Request, patience: float | None, done: Callable[[bool], None]
    ) -> Response:
        """Send a request and return its response, as `HTTP1Connection.exchange`."""
        try:
            return await self._exchange(request, patience, done)
        except BaseException:
            self.abort()
            done(False)  # noqa: FBT003 - what the callback is told
            raise

    async def _exchange(
        self, request: Request, patience: float | None, done: Callable[[bool], None]
    ) -> Response:
        bounds = [each for each in (patience, request.timeouts.read) if each is not None]
        deadline = anyio.current_time() + min(bounds) if bounds else math.inf
        with anyio.CancelScope(deadline=deadline):
            try:
                answer = await self._connection.handle(self._encode(request))
            except Fault:
                raise
            except Exception as exc:
                # A guest's bug counts as its failure (R15); so does the error of a library that it is built upon.
                raise _fault_of(exc) from exc
            return self._decoded(answer, request.timeouts.read, done)
        msg = "no response in time"
        raise Fault("ReadTimeout", msg, silent=True)

    def _decoded(self, answer: Any, read: float | None, done: Callable[[bool], None]) -> Response:  # noqa: ANN401 - of either library
        try:
            status = int(answer.status_code)
            headers = [(bytes(name), bytes(value)) for name, value in answer.headers.raw]
            extensions = answer.extensions
            stream = answer.stream.__aiter__()
        except (AttributeError, TypeError, ValueError) as exc:
            msg = f"handle() returned {type(answer).__name__}, which is no response of httpx or httpx2"
            raise Fault("RemoteProtocolError", msg) from exc

        def close_soon() -> None:
            # Closing a response waits, and this may not.
            self._host.close_soon(answer, self.transport_name, contextvars.Context(), lambda: None)

        return Response(
            status=status,
            reason=extensions.get("reason_phrase", b""),
            version=extensions.get("http_version", b"HTTP/1.1"),
            headers=headers,
            body=_Body(self, answer, stream=stream, read=read, close_soon=close_soon, done=done),
        )


class _Body:
    """The body of a guest's response."""

    __slots__ = ("_answer", "_close_soon", "_connection", "_done", "_ended", "_read", "_stream")

    def __init__(
        self,
        connection: RouteConnection,
        answer: Any,  # noqa: ANN401 - of either library
        *,
        stream: AsyncIterator[bytes],
        read: float | None,
        close_soon: Callable[[], None],
        done: Callable[[bool], None],
    ) -> None:
        self._connection = connection
        self._answer = answer
        self._stream = stream
        self._read = read
        self._close_soon = close_soon
        self._done = done
        self._ended = False

    async def receive(self) -> bytes:
        try:
            while not self._ended:
                chunk = await self._next()
                if chunk:
                    return chunk
                if chunk is None:
                    # The route's next request comes when this response is closed, and not before.
                    await self._answer.aclose()
                    self._ended = True
                    self._done(True)  # noqa: FBT003 - what the callback is told
        except BaseException:
            self.close()
            raise
        return b""

    async def _next(self) -> bytes | None:
        deadline = math.inf if self._read is None else anyio.current_time() + self._read
        with anyio.CancelScope(deadline=deadline):
            try:
                return await anext(self._stream, None)
            except Exception as exc:
                raise _fault_of(exc) from exc
        msg = "no more of the response in time"
        raise Fault("ReadTimeout", msg)

    def receive_nowait(self) -> bytes | None:
        return b"" if self._ended else None

    def close(self) -> None:
        if not self._ended:
            self._ended = True
            self._connection.abort()
            self._close_soon()
            self._done(False)  # noqa: FBT003 - what the callback is told


def _fault_of(exc: Exception) -> Fault:
    """Return a fault by the name the HTTP library gave the error, where it did."""
    name = type(exc).__name__
    known = {"ReadTimeout", "WriteTimeout", "ConnectTimeout", "ConnectError", "WriteError"}
    if name in known:
        return Fault(name, str(exc), sent=not name.startswith("Connect"), silent=True)
    if isinstance(exc, LocalProtocolError | TransportBusy):
        # The guest's words for a request that it cannot carry: nothing was sent, another may.
        return Fault("ConnectError", "the route does not take the request", sent=False)
    if isinstance(exc, TimeoutError):
        return Fault("ReadTimeout", "no response in time", silent=True)
    return Fault("ReadError", "the route failed", silent=True)
