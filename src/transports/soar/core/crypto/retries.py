"""What the answer to a fragment holds: `msg2`, or a RETRY (SPEC 7.6, 7.7)."""

from __future__ import annotations

import enum
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from transports.soar.core.crypto.hashes import equal

if TYPE_CHECKING:
    from transports.soar.core.crypto.keys import HeaderKey

__all__ = ("BodyType", "Retry", "RetryCode", "build_retry", "read_retry", "unwrap", "wrap")

_TAIL_SIZE: Final = 16
_FIELDS: Final = struct.Struct(">B8sI")
_MAC_SIZE: Final = 8


class BodyType(enum.IntEnum):
    """What follows the first octet."""

    MSG2 = 0
    RETRY = 1


class RetryCode(enum.IntEnum):
    """Why a first message must be said again."""

    BUSY = 1
    CLOCK = 2


class Retry(NamedTuple):
    """A server's wish that the first message be said again, with this cookie.

    Attributes:
        code: why; with `CLOCK`, the new message bears the server's time.
        cookie: 8 octets, to be brought back.
        time: the server's clock, Unix seconds modulo 2^32.
    """

    code: RetryCode
    cookie: bytes
    time: int


def wrap(header_key: HeaderKey, body_type: int, body: bytes) -> bytes:
    """Return the answer's octets `P`: the masked type, then `body`."""
    return bytes((body_type ^ header_key.type_mask(body[-_TAIL_SIZE:]),)) + body


def unwrap(header_key: HeaderKey, payload: bytes) -> tuple[int, bytes] | None:
    """Return type and body; `None` if the body has fewer than 16 octets or the type is unknown."""
    body = payload[1:]
    if len(body) < _TAIL_SIZE:
        return None
    body_type = payload[0] ^ header_key.type_mask(body[-_TAIL_SIZE:])
    return (body_type, body) if body_type <= BodyType.RETRY else None


def build_retry(header_key: HeaderKey, sid: bytes, retry: Retry) -> bytes:
    """Return the whole answer to a fragment of the first message `sid`.

    Args:
        header_key: the server's own.
        sid: which first message.
        retry: what to say; `time` may be any integer, and is sent modulo 2^32.
    """
    fields = _FIELDS.pack(retry.code, retry.cookie, retry.time & 0xFFFFFFFF)
    return wrap(header_key, BodyType.RETRY, fields + header_key.retry_mac(sid + fields))


def read_retry(header_key: HeaderKey, sid: bytes, body: bytes) -> Retry | None:
    """Return the RETRY in `body`; `None` unless it is for `sid`, by somebody who has the public key.

    Nobody but the server should have made it, and anybody with the public key could (SPEC 7.7): obey one.
    """
    if len(body) != _FIELDS.size + _MAC_SIZE:
        return None
    fields = body[: _FIELDS.size]
    if not equal(body[_FIELDS.size :], header_key.retry_mac(sid + fields)):
        return None
    code, cookie, time = _FIELDS.unpack(fields)
    if code not in (RetryCode.BUSY, RetryCode.CLOCK):
        return None
    return Retry(RetryCode(code), cookie, time)
