"""Answers as a client reads them: from anybody, within bounds, and proving nothing (SPEC 5.4, 5.5)."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from transports.soar.core.dns import base32
from transports.soar.core.dns.forms import (
    DIGEST_TYPE,
    LABEL_OCTETS,
    MIN_DS_OCTETS,
    NOTICE_CHARACTERS,
    Form,
)
from transports.soar.core.dns.messages import (
    HEADER,
    IN,
    MAX_MESSAGE,
    MAX_RECORDS,
    RECORD,
    MalformedMessage,
    QType,
    Rcode,
    read_labels,
    skip_labels,
    skip_name,
)

__all__ = ("Answer", "read_answer")

_HEAD: Final = struct.Struct("!5H")  # the header, without the number of additional records
_ANSWERS: Final = 0xF800  # QR and opcode
_RESPONSE: Final = 0x8000
_TRUNCATED: Final = 0x0200
_RCODE: Final = 0x000F
_POINTERS: Final = 0xC0

# An enumeration is slow to ask for its members.
_DS: Final = int(QType.DS)
_TXT: Final = int(QType.TXT)
_SOA: Final = int(QType.SOA)
_NOERROR: Final = int(Rcode.NOERROR)
_NXDOMAIN: Final = int(Rcode.NXDOMAIN)
_SOA_FORM: Final = Form.SOA
_RECORD_OCTETS: Final = RECORD.size

# By type and class as they are asked, and by form: the type of the record that carries octets in the answer section.
_FORMS: Final = {struct.pack("!HH", form.qtype, IN): form for form in Form}
_CARRIERS: Final[dict[Form | None, int]] = {Form.DS: _DS, Form.TXT: _TXT}


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


def read_answer(message: bytes, form: Form | None = None, *, asked: bytes = b"") -> Answer:
    """Return what `message` says, whoever sent it; nothing in it is proven.

    Args:
        message: as it came.
        form: how a payload is carried; by default as the type that was asked has it.
        asked: the question that it is expected to answer, as `Answer.question` has it. With another one it is read too,
            in twice the time.

    Raises:
        MalformedMessage: it isn't an answer to one question, or not a DNS message. An answer that says it was
            truncated may end anywhere behind its question.
    """
    size = len(message)
    if not HEADER.size <= size <= MAX_MESSAGE:
        msg = f"a message of {size} octets"
        raise MalformedMessage(msg)
    id_, flags, questions, answers, authorities = _HEAD.unpack_from(message)
    if flags & _ANSWERS != _RESPONSE or questions != 1:
        msg = f"no answer to one question: flags {flags:#06x}, {questions} questions"
        raise MalformedMessage(msg)
    at = HEADER.size + len(asked)
    # No type or class that is asked has an octet that is a letter.
    if asked and form is not None and message[HEADER.size : at].lower() == asked:
        question = asked
    else:
        end = skip_labels(message, HEADER.size)
        at = end + 4
        if at > size:
            msg = f"the question is cut short by the message's end at octet {size}"
            raise MalformedMessage(msg)
        # Case doesn't matter in the name; in the type the octet 0x41 is no letter.
        question = message[HEADER.size : end].lower() + message[end:at]
        if form is None:
            form = _FORMS.get(message[end:at])
    rcode = flags & _RCODE
    is_truncated = flags & _TRUNCATED != 0
    payload = notice = None
    try:
        payload, notice = _find(message, at, (answers, authorities), form, rcode)
    except MalformedMessage:
        if not is_truncated:
            raise
    # A named tuple's own constructor takes twice as long.
    return tuple.__new__(Answer, (id_, rcode, is_truncated, question, payload, notice))


def _find(
    message: bytes, at: int, counts: tuple[int, int], form: Form | None, rcode: int
) -> tuple[bytes | None, bytes | None]:
    """Return payload and notice from the records that begin at `at`; the first of the right kind counts."""
    answers, authorities = counts
    carrier = _CARRIERS.get(form)
    size = len(message)
    try:
        for index in range(min(answers + authorities, MAX_RECORDS)):
            at = at + 2 if message[at] >= _POINTERS else skip_name(message, at)
            rtype, rclass, _, length = RECORD.unpack_from(message, at)
            begin = at + _RECORD_OCTETS
            at = begin + length
            if at > size:
                msg = f"a record of {length} octets at octet {begin} runs past the message's {size}"
                raise MalformedMessage(msg)
            if rclass != IN:
                continue
            if rtype == carrier and index < answers:
                payload = _READERS[rtype](message, begin, at)
                if payload is not None:
                    return payload, None
            elif rtype == _SOA and index >= answers:
                return _read_soa(message, begin, form, rcode)
    except (IndexError, struct.error):
        msg = f"the head of the record at octet {at} is cut short"
        raise MalformedMessage(msg) from None
    return None, None


def _read_soa(
    message: bytes, begin: int, form: Form | None, rcode: int
) -> tuple[bytes | None, bytes | None]:
    if rcode == _NXDOMAIN:
        return None, _read_notice(message, begin)
    if rcode == _NOERROR and form == _SOA_FORM:
        return _read_names(message, begin), None
    return None, None


def _read_ds(message: bytes, begin: int, end: int) -> bytes | None:
    if end - begin <= MIN_DS_OCTETS or message[begin + 3] != DIGEST_TYPE:
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
        if any(len(label) != LABEL_OCTETS for label in labels[:-1]):
            return None
    try:
        return (base32.decode(b"".join(mname)) + base32.decode(b"".join(rname))) or None
    except ValueError:
        return None


def _read_notice(message: bytes, begin: int) -> bytes | None:
    """Return the octets in the first label of a SOA's MNAME, if it has a notice's length."""
    labels = read_labels(message, begin)
    if not labels or len(labels[0]) != NOTICE_CHARACTERS:
        return None
    try:
        return base32.decode(labels[0])
    except ValueError:
        return None


_READERS: Final = {_DS: _read_ds, _TXT: _read_strings}
