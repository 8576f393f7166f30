"""What the two handshake messages say under their seals (SPEC 7.2, 7.6, 7.8)."""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass, field
from typing import Final

from racer.errors import LocalProtocolError, RemoteProtocolError

__all__ = ("Claims", "Status", "Terms")

MAX_VERSION: Final = 0
"""The highest version of the protocol spoken here."""

_CLAIMS: Final = struct.Struct(">IBB")
_HAS_COOKIE: Final = 1
_HAS_GRANT: Final = 2
_COOKIE_SIZE: Final = 8
_SID_SIZE: Final = 4
_GRANT_ID_SIZE: Final = 6
_PROOF_SIZE: Final = 16

_TERMS: Final = struct.Struct(">BBBIHHIHHHB16s")
_EARLY_REFUSED: Final = 1
_KNOWN_UNITS: Final = 256  # in a second
_MOST_KNOWN: Final = 255.0  # seconds
_WINDOW_UNIT: Final = 1024
_STATUS_KEY_SIZE: Final = 16
_MOST_SHARDS: Final = 32


class Status(enum.IntEnum):
    """The server's verdict on a first message (SPEC 7.8)."""

    WELCOME = 0
    GRANT_NEEDED = 1
    GRANT_REJECTED = 2
    GRANT_EXPIRED = 3
    GRANT_REVOKED = 4
    CAPACITY = 5
    SHUTTING_DOWN = 6
    VERSION = 7
    OTHER = 255
    """A refusal that this version does not know. It is read, never written."""

    @classmethod
    def _missing_(cls, value: object) -> Status:  # noqa: ARG003 - any other value
        """Read every other status: what is not a welcome is none, whatever its name."""
        return cls.OTHER


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The payload of `msg1`; a `repr` shows neither proofs nor what streams carry.

    Attributes:
        time: the client's clock, Unix seconds modulo 2^32.
        max_version: the highest version that it speaks.
        cookie: a RETRY's cookie and the SID it was made for, or `None`.
        grant: a grant's id and the proof of having it, or `None`.
        frames: encoded, with PAD behind them.
    """

    time: int
    max_version: int
    cookie: tuple[bytes, bytes] | None = field(default=None, repr=False)
    grant: tuple[bytes, bytes] | None = field(default=None, repr=False)
    frames: bytes = field(default=b"", repr=False)

    def encode(self) -> bytes:
        """Return the payload's octets.

        Raises:
            LocalProtocolError: a cookie or grant of the wrong size.
        """
        if self.cookie is not None and tuple(map(len, self.cookie)) != (_COOKIE_SIZE, _SID_SIZE):
            msg = (
                f"a cookie has {_COOKIE_SIZE} octets, and the SID that it was made for {_SID_SIZE}"
            )
            raise LocalProtocolError(msg)
        if self.grant is not None and tuple(map(len, self.grant)) != (_GRANT_ID_SIZE, _PROOF_SIZE):
            msg = f"a grant's id has {_GRANT_ID_SIZE} octets, and its proof {_PROOF_SIZE}"
            raise LocalProtocolError(msg)
        flags = (self.cookie is not None) * _HAS_COOKIE | (self.grant is not None) * _HAS_GRANT
        head = _CLAIMS.pack(self.time & 0xFFFFFFFF, flags, self.max_version)
        return head + b"".join(self.cookie or ()) + b"".join(self.grant or ()) + self.frames

    @classmethod
    def decode(cls, payload: bytes) -> Claims | None:
        """Return what `payload` says, other flags ignored; `None` if it is cut short."""
        if len(payload) < _CLAIMS.size:
            return None
        time, flags, max_version = _CLAIMS.unpack_from(payload)
        at = _CLAIMS.size
        cookie = grant = None
        if flags & _HAS_COOKIE:
            cookie, at = _pair(payload, at, _COOKIE_SIZE, _SID_SIZE)
        if flags & _HAS_GRANT:
            grant, at = _pair(payload, at, _GRANT_ID_SIZE, _PROOF_SIZE)
        if at > len(payload):
            return None
        return cls(
            time=time, max_version=max_version, cookie=cookie, grant=grant, frames=payload[at:]
        )


def _pair(payload: bytes, at: int, first: int, second: int) -> tuple[tuple[bytes, bytes], int]:
    middle, end = at + first, at + first + second
    return (payload[at:middle], payload[middle:end]), end


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The payload of `msg2`.

    Attributes:
        status: the verdict; what follows counts only with `WELCOME`.
        version: that of the session.
        early_refused: the frames of `msg1` and of early packets were not executed.
        time: the server's clock, Unix seconds modulo 2^32.
        known_for: seconds back to which the server knows every first message that was executed, rounded down to a
            256th, at most 255 (SPEC 7.11).
        idle_timeout: seconds, to a tenth (SPEC 14).
        lease: seconds that the grant is still good for; 0 for no end.
        max_streams: how many may be open at once.
        stream_window: octets that the client may send on a stream, a multiple of 1,024.
        session_window: the same for the whole session.
        shards: a power of two, at most 32 (SPEC 4.4).
        status_key: `K_st`, 16 octets; sent in a welcome only. In no `repr`.
        frames: encoded.
    """

    status: Status
    time: int
    version: int = MAX_VERSION
    early_refused: bool = False
    known_for: float = 0.0
    idle_timeout: float = 0.0
    lease: int = 0
    max_streams: int = 0
    stream_window: int = 0
    session_window: int = 0
    shards: int = 1
    status_key: bytes = field(default=bytes(_STATUS_KEY_SIZE), repr=False)
    frames: bytes = field(default=b"", repr=False)

    def encode(self) -> bytes:
        """Return the payload's octets; windows are rounded down to whole units.

        Raises:
            LocalProtocolError: a value that its field cannot hold, or terms that `decode` would not take.
        """
        if self.status is Status.OTHER or len(self.status_key) != _STATUS_KEY_SIZE:
            msg = f"no answer says {self}"
            raise LocalProtocolError(msg)
        if self.status is Status.WELCOME and not any(self.status_key):
            # A session with that key could be ended by anybody.
            msg = f"no answer says {self}: a welcome has the session's status key"
            raise LocalProtocolError(msg)
        try:
            head = _TERMS.pack(
                self.status,
                self.version,
                self.early_refused * _EARLY_REFUSED,
                self.time & 0xFFFFFFFF,
                int(min(self.known_for, _MOST_KNOWN) * _KNOWN_UNITS),
                round(self.idle_timeout * 10),
                self.lease,
                self.max_streams,
                self.stream_window // _WINDOW_UNIT,
                self.session_window // _WINDOW_UNIT,
                self.shards,
                self.status_key if self.status is Status.WELCOME else bytes(_STATUS_KEY_SIZE),
            )
            self._check()
        except (struct.error, RemoteProtocolError) as exc:
            msg = f"no answer says {self}: {exc}"
            raise LocalProtocolError(msg) from exc
        return head + self.frames

    @classmethod
    def decode(cls, payload: bytes) -> Terms:
        """Return what `payload` says, unknown flags ignored.

        Raises:
            RemoteProtocolError: it is cut short, or welcomes to a session that cannot be.
        """
        if len(payload) < _TERMS.size:
            msg = f"the handshake's answer has {len(payload)} octets, where {_TERMS.size} or more must be"
            raise RemoteProtocolError(msg)
        fields = _TERMS.unpack_from(payload)
        status, version, flags, time, known_for, idle_timeout, lease = fields[:7]
        max_streams, stream_window, session_window, shards, status_key = fields[7:]
        terms = cls(
            status=Status(status),
            version=version,
            early_refused=bool(flags & _EARLY_REFUSED),
            time=time,
            known_for=known_for / _KNOWN_UNITS,
            idle_timeout=idle_timeout / 10,
            lease=lease,
            max_streams=max_streams,
            stream_window=stream_window * _WINDOW_UNIT,
            session_window=session_window * _WINDOW_UNIT,
            shards=shards,
            status_key=status_key,
            frames=payload[_TERMS.size :],
        )
        terms._check()
        return terms

    def _check(self) -> None:
        if self.status is not Status.WELCOME:
            return
        if self.version > MAX_VERSION:
            msg = f"the server chose version {self.version}; the highest offered was {MAX_VERSION}"
            raise RemoteProtocolError(msg)
        if not 1 <= self.shards <= _MOST_SHARDS or self.shards & (self.shards - 1):
            msg = f"the server has {self.shards} shards, which is no power of two up to {_MOST_SHARDS}"
            raise RemoteProtocolError(msg)
        if self.idle_timeout < 0.05:  # rounds to nothing
            # A client could never use such a session: it would be too old at once (SPEC 14.3).
            msg = "the server's idle timeout is 0"
            raise RemoteProtocolError(msg)
