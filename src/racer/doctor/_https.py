"""One question to a resolver over HTTPS (RFC 8484), on a connection of its own: HTTP/2 where TLS has chosen it, else HTTP/1.1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h11

from racer.doctor._messages import MAX_MESSAGE
from racer.errors import RemoteProtocolError

if TYPE_CHECKING:
    from anyio.abc import ByteStream

    from racer.doctor._asking import Resolver

__all__ = ("exchange",)

_TYPE: Final = "application/dns-message"
_STREAM: Final = 1  # the first of a client's, RFC 9113 §5.1.1


async def exchange(stream: ByteStream, resolver: Resolver, body: bytes, *, is_http2: bool) -> bytes:
    """Return the message in the response to a POST.

    Raises:
        RemoteProtocolError: it is no such response; says what it is.
        anyio.EndOfStream, anyio.BrokenResourceError: the connection ended before it.
    """
    host = f"[{resolver.host}]" if ":" in resolver.host else resolver.host
    authority = host if resolver.port == 443 else f"{host}:{resolver.port}"
    try:
        if is_http2:
            return await _http2(stream, authority, resolver.path, body)
        return await _http1(stream, authority, resolver.path, body)
    except (h11.RemoteProtocolError, h2.exceptions.ProtocolError) as exc:
        msg = "it does not speak HTTP"
        raise RemoteProtocolError(msg) from exc


async def _http1(stream: ByteStream, authority: str, path: str, body: bytes) -> bytes:
    http = h11.Connection(h11.CLIENT)
    headers = [
        ("Host", authority),
        ("Accept", _TYPE),
        ("Content-Type", _TYPE),
        ("Content-Length", str(len(body))),
        ("Connection", "close"),
    ]
    head = h11.Request(method="POST", target=path, headers=headers)
    for part in (head, h11.Data(data=body), h11.EndOfMessage()):
        await stream.send(http.send(part) or b"")
    received = bytearray()
    while True:
        match http.next_event():
            case h11.Response(status_code=status):
                _check_status(status)
            case h11.Data(data=data):
                received += data
                _check_size(received)
            case h11.EndOfMessage():
                return bytes(received)
            case h11.NEED_DATA:
                http.receive_data(await stream.receive())
            case _:
                pass


async def _http2(stream: ByteStream, authority: str, path: str, body: bytes) -> bytes:
    http = h2.connection.H2Connection(
        h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
    )
    http.initiate_connection()
    headers = [
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", authority),
        (":path", path),
        ("accept", _TYPE),
        ("content-type", _TYPE),
        ("content-length", str(len(body))),
    ]
    http.send_headers(_STREAM, headers)
    http.send_data(_STREAM, body, end_stream=True)
    received = bytearray()
    while True:
        await stream.send(http.data_to_send())
        for event in http.receive_data(await stream.receive()):
            match event:
                case h2.events.ResponseReceived(headers=fields):
                    status = {str(name): str(value) for name, value in fields or ()}.get(":status")
                    _check_status(int(status or 0))
                case h2.events.DataReceived(data=data, flow_controlled_length=octets):
                    received += data or b""
                    _check_size(received)
                    http.acknowledge_received_data(octets or 0, _STREAM)
                case h2.events.StreamEnded():
                    return bytes(received)
                case h2.events.StreamReset() | h2.events.ConnectionTerminated():
                    msg = "it ended the request without an answer"
                    raise RemoteProtocolError(msg)
                case _:
                    pass


def _check_status(status: int) -> None:
    if status != 200:
        msg = f"it answered with HTTP status {status}"
        raise RemoteProtocolError(msg)


def _check_size(received: bytearray) -> None:
    if len(received) > MAX_MESSAGE:
        msg = "it answered with more than any message has"
        raise RemoteProtocolError(msg)
