"""What a server sends and what it weighs; how a client reads it is in test_reading.py."""

from __future__ import annotations

import base64
from collections.abc import Callable

import dns.flags
import dns.rcode
import dns.rdatatype
import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import LocalProtocolError
from tests.transports.soar.dns.peer import ZONE, ask, copy_of, tunnel_name, typed
from transports.soar.core.dns.answers import (
    MAX_SOA_OCTETS,
    MIN_DS_OCTETS,
    NOTICE_OCTETS,
    Form,
    build_answer,
    failure,
    nodata,
    nxdomain,
    read_answer,
    room,
    truncated,
)
from transports.soar.core.dns.messages import QType, Rcode
from transports.soar.core.dns.questions import Copy, build_question

NOTICE = bytes(range(NOTICE_OCTETS))
LIMITS = (512, 513, 700, 1191, 1232, 4096, 16_384, 65_535, 70_000)


def octets(count: int) -> bytes:
    return bytes(place * 7 % 256 for place in range(count))


# --- forms ----------------------------------------------------------------------------------


def test_forms_have_the_codes_and_types_of_the_specification() -> None:
    assert [(form.name, int(form), form.qtype) for form in Form] == [
        ("DS", 0, QType.DS),
        ("TXT", 1, QType.TXT),
        ("SOA", 2, QType.A),
    ]
    assert Form(2) is Form.SOA


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("edns", [512, None])
def test_what_there_is_room_for_fits_and_not_an_octet_more(form: Form, edns: int | None) -> None:
    for number in ZONE.classes:
        copy = copy_of(ask(tunnel_name(number), form.qtype, edns=edns))
        for limit in (*LIMITS, *range(520, 560)):
            most = room(form, len(copy.question), limit, edns=copy.is_edns)
            message = build_answer(copy, form, octets(most), ZONE)
            assert len(message) <= limit
            assert read_answer(message).payload == octets(most)
            if (form is Form.SOA and most == MAX_SOA_OCTETS) or limit > 65_000:
                continue
            assert len(build_answer(copy, form, octets(most + 1), ZONE)) > limit


@pytest.mark.parametrize(
    ("form", "number", "limit", "most"),
    [
        # Figures worked out by hand from RFC 1035; z = 15, with an OPT record.
        (Form.DS, 1, 1232, 1113),
        (Form.DS, 1, 512, 393),
        (Form.TXT, 1, 1232, 1109),
        (Form.TXT, 1, 512, 392),
        (Form.TXT, 4, 1232, 934),
        (Form.TXT, 4, 512, 217),
        (Form.SOA, 1, 1232, 312),
        (Form.SOA, 1, 512, 228),
        (Form.SOA, 4, 512, 120),
    ],
)
def test_room_in_figures(form: Form, number: int, limit: int, most: int) -> None:
    question_length = ZONE.classes[number].length + 4
    assert room(form, question_length, limit, edns=True) == most


@pytest.mark.parametrize("form", Form)
def test_where_nothing_fits_there_is_no_room(form: Form) -> None:
    for limit in range(120):
        assert room(form, 83, limit, edns=True) == max(
            0, {Form.DS: limit - 119, Form.TXT: limit - 119}.get(form, 0)
        )


@given(st.sampled_from(Form), st.integers(5, 259), st.integers(0, 70_000), st.booleans())
def test_room_is_never_more_than_there_is(
    form: Form, question_length: int, limit: int, edns: bool
) -> None:
    most = room(form, question_length, limit, edns=edns)
    assert 0 <= most <= max(limit, 0)
    assert most <= room(form, question_length, limit, edns=False)
    assert most <= room(form, question_length, limit + 1, edns=edns)


@pytest.mark.parametrize(
    ("form", "count"),
    [(Form.DS, 0), (Form.DS, 3), (Form.DS, 65_535), (Form.TXT, 65_281), (Form.SOA, 313)],
)
def test_what_a_form_cannot_carry_is_refused(form: Form, count: int) -> None:
    copy = copy_of(ask(tunnel_name(), form.qtype))
    with pytest.raises(LocalProtocolError, match=f"{form.name} cannot carry {count} octets"):
        build_answer(copy, form, bytes(count), ZONE)


def test_an_answer_in_the_form_ds_on_the_wire() -> None:
    copy = copy_of(build_question(0xABCD, b"\x01x" + ZONE.wire, QType.DS, edns=True))
    message = build_answer(copy, Form.DS, b"\x01\x02\x03\x04\x05", ZONE)
    assert message == (
        bytes.fromhex("abcd 8500 0001 0001 0000 0001")
        + b"\x01x\x01t\x07example\x03com\0\0\x2b\0\x01"
        + bytes.fromhex("c00c 002b 0001 00000000 0006  0102 03 fa 0405")
        + bytes.fromhex("00 0029 04d0 00000000 0000")
    )


def test_an_answer_in_the_form_txt_on_the_wire() -> None:
    copy = copy_of(build_question(1, b"\x01x" + ZONE.wire, QType.TXT, edns=False))
    message = build_answer(copy, Form.TXT, b"a" * 256, ZONE)
    assert message == (
        bytes.fromhex("0001 8500 0001 0001 0000 0000")
        + b"\x01x\x01t\x07example\x03com\0\0\x10\0\x01"
        + bytes.fromhex("c00c 0010 0001 00000000 0102")
        + (b"\xff" + b"a" * 255 + b"\x01a")
    )


def test_an_answer_in_the_form_soa_on_the_wire() -> None:
    copy = copy_of(build_question(1, b"\x01x" + ZONE.wire, QType.A, edns=False))
    message = build_answer(copy, Form.SOA, b"\x01\x02", ZONE)
    assert message == (
        bytes.fromhex("0001 8500 0001 0000 0001 0000")
        + b"\x01x\x01t\x07example\x03com\0\0\x01\0\x01"
        + bytes.fromhex("c00e 0006 0001 00000000 001b")
        + b"\x04aeba\0\0"
        + bytes.fromhex("00000001 00000e10 00000258 00015180 00000000")
    )


# --- as dnspython reads them ----------------------------------------------------------------


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("count", [4, 63, 155, 156, 157, 254, 255, 256, 312, 510, 1100])
def test_dnspython_finds_the_octets_where_the_specification_puts_them(
    form: Form, count: int
) -> None:
    if form is Form.SOA and count > MAX_SOA_OCTETS:
        return
    copy = copy_of(ask(tunnel_name(2), form.qtype))
    theirs = typed(build_answer(copy, form, octets(count), ZONE))
    assert theirs.flags == dns.flags.QR | dns.flags.AA | dns.flags.RD
    assert theirs.rcode() == dns.rcode.NOERROR
    section = theirs.authority if form is Form.SOA else theirs.answer
    assert (len(theirs.answer) + len(theirs.authority), len(section)) == (1, 1)
    (rrset,) = section
    (rdata,) = rrset
    assert rrset.ttl == 0
    owner = ZONE.wire if form is Form.SOA else tunnel_name(2)
    assert rrset.name.to_wire() == owner
    match form:
        case Form.DS:
            head = rdata.key_tag.to_bytes(2, "big") + bytes((rdata.algorithm,))
            assert head + rdata.digest == octets(count)
            assert rdata.digest_type == 250
        case Form.TXT:
            assert [len(string) for string in rdata.strings[:-1]] == [255] * ((count - 1) // 255)
            assert b"".join(rdata.strings) == octets(count)
        case Form.SOA:
            names = [b"".join(name.labels) for name in (rdata.mname, rdata.rname)]
            expected = [octets(count)[:156], octets(count)[156:]]
            assert names == [base64.b32encode(part).rstrip(b"=").lower() for part in expected]
            for name in (rdata.mname, rdata.rname):
                assert all(len(label) == 63 for label in name.labels[:-2])
            assert rdata.minimum == 0


Build = Callable[[Copy], bytes]

SHORT: list[tuple[str, Build, Rcode]] = [
    ("nodata", lambda copy: nodata(copy, ZONE), Rcode.NOERROR),
    ("nxdomain", lambda copy: nxdomain(copy, ZONE), Rcode.NXDOMAIN),
    ("notice", lambda copy: nxdomain(copy, ZONE, NOTICE), Rcode.NXDOMAIN),
    ("truncated", truncated, Rcode.NOERROR),
    ("refused", lambda copy: failure(copy, Rcode.REFUSED), Rcode.REFUSED),
    ("formerr", lambda copy: failure(copy, Rcode.FORMERR), Rcode.FORMERR),
    ("servfail", lambda copy: failure(copy, Rcode.SERVFAIL), Rcode.SERVFAIL),
    ("octets", lambda copy: build_answer(copy, Form.DS, octets(40), ZONE), Rcode.NOERROR),
]


@pytest.mark.parametrize(
    ("build", "rcode"), [case[1:] for case in SHORT], ids=[c[0] for c in SHORT]
)
def test_what_the_copy_says_goes_back(build: Build, rcode: Rcode) -> None:
    for edns in (None, 512, 4096):
        for flags in (0, dns.flags.RD, dns.flags.CD, dns.flags.RD | dns.flags.CD | dns.flags.AD):
            for dnssec_ok in (False, True):
                question = ask(tunnel_name(2).swapcase() if edns else tunnel_name(2), edns=edns)
                question.flags = flags
                if edns:
                    question.want_dnssec(dnssec_ok)
                theirs = typed(build(copy_of(question)))
                assert theirs.id == question.id
                assert theirs.question[0].name.labels == question.question[0].name.labels
                assert theirs.question == question.question
                kept = flags & (dns.flags.RD | dns.flags.CD)
                mine = theirs.flags & ~(dns.flags.AA | dns.flags.TC)
                assert mine == dns.flags.QR | kept | rcode
                assert int(theirs.rcode()) == rcode
                assert theirs.edns == question.edns
                assert theirs.ednsflags & 0x8000 == question.ednsflags & 0x8000
                assert theirs.payload == (1232 if edns else 0)


def test_an_authority_says_so_unless_it_fails() -> None:
    for name, build, _ in SHORT:
        theirs = typed(build(copy_of(ask())))
        assert bool(theirs.flags & dns.flags.AA) == (name not in ("refused", "formerr", "servfail"))
        assert bool(theirs.flags & dns.flags.TC) == (name == "truncated")


def test_negative_answers_carry_the_zones_soa_that_nobody_keeps() -> None:
    copy = copy_of(ask(tunnel_name(3)))
    for message in (nodata(copy, ZONE), nxdomain(copy, ZONE), nxdomain(copy, ZONE, NOTICE)):
        theirs = typed(message)
        assert (theirs.answer, theirs.additional) == ([], [])
        (soa,) = theirs.authority
        assert soa.name.to_wire() == ZONE.wire
        assert (soa.rdtype, soa.ttl, soa[0].minimum) == (dns.rdatatype.SOA, 0, 0)
        assert soa[0].rname.to_text() == "hostmaster.t.example.com."
    assert typed(nodata(copy, ZONE)).authority[0][0].mname.to_wire() == ZONE.wire


def test_the_notice_is_the_first_label_of_mname() -> None:
    theirs = typed(nxdomain(copy_of(ask(tunnel_name(2))), ZONE, NOTICE))
    first, *rest = theirs.authority[0][0].mname.labels
    assert first == base64.b32encode(NOTICE).rstrip(b"=").lower()
    assert rest == [b"t", b"example", b"com", b""]


def test_the_apex_itself_gets_the_same() -> None:
    theirs = typed(nodata(copy_of(ask(ZONE.wire, QType.AAAA)), ZONE))
    assert theirs.authority[0].name.to_wire() == ZONE.wire


def test_short_answers_stay_within_what_strangers_may_be_sent() -> None:
    for edns in (None, 1232):
        for number in ZONE.classes:
            question = ask(tunnel_name(number), edns=edns)
            for _, build, _ in SHORT:
                assert len(build(copy_of(question))) - len(question.to_wire()) <= 96


@pytest.mark.parametrize("count", [0, 22, 24])
def test_a_notice_has_its_length(count: int) -> None:
    with pytest.raises(LocalProtocolError, match=f"a notice of {count} octets; it has 23"):
        nxdomain(copy_of(ask()), ZONE, bytes(count))


def test_a_version_of_edns_that_we_do_not_speak_is_named() -> None:
    question = ask()
    question.use_edns(3)
    copy = copy_of(question)
    theirs = typed(failure(copy, copy.fault))
    assert (theirs.rcode(), theirs.edns) == (dns.rcode.BADVERS, 0)
    assert theirs.question == question.question


def test_without_a_readable_question_a_failure_is_a_header() -> None:
    message = bytes.fromhex("0102 2800 0001 0000 0000 0000")  # UPDATE
    copy = copy_of(message)
    assert failure(copy, copy.fault) == bytes.fromhex("0102 a804 0000 0000 0000 0000")
    assert typed(failure(copy, copy.fault)).rcode() == dns.rcode.NOTIMP


def test_the_least_that_the_form_ds_carries() -> None:
    copy = copy_of(ask())
    assert read_answer(build_answer(copy, Form.DS, bytes(MIN_DS_OCTETS), ZONE)).payload == bytes(4)
