"""One stream of a client's, and the connection that it leads to: octets both ways, and every way in which that ends."""

from __future__ import annotations

import enum
import logging
import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.abc

from transports._net.drive import close_by_force
from transports._net.wakeup import Wakeup
from transports.soar._targets import Refused
from transports.soar.core.streams.frames import RefusalReason, ResetCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import ByteStream, TaskGroup

    from transports.soar._targets import TargetConnector
    from transports.soar.core.server.server_stream import ServerStream

__all__ = ("Outcome", "Tunnel")

DRAIN: Final = 10.0  # seconds for a target to take what had come before the end
_READ: Final = 65_536
_CLOSING: Final = 1.0  # seconds for a goodbye, of streams that have one
_NO_LINGER: Final = struct.pack("ii", 1, 0)  # socket(7): closing resets

_STREAM_ERRORS: Final = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError)

logger = logging.getLogger("racer.soar")


class Outcome(enum.Enum):
    """How a tunnel ended."""

    CLOSED = "closed"  # both sides said that they were done
    REFUSED = "refused"
    CANCELLED = "cancelled"  # the client gave it up
    RESET_BY_TARGET = "reset_by_target"
    SESSION_ENDED = "session_ended"
    STUCK = "stuck"  # the stream was over, and the target didn't take what was left
    STOPPED = "stopped"  # the server was
    FAILED = "failed"  # a bug


class Tunnel:
    """One stream of a client's, and the connection that it leads to.

    What a client sent before its end still reaches the target, for ten seconds. A client that breaks off, or whose
    session ends, is a reset to the target: what it got is not all there was to say.

    Args:
        stream: the core's.
        flush: sends what the core has to say.

    Attributes:
        outcome: how it ended.
        refusal: why there was no connection, where there was none.
        to_target: octets that the target took.
        from_target: octets that it sent.
    """

    def __init__(self, stream: ServerStream, flush: Callable[[], None]) -> None:
        """Connect to nothing yet."""
        self.stream = stream
        self.outcome = Outcome.STOPPED
        self.refusal: RefusalReason | None = None
        self.to_target = 0
        self.from_target = 0
        self._flush = flush
        self._readable = Wakeup()
        self._writable = Wakeup()
        self._scope = anyio.CancelScope()
        self._reading = anyio.CancelScope()
        self._is_connected = False
        self._is_broken = False

    # --- what the client does -----------------------------------------------------------------

    def readable(self) -> None:
        """The client has sent octets, or its end."""
        self._readable.set()

    def writable(self) -> None:
        """There is room for the target's octets."""
        self._writable.set()

    def stop(self) -> None:
        """The client reads no more; what it sends still goes on."""
        self._reading.cancel()

    def cancel(self) -> None:
        """The client breaks off: end at once."""
        self._end(Outcome.CANCELLED)

    def over(self) -> None:
        """Both directions have ended, or the session has: only what has come still goes on to the target."""
        if self.stream.is_cut and not self._is_connected:
            self._end(Outcome.SESSION_ENDED)
            return
        self._scope.deadline = anyio.current_time() + DRAIN
        self._reading.cancel()
        self._readable.set()

    def fail(self) -> None:
        """Give the stream up, for a reason of the server's own."""
        self.outcome = Outcome.FAILED
        self.stream.reset(ResetCode.INTERNAL)
        self._flush()

    def _end(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self._is_broken = True
        self._scope.cancel()

    # --- the connection -----------------------------------------------------------------------

    async def run(self, connector: TargetConnector) -> None:
        """Connect, and carry octets until both directions have ended; `outcome` says how that went."""
        with self._scope:
            try:
                target = await connector.connect(self.stream.target, owner=self.stream.sid)
            except Refused as exc:
                self._refuse(exc)
                return
            self._is_connected = True
            try:
                self.stream.opened()
                self._flush()
                await self._carry(target)
                if not self._is_broken:
                    with anyio.move_on_after(_CLOSING):
                        await target.aclose()
            finally:
                if self._is_broken or self._scope.cancel_called:
                    _reset_on_close(target)
                await close_by_force(target)
        if self._scope.cancelled_caught:
            if not self._is_broken:
                self.outcome = Outcome.STUCK
            self.stream.reset(ResetCode.CLOSED)
            self._flush()

    def _refuse(self, refused: Refused) -> None:
        logger.debug("a target was refused: %s", refused.words)
        self.outcome = Outcome.REFUSED
        self.refusal = refused.reason
        self.stream.refuse(refused.reason)
        # A client that reads no more can't be refused anything; its octets are not kept either.
        self.stream.stop(ResetCode.CLOSED)
        self._flush()

    async def _carry(self, target: ByteStream) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._from_target, target, tasks)
            await self._to_target(target)
        if self.outcome is Outcome.STOPPED:
            self.outcome = Outcome.CLOSED

    async def _to_target(self, target: ByteStream) -> None:
        stream = self.stream
        try:
            while True:
                while data := stream.read(_READ):
                    self._flush()  # the window that was freed
                    await target.send(data)
                    self.to_target += len(data)
                if stream.at_end:
                    break
                await self._readable.wait()
            if stream.is_cut:
                self.outcome = Outcome.SESSION_ENDED
                self._is_broken = True
                self._reading.cancel()
            else:
                await target.send_eof()
        except _STREAM_ERRORS:
            # It may have said why, and closed: that has to reach the client, so only this direction ends.
            self.outcome = Outcome.RESET_BY_TARGET
            stream.stop(ResetCode.RESET_BY_TARGET)
            self._flush()

    async def _from_target(self, target: ByteStream, tasks: TaskGroup) -> None:
        stream = self.stream
        with self._reading:
            try:
                while True:
                    room = stream.room
                    if not room:
                        await self._writable.wait()
                        continue  # other streams may have taken it meanwhile
                    data = await target.receive(min(room, _READ))
                    self.from_target += len(data)
                    stream.write(data)
                    self._flush()
            except anyio.EndOfStream:
                stream.finish()
                self._flush()
            except _STREAM_ERRORS:
                self.outcome = Outcome.RESET_BY_TARGET
                stream.reset(ResetCode.RESET_BY_TARGET)
                self._flush()
                tasks.cancel_scope.cancel()


def _reset_on_close(target: ByteStream) -> None:
    raw: Any = target.extra(anyio.abc.SocketAttribute.raw_socket, None)
    with suppress(OSError, AttributeError):  # an app's own stream need not have one
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
