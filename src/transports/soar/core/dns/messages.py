"""What questions and answers share: codes of the DNS, and names read within bounds (RFC 1035)."""

from __future__ import annotations

import re
import struct
from enum import IntEnum
from typing import Final

from racer.errors import ConfigError, RemoteProtocolError

__all__ = (
    "EDNS_OCTETS",
    "HEADER",
    "IN",
    "MAX_MESSAGE",
    "MAX_NAME",
    "MAX_POINTERS",
    "MAX_RECORDS",
    "NAME_OF_QUESTION",
    "POINTER",
    "RECORD",
    "MalformedMessage",
    "QType",
    "Rcode",
    "read_labels",
    "skip_labels",
    "skip_name",
    "wire_name",
)

MAX_MESSAGE: Final = 65_535
"""Octets of a message (SPEC 5.5)."""

MAX_NAME: Final = 255
"""Octets of a name, root included (RFC 1035 section 2.3.4)."""

MAX_POINTERS: Final = 16
"""That are followed in one name (SPEC 5.5)."""

MAX_RECORDS: Final = 32
"""That are looked at in one message (SPEC 5.5)."""

EDNS_OCTETS: Final = 1232
"""What both sides announce; passes everywhere without fragments (SPEC 5.1)."""

HEADER: Final = struct.Struct("!6H")
"""Id, flags, and the numbers of questions, answers, authorities and additional records."""

RECORD: Final = struct.Struct("!HHIH")
"""Type, class, TTL and length of a record, behind its owner's name; for OPT, RFC 6891 section 6.1.3."""

IN: Final = 1
"""The class of the Internet."""

POINTER: Final = 0xC000
"""What two octets have set that are a pointer in a name's place (RFC 1035 section 4.1.4)."""

NAME_OF_QUESTION: Final = b"\xc0\x0c"
"""A pointer to the first name behind the header."""

_POINTER: Final = 0xC0  # from which on an octet begins one
_MAX_LABEL: Final = 63
_HOST_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")


class QType(IntEnum):
    """Types of records and questions that Soar knows by name."""

    A = 1
    NS = 2
    SOA = 6
    TXT = 16
    AAAA = 28
    OPT = 41
    DS = 43
    TKEY = 249
    TSIG = 250
    IXFR = 251
    AXFR = 252
    MAILB = 253
    MAILA = 254
    ANY = 255


class Rcode(IntEnum):
    """Response codes that Soar sends, or makes something of."""

    NOERROR = 0
    FORMERR = 1
    SERVFAIL = 2
    NXDOMAIN = 3
    NOTIMP = 4
    REFUSED = 5
    BADVERS = 16


class MalformedMessage(RemoteProtocolError):
    """Octets that are no DNS message, or one past the bounds of SPEC 5.5."""


def skip_labels(message: bytes, offset: int) -> int:
    """Return where the name at `offset` ends, which is a question's and thus has no pointer.

    Raises:
        MalformedMessage: it has one, is cut short, too long, or has a label of an unknown kind.
    """
    at = offset
    try:
        while length := message[at]:
            if length > _MAX_LABEL:
                msg = f"a label at octet {at} begins with {length:#x}"
                raise MalformedMessage(msg)
            at += length + 1
    except IndexError:
        msg = f"the name at octet {offset} runs past the message's {len(message)} octets"
        raise MalformedMessage(msg) from None
    if at - offset >= MAX_NAME:
        msg = f"the name at octet {offset} has more than {MAX_NAME} octets"
        raise MalformedMessage(msg)
    return at + 1


def skip_name(message: bytes, offset: int) -> int:
    """Return where the name at `offset` ends; a pointer ends it, and isn't followed.

    Raises:
        MalformedMessage: it is cut short, too long, or has a label of an unknown kind.
    """
    at = offset
    try:
        while length := message[at]:
            if length >= _POINTER:
                at += 1
                break
            if length > _MAX_LABEL:
                msg = f"a label at octet {at} begins with {length:#x}"
                raise MalformedMessage(msg)
            at += length + 1
    except IndexError:
        at = len(message)
    if at >= len(message) or at - offset >= MAX_NAME:
        msg = f"the name at octet {offset} is cut short, or has more than {MAX_NAME} octets"
        raise MalformedMessage(msg)
    return at + 1


def read_labels(message: bytes, offset: int) -> list[bytes]:
    """Return the labels of the name at `offset`, as spelled; pointers lead to earlier octets only.

    Raises:
        MalformedMessage: it is cut short, too long, has a label of an unknown kind, or a pointer that leads on or
            is one too many.
    """
    labels: list[bytes] = []
    octets = 1
    pointers = 0
    at = offset
    earliest = offset
    try:
        while length := message[at]:
            if length >= _POINTER:
                to = (length & 0x3F) << 8 | message[at + 1]
                pointers += 1
                if to >= earliest or pointers > MAX_POINTERS:
                    msg = f"the pointer at octet {at} leads to octet {to}, or is one of more than {MAX_POINTERS}"
                    raise MalformedMessage(msg)
                at = earliest = to
                continue
            octets += length + 1
            if length > _MAX_LABEL or octets > MAX_NAME:
                msg = f"a label at octet {at} begins with {length:#x}, or its name has more than {MAX_NAME} octets"
                raise MalformedMessage(msg)
            labels.append(message[at + 1 : at + 1 + length])
            at += length + 1
    except IndexError:
        msg = f"the name at octet {offset} runs past the message's {len(message)} octets"
        raise MalformedMessage(msg) from None
    return labels


def wire_name(text: str) -> bytes:
    """Return the wire octets of a name that a person wrote, lower case, root included; a last dot doesn't matter.

    Raises:
        ConfigError: it is no name of hosts or zones; says why.
    """
    labels = text.lower().removesuffix(".").split(".")
    for label in labels:
        if not _HOST_LABEL.fullmatch(label):
            msg = (
                f"the name {text!r} has the label {label!r}: labels are 1 to {_MAX_LABEL} of a-z, 0-9, - and _, with"
                " no - at either end; write other names in their xn-- form"
            )
            raise ConfigError(msg)
    wire = b"".join(bytes((len(label),)) + label.encode() for label in labels) + b"\0"
    if len(wire) > MAX_NAME:
        msg = f"the name {text!r} takes {len(wire)} octets; at most {MAX_NAME} are a name"
        raise ConfigError(msg)
    return wire
