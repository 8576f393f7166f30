"""A payload as a URL, in the form that AMP caches have."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import ConfigError, RemoteProtocolError
from transports.amp._urls import BUSTER, cache_place, decode_path, encode_path, read_base_url


@given(st.binary(max_size=100), st.binary(min_size=BUSTER, max_size=BUSTER))
def test_round_trip(payload: bytes, buster: bytes) -> None:
    path = encode_path(payload, buster)
    assert re.fullmatch(r"0[A-Za-z0-9_-]{12}/[A-Za-z0-9_-]*", path)
    assert decode_path(path) == payload


@pytest.mark.parametrize(
    ("path", "payload"),
    [("0/", b""), ("0x/YQ", b"a"), ("0any/thing/at/all/YWI", b"ab"), ("0//YWJj", b"abc")],
)
def test_what_stands_before_the_last_slash_means_nothing(path: str, payload: bytes) -> None:
    assert decode_path(path) == payload


@pytest.mark.parametrize(
    ("path", "words"),
    [("", "version ''"), ("1x/YQ", "version '1'"), ("0YQ", "without a payload"), ("0/Y", "torn"), ("0/\xe9", "torn")],
)  # fmt: skip
def test_what_is_no_path(path: str, words: str) -> None:
    with pytest.raises(RemoteProtocolError, match=words):
        decode_path(path)


@pytest.mark.parametrize(
    ("broker", "place"),
    [
        # The examples of the AMP project's page on cache URLs, and its rules for the odd ones.
        ("https://www.example.com", "https://www-example-com.cdn.ampproject.org/c/s/www.example.com/"),
        ("http://foo.com/", "https://foo-com.cdn.ampproject.org/c/foo.com/"),
        ("https://mine-x.example/a", "https://mine--x-example.cdn.ampproject.org/c/s/mine-x.example/a/"),
        ("https://en-us.example.com", "https://0-en--us-example-com-0.cdn.ampproject.org/c/s/en-us.example.com/"),
        ("https://xn--57hw060o.com", "https://xn---com-p33b41770a.cdn.ampproject.org/c/s/xn--57hw060o.com/"),
        ("https://broker.example:8443/x/", "https://broker-example.cdn.ampproject.org/c/s/broker.example:8443/x/"),
    ],
)  # fmt: skip
def test_where_a_cache_has_a_brokers_pages(broker: str, place: str) -> None:
    cache = read_base_url("https://cdn.ampproject.org", "cache_url")
    assert str(cache_place(read_base_url(broker, "broker_url"), cache)) == place


@pytest.mark.parametrize("host", ["a" * 40 + "." + "b" * 40, "a" * 63 + ".b"])
def test_a_host_without_a_readable_form_has_a_digest(host: str) -> None:
    cache = read_base_url("https://cdn.ampproject.org", "cache_url")
    place = cache_place(read_base_url(f"https://{host}", "broker_url"), cache)
    assert re.fullmatch(r"[a-z2-7]{52}\.cdn\.ampproject\.org", place.host)
    assert len(place.host.partition(".")[0]) <= 63


@pytest.mark.parametrize(
    "text",
    ["", "x", "ftp://x.example", "https://", "https://a b/", "https://u@x.example/", "https://x.example/?q", "https://x.example/#f",
     "https://x.example/%zz", "https://x.example:0/", "https://[::1]/", "https://x\r\n.example/", None, 5, b"https://x.example"],
)  # fmt: skip
def test_what_is_no_base_url(text: object) -> None:
    with pytest.raises(ConfigError, match=r"^here must be a URL"):
        read_base_url(text, "here")
