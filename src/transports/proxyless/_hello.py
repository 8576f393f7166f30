"""Where a TLS ClientHello has the name of the server: pure, bounded, total on any octets (RFC 8446 §4.1.2, RFC 6066 §3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ("MAX_HELLO", "RECORD_HEADER", "Hello", "read_hello")

MAX_HELLO: Final = 16_384
"""Octets of a first flight that are looked at; the largest ClientHello of a browser has some 1,900."""

RECORD_HEADER: Final = 5
"""Octets before each record's own: type, version, length (RFC 8446 §5.1)."""

_HANDSHAKE: Final = 22
_CLIENT_HELLO: Final = 1
_SERVER_NAME: Final = 0
_HOST_NAME: Final = 0
_MAX_RECORD: Final = 2**14
_VERSIONS: Final = range(0x0301, 0x0305)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What is known of a ClientHello.

    Attributes:
        is_complete: whether all of it has come; nothing else is known before.
        length: octets from the first record's header to the end of the last record that it is in.
        first_record: octets of the first record, without its header.
        name: where each octet of the server's name is in the stream; empty when there is no name.
    """

    is_complete: bool = False
    length: int = 0
    first_record: int = 0
    name: tuple[int, ...] = ()


_INCOMPLETE: Final = Hello()


class _Short(Exception):
    pass


def read_hello(data: bytes) -> Hello | None:
    """Return what is known of the ClientHello that `data` begins with; `None` when it begins with something else.

    A hello in several records is put together; what comes behind it is not looked at.
    """
    try:
        message, places, lengths = _message(data)
    except _Short:
        return _INCOMPLETE if len(data) < MAX_HELLO else None
    except ValueError:
        return None
    return Hello(
        is_complete=True,
        length=sum(lengths) + RECORD_HEADER * len(lengths),
        first_record=lengths[0],
        name=tuple(places[at] for at in _name(message)),
    )


def _message(data: bytes) -> tuple[bytes, list[int], list[int]]:
    """Return a ClientHello, where each of its octets is in the stream, and the lengths of its records.

    Raises:
        ValueError: it is none.
        _Short: it may become one.
    """
    message = bytearray()
    places: list[int] = []
    lengths: list[int] = []
    at = 0
    while len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4], "big"):
        header = data[at : at + RECORD_HEADER]
        _check_header(header)
        if len(header) < RECORD_HEADER:
            raise _Short
        length = int.from_bytes(header[3:], "big")
        body = data[at + RECORD_HEADER : at + RECORD_HEADER + length]
        message += body
        places += range(at + RECORD_HEADER, at + RECORD_HEADER + len(body))
        lengths.append(length)
        if message and message[0] != _CLIENT_HELLO:
            raise ValueError
        if len(body) < length or at > MAX_HELLO:
            raise _Short
        at += RECORD_HEADER + length
    return bytes(message), places, lengths


def _check_header(header: bytes) -> None:
    """Raise `ValueError` unless this is, or may become, the header of a handshake record."""
    if header[:1] not in {b"", bytes([_HANDSHAKE])} or header[1:2] not in {b"", b"\x03"}:
        raise ValueError
    if len(header) > 2 and int.from_bytes(header[1:3], "big") not in _VERSIONS:
        raise ValueError
    if len(header) == RECORD_HEADER and not 0 < int.from_bytes(header[3:], "big") <= _MAX_RECORD:
        raise ValueError


def _name(message: bytes) -> range:
    """Return where the host name is in a whole ClientHello; an empty range when there is none, or nonsense."""
    try:
        end = 4 + int.from_bytes(message[1:4], "big")
        at = 4 + 2 + 32  # the message's own header, version, random
        at = _skip(message, at, 1)  # session id
        at = _skip(message, at, 2)  # cipher suites
        at = _skip(message, at, 1)  # compression methods
        end = min(end, at + 2 + _number(message, at, 2))
        at += 2
        while at + 4 <= end:
            kind, body = _number(message, at, 2), at + 4
            at = _skip(message, at + 2, 2)
            if kind == _SERVER_NAME and at <= end:
                return _host_name(message, body, at)
    except IndexError:
        pass
    return range(0)


def _host_name(message: bytes, at: int, end: int) -> range:
    """Return where the host name is in the server_name extension between `at` and `end`."""
    at += 2  # the list's length
    while at + 3 <= end:
        kind, start = message[at], at + 3
        at = _skip(message, at + 1, 2)
        if kind == _HOST_NAME and at <= end:
            return range(start, at)
    return range(0)


def _skip(message: bytes, at: int, octets: int) -> int:
    """Return what comes behind a vector whose length is in the `octets` octets at `at`."""
    return at + octets + _number(message, at, octets)


def _number(message: bytes, at: int, octets: int) -> int:
    if at + octets > len(message):
        raise IndexError
    return int.from_bytes(message[at : at + octets], "big")
