"""Questions to resolvers, and what their answers say (RFC 1035, RFC 6891). Pure."""

from __future__ import annotations

import contextlib
import ipaddress
import struct
from dataclasses import dataclass
from typing import Final

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype

from racer.errors import RemoteProtocolError

__all__ = ("MAX_MESSAGE", "Answer", "Question", "decode", "encode", "is_public")

MAX_MESSAGE: Final = 65_535
"""Octets of a message, as many as its length can say over a stream (RFC 7766 §8)."""

_MAX_READ: Final = (
    8_192  # octets of an answer that is looked into; reading a long one costs a second
)
_HEADER: Final = 12
_MALFORMED: Final = (
    dns.exception.DNSException,
    LookupError,
    struct.error,
    UnicodeError,
    ValueError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question.

    Attributes:
        name: in A-labels, in the case in which it is to be asked.
        kind: `A`, `TXT`, `SOA`, …
        id: 0 to 65535.
        payload: octets of the largest answer that a datagram may bring; 0 asks without EDNS.
        dnssec: whether signatures are wanted, which make an answer long.
    """

    name: str
    kind: str = "A"
    id: int = 0
    payload: int = 1232  # DNS Flag Day 2020
    dnssec: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an answer says.

    Attributes:
        rcode: `NOERROR`, `NXDOMAIN`, `SERVFAIL` and so on.
        addresses: of A and AAAA records, in the answer's order.
        texts: of TXT records.
        records: how many there are in the answer section.
        owner_soa: whose SOA record stands in the answer or beside it; empty if none does.
        is_truncated: whether there is more than a datagram could bring.
        has_edns: whether it speaks EDNS.
        keeps_case: whether it repeats the question's name letter for letter ("0x20").
        size: octets.
    """

    rcode: str
    addresses: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    records: int = 0
    owner_soa: str = ""
    is_truncated: bool = False
    has_edns: bool = False
    keeps_case: bool = True
    size: int = 0


def encode(question: Question) -> bytes:
    """Return the question's octets.

    Raises:
        ValueError: no message can carry such a name.
    """
    try:
        message = dns.message.make_query(
            dns.name.from_text(question.name),
            question.kind,
            use_edns=0 if question.payload else False,
            payload=question.payload or None,
            want_dnssec=question.dnssec,
            id=question.id,
        )
        return message.to_wire()
    except _MALFORMED as exc:
        msg = f"no question can be asked for this name: {exc!s:.80}"
        raise ValueError(msg) from exc


def decode(data: bytes, question: Question) -> Answer | None:
    """Return what `data` says; `None` when it is no answer to `question` (RFC 5452 §9.1).

    Raises:
        RemoteProtocolError: it is, and cannot be read.
    """
    if len(data) < _HEADER or struct.unpack_from("!H", data)[0] != question.id:
        return None
    flags = struct.unpack_from("!H", data, 2)[0]
    if not flags & dns.flags.QR:
        return None
    if len(data) > _MAX_READ:
        return Answer(rcode=dns.rcode.to_text(dns.rcode.Rcode.make(flags & 15)), size=len(data))
    is_truncated = bool(flags & dns.flags.TC)
    try:
        # What did not fit may be cut in the middle of a record.
        message = dns.message.from_wire(data, question_only=is_truncated)
        return _answer(message, question, data, is_truncated=is_truncated)
    except _MALFORMED as exc:
        msg = f"an answer that cannot be read: {exc!s:.80}"
        raise RemoteProtocolError(msg) from exc


def _answer(
    message: dns.message.Message, question: Question, data: bytes, *, is_truncated: bool
) -> Answer | None:
    asked = message.question[0] if message.question else None
    name = dns.name.from_text(question.name)
    if asked is not None and asked.name != name:
        return None
    addresses: list[str] = []
    texts: list[str] = []
    for rrset in message.answer:
        for record in rrset:
            if rrset.rdtype in {dns.rdatatype.A, dns.rdatatype.AAAA}:
                addresses.append(str(record.address))
            elif rrset.rdtype == dns.rdatatype.TXT:
                texts.append(b"".join(record.strings).decode("utf-8", "replace"))
    soa = [one for one in (*message.answer, *message.authority) if one.rdtype == dns.rdatatype.SOA]
    return Answer(
        rcode=dns.rcode.to_text(message.rcode()),
        addresses=tuple(addresses),
        texts=tuple(texts),
        records=sum(len(rrset) for rrset in message.answer),
        owner_soa=soa[0].name.to_text(omit_final_dot=True).lower() if soa else "",
        is_truncated=is_truncated,
        has_edns=message.edns >= 0,
        keeps_case=asked is None or asked.name.labels == name.labels,
        size=len(data),
    )


def is_public(address: str) -> bool:
    """Whether an address can be that of a host that everybody can reach."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(address).is_global
    return False
