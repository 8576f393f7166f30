"""The first words of a tunnel: whether the connection that won carries them, and is answered.

A race for a program ends when a transport has connected. Some networks let every connection stand, and break it or fall
silent once they have read the name in a TLS ClientHello. While nothing has come back, the same ClientHello can go by another
way, and the program notices nothing.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from racer.proxy._call import MAX_EARLY

if TYPE_CHECKING:
    from anyio.abc import ByteStream

    from racer._connection import Connection

__all__ = ("PATIENCE", "FirstFlight", "hello_size")

PATIENCE: Final = 15.0
"""Seconds a target has to answer a ClientHello while there is another way to it; as `racer.http` has it (H4)."""

_MAX_RECORD: Final = 5 + 16_384  # RFC 8446 §5.1
_HANDSHAKE: Final = 22
_CLIENT_HELLO: Final = 1
_GONE: Final = (
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    OSError,
)


def hello_size(said: bytes) -> int | None:
    """Return the octets of the record with the ClientHello that `said` begins with, whether all of it is here or not.

    `None` if it does not begin so. A ClientHello in several records counts as none: no part of it is answered.
    """
    if len(said) < 9:  # RFC 8446 §4, §5.1: type, version, length; type, length
        return None
    size = 5 + int.from_bytes(said[3:5], "big")
    message = 9 + int.from_bytes(said[6:9], "big")
    is_hello = said[0] == _HANDSHAKE and said[1] == 3 and said[5] == _CLIENT_HELLO
    return size if is_hello and message <= size <= _MAX_RECORD else None


def _may_be_hello(said: bytes) -> bool:
    return hello_size(said) is not None or (len(said) < 9 and said[:1] == bytes([_HANDSHAKE]))


class FirstFlight:
    """What a client says first, until it is answered.

    Args:
        client: its stream.
        said: what it has said already.

    Attributes:
        said: what it has said so far.
        reply: what the target has said.
        size: octets of its ClientHello; `None` if there is none.
        moved_at: when it began, on the loop's clock.
        scope: cancelling it ends the waiting.
    """

    def __init__(self, client: ByteStream, said: bytes) -> None:
        """Wait for nothing yet."""
        self._client = client
        self.said = said
        self.reply = b""
        self.size: int | None = None
        self.moved_at = anyio.current_time()
        self.scope = anyio.CancelScope()

    async def begin(self, connection: Connection) -> None:
        """Wait until one side has said something, and if it is a ClientHello, until all of it is here."""
        if not self.said:
            async with anyio.create_task_group() as group:
                group.start_soon(self._hear_target, connection, group.cancel_scope)
                await self._hear_client()
                group.cancel_scope.cancel()
        while not self.reply and _may_be_hello(self.said):
            size = hello_size(self.said)
            if size is not None and len(self.said) >= size:
                self.size = size
                return
            before = len(self.said)
            await self._hear_client()
            if len(self.said) == before:
                return

    async def is_answered(self, connection: Connection, patience: float | None) -> bool:
        """Send the ClientHello, and return whether anything came back.

        Args:
            connection: to the target; stays the caller's.
            patience: seconds to wait; `None` for as long as it takes.

        Raises:
            EndOfStream: the client has gone.
        """
        left = True
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch, group.cancel_scope)
            with anyio.move_on_after(patience):
                await self._ask(connection)
            left = False
            group.cancel_scope.cancel()
        if left:
            raise anyio.EndOfStream
        return bool(self.reply)

    async def _ask(self, connection: Connection) -> None:
        try:
            await connection.send(self.said[: self.size])
            self.reply = await connection.receive()
        except Exception:  # noqa: BLE001 - whatever a guest's stream raises, it has not answered
            return

    async def _hear_client(self) -> None:
        """Take what the client says; its end is heard again by whoever carries the tunnel."""
        try:
            self.said += await self._client.receive()
        except (anyio.EndOfStream, *_GONE):
            return

    async def _hear_target(self, connection: Connection, scope: anyio.CancelScope) -> None:
        with suppress(Exception):  # likewise
            self.reply = await connection.receive()
        scope.cancel()

    async def _watch(self, scope: anyio.CancelScope) -> None:
        try:
            while len(self.said) < MAX_EARLY:
                self.said += await self._client.receive()
        except (anyio.EndOfStream, *_GONE):
            scope.cancel()
