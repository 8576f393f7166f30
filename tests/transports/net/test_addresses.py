"""The order in which addresses are tried, and when trying may begin."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transports.net.world import BOTH, V4, V6
from transports._net.addresses import MAX_PER_FAMILY, Candidates, Family, family_of, host_port


def candidates(*families: Family) -> Candidates:
    return Candidates(families or BOTH, resolution_delay=0.05)


def drain(those: Candidates) -> list[str]:
    return [those.pop() for _ in range(len(those))]


@pytest.mark.parametrize(
    ("addresses", "order"),
    [
        (["::1"], ["::1"]),
        (["::1", "::2", "::3"], ["::1", "::2", "::3"]),
        (["::1", "::2", "1.1.1.1", "2.2.2.2"], ["::1", "1.1.1.1", "::2", "2.2.2.2"]),
        # the system's order says which family begins (RFC 6724), also against our preference
        (["1.1.1.1", "2.2.2.2", "::1", "::2"], ["1.1.1.1", "::1", "2.2.2.2", "::2"]),
        (["::1", "::2", "::3", "1.1.1.1"], ["::1", "1.1.1.1", "::2", "::3"]),
        (["::1", "1.1.1.1", "::1", "1.1.1.1"], ["::1", "1.1.1.1"]),
    ],
)
def test_families_take_turns_and_keep_their_own_order(
    addresses: list[str], order: list[str]
) -> None:
    those = candidates()
    assert those.answer(BOTH, addresses, 0.0) == len(order)
    assert drain(those) == order


@pytest.mark.parametrize(
    ("answers", "opens_at"),
    [
        ([], math.inf),
        ([(1.0, V6, ["::1"])], 1.0),
        ([(1.0, V4, ["1.1.1.1"])], 1.05),
        ([(1.0, V4, ["1.1.1.1"]), (1.02, V6, ["::1"])], 1.02),
        ([(1.0, V4, ["1.1.1.1"]), (1.02, V6, [])], 1.02),
        ([(1.0, V4, ["1.1.1.1"]), (1.5, V6, ["::1"])], 1.05),
        ([(1.0, V6, [])], math.inf),
        ([(1.0, V6, []), (1.5, V4, ["1.1.1.1"])], 1.5),
        ([(1.0, V4, [])], math.inf),
        ([(1.0, V4, []), (1.5, V6, ["::1"])], 1.5),
        ([(1.0, V4, []), (1.5, V6, [])], math.inf),
    ],
)
def test_trying_begins_with_the_preferred_answer_or_without_it_a_little_later(
    answers: list[tuple[float, Family, list[str]]], opens_at: float
) -> None:
    those = candidates()
    for now, family, addresses in answers:
        those.answer([family], addresses, now)
    assert those.opens_at == opens_at


def test_a_late_answer_joins_as_if_it_had_been_there() -> None:
    those = candidates()
    those.answer([V4], ["1.1.1.1", "2.2.2.2", "3.3.3.3"], 0.0)
    assert [those.pop(), those.pop()] == ["1.1.1.1", "2.2.2.2"]
    those.answer([V6], ["::1", "::2"], 0.4)
    assert drain(those) == ["::1", "3.3.3.3", "::2"]


def test_a_second_answer_adds_only_what_is_new() -> None:
    those = candidates()
    assert those.answer([V4], ["1.1.1.1"], 0.0) == 1
    assert those.pending == {V6}
    assert those.answer(BOTH, ["1.1.1.1", "::1", "2.2.2.2"], 0.1) == 2
    assert not those.pending
    assert drain(those) == ["::1", "1.1.1.1", "2.2.2.2"]


def test_a_tried_address_does_not_come_again() -> None:
    those = candidates()
    those.answer([V4], ["1.1.1.1"], 0.0)
    assert those.pop() == "1.1.1.1"
    assert those.answer([V4], ["1.1.1.1"], 0.1) == 0
    with pytest.raises(LookupError):
        those.pop()


def test_no_more_than_sixteen_of_a_family_are_tried() -> None:
    those = candidates()
    many = [f"10.0.0.{n}" for n in range(100)]
    assert those.answer([V4], many[:10], 0.0) == 10
    assert those.answer(BOTH, [*many, "::1"], 0.0) == MAX_PER_FAMILY - 10 + 1
    assert len(those) == MAX_PER_FAMILY + 1


def test_an_address_of_a_family_nobody_asked_for_is_ignored() -> None:
    those = candidates(V4)
    assert those.answer([V4], ["::1", "1.1.1.1"], 0.0) == 1
    assert drain(those) == ["1.1.1.1"]


@given(st.lists(st.tuples(st.sampled_from(BOTH), st.integers(1, 200)), max_size=60))
def test_every_address_comes_once_and_no_family_waits_while_the_other_goes_twice(
    found: list[tuple[Family, int]],
) -> None:
    addresses = [f"::{n}" if family is V6 else f"10.0.0.{n}" for family, n in found]
    those = candidates()
    those.answer(BOTH, addresses, 0.0)
    order = drain(those)
    for family in BOTH:
        own = [address for address in dict.fromkeys(addresses) if family_of(address) is family]
        assert [a for a in order if family_of(a) is family] == own[:MAX_PER_FAMILY]
    families = [family_of(address) for address in order]
    for place, (one, other) in enumerate(itertools.pairwise(families)):
        assert one is not other or len(set(families[place:])) == 1


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("127.0.0.1", V4),
        ("::1", V6),
        ("fe80::1%eth0", V6),
        ("::ffff:127.0.0.1", V6),
        ("127.0.0.1%eth0", None),
        ("fe80::1%", None),
        ("127.1", None),
        ("localhost", None),
        ("", None),
        ("1.1.1.1\0", None),
        ("[::1]", None),
    ],
)
def test_what_is_an_address(text: str, family: Family | None) -> None:
    assert family_of(text) is family


def test_addresses_are_shown_as_people_write_them() -> None:
    assert host_port("127.0.0.1", 80) == "127.0.0.1:80"
    assert host_port("::1", 80) == "[::1]:80"
    assert host_port("name.example", 80) == "name.example:80"
