"""Nothing in a bug report says which host, which address, or who."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from racer.doctor import Diagnosis, Finding, Verdict
from racer.doctor._redaction import Pseudonyms


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("news.example is at 192.0.2.7", "host-1 is at addr-1"),
        ("udp://192.0.2.53:5353 answers", "udp://addr-1:5353 answers"),
        ("tls://[2001:db8::53]:853 answers", "tls://[addr-1]:853 answers"),
        ("from ::1 to ::ffff:192.0.2.7", "from addr-1 to addr-2"),
        ("NEWS.example. and news.EXAMPLE", "host-1. and host-1"),
        ("it is 12:00:05 UTC", "it is 12:00:05 UTC"),
        ("version 1.2.3 took 1.25 s", "version 1.2.3 took 1.25 s"),
        ("999.1.1.1 is nothing", "999.1.1.1 is nothing"),
        ("racer.toml in ssl.SSLError", "racer.toml in ssl.SSLError"),
        ("https://t.example.com:8443/x", "https://host-1:8443/x"),
    ],
)
def test_hosts_and_addresses_get_names(text: str, hidden: str) -> None:
    assert Pseudonyms().hide(text) == hidden


def test_the_same_one_is_always_called_the_same() -> None:
    names = Pseudonyms(["router", "news.example"])
    assert names.hide(["router", "news.example", "ROUTER:53"]) == ["host-2", "host-1", "host-2:53"]
    assert names.hide({"a": {"router": 5, "b": ("192.0.2.7", None, True)}}) == {
        "a": {"host-2": 5, "b": ["addr-1", None, True]}
    }


def test_the_home_directory_tells_who() -> None:
    names = Pseudonyms(home="/users/me")
    assert (
        names.hide("/users/me/.config/racer/racer.toml: bad") == "~/.config/racer/racer.toml: bad"
    )


labels = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=2, max_size=12)
hosts = st.builds(
    lambda a, b, tld: f"x{a}.{b}.{tld}", labels, labels, st.sampled_from(["com", "org", "ir"])
)
addresses = st.ip_addresses().map(str)


@given(
    st.lists(hosts | addresses, min_size=1, max_size=5), st.sampled_from([" ", ", ", " and ", "; "])
)
@settings(max_examples=40)
def test_none_is_left(secrets: list[str], between: str) -> None:
    hidden = Pseudonyms().hide(between.join(secrets))
    for secret in secrets:
        assert secret not in hidden.split(between)
    assert len(hidden.split(between)) == len(secrets)


def test_a_report_for_others_says_nothing_that_is_theirs() -> None:
    diagnosis = Diagnosis(
        target="news.example:443",
        findings=(
            Finding(
                check="resolver udp://192.0.2.53",
                verdict=Verdict.FAIL,
                words="udp://192.0.2.53 lies: it says that news.example is at 198.51.100.66.",
                advice=("Ask mybox.",),
                data={"addresses": ["198.51.100.66"], "seconds": 0.5},
            ),
        ),
        seconds=1.25,
        hosts=("news.example", "mybox"),
        home="/users/me",
    )
    text = diagnosis.to_json()
    for secret in ("news", "192.0.2", "198.51.100", "mybox"):
        assert secret not in text
    data = json.loads(text)
    assert data["target"] == "host-1:443"
    assert data["findings"][0]["words"] == "udp://addr-1 lies: it says that host-1 is at addr-2."
    assert data["findings"][0]["data"] == {"addresses": ["addr-2"], "seconds": 0.5}
    assert data["verdict"] == "fail"
    assert "198.51.100.66" in diagnosis.to_json(redacted=False)
