"""What the frames of a server's answers do to a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from racer.errors import RemoteProtocolError
from transports.soar.core.client.reasons import EndReason, Failure
from transports.soar.core.crypto.notices import EndCode, Notice
from transports.soar.core.streams.events import StreamOver
from transports.soar.core.streams.frames import (
    Challenge,
    End,
    Lease,
    ResetCode,
    Response,
    StreamData,
    Zones,
    decode,
)

if TYPE_CHECKING:
    from transports.soar.core.client.packets import Packets
    from transports.soar.core.client.path import Path
    from transports.soar.core.client.stream import ClientStream
    from transports.soar.core.instants import Instant
    from transports.soar.core.streams.frames import Frame
    from transports.soar.core.streams.table import StreamTable

__all__ = ("Intake", "carry_octets", "read_frames")

_UNKNOWN: Final = EndReason(
    failure=Failure.LOST,
    words="the server cannot tell whether the opening was executed before: it was started anew, or a RETRY was forged",
)
_RESPOND_AGAIN_S: Final = 1.0
_MOST_TOKENS: Final = 64


def read_frames(octets: bytes) -> tuple[list[Frame], str]:
    """Return the frames in `octets`, and what is wrong with them; nothing is done if anything is."""
    if not octets:
        return [], ""
    try:
        return decode(octets, from_client=False), ""
    except RemoteProtocolError as exc:
        return [], str(exc)


def carry_octets(frames: list[Frame]) -> bool:
    """Return whether any of `frames` is a STREAM."""
    # Most answers have one frame, or two with the STREAM last.
    return bool(frames) and (
        type(frames[-1]) is StreamData or any(type(frame) is StreamData for frame in frames)
    )


class Intake:
    """Gives frames to whom they are about.

    Args:
        table: the session's streams.
        packets: its packets.

    Attributes:
        streams: the handles of its streams, by number.
        connected: how many of them have a target that is connected.
        lease_until: when the session's grant ends, elapsed clock; `None` for no end.
    """

    __slots__ = ("_packets", "_responses", "_table", "connected", "lease_until", "streams")

    def __init__(self, table: StreamTable, packets: Packets) -> None:
        self._table = table
        self._packets = packets
        self._responses: dict[bytes, float] = {}  # tokens sent back, and when
        self.streams: dict[int, ClientStream] = {}
        self.connected = 0
        self.lease_until: float | None = None

    def lease_has_ended(self, now: Instant) -> bool:
        """Whether no stream may be opened for want of a valid grant."""
        return self.lease_until is not None and now.elapsed >= self.lease_until

    def forget(self, number: int) -> None:
        """Drop the handle of a stream that is over for its owner."""
        stream = self.streams.pop(number, None)
        if stream is not None and stream.is_connected:
            self.connected -= 1

    def take_back(self, since: float) -> None:
        """Give up each stream of which anything was sent before `since`, unless it may be sent twice (SPEC 16.4).

        An earlier process of the server, or this one for an earlier first message, may have executed that.
        """
        for number, sent in self._packets.first_sent.items():
            if sent >= since:
                continue
            stream = self.streams.get(number)
            if stream is not None:
                stream.dial.executed_elsewhere(_UNKNOWN)
            else:  # its program has let go of it, and left octets behind
                self._table.reset(number, ResetCode.CANCELLED)

    def take(self, frames: list[Frame], path: Path, now: Instant) -> Notice | str | None:
        """Do what `frames` say.

        Returns:
            The server's word that the session is over; or words for the rule that it broke, which ends the session too.
        """
        try:
            for frame in frames:
                if not self._table.receive(frame) and (over := self._take(frame, now)) is not None:
                    return over
        except RemoteProtocolError as exc:
            return str(exc)
        if self._table.events:
            self._hand_on(path)
        return None

    def _take(self, frame: Frame, now: Instant) -> Notice | None:
        """Take a frame that is about no stream."""
        if isinstance(frame, End):
            last = frame.last_stream
            return Notice(EndCode(frame.code), 0.0, None if last < 0 else last)
        if isinstance(frame, Challenge):
            self._respond(frame.token, now.awake)
        elif isinstance(frame, Zones):
            for index, zone in frame.zones:
                self._packets.zones.setdefault(zone, index)
        else:
            assert isinstance(frame, Lease), "no other is a server's to send, and about no stream"
            self.lease_until = now.elapsed + frame.seconds if frame.seconds else None
        return None

    def _respond(self, token: bytes, now: float) -> None:
        """Send a challenge's token back; all answers that are under way by then ask for the same (SPEC 18.6)."""
        answered = self._responses
        if now - answered.get(token, float("-inf")) >= _RESPOND_AGAIN_S:
            if len(answered) >= _MOST_TOKENS:
                answered.clear()
            answered[token] = now
            self._table.queue(Response(token))

    def _hand_on(self, path: Path) -> None:
        """Give the streams' events to their handles."""
        events = self._table.events
        while events:
            event = events.popleft()
            stream = self.streams.get(event.stream)
            if stream is None:
                continue
            if type(event) is StreamOver:
                self.forget(event.stream)  # what has come can still be read from the table
            stream.take(event)
            if stream.is_connected:
                path.sizes.has_begun = True
