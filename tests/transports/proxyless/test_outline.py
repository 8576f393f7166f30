"""Outline's strategy files: what each key comes to, and what is refused where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import ConfigError
from transports.proxyless._outline import MAX_BYTES, SYSTEM, Socks5At, parse_fallback, read_outline

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT.parent / "shared" / "data"
SECRET = "hunter2"

FILE = """
$comment: keys that begin with a dollar are for people
dns:
  - system: {}
  - system:
  - https: { name: 9.9.9.9 }
  - https: { name: dns.example., address: 192.0.2.1 }
  - https: { name: "2620:fe::fe" }
  - https: { name: dns.example, address: "front.example:8443" }
  - tls: { name: dns.example }
  - tls: { name: "[2620:fe::fe]:8853" }
  - udp: { address: 192.0.2.53 }
  - tcp: { address: ns.example.:5353 }
tls:
  - ""
  - split:2,20*5
fallback:
  - socks5://192.0.2.9
"""


def test_a_file() -> None:
    config = read_outline(FILE)
    assert [str(each) for each in config.resolvers] == [
        SYSTEM,
        SYSTEM,
        "https://9.9.9.9",
        "https://dns.example at 192.0.2.1:443",
        "https://[2620:fe::fe]",
        "https://dns.example at front.example:8443",
        "tls://dns.example",
        "tls://[2620:fe::fe]:8853",
        "udp://192.0.2.53",
        "tcp://ns.example.:5353",
    ]
    assert [each.text for each in config.strategies] == ["", "split:2,20*5"]
    assert list(map(str, config.fallbacks)) == ["socks5://192.0.2.9:1080"]
    doh = config.resolvers[2]
    assert not isinstance(doh, str)
    assert (doh.url.path, doh.url.server.port) == ("/dns-query", 443)


def test_json_is_yaml() -> None:
    data = {"dns": [{"https": {"name": "9.9.9.9"}}], "tls": ["split:1"]}
    config = read_outline(json.dumps(data))
    assert (str(config.resolvers[0]), config.strategies[0].text) == ("https://9.9.9.9", "split:1")


def test_lists_may_be_left_out() -> None:
    config = read_outline("tls: ['split:1']")
    assert (config.resolvers, config.fallbacks) == ((), ())
    assert read_outline("dns: [{system: {}}]").strategies == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "a strategy file is a mapping"),
        ("", "a strategy file is a mapping"),
        ("dns: [", "not YAML"),
        ("dnss: []", "unknown key 'dnss'.*'dns'"),
        ("dns: []", "dns: at least one resolver"),
        ("dns: {}", "dns: must be a list, not a mapping"),
        ("dns: [system]", r"dns\[0\]: must be a mapping with one key"),
        ("dns: [{system: {}, udp: {address: a}}]", r"dns\[0\]: must be a mapping with one key"),
        ("dns: [{system: {}}, {htps: {name: a}}]", r"dns\[1\]: unknown key 'htps'.*'https'"),
        ("dns: [{system: {name: a}}]", r"dns\[0\]: system: unknown key 'name'"),
        ("dns: [{https: {}}]", r"dns\[0\]: https: name: missing"),
        ("dns: [{https: {address: 192.0.2.1}}]", "https: name: missing"),
        ("dns: [{https: {name: 7}}]", "https: name: must be a text"),
        ("dns: [{https: {nmae: a}}]", "unknown key 'nmae'"),
        ("dns: [{https: [a]}]", "https: must be a mapping, not a list"),
        ("dns: [{https: {name: 'a b'}}]", "https: name: .*cannot be in a host name"),
        ("dns: [{udp: {name: a}}]", "udp: unknown key 'name'"),
        ("dns: [{udp: {address: 'a:0'}}]", "udp: address: port 0"),
        ("dns: [{tcp: {}}]", "tcp: address: missing"),
        ("tls: 'split:1'", "tls: must be a list, not a text"),
        ("tls: ['', 'splitt:1']", r"tls\[1\]: .*'splitt'"),
        ("tls: [{}]", r"tls\[0\]: must be a text, not dict"),
        ("fallback: [7]", r"fallback\[0\]: a fallback is a text"),
        ("fallback: [{a: 1, b: 2}]", r"fallback\[0\]: .*a mapping with one key"),
        (f"fallback: ['ss://{SECRET}@192.0.2.1:1']", r"fallback\[0\]: ss:// is not supported"),
        (f"fallback: [{{psiphon: {{Key: {SECRET}}}}}]", r"fallback\[0\]: psiphon is not supported"),
        (f"fallback: ['split:1|ss://{SECRET}@a']", r"fallback\[0\]: a pipe as a fallback is not"),
        (f"fallback: ['socks5://me:{SECRET}@a:0x']", r"fallback\[0\]: not a URL such as"),
        (f"fallback: ['socks5://me:{SECRET}@a b']", r"fallback\[0\]: .*cannot be in a host"),
        (f"fallback: ['socks5://me:{SECRET}@a/b']", r"fallback\[0\]: something stands behind"),
        ("dns: [" + ", ".join(["{system: {}}"] * 65) + "]", "dns: a list of 65; at most 64"),
        ("tls: [" + ", ".join(["''"] * 33) + "]", "tls: a list of 33; at most 32"),
        ("#" * (MAX_BYTES + 1), f"more than {MAX_BYTES} octets"),
        ("a: &a [*a]", "anchor|alias"),
        ("dns: [{system: {}}]\ndns: [{system: {}}]", "second time"),
        ("tls: [!!python/object:os.system x]", "tag"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        read_outline(text)
    assert SECRET not in str(caught.value)


def test_what_is_not_supported_can_be_left_out() -> None:
    text = f"fallback: ['ss://{SECRET}@192.0.2.1:1', {{psiphon: {{}}}}, 'socks5://192.0.2.9:1']"
    config = read_outline(text, skip_unsupported=True)
    assert config.skipped == ("fallback[0]: ss://", "fallback[1]: psiphon")
    assert list(map(str, config.fallbacks)) == ["socks5://192.0.2.9:1"]


def test_a_resolver_that_is_not_supported_is_never_left_out() -> None:
    with pytest.raises(ConfigError, match="unknown key 'quic'"):
        read_outline("dns: [{quic: {name: a}}]", skip_unsupported=True)


def test_a_credential_is_kept_and_not_shown() -> None:
    found = parse_fallback(f"socks5://me:{SECRET}%21@192.0.2.9")
    assert found.credential is not None
    assert (found.credential.username, found.credential.password) == ("me", f"{SECRET}!")
    assert isinstance(found, Socks5At)
    assert SECRET not in f"{found!r} {found} {found.credential!r}"


@given(st.text(max_size=80))
def test_any_text_is_a_file_or_a_named_error(text: str) -> None:
    for octets in (text, f"dns: [{text}]", f"fallback: ['{text}']"):
        try:
            read_outline(octets)
        except ConfigError:
            continue


published = pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason=f"no published strategy files at ../{PUBLISHED.parent.name}/data"
)


@published
@pytest.mark.parametrize(
    ("name", "resolvers", "strategies"),
    [
        (
            "smart-kindling.yml",
            12,
            ["", "split:1", "split:2,20*5", "disorder:1|split:200", "tlsfrag:1"],
        ),
        (
            "smart-radiance.yml",
            11,
            ["", "split:1", "split:2,20*5", "disorder:1|split:200", "tlsfrag:1"],
        ),
        (
            "smart-outline.yaml",
            29,
            ["", "split:1", "split:2,20*5", "disorder:1|split:200", "tlsfrag:1"],
        ),
    ],
)
def test_published_files_load(name: str, resolvers: int, strategies: list[str]) -> None:
    config = read_outline((PUBLISHED / name).read_bytes())
    assert len(config.resolvers) == resolvers
    assert [each.text for each in config.strategies] == strategies


@published
def test_the_published_file_of_broken_things_says_what_is_not_supported() -> None:
    text = (PUBLISHED / "smart-outline-broken.yaml").read_bytes()
    with pytest.raises(ConfigError, match=r"fallback\[0\]: ss:// is not supported, only socks5://"):
        read_outline(text)
    config = read_outline(text, skip_unsupported=True)
    assert config.skipped == ("fallback[0]: ss://", "fallback[1]: psiphon")
    assert len(config.resolvers) == 7
    assert list(map(str, config.fallbacks)) == ["socks5://192.168.1.10:1080"]
