"""HTTP/1.1 on one connection: `h11` thinks, the request's own task reads and writes (RFC 9112).

One request at a time, which the pool sees to. A response that is not read to its end takes its connection with it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import anyio
import h11

from racer.http._liveness import Liveness
from racer.http._messages import Response
from racer.http._upgrade import Upgraded
from racer.http2._fault import BROKEN, Fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from racer._connection import Connection
    from racer._host import LoopHost
    from racer._report import RaceReport
    from racer.http._messages import Request, Timeouts

__all__ = ("MAX_HEAD", "HTTP1Connection")

MAX_HEAD: Final = 100 * 1024
"""Bytes of a response's head, or of one chunk's header, that are taken."""

_READ: Final = 65_536
_JOIN: Final = 65_536  # a body up to this size leaves together with its head


class HTTP1Connection:
    """One connection that won a race, for one request after the other.

    Args:
        connection: owned from now on.
        host: where a stream without a socket is watched while it is idle.
        on_death: called when the peer ends it while it is idle.

    Attributes:
        transport_name, report: the connection's.
    """

    max_requests = 1

    def __init__(
        self, connection: Connection, host: LoopHost, on_death: Callable[[], None]
    ) -> None:
        """Write nothing yet."""
        self.transport_name: str = connection.transport_name
        self._connection = connection
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        self._liveness = Liveness(connection, host, on_death)
        self._is_open = True
        self._is_sent = False

    @property
    def report(self) -> RaceReport:
        """The race that it won."""
        return self._connection.report

    def is_alive(self) -> bool:
        """Return whether it can take a request: nothing has come while it was idle, not even its end."""
        return self._is_open and self._liveness.is_quiet()

    def become_idle(self) -> None:
        """Learn that nobody uses it for now."""
        self._liveness.watch()

    def abort(self) -> None:
        """Close by force; synchronous."""
        self._is_open = False
        self._liveness.stop()
        self._connection.abort()

    async def exchange(
        self, request: Request, patience: float | None, done: Callable[[bool], None]
    ) -> Response:
        """Send a request and return its response, whose body is the caller's to close.

        Args:
            request: what to send.
            patience: seconds until the response's head must be here; `None` for as long as the timeouts allow.
            done: called once, when the connection is free again; told whether it can be used again.

        Raises:
            Fault: it failed, and the connection is closed; so it is after a cancellation.
        """
        try:
            return await self._exchange(request, patience, done)
        except BaseException:
            self.abort()
            done(False)  # noqa: FBT003 - what the callback is told
            raise

    async def _exchange(
        self, request: Request, patience: float | None, done: Callable[[bool], None]
    ) -> Response:
        timeouts = request.timeouts
        self._is_sent = False
        with anyio.CancelScope() as scope:
            if self._liveness.is_watching:
                await self._liveness.settled()
            refused = await self._send(request, patience, scope)
            self._is_sent = True
            try:
                head = await self._receive_head(timeouts, patience, scope)
            except Fault as fault:
                # What kept it from writing says more than that nothing came back.
                raise (refused if refused is not None and fault.silent else fault) from None
            return self._response(head, timeouts, done)
        if self._is_sent:
            msg = "no response in time"
            raise Fault("ReadTimeout", msg, silent=self._is_silent)
        msg = "the peer did not take the request in time"
        raise Fault("WriteTimeout", msg, silent=True)

    @property
    def _is_silent(self) -> bool:
        return not self._h11.trailing_data[0]

    # --- sending ------------------------------------------------------------------------------

    async def _send(
        self, request: Request, patience: float | None, scope: anyio.CancelScope
    ) -> Fault | None:
        """Send all of the request; return why not when the peer stopped listening, for it may have answered."""
        write = _shorter(request.timeouts.write, patience)
        upload = request.upload
        out = self._head_of(request)
        try:
            if upload.content is not None and len(upload.content) <= _JOIN:
                if upload.content:
                    out += self._encoded(h11.Data(data=upload.content))
                out += self._encoded(h11.EndOfMessage())
                await self._write(out, write, scope)
                return None
            await self._write(out, write, scope)
            async with upload.reader() as chunks:
                scope.deadline = math.inf  # the caller's own source takes its time
                async for chunk in chunks:
                    await self._write(self._encoded(h11.Data(data=chunk)), write, scope)
                    scope.deadline = math.inf
            if end := self._encoded(h11.EndOfMessage()):
                await self._write(end, write, scope)
        except Fault as fault:
            if fault.kind != "WriteError":
                raise
            return fault
        return None

    def _head_of(self, request: Request) -> bytes:
        try:
            head = h11.Request(
                method=request.method, target=request.target, headers=request.headers
            )
            return self._h11.send(head) or b""
        except h11.LocalProtocolError as exc:
            raise Fault("LocalProtocolError", str(exc), sent=False) from exc

    def _encoded(self, event: h11.Data | h11.EndOfMessage) -> bytes:
        try:
            return self._h11.send(event) or b""
        except h11.LocalProtocolError as exc:  # such as more or less than its content-length
            raise Fault("LocalProtocolError", str(exc)) from exc

    async def _write(self, data: bytes, timeout: float | None, scope: anyio.CancelScope) -> None:
        scope.deadline = math.inf if timeout is None else anyio.current_time() + timeout
        try:
            await self._connection.send(data)
        except BROKEN as exc:
            raise Fault("WriteError", "the connection broke", silent=True) from exc

    # --- receiving ----------------------------------------------------------------------------

    async def _receive_head(
        self, timeouts: Timeouts, patience: float | None, scope: anyio.CancelScope
    ) -> h11.Response | h11.InformationalResponse:
        last = math.inf if patience is None else anyio.current_time() + patience
        while True:
            event = self._parsed()
            if event is h11.NEED_DATA:
                await self._read(timeouts.read, last, scope)
            elif isinstance(event, h11.Response):
                return event
            elif isinstance(event, h11.InformationalResponse):
                if event.status_code == 101:
                    return event
            else:
                msg = f"{event!r:.60} where a response belongs"
                raise Fault("RemoteProtocolError", msg)

    async def _read(self, timeout: float | None, last: float, scope: anyio.CancelScope) -> None:
        scope.deadline = last if timeout is None else min(last, anyio.current_time() + timeout)
        try:
            data = await self._connection.receive(_READ)
        except anyio.EndOfStream:
            data = b""
        except BROKEN as exc:
            raise Fault("ReadError", "the connection broke", silent=self._is_silent) from exc
        if not data and self._h11.their_state is h11.SEND_RESPONSE:
            msg = "the server ended the connection without a response"
            raise Fault("RemoteProtocolError", msg, silent=self._is_silent)
        self._h11.receive_data(data)

    def _parsed(self) -> Any:  # noqa: ANN401 - h11's events and markers have no common base
        try:
            return self._h11.next_event()
        except h11.RemoteProtocolError as exc:
            raise Fault("RemoteProtocolError", str(exc)) from exc

    def _response(
        self,
        head: h11.Response | h11.InformationalResponse,
        timeouts: Timeouts,
        done: Callable[[bool], None],
    ) -> Response:
        upgraded = head.status_code == 101
        body = _Body(self, timeouts.read, done, is_empty=upgraded)
        return Response(
            status=head.status_code,
            reason=head.reason,
            version=b"HTTP/" + head.http_version,
            headers=head.headers.raw_items(),
            body=body,
            stream=Upgraded(self._connection, self._h11.trailing_data[0]) if upgraded else None,
        )

    # --- the body, for `_Body` ----------------------------------------------------------------

    def take(self) -> tuple[bytes, bool]:
        """Return what is here of the body, and whether that was the last of it."""
        parts = []
        while True:
            event = self._parsed()
            if isinstance(event, h11.Data):
                parts.append(bytes(event.data))
            else:
                return b"".join(parts), event is not h11.NEED_DATA

    async def more(self, timeout: float | None) -> None:
        """Wait for more of the body.

        Raises:
            Fault: none came.
        """
        with anyio.CancelScope() as scope:
            await self._read(timeout, math.inf, scope)
            return
        msg = "no more of the response in time"
        raise Fault("ReadTimeout", msg)

    def is_at_end(self) -> bool:
        """Return whether nothing but what has been received already is left of the body."""
        try:
            return self.take()[1]
        except Fault:
            return False

    def finish(self) -> bool:
        """Return whether the connection can take another request, and make it ready for one; else close it."""
        clean = (
            self._is_open
            and self._h11.our_state is h11.DONE
            and self._h11.their_state is h11.DONE
            and not self._h11.trailing_data[0]
        )
        if clean:
            self._h11.start_next_cycle()
        else:
            self.abort()
        return clean


class _Body:
    """The body of one response; frees the connection as soon as its last byte is here."""

    __slots__ = ("_connection", "_done", "_ended", "_timeout")

    def __init__(
        self,
        connection: HTTP1Connection,
        timeout: float | None,
        done: Callable[[bool], None],
        *,
        is_empty: bool,
    ) -> None:
        self._connection = connection
        self._timeout = timeout
        self._done = done
        self._ended = is_empty  # an upgraded connection is freed only when the response is closed

    async def receive(self) -> bytes:
        while (data := self.receive_nowait()) is None:
            try:
                await self._connection.more(self._timeout)
            except BaseException:
                self._free(aborted=True)
                raise
        return data

    def receive_nowait(self) -> bytes | None:
        if self._ended:
            return b""
        try:
            data, ended = self._connection.take()
        except Fault:
            self._free(aborted=True)
            raise
        if ended:
            self._ended = True
            self._free(aborted=False)
        return data if data or ended else None

    def close(self) -> None:
        aborted = not self._ended and not self._connection.is_at_end()
        self._ended = True
        self._free(aborted=aborted)

    def _free(self, *, aborted: bool) -> None:
        done, self._done = self._done, _nobody
        if done is _nobody:
            return
        if aborted:
            self._connection.abort()
            done(False)  # noqa: FBT003 - what the callback is told
        else:
            done(self._connection.finish())


def _nobody(reusable: bool) -> None:  # noqa: FBT001 - stands for a callback that was called
    del reusable


def _shorter(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else min(one, other)
