"""Answers: the three forms that carry octets, and the short ones that carry none (SPEC 5.1-5.5, 15.4)."""

from __future__ import annotations

import struct
from bisect import bisect_right
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple, assert_never

from racer.errors import LocalProtocolError
from transports.soar.core.dns import base32
from transports.soar.core.dns.messages import (
    EDNS_OCTETS,
    HEADER,
    MAX_MESSAGE,
    MAX_RECORDS,
    RECORD,
    MalformedMessage,
    QType,
    Rcode,
    read_labels,
    skip_name,
)

if TYPE_CHECKING:
    from transports.soar.core.dns.questions import Copy
    from transports.soar.core.dns.zone import Zone

__all__ = (
    "APEX_SOA",
    "MAX_SOA_OCTETS",
    "MIN_DS_OCTETS",
    "NOTICE_OCTETS",
    "Answer",
    "Form",
    "Records",
    "build_answer",
    "failure",
    "nodata",
    "nxdomain",
    "read_answer",
    "room",
    "truncated",
    "with_records",
)

NOTICE_OCTETS: Final = 23
"""Of a notice: code 1, known_for 2, last_stream 4, mac 16 (SPEC 15.4)."""

MIN_DS_OCTETS: Final = 4
"""A DS record's head takes three, and no resolver was asked what it makes of an empty digest."""

_NAME_OCTETS: Final = 156  # in 250 characters, four labels, 255 octets of name
MAX_SOA_OCTETS: Final = 2 * _NAME_OCTETS
"""What the two names of a SOA record carry (SPEC 5.1)."""

_DIGEST_TYPE: Final = 250  # unassigned; BIND drops 1, 2 and 4 unless the digest has their length
_IN: Final = 1
_LABEL: Final = 63
_STRING: Final = 255  # octets of one of TXT's strings
_POINTER: Final = 0xC000
_NOTICE_CHARACTERS: Final = 37

_RESPONSE: Final = 0x8000
_OPCODE: Final = 0x7800
_AUTHORITATIVE: Final = 0x8400  # QR and AA
_TRUNCATED: Final = 0x0200
_KEPT: Final = 0x0110  # RD and CD go back as they came
_RCODE: Final = 0x000F
_DO: Final = 0x8000  # goes back as it came (RFC 3225 section 3)

_NAME_OF_QUESTION: Final = b"\xc0\x0c"
_OPT_OCTETS: Final = 11
_RECORD_OCTETS: Final = len(_NAME_OF_QUESTION) + RECORD.size
_DS_HEAD: Final = _NAME_OF_QUESTION + RECORD.pack(QType.DS, _IN, 0, 0)[:-2]
_OPTS: Final = {ttl: b"\0" + RECORD.pack(QType.OPT, EDNS_OCTETS, ttl, 0) for ttl in (0, _DO)}
_TXT_HEAD: Final = _NAME_OF_QUESTION + RECORD.pack(QType.TXT, _IN, 0, 0)[:-2]
_SOA_HEAD: Final = RECORD.pack(QType.SOA, _IN, 0, 0)[:-2]
# Serial, refresh, retry, expire; then MINIMUM 0, so that no resolver keeps what this SOA stands in (SPEC 5.2).
_SOA_NUMBERS: Final = struct.pack("!5I", 1, 3600, 600, 86_400, 0)
_HOSTMASTER: Final = b"\x0ahostmaster"


class Form(IntEnum):
    """How an answer carries octets (SPEC 5.1)."""

    DS = 0
    TXT = 1
    SOA = 2

    @property
    def qtype(self) -> QType:
        """The type asked for it."""
        return _ASKED[self]


_ASKED: Final = (QType.DS, QType.TXT, QType.A)
_FORMS: Final[dict[int, Form]] = {form.qtype: form for form in Form}


class Answer(NamedTuple):
    """What a client finds in an answer.

    Attributes:
        id: the message's.
        rcode: the low four bits of the code, whatever they are.
        truncated: whether TC is set: the answer was too big for its path (SPEC 12.4).
        question: lower-case name, type and class; with the id, what a pending question is known by.
        payload: the octets carried in the form asked for, to be opened; `None` when there are none.
        notice: the octets of what may be a notice (SPEC 15.4), to be checked; only with NXDOMAIN.
    """

    id: int
    rcode: int
    truncated: bool
    question: bytes
    payload: bytes | None = None
    notice: bytes | None = None


class Records(NamedTuple):
    """Records that make an answer.

    Attributes:
        answers: how many are in the answer section.
        additional: how many follow in the additional one.
        wire: all of them, with pointers into a message that begins with header and question.
    """

    answers: int
    additional: int
    wire: bytes


# --- the server's side ----------------------------------------------------------------------


def room(form: Form, question_length: int, limit: int, *, edns: bool) -> int:
    """Return how many octets an answer of at most `limit` carries; 0 or less is none.

    Args:
        form: how.
        question_length: octets of `Copy.question`.
        limit: octets of the whole message (SPEC 5.3).
        edns: whether the copy had an OPT record.
    """
    left = min(limit, MAX_MESSAGE) - HEADER.size - _RECORD_OCTETS - question_length
    if edns:
        left -= _OPT_OCTETS
    match form:
        case Form.DS:
            left -= 1
        case Form.TXT:
            left -= (left + 255) // 256  # one octet of length for each 255
        case Form.SOA:
            left = bisect_right(_SOA_SIZES, left - len(_SOA_NUMBERS)) - 1
        case _:
            assert_never(form)
    return max(left, 0)


def build_answer(copy: Copy, form: Form, payload: bytes, zone: Zone) -> bytes:
    """Return the answer to `copy` that carries `payload` in `form`; `room` says whether it fits.

    Raises:
        LocalProtocolError: the form can't carry so many or so few octets.
    """
    match form:
        case Form.DS:
            if len(payload) < MIN_DS_OCTETS:
                raise _misfit(form, payload)
            head = _DS_HEAD
            body = b"%b\xfa%b" % (payload[:3], payload[3:])
        case Form.TXT:
            head = _TXT_HEAD
            body = _strings(payload)
        case Form.SOA:
            if len(payload) > MAX_SOA_OCTETS:
                raise _misfit(form, payload)
            names = _spell_name(payload[:_NAME_OCTETS]), _spell_name(payload[_NAME_OCTETS:])
            return _negative(copy, Rcode.NOERROR, zone, *names)
        case _:
            assert_never(form)
    if len(body) > MAX_MESSAGE:
        raise _misfit(form, payload)
    opt = _opt(copy)
    flags = _AUTHORITATIVE | copy.flags & _KEPT
    header = HEADER.pack(copy.id, flags, 1, 1, 0, 1 if opt else 0)
    return b"".join((header, copy.question, head, len(body).to_bytes(2, "big"), body, opt))


def nodata(copy: Copy, zone: Zone) -> bytes:
    """Return what says that the name is there and has nothing of that type; `copy` asks for a name in `zone`."""
    apex = _apex(copy, zone)
    return _negative(copy, Rcode.NOERROR, zone, apex, _HOSTMASTER + apex)


def nxdomain(copy: Copy, zone: Zone, notice: bytes | None = None) -> bytes:
    """Return what says that there is no such name, with the octets of a notice if there is one (SPEC 15.4).

    Raises:
        LocalProtocolError: a notice has `NOTICE_OCTETS`.
    """
    apex = mname = _apex(copy, zone)
    if notice is not None:
        if len(notice) != NOTICE_OCTETS:
            msg = f"a notice of {len(notice)} octets; it has {NOTICE_OCTETS}"
            raise LocalProtocolError(msg)
        mname = bytes((_NOTICE_CHARACTERS,)) + base32.encode(notice) + apex
    return _negative(copy, Rcode.NXDOMAIN, zone, mname, _HOSTMASTER + apex)


def truncated(copy: Copy) -> bytes:
    """Return what says that the answer doesn't fit, and is there by TCP."""
    opt = _opt(copy)
    flags = _AUTHORITATIVE | _TRUNCATED | copy.flags & _KEPT
    return HEADER.pack(copy.id, flags, 1, 0, 0, 1 if opt else 0) + copy.question + opt


def failure(copy: Copy, rcode: Rcode) -> bytes:
    """Return `rcode` and nothing else; above 15 it needs a copy with EDNS, which alone can ask for that."""
    opt = _opt(copy, rcode)
    flags = _RESPONSE | copy.flags & (_KEPT | _OPCODE) | rcode & _RCODE
    questions = 1 if copy.question else 0
    return HEADER.pack(copy.id, flags, questions, 0, 0, 1 if opt else 0) + copy.question + opt


def with_records(copy: Copy, records: Records) -> bytes:
    """Return a positive answer made of `records`."""
    opt = _opt(copy)
    flags = _AUTHORITATIVE | copy.flags & _KEPT
    header = HEADER.pack(
        copy.id, flags, 1, records.answers, 0, records.additional + (1 if opt else 0)
    )
    return b"".join((header, copy.question, records.wire, opt))


def _negative(copy: Copy, rcode: Rcode, zone: Zone, mname: bytes, rname: bytes) -> bytes:
    """Return an answer without records but the zone's SOA, whose names are given in wire octets."""
    opt = _opt(copy)
    flags = _AUTHORITATIVE | copy.flags & _KEPT | rcode
    header = HEADER.pack(copy.id, flags, 1, 0, 1, 1 if opt else 0)
    return b"".join((header, copy.question, _soa(_apex(copy, zone), mname, rname), opt))


def _soa(owner: bytes, mname: bytes, rname: bytes) -> bytes:
    body = mname + rname + _SOA_NUMBERS
    return b"".join((owner, _SOA_HEAD, len(body).to_bytes(2, "big"), body))


def _apex(copy: Copy, zone: Zone) -> bytes:
    """Return a pointer to the zone's name within the question's."""
    at = HEADER.size + len(copy.name) - len(zone.wire)
    return (_POINTER | at).to_bytes(2, "big")


def _opt(copy: Copy, rcode: Rcode = Rcode.NOERROR) -> bytes:
    """Return the OPT record of an answer; nothing if the copy had none (RFC 6891 section 7)."""
    if copy.edns_size is None:
        return b""
    ttl = rcode >> 4 << 24 | copy.edns_flags & _DO
    return _OPTS.get(ttl) or b"\0" + RECORD.pack(QType.OPT, EDNS_OCTETS, ttl, 0)


def _strings(payload: bytes) -> bytes:
    """Return the strings of one TXT record, all of 255 octets but the last."""
    if len(payload) <= _STRING:
        return bytes((len(payload),)) + payload
    starts = range(0, len(payload), _STRING)
    pieces = [payload[start : start + _STRING] for start in starts]
    return b"".join([bytes((len(piece),)) + piece for piece in pieces])


def _spell_name(payload: bytes) -> bytes:
    """Return a name that carries `payload`, at most 156 octets, in full labels and a last one."""
    text = base32.encode(payload)
    labels = [text[start : start + _LABEL] for start in range(0, len(text), _LABEL)]
    return b"".join([bytes((len(label),)) + label for label in labels]) + b"\0"


def _spelled_octets(octets: int) -> int:
    characters = (8 * octets + 4) // 5
    return characters + (characters + _LABEL - 1) // _LABEL + 1


# Octets of both names of a SOA, by the payload's.
_SOA_SIZES: Final = [
    _spelled_octets(min(octets, _NAME_OCTETS)) + _spelled_octets(max(octets - _NAME_OCTETS, 0))
    for octets in range(MAX_SOA_OCTETS + 1)
]


def _misfit(form: Form, payload: bytes) -> LocalProtocolError:
    return LocalProtocolError(f"the form {form.name} cannot carry {len(payload)} octets")


APEX_SOA: Final = Records(
    1, 0, _soa(_NAME_OF_QUESTION, _NAME_OF_QUESTION, _HOSTMASTER + _NAME_OF_QUESTION)
)
"""The SOA record of whatever zone was asked for it; the one that negative answers carry."""


# --- the client's side ----------------------------------------------------------------------


def read_answer(message: bytes, form: Form | None = None) -> Answer:
    """Return what `message` says, whoever sent it; nothing in it is proven.

    Args:
        message: as it came.
        form: how a payload is carried; by default as the type that was asked has it.

    Raises:
        MalformedMessage: it isn't an answer to one question, or not a DNS message. An answer that says it was
            truncated may end anywhere behind its question.
    """
    size = len(message)
    if not HEADER.size <= size <= MAX_MESSAGE:
        msg = f"a message of {size} octets"
        raise MalformedMessage(msg)
    id_, flags, questions, answers, authorities, _ = HEADER.unpack_from(message)
    if flags & (_RESPONSE | _OPCODE) != _RESPONSE or questions != 1:
        msg = f"no answer to one question: flags {flags:#06x}, {questions} questions"
        raise MalformedMessage(msg)
    end = skip_name(message, HEADER.size, pointers=False)
    if end + 4 > size:
        msg = f"the question is cut short by the message's end at octet {size}"
        raise MalformedMessage(msg)
    # Case doesn't matter in the name; in the type the octet 0x41 is no letter.
    question = message[HEADER.size : end].lower() + message[end : end + 4]
    if form is None:
        form = _FORMS.get(int.from_bytes(question[-4:-2], "big"))
    rcode = flags & _RCODE
    is_truncated = flags & _TRUNCATED != 0
    payload = notice = None
    try:
        payload, notice = _find(message, end + 4, (answers, authorities), form, rcode)
    except MalformedMessage:
        if not is_truncated:
            raise
    return Answer(id_, rcode, is_truncated, question, payload, notice)


def _find(
    message: bytes, at: int, counts: tuple[int, int], form: Form | None, rcode: int
) -> tuple[bytes | None, bytes | None]:
    """Return payload and notice from the records that begin at `at`; the first of the right kind counts."""
    answers, authorities = counts
    for index in range(min(answers + authorities, MAX_RECORDS)):
        rtype, begin, at = _next_record(message, at)
        if index < answers:
            payload = None
            if rtype == QType.DS and form is Form.DS:
                payload = _read_ds(message, begin, at)
            elif rtype == QType.TXT and form is Form.TXT:
                payload = _read_strings(message, begin, at)
            if payload is not None:
                return payload, None
        elif rtype == QType.SOA:
            if rcode == Rcode.NXDOMAIN:
                return None, _read_notice(message, begin)
            if rcode == Rcode.NOERROR and form is Form.SOA:
                return _read_names(message, begin), None
    return None, None


def _next_record(message: bytes, at: int) -> tuple[int, int, int]:
    """Return type, first octet and end of the data of the record at `at`; type 0 stands for other classes."""
    at = skip_name(message, at)
    begin = at + RECORD.size
    if begin > len(message):
        msg = f"the record's head at octet {at} is cut short"
        raise MalformedMessage(msg)
    rtype, rclass, _, length = RECORD.unpack_from(message, at)
    if begin + length > len(message):
        msg = f"a record of {length} octets at octet {begin} runs past the message's {len(message)}"
        raise MalformedMessage(msg)
    return rtype if rclass == _IN else 0, begin, begin + length


def _read_ds(message: bytes, begin: int, end: int) -> bytes | None:
    if end - begin <= MIN_DS_OCTETS or message[begin + 3] != _DIGEST_TYPE:
        return None
    return message[begin : begin + 3] + message[begin + 4 : end]


def _read_strings(message: bytes, begin: int, end: int) -> bytes | None:
    """Return what the strings of a TXT record hold together; `None` if that is nothing, or they don't fill it."""
    pieces = []
    at = begin
    while at < end:
        past = at + 1 + message[at]
        pieces.append(message[at + 1 : past])
        at = past
    return b"".join(pieces) or None if at == end else None


def _read_names(message: bytes, begin: int) -> bytes | None:
    """Return what a SOA's names carry; `None` if they don't look like it."""
    mname = read_labels(message, begin)
    rname = read_labels(message, skip_name(message, begin))
    for labels in (mname, rname):
        if any(len(label) != _LABEL for label in labels[:-1]):
            return None
    try:
        return (base32.decode(b"".join(mname)) + base32.decode(b"".join(rname))) or None
    except ValueError:
        return None


def _read_notice(message: bytes, begin: int) -> bytes | None:
    """Return the octets in the first label of a SOA's MNAME, if it has a notice's length."""
    labels = read_labels(message, begin)
    if not labels or len(labels[0]) != _NOTICE_CHARACTERS:
        return None
    try:
        return base32.decode(labels[0])
    except ValueError:
        return None
