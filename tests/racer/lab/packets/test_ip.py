"""Packets read and made: against packets that another stack has made, and total on any octets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.lab.packets._ip import Flags, decode, make_tcp, make_udp, with_ttl

# A SYN from 192.0.2.1:40000 to 198.51.100.7:443 with options, written down octet by octet; its checksums are made up.
V4 = bytes.fromhex(
    "4500003c1c464000400612fbc0000201c63364079c4001bb5b6f1d3a00000000a002faf09dcc0000"
    "020405b40402080a0a0b0c0d0000000001030307"
)
ENDS = {
    4: (("192.0.2.1", 40_000), ("198.51.100.7", 443)),
    6: (("2001:db8::1", 40_000), ("2001:db8:7::7", 443)),
}


def ones(octets: bytes) -> int:
    """Return the ones' complement sum, which is 0xffff over what holds its own checksum (RFC 1071 §1)."""
    if len(octets) % 2:
        octets += b"\0"
    total = sum(int.from_bytes(octets[at : at + 2], "big") for at in range(0, len(octets), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def inner_sum(octets: bytes) -> int:
    """The same over a segment or datagram with its pseudo-header."""
    if octets[0] >> 4 == 4:
        inner = octets[20:]
        return ones(octets[12:20] + bytes([0, octets[9]]) + len(inner).to_bytes(2, "big") + inner)
    inner = octets[40:]
    return ones(octets[8:40] + len(inner).to_bytes(4, "big") + bytes([0, 0, 0, octets[6]]) + inner)


def test_a_syn_is_read() -> None:
    packet = decode(V4)
    assert packet is not None
    assert (packet.source, packet.source_port) == ("192.0.2.1", 40_000)
    assert (packet.destination, packet.destination_port) == ("198.51.100.7", 443)
    assert (packet.over, packet.ttl, packet.flags) == ("tcp", 64, Flags.SYN)
    assert (packet.seq, packet.ack, packet.data) == (0x5B6F1D3A, 0, b"")
    assert packet.octets == V4


def test_what_is_behind_the_packet_is_no_part_of_it() -> None:
    packet = decode(V4 + b"padding")
    assert packet is not None
    assert packet.octets == V4


@pytest.mark.parametrize("version", ENDS)
@pytest.mark.parametrize("data", [b"", b"odd", b"even"])
def test_a_segment_that_was_made_is_read_as_it_was_meant(version: int, data: bytes) -> None:
    source, destination = ENDS[version]
    flags = Flags.PSH | Flags.ACK
    octets = make_tcp(source, destination, seq=2**32 - 1, ack=7, flags=flags, ttl=9, data=data)
    packet = decode(octets)
    assert packet is not None
    assert ((packet.source, packet.source_port), packet.ttl) == (source, 9)
    assert (packet.destination, packet.destination_port) == destination
    assert (packet.seq, packet.ack, packet.flags, packet.data) == (2**32 - 1, 7, flags, data)
    assert inner_sum(octets) == 0xFFFF
    if version == 4:
        assert ones(octets[:20]) == 0xFFFF


@pytest.mark.parametrize("version", ENDS)
def test_a_datagram_that_was_made_is_read_as_it_was_meant(version: int) -> None:
    source, destination = ENDS[version]
    octets = make_udp(source, destination, b"question")
    packet = decode(octets)
    assert packet is not None
    assert (packet.over, packet.data, packet.ttl) == ("udp", b"question", 64)
    assert (packet.source_port, packet.destination_port) == (40_000, 443)
    assert inner_sum(octets) == 0xFFFF


@pytest.mark.parametrize("version", ENDS)
def test_a_router_changes_the_ttl_and_nothing_else(version: int) -> None:
    octets = make_udp(*ENDS[version], b"x", ttl=64)
    packet = decode(octets)
    assert packet is not None
    assert with_ttl(packet, 5) == make_udp(*ENDS[version], b"x", ttl=5)


def test_a_fragment_has_no_ports() -> None:
    octets = bytearray(V4)
    octets[6:8] = b"\x20\x00"  # more fragments
    packet = decode(bytes(octets))
    assert packet is not None
    assert (packet.over, packet.source_port, packet.data) == (None, 0, b"")


@pytest.mark.parametrize("cut", range(20))
def test_a_header_cut_short_is_no_packet(cut: int) -> None:
    assert decode(V4[:cut]) is None


@given(st.binary(max_size=120))
def test_any_octets_are_a_packet_or_none(octets: bytes) -> None:
    packet = decode(octets)
    assert packet is None or octets.startswith(packet.octets)


@given(st.sampled_from([V4, make_udp(*ENDS[6], b"data")]), st.data())
def test_a_damaged_packet_is_a_packet_or_none(octets: bytes, data: st.DataObject) -> None:
    damaged = bytearray(octets)
    for at in data.draw(st.lists(st.integers(0, len(octets) - 1), max_size=4)):
        damaged[at] = data.draw(st.integers(0, 255))
    packet = decode(bytes(damaged))
    if packet is not None and packet.ttl > 1:
        routed = decode(with_ttl(packet, packet.ttl - 1))
        assert routed is not None
        assert routed.data == packet.data
