"""Finds GOAWAY in a stream of frames, so that a connection may end in good order (RFC 9113 §4.1, §6.8).

`h2` takes a GOAWAY for the end of everything and refuses each frame behind it, though §6.8 lets streams that the peer has
accepted go on. So GOAWAY never reaches it. Nor does a frame longer than we said we take: `h2` would wait for all of it
first, and a server that speaks something else would never be found out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from racer.errors import RemoteProtocolError

__all__ = ("GoAway", "GoAwayFilter")

_HEAD: Final = 9  # octets of a frame's header
_GOAWAY: Final = 7
_LEAST: Final = 8  # octets of a GOAWAY's payload: last stream and error code
_MAX_FRAME: Final = (
    16_384  # octets of a payload, SETTINGS_MAX_FRAME_SIZE by default: we ask for no more
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoAway:
    """The peer takes no more streams.

    Attributes:
        last_stream_id: the last that it has, or may have, acted on.
        error_code: 0 where nothing was wrong.
    """

    last_stream_id: int
    error_code: int


class GoAwayFilter:
    """Takes bytes cut anywhere; gives back those of all other frames, and each GOAWAY."""

    def __init__(self) -> None:
        """Begin at the start of a frame."""
        self._head = bytearray()
        self._left = 0  # octets of a frame that is passed through
        self._goaway: bytearray | None = None
        self._missing = 0

    def feed(self, data: bytes) -> tuple[bytes, list[GoAway]]:
        """Return the bytes to pass on, and the GOAWAY frames that ended in `data`.

        Raises:
            RemoteProtocolError: a frame of a size that it cannot have.
        """
        if self._left >= len(data):  # the middle of a large frame, or its end
            self._left -= len(data)
            return data, []
        passed = bytearray()
        found: list[GoAway] = []
        at = 0
        while at < len(data):
            if self._goaway is not None:
                at = self._collect(data, at, found)
            elif self._left:
                step = min(self._left, len(data) - at)
                passed += data[at : at + step]
                self._left -= step
                at += step
            else:
                at = self._begin(data, at, passed)
        return bytes(passed), found

    def _begin(self, data: bytes, at: int, passed: bytearray) -> int:
        step = min(_HEAD - len(self._head), len(data) - at)
        self._head += data[at : at + step]
        if len(self._head) == _HEAD:
            length = int.from_bytes(self._head[:3], "big")
            stream_id = int.from_bytes(self._head[5:], "big") & 0x7FFF_FFFF
            if length > _MAX_FRAME:
                msg = f"a frame of {length} octets, where {_MAX_FRAME} are the most"
                raise RemoteProtocolError(msg)
            if self._head[3] == _GOAWAY and not stream_id:
                if length < _LEAST:
                    msg = f"a GOAWAY of {length} octets"
                    raise RemoteProtocolError(msg)
                self._goaway, self._missing = bytearray(), length
            else:
                passed += self._head
                self._left = length
            self._head.clear()
        return at + step

    def _collect(self, data: bytes, at: int, found: list[GoAway]) -> int:
        assert self._goaway is not None
        step = min(self._missing, len(data) - at)
        self._goaway += data[at : at + step]
        self._missing -= step
        if not self._missing:
            found.append(
                GoAway(
                    last_stream_id=int.from_bytes(self._goaway[:4], "big") & 0x7FFF_FFFF,
                    error_code=int.from_bytes(self._goaway[4:8], "big"),
                )
            )
            self._goaway = None
        return at + step
