"""A list of fronts is read whole, strictly and without loss, or refused with the place and the reason."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import ConfigError
from tests.transports.fronting.lists import document, octets, provider
from transports._net.yaml_documents import read_yaml
from transports.fronting._catalog import Catalog, read_catalog

DATA = Path(__file__).parents[4] / "shared" / "data"


def published(name: str) -> bytes:
    file = DATA / name
    if not file.exists():
        pytest.skip(f"published data is not beside the project: ../shared/data/{name}")
    return file.read_bytes()


def as_document(catalog: Catalog) -> dict[str, Any]:
    """Return what a list said, as it was said: nothing is lost in reading."""
    return {
        "trustedcas": [{"commonname": a.common_name, "cert": a.pem} for a in catalog.authorities],
        "providers": {
            name: {
                "hostaliases": dict(one.aliases),
                "testurl": f"{one.test_scheme}://{one.test_host}{one.test_target}",
                "passthroughpatterns": list(one.passthrough_patterns),
                "verifyHostname": one.verify_hostname,
                "validator": {"rejectstatus": sorted(one.reject_statuses)},
                "frontingsnis": {
                    country: {"usearbitrarysnis": policy.is_on, "arbitrarysnis": list(policy.names)}
                    for country, policy in one.sni_policies.items()
                },
                "masquerades": [
                    {
                        "domain": front.domain,
                        "ipaddress": front.key[2],
                        "sni": front.sni,
                        "verifyhostname": front.verify_hostname,
                    }
                    for front in one.fronts
                ],
            }
            for name, one in catalog.providers.items()
        },
    }


def filled(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a document with what it leaves out written as what that means."""
    raw = copy.deepcopy(raw)
    for one in raw["providers"].values():
        one["verifyHostname"] = one.pop("verifyhostname", one.get("verifyHostname")) or ""
        one.setdefault("validator", {"rejectstatus": []})
        for key, empty in (("passthroughpatterns", []), ("frontingsnis", {})):
            one[key] = one.get(key) or empty
        for policy in one["frontingsnis"].values():
            policy["arbitrarysnis"] = [name.lower() for name in policy.get("arbitrarysnis") or []]
        for front in one["masquerades"]:
            front["domain"] = front["domain"].lower()
            front["sni"] = front.get("sni") or ""
            front["verifyhostname"] = front.get("verifyhostname") or ""
    return raw


@pytest.mark.parametrize("name", ["fronted.yaml.gz", "fronting-aliyun-provider.yaml"])
def test_published_lists_are_read_without_loss(name: str) -> None:
    data = published(name)
    catalog = read_catalog(data)
    assert catalog.unknown == {}
    assert as_document(catalog) == filled(read_yaml(data))


def test_the_published_list_is_all_there() -> None:
    catalog = read_catalog(published("fronted.yaml.gz"))
    assert {name: len(p.fronts) for name, p in catalog.providers.items()} == {
        "akamai": 1000,
        "aliyun": 97,
        "cloudfront": 1000,
    }
    assert len(catalog.authorities) == 5
    assert len(catalog.providers["akamai"].sni_policies["default"].names) == 4638
    assert not catalog.providers["akamai"].sni_policies["cn"].is_on
    assert catalog.notes == ()


def test_a_key_with_a_slip_of_case_is_read_and_noted() -> None:
    """domainfront#18: a misspelt key switches a check off in silence, also in a published file."""
    catalog = read_catalog(published("fronting-aliyun-provider.yaml"))
    assert catalog.providers["aliyun"].verify_hostname == "img.alicdn.com"
    (note,) = catalog.notes
    assert "'verifyhostname'; did you mean 'verifyHostname'" in note


def test_unknown_keys_are_noted_and_kept() -> None:
    raw = document(cdn=provider("cdn", passthrupatterns=["*.example.com"], extra={"a": 1}))
    raw["providers"]["cdn"]["masquerades"][2]["verifyhostnam"] = "x.example"
    raw["version"] = 3
    catalog = read_catalog(json.dumps(raw).encode())
    assert catalog.unknown == {
        "providers.cdn.passthrupatterns": ["*.example.com"],
        "providers.cdn.extra": {"a": 1},
        "providers.cdn.masquerades[2].verifyhostnam": "x.example",
        "version": 3,
    }
    assert any("did you mean 'passthroughpatterns'" in note for note in catalog.notes)
    assert any("masquerades[2]" in note and "'verifyhostname'" in note for note in catalog.notes)


def test_a_foreign_document_does_not_make_notes_without_end() -> None:
    raw = document(cdn=provider("cdn"))
    raw.update({f"key{n}": n for n in range(1000)})
    assert len(read_catalog(json.dumps(raw).encode()).notes) == 50


def changed(path: str, value: Any) -> bytes:
    """Return a list that is right but for one value; `...` takes a key out."""
    raw = document(cdn=provider("cdn", frontingsnis={"ir": {"usearbitrarysnis": True, "arbitrarysnis": ["a.example"]}}))  # fmt: skip
    at: Any = raw
    *way, last = [int(p) if p.isdigit() else p for p in path.split("/")]
    for step in way:
        at = at[step]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return json.dumps(raw).encode()


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("providers/cdn", None, "providers.cdn: null, where a mapping belongs"),
        ("providers/cdn", [], "providers.cdn: \\[\\], where a mapping"),
        ("providers", None, "providers: null"),
        ("providers", {}, "providers: not one front"),
        ("providers", ..., "providers: null"),
        ("trustedcas", [], "trustedcas: 0 certificates"),
        ("trustedcas", ..., "trustedcas: 0 certificates"),
        ("trustedcas", {}, "trustedcas: {}, where a list"),
        ("trustedcas/0", None, "trustedcas\\[0\\]: null"),
        ("trustedcas/0/cert", "junk", "trustedcas\\[0\\].cert \\('test'\\): no certificate"),
        ("trustedcas/0/cert", ..., "cert: null, where a text"),
        ("providers/cdn/masquerades", [], "not one front"),
        ("providers/cdn/masquerades", {}, "masquerades: {}, where a list"),
        ("providers/cdn/masquerades/1", None, "masquerades\\[1\\]: null"),
        ("providers/cdn/masquerades/1/domain", ..., "masquerades\\[1\\].domain: null"),
        ("providers/cdn/masquerades/1/domain", "a b", "masquerades\\[1\\].domain: 'a b'"),
        ("providers/cdn/masquerades/1/domain", "a\r\nX: 1", "a host name belongs"),
        ("providers/cdn/masquerades/1/ipaddress", "front.example", "an IP address"),
        ("providers/cdn/masquerades/1/ipaddress", "192.0.2.1:0", "an IP address"),
        ("providers/cdn/masquerades/1/ipaddress", "192.0.2.1:99999", "an IP address"),
        ("providers/cdn/masquerades/1/ipaddress", "192.0.2", "an IP address"),
        ("providers/cdn/masquerades/1/ipaddress", "fe80::1%eth0", "an IP address"),
        ("providers/cdn/masquerades/1/sni", True, "sni: True"),
        ("providers/cdn/hostaliases", {"api.example.com": None}, "hostaliases"),
        ("providers/cdn/hostaliases", {"api example": "x.example"}, "a host name"),
        ("providers/cdn/passthroughpatterns", ["*.*.example"], "a host name"),
        ("providers/cdn/passthroughpatterns", "*.example", "a list belongs"),
        ("providers/cdn/frontingsnis", [], "a mapping belongs"),
        ("providers/cdn/frontingsnis/ir", None, "frontingsnis.ir: null"),
        ("providers/cdn/frontingsnis/ir/usearbitrarysnis", "yes", "true or false"),
        ("providers/cdn/frontingsnis/ir/arbitrarysnis", ["ok.example", {}], "a text"),
        ("providers/cdn/testurl", "ftp://x.example/", "a URL with http or https"),
        ("providers/cdn/testurl", "https://", "a URL"),
        ("providers/cdn/testurl", "https://u:secret@x.example/", "without user"),
        ("providers/cdn/testurl", "https://x.example/\r\nX: 1", "a URL"),
        ("providers/cdn/testurl", "https://[x/", "a URL"),
        ("providers/cdn/validator", {"rejectstatus": ["403"]}, "a whole number"),
        ("providers/cdn/verifyHostname", "-", "a host name"),
    ],
)  # fmt: skip
def test_what_is_refused_is_named(path: str, value: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        read_catalog(changed(path, value))
    assert "secret" not in str(caught.value)
    assert "\r" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b"providers", b"\x1f\x8b\x08\x00", b"{a: "])
def test_what_is_no_list(data: bytes) -> None:
    with pytest.raises(ConfigError):
        read_catalog(data)


@pytest.mark.parametrize("cut", range(0, 5000, 97))
def test_a_torn_file_is_refused(cut: int) -> None:
    data = gzip.compress(octets(cdn=provider("cdn", 40)))
    with pytest.raises(ConfigError):
        read_catalog(data[: cut % len(data)])


def test_a_leaf_is_no_authority() -> None:
    """A certificate that anybody may own must not vouch for fronts."""
    leaf = trustme.CA().issue_cert("front.example.org").cert_chain_pems[0].bytes().decode()
    with pytest.raises(ConfigError, match="not the certificate of an authority"):
        read_catalog(changed("trustedcas/0/cert", leaf))


def test_every_certificate_of_an_entry_counts() -> None:
    both = "".join(trustme.CA().cert_pem.bytes().decode() for _ in range(2))
    read_catalog(changed("trustedcas/0/cert", both))
    with pytest.raises(ConfigError, match="no certificate"):
        read_catalog(
            changed("trustedcas/0/cert", both + both[:300] + "\n-----END CERTIFICATE-----\n")
        )


@pytest.mark.parametrize(
    ("written", "address", "port"),
    [
        ("192.0.2.1", "192.0.2.1", 443),
        ("192.0.2.1:8443", "192.0.2.1", 8443),
        ("2001:db8::1", "2001:db8::1", 443),
        ("[2001:db8::1]:8443", "2001:db8::1", 8443),
    ],
)
def test_addresses_with_and_without_a_port(written: str, address: str, port: int) -> None:
    catalog = read_catalog(changed("providers/cdn/masquerades/0/ipaddress", written))
    front = catalog.providers["cdn"].fronts[0]
    assert (front.address, front.port) == (address, port)


LEAF = st.sampled_from([None, True, 7, "x.example", "192.0.2.1", "*.x.example", "https://x.example/", "", "a\nb"])  # fmt: skip
PATHS = st.sampled_from(
    ["providers/cdn", "trustedcas/0", "trustedcas/0/cert", "providers/cdn/masquerades", "providers/cdn/testurl",
     "providers/cdn/masquerades/0/ipaddress", "providers/cdn/masquerades/0/verifyhostname", "providers/cdn/hostaliases",
     "providers/cdn/frontingsnis/ir/arbitrarysnis", "providers/cdn/validator", "providers/cdn/passthroughpatterns"]
)  # fmt: skip


@given(
    PATHS,
    LEAF | st.lists(LEAF, max_size=2) | st.dictionaries(st.text(max_size=4), LEAF, max_size=2),
)
def test_any_change_gives_a_list_or_one_error(path: str, value: Any) -> None:
    try:
        catalog = read_catalog(changed(path, value))
    except ConfigError:
        return
    assert catalog.count()
