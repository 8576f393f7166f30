"""A server on loopback that sends back what it gets, and a port beside it at which nobody answers."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self

import anyio
from anyio.abc import SocketAttribute

from racer.abc import Target

if TYPE_CHECKING:
    from types import TracebackType

    from anyio.abc import SocketStream

__all__ = ("EchoServer",)

_HOST = "127.0.0.1"


class EchoServer:
    """Echoes each connection on loopback for as long as its ``async with`` block lasts.

    A connection that its client has ended is ended in turn; when the block ends, all are closed.

    Attributes:
        target: Where it listens, without TLS.
        refusing_target: A port of loopback that refuses connections for as long.
        connections: How many are open.

    Example:
        >>> from racer.testing import run_virtual
        >>> async def ask() -> bytes:
        ...     async with EchoServer() as server:
        ...         target = server.target
        ...         async with await anyio.connect_tcp(target.host, target.port) as stream:
        ...             await stream.send(b"ping")
        ...             return await stream.receive()
        >>> run_virtual(ask)
        b'ping'
    """

    target: Target
    refusing_target: Target

    def __init__(self) -> None:
        """Make a server that does not listen yet."""
        self.connections = 0
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Begin to listen."""
        async with AsyncExitStack() as stack:
            listener = await anyio.create_tcp_listener(local_host=_HOST)
            await stack.enter_async_context(listener)
            mute = stack.enter_context(socket.socket())
            mute.bind((_HOST, 0))  # and never listens
            port = listener.extra(SocketAttribute.local_port)
            self.target = Target(_HOST, port, tls=False)
            self.refusing_target = Target(_HOST, mute.getsockname()[1], tls=False)
            group = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(group.cancel_scope.cancel)
            group.start_soon(listener.serve, self._echo)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Stop listening, and close every connection; an exception of the block leaves as it was raised."""
        if isinstance(exc_value, Exception):
            await self._stack.aclose()
            return False
        return await self._stack.__aexit__(exc_type, exc_value, traceback)

    async def _echo(self, stream: SocketStream) -> None:
        self.connections += 1
        try:
            async with stream:
                async for chunk in stream:
                    await stream.send(chunk)
                await stream.send_eof()
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the client reset it, or was faster
        finally:
            self.connections -= 1
