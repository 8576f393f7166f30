"""How a client reads answers, whoever sent them: built by us, by dnspython, cut, changed, or garbage."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import RemoteProtocolError
from tests.transports.soar.dns.peer import COOKIE, ZONE, copy_of, record, respond, tunnel_name
from transports.soar.core.dns import base32
from transports.soar.core.dns.answers import (
    NOTICE_OCTETS,
    Answer,
    Form,
    build_answer,
    failure,
    nodata,
    nxdomain,
    read_answer,
    truncated,
)
from transports.soar.core.dns.messages import (
    MAX_MESSAGE,
    MAX_RECORDS,
    RECORD,
    MalformedMessage,
    QType,
    Rcode,
)
from transports.soar.core.dns.questions import build_question

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

NAME = tunnel_name()
QUESTION = NAME + b"\0\x2b\0\x01"
PAYLOAD = bytes(range(40, 140))
NOTICE = bytes(range(NOTICE_OCTETS))
POINTER = b"\xc0\x0c"


def ds(payload: bytes = PAYLOAD, digest_type: int = 250) -> bytes:
    return payload[:3] + bytes((digest_type,)) + payload[3:]


def txt(payload: bytes = PAYLOAD, *, pieces: Iterable[int] = (255, 255, 255)) -> bytes:
    wire = b""
    for piece in pieces:
        part, payload = payload[:piece], payload[piece:]
        wire += bytes((len(part),)) + part if part else b""
    return wire


def raw(
    records: bytes,
    counts: tuple[int, int, int] = (1, 0, 0),
    *,
    question: bytes = QUESTION,
    flags: int = 0x8580,
) -> bytes:
    return struct.pack("!6H", 7, flags, 1, *counts) + question + records


def rr(rtype: int, data: bytes, *, owner: bytes = POINTER, rclass: int = 1, ttl: int = 0) -> bytes:
    return owner + RECORD.pack(rtype, rclass, ttl, len(data)) + data


def soa_answer(mname: dns.name.Name, rname: dns.name.Name, rcode: dns.rcode.Rcode) -> bytes:
    """Return a negative answer as dnspython packs it: all names compressed where they can be."""
    response = respond(QType.A)
    text = f"{mname} {rname} 1 2 3 4 0"
    zone = dns.name.from_text(ZONE.text)
    response.authority.append(dns.rrset.from_text(zone, 0, "IN", "SOA", text))
    response.set_rcode(rcode)
    return response.to_wire(max_size=MAX_MESSAGE)


def name_of(payload: bytes, *, case: str = "lower") -> dns.name.Name:
    text = getattr(base32.encode(payload), case)()
    return dns.name.Name([*(text[n : n + 63] for n in range(0, len(text), 63)), b""])


# --- what we built --------------------------------------------------------------------------


@pytest.mark.parametrize("form", Form)
@given(payload=st.binary(min_size=4, max_size=312), number=st.integers(1, 4), edns=st.booleans())
def test_octets_come_back_from_every_form(
    form: Form, payload: bytes, number: int, edns: bool
) -> None:
    name = tunnel_name(number)
    message = build_question(513, name.upper(), form.qtype, edns=edns)
    answer = read_answer(build_answer(copy_of(message), form, payload, ZONE), form)
    assert answer == read_answer(build_answer(copy_of(message), form, payload, ZONE))
    assert (answer.id, answer.rcode, answer.truncated) == (513, 0, False)
    assert answer.question == name + form.qtype.to_bytes(2, "big") + b"\0\x01"
    assert (answer.payload, answer.notice) == (payload, None)


@pytest.mark.parametrize("form", Form)
def test_short_answers_carry_nothing(form: Form) -> None:
    copy = copy_of(build_question(7, NAME, form.qtype, edns=True))
    for message, rcode, is_truncated in (
        (nodata(copy, ZONE), Rcode.NOERROR, False),
        (nxdomain(copy, ZONE), Rcode.NXDOMAIN, False),
        (truncated(copy), Rcode.NOERROR, True),
        (failure(copy, Rcode.SERVFAIL), Rcode.SERVFAIL, False),
        (failure(copy, Rcode.REFUSED), Rcode.REFUSED, False),
    ):
        answer = read_answer(message)
        question = NAME + form.qtype.to_bytes(2, "big") + b"\0\1"
        assert answer == Answer(7, rcode, is_truncated, question)


@pytest.mark.parametrize("form", Form)
def test_a_notice_comes_back_under_every_type(form: Form) -> None:
    copy = copy_of(build_question(7, tunnel_name(3), form.qtype, edns=True))
    answer = read_answer(nxdomain(copy, ZONE, NOTICE))
    assert (answer.rcode, answer.payload, answer.notice) == (Rcode.NXDOMAIN, None, NOTICE)


# --- what dnspython built -------------------------------------------------------------------


def test_ds_records_among_others() -> None:
    for others in ([], [record("DS", ds(digest_type=2)[:36])], [record("TXT", txt())]):
        message = respond(QType.DS, *others, record("DS", ds())).to_wire()
        assert read_answer(message).payload == PAYLOAD
    signed = record("RRSIG", bytes(18) + b"\0" + bytes(40))
    assert read_answer(respond(QType.DS, signed, record("DS", ds())).to_wire()).payload == PAYLOAD


def test_of_two_payloads_the_first_counts() -> None:
    two = record("DS", ds()), record("DS", ds(bytes(60)), owner=tunnel_name(2))
    assert read_answer(respond(QType.DS, *two).to_wire()).payload == PAYLOAD


@pytest.mark.parametrize("pieces", [(100,), (1, 99), (50, 50), (99, 1), (1,) * 100])
def test_strings_of_txt_may_be_cut_anyhow(pieces: tuple[int, ...]) -> None:
    message = respond(QType.TXT, record("TXT", txt(pieces=pieces))).to_wire()
    assert read_answer(message).payload == PAYLOAD


@pytest.mark.parametrize("case", ["lower", "upper", "title"])
@pytest.mark.parametrize("octets", [18, 39, 100, 156, 157, 312])
def test_names_of_a_soa_are_read_in_any_case(octets: int, case: str) -> None:
    payload = bytes(place * 11 % 256 for place in range(octets))
    names = name_of(payload[:156], case=case), name_of(payload[156:], case=case)
    answer = read_answer(soa_answer(*names, dns.rcode.NOERROR))
    assert (answer.payload, answer.notice) == (payload, None)


def test_names_of_a_soa_that_end_alike_are_compressed_and_read() -> None:
    label = base32.encode(bytes(39))
    mname = dns.name.Name([label, label, b"aeba", b""])
    rname = dns.name.Name([label, b"aeba", b""])
    message = soa_answer(mname, rname, dns.rcode.NOERROR)
    assert message.count(label) == 2  # of three
    answer = read_answer(message)
    assert answer.payload == base32.decode(label * 2 + b"aeba") + base32.decode(label + b"aeba")


def test_a_notice_is_read_whatever_follows_its_label() -> None:
    first = base32.encode(NOTICE).upper()
    for rest in ([b"t", b"example", b"com", b""], [b""], [b"ns", b"invalid", b""]):
        message = soa_answer(
            dns.name.Name([first, *rest]), dns.name.from_text("a."), dns.rcode.NXDOMAIN
        )
        assert read_answer(message).notice == NOTICE


def test_an_opt_record_with_options_changes_nothing() -> None:
    response = respond(QType.DS, record("DS", ds()))
    response.use_edns(0, payload=512, options=[COOKIE])
    assert read_answer(response.to_wire()).payload == PAYLOAD


def test_the_question_comes_back_in_any_case_and_is_compared_in_lower() -> None:
    loud = respond(QType.DS, record("DS", ds()), name=NAME.upper()).to_wire()
    assert NAME.upper() in loud
    assert read_answer(loud).question == QUESTION


def test_case_is_the_names_only() -> None:
    message = raw(b"", (0, 0, 0), question=NAME + b"\x41\x42\0\x01")
    assert read_answer(message).question == NAME + b"\x41\x42\0\x01"


# --- what is not ours -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "counts"),
    [
        (b"", (0, 0, 0)),
        (rr(43, ds(digest_type=2)), (1, 0, 0)),
        (rr(43, b"\1\2\3\xfa"), (1, 0, 0)),  # no digest
        (rr(43, b""), (1, 0, 0)),
        (rr(43, ds(), rclass=3), (1, 0, 0)),
        (rr(43, ds()), (0, 1, 0)),  # not in the answer section
        (rr(43, ds()), (0, 0, 1)),
        (rr(16, txt()), (1, 0, 0)),  # another form than asked
        (rr(1, b"\x7f\0\0\1"), (1, 0, 0)),
        (rr(5, NAME), (1, 0, 0)),
        (rr(6, b"\0\0" + bytes(20)), (0, 1, 0)),
    ],
)
def test_other_records_carry_nothing(records: bytes, counts: tuple[int, int, int]) -> None:
    answer = read_answer(raw(records, counts))
    assert (answer.payload, answer.notice) == (None, None)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0", b"\x02a", b"\x01a\xff", b"\xff"])
def test_strings_that_are_empty_or_do_not_fill_their_record_carry_nothing(data: bytes) -> None:
    message = raw(rr(16, data), question=NAME + b"\0\x10\0\x01")
    assert read_answer(message).payload is None


@pytest.mark.parametrize(
    ("mname", "rname"),
    [
        ("t.example.com.", "hostmaster.t.example.com."),
        (".", "."),
        ("a.root-servers.net.", "nstld.verisign-grs.com."),
        ("aeba.aeba.", "."),  # labels not full
        ("ns1.", "."),  # a 1 is foreign
        ("aeba.", "ns0."),
    ],
)
def test_the_soa_of_somebody_else_carries_nothing(mname: str, rname: str) -> None:
    names = dns.name.from_text(mname), dns.name.from_text(rname)
    for rcode in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
        answer = read_answer(soa_answer(*names, rcode))
        assert (answer.rcode, answer.payload, answer.notice) == (rcode, None, None)


def test_a_payload_comes_with_noerror_and_a_notice_with_nxdomain() -> None:
    notice = dns.name.Name([base32.encode(NOTICE), b"t", b""])
    root = dns.name.root
    assert read_answer(soa_answer(notice, root, dns.rcode.NOERROR)).notice is None
    assert read_answer(soa_answer(name_of(PAYLOAD), root, dns.rcode.NXDOMAIN)).payload is None
    assert read_answer(soa_answer(name_of(PAYLOAD), root, dns.rcode.SERVFAIL)).payload is None


@pytest.mark.parametrize("label", [b"a" * 36, b"a" * 38, b"a" * 36 + b"1", b"a" * 36 + b"-"])
def test_what_has_not_the_shape_of_a_notice_is_none(label: bytes) -> None:
    message = soa_answer(dns.name.Name([label, b""]), dns.name.root, dns.rcode.NXDOMAIN)
    assert read_answer(message).notice is None


def test_thirty_two_records_are_looked_at() -> None:
    def among(before: int) -> bytes:
        return raw(rr(1, bytes(4)) * before + rr(43, ds()), (before + 1, 0, 0))

    assert read_answer(among(MAX_RECORDS - 1)).payload == PAYLOAD
    assert read_answer(among(MAX_RECORDS)).payload is None
    # What isn't looked at may as well be missing.
    assert read_answer(raw(rr(1, bytes(4)) * MAX_RECORDS, (65_535,) * 3)).payload is None


@pytest.mark.parametrize("size", [1, 512, 1232])
def test_an_opt_record_where_none_should_be_is_stepped_over(size: int) -> None:
    opt = rr(41, b"\0\x0a\0\x08cookie 8", owner=b"\0", rclass=size)
    assert read_answer(raw(opt + rr(43, ds()), (2, 0, 1))).payload == PAYLOAD
    assert read_answer(raw(rr(43, ds()) + opt, (1, 1, 0))).payload == PAYLOAD
    names = b"\4aeba\0\0" + bytes(20)
    soa = opt + rr(6, names, owner=b"\xc0\x4d")
    message = raw(soa, (1, 1, 0), question=NAME + b"\0\1\0\1")
    assert read_answer(message).payload == b"\1\2"


def test_what_follows_the_payload_is_not_looked_at() -> None:
    assert read_answer(raw(rr(43, ds()) + b"\xff\xff", (2, 9, 9))).payload == PAYLOAD


def test_a_truncated_answer_may_end_anywhere_behind_its_question() -> None:
    whole = raw(rr(1, bytes(4)) + rr(43, ds()), (2, 0, 0), flags=0x8780)
    assert read_answer(whole) == (7, 0, True, QUESTION, PAYLOAD, None)
    for end in range(12 + len(QUESTION), len(whole)):
        assert read_answer(whole[:end]) == (7, 0, True, QUESTION, None, None)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"", "a message of 0 octets"),
        (bytes(11), "a message of 11 octets"),
        (raw(rr(43, ds())).ljust(MAX_MESSAGE + 1, b"\0"), "a message of 65536 octets"),
        (raw(b"", flags=0x0100), "no answer to one question: flags 0x0100"),
        (raw(b"", flags=0xA100), "flags 0xa100"),
        (struct.pack("!6H", 7, 0x8180, 0, 0, 0, 0), "0 questions"),
        (struct.pack("!6H", 7, 0x8180, 2, 0, 0, 0) + QUESTION * 2, "2 questions"),
        (raw(b"", question=b""), "octet 12 runs past the message's 12"),
        (raw(b"", question=NAME), "question is cut short by the message's end"),
        (raw(b"", question=POINTER + b"\0\x2b\0\x01"), "begins with 0xc0"),
        (raw(b""), "octet 95 is cut short"),
        (raw(POINTER), "the head of the record at octet 97 is cut short"),
        (raw(rr(43, ds())[:-1]), "a record of 101 octets at octet 107 runs past"),
        (raw(rr(43, ds(), owner=b"\x40")), "begins with 0x40"),
    ],
    ids=range(14),
)
def test_what_is_no_answer_says_why(message: bytes, why: str) -> None:
    with pytest.raises(MalformedMessage, match=why):
        read_answer(message)


def test_the_longest_answer_is_read() -> None:
    assert read_answer(raw(rr(43, ds())).ljust(MAX_MESSAGE, b"\0")).payload == PAYLOAD


@pytest.mark.parametrize(
    "names",
    [
        b"\xc0\xff" + bytes(22),  # leads on
        POINTER,  # RNAME is missing
        b"\x3f" + bytes(30),
        (b"\x3f" + b"a" * 63) * 4 + b"\0\0" + bytes(20),
    ],
)
def test_names_of_a_soa_that_cannot_be_read_spoil_the_answer(names: bytes) -> None:
    for flags in (0x8580, 0x8583):
        message = raw(
            rr(6, names, owner=b"\xc0\x0c"), (0, 1, 0), question=NAME + b"\0\1\0\1", flags=flags
        )
        if flags & 3 and names == POINTER:
            continue  # a notice is in MNAME alone
        with pytest.raises(MalformedMessage):
            read_answer(message)


# --- cut, changed, garbage ------------------------------------------------------------------

ANSWERS = [
    *(
        build_answer(
            copy_of(build_question(7, tunnel_name(number), form.qtype, edns=True)),
            form,
            PAYLOAD * 2,
            ZONE,
        )
        for form in Form
        for number in (1, 4)
    ),
    nxdomain(copy_of(build_question(7, NAME, QType.DS, edns=True)), ZONE, NOTICE),
    soa_answer(name_of(PAYLOAD), name_of(PAYLOAD), dns.rcode.NOERROR),
    respond(QType.TXT, record("TXT", txt(pieces=(9, 9, 82)))).to_wire(),
]


@pytest.mark.parametrize("message", ANSWERS, ids=range(len(ANSWERS)))
def test_an_answer_cut_anywhere_is_refused_or_the_same(message: bytes) -> None:
    whole = read_answer(message)
    assert whole.payload or whole.notice
    refused = 0
    for end in range(len(message)):
        try:
            answer = read_answer(message[:end])
        except MalformedMessage:
            refused += 1
        else:
            assert answer == whole  # only what isn't looked at was missing
    assert refused >= len(message) - 12  # at most the OPT record


def check_total(message: bytes) -> None:
    for form in (None, *Form):
        try:
            answer = read_answer(message, form)
        except RemoteProtocolError:
            continue
        assert len(answer.question) >= 5
        assert answer.payload != b""
        assert answer.notice is None or len(answer.notice) == NOTICE_OCTETS
        assert len(answer.payload or b"") < len(message)


@given(st.binary(max_size=600))
def test_any_octets_give_an_answer_or_the_one_error(message: bytes) -> None:
    check_total(message)


@given(st.tuples(*[st.integers(0, 3)] * 3), st.binary(max_size=300), st.integers(0, 3))
def test_any_octets_behind_a_question_give_an_answer_or_the_one_error(
    counts: tuple[int, int, int], body: bytes, rcode: int
) -> None:
    check_total(raw(body, counts, flags=0x8580 | rcode))


@given(st.sampled_from(ANSWERS), st.randoms(use_true_random=False), st.integers(1, 6))
def test_an_answer_with_octets_changed_gives_an_answer_or_the_one_error(
    message: bytes, dice: random.Random, changes: int
) -> None:
    changed = bytearray(message)
    for _ in range(changes):
        changed[dice.randrange(len(changed))] = dice.choice((0, 1, 63, 192, dice.randrange(256)))
    check_total(bytes(changed))
