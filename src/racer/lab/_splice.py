"""Two streams made one: what a proxy does once its protocol has been spoken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import anyio
from anyio.abc import SocketAttribute
from anyio.streams.tls import TLSStream

from racer.lab._path import Marked
from racer.lab._sockets import connect_to, linger_not

if TYPE_CHECKING:
    from anyio.abc import AnyByteStream, ByteStream

    from racer.lab._sites import Handler

__all__ = ("forward_to", "reset", "splice")


@runtime_checkable
class _Abortable(Protocol):
    def abort(self) -> None: ...


async def splice(one: ByteStream, other: ByteStream) -> None:
    """Carry bytes both ways until both sides have ended, or one has reset; both streams stay the caller's to close.

    The end of one side ends that direction alone; over TLS, which cannot do that, it ends both. A reset of one side
    resets the other.
    """
    async with anyio.create_task_group() as group:
        group.start_soon(_carry, one, other, group.cancel_scope)
        group.start_soon(_carry, other, one, group.cancel_scope)


async def _carry(source: ByteStream, sink: ByteStream, scope: anyio.CancelScope) -> None:
    try:
        async for data in source:
            await sink.send(data)
        await sink.send_eof()
    except NotImplementedError:
        scope.cancel()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        reset(source)
        reset(sink)
        scope.cancel()


def reset(stream: AnyByteStream) -> None:
    """Reset the connection below `stream`; one on a socket that is not the lab's own is reset when it is closed."""
    while not isinstance(stream, _Abortable):
        if isinstance(stream, TLSStream):
            stream = stream.transport_stream
        elif isinstance(stream, Marked):
            stream = stream.inner
        else:
            raw = stream.extra(SocketAttribute.raw_socket, None)
            if raw is not None:
                linger_not(raw)
            return
    stream.abort()


def forward_to(host: str, port: int) -> Handler:
    """Return a handler that is a way to a real server, such as one on 127.0.0.1.

    Where the server cannot be reached, the connection is reset.

    Args:
        host: its name or address.
        port: its port.
    """

    async def handler(stream: ByteStream) -> None:
        try:
            server = await connect_to(host, port)
        except OSError:
            reset(stream)
            return
        async with server:
            await splice(stream, server)

    return handler
