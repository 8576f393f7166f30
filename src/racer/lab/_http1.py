"""HTTP/1.1 for the lab's small servers: `h11` thinks, this file reads and writes (RFC 9112)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio
import h11

from racer.lab._http import MAX_BODY, Request, Response

if TYPE_CHECKING:
    from anyio.abc import ByteStream

    from racer.lab._http import Respond

__all__ = ("serve",)

_MAX_HEAD: Final = 131_072  # octets; a question of 65,535 takes 87,380 in a URL


async def serve(stream: ByteStream, respond: Respond) -> None:
    """Answer the requests on one connection, one after the other, until one side ends it."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
    try:
        while (request := await _next_request(connection, stream)) is not None:
            await _send(connection, stream, await respond(request))
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()
    except h11.RemoteProtocolError as exc:
        if connection.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            await _send(connection, stream, Response(status=exc.error_status_hint))


async def _next_request(connection: h11.Connection, stream: ByteStream) -> Request | None:
    """Return the next request; `None` when the client has ended the connection."""
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            if connection.they_are_waiting_for_100_continue:
                await stream.send(
                    connection.send(h11.InformationalResponse(status_code=100, headers=[])) or b""
                )
            try:
                connection.receive_data(await stream.receive())
            except anyio.EndOfStream:
                connection.receive_data(b"")
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > MAX_BODY:
                msg = "the body is longer than any DNS message"
                raise h11.RemoteProtocolError(msg, error_status_hint=413)
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            return Request(
                method=head.method.decode("ascii"),
                target=head.target.decode("latin-1"),
                headers=tuple(
                    (name.decode("ascii"), value.decode("latin-1")) for name, value in head.headers
                ),
                body=bytes(body),
            )
        else:
            return None


async def _send(connection: h11.Connection, stream: ByteStream, response: Response) -> None:
    headers = [*response.headers, ("content-length", str(len(response.body)))]
    parts = (
        h11.Response(status_code=response.status, headers=headers),
        h11.Data(data=response.body),
        h11.EndOfMessage(),
    )
    await stream.send(b"".join(connection.send(part) or b"" for part in parts))
