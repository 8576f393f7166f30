from __future__ import annotations

import struct

import dns.edns
import dns.flags
import dns.message
import dns.opcode
import dns.rrset
import dns.tsigkeyring
import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import LocalProtocolError
from tests.transports.soar.dns.peer import COOKIE, ZONE, ask, copy_of, tunnel_name, typed
from transports.soar.core.dns.messages import MAX_RECORDS, RECORD, Rcode
from transports.soar.core.dns.questions import Copy, QType, build_question, read_copy

NAME = tunnel_name()
OPT = b"\0" + RECORD.pack(QType.OPT, 1232, 0, 0)
ADDRESS = b"\xc0\x0c" + RECORD.pack(QType.A, 1, 0, 4) + bytes(4)
ALL_NAMES = [tunnel_name(number) for number in ZONE.classes]


def raw(
    counts: tuple[int, int, int, int] = (1, 0, 0, 0),
    body: bytes = NAME + b"\0\x2b\0\x01",
    *,
    flags: int = 0x0100,
) -> bytes:
    return struct.pack("!6H", 7, flags, *counts) + body


# --- asking ---------------------------------------------------------------------------------


def test_a_question_on_the_wire() -> None:
    assert build_question(0xABCD, b"\x01a\x00", QType.DS, edns=False) == bytes.fromhex(
        "abcd 0100 0001 0000 0000 0000  0161 00 002b 0001"
    )
    assert build_question(0, b"\x01a\x00", QType.TXT, edns=True) == bytes.fromhex(
        "0000 0100 0001 0000 0000 0001  0161 00 0010 0001  00 0029 04d0 00000000 0000"
    )


@pytest.mark.parametrize("name", ALL_NAMES, ids=len)
@pytest.mark.parametrize("qtype", [QType.DS, QType.TXT, QType.A, QType.NS])
@pytest.mark.parametrize("edns", [True, False])
def test_dnspython_and_we_read_it_alike(name: bytes, qtype: QType, edns: bool) -> None:
    message = build_question(513, name, qtype, edns=edns)
    theirs = typed(message)
    assert theirs.id == 513
    assert theirs.flags == dns.flags.RD
    assert theirs.opcode() == dns.opcode.QUERY
    assert (theirs.edns, theirs.payload) == ((0, 1232) if edns else (-1, 0))
    assert (len(theirs.question), theirs.answer, theirs.authority) == (1, [], [])
    assert theirs.question[0].name.to_wire() == name
    assert int(theirs.question[0].rdtype) == qtype
    assert theirs.to_wire() == message
    assert read_copy(message) == Copy(
        id=513,
        flags=0x0100,
        question=name + qtype.to_bytes(2, "big") + b"\0\x01",
        name=name,
        qtype=qtype,
        qclass=1,
        edns_size=1232 if edns else None,
    )


@pytest.mark.parametrize(("number", "qtype"), [(-1, QType.DS), (65_536, QType.DS), (1, 99)])
def test_what_no_question_can_say_is_refused(number: int, qtype: QType) -> None:
    with pytest.raises(LocalProtocolError, match="there is no question of type"):
        build_question(number, NAME, qtype, edns=True)


# --- copies as resolvers send them ----------------------------------------------------------


@pytest.mark.parametrize("name", ALL_NAMES, ids=len)
def test_the_name_is_sent_back_as_spelled_and_read_in_lower_case(name: bytes) -> None:
    loud = bytes(octet - 32 if octet in b"acegikmoqsuwy" else octet for octet in name)
    copy = copy_of(ask(loud))
    assert copy.question == loud + b"\0\x2b\0\x01"
    assert copy.name == name
    assert copy.fault == Rcode.NOERROR


def test_case_is_the_names_only() -> None:
    copy = copy_of(ask(NAME, 0x4142))  # a type whose octets look like letters
    assert copy.question[-4:] == b"\x41\x42\0\x01"
    assert copy.qtype == 0x4142


@pytest.mark.parametrize(
    ("payload", "size"),
    [(None, None), (0, 512), (511, 512), (512, 512), (513, 513), (1232, 1232), (65_535, 65_535)],
)
def test_the_size_announced(payload: int | None, size: int | None) -> None:
    copy = copy_of(ask(edns=payload))
    assert copy.edns_size == size
    assert copy.is_edns == (size is not None)
    assert copy.fault == Rcode.NOERROR


def test_flags_are_known_by_name() -> None:
    message = ask()
    message.flags |= dns.flags.CD
    message.want_dnssec()
    copy = copy_of(message)
    assert (copy.rd, copy.cd, copy.opcode, copy.edns_version) == (True, True, 0, 0)
    assert copy.edns_flags == 0x8000
    plain = copy_of(raw(flags=0))
    assert (plain.rd, plain.cd, plain.edns_version, plain.edns_flags) == (False, False, 0, 0)


def test_cookies_and_other_options_are_stepped_over() -> None:
    message = ask()
    padding = dns.edns.GenericOption(dns.edns.OptionType.PADDING, bytes(40))
    message.use_edns(0, payload=4096, options=[COOKIE, padding])
    assert copy_of(message).edns_size == 4096


def test_a_signature_behind_the_opt_record_is_stepped_over() -> None:
    message = ask()
    message.use_tsig(dns.tsigkeyring.from_text({"key.": "c2VjcmV0"}))
    copy = copy_of(message)
    assert (copy.fault, copy.edns_size) == (Rcode.NOERROR, 1232)


@pytest.mark.parametrize(
    ("counts", "records"),
    [
        ((1, 0, 0, 2), ADDRESS + OPT),
        ((1, 0, 0, 2), OPT + ADDRESS),
        ((1, 0, 0, 3), ADDRESS + OPT + ADDRESS),
        ((1, 1, 0, 1), ADDRESS + OPT),
        ((1, 0, 1, 1), ADDRESS + OPT),
        ((1, 1, 1, 2), ADDRESS * 3 + OPT),
        ((1, 0, 0, MAX_RECORDS), ADDRESS * (MAX_RECORDS - 1) + OPT),
        ((1, 0, 0, 1), OPT + b"what a middlebox left"),
    ],
)
def test_the_opt_record_is_found_wherever_it_may_stand(
    counts: tuple[int, int, int, int], records: bytes
) -> None:
    copy = copy_of(raw(counts) + records)
    assert (copy.fault, copy.edns_size) == (Rcode.NOERROR, 1232)


# --- what is wrong with them ----------------------------------------------------------------

QUESTION = NAME + b"\0\x2b\0\x01"


@pytest.mark.parametrize(
    ("message", "fault", "question"),
    [
        (raw((0, 0, 0, 0), b""), Rcode.FORMERR, b""),
        (raw((2, 0, 0, 0), QUESTION * 2), Rcode.FORMERR, b""),
        (raw((1, 0, 0, 0), b""), Rcode.FORMERR, b""),
        (raw((1, 0, 0, 0), b"\xc0\x0c\0\x01\0\x01"), Rcode.FORMERR, b""),
        (raw((1, 0, 0, 0), b"\x01a\xc0\0\0\x01\0\x01"), Rcode.FORMERR, b""),
        (raw((1, 0, 0, 0), b"\x41a\0\0\x01\0\x01"), Rcode.FORMERR, b""),
        (raw((1, 0, 0, 0), (b"\x3f" + bytes(63)) * 4 + b"\0\0\x01\0\x01"), Rcode.FORMERR, b""),
        (raw((1, 0, 0, 1)), Rcode.FORMERR, QUESTION),  # counted, and not there
        (raw((1, 0, 0, 1)) + OPT[:-1], Rcode.FORMERR, QUESTION),
        (raw((1, 0, 0, 1)) + OPT[:-1] + b"\x01", Rcode.FORMERR, QUESTION),  # runs past the end
        (raw((1, 0, 0, 2)) + OPT * 2, Rcode.FORMERR, QUESTION),
        (raw((1, 1, 0, 0)) + OPT, Rcode.FORMERR, QUESTION),  # not in the additional section
        (raw((1, 0, 1, 0)) + OPT, Rcode.FORMERR, QUESTION),
        (raw((1, 0, 0, 1)) + b"\x01a" + OPT, Rcode.FORMERR, QUESTION),  # not the root's
        (raw((1, 0, 0, 33)) + ADDRESS * 32 + OPT, Rcode.FORMERR, QUESTION),
        (raw((1, 65_535, 65_535, 65_535)), Rcode.FORMERR, QUESTION),
        (raw(flags=0x0800), Rcode.NOTIMP, b""),
        (raw(flags=0x2000), Rcode.NOTIMP, b""),  # NOTIFY
        (raw(flags=0x2800), Rcode.NOTIMP, b""),  # UPDATE
        (raw(flags=0x7800), Rcode.NOTIMP, b""),
        (raw((1, 0, 0, 1)) + b"\0" + RECORD.pack(41, 1232, 1 << 16, 0), Rcode.BADVERS, QUESTION),
        (raw((1, 0, 0, 1)) + b"\0" + RECORD.pack(41, 1232, 255 << 16, 0), Rcode.BADVERS, QUESTION),
        (raw(body=NAME + b"\0\x2b\0\x03"), Rcode.REFUSED, NAME + b"\0\x2b\0\x03"),  # CHAOS
        (raw(body=NAME + b"\0\x2b\0\xff"), Rcode.REFUSED, NAME + b"\0\x2b\0\xff"),
        (raw(body=NAME + b"\0\xff\0\x01"), Rcode.REFUSED, NAME + b"\0\xff\0\x01"),  # ANY
        (raw(body=NAME + b"\0\xfc\0\x01"), Rcode.REFUSED, NAME + b"\0\xfc\0\x01"),  # AXFR
        (raw(body=NAME + b"\0\xfb\0\x01"), Rcode.REFUSED, NAME + b"\0\xfb\0\x01"),  # IXFR
        (raw(body=NAME + b"\0\x29\0\x01"), Rcode.REFUSED, NAME + b"\0\x29\0\x01"),  # OPT
    ],
)
def test_a_fault_says_what_the_copy_is_answered(
    message: bytes, fault: Rcode, question: bytes
) -> None:
    copy = copy_of(message)
    assert (copy.fault, copy.question) == (fault, question)
    assert copy.id == 7


def test_types_that_no_record_has_are_refused_and_no_others() -> None:
    refused = {
        qtype
        for qtype in range(65_536)
        if copy_of(raw(body=b"\1a\0" + qtype.to_bytes(2, "big") + b"\0\1")).fault == Rcode.REFUSED
    }
    assert refused == {41, *range(249, 256)}


@pytest.mark.parametrize(
    "message",
    [raw(flags=0x8000), raw(flags=0x8583), raw(flags=0xF800), b"", raw()[:11], bytes(11)],
)
def test_a_response_and_less_than_a_header_get_nothing(message: bytes) -> None:
    assert read_copy(message) is None


@pytest.mark.parametrize("name", ALL_NAMES, ids=len)
def test_a_copy_cut_anywhere_is_a_format_error(name: bytes) -> None:
    message = build_question(7, name, QType.DS, edns=True)
    for end in range(12, len(message)):
        copy = copy_of(message[:end])
        assert copy.fault == Rcode.FORMERR
        question = message[12:-11]
        assert copy.question == (question if end >= 12 + len(question) else b"")
    assert copy_of(message).fault == Rcode.NOERROR


def test_names_of_any_length_a_name_may_have() -> None:
    longest = (b"\x3f" + b"a" * 63) * 3 + b"\x3d" + b"a" * 61 + b"\0"
    assert copy_of(raw(body=longest + b"\0\x01\0\x01")).name == longest
    assert copy_of(raw(body=b"\0\0\x01\0\x01")).name == b"\0"
    assert copy_of(raw(body=b"\x01a" * 127 + b"\0\0\x01\0\x01")).fault == Rcode.NOERROR
    assert copy_of(raw(body=b"\x01a" * 128 + b"\0\0\x01\0\x01")).fault == Rcode.FORMERR


def check_total(message: bytes) -> None:
    copy = read_copy(message)
    if copy is None:
        assert len(message) < 12 or message[2] & 0x80
        return
    assert copy.id == int.from_bytes(message[:2], "big")
    assert copy.question == message[12 : 12 + len(copy.question)]
    if not copy.fault:
        assert copy.name == copy.question[:-4].lower()
        assert copy.qclass == 1


@given(st.binary(max_size=600))
def test_any_octets_give_a_copy_or_nothing(message: bytes) -> None:
    check_total(message)


@given(st.tuples(*[st.integers(0, 3)] * 4), st.binary(max_size=300))
def test_any_octets_behind_a_header_give_a_copy(
    counts: tuple[int, int, int, int], body: bytes
) -> None:
    check_total(raw(counts, body))


@given(
    st.sampled_from(ALL_NAMES),
    st.lists(st.tuples(st.integers(0, 299), st.integers(0, 255)), max_size=4),
)
def test_a_copy_with_octets_changed_is_still_one(
    name: bytes, changes: list[tuple[int, int]]
) -> None:
    message = bytearray(build_question(7, name, QType.TXT, edns=True))
    for place, octet in changes:
        message[place % len(message)] = octet
    check_total(bytes(message))
