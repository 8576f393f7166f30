"""`SyncRacerTransport`: the same for programs without an event loop; a thread of racer's own has one (H10)."""

from __future__ import annotations

import queue
import weakref
from typing import TYPE_CHECKING, Any, Final, overload

import anyio

from racer.errors import WrongLoop
from racer.http._dropped import closer_for
from racer.http._exchange import Failure
from racer.http._library import installed, library_of
from racer.http._loop_thread import loop_thread
from racer.http._policy import RETRY_STATUSES
from racer.http._transport import engine_of
from racer.http._upgrade import SyncUpgraded

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Container, Iterator
    from types import TracebackType
    from typing import Self

    import httpx
    import httpx2

    from racer._dialer import Dialer
    from racer.http._engine import Engine
    from racer.http._library import Library
    from racer.http._loop_thread import LoopThread
    from racer.http._messages import Body, Request, Response, Via
    from racer.http._pool import Limits

    class _SyncBase(httpx.BaseTransport, httpx2.BaseTransport):  # type: ignore[misc] # each its own Request
        pass

else:
    _SyncBase: Final = type(
        "_SyncBase", tuple(each.module.BaseTransport for each in installed()), {}
    )

__all__ = ("SyncRacerTransport",)

_MOST: Final = 1024 * 1024  # bytes of a body that are handed over to the caller's thread at once


class SyncRacerTransport(_SyncBase):
    """Sends each request over a connection that won a race; for `Client(transport=...)` of httpx or httpx2.

    The rules and the options are those of `RacerTransport`. May be used from several threads. The work is done on an event
    loop in a daemon thread, one for the process: the dialer belongs to that loop, so it has to be one that was not used
    elsewhere, and a forked child makes its own. The process ends even if nobody closes the transport.

    Args:
        dialer: who races; whoever made it closes it, with `close_dialer`. `None` for the default dialer of that loop.
        http1: as `RacerTransport`, and so are the others.
        http2: likewise.
        ssl_context: likewise.
        limits: likewise.
        retry_statuses: likewise.
        tag_requests: likewise.

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
        """Start no thread."""
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
        self._thread: LoopThread | None = None

    @overload
    def handle_request(self, request: httpx.Request) -> httpx.Response: ...
    @overload
    def handle_request(self, request: httpx2.Request) -> httpx2.Response: ...
    def handle_request(self, request: Any) -> Any:
        """Return the response, as `RacerTransport.handle_async_request`; an interrupt cancels the request.

        Raises:
            WrongLoop: called in a forked child with its parent's transport, or on the loop itself.
        """
        library = library_of(request)
        thread = self._bound()
        call = _Call(thread, self._engine)
        ours = library.request(request, call.source)
        try:
            return call.run(ours, library)
        except Failure as failure:
            raise library.error(failure) from failure.error

    def _bound(self) -> LoopThread:
        thread = self._thread
        if thread is None:
            thread = self._thread = loop_thread()
            if self._dialer is not None:
                thread.at_exit(id(self._dialer), _goodbye(self._dialer))
        if not thread.is_here:
            msg = (
                f"this transport belongs to process {thread.pid}, and its connections with it: "
                "after a fork the child makes a transport of its own"
            )
            raise WrongLoop(msg)
        if thread.is_current:
            msg = "a synchronous request on racer's own event loop would wait for itself"
            raise WrongLoop(msg)
        return thread

    def own_dialer(self) -> None:
        """Have `close` end the dialer too: it was made for this transport alone."""
        self._owns_dialer = True

    def close(self) -> None:
        """Close the connections, as `RacerTransport.aclose`; the dialer stays. Twice is fine."""
        thread = self._thread
        if thread is not None and thread.is_here:
            thread.call(self._close)
        if self._owns_dialer:
            self.close_dialer()

    async def _close(self) -> None:
        self._engine.close()

    def close_dialer(self) -> None:
        """End the dialer, which lives on a loop that no other code can reach; its connections end with it."""
        thread = self._thread
        if self._dialer is not None and thread is not None and thread.is_here:
            thread.call(self._dialer.aclose)
            thread.at_exit(id(self._dialer), None)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Close, as `close`."""
        self.close()

    def __repr__(self) -> str:
        """Say how much it is used."""
        pool = self._engine.pool
        return (
            f"<{type(self).__name__}: {pool.connections} connections, {pool.waiting} requests wait>"
        )


def _goodbye(dialer: Dialer) -> Callable[[], Any]:
    # Weak: at the process's end a dialer that is gone needs no farewell.
    ref = weakref.ref(dialer)

    async def say() -> None:
        if (still := ref()) is not None:
            await still.aclose()

    return say


class _Call:
    """One request, asked for in one thread and done on the loop of another.

    The caller's thread waits, and reads the request's body when the loop asks for more of it: a generator of the caller's
    runs where the caller made it.
    """

    def __init__(self, thread: LoopThread, engine: Engine) -> None:
        self._thread = thread
        self._engine = engine
        self._mail: queue.SimpleQueue[_Pull | None] = queue.SimpleQueue()
        self._is_abandoned = False
        self._answer: _Answer | None = None

    def source(self, stream: Any) -> AsyncIterator[bytes]:  # noqa: ANN401 - the library's
        return _Pulled(stream, self._mail)

    def run(self, request: Request, library: Library) -> Any:  # noqa: ANN401 - the library's
        future = self._thread.start(self._send, request)
        future.add_done_callback(lambda _: self._mail.put(None))
        try:
            while (pull := self._mail.get()) is not None:
                pull.serve(self._thread)
            answer = future.result()
        except BaseException:
            future.cancel()
            if self._thread.is_here:
                self._thread.start(self._abandon)
            raise
        stream = library.sync_stream(
            library,
            transport_name=answer.via.transport_name,
            chunks=_Chunks(self._thread, answer),
            close=_Closer(self._thread, answer),
            dropped=answer.dropped,
            body=answer.response.body,
        )
        upgraded = answer.response.stream
        network_stream = upgraded and SyncUpgraded(upgraded, self._thread)
        return library.response(answer.response, answer.via, stream, network_stream)

    async def _send(self, request: Request) -> _Answer:
        response, via = await self._engine.send(request)
        self._answer = answer = _Answer(response, via)
        if self._is_abandoned:
            response.body.close()
            return answer
        host = (await self._engine.dialer()).host
        answer.prefetch()
        answer.dropped = None if answer.ended else closer_for(host, via.transport_name)
        return answer

    async def _abandon(self) -> None:
        self._is_abandoned = True
        if self._answer is not None:
            self._answer.response.body.close()


class _Pull:
    """A question of the loop's for the next piece of a request's body."""

    def __init__(self, stream: Iterator[bytes]) -> None:
        self._stream = stream
        self._answered = anyio.Event()
        self._chunk: bytes | None = None

    def serve(self, thread: LoopThread) -> None:
        """Read the next piece, in the caller's thread.

        What it raises is the caller's, and goes unanswered: an answer would pass for the body's end.
        """
        self._chunk = next(self._stream, None)
        thread.start(self._answer)

    async def _answer(self) -> None:
        self._answered.set()

    async def wait(self) -> bytes | None:
        await self._answered.wait()
        return self._chunk


class _Pulled:
    """The caller's body, as the loop sees it."""

    def __init__(self, stream: Any, mail: queue.SimpleQueue[_Pull | None]) -> None:  # noqa: ANN401 - the library's
        self._stream: Iterator[bytes] = iter(stream)
        self._mail = mail

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        pull = _Pull(self._stream)
        self._mail.put(pull)
        if (chunk := await pull.wait()) is None:
            raise StopAsyncIteration
        return chunk


class _Answer:
    """A response, with as much of its body as was here together with its head."""

    def __init__(self, response: Response, via: Via) -> None:
        self.response = response
        self.via = via
        self.chunks: list[bytes] = []
        self.ended = False
        self.is_upgraded = response.stream is not None
        self.dropped: Callable[[Body], None] | None = None
        self.fault: Exception | None = None

    def prefetch(self) -> None:
        """Take what is here without waiting."""
        size = sum(map(len, self.chunks))
        try:
            while size < _MOST and not self.ended:
                chunk = self.response.body.receive_nowait()
                if chunk is None:
                    return
                if chunk:
                    self.chunks.append(chunk)
                    size += len(chunk)
                else:
                    self.ended = True
        except Exception as exc:  # noqa: BLE001 - told when the reader gets there
            self.fault = exc

    async def more(self) -> None:
        """Wait for more."""
        chunk = await self.response.body.receive()
        if chunk:
            self.chunks.append(chunk)
            self.prefetch()
        else:
            self.ended = True

    async def close(self) -> None:
        """Let go of the body."""
        self.response.body.close()


class _Chunks:
    """The body, piece by piece, in the caller's thread."""

    def __init__(self, thread: LoopThread, answer: _Answer) -> None:
        self._thread = thread
        self._answer = answer

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        answer = self._answer
        while not answer.chunks:
            if answer.fault is not None:
                raise answer.fault
            if answer.ended:
                raise StopIteration
            self._thread.call(answer.more)
        return answer.chunks.pop(0)


class _Closer:
    """Closes the body, from the caller's thread."""

    def __init__(self, thread: LoopThread, answer: _Answer) -> None:
        self._thread = thread
        self._answer = answer

    def __call__(self) -> None:
        answer = self._answer
        # What was read to its end has freed its connection already, but for an upgraded one.
        if (not answer.ended or answer.is_upgraded) and self._thread.is_here:
            answer.ended, answer.is_upgraded = True, False
            self._thread.call(answer.close)
