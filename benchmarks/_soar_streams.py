"""What frames and streams cost Soar for each packet, beside its seal and its message."""

from __future__ import annotations

from functools import partial
from itertools import count, cycle
from typing import TYPE_CHECKING

from benchmarks._operations import Operation
from transports.soar.core.streams.frames import (
    MaxData,
    MaxStreamData,
    StreamData,
    decode,
    stream_header,
)
from transports.soar.core.streams.table import StreamTable
from transports.soar.core.streams.targets import Target
from transports.soar.core.streams.windows import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ("stream_operations",)


def stream_operations() -> list[Operation]:
    """Return those of frames and streams (SPEC 9 and 10): what each packet costs beside its seal and its message."""
    operations = []
    for room_left, from_client in ((1095, False), (126, True), (14, True)):
        payload = stream_header(3, 123_456) + bytes(room_left - 6)
        decoder = partial(decode, payload, from_client=from_client)
        operations += [
            Operation(f"decode STREAM, {room_left} octets", decoder),
            Operation(f"fill and settle, {room_left} octets", _fill(room_left, client=from_client)),
        ]
    for how, order in (
        ("in order", (0, 1)),
        ("one late", (*range(1, 64), 0)),
        ("backwards", range(63, -1, -1)),
    ):
        operations.append(Operation(f"receive and read, {how}", _receive(1089, order)))
    operations.append(Operation("receive and read, 8 octets", _receive(8, (0, 1))))
    return operations


def _fill(room_left: int, *, client: bool) -> Callable[[], object]:
    """Return what fills a packet from a stream that never runs dry, and settles it."""
    table = _table(client=client)
    for frame in (MaxData(1 << 60), MaxStreamData(0, 1 << 60)):
        table.receive(frame)
    chunk = bytes(64 * 1024)

    def work() -> None:
        if table.room(0) >= len(chunk):
            table.write(0, chunk)
        table.acked(table.fill(bytearray(), room_left))

    return work


def _receive(octets: int, order: Sequence[int]) -> Callable[[], object]:
    """Return what takes in a packet of a stream whose packets come in `order` again and again, and reads it."""
    table = _table(client=True)
    data = bytes(octets)
    places = cycle(order)
    turn = count()

    def work() -> None:
        number = next(turn)
        place = number - number % len(order) + next(places)
        table.receive(StreamData(0, place * octets, data, False))
        if table.events:
            table.events.clear()
            table.read(0, 1 << 20)

    return work


def _table(*, client: bool) -> StreamTable:
    """Return a table with one stream whose first octets have been sent and settled."""
    window = 1 << 60
    limits = Limits(
        stream_window=window,
        session_window=window,
        most_stream_window=window,
        most_session_window=window,
    )
    table = StreamTable(client=client, limits=limits)
    if client:
        table.welcome(stream_window=window, session_window=window, max_streams=8)
        table.open(Target.of("t.example", 443).to_wire())
    else:
        table.receive(StreamData(0, 0, Target.of("t.example", 443).to_wire(), False))
        table.opened(0)
    table.acked(table.fill(bytearray(), 100))
    table.events.clear()
    return table
