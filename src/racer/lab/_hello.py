"""The name in a TLS ClientHello, as a censor reads it: bounded, total, and from any number of pieces (RFC 8446 §4.1.2)."""

from __future__ import annotations

import enum
from typing import Final

__all__ = ("NeedMore", "server_name")

_HANDSHAKE: Final = 22
_CLIENT_HELLO: Final = 1
_SERVER_NAME: Final = 0  # extension type, RFC 6066 §3
_MAX_HELLO: Final = 65_536  # no real one is near it


class NeedMore(enum.Enum):
    """Says that what came so far may still become a ClientHello."""

    NEED_MORE = "need more"


class _NotHello(Exception):
    pass


class _Short(Exception):
    pass


def server_name(data: bytes) -> str | NeedMore | None:
    """Return the server name in the ClientHello that `data` begins with.

    `None` when it begins with something else or names no server, `NEED_MORE` while that is still open.
    """
    try:
        return _name_in(_Reader(_handshake(data)))
    except _Short:
        return NeedMore.NEED_MORE if len(data) < _MAX_HELLO else None
    except _NotHello:
        return None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise _NotHello
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def number(self, octets: int) -> int:
        return int.from_bytes(self.take(octets), "big")

    def vector(self, octets: int) -> _Reader:
        return _Reader(self.take(self.number(octets)))

    @property
    def has_more(self) -> bool:
        return self._at < len(self._data)


def _handshake(data: bytes) -> bytes:
    """Return the body of the first handshake message, put together from as many records as it takes."""
    message = b""
    at = 0
    while True:
        header = data[at : at + 5]
        if header and header[0] != _HANDSHAKE:
            raise _NotHello
        if len(header) < 5:
            raise _Short
        length = int.from_bytes(header[3:5], "big")
        if length == 0 or length > 2**14 or header[1] != 3:
            raise _NotHello
        body = data[at + 5 : at + 5 + length]
        message += body
        if message and message[0] != _CLIENT_HELLO:
            raise _NotHello
        if len(message) >= 4:
            size = int.from_bytes(message[1:4], "big")
            if size > _MAX_HELLO:
                raise _NotHello
            if len(message) >= 4 + size:
                return message[4 : 4 + size]
        if len(body) < length:
            raise _Short
        at += 5 + length


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
            names = body.vector(2)
            while names.has_more:
                name_type, name = names.number(1), names.vector(2)
                if name_type == 0:
                    raw = name._data  # noqa: SLF001 - the rest of one reader, in the same file
                    return raw.decode("ascii", "replace").lower()
    return None
