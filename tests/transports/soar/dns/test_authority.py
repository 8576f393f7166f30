from __future__ import annotations

from ipaddress import ip_address

import dns.flags
import dns.rcode
import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import ConfigError
from tests.transports.soar.dns.peer import ZONE, ask, copy_of, tunnel_name, typed
from transports.soar.core.dns.authority import MAX_EXTRA_OCTETS, TTL, Address, Authority
from transports.soar.core.dns.messages import QType, Rcode
from transports.soar.core.dns.questions import read_copy
from transports.soar.core.dns.zone import Zone, Zones

V4, V6 = ip_address("192.0.2.1"), ip_address("2001:db8::1")
OTHER = Zone.parse("u.example.org")
SERVERS: dict[str, list[Address]] = {
    "ns1.t.example.com": [V4, V6],
    "tns.example.com": [V4],
}
AUTHORITY = Authority(Zones([ZONE, OTHER]), SERVERS)

SOA = ["t.example.com. 0 IN SOA t.example.com. hostmaster.t.example.com. 1 3600 600 86400 0"]


def partial(flag: int, *, number: int = 4, labels: int = 2) -> str:
    """Return what a minimising resolver asks for on the way to a whole name, as text."""
    name = dns.name.from_wire(tunnel_name(number, flag=flag), 0)[0]
    return dns.name.Name(name.labels[-len(b"t example com .".split()) - labels :]).to_text()


def whole(number: int = 1) -> str:
    return dns.name.from_wire(tunnel_name(number), 0)[0].to_text()


def lines(section: list[dns.rrset.RRset]) -> list[str]:
    return [line for rrset in section for line in rrset.to_text().splitlines()]


@pytest.mark.parametrize(
    ("name", "qtype", "rcode", "answer", "authority"),
    [
        ("t.example.com.", QType.SOA, Rcode.NOERROR, SOA, []),
        (
            "t.example.com.",
            QType.NS,
            Rcode.NOERROR,
            [
                f"t.example.com. {TTL} IN NS ns1.t.example.com.",
                f"t.example.com. {TTL} IN NS tns.example.com.",
            ],
            [],
        ),
        ("t.example.com.", QType.A, Rcode.NOERROR, [], SOA),
        ("t.example.com.", QType.TXT, Rcode.NOERROR, [], SOA),
        ("t.example.com.", QType.DS, Rcode.NOERROR, [], SOA),  # the parent's business
        ("t.example.com.", 48, Rcode.NOERROR, [], SOA),  # DNSKEY
        (
            "ns1.t.example.com.",
            QType.A,
            Rcode.NOERROR,
            [f"ns1.t.example.com. {TTL} IN A 192.0.2.1"],
            [],
        ),
        (
            "ns1.t.example.com.",
            QType.AAAA,
            Rcode.NOERROR,
            [f"ns1.t.example.com. {TTL} IN AAAA 2001:db8::1"],
            [],
        ),
        ("ns1.t.example.com.", QType.TXT, Rcode.NOERROR, [], SOA),
        ("ns2.t.example.com.", QType.A, Rcode.NOERROR, [], SOA),
        ("www.t.example.com.", QType.A, Rcode.NOERROR, [], SOA),
        ("_.t.example.com.", QType.A, Rcode.NOERROR, [], SOA),  # how BIND 9.14 minimised
        (partial(4), QType.A, Rcode.NXDOMAIN, [], SOA),
        (partial(4), QType.NS, Rcode.NXDOMAIN, [], SOA),
        (partial(4, labels=1), QType.TXT, Rcode.NXDOMAIN, [], SOA),
        (partial(4, number=2, labels=1), 65_280, Rcode.NXDOMAIN, [], SOA),
        (partial(6), QType.A, Rcode.REFUSED, [], []),
        (partial(30), QType.NS, Rcode.REFUSED, [], []),
        (partial(2, number=2, labels=1), QType.TXT, Rcode.REFUSED, [], []),
        (partial(7), QType.A, Rcode.NOERROR, [], SOA),
        (partial(5), QType.NS, Rcode.NOERROR, [], SOA),
        (partial(7, labels=3), QType.DS, Rcode.NOERROR, [], SOA),
        (whole(), QType.DS, Rcode.NOERROR, [], SOA),
        (whole(4), QType.TXT, Rcode.NOERROR, [], SOA),
        ("tns.example.com.", QType.A, Rcode.REFUSED, [], []),
        ("example.com.", QType.NS, Rcode.REFUSED, [], []),
        ("xt.example.com.", QType.A, Rcode.REFUSED, [], []),
        (".", QType.NS, Rcode.REFUSED, [], []),
        ("t.example.com.", QType.ANY, Rcode.REFUSED, [], []),
        ("t.example.com.", QType.AXFR, Rcode.REFUSED, [], []),
        ("t.example.com.", QType.IXFR, Rcode.REFUSED, [], []),
    ],
)
@pytest.mark.parametrize("edns", [1232, None])
def test_what_is_asked_and_what_an_authority_says(
    name: str, qtype: int, rcode: Rcode, answer: list[str], authority: list[str], edns: int | None
) -> None:
    for spelled in (name, name.upper()):
        question = ask(spelled, qtype, edns=edns)
        message = AUTHORITY.answer(copy_of(question))
        theirs = typed(message)
        assert int(theirs.rcode()) == rcode
        assert [line.lower() for line in lines(theirs.answer)] == [x.lower() for x in answer]
        assert [line.lower() for line in lines(theirs.authority)] == [x.lower() for x in authority]
        assert theirs.question[0].name.labels == question.question[0].name.labels
        assert bool(theirs.flags & dns.flags.AA) == (rcode != Rcode.REFUSED)
        assert theirs.edns == question.edns
        assert len(message) - len(question.to_wire()) <= MAX_EXTRA_OCTETS


def test_addresses_go_with_the_name_servers_that_are_in_a_zone() -> None:
    theirs = typed(AUTHORITY.answer(copy_of(ask("t.example.com.", QType.NS))))
    assert lines(theirs.additional) == [
        f"ns1.t.example.com. {TTL} IN A 192.0.2.1",
        f"ns1.t.example.com. {TTL} IN AAAA 2001:db8::1",
    ]
    theirs = typed(AUTHORITY.answer(copy_of(ask("u.example.org.", QType.NS))))
    assert [rr.target.to_text() for rr in theirs.answer[0]] == list(SERVERS_WITH_DOT)
    assert len(theirs.additional) == 2


SERVERS_WITH_DOT = [f"{name}." for name in SERVERS]


def test_the_apex_may_be_its_own_name_server() -> None:
    authority = Authority(Zones([ZONE]), {"t.example.com.": [V4]})
    theirs = typed(authority.answer(copy_of(ask("t.example.com.", QType.NS))))
    assert lines(theirs.answer) == [f"t.example.com. {TTL} IN NS t.example.com."]
    assert lines(theirs.additional) == [f"t.example.com. {TTL} IN A 192.0.2.1"]
    theirs = typed(authority.answer(copy_of(ask("t.example.com.", QType.A))))
    assert lines(theirs.answer) == [f"t.example.com. {TTL} IN A 192.0.2.1"]


def test_addresses_for_which_there_is_no_place_are_left_out() -> None:
    many = {f"ns{n}.t.example.com": [V4, V6] for n in range(4)}
    question = ask("t.example.com.", QType.NS)
    message = Authority(Zones([ZONE]), many).answer(copy_of(question))
    assert len(message) - len(question.to_wire()) <= MAX_EXTRA_OCTETS
    theirs = typed(message)
    assert len(theirs.answer[0]) == 4
    assert lines(theirs.additional) == [f"ns0.t.example.com. {TTL} IN A 192.0.2.1"]


def test_an_address_named_twice_is_one() -> None:
    authority = Authority(Zones([ZONE]), {"ns.t.example.com": [V4, V4]})
    theirs = typed(authority.answer(copy_of(ask("ns.t.example.com.", QType.A))))
    assert len(lines(theirs.answer)) == 1


@pytest.mark.parametrize(
    ("servers", "why"),
    [
        ({}, "needs the name of a name server"),
        ({"ns1..example": [V4]}, "label ''"),
        ({"a" * 63 + ".t.example.com": [V4]}, "would be read as a packet"),
        ({f"ns.provider-number-{n}.example": [] for n in range(4)}, "NS records of t.example.com"),
        (
            {"ns.t.example.com": [ip_address(n) for n in range(1, 8)]},
            "A records of the name server ns.t.example.com take 112 octets, more than the 96",
        ),
    ],
)
def test_name_servers_that_cannot_be_told_of_are_refused(
    servers: dict[str, list[Address]], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        Authority(Zones([ZONE]), servers)


@pytest.mark.parametrize(
    ("message", "rcode"),
    [
        (ask("version.bind.", QType.TXT).to_wire()[:-13] + b"\0\3" + bytes(11), 5),
        (bytes.fromhex("0007 0100 0000 0000 0000 0000"), 1),
        (bytes.fromhex("0007 2800 0001 0000 0000 0000"), 4),
    ],
)
def test_a_copy_with_a_fault_is_answered_with_it(message: bytes, rcode: int) -> None:
    assert typed(AUTHORITY.answer(copy_of(message))).rcode() == rcode


@given(st.binary(max_size=300))
def test_whatever_is_asked_is_answered_in_few_octets(message: bytes) -> None:
    message = b"\0\7\1" + message
    copy = read_copy(message)
    if copy is not None:
        answer = AUTHORITY.answer(copy)
        assert len(answer) - len(message) <= MAX_EXTRA_OCTETS
        assert typed(answer).id == 7


@given(st.lists(st.binary(min_size=1, max_size=63), max_size=3), st.integers(0, 65_535))
def test_any_name_of_the_zone_is_answered(labels: list[bytes], qtype: int) -> None:
    above = b"".join(bytes((len(label),)) + label for label in labels)
    copy = copy_of(
        b"\0\7\1\0\0\1\0\0\0\0\0\0" + above + ZONE.wire + qtype.to_bytes(2, "big") + b"\0\1"
    )
    answer = AUTHORITY.answer(copy)
    assert typed(answer).rcode() in (0, 3, 5)
