"""A censor reads the name in a ClientHello from any pieces, as early as it can, and nothing else makes it stumble."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from racer.lab._hello import NeedMore, server_name
from tests.racer.lab.hellos import RECORD, client_hello, in_records

NAME = "blocked.example"
HELLO = client_hello(NAME)
MORE = NeedMore.NEED_MORE
TLS_1_0_WITHOUT_EXTENSIONS = (
    RECORD
    + (4 + 41).to_bytes(2, "big")
    + b"\x01"
    + (41).to_bytes(3, "big")
    + b"\x03\x01"
    + bytes(32)  # random
    + b"\x00"  # no session
    + b"\x00\x02\x00\x2f"
    + b"\x01\x00"
)


def test_the_name_is_read() -> None:
    assert server_name(HELLO) == NAME
    assert server_name(HELLO + b"what comes later") == NAME
    assert server_name(client_hello("BLOCKED.Example")) == NAME


def test_without_a_name_there_is_none() -> None:
    assert server_name(client_hello(None)) is None
    assert server_name(TLS_1_0_WITHOUT_EXTENSIONS) is None


def test_a_list_of_other_names_has_none() -> None:
    """RFC 6066 section 3 has room for names of other types, of which there are none."""
    name = HELLO.index(NAME.encode())
    assert HELLO[name - 3] == 0  # its type
    assert server_name(HELLO[: name - 3] + b"\x01" + HELLO[name - 2 :]) is None


def test_cut_at_every_byte_it_is_read_as_soon_as_it_is_there() -> None:
    end = HELLO.index(NAME.encode()) + len(NAME)
    for cut in range(len(HELLO)):
        assert server_name(HELLO[:cut]) == (NAME if cut >= end else MORE), cut


def test_cut_into_two_records_at_every_byte_it_is_read_by_who_joins_records() -> None:
    end = HELLO.index(NAME.encode()) + len(NAME) - 5
    for size in range(1, len(HELLO) - 5):
        cut = in_records(HELLO, size)
        assert server_name(cut) == NAME
        alone = server_name(cut, joins_records=False)
        assert alone == (NAME if size >= end else None), size


def test_many_small_records_are_joined() -> None:
    assert server_name(in_records(HELLO, *[7] * ((len(HELLO) - 5) // 7))) == NAME


@pytest.mark.parametrize("cut", [0, 1, 4, 5, 9, 60])
def test_who_does_not_join_records_still_waits_for_the_first(cut: int) -> None:
    assert server_name(in_records(HELLO, 200)[:cut], joins_records=False) is MORE


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"\x16\x02",  # SSL 2 and its like
        b"\x16\x03\x01\x00\x00",  # an empty record
        b"\x16\x03\x01\xff\xff",  # a record longer than any
        b"\x16\x03\x01\x00\x01\x02",  # another handshake message
        RECORD + b"\x00\x04\x01\xff\xff\xff",  # a message longer than any
        RECORD + b"\x00\x05\x01\x00\x00\x01\x03",  # a message that ends inside its version
        HELLO[:5] + HELLO[5:9] + HELLO[9:43] + b"\xff" * (len(HELLO) - 43),  # lengths that lie
        b"\x15\x03\x01\x00\x02\x02\x28",  # an alert
    ],
)
def test_what_is_no_hello_has_no_name(data: bytes) -> None:
    assert server_name(data) is None


def test_one_that_never_ends_is_given_up() -> None:
    message = b"\x01\x00\xff\xf0" + b"\x03\x03" + bytes(33) + b"\xff\x00"  # very many cipher suites
    endless = b"".join(RECORD + b"\x00\x01" + bytes([byte]) for byte in message + bytes(12_000))
    assert server_name(endless[:1000]) is MORE
    assert len(endless) > 65_536
    assert server_name(endless) is None


@given(st.binary(max_size=300), st.booleans())
@example(b"", True)
def test_garbage_is_never_an_exception(data: bytes, joins: bool) -> None:
    server_name(data, joins_records=joins)


@given(
    st.lists(st.tuples(st.integers(0, len(HELLO) - 1), st.integers(0, 255)), max_size=8),
    st.integers(0, len(HELLO)),
    st.booleans(),
)
def test_a_damaged_hello_is_never_an_exception(
    damage: list[tuple[int, int]], cut: int, joins: bool
) -> None:
    data = bytearray(HELLO)
    for at, value in damage:
        data[at] = value
    answer = server_name(bytes(data[:cut]), joins_records=joins)
    assert answer is None or answer is MORE or isinstance(answer, str)
