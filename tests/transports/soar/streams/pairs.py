"""Two tables and the packets between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from transports.soar.core.streams.events import StreamOpened, StreamReadable
from transports.soar.core.streams.frames import Frame, decode
from transports.soar.core.streams.table import StreamTable
from transports.soar.core.streams.targets import Target
from transports.soar.core.streams.windows import Limits

if TYPE_CHECKING:
    from transports.soar.core.streams.sender import Sent

TARGET: Final = Target("t.example", 443)
HEADER: Final = TARGET.to_wire()


class Packet:
    """What one side put into a packet, and its records."""

    def __init__(
        self, sender: StreamTable, receiver: StreamTable, *, client: bool, room: int
    ) -> None:
        self._sender = sender
        self._receiver = receiver
        self._client = client
        out = bytearray()
        self.records: list[Sent] = sender.fill(out, room)
        assert len(out) <= room, "never over its room"
        # A client's packet is filled up (SPEC 6.4), a server's ends with its frames.
        self.payload = bytes(out.ljust(room, b"\0")) if client else bytes(out)
        self.frames: list[Frame] = decode(self.payload, from_client=client)

    def deliver(self) -> None:
        """Let it arrive."""
        for frame in decode(self.payload, from_client=self._client):
            self._receiver.receive(frame)

    def ack(self) -> None:
        """Let its sender know that it has arrived."""
        self._sender.acked(self.records)

    def lose(self) -> None:
        """Let its sender think that it has not."""
        self._sender.lost(self.records)


class Pair:
    """A client's table and its server's."""

    def __init__(self, limits: Limits | None = None, *, welcome: bool = True) -> None:
        self.limits = limits or Limits()
        self.client = StreamTable(client=True, limits=self.limits)
        self.server = StreamTable(client=False, limits=self.limits)
        if welcome:
            self.welcome()

    def welcome(self) -> None:
        """Tell the client what `msg2` says."""
        self.client.welcome(
            stream_window=self.limits.stream_window,
            session_window=self.limits.session_window,
            max_streams=self.limits.max_streams,
        )

    def up(self, room: int = 14) -> Packet:
        """Return the client's next packet."""
        return Packet(self.client, self.server, client=True, room=room)

    def down(self, room: int = 1095) -> Packet:
        """Return the server's next packet."""
        return Packet(self.server, self.client, client=False, room=room)

    def run(self, *, up: int = 126, down: int = 1095, most: int = 100_000) -> None:
        """Move packets both ways until neither side has any."""
        for _ in range(most):
            if not (self.client.has_queued() or self.server.has_queued()):
                return
            for packet in (self.up(up), self.down(down)):
                packet.deliver()
                packet.ack()
        raise AssertionError("it never ends")

    def open(self) -> int:
        """Return a stream that is open at both ends, its events taken."""
        number = self.client.open(HEADER)
        self.run()
        self.server.opened(number)
        self.run()
        self.client.events.clear()
        self.server.events.clear()
        return number


def drain(table: StreamTable, number: int) -> bytes:
    """Return all that can be read of a stream."""
    return table.read(number, 1 << 30)


def serve(table: StreamTable) -> dict[int, bytes]:
    """Open every stream that was asked for, and return what came on each."""
    came: dict[int, bytes] = {}
    while table.events:
        match table.events.popleft():
            case StreamOpened(number):
                table.opened(number)
            case StreamReadable(number):
                came[number] = came.get(number, b"") + drain(table, number)
            case _:
                pass
    return came
