from __future__ import annotations

import base64
import re
from itertools import accumulate

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from racer.errors import ConfigError, LocalProtocolError
from tests.transports.soar.dns.peer import ZONE, tunnel_name
from transports.soar.core.dns.zone import (
    MAX_ZONE_OCTETS,
    MAX_ZONES,
    Apex,
    Junk,
    Partial,
    PartialAnswer,
    Whole,
    Zone,
    Zones,
)


def zone_of(octets: int) -> Zone:
    """Return a zone of exactly so many wire octets: 3 to 64."""
    left = octets - 1
    labels = []
    while left:
        take = min(left, 12) if left != 13 else 6
        labels.append("z" * (take - 1))
        left -= take
    return Zone.parse(".".join(labels))


ALL = [zone_of(octets) for octets in range(3, MAX_ZONE_OCTETS + 1)]


def labels_of(name: bytes) -> list[bytes]:
    labels = []
    while name != b"\0":
        length = name[0]
        assert 1 <= length <= 63
        labels.append(name[1 : length + 1])
        name = name[length + 1 :]
    return labels


def wire(*labels: bytes) -> bytes:
    return b"".join(bytes((len(label),)) + label for label in labels)


def cuts(name: bytes, zone: Zone = ZONE) -> list[bytes]:
    """Return what is left of `name` when one, two … labels are cut off, down to the last above the zone."""
    whole = labels_of(name)
    gone = range(1, len(whole) - len(labels_of(zone.wire)))
    return [wire(*whole[count:]) + b"\0" for count in gone]


def by_hand(name: bytes, zone: Zone) -> tuple[int, bytes]:
    """Return selector and packet as SPEC 4 reads, by the standard library's base32."""
    *packed, last = labels_of(name)[: -len(labels_of(zone.wire))]
    text = b"".join((*packed, last[1:])) if packed else last
    body = text[1:].upper()
    bits = "".join(
        f"{base64.b32decode(bytes((letter,)) + b'A======')[0] >> 3:05b}" for letter in body
    )
    octets = len(bits) // 8
    selector = base64.b32decode(text[:1].upper() + b"A======")[0] >> 3
    return selector, int(bits[: 8 * octets], 2).to_bytes(octets, "big")


# --- classes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("octets", "capacities"),
    [
        (8, {1: 38, 2: 55, 3: 103, 4: 150}),
        (15, {1: 38, 2: 51, 3: 98, 4: 146}),
        (30, {1: 38, 2: 41, 3: 89, 4: 136}),
        (64, {1: 38, 3: 68, 4: 116}),
    ],
)
def test_capacities_are_those_of_the_specification(octets: int, capacities: dict[int, int]) -> None:
    zone = zone_of(octets)
    assert len(zone.wire) == octets
    assert {number: each.capacity for number, each in zone.classes.items()} == capacities
    lengths = {1: octets + 64, 2: 101, 3: 178, 4: 255}
    assert {number: each.length for number, each in zone.classes.items()} == {
        number: lengths[number] for number in capacities
    }


@pytest.mark.parametrize("zone", ALL, ids=lambda zone: len(zone.wire))
def test_no_partial_name_has_the_length_of_a_whole_one(zone: Zone) -> None:
    whole = {each.length for each in zone.classes.values()}
    assert len(whole) == len(zone.classes)
    partial = [len(cut) for n in zone.classes for cut in cuts(tunnel_name(n, zone=zone), zone)]
    assert not whole & set(partial)
    assert len(set(partial)) == len(partial)
    assert min(partial, default=100) > len(zone.wire) + 2  # the apex is nobody's part


def test_a_zone_lacks_a_class_only_where_the_specification_says_so() -> None:
    for zone in ALL:
        z = len(zone.wire)
        expected = {1}
        rests = {63}
        for number, whole in ((2, 101), (3, 178), (4, 255)):
            m = whole - z
            n = -(-m // 64)
            r = m - 64 * (n - 1) - 1
            if n >= 2 and r >= 2 and r not in rests:
                expected.add(number)
                rests.add(r)
        assert set(zone.classes) == expected
    assert {len(zone.classes) for zone in ALL} == {2, 3, 4}


# --- whole names ----------------------------------------------------------------------------


@given(st.sampled_from(ALL), st.integers(1, 4), st.integers(0, 31), st.integers(0, 31), st.binary())
def test_a_packet_comes_back_from_its_name(
    zone: Zone, number: int, selector: int, flag: int, seed: bytes
) -> None:
    number = number if number in zone.classes else 1
    packet = (seed * 150 or b"\xa5" * 150)[: zone.classes[number].capacity].ljust(
        zone.classes[number].capacity, b"\xff"
    )
    name = zone.encode(packet, number=number, selector=selector, flag=flag, fill=len(seed))
    assert len(name) == zone.classes[number].length
    assert name == name.lower()
    assert zone.read(name) == Whole(number, selector, packet)
    assert by_hand(name, zone) == (selector, packet)


def test_a_name_on_the_wire() -> None:
    packet = bytes(range(38))
    text = base64.b32encode(packet).rstrip(b"=").lower()
    assert len(text) == 61
    name = ZONE.encode(packet, number=1, selector=2, flag=0)
    assert name == b"\x3fc" + text + b"a" + b"\x01t\x07example\x03com\0"

    packet = bytes(range(51))
    text = base64.b32encode(packet).rstrip(b"=").lower()
    assert len(text) == 82
    name = ZONE.encode(packet, number=2, selector=31, flag=1)
    assert name == (b"\x3f7" + text[:62] + b"\x15b" + text[62:] + b"\x01t\x07example\x03com\0")


@pytest.mark.parametrize("zone", ALL, ids=lambda zone: len(zone.wire))
def test_labels_are_full_but_for_the_rightmost(zone: Zone) -> None:
    for number, each in zone.classes.items():
        above = labels_of(tunnel_name(number, zone=zone))[: -len(labels_of(zone.wire))]
        assert [len(label) for label in above] == [63] * (each.labels - 1) + [each.last]
        assert all(re.fullmatch(rb"[a-z2-7]+", label) for label in above)


@pytest.mark.parametrize("number", ZONE.classes)
def test_what_the_packet_leaves_of_the_last_characters_is_the_callers_and_not_read(
    number: int,
) -> None:
    packet = bytes(ZONE.classes[number].capacity)
    names = {
        ZONE.encode(packet, number=number, selector=0, flag=0, fill=fill) for fill in range(256)
    }
    spare = 5 * ZONE.classes[number].characters % 8
    assert len(names) == 2**spare
    assert {ZONE.read(name) for name in names} == {Whole(number, 0, packet)}


@pytest.mark.parametrize(
    ("octets", "number", "selector", "flag", "why"),
    [
        (37, 1, 0, 0, "takes 38 octets"),
        (39, 1, 0, 0, "takes 38 octets"),
        (0, 1, 0, 0, "not 0 octets"),
        (38, 1, 32, 0, "not 38 octets, 32"),
        (38, 1, -1, 0, "not 38 octets, -1"),
        (51, 2, 0, 32, "0 and 32"),
        (51, 2, 0, -1, "0 and -1"),
        (38, 0, 0, 0, r"classes \[1, 2, 3, 4\], not 0"),
        (38, 5, 0, 0, "not 5"),
    ],
)
def test_what_no_name_can_say_is_refused(
    octets: int, number: int, selector: int, flag: int, why: str
) -> None:
    with pytest.raises(LocalProtocolError, match=why):
        ZONE.encode(bytes(octets), number=number, selector=selector, flag=flag)


def test_a_class_that_the_zone_lacks_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match=r"classes \[1, 3, 4\], not 2"):
        zone_of(64).encode(bytes(38), number=2, selector=0, flag=0)


# --- other names ----------------------------------------------------------------------------


# By the flag's two lowest bits.
ANSWERS = [
    PartialAnswer.NXDOMAIN,
    PartialAnswer.NODATA,
    PartialAnswer.REFUSED,
    PartialAnswer.NODATA,
]


@pytest.mark.parametrize("answer", PartialAnswer, ids=str)
def test_whatever_is_random_in_a_flag_does_not_change_its_meaning(answer: PartialAnswer) -> None:
    assert not answer.free & answer
    assert {ANSWERS[(chance & answer.free | answer) % 4] for chance in range(32)} == {answer}


@pytest.mark.parametrize("number", ZONE.classes)
def test_a_partial_name_says_how_it_wants_to_be_answered(number: int) -> None:
    for flag in range(32):
        for cut in cuts(tunnel_name(number, flag=flag)):
            assert ZONE.read(cut) == Partial(ANSWERS[flag % 4])


@pytest.mark.parametrize("number", ZONE.classes)
def test_of_all_that_is_left_of_a_name_only_the_name_is_whole(number: int) -> None:
    name = tunnel_name(number)
    apex = len(name) - len(ZONE.wire)
    for begin in range(1, len(name) + 1):
        found = ZONE.read(name[begin:])
        assert not isinstance(found, Whole), begin
        assert (found == Apex()) == (begin == apex)
        assert found is None or begin <= apex
    for end in range(len(name)):
        assert ZONE.read(name[:end]) is None


@pytest.mark.parametrize("number", ZONE.classes)
def test_a_foreign_character_anywhere_makes_a_whole_name_junk(number: int) -> None:
    name = tunnel_name(number)
    lengths = set(accumulate((len(label) + 1 for label in labels_of(name)), initial=0))
    for place in range(len(name) - len(ZONE.wire)):
        for octet in b"01-_\0\xff?":
            changed = name[:place] + bytes((octet,)) + name[place + 1 :]
            if place not in lengths:
                assert ZONE.read(changed) == Junk(), (place, octet)


def test_a_foreign_flag_makes_a_partial_name_junk() -> None:
    for cut in cuts(tunnel_name(4)):
        place = len(cut) - len(ZONE.wire) - ZONE.classes[4].last
        assert ZONE.read(cut[:place] + b"0" + cut[place + 1 :]) == Junk()


@pytest.mark.parametrize(
    "name",
    [
        wire(b"www"),
        wire(b"_dmarc"),
        wire(b"*"),
        wire(b"a" * 62),
        wire(b"a" * 30, b"a" * 32),  # the length of class 1
        wire(b"a" * 62, b"a" * 22),  # the length of class 2
        wire(b"a" * 63, b"a" * 10, b"a" * 10),
        wire(b"a" * 20, b"a"),
        wire(b"a" * 8, b"a" * 12),  # the length of a partial name
        wire(*[b"a"] * 43),
        wire(*[b"a"] * 120),
    ],
)
def test_other_names_in_the_zone_are_junk(name: bytes) -> None:
    assert ZONE.read(name + ZONE.wire) == Junk()


@pytest.mark.parametrize(
    "name",
    [
        b"\0",
        wire(b"com") + b"\0",
        wire(b"example", b"com") + b"\0",
        wire(b"u", b"example", b"com") + b"\0",
        wire(b"xt", b"example", b"com") + b"\0",
        wire(b"t", b"example", b"org") + b"\0",
        ZONE.wire[:-1] + wire(b"org") + b"\0",
        wire(b"www\x01t\x07example\x03com") + b"\0",  # the zone's octets, within a label
        wire(b"a" * 61 + ZONE.wire[:-1][:2], b"example", b"com") + b"\0",
        b"",
    ],
)
def test_names_outside_the_zone_are_nothing_to_it(name: bytes) -> None:
    assert ZONE.read(name) is None


def test_the_zones_octets_within_a_label_do_not_make_a_whole_or_partial_name() -> None:
    for length in (79, 101, 178, 255, *(len(cut) for cut in cuts(tunnel_name(4)))):
        inner = b"a" * 30 + ZONE.wire[:-1]
        rest = length - len(inner) - 2
        above = [b"a" * 49] * (rest // 50) + ([b"a" * (rest % 50 - 1)] if rest % 50 > 1 else [])
        name = wire(*above, inner) + b"\0"
        if len(name) == length:
            assert ZONE.read(name) is None


def test_the_apex_is_known() -> None:
    assert ZONE.read(ZONE.wire) == Apex()


@given(st.binary(max_size=255), st.sampled_from(ALL))
@example(b"\xff" * 64, ZONE)
@example(b"\x3f" * 64, ZONE)
def test_any_octets_before_the_zone_are_something_or_nothing(above: bytes, zone: Zone) -> None:
    found = zone.read(above + zone.wire)
    assert found is None or isinstance(found, Whole | Partial | Apex | Junk)


@given(st.binary(min_size=64, max_size=240))
def test_whatever_is_read_as_whole_is_written_so(above: bytes) -> None:
    found = ZONE.read(above + ZONE.wire)
    if isinstance(found, Whole):
        again = ZONE.encode(found.packet, number=found.number, selector=found.selector, flag=0)
        assert len(again) == len(above + ZONE.wire)


# --- zones ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["t.example.com", "t.example.com.", "T.Example.COM", "T.EXAMPLE.COM."]
)
def test_however_it_is_written_it_is_one_zone(text: str) -> None:
    zone = Zone.parse(text)
    assert (zone.text, zone.wire) == ("t.example.com", b"\x01t\x07example\x03com\0")
    assert zone == ZONE
    assert hash(zone) == hash(ZONE)
    assert zone != Zone.parse("u.example.com")
    assert zone != "t.example.com"
    assert repr(zone) == "Zone('t.example.com')"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "label ''"),
        (".", "label ''"),
        ("t..example", "label ''"),
        (".t.example", "label ''"),
        ("t.example..", "label ''"),
        ("-t.example", "label '-t'"),
        ("t-.example", "label 't-'"),
        ("t t.example", "label 't t'"),
        ("tä.example", "xn-- form"),
        ("t\n.example", "label"),
        ("a" * 64, "1 to 63"),
        ("a" * 62 + ".b", "takes 66 octets in a message; at most 64"),
        (".".join("a" * 300), "at most 255"),
    ],
)
def test_what_is_no_zone_says_why(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        Zone.parse(text)


def test_the_longest_and_the_shortest_zone() -> None:
    assert len(Zone.parse("a" * 62).wire) == MAX_ZONE_OCTETS
    assert Zone.parse("x").classes[4].capacity > 150


def test_of_zones_within_each_other_the_nearest_reads_the_name() -> None:
    inner = Zone.parse("in.t.example.com")
    other = Zone.parse("t.example.org")
    zones = Zones([ZONE, inner, other])
    assert zones.all == (ZONE, inner, other)
    for index, zone in enumerate(zones.all):
        name = tunnel_name(2, zone=zone)
        assert zones.read(name) == (index, zone, zone.read(name))
        assert zones.read(zone.wire) == (index, zone, Apex())
    assert zones.read(wire(b"www") + ZONE.wire) == (0, ZONE, Junk())
    assert zones.read(wire(b"example", b"org") + b"\0") is None


@pytest.mark.parametrize(
    ("zones", "why"),
    [
        ([], "1 to 8 zones, not 0"),
        ([Zone.parse(f"t{n}.example") for n in range(MAX_ZONES + 1)], "not 9"),
        ([ZONE, Zone.parse("T.example.com.")], "named twice: t.example.com, t.example.com"),
    ],
)
def test_zones_that_cannot_be_told_apart_or_held_are_refused(zones: list[Zone], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Zones(zones)
