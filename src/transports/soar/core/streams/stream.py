"""One stream's state, as both sides keep it."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from transports.soar.core.streams.receive_buffer import ReceiveBuffer
from transports.soar.core.streams.send_buffer import SendBuffer
from transports.soar.core.varint import encode

if TYPE_CHECKING:
    from transports.soar.core.streams.windows import ReceiveWindow

__all__ = ("SendState", "Stream")


class SendState(enum.Enum):
    """How far the sending direction is."""

    OPEN = "octets or FIN are to be sent, or to be acknowledged"
    ENDING = "a RESET or REFUSED is to be acknowledged"
    OVER = "the peer knows the end"


class Stream:
    """Both directions of one stream. The table and its sender move it; it decides nothing.

    Attributes:
        number: its place in the order of opening (SPEC 10.1).
        wire_number: the same as it stands in frames.
        send: octets on their way to the peer.
        send_state: see there.
        send_limit: up to where the peer takes octets.
        sendable: octets that were never sent and that the peer would take of this stream.
        is_fresh: whether it stands in the sender's row for such octets.
        is_due: whether it stands in the sender's row for what must be sent again.
        starved: whether the writer was told that there is no room.
        receive: octets from the peer.
        window: what the peer may send.
        stopped: whether this side reads no more.
        stop_code: of a STOP that came before the target was known, and is to be told then; -1 for none.
        announced: whether the application knows of it.
        connected: whether the target is known to be connected.
        refused: whether the target is known never to be connected.
        counted: whether it counts toward the streams at once.
        over: whether both directions have ended.
    """

    __slots__ = (
        "announced",
        "connected",
        "counted",
        "is_due",
        "is_fresh",
        "number",
        "over",
        "receive",
        "refused",
        "send",
        "send_limit",
        "send_state",
        "sendable",
        "starved",
        "stop_code",
        "stopped",
        "window",
        "wire_number",
    )

    def __init__(self, number: int, *, send_limit: int, window: ReceiveWindow) -> None:
        self.number = number
        self.wire_number = encode(number)
        self.send = SendBuffer()
        self.send_state = SendState.OPEN
        self.send_limit = send_limit
        self.sendable = 0
        self.is_fresh = False
        self.is_due = False
        self.starved = False
        self.receive = ReceiveBuffer()
        self.window = window
        self.stopped = False
        self.stop_code = -1
        self.announced = False
        self.connected = False
        self.refused = False
        self.counted = False
        self.over = False
