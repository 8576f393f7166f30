"""Targets (SPEC 10.1): there and back, cut anywhere, and whatever else may come."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import LocalProtocolError
from transports.soar.core.streams.targets import MAX_TARGET, Target, TargetInvalid, read_target

KNOWN = [
    (Target("example.com", 443), b"\x0bexample.com\x01\xbb"),
    (Target("a", 1), b"\x01a\x00\x01"),
    (Target("_x-1.example.", 65535), b"\x0d_x-1.example.\xff\xff"),
    (Target("n" * 244, 80), b"\xf4" + b"n" * 244 + b"\x00\x50"),
    (Target("n" * 253, 80), b"\xfd" + b"n" * 253 + b"\x00\x50"),
    (Target(IPv4Address("192.0.2.1"), 80), b"\xfe\xc0\x00\x02\x01\x00\x50"),
    (Target(IPv6Address("2001:db8::1"), 80), b"\xff\x20\x01\x0d\xb8" + bytes(11) + b"\x01\x00\x50"),
]


@pytest.mark.parametrize(("target", "wire"), KNOWN)
def test_spec_10_1_a_stream_begins_with_its_target(target: Target, wire: bytes) -> None:
    assert target.to_wire() == wire
    assert Target.of(str(target.host), target.port) == target
    assert len(wire) <= MAX_TARGET
    assert read_target(wire) == (target, len(wire))
    assert read_target(wire + b"more") == (target, len(wire))
    for cut in range(len(wire)):
        assert read_target(wire[:cut]) is None


@pytest.mark.parametrize(
    "wire",
    [
        b"\x00",
        b"\x00\x00\x50",
        b"\x01\x20\x00\x50",
        b"\x03a\x00b\x00\x50",
        b"\x01\xff\x00\x50",
        b"\x01a\x00\x00",
    ],
)
def test_what_names_no_target_is_named(wire: bytes) -> None:
    with pytest.raises(TargetInvalid):
        read_target(wire)


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("", 80),
        ("a" * 254, 80),
        ("a b", 80),
        ("bücher.example", 80),
        ("a\n", 80),
        ("a", 0),
        ("a", 65536),
        ("fe80::1%eth0", 80),
    ],
)
def test_what_no_stream_can_lead_to_is_refused(host: str, port: int) -> None:
    with pytest.raises(LocalProtocolError):
        Target.of(host, port)


@given(st.binary(max_size=300))
def test_garbage_is_a_target_or_named(octets: bytes) -> None:
    try:
        found = read_target(octets)
    except TargetInvalid:
        return
    if found is None:
        assert len(octets) < MAX_TARGET
    else:
        target, size = found
        assert octets[:size] == target.to_wire()
