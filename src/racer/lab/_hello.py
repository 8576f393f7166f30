"""The name in a TLS ClientHello, as a censor reads it: bounded, total, and from any number of pieces (RFC 8446 §4.1.2)."""

from __future__ import annotations

import enum
from typing import Final

__all__ = ("NeedMore", "server_name")

_HANDSHAKE: Final = 22  # record type, RFC 8446 §5.1
_CLIENT_HELLO: Final = 1  # handshake type, RFC 8446 §4
_SERVER_NAME: Final = 0  # extension type, RFC 6066 §3
_HOST_NAME: Final = 0  # name type, likewise
_MAX_RECORD: Final = 2**14  # octets, RFC 8446 §5.1
_MAX_HELLO: Final = 65_536  # octets; no real one is near it


class NeedMore(enum.Enum):
    """Says that what came so far may still become a ClientHello with a name."""

    NEED_MORE = "need more"


class _NotHello(Exception):
    pass


class _Short(Exception):
    pass


def server_name(data: bytes, *, joins_records: bool = True) -> str | NeedMore | None:
    """Return the server name in the ClientHello that `data` begins with, in lower case, as soon as it is all there.

    `None` when `data` begins with something else, or names no server; `NEED_MORE` while that is still open.

    Args:
        data: what a connection began with.
        joins_records: whether to put a ClientHello together from several TLS records; otherwise only the first counts.
    """
    try:
        return _name_in(_hello(data, joins_records=joins_records))
    except _Short:
        return NeedMore.NEED_MORE if len(data) < _MAX_HELLO else None
    except _NotHello:
        return None


class _Reader:
    """Reads what has come of a structure that says how long it will be.

    Args:
        data: what has come.
        at: where the structure begins.
        end: where it says that it ends.
        last: whether no more than `data` can ever come.
    """

    def __init__(self, data: bytes, at: int, end: int, *, last: bool) -> None:
        self._data = data
        self._at = at
        self._end = end
        self._last = last

    def take(self, count: int) -> bytes:
        """Return the next `count` octets."""
        start = self._skip(count)
        if self._at > len(self._data):
            raise _NotHello if self._last else _Short
        return self._data[start : self._at]

    def number(self, octets: int) -> int:
        """Return the number in the next `octets` octets."""
        return int.from_bytes(self.take(octets), "big")

    def vector(self, octets: int) -> _Reader:
        """Return a reader of what comes behind its own length, and go on behind it."""
        length = self.number(octets)
        start = self._skip(length)
        return _Reader(self._data, start, self._at, last=self._last)

    def rest(self) -> bytes:
        """Return all the octets that are left."""
        return self.take(self._end - self._at)

    @property
    def has_more(self) -> bool:
        """Whether the structure goes on."""
        return self._at < self._end

    def _skip(self, count: int) -> int:
        start = self._at
        self._at += count
        if self._at > self._end:
            raise _NotHello
        return start


def _hello(data: bytes, *, joins_records: bool) -> _Reader:
    """Return a reader of the handshake message's body, put together from the records that have come."""
    message = bytearray()
    at = 0
    last = False
    while not last:
        header = data[at : at + 5]
        if header and header[0] != _HANDSHAKE:
            raise _NotHello
        if header[1:2] not in {b"", b"\x03"}:  # the version's upper octet
            raise _NotHello
        if len(header) < 5:
            break
        length = int.from_bytes(header[3:5], "big")
        if not 0 < length <= _MAX_RECORD:
            raise _NotHello
        body = data[at + 5 : at + 5 + length]
        message += body
        at += 5 + length
        if len(body) < length:
            break
        last = not joins_records
        if len(message) >= 4 and len(message) >= 4 + int.from_bytes(message[1:4], "big"):
            last = True
    whole = _Reader(bytes(message), 0, _MAX_HELLO, last=last)
    if whole.number(1) != _CLIENT_HELLO:
        raise _NotHello
    return whole.vector(3)


def _name_in(hello: _Reader) -> str | None:
    hello.take(2 + 32)  # version, random
    hello.vector(1)  # session id
    hello.vector(2)  # cipher suites
    hello.vector(1)  # compression methods
    if not hello.has_more:
        return None
    extensions = hello.vector(2)
    while extensions.has_more:
        kind = extensions.number(2)
        body = extensions.vector(2)
        if kind == _SERVER_NAME:
            return _host_name(body)
    return None


def _host_name(extension: _Reader) -> str | None:
    names = extension.vector(2)
    while names.has_more:
        name_type = names.number(1)
        name = names.vector(2)
        if name_type == _HOST_NAME:
            return name.rest().decode("ascii", "replace").lower()
    return None
