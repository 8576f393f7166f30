"""What packets say to each other: the frames of SPEC 9, to and from octets."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from racer.errors import LocalProtocolError, RemoteProtocolError
from transports.soar.core.varint import MAX_VARINT, VarintTruncated, encode, read

if TYPE_CHECKING:
    from collections.abc import Callable

    _Reader: TypeAlias = Callable[[bytes, int], tuple["Frame", int]]

__all__ = (
    "MAX_LOST",
    "MAX_LOST_MAP",
    "MAX_ZONE",
    "MAX_ZONES",
    "Challenge",
    "ControlFrame",
    "End",
    "Floor",
    "Frame",
    "FrameInvalid",
    "FrameType",
    "Lease",
    "Lost",
    "LostMap",
    "MaxData",
    "MaxStreamData",
    "MaxStreams",
    "Opened",
    "Ping",
    "RefusalReason",
    "Refused",
    "Reset",
    "ResetCode",
    "Response",
    "Stop",
    "StreamData",
    "Zones",
    "decode",
    "encode_frame",
    "stream_header",
)

MAX_LOST: Final = 32  # numbers in one LOST (SPEC 9.1)
MAX_LOST_MAP: Final = 64  # octets of the bits in one LOST_MAP (SPEC 9.1)
MAX_ZONES: Final = 8  # zones in one ZONES (SPEC 9.1)
MAX_ZONE: Final = 64  # octets of a zone (SPEC 19)
TOKEN_SIZE: Final = 4  # octets of a challenge (SPEC 9.6)


class FrameInvalid(RemoteProtocolError):
    """Octets that are no frames, or frames that this side may not send."""


class FrameType(enum.IntEnum):
    """The types of SPEC 9.1; STREAM takes eight, for its three flags."""

    PAD = 0x00
    PING = 0x01
    FLOOR = 0x02
    LOST = 0x03
    OPENED = 0x04
    REFUSED = 0x05
    LOST_MAP = 0x06
    STREAM = 0x08
    RESET = 0x10
    STOP = 0x11
    MAX_DATA = 0x12
    MAX_STREAM_DATA = 0x13
    MAX_STREAMS = 0x14
    END = 0x18
    CHALLENGE = 0x1A
    RESPONSE = 0x1B
    ZONES = 0x1C
    LEASE = 0x1D


class RefusalReason(enum.IntEnum):
    """Why a server did not open a stream's target (SPEC 9.5)."""

    POLICY = 1
    CONNECTION_REFUSED = 2
    UNREACHABLE = 3
    TIMED_OUT = 4
    NAME_NOT_FOUND = 5
    TOO_MANY_STREAMS = 6
    NOT_AN_ADDRESS = 7
    GRANT = 8
    INTERNAL = 9


class ResetCode(enum.IntEnum):
    """Why a direction of a stream ended early (SPEC 10.2)."""

    CLOSED = 0
    CANCELLED = 1
    RESET_BY_TARGET = 2
    INTERNAL = 3


class Ping(NamedTuple):
    """Asks for nothing but the answer (client)."""


class Floor(NamedTuple):
    """All packet numbers below the packet's own less `delta` are settled (client; SPEC 9.2)."""

    delta: int


class Lost(NamedTuple):
    """The answers to the packet's own number less each of `deltas` have not come (client; SPEC 9.3)."""

    deltas: tuple[int, ...]


class LostMap(NamedTuple):
    """The same of many numbers, as bits, the highest of the first octet for the number (own - delta), and on upwards."""

    delta: int
    bits: bytes


class Opened(NamedTuple):
    """The target of `stream` is connected (server)."""

    stream: int


class Refused(NamedTuple):
    """The target of `stream` is not and will not be connected; `reason` is a `RefusalReason` or unknown (server)."""

    stream: int
    reason: int


class StreamData(NamedTuple):
    """Octets of `stream` from `offset` on; with `fin`, the direction ends behind them."""

    stream: int
    offset: int
    data: bytes
    fin: bool


class Reset(NamedTuple):
    """The sender ends its direction of `stream` early; `final_size` counts the octets that it sent of it."""

    stream: int
    code: int
    final_size: int


class Stop(NamedTuple):
    """The sender will read no more of `stream`, and asks for a RESET."""

    stream: int
    code: int


class MaxData(NamedTuple):
    """The sender takes `octets` in all over all streams."""

    octets: int


class MaxStreamData(NamedTuple):
    """The sender takes `octets` in all of `stream`."""

    stream: int
    octets: int


class MaxStreams(NamedTuple):
    """The server takes `streams` at once."""

    streams: int


class End(NamedTuple):
    """The session is over; `last_stream` is the highest that the server accepted, -1 for none (SPEC 9.7)."""

    code: int
    last_stream: int


class Challenge(NamedTuple):
    """The client is to send `token` back (server; SPEC 18.6)."""

    token: bytes


class Response(NamedTuple):
    """The `token` of a CHALLENGE, sent back (client)."""

    token: bytes


class Zones(NamedTuple):
    """Zones under which the server has this session too: (index, zone as wire octets) each (server; SPEC 9.12)."""

    zones: tuple[tuple[int, bytes], ...]


class Lease(NamedTuple):
    """The grant is good for `seconds` more; 0: no end (server)."""

    seconds: int


ControlFrame: TypeAlias = (
    Ping
    | Floor
    | Lost
    | LostMap
    | Opened
    | Refused
    | Reset
    | Stop
    | MaxData
    | MaxStreamData
    | MaxStreams
    | End
    | Challenge
    | Response
    | Zones
    | Lease
)
"""Every frame but STREAM."""

Frame: TypeAlias = StreamData | ControlFrame
"""Every frame that a reader is told of; PAD is not one."""

_new: Final = tuple.__new__
_STREAM: Final = 0x08  # the first of its eight types; their low bits:
_OFFSET: Final = 4
_LENGTH: Final = 2
_FIN: Final = 1
_FIRST_SKIPPABLE: Final = 0x40  # from here on a frame says its length (SPEC 9.1)
_ONLY_CLIENT: Final = frozenset(
    {
        FrameType.PING,
        FrameType.FLOOR,
        FrameType.LOST,
        FrameType.LOST_MAP,
        FrameType.RESPONSE,
    }
)
_ONLY_SERVER: Final = frozenset(
    {
        FrameType.OPENED,
        FrameType.REFUSED,
        FrameType.MAX_STREAMS,
        FrameType.CHALLENGE,
        FrameType.ZONES,
        FrameType.LEASE,
    }
)


# --- from octets ------------------------------------------------------------------------------


def decode(payload: bytes | memoryview, *, from_client: bool) -> list[Frame]:
    """Return the frames of one packet, in their order, without its padding.

    Args:
        payload: all of the packet that frames may fill.
        from_client: which side sent it; some frames belong to one side.

    Raises:
        FrameInvalid: any frame is cut short, unknown and below 0x40, or of the wrong side. Then nothing of the packet
            may be used, and the session ends.
    """
    if not isinstance(payload, bytes):
        payload = bytes(payload)
    try:
        return _decode(payload, _CLIENT_READERS if from_client else _SERVER_READERS)
    except (IndexError, VarintTruncated) as exc:
        raise FrameInvalid(f"a frame is cut short at the end of {len(payload)} octets") from exc


def _decode(  # noqa: C901, PLR0912 -- one loop with few calls, as it runs for every packet
    payload: bytes, readers: dict[int, _Reader]
) -> list[Frame]:
    """Walk over the frames; STREAM, of which nearly all packets are made, is read in place."""
    frames: list[Frame] = []
    at = 0
    end = len(payload)
    while at < end:
        kind = payload[at]
        if kind < 0x40:
            at += 1
        else:
            kind, at = read(payload, at)
        if kind & -8 == _STREAM:
            stream = payload[at]
            if stream < 0x40:
                at += 1
            else:
                stream, at = read(payload, at)
            offset = 0
            if kind & _OFFSET:
                offset, at = read(payload, at)
            stop = end
            if kind & _LENGTH:
                length, at = read(payload, at)
                stop = at + length
                if stop > end:
                    raise FrameInvalid(f"STREAM says {length} octets and has {end - at}")
            if offset + stop - at > MAX_VARINT:
                raise FrameInvalid("STREAM goes on past the greatest offset")
            # What the class would do, without its own function in between.
            frames.append(_new(StreamData, (stream, offset, payload[at:stop], kind & _FIN == _FIN)))
            at = stop
        elif kind == 0:  # PAD
            break
        elif kind >= _FIRST_SKIPPABLE:
            length, at = read(payload, at)
            at += length
            if at > end:
                raise FrameInvalid(f"frame {kind:#x} goes on past the end of its packet")
        else:
            reader = readers.get(kind)
            if reader is None:
                raise FrameInvalid(f"frame {kind:#04x} is unknown, or not this side's to send")
            frame, at = reader(payload, at)
            frames.append(frame)
    return frames


def _lost(payload: bytes, at: int) -> tuple[Frame, int]:
    count, at = read(payload, at)
    if not 1 <= count <= MAX_LOST:
        raise FrameInvalid(f"LOST names {count} packets, not 1 to {MAX_LOST}")
    deltas: list[int] = []
    for _ in range(count):
        delta, at = read(payload, at)
        deltas.append(delta)
    return Lost(tuple(deltas)), at


def _lost_map(payload: bytes, at: int) -> tuple[Frame, int]:
    delta, at = read(payload, at)
    length, at = read(payload, at)
    if not 1 <= length <= MAX_LOST_MAP or at + length > len(payload):
        raise FrameInvalid(f"LOST_MAP has {length} octets, not 1 to {MAX_LOST_MAP} that are there")
    return LostMap(delta, payload[at : at + length]), at + length


def _end(payload: bytes, at: int) -> tuple[Frame, int]:
    code, at = read(payload, at)
    streams, at = read(payload, at)
    return End(code, streams - 1), at


def _token(payload: bytes, at: int) -> tuple[bytes, int]:
    stop = at + TOKEN_SIZE
    if stop > len(payload):
        raise FrameInvalid(f"a token has {len(payload) - at} octets, not {TOKEN_SIZE}")
    return payload[at:stop], stop


def _challenge(payload: bytes, at: int) -> tuple[Frame, int]:
    token, at = _token(payload, at)
    return Challenge(token), at


def _response(payload: bytes, at: int) -> tuple[Frame, int]:
    token, at = _token(payload, at)
    return Response(token), at


def _zones(payload: bytes, at: int) -> tuple[Frame, int]:
    count, at = read(payload, at)
    if not 1 <= count <= MAX_ZONES:
        raise FrameInvalid(f"ZONES names {count} zones, not 1 to {MAX_ZONES}")
    zones: list[tuple[int, bytes]] = []
    for _ in range(count):
        index, length = payload[at], payload[at + 1]
        at += 2
        if not 1 <= length <= MAX_ZONE or at + length > len(payload):
            raise FrameInvalid(f"ZONES has a zone of {length} octets")
        zones.append((index, payload[at : at + length]))
        at += length
    return Zones(tuple(zones)), at


def _plain(frame_class: Callable[..., Frame], fields: int) -> _Reader:
    """Return the reader of a frame that is a row of varints."""

    def reader(payload: bytes, at: int) -> tuple[Frame, int]:
        values: list[int] = []
        for _ in range(fields):
            value, at = read(payload, at)
            values.append(value)
        return frame_class(*values), at

    return reader


# Frames that are a row of varints, and how many.
_PLAIN: Final[dict[FrameType, tuple[Callable[..., Frame], int]]] = {
    FrameType.PING: (Ping, 0),
    FrameType.FLOOR: (Floor, 1),
    FrameType.OPENED: (Opened, 1),
    FrameType.REFUSED: (Refused, 2),
    FrameType.RESET: (Reset, 3),
    FrameType.STOP: (Stop, 2),
    FrameType.MAX_DATA: (MaxData, 1),
    FrameType.MAX_STREAM_DATA: (MaxStreamData, 2),
    FrameType.MAX_STREAMS: (MaxStreams, 1),
    FrameType.LEASE: (Lease, 1),
}
_READERS: Final[dict[int, _Reader]] = {
    **{kind: _plain(*row) for kind, row in _PLAIN.items()},
    FrameType.LOST: _lost,
    FrameType.LOST_MAP: _lost_map,
    FrameType.END: _end,
    FrameType.CHALLENGE: _challenge,
    FrameType.RESPONSE: _response,
    FrameType.ZONES: _zones,
}
_CLIENT_READERS: Final = {k: r for k, r in _READERS.items() if k not in _ONLY_SERVER}
_SERVER_READERS: Final = {k: r for k, r in _READERS.items() if k not in _ONLY_CLIENT}


# --- to octets --------------------------------------------------------------------------------


def stream_header(
    stream: int, offset: int, length: int | None = None, *, fin: bool = False
) -> bytes:
    """Return what stands before a STREAM frame's octets.

    Args:
        stream: its number.
        offset: left out of the frame if 0.
        length: of the octets; `None` leaves it out, and the frame goes on to the end of its packet.
        fin: whether the direction ends behind them.
    """
    head = bytes([FrameType.STREAM | (_OFFSET if offset else 0) | (_FIN if fin else 0)])
    if length is not None:
        head = bytes([head[0] | _LENGTH])
    head += encode(stream)
    if offset:
        head += encode(offset)
    return head if length is None else head + encode(length)


def encode_frame(frame: Frame) -> bytes:
    """Return a frame's octets; STREAM's with its length, so that others may follow.

    Raises:
        LocalProtocolError: it has a value that no frame can carry.
    """
    match frame:
        case StreamData(stream, offset, data, fin):
            return stream_header(stream, offset, len(data), fin=fin) + data
        case Lost() | LostMap():
            return _encode_lost(frame)
        case End(code, last_stream):
            return b"\x18" + encode(code) + encode(last_stream + 1)
        case Challenge(token) | Response(token):
            _expect(len(token) == TOKEN_SIZE, f"a token of {len(token)} octets")
            return (b"\x1a" if isinstance(frame, Challenge) else b"\x1b") + token
        case Zones(zones):
            _expect(1 <= len(zones) <= MAX_ZONES, f"ZONES with {len(zones)} zones")
            for index, zone in zones:
                _expect(0 <= index <= 0xFF and 1 <= len(zone) <= MAX_ZONE, f"zone {zone!r}")
            parts = [bytes([index, len(zone)]) + zone for index, zone in zones]
            return b"\x1c" + encode(len(zones)) + b"".join(parts)
        case _:
            return _PLAIN_TYPES[type(frame)] + b"".join(map(encode, frame))


def _encode_lost(frame: Lost | LostMap) -> bytes:
    if isinstance(frame, Lost):
        deltas = frame.deltas
        _expect(1 <= len(deltas) <= MAX_LOST, f"LOST with {len(deltas)} numbers")
        return b"\x03" + encode(len(deltas)) + b"".join(map(encode, deltas))
    _expect(1 <= len(frame.bits) <= MAX_LOST_MAP, f"LOST_MAP of {len(frame.bits)} octets")
    return b"\x06" + encode(frame.delta) + encode(len(frame.bits)) + frame.bits


_PLAIN_TYPES: Final = {row[0]: bytes([kind]) for kind, row in _PLAIN.items()}


def _expect(fits: bool, what: str) -> None:  # noqa: FBT001 -- reads as a sentence
    if not fits:
        raise LocalProtocolError(f"no frame can carry {what}")
