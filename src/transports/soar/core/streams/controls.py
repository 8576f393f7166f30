"""Frames other than STREAM on their way: sent, sent again after a loss, settled by an acknowledgement."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeAlias

from racer.errors import LocalProtocolError
from transports.soar.core.streams.frames import (
    Challenge,
    End,
    MaxStreamData,
    Opened,
    Refused,
    Reset,
    Response,
    Stop,
    encode_frame,
)

if TYPE_CHECKING:
    from transports.soar.core.streams.frames import ControlFrame

__all__ = ("MAX_CONTROLS", "Control", "Controls")

MAX_CONTROLS: Final = 16_384
"""Frames that may be unsettled at once: some for every stream that a table may hold."""

_MAX_LOOK: Final = 4  # frames that do not fit a packet, passed over in search of one that does

_Key: TypeAlias = tuple[type, object]


class Control:
    """One frame that must arrive. Packets that carry it keep it as their record.

    Attributes:
        frame: what is said.
        settled: whether it has arrived, or no longer matters.
    """

    __slots__ = ("frame", "key", "settled", "wire")

    def __init__(self, key: _Key, frame: ControlFrame) -> None:
        self.key = key
        self.frame = frame
        self.wire = encode_frame(frame)
        self.settled = False

    def __repr__(self) -> str:
        """Return the frame's own text."""
        return f"<Control {self.frame!r}{' settled' if self.settled else ''}>"


def _key_of(frame: ControlFrame) -> _Key:
    """Return what a newer frame must share with this one to take its place."""
    match frame:
        case Opened() | Refused() | Reset() | Stop() | MaxStreamData():
            return type(frame), frame.stream
        case Challenge() | Response():
            return type(frame), frame.token
        case End():
            return End, None
        case _:
            return type(frame), None


class Controls:
    """The queue of frames to send, and what is known of those under way.

    Of frames that say the same thing (MAX_DATA; MAX_STREAM_DATA of one stream; LEASE) only the newest is ever sent
    again: it takes the place of those before.

    Attributes:
        octets: the sum of what is queued.
    """

    __slots__ = ("_current", "_queue", "octets")

    def __init__(self) -> None:
        self._queue: OrderedDict[_Key, Control] = OrderedDict()
        self._current: dict[_Key, Control] = {}  # not yet settled, queued or under way
        self.octets = 0

    def __bool__(self) -> bool:
        """Whether anything is queued."""
        return bool(self._queue)

    def __len__(self) -> int:
        """Return how many frames are not settled."""
        return len(self._current)

    def queue(self, frame: ControlFrame) -> None:
        """Have a frame sent, again and again until it has arrived.

        Raises:
            LocalProtocolError: more than `MAX_CONTROLS` are not settled, or no frame can carry its values.
        """
        key = _key_of(frame)
        control = Control(key, frame)
        self.drop(key)
        if len(self._current) >= MAX_CONTROLS:
            raise LocalProtocolError(f"{MAX_CONTROLS} control frames are not settled")
        self._current[key] = control
        self._enqueue(control)

    def drop(self, key: _Key) -> None:
        """Never again send the frame of that key, if there is one."""
        control = self._current.pop(key, None)
        if control is not None:
            control.settled = True
            self._dequeue(control)

    def drop_stream(self, stream: int) -> None:
        """Never again send anything about a stream."""
        for kind in (Opened, Refused, Reset, Stop, MaxStreamData):
            self.drop((kind, stream))

    def take(self, out: bytearray, room: int) -> list[Control]:
        """Append queued frames to a packet, oldest first, while they fit in `room` octets; return them."""
        taken: list[Control] = []
        passed = 0
        for control in self._queue.values():
            size = len(control.wire)
            if size > room:
                passed += 1
                if passed == _MAX_LOOK:
                    break
                continue
            out += control.wire
            room -= size
            taken.append(control)
        for control in taken:
            self._dequeue(control)
        return taken

    def acked(self, control: Control) -> bool:
        """Settle a frame; return whether it was not settled before."""
        if control.settled:
            return False
        control.settled = True
        del self._current[control.key]
        self._dequeue(control)
        return True

    def lost(self, control: Control) -> None:
        """Queue a frame anew, unless it is settled or is queued already."""
        if not control.settled and control.key not in self._queue:
            self._enqueue(control)

    def _enqueue(self, control: Control) -> None:
        self._queue[control.key] = control
        self.octets += len(control.wire)

    def _dequeue(self, control: Control) -> None:
        if self._queue.pop(control.key, None) is not None:
            self.octets -= len(control.wire)
