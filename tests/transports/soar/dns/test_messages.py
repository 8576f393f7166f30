from __future__ import annotations

import dns.exception
import dns.name
import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import ConfigError
from transports.soar.core.dns.messages import (
    MAX_POINTERS,
    MalformedMessage,
    read_labels,
    skip_labels,
    skip_name,
    wire_name,
)

NAME = b"\x03www\x07Example\x03com\x00"
LONGEST = (b"\x3f" + b"a" * 63) * 3 + b"\x3d" + b"a" * 61 + b"\x00"  # 255 octets


def pointer(to: int) -> bytes:
    return (0xC000 | to).to_bytes(2, "big")


def chain(pointers: int) -> tuple[bytes, int]:
    """Return a message of names, each a pointer to the one before, and where the last one is."""
    message = b"\x01a\x00"
    at = 0
    for _ in range(pointers):
        message, at = message + pointer(at), len(message)
    return message, at


def test_a_name_is_read_as_spelled_and_stepped_over() -> None:
    message = b"head" + NAME + b"tail"
    assert read_labels(message, 4) == [b"www", b"Example", b"com"]
    assert skip_name(message, 4) == 4 + len(NAME)
    assert skip_labels(message, 4) == 4 + len(NAME)
    assert read_labels(b"\0", 0) == []
    assert skip_name(b"\0", 0) == 1


def test_a_compressed_name_is_read_and_ends_behind_its_pointer() -> None:
    message = NAME + b"\x02ns" + pointer(4) + b"tail"
    assert read_labels(message, len(NAME)) == [b"ns", b"Example", b"com"]
    assert skip_name(message, len(NAME)) == len(NAME) + 5


def test_pointers_are_followed_sixteen_times() -> None:
    assert read_labels(*chain(MAX_POINTERS)) == [b"a"]
    with pytest.raises(MalformedMessage, match="one of more than 16"):
        read_labels(*chain(MAX_POINTERS + 1))


@pytest.mark.parametrize(
    ("message", "at"),
    [
        (pointer(0), 0),  # to itself
        (pointer(2) + b"\x01a\x00", 0),  # onward
        (b"\x01a" + pointer(0), 0),  # into its own labels
        (b"\x01a\x01b" + pointer(2), 2),
        (b"\x01a" + pointer(4) + pointer(0), 4),  # two that lead to each other
        (b"\x00" + pointer(0x3FFF), 1),
    ],
)
def test_a_pointer_leads_back_or_is_refused(message: bytes, at: int) -> None:
    with pytest.raises(MalformedMessage, match="the pointer at octet"):
        read_labels(message, at)
    skip_name(message, at)  # doesn't follow it


def test_a_name_is_of_255_octets_at_most_however_it_is_written() -> None:
    assert len(LONGEST) == 255
    assert skip_name(LONGEST, 0) == 255
    assert b"".join(read_labels(LONGEST, 0)) == b"a" * 250
    too_long = b"\x3f" + b"a" * 63 + LONGEST
    for read in (read_labels, skip_labels, skip_name):
        with pytest.raises(MalformedMessage, match="255"):
            read(too_long, 0)
    compressed = LONGEST + b"\x01b" + pointer(0)
    with pytest.raises(MalformedMessage, match="255"):
        read_labels(compressed, len(LONGEST))
    assert read_labels(LONGEST + b"\x3f" + b"b" * 63 + pointer(64), 255) == [
        b"b" * 63,
        b"a" * 63,
        b"a" * 63,
        b"a" * 61,
    ]


@pytest.mark.parametrize("kind", [0x40, 0x7F, 0x80, 0xBF])
def test_labels_of_unknown_kinds_are_refused(kind: int) -> None:
    message = b"\x01a" + bytes((kind,)) + bytes(80)
    for read in (read_labels, skip_labels, skip_name):
        with pytest.raises(MalformedMessage, match=f"{kind:#x}"):
            read(message, 0)


def test_a_pointer_is_refused_where_there_may_be_none() -> None:
    message = NAME + b"\x01a" + pointer(0)
    assert skip_name(message, len(NAME)) == len(message)
    with pytest.raises(MalformedMessage, match="begins with 0xc0"):
        skip_labels(message, len(NAME))


@pytest.mark.parametrize("end", range(len(NAME) + 4))
def test_a_name_cut_short_is_refused(end: int) -> None:
    message = (NAME + b"\x01a" + pointer(4))[:end]
    at = 0 if end < len(NAME) else len(NAME)
    for read in (read_labels, skip_labels, skip_name):
        with pytest.raises(MalformedMessage, match="octet"):
            read(message, at)


@given(
    st.lists(st.sampled_from([b"\0", b"\x01a", b"\x02bc", b"\xc0", b"\x03", b"\x40"])).map(
        b"".join
    ),
    st.integers(0, 40),
)
def test_any_octets_are_read_as_dnspython_does_or_refused(message: bytes, at: int) -> None:
    try:
        theirs = dns.name.from_wire(message, at)
    except (dns.exception.DNSException, IndexError):
        try:
            labels = read_labels(message, at)
        except MalformedMessage:
            return
        # A name that runs on over the pointer which led to it is harmless, and is let be here.
        assert message[at] >= 0xC0
        assert message[at + 1] + sum(1 + len(label) for label in labels) >= at
        return
    name, used = theirs
    assert (*read_labels(message, at), b"") == name.labels
    assert skip_name(message, at) == at + used


@given(st.lists(st.binary(min_size=1, max_size=63), max_size=4), st.binary(max_size=20))
def test_names_of_any_octets_come_back(labels: list[bytes], before: bytes) -> None:
    wire = b"".join(bytes((len(label),)) + label for label in labels) + b"\0"
    if len(wire) <= 255:
        assert read_labels(before + wire, len(before)) == labels
        assert skip_labels(before + wire, len(before)) == len(before + wire)


@pytest.mark.parametrize("text", ["ns1.Example.com", "ns1.example.com."])
def test_a_name_that_a_person_wrote(text: str) -> None:
    assert wire_name(text) == b"\x03ns1\x07example\x03com\x00"


@pytest.mark.parametrize("text", ["", ".", "a..b", "a b", "*.example", "ns1.exämple"])
def test_a_name_that_nobody_has(text: str) -> None:
    with pytest.raises(ConfigError, match="has the label"):
        wire_name(text)


def test_a_name_that_is_too_long() -> None:
    assert len(wire_name(".".join(["a" * 63] * 3 + ["b" * 61]))) == 255
    with pytest.raises(ConfigError, match="takes 256 octets; at most 255"):
        wire_name(".".join(["a" * 63] * 3 + ["b" * 62]))
