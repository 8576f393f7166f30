"""The notice: "this session is no more", in a way that only its server can say (SPEC 15.3 to 15.5)."""

from __future__ import annotations

import enum
import struct
from typing import Final, NamedTuple

from racer.errors import LocalProtocolError
from transports.soar.core.crypto.hashes import digest, equal

__all__ = ("EndCode", "Notice", "build_notice", "read_notice")

NOTICE_SIZE: Final = 23

_FIELDS: Final = struct.Struct(">BHI")
_MAC_SIZE: Final = 16
_NO_STREAM: Final = 0xFFFFFFFF
_MOST_TENTHS: Final = 0xFFFF


class EndCode(enum.IntEnum):
    """Why a session is no more (SPEC 15.3)."""

    OTHER = 0
    """A code that this version does not know. It is read, never written."""
    UNKNOWN = 1
    CLOSED = 2
    OPERATOR = 3
    SHUTDOWN = 4
    REVOKED = 5
    EXPIRED = 6
    CAPACITY = 7
    PROTOCOL = 8
    """The client broke the protocol."""

    @classmethod
    def _missing_(cls, value: object) -> EndCode:  # noqa: ARG003 - any other value
        """Read every other code: an end that is proven is an end, whatever its name."""
        return cls.OTHER


class Notice(NamedTuple):
    """What a server says of a session that it doesn't have.

    Attributes:
        code: why.
        known_for: seconds back from now within which the server would remember an end, to a tenth, rounded down.
        last_stream: the highest stream that it accepted; `None` for none.
    """

    code: EndCode
    known_for: float
    last_stream: int | None


def build_notice(status_key: bytes, notice: Notice, name: bytes) -> bytes:
    """Return the 23 octets of `notice`, bound to the question for `name`.

    Args:
        status_key: that of the session which the question is for.
        notice: what to say; a `known_for` above 6,553.5 s is said as that.
        name: the question's name, lower-case wire octets.

    Raises:
        LocalProtocolError: a code or stream that cannot be said.
    """
    code, known_for, last_stream = notice
    last = _NO_STREAM if last_stream is None else last_stream
    sayable = last_stream is None or 0 <= last < _NO_STREAM
    if code is EndCode.OTHER or not sayable or not known_for >= 0:
        msg = f"no notice says {notice}"
        raise LocalProtocolError(msg)
    # Down, never up: a client proves with it what has NOT happened (SPEC 16.2).
    tenths = int(min(known_for * 10, _MOST_TENTHS))
    fields = _FIELDS.pack(code, tenths, last)
    return fields + digest(_MAC_SIZE, status_key, fields + name)


def read_notice(octets: bytes, status_key: bytes, name: bytes) -> Notice | None:
    """Return the notice that `octets` hold; `None` unless the server made it, for this session and this question.

    Args:
        octets: the first label of the SOA's MNAME, decoded.
        status_key: that of the session whose pending question was answered so.
        name: that question's name, lower-case wire octets.
    """
    if len(octets) != NOTICE_SIZE:
        return None
    fields = octets[: _FIELDS.size]
    if not equal(octets[_FIELDS.size :], digest(_MAC_SIZE, status_key, fields + name)):
        return None
    code, tenths, last = _FIELDS.unpack(fields)
    return Notice(EndCode(code), tenths / 10, None if last == _NO_STREAM else last)
