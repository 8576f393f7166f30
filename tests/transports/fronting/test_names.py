"""Which name is shown, which is demanded, and which is hidden."""

from __future__ import annotations

from typing import Any

import pytest

from tests.transports.fronting.lists import catalog, provider
from transports.fronting._catalog import Front, Provider, SNIPolicy
from transports.fronting._names import (
    certifies,
    fronted_host,
    restored_location,
    sni_of,
    verify_name_of,
)

CDN = Provider(
    id="cdn",
    aliases={"api.example.com": "d1.cdn.example.net"},
    passthrough_patterns=("*.pass.example.com", "exact.example.com"),
)


@pytest.mark.parametrize(
    ("host", "known_as"),
    [
        ("api.example.com", "d1.cdn.example.net"),
        ("API.Example.com.", "d1.cdn.example.net"),
        ("www.api.example.com", None),
        ("a.pass.example.com", "a.pass.example.com"),
        ("a.b.pass.example.com", "a.b.pass.example.com"),
        ("pass.example.com", None),
        ("xpass.example.com", None),
        (".pass.example.com", None),
        ("exact.example.com", "exact.example.com"),
        ("", None),
    ],
)
def test_under_which_name_a_host_is_known(host: str, known_as: str | None) -> None:
    assert fronted_host(CDN, host) == known_as


FRONT = Front("cdn", "front.example.org", "192.0.2.1", sni="own.example.org")
BARE = Front("cdn", "front.example.org", "192.0.2.1")
ON, OFF = SNIPolicy(True, ("a.example", "b.example")), SNIPolicy(False, ("a.example",))


@pytest.mark.parametrize(
    ("policies", "country", "front", "sni"),
    [
        ({}, None, BARE, None),
        ({}, "ir", FRONT, "own.example.org"),
        ({"default": OFF}, None, FRONT, "own.example.org"),
        ({"default": SNIPolicy(True, ())}, None, FRONT, "own.example.org"),
        ({"default": ON, "cn": OFF}, "CN", BARE, None),
        ({"default": SNIPolicy(True, ("only.example",))}, None, FRONT, "only.example"),
        ({"default": OFF, "ir": SNIPolicy(True, ("ir.example",))}, "IR", BARE, "ir.example"),
        ({"default": SNIPolicy(True, ("d.example",)), "ir": OFF}, "fr", BARE, "d.example"),
    ],
)
def test_which_name_is_shown(
    policies: Any, country: str | None, front: Front, sni: str | None
) -> None:
    assert sni_of(front, Provider(id="cdn", sni_policies=policies), country) == sni


def test_an_address_is_always_seen_under_one_name_and_every_name_is_used() -> None:
    names = tuple(f"n{n}.example" for n in range(4000))
    cdn = Provider(id="cdn", sni_policies={"default": SNIPolicy(True, names)})
    fronts = [Front("cdn", "f.example", f"192.{a}.{b}.1") for a in range(64) for b in range(256)]
    shown = [sni_of(front, cdn, None) for front in fronts]
    assert shown == [sni_of(front, cdn, None) for front in fronts]
    assert len(set(shown)) > 3800  # the original reaches the first 256


@pytest.mark.parametrize(
    ("own", "providers", "sni", "name"),
    [
        ("", "", "decoy.example", "front.example.org"),
        ("", "edge.example", "decoy.example", "edge.example"),
        ("mine.example", "edge.example", "decoy.example", "mine.example"),
        ("mine.example", "edge.example", None, "front.example.org"),
    ],
)
def test_which_name_is_demanded(own: str, providers: str, sni: str | None, name: str) -> None:
    front = Front("cdn", "front.example.org", "192.0.2.1", verify_hostname=own)
    assert verify_name_of(front, Provider(id="cdn", verify_hostname=providers), sni) == name


@pytest.mark.parametrize(
    ("names", "wanted", "fits"),
    [
        (["front.example.org"], "front.example.org", True),
        (["FRONT.example.org"], "front.Example.org.", True),
        (["*.example.org"], "front.example.org", True),
        (["*.example.org"], "a.front.example.org", False),
        (["*.example.org"], "example.org", False),
        (["*.org"], "example.org", False),
        (["*"], "org", False),
        (["f*.example.org"], "front.example.org", False),
        (["*.*.org"], "a.b.org", False),
        (["other.example.org", "front.example.org"], "front.example.org", True),
        (["front.example.org.evil.example"], "front.example.org", False),
        ([], "front.example.org", False),
        (["front.example.org"], "", False),
    ],
)
def test_which_certificates_are_for_a_name(names: list[str], wanted: str, fits: bool) -> None:
    certificate = {"subjectAltName": tuple(("DNS", name) for name in names), "subject": ()}
    assert certifies(certificate, wanted) == fits


def test_a_common_name_counts_for_nothing() -> None:
    assert not certifies(
        {"subject": ((("commonName", "front.example.org"),),)}, "front.example.org"
    )
    assert not certifies(
        {"subjectAltName": (("IP Address", "front.example.org"),)}, "front.example.org"
    )
    assert not certifies({}, "front.example.org")
    assert not certifies(None, "front.example.org")


@pytest.mark.parametrize(
    ("location", "restored"),
    [
        (b"https://d1.cdn.example.net/next?x=1#f", b"https://api.example.com/next?x=1#f"),
        (b"https://D1.cdn.example.net:443/", b"https://api.example.com/"),
        (b"https://d1.cdn.example.net:8443/", b"https://d1.cdn.example.net:8443/"),
        (b"https://u@d1.cdn.example.net/", b"https://u@d1.cdn.example.net/"),
        (b"https://elsewhere.example/", b"https://elsewhere.example/"),
        (b"/relative", b"/relative"),
        (b"//d1.cdn.example.net/x", b"//api.example.com/x"),
        (b"https://[bad", b"https://[bad"),
        (b"\xff\xfe", b"\xff\xfe"),
    ],
)
def test_where_a_redirect_leads(location: bytes, restored: bytes) -> None:
    given = restored_location(location, fronted="d1.cdn.example.net", origin="api.example.com")
    assert given == restored


def test_a_list_of_our_own_making_is_known_by_its_alias() -> None:
    one = catalog(cdn=provider("cdn")).providers["cdn"]
    assert fronted_host(one, "api.example.com") == "api.cdn.example.net"
    assert (one.test_host, one.test_target) == ("ping.cdn.example.net", "/ping?x=1")
