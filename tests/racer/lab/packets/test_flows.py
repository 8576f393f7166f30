"""What a censor sees of one connection, by how far it puts things together."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.lab.packets._flows import MAX_SEEN, Reader
from racer.lab.packets._rules import Reassembly, SNIFilter
from tests.racer.lab.hellos import client_hello, in_records

HELLO = client_hello("news.example")
AT = HELLO.index(b"news.example")
FIRST = 2**32 - 3  # sequence numbers go round in the middle of everything


def rule(reassembly: Reassembly, *, joins_records: bool = True, scans: bool = False) -> SNIFilter:
    return SNIFilter(
        names=("news.example",), reassembly=reassembly, joins_records=joins_records, scans=scans
    )


def sees(rule: SNIFilter, *segments: tuple[int, bytes]) -> str | None:
    reader = Reader(rule, FIRST)
    for offset, data in segments:
        if (name := reader.read((FIRST + offset) % 2**32, data)) is not None:
            return name
    return None


def cut(data: bytes, *places: int) -> list[tuple[int, bytes]]:
    return [(a, data[a:b]) for a, b in itertools.pairwise([0, *places, len(data)])]


NONE, IN_ORDER, FULL = Reassembly
WHOLE = cut(HELLO)
HALVES = cut(HELLO, AT + 4)
LATE = HALVES[::-1]
TWICE = [HALVES[0], HALVES[0], HALVES[1]]
OVERLAPPING = [(0, HELLO[: AT + 6]), (AT + 2, HELLO[AT + 2 :])]
EARLY_CUT = cut(HELLO, 1)
RECORDS = cut(in_records(HELLO, AT))
RECORDS_AND_HALVES = cut(in_records(HELLO, AT), 3)


@pytest.mark.parametrize(
    ("segments", "seen_by"),
    [
        (WHOLE, {NONE, IN_ORDER, FULL}),
        (HALVES, {IN_ORDER, FULL}),
        (EARLY_CUT, {IN_ORDER, FULL}),
        (TWICE, {IN_ORDER, FULL}),
        (OVERLAPPING, {IN_ORDER, FULL}),
        (LATE, {FULL}),
        (RECORDS, {NONE, IN_ORDER, FULL}),
        (RECORDS_AND_HALVES, {IN_ORDER, FULL}),
    ],
    ids=["whole", "halves", "cut early", "twice", "overlapping", "late", "records", "both"],
)
def test_who_sees_the_name(segments: list[tuple[int, bytes]], seen_by: set[Reassembly]) -> None:
    seen = {each for each in Reassembly if sees(rule(each), *segments) == "news.example"}
    assert seen == seen_by


@pytest.mark.parametrize("reassembly", Reassembly)
def test_the_first_record_alone_has_no_name_in_it(reassembly: Reassembly) -> None:
    short_sighted = rule(reassembly, joins_records=False)
    assert sees(short_sighted, *RECORDS) is None
    assert sees(short_sighted, *WHOLE) == "news.example"


@pytest.mark.parametrize(
    ("segments", "seen_by"),
    [
        (WHOLE, {NONE, IN_ORDER, FULL}),
        (EARLY_CUT, {NONE, IN_ORDER, FULL}),  # the name is whole in the second
        (HALVES, {IN_ORDER, FULL}),
        (LATE, {FULL}),
        (cut(in_records(HELLO, AT - 5 + 4)), set()),  # a record's header is within the name
    ],
    ids=["whole", "cut early", "halves", "late", "record"],
)
def test_who_finds_the_octets_of_the_name(
    segments: list[tuple[int, bytes]], seen_by: set[Reassembly]
) -> None:
    seen = {each for each in Reassembly if sees(rule(each, scans=True), *segments)}
    assert seen == seen_by


def test_another_name_is_let_through() -> None:
    other = client_hello("other.example")
    assert sees(rule(FULL), *cut(other, 100)) is None


@pytest.mark.parametrize("reassembly", [IN_ORDER, FULL])
def test_what_is_no_hello_is_looked_at_no_more(reassembly: Reassembly) -> None:
    reader = Reader(rule(reassembly), FIRST)
    assert reader.read(FIRST, b"GET / HTTP/1.1\r\n") is None
    assert reader.read((FIRST + 16) % 2**32, HELLO) is None


def test_memory_is_bounded() -> None:
    reader = Reader(rule(FULL, scans=True), 0)
    for at in range(0, 2 * MAX_SEEN, 1000):
        reader.read(at, b"x" * 1000)
    assert reader.read(2 * MAX_SEEN, b"news.example") is None


@given(st.lists(st.tuples(st.integers(-5, 80_000), st.binary(max_size=50)), max_size=20))
def test_any_segments_can_be_read(segments: list[tuple[int, bytes]]) -> None:
    for each in Reassembly:
        assert sees(rule(each), *segments) is None


@given(st.data())
def test_any_order_is_put_together(data: st.DataObject) -> None:
    places = sorted(data.draw(st.sets(st.integers(1, len(HELLO) - 1), max_size=8)))
    segments = data.draw(st.permutations(cut(HELLO, *places)))
    assert sees(rule(FULL), *segments) == "news.example"
