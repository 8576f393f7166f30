"""What real resolvers were seen to do to questions and answers on their way, one story each.

Seen at Unbound 1.17, BIND 9.18, Knot Resolver 5.6, PowerDNS Recursor 4.8 and dnsmasq 2.90.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rrset
import pytest

from tests.transports.soar.dns.peer import COOKIE, ZONE, ask, copy_of, record, tunnel_name, typed
from transports.soar.core.dns.answers import (
    Answer,
    Form,
    build_answer,
    nodata,
    nxdomain,
    read_answer,
    room,
    truncated,
)
from transports.soar.core.dns.messages import MAX_MESSAGE, QType, Rcode
from transports.soar.core.dns.questions import build_question
from transports.soar.core.dns.zone import Partial, PartialAnswer, Whole

if TYPE_CHECKING:
    from collections.abc import Callable

PAYLOAD = bytes(place * 3 % 256 for place in range(200))
NOTICE = bytes(range(23))
NAME = tunnel_name()


def random_case(octets: bytes) -> bytes:
    dice = random.Random(20)
    return bytes(
        octet ^ 0x20 if chr(octet).isalpha() and dice.random() < 0.5 else octet for octet in octets
    )


def through(
    form: Form,
    resolver: Callable[[dns.message.Message], object],
    *,
    build: Callable[..., bytes] | None = None,
    compress: bool = True,
) -> Answer:
    """Return what the client reads of an answer that a resolver has read, handled, and written anew."""
    question = build_question(600, NAME, form.qtype, edns=True)
    copy = copy_of(ask(NAME, form.qtype, number=9))
    ours = build(copy, ZONE) if build else build_answer(copy, form, PAYLOAD, ZONE)
    message = typed(ours)
    message.id = 600
    message.flags = (message.flags & ~dns.flags.AA) | dns.flags.RA
    resolver(message)
    wire = message.to_wire(max_size=MAX_MESSAGE) if compress else uncompressed(message)
    answer = read_answer(wire)
    assert (answer.id, answer.question) == (600, question[12:-11])
    return answer


def uncompressed(message: dns.message.Message) -> bytes:
    """Return the message with every name in full; dnspython compresses wherever it can."""

    def head(name: dns.name.Name, rdtype: int) -> bytes:
        labels = [bytes((len(label),)) + label for label in name.labels]
        return b"".join((*labels, rdtype.to_bytes(2, "big"), b"\0\1"))

    sections = (message.answer, message.authority, message.additional)
    counts = (1, *(sum(map(len, section)) for section in sections))
    parts = [message.to_wire()[:4], *(count.to_bytes(2, "big") for count in counts)]
    parts.append(head(message.question[0].name, message.question[0].rdtype))
    for rrset in (rrset for section in sections for rrset in section):
        for rdata in rrset:
            data = rdata.to_wire() or b""
            parts.append(head(rrset.name, rrset.rdtype))
            parts.append(rrset.ttl.to_bytes(4, "big") + len(data).to_bytes(2, "big") + data)
    return b"".join(parts)


def names(message: dns.message.Message, change: Callable[[bytes], bytes]) -> None:
    """Change the letters of a SOA's names."""
    (rrset,) = message.authority
    rdata = rrset[0]
    changed = {
        field: dns.name.Name([change(label) for label in getattr(rdata, field).labels])
        for field in ("mname", "rname")
    }
    message.authority[0] = dns.rrset.from_rdata(rrset.name, rrset.ttl, rdata.replace(**changed))


def ttl(message: dns.message.Message, seconds: int) -> None:
    for rrset in message.authority:
        rrset.ttl = seconds


@pytest.mark.parametrize("change", [bytes.lower, bytes.upper, random_case])
def test_knot_lower_cases_the_names_of_a_soa(change: Callable[[bytes], bytes]) -> None:
    assert through(Form.SOA, lambda message: names(message, change)).payload == PAYLOAD
    notice = through(
        Form.DS,
        lambda message: names(message, change),
        build=lambda copy, zone: nxdomain(copy, zone, NOTICE),
    )
    assert (notice.rcode, notice.notice) == (Rcode.NXDOMAIN, NOTICE)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_knot_asks_in_random_case_and_again_in_another(number: int) -> None:
    name = tunnel_name(number)
    first, second = random_case(name), random_case(name).swapcase()
    assert first.lower() == second.lower() == name
    assert len({first, second, name}) == 3
    for spelled in (first, second):
        copy = copy_of(ask(spelled))
        assert copy.name == name
        assert isinstance(ZONE.read(copy.name), Whole)
        theirs = typed(build_answer(copy, Form.DS, PAYLOAD, ZONE))
        assert theirs.question[0].name.to_wire() == spelled  # 0x20: or the answer is dropped


def test_bind_writes_the_soa_without_compression() -> None:
    for build in (None, lambda copy, zone: nxdomain(copy, zone, NOTICE)):
        kept = through(Form.SOA, lambda message: None, build=build, compress=False)
        assert kept == through(Form.SOA, lambda message: None, build=build)
        assert kept.payload == PAYLOAD or kept.notice == NOTICE


@pytest.mark.parametrize("form", [Form.DS, Form.TXT])
def test_bind_shuffles_and_ours_is_the_one_record_of_its_kind(form: Form) -> None:
    signature = record("RRSIG", bytes(18) + b"\0" + bytes(40))
    other = record("A", bytes(4))

    dice = random.Random(7)
    places = set()

    def shuffle(message: dns.message.Message) -> None:
        ours = message.answer[0]
        message.answer.extend([signature, other])
        dice.shuffle(message.answer)
        places.add(message.answer.index(ours))

    for _ in range(12):
        assert through(form, shuffle).payload == PAYLOAD
    assert places == {0, 1, 2}


def test_bind_repeats_a_question_with_a_smaller_size_and_a_cookie() -> None:
    first, second = ask(edns=1232), ask(edns=512, number=8)
    second.use_edns(0, payload=512, options=[COOKIE])
    lengths = []
    for message in (first, second):
        copy = copy_of(message)
        assert copy.edns_size
        lengths.append(room(Form.DS, len(copy.question), copy.edns_size, edns=copy.is_edns))
        assert typed(build_answer(copy, Form.DS, bytes(lengths[-1]), ZONE)).options == ()
    assert lengths == [1113, 393]
    assert len(truncated(copy_of(second))) < 512


def test_bind_minimises_with_ns_and_others_with_a() -> None:
    name = tunnel_name(4, flag=4)
    for qtype in (QType.NS, QType.A):
        copy = copy_of(ask(name[64:], qtype))
        assert ZONE.read(copy.name) == Partial(PartialAnswer.NXDOMAIN)
        assert typed(nxdomain(copy, ZONE)).rcode() == dns.rcode.NXDOMAIN


def test_unbound_asks_a_for_the_whole_name_before_txt() -> None:
    for qtype in (QType.A, QType.TXT):
        found = ZONE.read(copy_of(ask(NAME, qtype)).name)
        assert isinstance(found, Whole)
    # The first is answered without octets; both answers name the same question but for the type.
    assert typed(nodata(copy_of(ask(NAME, QType.A)), ZONE)).rcode() == dns.rcode.NOERROR


@pytest.mark.parametrize(("resolver", "seconds"), [("powerdns", 1), ("knot", 5)])
def test_powerdns_and_knot_give_a_soa_a_ttl_of_their_own(resolver: str, seconds: int) -> None:
    assert through(Form.SOA, lambda message: ttl(message, seconds)).payload == PAYLOAD


@pytest.mark.parametrize("rcode", [dns.rcode.SERVFAIL, dns.rcode.NOERROR])
def test_knot_truncates_with_servfail(rcode: dns.rcode.Rcode) -> None:
    def truncate(message: dns.message.Message) -> None:
        message.answer.clear()
        message.flags |= dns.flags.TC
        message.set_rcode(rcode)

    answer = through(Form.TXT, truncate)
    assert (answer.truncated, answer.rcode, answer.payload) == (True, rcode, None)


def test_bind_truncates_to_the_records_that_fit() -> None:
    question = build_question(600, NAME, QType.TXT, edns=False)
    whole = build_answer(copy_of(question), Form.TXT, PAYLOAD, ZONE)
    cut = whole[:2] + b"\x87\x80" + whole[4:150]
    answer = read_answer(cut)
    assert (answer.truncated, answer.payload) == (True, None)


def test_dnsmasq_takes_the_opt_record_out_and_leaves_the_additional_section() -> None:
    def change(message: dns.message.Message) -> None:
        message.use_edns(False)
        message.additional.append(record("TXT", b"\x04spam"))

    assert through(Form.TXT, change).payload == PAYLOAD


@pytest.mark.parametrize("rcode", [dns.rcode.SERVFAIL, dns.rcode.REFUSED])
def test_a_resolver_at_its_limit_says_so_without_records(rcode: dns.rcode.Rcode) -> None:
    def refuse(message: dns.message.Message) -> None:
        message.answer.clear()
        message.set_rcode(rcode)

    answer = through(Form.DS, refuse)
    assert (answer.rcode, answer.payload, answer.notice) == (rcode, None, None)


def test_a_resolver_that_hijacks_nxdomain_sends_addresses_that_carry_nothing() -> None:
    def hijack(message: dns.message.Message) -> None:
        message.authority.clear()
        message.set_rcode(dns.rcode.NOERROR)
        message.answer.append(record("A", bytes((198, 51, 100, 7))))

    answer = through(Form.SOA, hijack, build=lambda copy, zone: nxdomain(copy, zone, NOTICE))
    assert (answer.payload, answer.notice) == (None, None)
