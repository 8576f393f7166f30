"""Questions and answers on the wire (RFC 1035), true ones and others; total on any octets."""

from __future__ import annotations

import ipaddress
import struct
from typing import TYPE_CHECKING, Final

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset

from racer.lab._zone import Asked, Delay, Drop, Fail, Flaw, Forge, Garbage, Reply, Truncate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from racer.lab._zone import Carrier, NameRule, Zone

__all__ = ("read", "replies")

_UDP_PLAIN: Final = 512  # octets of an answer without EDNS, RFC 1035 §4.2.1
_KINDS: Final = {4: dns.rdatatype.A, 6: dns.rdatatype.AAAA}
_NOT_ASKED: Final = dns.name.from_text("not-what-you-asked.invalid")

# Whatever dnspython makes of garbage.
_MALFORMED: Final = (
    dns.exception.DNSException,
    LookupError,
    struct.error,
    UnicodeError,
    ValueError,
)


def read(octets: bytes) -> dns.message.Message | None:
    """Return the question in these octets; `None` when they are something else."""
    try:
        query = dns.message.from_wire(octets)
    except _MALFORMED:
        return None
    return query if query.question and not query.flags & dns.flags.QR else None


def replies(zone: Zone, question: bytes, over: Carrier) -> list[Reply]:
    """Return what `zone` sends back for the octets of a question, in order of time; nothing for what is none."""
    query = read(question)
    if query is None:
        return []
    section = query.question[0]
    asked = Asked(
        section.name.to_text(omit_final_dot=True).lower(),
        dns.rdatatype.to_text(section.rdtype),
        over,
    )
    zone.asked.append(asked)
    exchange = _Exchange(zone, query, section, asked)
    return sorted(exchange.replies(zone.matching(asked)), key=lambda reply: reply.after)


class _Exchange:
    """One question, and all that can be answered to it."""

    def __init__(
        self, zone: Zone, query: dns.message.Message, section: dns.rrset.RRset, asked: Asked
    ) -> None:
        self._zone = zone
        self._query = query
        self._section = section
        self._asked = asked

    def replies(self, rules: Sequence[NameRule]) -> Iterable[Reply]:
        late = sum(rule.seconds for rule in rules if isinstance(rule, Delay))
        forgeries = [rule for rule in rules if isinstance(rule, Forge)]
        for rule in forgeries:
            if rule.flaw is not Flaw.PORT or self._asked.over == "udp":
                yield Reply(late + rule.after, self._forged(rule), elsewhere=rule.flaw is Flaw.PORT)
        if any(rule.truth_after is None for rule in forgeries):
            return
        answer = self._answer(rules)
        if answer is not None:
            yield Reply(
                late + max((rule.truth_after or 0.0 for rule in forgeries), default=0.0), answer
            )

    def _answer(self, rules: Sequence[NameRule]) -> bytes | None:
        for rule in rules:
            match rule:
                case Drop():
                    return None
                case Fail():
                    return self._wire(self._response(dns.rcode.from_text(rule.rcode)))
                case Garbage():
                    return rule.data
                case Truncate():
                    response = self._response()
                    response.flags |= dns.flags.TC
                    return self._wire(response)
                case _:
                    pass
        return self._truth()

    def _truth(self) -> bytes:
        if self._query.opcode() != dns.opcode.QUERY:
            return self._wire(self._response(dns.rcode.NOTIMP))
        if len(self._query.question) > 1:  # RFC 9619: there is but one
            return self._wire(self._response(dns.rcode.FORMERR))
        if self._section.rdclass != dns.rdataclass.IN:
            return self._wire(self._response(dns.rcode.REFUSED))
        known = self._zone.hosts.get(self._asked.name)
        if known is None:
            return self._wire(self._response(dns.rcode.NXDOMAIN))
        response = self._response()
        self._add(response, self._section.name, known)
        return self._wire(response)

    def _forged(self, rule: Forge) -> bytes:
        response = self._response()
        name = self._section.name
        if rule.flaw is Flaw.ID:
            response.id ^= 1
        if rule.flaw is Flaw.QUESTION:
            name = _NOT_ASKED
            response.question = [dns.rrset.RRset(name, self._section.rdclass, self._section.rdtype)]
        self._add(response, name, rule.addresses)
        return self._wire(response)

    def _response(self, rcode: dns.rcode.Rcode = dns.rcode.NOERROR) -> dns.message.Message:
        response = dns.message.make_response(self._query, recursion_available=True)
        response.set_rcode(rcode)
        return response

    def _add(
        self, response: dns.message.Message, name: dns.name.Name, addresses: Sequence[str]
    ) -> None:
        kind = self._section.rdtype
        fitting = [each for each in addresses if _KINDS[ipaddress.ip_address(each).version] == kind]
        if fitting and self._section.rdclass == dns.rdataclass.IN:
            response.answer.append(
                dns.rrset.from_text(name, self._zone.ttl, self._section.rdclass, kind, *fitting)
            )

    def _wire(self, response: dns.message.Message) -> bytes:
        # In the order of the zone: dnspython shuffles otherwise, by dice that nobody seeds.
        if self._asked.over != "udp":
            return response.to_wire(want_shuffle=False)
        room = self._query.payload if self._query.edns >= 0 else _UDP_PLAIN
        try:
            return response.to_wire(max_size=max(room, _UDP_PLAIN), want_shuffle=False)
        except dns.exception.TooBig:
            response.answer.clear()
            response.flags |= dns.flags.TC
            return response.to_wire()
