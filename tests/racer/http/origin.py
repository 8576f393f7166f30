"""Origins for the tests: HTTP/1.1 and HTTP/2 servers over any byte stream, in memory or on loopback under real TLS.

`Origin` answers with what a test's function says; `Way` is a transport that leads to one, whatever the target is called.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Self

import anyio
import anyio.abc
import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h11
from anyio.streams.tls import TLSAttribute, TLSStream

from racer.abc import Progress, Stage, Target, Traits, Transport
from racer.lab import Authority
from racer.testing import StreamLedger, stream_pair

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable

    from anyio.abc import ByteStream, TaskGroup

__all__ = ("GONE", "MemoryWay", "Origin", "Talk", "Way", "authority", "client_tls")

GONE = (
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    OSError,
    h11.RemoteProtocolError,  # the client left in the middle of a body
    h11.LocalProtocolError,  # and so there is nobody to answer
)
HOST = "origin.example"


@cache
def authority() -> Authority:
    """Return the one authority of the test run: making keys takes a while."""
    return Authority()


def client_tls() -> ssl.SSLContext:
    """Return a new client's context that trusts it."""
    return authority().client_context()


@dataclass(slots=True)
class Talk:
    """One request, as the origin sees it, and the way to answer it."""

    method: str
    target: str
    headers: dict[str, str]
    connection: int
    version: str
    chunks: Callable[[], AsyncIterator[bytes]] = field(repr=False)
    begin: Callable[[int, dict[str, str], bool], Awaitable[None]] = field(repr=False)
    send: Callable[[bytes], Awaitable[None]] = field(repr=False)
    end: Callable[[], Awaitable[None]] = field(repr=False)
    wire: Any = field(repr=False)
    """The server's side of the connection, for misbehaviour."""

    async def body(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    async def respond(self, status: int = 200, body: bytes = b"", **headers: str) -> None:
        """Answer all at once."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        fields.setdefault("content-length", str(len(body)))
        bodyless = self.method == "HEAD" or status in {204, 304}
        await self.begin(status, fields, bodyless or not body)
        if body and not bodyless:
            await self.send(body)
        await self.end()


class Origin:
    """Serves as long as its `async with` block lasts; `answer` is called for each request.

    Attributes:
        seen: requests whose head has come, oldest first.
        connections: how many were made.
        open: how many are open.
        cancelled: how many requests the client gave up.
    """

    def __init__(
        self,
        answer: Callable[[Talk], Awaitable[None]] | None = None,
        *,
        tls: bool = False,
        alpn: tuple[str, ...] = ("h2", "http/1.1"),
        settings: dict[Any, int] | None = None,
        prior_knowledge: bool = False,
    ) -> None:
        self.answer = answer or (lambda talk: talk.respond(200, b"hello"))
        self.seen: list[Talk] = []
        self.connections = 0
        self.open = 0
        self.cancelled = 0
        self.wires: list[Any] = []
        self._tls = tls
        self._alpn = alpn
        self._settings = settings or {}
        self._prior_knowledge = prior_knowledge
        self._listener: Any = None
        self._group: TaskGroup
        self.port = 0

    async def __aenter__(self) -> Self:
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._group.cancel_scope.cancel()
        await self._group.__aexit__(None, None, None)
        if self._listener is not None:
            await self._listener.aclose()

    async def listen(self) -> Self:
        """Listen on loopback too."""
        self._listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self.port = self._listener.extra(anyio.abc.SocketAttribute.local_port)
        self._group.start_soon(self._listener.serve, self.serve)
        return self

    def connect(self, **options: Any) -> ByteStream:
        """Return the near end of a stream in memory, the far one served."""
        near, far = stream_pair(**options)
        self._group.start_soon(self.serve, far)
        return near

    async def serve(self, stream: ByteStream) -> None:
        self.connections += 1
        self.open += 1
        number = self.connections
        try:
            with contextlib.suppress(*GONE):
                speaks = "h2" if self._prior_knowledge else "http/1.1"
                if self._tls:
                    context = await authority().make_server_context(
                        HOST, "localhost", alpn=self._alpn
                    )
                    stream = await TLSStream.wrap(
                        stream, server_side=True, ssl_context=context, standard_compatible=False
                    )
                    speaks = stream.extra(TLSAttribute.alpn_protocol, None) or "http/1.1"
                wire: _HTTP1 | _HTTP2 = (
                    _HTTP2(self, stream, number) if speaks == "h2" else _HTTP1(self, stream, number)
                )
                self.wires.append(wire)
                await wire.run()
        finally:
            self.open -= 1
            with anyio.CancelScope(shield=True):
                await anyio.aclose_forcefully(stream)


class _HTTP1:
    def __init__(self, origin: Origin, stream: ByteStream, number: int) -> None:
        self.origin = origin
        self.stream = stream
        self.number = number
        self.http = h11.Connection(h11.SERVER)

    async def run(self) -> None:
        while True:
            try:
                request = await self._event()
            except h11.RemoteProtocolError:
                return
            if not isinstance(request, h11.Request):
                return
            talk = Talk(
                request.method.decode(),
                request.target.decode(),
                {name.decode(): value.decode() for name, value in request.headers},
                self.number,
                "HTTP/1.1",
                self._chunks,
                self._begin,
                self._send,
                self._end,
                self,
            )
            self.origin.seen.append(talk)
            await self.origin.answer(talk)
            if self.http.our_state is not h11.DONE:
                return
            while self.http.their_state is h11.SEND_BODY:
                await self._event()
            if self.http.their_state is not h11.DONE:
                return
            self.http.start_next_cycle()

    async def _event(self) -> Any:
        while (event := self.http.next_event()) is h11.NEED_DATA:
            try:
                self.http.receive_data(await self.stream.receive(65536))
            except anyio.EndOfStream:
                self.http.receive_data(b"")
        return event

    async def _chunks(self) -> AsyncIterator[bytes]:
        while isinstance(event := await self._event(), h11.Data):
            yield bytes(event.data)

    async def _begin(self, status: int, headers: dict[str, str], ended: bool) -> None:
        del ended
        fields = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self.stream.send(
            self.http.send(h11.Response(status_code=status, headers=fields)) or b""
        )

    async def _send(self, data: bytes) -> None:
        await self.stream.send(self.http.send(h11.Data(data=data)) or b"")

    async def _end(self) -> None:
        if data := self.http.send(h11.EndOfMessage()):
            await self.stream.send(data)


class _Arriving:
    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.ended = False
        self.news = anyio.Event()
        self.scope = anyio.CancelScope()

    def tell(self) -> None:
        self.news.set()
        self.news = anyio.Event()


class _HTTP2:
    def __init__(self, origin: Origin, stream: ByteStream, number: int) -> None:
        self.origin = origin
        self.stream = stream
        self.number = number
        self.http = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        )
        self.streams: dict[int, _Arriving] = {}
        self.resets: list[int] = []
        self.withhold_windows = False
        self._lock = anyio.Lock()
        self._window = anyio.Event()

    async def run(self) -> None:
        self.http.initiate_connection()
        if self.origin._settings:
            self.http.update_settings(self.origin._settings)
        await self.flush()
        async with anyio.create_task_group() as group:
            with contextlib.suppress(*GONE, h2.exceptions.ProtocolError):
                while True:
                    for event in self.http.receive_data(await self.stream.receive(65536)):
                        self._take(event, group)
                    await self.flush()
            group.cancel_scope.cancel()

    async def flush(self) -> None:
        # Shielded: a write that is cut short loses bytes that the library believes sent.
        with anyio.CancelScope(shield=True):
            async with self._lock:
                while data := self.http.data_to_send():
                    await self.stream.send(data)

    async def send_raw(self, data: bytes) -> None:
        async with self._lock:
            await self.stream.send(data)

    def _take(self, event: Any, group: TaskGroup) -> None:
        match event:
            case h2.events.RequestReceived(stream_id=number, headers=headers):
                self.streams[number] = _Arriving()
                fields: Any = headers
                group.start_soon(self._answer, number, dict(fields))
            case h2.events.DataReceived(stream_id=number, data=data, flow_controlled_length=size):
                if not self.withhold_windows:
                    self.http.acknowledge_received_data(size, number)
                self.streams[number].chunks.append(data)
                self.streams[number].tell()
            case h2.events.StreamEnded(stream_id=number):
                self.streams[number].ended = True
                self.streams[number].tell()
            case h2.events.StreamReset(stream_id=number):
                self.resets.append(number)
                self.origin.cancelled += 1
                self.streams[number].scope.cancel()
            case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                self._window.set()
                self._window = anyio.Event()
            case _:
                pass

    async def _answer(self, number: int, headers: dict[str, str]) -> None:
        async def chunks() -> AsyncIterator[bytes]:
            arriving = self.streams[number]
            while True:
                while arriving.chunks:
                    yield arriving.chunks.pop(0)
                if arriving.ended:
                    return
                await arriving.news.wait()

        async def begin(status: int, fields: dict[str, str], ended: bool) -> None:
            self.http.send_headers(
                number, [(":status", str(status)), *fields.items()], end_stream=ended
            )
            state["ended"] = ended
            await self.flush()

        async def send(data: bytes) -> None:
            while data:
                room = min(
                    self.http.local_flow_control_window(number), self.http.max_outbound_frame_size
                )
                if room:
                    self.http.send_data(number, data[:room])
                    data = data[room:]
                    await self.flush()
                else:
                    await self._window.wait()

        async def end() -> None:
            if not state["ended"]:
                self.http.end_stream(number)
                await self.flush()

        state = {"ended": False}
        plain = {name: value for name, value in headers.items() if name[0] != ":"}
        talk = Talk(
            headers[":method"],
            headers[":path"],
            {"host": headers[":authority"], **plain},
            self.number,
            "HTTP/2",
            chunks,
            begin,
            send,
            end,
            self,
        )
        talk.wire = self
        self.origin.seen.append(talk)
        with self.streams[number].scope, contextlib.suppress(h2.exceptions.ProtocolError, *GONE):
            await self.origin.answer(talk)


class Way(Transport):
    """Leads to one origin on loopback, under a name of its own, whatever the target is called.

    Args:
        name: the transport's.
        origin: where it leads; `None` for a port where nobody listens.
        delay: seconds it takes.
    """

    def __init__(
        self, name: str, origin: Origin | None, *, delay: float = 0.0, **traits: Any
    ) -> None:
        self.name = name
        self.traits = Traits(**traits)
        self.origin = origin
        self.delay = delay
        self.connects = 0

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        del target
        self.connects += 1
        progress.stage(Stage.CONNECT)
        if self.delay:
            await anyio.sleep(self.delay)
        if self.origin is None:
            raise ConnectionRefusedError(111, "Connection refused")
        return await anyio.connect_tcp("127.0.0.1", self.origin.port)


class MemoryWay(Way):
    """The same over streams in memory, for virtual clocks; without a socket, as a tunnel's are.

    Attributes:
        ledger: of both ends of every stream.
    """

    def __init__(self, name: str, origin: Origin | None, **options: Any) -> None:
        super().__init__(name, origin, **options)
        self.ledger = StreamLedger()

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        del target
        self.connects += 1
        progress.stage(Stage.CONNECT)
        if self.delay:
            await anyio.sleep(self.delay)
        await anyio.lowlevel.checkpoint()
        if self.origin is None:
            raise ConnectionRefusedError(111, "Connection refused")
        return self.origin.connect(name=self.name, ledger=self.ledger)
