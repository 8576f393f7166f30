"""Answers as a server writes them: the forms that carry octets, and the short ones that carry none (SPEC 5.1-5.3, 15.4)."""

from __future__ import annotations

import struct
from bisect import bisect_right
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from racer.errors import LocalProtocolError
from transports.soar.core.dns import base32
from transports.soar.core.dns.forms import (
    DIGEST_TYPE,
    LABEL_OCTETS,
    MAX_SOA_OCTETS,
    MIN_DS_OCTETS,
    MNAME_OCTETS,
    NOTICE_CHARACTERS,
    NOTICE_OCTETS,
    Form,
)
from transports.soar.core.dns.messages import (
    EDNS_OCTETS,
    HEADER,
    IN,
    MAX_MESSAGE,
    NAME_OF_QUESTION,
    POINTER,
    RECORD,
    QType,
    Rcode,
)
from transports.soar.core.dns.reading import Answer, read_answer

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

# An enumeration is slow to ask for its members.
_DS: Final = Form.DS
_TXT: Final = Form.TXT
_NXDOMAIN: Final = int(Rcode.NXDOMAIN)

_STRING: Final = 255  # octets of one of TXT's strings
_RESPONSE: Final = 0x8000
_AUTHORITATIVE: Final = 0x8400  # QR and AA
_OPCODE: Final = 0x7800
_TRUNCATED: Final = 0x0200
_KEPT: Final = 0x0110  # RD and CD go back as they came
_RCODE: Final = 0x000F
_DO: Final = 0x8000  # goes back as it came (RFC 3225 section 3)


def _opt_record(flags: int) -> bytes:
    return b"\0" + RECORD.pack(QType.OPT, EDNS_OCTETS, flags, 0)


def _record_start(qtype: QType) -> bytes:
    """Return type, class and TTL 0, behind which the length comes."""
    return RECORD.pack(qtype, IN, 0, 0)[:-2]


_OPTS: Final = {flags: _opt_record(flags) for flags in (0, _DO)}
_OPT_OCTETS: Final = len(_OPTS[0])
_PLAIN_OCTETS: Final = HEADER.size + len(NAME_OF_QUESTION) + RECORD.size  # beside question and data
_DS_HEAD: Final = struct.Struct("!10sH3sB")
_DS_START: Final = NAME_OF_QUESTION + _record_start(QType.DS)
_TXT_START: Final = NAME_OF_QUESTION + _record_start(QType.TXT)
_SOA_START: Final = _record_start(QType.SOA)
# Serial, refresh, retry, expire; then MINIMUM 0, so that no resolver keeps what this SOA stands in (SPEC 5.2).
_SOA_NUMBERS: Final = struct.pack("!5I", 1, 3600, 600, 86_400, 0)
_HEADER_OCTETS: Final = HEADER.size
_HOSTMASTER: Final = b"\x0ahostmaster"
_NOTICE_LENGTH: Final = bytes((NOTICE_CHARACTERS,))


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


@lru_cache(maxsize=2048)
def room(form: Form, question_length: int, limit: int, *, edns: bool) -> int:
    """Return how many octets an answer of at most `limit` carries; 0 or less is none.

    Args:
        form: how.
        question_length: octets of `Copy.question`.
        limit: octets of the whole message (SPEC 5.3).
        edns: whether the copy had an OPT record.
    """
    left = min(limit, MAX_MESSAGE) - _PLAIN_OCTETS - question_length
    if edns:
        left -= _OPT_OCTETS
    if form == _DS:
        left -= 1
    elif form == _TXT:
        left -= (left + 255) // 256  # one octet of length for each 255
    else:
        left = bisect_right(_SOA_SIZES, left - len(_SOA_NUMBERS)) - 1
    return max(left, 0)


def build_answer(copy: Copy, form: Form, payload: bytes, zone: Zone) -> bytes:
    """Return the answer to `copy` that carries `payload` in `form`; `room` says whether it fits.

    Raises:
        LocalProtocolError: the form can't carry so many or so few octets.
    """
    octets = len(payload)
    if form == _DS:
        if not MIN_DS_OCTETS <= octets < MAX_MESSAGE:
            raise _misfit(form, payload)
        head = _DS_HEAD.pack(_DS_START, octets + 1, payload[:3], DIGEST_TYPE)
        body = payload[3:]
    elif form == _TXT:
        body = _strings(payload)
        if len(body) > MAX_MESSAGE:
            raise _misfit(form, payload)
        head = _TXT_START + len(body).to_bytes(2, "big")
    else:
        if octets > MAX_SOA_OCTETS:
            raise _misfit(form, payload)
        mname, rname = payload[:MNAME_OCTETS], payload[MNAME_OCTETS:]
        return _negative(copy, 0, zone, _spell_name(mname) + _spell_name(rname))
    flags = _AUTHORITATIVE | copy.flags & _KEPT
    if copy.edns_size is None:
        return b"".join((HEADER.pack(copy.id, flags, 1, 1, 0, 0), copy.question, head, body))
    header = HEADER.pack(copy.id, flags, 1, 1, 0, 1)
    return b"".join((header, copy.question, head, body, _OPTS[copy.edns_flags & _DO]))


def nodata(copy: Copy, zone: Zone) -> bytes:
    """Return what says that the name is there and has nothing of that type; `copy` asks for a name in `zone`."""
    return _without_records(copy, 0, _plain_soa(_apex_place(copy, zone)))


def nxdomain(copy: Copy, zone: Zone, notice: bytes | None = None) -> bytes:
    """Return what says that there is no such name, with the octets of a notice if there is one (SPEC 15.4).

    Raises:
        LocalProtocolError: a notice has `NOTICE_OCTETS`.
    """
    if notice is None:
        return _without_records(copy, _NXDOMAIN, _plain_soa(_apex_place(copy, zone)))
    apex = _apex(copy, zone)
    if len(notice) != NOTICE_OCTETS:
        msg = f"a notice of {len(notice)} octets; it has {NOTICE_OCTETS}"
        raise LocalProtocolError(msg)
    names = (_NOTICE_LENGTH, base32.encode(notice), apex, _HOSTMASTER, apex)
    return _negative(copy, _NXDOMAIN, zone, b"".join(names))


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


def _negative(copy: Copy, rcode: int, zone: Zone, names: bytes) -> bytes:
    """Return an answer without records but the zone's SOA; `names` are MNAME and RNAME in wire octets."""
    return _without_records(copy, rcode, _soa(_apex(copy, zone), names))


def _without_records(copy: Copy, rcode: int, soa: bytes) -> bytes:
    opt = _opt(copy)
    flags = _AUTHORITATIVE | copy.flags & _KEPT | rcode
    header = HEADER.pack(copy.id, flags, 1, 0, 1, 1 if opt else 0)
    return b"".join((header, copy.question, soa, opt))


@cache
def _plain_soa(place: int) -> bytes:
    """Return the SOA record of a zone whose name stands at octet `place` of the message: one of some 250."""
    apex = (POINTER | place).to_bytes(2, "big")
    return _soa(apex, apex + _HOSTMASTER + apex)


def _soa(owner: bytes, names: bytes) -> bytes:
    length = len(names) + len(_SOA_NUMBERS)
    return b"".join((owner, _SOA_START, length.to_bytes(2, "big"), names, _SOA_NUMBERS))


def _apex(copy: Copy, zone: Zone) -> bytes:
    """Return a pointer to the zone's name within the question's."""
    return (POINTER | _apex_place(copy, zone)).to_bytes(2, "big")


def _apex_place(copy: Copy, zone: Zone) -> int:
    return _HEADER_OCTETS + len(copy.name) - len(zone.wire)


def _opt(copy: Copy, rcode: int = 0) -> bytes:
    """Return the OPT record of an answer; nothing if the copy had none (RFC 6891 section 7)."""
    if copy.edns_size is None:
        return b""
    return _OPTS[copy.edns_flags & _DO] if rcode < 16 else _opt_record(rcode >> 4 << 24)


def _strings(payload: bytes) -> bytes:
    """Return the strings of one TXT record, all of 255 octets but the last."""
    whole = (len(payload) - 1) // _STRING * _STRING
    last = payload[whole:]
    if whole <= 0:
        return bytes((len(last),)) + last
    full = [payload[start : start + _STRING] for start in range(0, whole, _STRING)]
    return b"".join((b"\xff", b"\xff".join(full), bytes((len(last),)), last))


def _spell_name(payload: bytes) -> bytes:
    """Return a name that carries `payload`, at most 156 octets, in full labels and a last one."""
    if not payload:
        return b"\0"
    text = base32.encode(payload)
    whole = (len(text) - 1) // LABEL_OCTETS * LABEL_OCTETS
    full = [b"?" + text[start : start + LABEL_OCTETS] for start in range(0, whole, LABEL_OCTETS)]
    return b"".join((*full, bytes((len(text) - whole,)), text[whole:], b"\0"))


def _spelled_octets(octets: int) -> int:
    characters = (8 * octets + 4) // 5
    return characters + (characters + LABEL_OCTETS - 1) // LABEL_OCTETS + 1


# Octets of both names of a SOA, by the payload's.
_SOA_SIZES: Final = [
    _spelled_octets(min(octets, MNAME_OCTETS)) + _spelled_octets(max(octets - MNAME_OCTETS, 0))
    for octets in range(MAX_SOA_OCTETS + 1)
]


def _misfit(form: Form, payload: bytes) -> LocalProtocolError:
    return LocalProtocolError(f"the form {form.name} cannot carry {len(payload)} octets")


APEX_SOA: Final = Records(
    1, 0, _soa(NAME_OF_QUESTION, NAME_OF_QUESTION + _HOSTMASTER + NAME_OF_QUESTION)
)
"""The SOA record of whatever zone was asked for it; the one that negative answers carry."""
