"""Questions to one resolver over a byte stream: TCP (RFC 7766) and DoT (RFC 7858)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from racer.errors import RemoteProtocolError
from transports.soar.carriers.connection import ConnectionCarrier, Machine

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from anyio.abc import ByteStream

__all__ = ("StreamCarrier", "StreamMachine")

_MAX_BACKLOG: Final = 262_144  # octets of questions that wait for the stream to take them


class StreamMachine(Machine):
    """Messages behind their lengths (RFC 1035 section 4.2.2); answers may come in any order."""

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__()
        self._to_send = bytearray()
        self._received = bytearray()

    def ask(self, messages: Sequence[bytes]) -> None:
        """Queue questions; those for which there is no room are dropped."""
        for message in messages:
            if len(self._to_send) > _MAX_BACKLOG:
                return
            self._to_send += len(message).to_bytes(2)
            self._to_send += message

    def bytes_to_send(self) -> bytes:
        """Return what is due."""
        data = bytes(self._to_send)
        self._to_send.clear()
        return data

    def receive_data(self, data: bytes) -> list[bytes]:
        """Return the messages that have come whole.

        Raises:
            RemoteProtocolError: a length that no message has.
        """
        received = self._received
        received += data
        messages: list[bytes] = []
        at = 0
        while len(received) >= at + 2:
            end = at + 2 + int.from_bytes(received[at : at + 2])
            if end < at + 14:
                msg = "it sent a message shorter than a header"
                raise RemoteProtocolError(msg)
            if len(received) < end:
                break
            messages.append(bytes(received[at + 2 : end]))
            at = end
        del received[:at]
        return messages


class StreamCarrier(ConnectionCarrier):
    """Has one connection at a time, for as long as there are questions.

    Args:
        open_stream: connects to the resolver, up to and with TLS where that is wanted.
    """

    def __init__(self, open_stream: Callable[[], Awaitable[ByteStream]]) -> None:
        """Open nothing."""
        super().__init__(open_stream, StreamMachine)
