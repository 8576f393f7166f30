"""Questions and answers on the wire: what is asked octet by octet, what counts as an answer, and what that costs."""

from __future__ import annotations

import struct
from typing import Any

import dns.flags
import dns.message
import dns.rdatatype
import dns.rrset
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from racer.abc import Target
from racer.errors import InvalidTarget, LocalProtocolError
from tests.transports.net.world import BOTH, V4, V6
from transports._net.dns_messages import (
    MAX_MESSAGE,
    Question,
    Reply,
    decode_reply,
    encode_question,
)

ASK4 = Question(name="www.example.com", family=V4, id=0xABCD)
ASK6 = Question(name="www.example.com", family=V6, id=0x0102)

WWW = "www.example.com."


def response(question: Question, *records: str, **changes: Any) -> dns.message.Message:
    """Return an answer with records such as `"www.example.com. 60 IN A 192.0.2.1"`."""
    message = dns.message.make_response(dns.message.from_wire(encode_question(question)))
    for record in records:
        name, ttl, rdclass, kind, data = record.split(" ", 4)
        rrset = dns.rrset.from_text(name, int(ttl), rdclass, kind, data)
        known = message.get_rrset(message.answer, rrset.name, rrset.rdclass, rrset.rdtype)
        if known is None:
            message.answer.append(rrset)
        else:
            for each in rrset:
                known.add(each)
    for name, value in changes.items():
        if name == "rcode":
            message.set_rcode(value)
        else:
            setattr(message, name, value)
    return message


def wire(question: Question, *records: str, **changes: Any) -> bytes:
    return response(question, *records, **changes).to_wire(max_size=65_535)


# --- questions ------------------------------------------------------------------------------


def test_a_question_on_the_wire() -> None:
    """RFC 1035 §4.1: recursion desired, one question; RFC 6891 §6.1.2: an OPT that says 1232."""
    assert encode_question(ASK4).hex(" ") == (
        "ab cd 01 00 00 01 00 00 00 00 00 01 "
        "03 77 77 77 07 65 78 61 6d 70 6c 65 03 63 6f 6d 00 00 01 00 01 "
        "00 00 29 04 d0 00 00 00 00 00 00"
    )
    assert encode_question(ASK6)[:2] == b"\x01\x02"
    assert encode_question(ASK6)[-15:-11] == b"\x00\x1c\x00\x01"


def test_without_edns_nothing_is_added() -> None:
    plain = encode_question(Question(name=ASK4.name, family=V4, id=ASK4.id, edns=False))
    assert plain == encode_question(ASK4)[:10] + b"\x00\x00" + encode_question(ASK4)[12:-11]


@pytest.mark.parametrize("name", ["a.b", "www.example.com", "x" * 63 + ".example", "y." * 90])
def test_a_padded_question_tells_little_of_its_name(name: str) -> None:
    """RFC 8467 §4.1: 128 octets, or a multiple."""
    size = len(encode_question(Question(name=name, family=V6, id=0, padded=True)))
    assert size == (128 if len(name) < 80 else 256)


def test_a_trailing_dot_changes_nothing() -> None:
    dotted = Question(name="www.example.com.", family=V4, id=ASK4.id)
    assert encode_question(dotted) == encode_question(ASK4)


@pytest.mark.parametrize("name", ["x" * 64 + ".example", "a." * 128, "a..b", ".a"])
def test_a_name_that_no_message_can_carry_is_our_own_fault(name: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"a name of {len(name)} characters"):
        encode_question(Question(name=name, family=V4, id=1))


@given(st.from_regex(r"[a-z0-9][a-z0-9.-]{0,100}", fullmatch=True), st.sampled_from(BOTH))
def test_every_target_can_be_asked_for(text: str, family: Any) -> None:
    try:
        target = Target(text, 443)
    except InvalidTarget:
        return
    if target.is_address:
        return
    question = Question(name=target.host, family=family, id=7)
    read = dns.message.from_wire(encode_question(question))
    assert read.question[0].name.to_text().rstrip(".") == target.host.rstrip(".")


# --- answers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "addresses"),
    [
        ([f"{WWW} 60 IN A 192.0.2.1"], ("192.0.2.1",)),
        ([f"{WWW} 60 IN A 192.0.2.2", f"{WWW} 60 IN A 192.0.2.1"], ("192.0.2.2", "192.0.2.1")),
        ([f"{WWW} 60 IN CNAME a.b.", "a.b. 60 IN A 192.0.2.1"], ("192.0.2.1",)),
        (
            [f"{WWW} 60 IN CNAME a.b.", "a.b. 60 IN CNAME c.d.", "C.D. 60 IN A 192.0.2.1"],
            ("192.0.2.1",),
        ),
        (["a.b. 60 IN A 192.0.2.1", f"{WWW} 60 IN CNAME a.b."], ("192.0.2.1",)),
        ([], ()),
        ([f"{WWW} 60 IN CNAME a.b."], ()),
        (["a.b. 60 IN A 192.0.2.1"], ()),
        ([f"{WWW} 60 IN AAAA 2001:db8::1"], ()),
        ([f"{WWW} 60 CH A a.b. 1"], ()),
        ([f"{WWW} 60 IN TXT hello", f"{WWW} 60 IN A 192.0.2.1"], ("192.0.2.1",)),
        ([f"{WWW} 60 IN A 0.0.0.0", f"{WWW} 60 IN A 192.0.2.1"], ("192.0.2.1",)),
        ([f"{WWW} 60 IN A 127.0.0.1"], ("127.0.0.1",)),
    ],
)
def test_what_an_answer_says(records: list[str], addresses: tuple[str, ...]) -> None:
    assert decode_reply(wire(ASK4, *records), ASK4) == Reply(addresses=addresses)


def test_addresses_of_ipv6() -> None:
    data = wire(ASK6, f"{WWW} 60 IN AAAA 2001:DB8:0::1", f"{WWW} 60 IN AAAA ::ffff:1.2.3.4")
    assert decode_reply(data, ASK6) == Reply(addresses=("2001:db8::1", "::ffff:1.2.3.4"))


@pytest.mark.parametrize(
    "rcode", ["NXDOMAIN", "SERVFAIL", "REFUSED", "FORMERR", "NOTIMP", "NOTAUTH"]
)
def test_errors_have_names(rcode: str) -> None:
    data = wire(ASK4, rcode=dns.rcode.from_text(rcode))
    assert decode_reply(data, ASK4) == Reply(rcode=rcode)


def test_an_error_is_an_error_whatever_comes_with_it() -> None:
    data = wire(ASK4, f"{WWW} 60 IN A 192.0.2.1", rcode=dns.rcode.NXDOMAIN)
    assert decode_reply(data, ASK4) == Reply(rcode="NXDOMAIN")


@pytest.mark.parametrize("rcode", range(16))
def test_errors_without_a_name_have_a_number(rcode: int) -> None:
    data = bytearray(wire(ASK4))
    data[3] = rcode
    reply = decode_reply(bytes(data), ASK4)
    assert reply is not None
    assert reply.rcode == str(dns.rcode.to_text(dns.rcode.Rcode.make(rcode)))


@pytest.mark.parametrize("rcode", ["NOERROR", "SERVFAIL"])
def test_an_answer_that_was_cut_says_no_more_than_that(rcode: str) -> None:
    """Some servers put into it what fits, others break off in the middle of a record."""
    message = response(ASK4, f"{WWW} 60 IN A 192.0.2.1", rcode=dns.rcode.from_text(rcode))
    message.flags |= dns.flags.TC
    expected = Reply(rcode=rcode, is_truncated=True)
    data = message.to_wire()
    assert decode_reply(data, ASK4) == expected
    assert decode_reply(data[:40], ASK4) == expected


@pytest.mark.parametrize("address", ["0.0.0.0", "255.255.255.255", "224.0.0.1"])
def test_addresses_that_are_none_are_a_flaw(address: str) -> None:
    reply = decode_reply(wire(ASK4, f"{WWW} 60 IN A {address}"), ASK4)
    assert reply == Reply(flaw=f"{address}, where nothing can be connected to")


@pytest.mark.parametrize(
    "links", [[f"{WWW} 60 IN CNAME {WWW}"], ["a.b.", "c.d."], [*"abcdefghijklmnopqrst"]]
)
def test_a_chain_of_aliases_without_end_is_a_flaw(links: list[str]) -> None:  # fmt: skip
    if len(links) > 1:
        names = [WWW, *(link if link.endswith(".") else f"{link}." for link in links)]
        pairs = list(zip(names, [*names[1:], names[1]], strict=True))
        links = [f"{one} 60 IN CNAME {other}" for one, other in pairs]
    reply = decode_reply(wire(ASK4, *links), ASK4)
    assert reply == Reply(flaw="a chain of aliases without end")


def test_who_cannot_read_a_question_cannot_repeat_it() -> None:
    head = struct.pack("!6H", ASK4.id, 0x8181, 0, 0, 0, 0)
    assert decode_reply(head, ASK4) == Reply(rcode="FORMERR")
    assert decode_reply(struct.pack("!6H", ASK4.id, 0x8182, 0, 0, 0, 0), ASK4) is None


@pytest.mark.parametrize(
    ("flaw", "data"),
    [
        ("another id", wire(Question(name=ASK4.name, family=V4, id=0xABCE), f"{WWW} 60 IN A 9.9.9.9")),
        ("another name", wire(Question(name="www.example.org", family=V4, id=ASK4.id))),
        ("another type", wire(Question(name=ASK4.name, family=V6, id=ASK4.id))),
        ("a question", encode_question(ASK4)),
        ("another opcode", wire(ASK4)[:2] + b"\xa8\x00" + wire(ASK4)[4:]),
        ("another class", wire(ASK4).replace(b"\x00\x01\x00\x01", b"\x00\x01\x00\x03")),
        ("two questions", wire(ASK4)[:5] + b"\x02" + wire(ASK4)[6:]),
        ("no question", wire(ASK4)[:5] + b"\x00" + wire(ASK4)[6:]),
        ("cut off in the question", wire(ASK4)[:20]),
        ("cut off in a record", wire(ASK4, f"{WWW} 60 IN A 9.9.9.9")[:-14]),
        ("cut off in the header", wire(ASK4)[:11]),
        ("nothing", b""),
        ("too long", wire(ASK4, *(f"{WWW} 60 IN TXT {'x' * 250}{n}" for n in range(64)))),
        ("more records than there are", wire(ASK4)[:6] + b"\x01\x00" + wire(ASK4)[8:]),
        ("a wrong length", wire(ASK4, f"{WWW} 60 IN A 9.9.9.9").replace(b"\x00\x04\x09", b"\x00\x05\x09")),
    ],
)  # fmt: skip
def test_what_is_no_answer_to_the_question_is_none(flaw: str, data: bytes) -> None:
    assert decode_reply(data, ASK4) is None


def test_the_question_counts_in_any_case() -> None:
    data = wire(ASK4, f"{WWW} 60 IN A 192.0.2.1").replace(b"www", b"wWW")
    assert decode_reply(data, ASK4) == Reply(addresses=("192.0.2.1",))


def test_what_stands_behind_the_answers_cannot_spoil_them() -> None:
    data = bytearray(wire(ASK4, f"{WWW} 60 IN A 192.0.2.1"))
    struct.pack_into("!2H", data, 8, 40_000, 40_000)
    assert decode_reply(bytes(data) + b"\xff" * 99, ASK4) == Reply(addresses=("192.0.2.1",))


# --- bounds ---------------------------------------------------------------------------------

LONG = Question(name="a." * 126, family=V4, id=5)


def packed(question: Question, records: list[bytes]) -> bytes:
    name = encode_question(question)[12:]
    name = name[: name.index(b"\x00") + 5]
    return struct.pack("!6H", question.id, 0x8180, 1, len(records), 0, 0) + name + b"".join(records)


def record(owner: bytes, kind: int, data: bytes) -> bytes:
    return owner + struct.pack("!HHIH", kind, 1, 60, len(data)) + data


FIRST = b"\xc0\x0c"  # a pointer to the question's name


@pytest.mark.parametrize(
    ("cost", "data"),
    [
        ("long owners", packed(LONG, [record(FIRST, 1, b"\x09\x09\x09\x09")] * 64)),
        ("long targets", packed(LONG, [record(b"\x00", 5, FIRST)] * 64)),
        ("unknown records", packed(LONG, [record(b"\x00", 46, b"x" * 30)] * 64)),
        ("very many", packed(LONG, [record(b"\x00", 1, b"\x09\x09\x09\x09")] * 513)),
    ],
)
def test_what_takes_long_to_read_is_not_read(cost: str, data: bytes) -> None:
    """Within a message that fits into a datagram, dnspython could be kept busy for a second."""
    assert len(data) <= MAX_MESSAGE
    assert decode_reply(data, LONG) is None


def test_names_of_127_labels_and_answers_of_500_addresses_are_read() -> None:
    short = packed(LONG, [record(FIRST, 1, b"\x09\x09\x09\x09")])
    assert decode_reply(short, LONG) == Reply(addresses=("9.9.9.9",))
    many = [record(FIRST, 1, struct.pack("!I", 0x09000000 + n)) for n in range(500)]
    reply = decode_reply(packed(ASK4, many), ASK4)
    assert reply is not None
    assert len(reply.addresses) == 500


@pytest.mark.parametrize(
    "name",
    [
        b"\xc0\x0c",  # to itself, when it is the question's name
        b"\x01a\xc0\x0c",
        b"\xc0\x21",  # forward
        b"\x40a",  # a label type of the past, RFC 6891 §5
        b"\x80a",
        b"\x3f" + b"a" * 62,
        b"\x01a" * 128 + b"\x00",
    ],
)
def test_names_that_lead_nowhere_end(name: bytes) -> None:
    head = struct.pack("!6H", 5, 0x8180, 1, 0, 0, 0)
    assert decode_reply(head + name + b"\x00\x01\x00\x01", LONG) is None


ANSWER = wire(ASK4, f"{WWW} 60 IN CNAME a.example.com.", "a.example.com. 60 IN A 192.0.2.1")


@given(st.binary(max_size=600))
@example(b"\xab\xcd\x81\x80" + b"\x00\x01" + b"\xff" * 6 + b"\xc0\x0c" * 200)
def test_any_octets_are_an_answer_or_none(data: bytes) -> None:
    assert decode_reply(data, ASK4) is None or data[:2] == b"\xab\xcd"
    head = struct.pack("!6H", ASK4.id, 0x8180, 1, 3, 0, 0)
    decode_reply(head + ANSWER[12:33] + data, ASK4)


@given(
    st.lists(st.tuples(st.integers(2, len(ANSWER) - 1), st.integers(0, 255)), max_size=4),
    st.integers(0, len(ANSWER)),
)
def test_an_answer_that_was_damaged_is_read_as_dnspython_does_or_is_none(
    changes: list[tuple[int, int]], end: int
) -> None:
    data = bytearray(ANSWER)
    for place, value in changes:
        data[place] = value
    reply = decode_reply(bytes(data[:end]), ASK4)
    if reply is not None and reply.addresses:
        counts = struct.pack("!2H", 0, 0)
        whole = dns.message.from_wire(
            bytes(data[:8]) + counts + bytes(data[12:end]), ignore_trailing=True
        )
        assert isinstance(whole, dns.message.QueryMessage)
        answer = whole.resolve_chaining().answer
        assert answer is not None
        assert reply.addresses == tuple(str(each) for each in answer)
