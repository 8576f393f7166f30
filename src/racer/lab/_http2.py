"""HTTP/2 for the lab's small servers: `h2` thinks, this file reads and writes (RFC 9113)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from racer.errors import ConfigError
from racer.lab._http import MAX_BODY, Request, Response

try:
    import h2.config
    import h2.connection
    import h2.events
    import h2.exceptions
except ImportError as exc:
    _msg = "racer.lab speaks HTTP/2 with the library h2, which is not installed"
    raise ConfigError(_msg) from exc

if TYPE_CHECKING:
    from anyio.abc import ByteStream, TaskGroup

    from racer.lab._http import Respond

__all__ = ("serve",)


async def serve(stream: ByteStream, respond: Respond) -> None:
    """Answer the requests on one connection, side by side, until the client ends it."""
    await _Connection(stream, respond).run()


@dataclass(slots=True)
class _Stream:
    """A request on its way in, and then the scope of its response."""

    headers: tuple[tuple[str, str], ...]
    body: bytearray = field(default_factory=bytearray)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class _Connection:
    """One connection. Tasks touch the library's state synchronously; one task alone writes, and is never cut short."""

    def __init__(self, stream: ByteStream, respond: Respond) -> None:
        self._stream = stream
        self._respond = respond
        self._h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        )
        self._streams: dict[int, _Stream] = {}
        self._lock = anyio.Lock()
        self._window = anyio.Event()
        self._written = anyio.Event()

    async def run(self) -> None:
        self._h2.initiate_connection()
        async with anyio.create_task_group() as group:
            group.start_soon(self._write)
            try:
                while True:
                    for event in self._h2.receive_data(await self._stream.receive()):
                        self._take(event, group)
                    self._written.set()
            except anyio.EndOfStream:
                pass
            except h2.exceptions.ProtocolError:
                await self._flush()  # the library has written why
            group.cancel_scope.cancel()

    async def _write(self) -> None:
        while True:
            self._written = anyio.Event()
            await self._flush()
            await self._written.wait()

    async def _flush(self) -> None:
        async with self._lock:
            while data := self._h2.data_to_send():
                await self._stream.send(data)

    def _take(self, event: h2.events.Event, group: TaskGroup) -> None:
        if isinstance(event, h2.events.RequestReceived):
            headers = tuple((str(name), str(value)) for name, value in event.headers or ())
            self._streams[_id(event.stream_id)] = _Stream(headers)
        elif isinstance(event, h2.events.DataReceived):
            stream_id = _id(event.stream_id)
            self._h2.acknowledge_received_data(event.flow_controlled_length or 0, stream_id)
            if (request := self._streams.get(stream_id)) is not None:
                request.body += (event.data or b"")[: MAX_BODY + 1 - len(request.body)]
        elif isinstance(event, h2.events.StreamEnded):
            stream_id = _id(event.stream_id)
            if (request := self._streams.get(stream_id)) is not None:
                group.start_soon(self._answer, stream_id, request)
        elif isinstance(event, h2.events.StreamReset):
            if (request := self._streams.pop(_id(event.stream_id), None)) is not None:
                request.scope.cancel()
        elif isinstance(event, (h2.events.WindowUpdated, h2.events.RemoteSettingsChanged)):
            self._window.set()
            self._window = anyio.Event()

    async def _answer(self, stream_id: int, stream: _Stream) -> None:
        with stream.scope:
            if len(stream.body) > MAX_BODY:
                response = Response(status=413)
            else:
                response = await self._respond(_request(stream))
            try:
                await self._send(stream_id, response)
            except h2.exceptions.ProtocolError:
                return  # the client has reset the stream, or gone away
            self._streams.pop(stream_id, None)

    async def _send(self, stream_id: int, response: Response) -> None:
        headers = [(":status", str(response.status)), *response.headers]
        self._h2.send_headers(stream_id, headers, end_stream=not response.body)
        left = response.body
        while left:
            window = self._h2.local_flow_control_window(stream_id)
            if room := min(max(0, window), self._h2.max_outbound_frame_size):
                part, left = left[:room], left[room:]
                self._h2.send_data(stream_id, part, end_stream=not left)
            else:
                self._written.set()
                await self._window.wait()
        self._written.set()


def _request(stream: _Stream) -> Request:
    headers = dict(stream.headers)
    return Request(
        method=headers.get(":method", ""),
        target=headers.get(":path", ""),
        headers=stream.headers,
        body=bytes(stream.body),
    )


def _id(stream_id: int | None) -> int:
    assert stream_id is not None
    return stream_id
