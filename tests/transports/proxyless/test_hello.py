"""Where the name is in a ClientHello: in real ones, cut and put together in all ways, and in none of the rest."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transports.proxyless.hellos import client_hello, in_records
from transports.proxyless._hello import MAX_HELLO, Hello, read_hello

NAME = "news.example"
HELLO = client_hello(NAME)


def name_in(data: bytes) -> bytes:
    hello = read_hello(data)
    assert hello is not None
    return bytes(data[at] for at in hello.name)


def test_a_real_hello() -> None:
    assert read_hello(HELLO) == Hello(
        is_complete=True,
        length=len(HELLO),
        first_record=len(HELLO) - 5,
        name=tuple(range(HELLO.index(b"news"), HELLO.index(b"news") + len(NAME))),
    )


@pytest.mark.parametrize("name", ["a.example", "x" * 63 + ".example", "xn--bcher-kva.example"])
@pytest.mark.parametrize("alpn", [(), ("h2", "http/1.1")])
def test_any_name(name: str, alpn: tuple[str, ...]) -> None:
    assert name_in(client_hello(name, alpn=alpn)) == name.encode()


def test_one_without_a_name() -> None:
    hello = read_hello(client_hello(None))
    assert hello is not None
    assert (hello.is_complete, hello.name) == (True, ())


def test_what_follows_is_not_looked_at() -> None:
    assert read_hello(HELLO + b"\x14\x03\x03\x00\x01\x01") == read_hello(HELLO)


@settings(max_examples=50)
@given(st.data())
def test_several_records(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 200), min_size=1, max_size=2))
    cut = in_records(HELLO, *sizes)
    hello = read_hello(cut)
    assert hello is not None
    assert name_in(cut) == NAME.encode()
    assert (hello.length, hello.first_record) == (len(cut), sizes[0])


def test_one_cut_short_anywhere_may_still_come() -> None:
    assert [read_hello(HELLO[:end]) for end in range(len(HELLO))] == [Hello()] * len(HELLO)


def test_one_that_never_ends_is_given_up() -> None:
    endless = b"\x16\x03\x01\x40\x00" + b"\x01\x00\xff\xff" + b"x" * (2**14 - 4)
    assert read_hello(endless[:100]) == Hello()
    assert read_hello(endless) is None
    assert len(endless) >= MAX_HELLO


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"\x15\x03\x01\x00\x02\x02\x28",  # an alert
        b"\x16\x02\x00\x00\x05\x01\x00\x00\x01\x00",  # of a version that never was
        b"\x16\x03\x05\x00\x05\x01\x00\x00\x01\x00",
        b"\x16\x03\x01\x00\x00",  # a record of nothing
        b"\x16\x03\x01\x40\x01\x01",  # one that is too long
        b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00",  # a ServerHello
    ],
)
def test_what_is_no_hello(data: bytes) -> None:
    assert read_hello(data) is None


@settings(max_examples=50)
@given(st.binary(max_size=300))
def test_any_octets_can_be_read(data: bytes) -> None:
    for octets in (data, b"\x16\x03\x01" + data, b"\x16\x03\x01\x00\x80\x01\x00\x00\x7c" + data):
        hello = read_hello(octets)
        assert hello is None or all(at < len(octets) for at in hello.name)


@settings(max_examples=50)
@given(st.data())
def test_a_damaged_hello_can_be_read(data: st.DataObject) -> None:
    damaged = bytearray(HELLO)
    for at in data.draw(st.lists(st.integers(0, len(HELLO) - 1), min_size=1, max_size=5)):
        damaged[at] = data.draw(st.integers(0, 255))
    hello = read_hello(bytes(damaged))
    assert hello is None or all(at < len(damaged) for at in hello.name)
