"""Where a Soar server connects (S26)."""

from __future__ import annotations

import contextlib
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import ConfigError
from transports.soar._policy import TargetPolicy


def refused(text: str, port: int = 443, **options: object) -> str | None:
    return TargetPolicy(**options).refuses_address(ip_address(text), port)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.0", "10.1.2.3", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.8.9.1",
        "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1",
        "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.7",
        "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
        "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:0:8.8.8.8",
        "64:ff9b::808:808", "64:ff9b:1::808:808", "100::1", "2001::1", "2001:10::1", "2001:db8::1",
        "2002:7f00:1::1", "3fff::1", "5f00::1", "fc00::1", "fd12:3456::1", "fe80::1", "fe80::1%1",
        "fec0::1", "ff02::1", "4000::1",
    ],
)  # fmt: skip
def test_what_is_not_public_is_refused(text: str) -> None:
    assert refused(text) == "the address is not a public one"


@pytest.mark.parametrize("text", ["8.8.8.8", "93.184.216.34", "2606:2800:220:1::1", "2a00:1450::1"])
def test_what_is_public_is_reached_on_the_ports_of_the_web(text: str) -> None:
    assert refused(text, 443) is None
    assert refused(text, 80) is None
    assert refused(text, 22) == "port 22 is not allowed"
    assert refused(text, 22, ports=[22]) is None


def test_the_own_address_is_never_reached() -> None:
    own = [ip_address("8.8.4.4")]
    assert refused("8.8.4.4", own=own) == "the address is this server's own"
    assert (
        refused("8.8.4.4", 53, own=own, allow=["8.8.4.4:*"]) == "the address is this server's own"
    )
    assert refused("8.8.4.4", 80, own=own, allow=["8.8.4.4"]) is None  # written down


NAMES = ["example.org", "*.example.net", "plain.example:8443", "any.example:*"]


@pytest.mark.parametrize(
    ("name", "port", "expected"),
    [
        ("example.org", 443, None),
        ("EXAMPLE.org.", 80, None),
        ("www.example.org", 443, "the name is not allowed"),
        ("example.org", 22, "port 22 is not allowed there"),
        ("www.example.net", 443, None),
        ("a.b.example.net", 443, None),
        ("example.net", 443, "the name is not allowed"),
        ("badexample.net", 443, "the name is not allowed"),
        ("plain.example", 8443, None),
        ("plain.example", 443, "port 443 is not allowed there"),
        ("any.example", 1, None),
    ],
)
def test_a_list_of_names_is_the_only_way(name: str, port: int, expected: str | None) -> None:
    policy = TargetPolicy(allow=NAMES)
    assert policy.refuses_name(name, port) == expected
    address = ip_address("8.8.8.8")
    assert (policy.refuses_address(address, port, name=name) is None) == (expected is None)


def test_a_name_that_leads_to_a_private_address_leads_nowhere() -> None:
    policy = TargetPolicy(allow=["rebind.example"])
    assert policy.refuses_name("rebind.example", 443) is None
    reason = policy.refuses_address(ip_address("127.0.0.1"), 443, name="rebind.example")
    assert reason == "the address is not a public one"


def test_a_network_that_is_written_down_is_reached_though_private() -> None:
    policy = TargetPolicy(allow=["10.1.0.0/16", "127.0.0.1:*", "[fd00::]:8443", "fd01::/64"])
    for text, port, fine in (
        ("10.1.9.9", 443, True), ("10.1.9.9", 22, False), ("10.2.0.1", 443, False),
        ("127.0.0.1", 22, True), ("127.0.0.2", 22, False), ("fd00::", 8443, True),
        ("fd01::7", 443, True), ("fd02::7", 443, False), ("8.8.8.8", 443, False),
    ):  # fmt: skip
        assert (policy.refuses_address(ip_address(text), port) is None) == fine, text
    assert policy.refuses_name("inside.example", 443) is None  # judged by its address
    assert policy.refuses_address(ip_address("10.1.9.9"), 443, name="inside.example") is None


def test_a_name_does_not_borrow_another_rules_port() -> None:
    policy = TargetPolicy(allow=["example.org:8443", "10.0.0.0/8:22"])
    assert policy.refuses_address(ip_address("8.8.8.8"), 22, name="example.org") is not None


@pytest.mark.parametrize(
    "rule",
    ["", "*", "*.", "a b", "example.org:0", "example.org:65536", "example.org:x", "10.0.0.0/33",
     "[::1", "[::1]x", "http://example.org", "x/y", "a" * 64 + ".org", 7, None],
)  # fmt: skip
def test_a_rule_that_cannot_be_is_named(rule: object) -> None:
    with pytest.raises(ConfigError, match=r"allow\[1\]"):
        TargetPolicy(allow=["example.org", rule])  # type: ignore[list-item]


def test_options_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="list"):
        TargetPolicy(allow="example.org")
    with pytest.raises(ConfigError, match="1025"):
        TargetPolicy(allow=["example.org"] * 1025)
    with pytest.raises(ConfigError, match="ports"):
        TargetPolicy(ports=[0])


@given(st.text(max_size=40))
def test_any_text_is_a_rule_or_an_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        TargetPolicy(allow=[text])


@given(st.ip_addresses(), st.integers(1, 65_535))
def test_every_address_gets_a_verdict(address: object, port: int) -> None:
    verdict = TargetPolicy().refuses_address(address, port)  # type: ignore[arg-type]
    assert verdict is None or verdict
    if verdict is None:
        assert address.is_global  # type: ignore[attr-defined]
