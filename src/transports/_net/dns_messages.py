"""Questions for addresses, and what is in the answers (RFC 1035). Pure: ids come in, and nothing here waits.

dnspython reads and writes the messages. How long it takes to read a name grows with the square of its labels, so that
an answer of 4 KB can be made to cost a second; each message is therefore measured before it is read.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdataclass
import dns.rdatatype

from racer.errors import LocalProtocolError
from transports._net.addresses import Family
from transports._net.special_names import is_impossible

__all__ = ("MAX_MESSAGE", "Question", "Reply", "decode_reply", "encode_question")

MAX_MESSAGE: Final = 16_384
"""Octets of an answer that is read; 500 addresses take 14,000, and only 16 of each family are ever tried."""

_UDP_PAYLOAD: Final = 1232  # octets; DNS Flag Day 2020, what passes without fragments
_PAD_TO: Final = 128  # octets; RFC 8467 §4.1
_MAX_RECORDS: Final = 512  # in the answer section
_MAX_LABELS: Final = 128  # RFC 1035 §2.3.4: 255 octets
_MAX_COST: Final = 40_000  # squared labels; some 5 ms
_UNKNOWN_COST: Final = 8_000  # for a record whose names are not looked into
_HEADER: Final = struct.Struct("!6H")
_RECORD: Final = struct.Struct("!HHIH")

_TYPES: Final = {Family.IPV6: dns.rdatatype.AAAA, Family.IPV4: dns.rdatatype.A}

# Whatever dnspython makes of garbage.
_MALFORMED: Final = (
    dns.exception.DNSException,
    LookupError,
    struct.error,
    UnicodeError,
    ValueError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question for the addresses of one family.

    Attributes:
        name: lower-case A-labels, perhaps with a trailing dot; taken as absolute in any case.
        family: A or AAAA.
        id: 0 to 65535; unpredictable where the answer could be forged (RFC 5452 §9.2), 0 for DoH (RFC 8484 §4.1).
        edns: whether to offer more than 512 octets (RFC 6891).
        padded: whether to hide the name's length, which helps where the question is encrypted (RFC 8467).
    """

    name: str
    family: Family
    id: int
    edns: bool = True
    padded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What an answer says.

    Attributes:
        rcode: `NOERROR`, `NXDOMAIN`, `SERVFAIL` and so on.
        addresses: those that can be connected to, in the answer's order; of the question's family.
        is_truncated: whether there is more, to be asked for over a stream; `addresses` is empty then.
        flaw: what is wrong with it, in words; empty when nothing is.
    """

    rcode: str = "NOERROR"
    addresses: tuple[str, ...] = ()
    is_truncated: bool = False
    flaw: str = ""


def encode_question(question: Question) -> bytes:
    """Return the question's octets.

    Raises:
        LocalProtocolError: no message can carry such a name.
    """
    try:
        message = dns.message.make_query(
            dns.name.from_text(question.name),
            _TYPES[question.family],
            use_edns=0 if question.edns else False,
            payload=_UDP_PAYLOAD if question.edns else None,
            id=question.id,
            pad=_PAD_TO if question.padded and question.edns else 0,
        )
        return message.to_wire()
    except _MALFORMED as exc:
        msg = f"no question can be asked for a name of {len(question.name)} characters: {exc}"
        raise LocalProtocolError(msg) from exc


def decode_reply(data: bytes, question: Question) -> Reply | None:
    """Return what `data` says; `None` when it is no answer to `question`, whoever sent it (RFC 5452 §9.1).

    Total on any octets, in a few milliseconds.
    """
    if not _HEADER.size <= len(data) <= MAX_MESSAGE:
        return None
    number, flags, questions, answers, _, _ = _HEADER.unpack_from(data)
    is_answer = flags & dns.flags.QR and not flags & 0x7800  # the opcode; 0 is QUERY
    if number != question.id or not is_answer or questions > 1:
        return None
    rcode = str(dns.rcode.to_text(dns.rcode.Rcode.make(flags & 0x000F)))
    if not questions:
        # A server that cannot read a question cannot repeat it (RFC 1035 §4.1.1).
        return Reply(rcode=rcode) if rcode == "FORMERR" else None
    is_truncated = bool(flags & dns.flags.TC)
    message = _read(data, 0 if is_truncated else answers)
    if message is None or not _asks(message, question):
        return None
    return Reply(rcode=rcode, is_truncated=True) if is_truncated else _reply(message, rcode)


def _read(data: bytes, answers: int) -> dns.message.QueryMessage | None:
    part = _affordable(data, answers)
    if part is None:
        return None
    try:
        message = dns.message.from_wire(part)
    except _MALFORMED:
        return None
    return message if isinstance(message, dns.message.QueryMessage) else None


def _asks(message: dns.message.Message, question: Question) -> bool:
    section = message.question[0]
    return (
        section.name == dns.name.from_text(question.name)  # whatever the case
        and section.rdtype == _TYPES[question.family]
        and section.rdclass == dns.rdataclass.IN
    )


def _reply(message: dns.message.QueryMessage, rcode: str) -> Reply:
    if rcode != "NOERROR":
        return Reply(rcode=rcode)
    try:
        rrset = message.resolve_chaining().answer
    except dns.message.ChainTooLong:
        return Reply(flaw="a chain of aliases without end")
    addresses = () if rrset is None else tuple(str(rdata.address) for rdata in rrset)
    usable = tuple(address for address in addresses if not is_impossible(address))
    if addresses and not usable:
        return Reply(flaw=f"{addresses[0]}, where nothing can be connected to")
    return Reply(addresses=usable)


def _affordable(data: bytes, answers: int) -> bytes | None:
    """Return header, question and answers as a message of its own; `None` if they are cut off or take long to read.

    Authority and additional section say nothing that is needed here, and cannot spoil what does.
    """
    if answers > _MAX_RECORDS:
        return None
    try:
        end, labels = _skip_name(data, _HEADER.size)
        end += 4
        cost = labels**2
        for _ in range(answers):
            end, labels = _skip_name(data, end)
            kind, _, _, length = _RECORD.unpack_from(data, end)
            end += _RECORD.size
            cost += labels**2 + _data_cost(data, end, kind)
            end += length
            if cost > _MAX_COST:
                return None
    except (LookupError, struct.error):
        return None
    if end > len(data):
        return None
    number, flags, *_ = _HEADER.unpack_from(data)
    return _HEADER.pack(number, flags, 1, answers, 0, 0) + data[_HEADER.size : end]


def _data_cost(data: bytes, offset: int, kind: int) -> int:
    if kind in _TYPES.values():
        return 0
    if kind in {dns.rdatatype.CNAME, dns.rdatatype.DNAME}:
        labels = _skip_name(data, offset)[1]
        return labels**2
    return _UNKNOWN_COST


def _skip_name(data: bytes, offset: int) -> tuple[int, int]:
    """Return where a name ends, and how many labels it has; pointers lead backward only (RFC 1035 §4.1.4).

    Raises:
        LookupError: it is cut off, or is none.
    """
    end: int | None = None
    limit = offset
    for labels in range(_MAX_LABELS):
        while (size := data[offset]) >= 0xC0:
            target = (size & 0x3F) << 8 | data[offset + 1]
            end = offset + 2 if end is None else end
            if target >= limit:
                raise LookupError(offset)
            offset = limit = target
        if size >= 0x40:
            raise LookupError(offset)
        offset += size + 1
        if not size:
            return (offset if end is None else end), labels
    raise LookupError(offset)
