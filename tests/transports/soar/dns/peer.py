"""The other side of every message, as dnspython reads and writes it: code that shares nothing with ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dns.edns
import dns.flags
import dns.message
import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rrset

from transports.soar.core.dns.questions import Copy, QType, build_question, read_copy
from transports.soar.core.dns.zone import Zone

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = (
    "COOKIE",
    "ZONE",
    "as_answer",
    "ask",
    "copy_of",
    "record",
    "respond",
    "tunnel_name",
    "typed",
)

ZONE = Zone.parse("t.example.com")
COOKIE = dns.edns.GenericOption(dns.edns.OptionType.COOKIE, b"8 octets")


def tunnel_name(number: int = 1, *, zone: Zone = ZONE, selector: int = 9, flag: int = 6) -> bytes:
    """Return a whole name of a class, whose packet counts up."""
    capacity = zone.classes[number].capacity
    return zone.encode(bytes(range(capacity)), number=number, selector=selector, flag=flag)


def ask(
    name: bytes | str = "", qtype: int = QType.DS, *, edns: int | None = 1232, number: int = 7
) -> dns.message.QueryMessage:
    """Return a question as a resolver makes it; by default for a whole name of class 1."""
    if isinstance(name, str):
        owner = dns.name.from_text(name) if name else dns.name.from_wire(tunnel_name(), 0)[0]
    else:
        owner = dns.name.from_wire(name, 0)[0]
    return dns.message.make_query(
        owner,
        dns.rdatatype.RdataType.make(qtype),
        id=number,
        use_edns=False if edns is None else 0,
        payload=edns,
    )


def copy_of(message: dns.message.Message | bytes) -> Copy:
    """Return the message as the server reads it."""
    copy = read_copy(message if isinstance(message, bytes) else message.to_wire())
    assert copy is not None
    return copy


def typed(message: bytes) -> dns.message.Message:
    """Return what dnspython makes of `message`, to the last octet."""
    return dns.message.from_wire(message, ignore_trailing=False, raise_on_truncation=False)


def as_answer(question: bytes, records: Iterable[dns.rrset.RRset] = ()) -> dns.message.Message:
    """Return an answer to `question` from a server that is not ours."""
    response = dns.message.make_response(dns.message.from_wire(question))
    response.answer.extend(records)
    return response


def respond(
    qtype: QType = QType.DS, *records: dns.rrset.RRset, name: bytes = b""
) -> dns.message.Message:
    """Return an answer to our question of that type, for a name of class 1, with `records` as answer."""
    return as_answer(build_question(7, name or tunnel_name(), qtype, edns=True), records)


def record(rdtype: str, wire: bytes, *, owner: bytes = b"", rdclass: str = "IN") -> dns.rrset.RRset:
    """Return one record with that data, whole names in it uncompressed."""
    name = dns.name.from_wire(owner or tunnel_name(), 0)[0]
    kind = dns.rdatatype.from_text(rdtype)
    space = dns.rdataclass.from_text(rdclass)
    rdata = dns.rdata.from_wire(space, kind, wire, 0, len(wire))
    return dns.rrset.from_rdata(name, 0, rdata)
