"""Requests for http:// URLs, forwarded over connections that won a race (`racer.http`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio
import h11
import httpx

from racer._words import describe
from racer.errors import ConfigError, DialError, NoTransports, RacerError
from racer.http import Limits, RacerTransport
from racer.proxy._http import END
from racer.proxy._requests import Reply
from racer.proxy._verdicts import Verdict, verdict_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from anyio.abc import ByteStream, TaskGroup

    from racer._dialer import Dialer
    from racer._report import RaceReport
    from racer.proxy._http import HttpServer
    from racer.proxy._requests import Fetch

__all__ = ("Fetcher",)

_MAX_PIPELINED: Final = (
    64 * 1024
)  # bytes that a client may send behind a request that is being answered


class Fetcher:
    """Forwards the requests of one client.

    The connections are this client's alone: some servers know a user by the connection (NTLM), so that sharing them would
    let one client act in another's name.

    Args:
        stream: the client's.
        machine: speaks HTTP with it.
        dialer: who races.
        on_race: is given the report of each race.

    Attributes:
        scope: cancelling it ends the request under way.
        moved_at: when a piece of it was last carried, on the loop's clock.
    """

    def __init__(
        self,
        stream: ByteStream,
        machine: HttpServer,
        dialer: Dialer,
        on_race: Callable[[RaceReport], None],
    ) -> None:
        """Connect to nothing yet."""
        self._stream = stream
        self._machine = machine
        self._on_race = on_race
        self._is_answered = False
        self.scope = anyio.CancelScope()
        self.moved_at = anyio.current_time()
        self._transport = RacerTransport(dialer, http2=False, limits=Limits(max_connections=4))

    async def forward(self, wish: Fetch) -> Verdict | None:
        """Answer one request with the response of its target; return why that could not be, if it could not.

        A client that leaves ends the request.

        Raises:
            EndOfStream: the client has gone.
            BrokenResourceError: so it has, nothing was carried for too long, or the response broke off when a part of it was with the client already: the
                connection has to be broken then, or the part would look whole.
        """
        failed: list[Exception] = []
        left = True
        self._is_answered = False
        self.scope = anyio.CancelScope()
        self.moved_at = anyio.current_time()
        with self.scope:
            async with anyio.create_task_group() as group:
                try:
                    await self._relay(wish, _Body(self._machine, self._stream, group, self._moved))
                except Exception as exc:  # noqa: BLE001 - told apart below, outside of the group
                    failed.append(exc)
                left = False
                group.cancel_scope.cancel()
        if self._is_answered:  # who leaves with the whole response has not left before it
            return None
        if left:
            raise anyio.BrokenResourceError if self.scope.cancel_called else anyio.EndOfStream
        (error,) = failed
        verdict = self._verdict(error, wish)
        if verdict is None:
            raise error
        if self._machine.has_begun:
            raise anyio.BrokenResourceError from error
        self._machine.refuse(verdict)
        await self._stream.send(self._machine.bytes_to_send())
        return verdict

    async def aclose(self) -> None:
        """Close the connections to targets."""
        await self._transport.aclose()

    async def _relay(self, wish: Fetch, body: _Body) -> None:
        target = wish.target
        headers = list(wish.headers)
        if wish.has_body and not any(name.lower() == b"content-length" for name, _ in headers):
            headers.append((b"Transfer-Encoding", b"chunked"))
        if not wish.has_body:
            body.watch()
        request = httpx.Request(
            wish.method,
            httpx.URL(scheme="http", host=target.host, port=target.port, path="/"),
            headers=headers,
            stream=body if wish.has_body else None,
            extensions={"target": wish.path},
        )
        response = await self._transport.handle_async_request(request)
        try:
            via = response.extensions["racer"]
            if not via.reused:
                self._on_race(via.report)
            reason = response.extensions.get("reason_phrase", b"")
            machine = self._machine
            machine.respond(response.status_code, reason, response.headers.raw)
            await self._flush()
            left = _length(wish, response)
            self._is_answered = left == 0
            assert isinstance(response.stream, httpx.AsyncByteStream)
            async for chunk in response.stream:
                machine.send_body(chunk)
                await self._flush()
                left -= len(chunk)
                self._is_answered = left == 0  # the client has all of it, and may leave now
            machine.end_response()
            await self._flush()
            self._is_answered = True
        finally:
            await response.aclose()

    async def _flush(self) -> None:
        self._moved()
        if data := self._machine.bytes_to_send():
            await self._stream.send(data)

    def _moved(self) -> None:
        self.moved_at = anyio.current_time()

    def _verdict(self, error: Exception, wish: Fetch) -> Verdict | None:
        """Return what an error says of the target; `None` if it is the client that has gone."""
        cause = error.__cause__ if isinstance(error, httpx.TransportError) else error
        target = str(wish.target)
        if isinstance(cause, DialError | NoTransports | ConfigError):
            if isinstance(cause, DialError | NoTransports) and cause.report is not None:
                self._on_race(cause.report)
            return verdict_of(cause, target)
        if isinstance(cause, RacerError | h11.LocalProtocolError):
            is_late = isinstance(cause, TimeoutError)
            return Verdict(
                reply=Reply.GENERAL_FAILURE,
                status=504 if is_late else 502,
                error="connection_read_timeout" if is_late else "http_protocol_error",
                words=f"{target} gave no proper response: {describe(cause)}",
            )
        if isinstance(cause, OSError | anyio.EndOfStream | anyio.BrokenResourceError):
            return None
        return None if isinstance(cause, h11.RemoteProtocolError) else verdict_of(error, target)


def _length(wish: Fetch, response: httpx.Response) -> int:
    """Return how long the response's body is, for the client to know its end by; -1 if it is known by other means."""
    if wish.method == "HEAD" or response.status_code in {204, 304}:  # RFC 9112 §6.3
        return 0
    length = response.headers.get("content-length", "")
    is_meant = "transfer-encoding" not in response.headers
    return int(length) if is_meant and length.isdecimal() else -1


class _Body(httpx.AsyncByteStream):
    """A request's body, as it comes from the client. After its end the client is watched for going away.

    No generator, which trio would warn of when somebody stops half-way.
    """

    def __init__(
        self,
        machine: HttpServer,
        stream: ByteStream,
        group: TaskGroup,
        moved: Callable[[], None],
    ) -> None:
        self._machine = machine
        self._moved = moved
        self._client = stream  # not `_stream`: racer.http closes what a body has of that name
        self._group = group

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while True:
            piece = self._machine.next_body()
            if data := self._machine.bytes_to_send():  # 100 Continue
                await self._client.send(data)
            if piece is END:
                self.watch()
                raise StopAsyncIteration
            self._moved()
            if isinstance(piece, bytes):
                return piece
            self._machine.receive_data(await self._client.receive())

    async def aclose(self) -> None:
        """Do nothing: the client's stream is not the body's to close."""

    def watch(self) -> None:
        """Cancel the group when the client goes away; what it sends meanwhile is its next request."""
        self._group.start_soon(self._watch)

    async def _watch(self) -> None:
        room = _MAX_PIPELINED
        try:
            while room > 0:
                data = await self._client.receive(room)
                self._machine.receive_data(data)
                room -= len(data)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            self._group.cancel_scope.cancel()
