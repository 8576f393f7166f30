"""Questions: how a client asks one, and how a server reads a copy of it (SPEC 5.1, 18.1)."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from racer.errors import LocalProtocolError
from transports.soar.core.dns.messages import (
    EDNS_OCTETS,
    HEADER,
    IN,
    MAX_RECORDS,
    RECORD,
    MalformedMessage,
    QType,
    Rcode,
    skip_labels,
    skip_name,
)

__all__ = ("MIN_EDNS_OCTETS", "Copy", "QType", "build_question", "read_copy")

MIN_EDNS_OCTETS: Final = 512
"""A smaller announcement counts as this (RFC 6891 section 6.2.3), and so does none (RFC 1035 section 4.2.1)."""

_NOERROR: Final = Rcode.NOERROR  # an enumeration is slow to ask for its members
_OPT_TYPE: Final = QType.OPT
_RESPONSE: Final = 0x8000
_NO_QUESTION: Final = 0xF800  # a response, or an opcode other than QUERY

_HEAD: Final = struct.Struct("!HHQ")  # the header, with its four counts as one number
_ALONE: Final = 1 << 48  # one question and nothing else
_ALONE_WITH_ONE: Final = 1 << 48 | 1
_OPT_RECORD: Final = struct.Struct("!BHHIH")  # with the root as owner

_PLAIN: Final = bytes.fromhex("0100 0001 0000 0000 0000")  # RD; one question
_WITH_OPT: Final = bytes.fromhex("0100 0001 0000 0000 0001")
_OPT: Final = _OPT_RECORD.pack(0, QType.OPT, EDNS_OCTETS, 0, 0)
_TYPE_AND_CLASS: Final = struct.Struct("!HH")
_VERSION: Final = 0x00FF_0000

# By type: what follows the name.
_TAILS: Final[dict[int, bytes]] = {each: _TYPE_AND_CLASS.pack(each, IN) for each in QType}
_TAILS_WITH_OPT: Final = {each: tail + _OPT for each, tail in _TAILS.items()}

# Answered to nobody: transfers, whole names' contents, and what only ever stands in the additional section.
_REFUSED_TYPES: Final = frozenset(
    {QType.OPT, QType.TKEY, QType.TSIG, QType.IXFR, QType.AXFR, QType.MAILB, QType.MAILA, QType.ANY}
)


class Copy(NamedTuple):
    """A question as it reached the server.

    Attributes:
        id: the message's, of this copy only.
        flags: the 16 bits after the id.
        fault: why nothing but `failure(copy, copy.fault)` may be sent; `NOERROR` when there is no reason.
        question: name, type and class as spelled, to be sent back so; empty when it could not be read.
        name: its name, lower-case wire octets with the root.
        qtype: the type asked.
        qclass: the class asked; 1 unless `fault` is set.
        edns_size: octets of UDP that the other side takes, at least 512; `None` without an OPT record.
        edns_flags: the OPT record's 32 bits: extended code, version, DO.
    """

    id: int
    flags: int
    fault: Rcode = Rcode.NOERROR
    question: bytes = b""
    name: bytes = b""
    qtype: int = 0
    qclass: int = 0
    edns_size: int | None = None
    edns_flags: int = 0

    @property
    def is_edns(self) -> bool:
        """Whether an answer carries an OPT record (SPEC 5.2)."""
        return self.edns_size is not None

    @property
    def edns_version(self) -> int:
        """The version of EDNS asked for; ours is 0."""
        return self.edns_flags >> 16 & 0xFF

    @property
    def opcode(self) -> int:
        """What kind of message it is; 0 is a question."""
        return self.flags >> 11 & 0xF

    @property
    def rd(self) -> bool:
        """Whether recursion was asked for, which an authority sends back and doesn't offer."""
        return self.flags & 0x0100 != 0

    @property
    def cd(self) -> bool:
        """Whether the other side checks signatures itself, which is sent back too."""
        return self.flags & 0x0010 != 0


def build_question(id: int, name: bytes, qtype: QType, *, edns: bool) -> bytes:  # noqa: A002 - the field's name
    """Return a question for `name` as it goes to a resolver.

    Args:
        id: 0 to 65535, unpredictable.
        name: wire octets with the root, as `Zone.encode` makes them.
        qtype: the type of a form.
        edns: whether to announce 1232 octets; without, an answer has at most 512.

    Raises:
        LocalProtocolError: no message can carry these.
    """
    try:
        if edns:
            return id.to_bytes(2, "big") + _WITH_OPT + name + _TAILS_WITH_OPT[qtype]
        return id.to_bytes(2, "big") + _PLAIN + name + _TAILS[qtype]
    except (KeyError, OverflowError) as exc:
        msg = f"there is no question of type {qtype} with the id {id}"
        raise LocalProtocolError(msg) from exc


def read_copy(message: bytes) -> Copy | None:
    """Return the question in `message`; `None` when nothing at all may be sent back (SPEC 18.1).

    Total: every message of at least 12 octets that is no response gives a `Copy`, and its `fault` says what is wrong
    with it, if anything is. Octets behind the last record are not looked at.
    """
    if len(message) < HEADER.size:
        return None
    id_, flags, counts = _HEAD.unpack_from(message)
    if flags & _NO_QUESTION:
        return None if flags & _RESPONSE else Copy(id_, flags, Rcode.NOTIMP)
    if counts >> 48 != 1:  # RFC 9619
        return Copy(id_, flags, Rcode.FORMERR)
    question = b""
    edns_size, edns_flags = None, 0
    try:
        end = skip_labels(message, HEADER.size)
        qtype, qclass = _TYPE_AND_CLASS.unpack_from(message, end)
        question = message[HEADER.size : end + 4]
        if counts == _ALONE_WITH_ONE:  # what nearly all copies are
            root, rtype, size, edns_flags, length = _OPT_RECORD.unpack_from(message, end + 4)
            if root or rtype != _OPT_TYPE or end + 4 + _OPT_RECORD.size + length > len(message):
                edns_size, edns_flags = _read_opt(message, end + 4, counts)
            else:
                edns_size = max(size, MIN_EDNS_OCTETS)
        elif counts != _ALONE:
            edns_size, edns_flags = _read_opt(message, end + 4, counts)
    except (MalformedMessage, struct.error):
        return Copy(id_, flags, Rcode.FORMERR, question)
    fault = _NOERROR
    if edns_flags & _VERSION:
        fault = Rcode.BADVERS
    elif qclass != IN or qtype in _REFUSED_TYPES:
        fault = Rcode.REFUSED
    name = question[:-4].lower()
    # A named tuple's own constructor takes twice as long.
    return tuple.__new__(
        Copy, (id_, flags, fault, question, name, qtype, qclass, edns_size, edns_flags)
    )


def _read_opt(message: bytes, at: int, counts: int) -> tuple[int | None, int]:
    """Return size and flags of the OPT record in the records that begin at `at`; `(None, 0)` without one.

    Raises:
        MalformedMessage, struct.error: there are too many records, one is cut short, or an OPT record is a second one,
            not in the additional section, or not the root's (RFC 6891 section 6.1.1).
    """
    additional = counts & 0xFFFF
    before = (counts >> 16 & 0xFFFF) + (counts >> 32 & 0xFFFF)
    if before + additional > MAX_RECORDS:
        msg = f"a question with {before + additional} records; at most {MAX_RECORDS} are looked at"
        raise MalformedMessage(msg)
    found: tuple[int | None, int] = (None, 0)
    for index in range(before + additional):
        owner = at
        at = skip_name(message, at)
        rtype, size, flags, length = RECORD.unpack_from(message, at)
        at += RECORD.size + length
        if at > len(message):
            msg = f"a record of {length} octets runs past the message's {len(message)}"
            raise MalformedMessage(msg)
        if rtype == _OPT_TYPE:
            if found[0] is not None or index < before or message[owner]:
                msg = "an OPT record that is not the only one, the root's, and in the additional section"
                raise MalformedMessage(msg)
            found = max(size, MIN_EDNS_OCTETS), flags
    return found
