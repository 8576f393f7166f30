"""Resolvers' URLs: what they mean, what is refused and in which words, and what is never quoted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import ConfigError
from transports._net.resolver_urls import ResolverURL, Scheme

SECRET = "s3cret"


@pytest.mark.parametrize(
    ("text", "scheme", "host", "port", "path", "shown"),
    [
        ("udp://9.9.9.9", Scheme.UDP, "9.9.9.9", 53, "", "udp://9.9.9.9"),
        ("udp://9.9.9.9:53", Scheme.UDP, "9.9.9.9", 53, "", "udp://9.9.9.9"),
        ("udp://9.9.9.9:5353/", Scheme.UDP, "9.9.9.9", 5353, "", "udp://9.9.9.9:5353"),
        ("tcp://[2620:FE::fe]", Scheme.TCP, "2620:fe::fe", 53, "", "tcp://[2620:fe::fe]"),
        ("tcp://[fe80::1%eth0]:54", Scheme.TCP, "fe80::1%eth0", 54, "", "tcp://[fe80::1%eth0]:54"),
        ("TLS://DNS.Example", Scheme.TLS, "dns.example", 853, "", "tls://dns.example"),
        ("tls://dns.example.", Scheme.TLS, "dns.example.", 853, "", "tls://dns.example."),
        ("tls://bücher.example", Scheme.TLS, "xn--bcher-kva.example", 853, "", "tls://xn--bcher-kva.example"),
        ("https://d.example/dns-query", Scheme.HTTPS, "d.example", 443, "/dns-query", "https://d.example"),
        ("https://d.example:8443/a/b", Scheme.HTTPS, "d.example", 8443, "/a/b", "https://d.example:8443"),
        ("https://d.example/q{?dns}", Scheme.HTTPS, "d.example", 443, "/q", "https://d.example"),
        ("https://d.example/", Scheme.HTTPS, "d.example", 443, "/", "https://d.example"),
        ("https://d.example/~me@home", Scheme.HTTPS, "d.example", 443, "/~me@home", "https://d.example"),
    ],
)  # fmt: skip
def test_what_a_url_means(
    text: str, scheme: Scheme, host: str, port: int, path: str, shown: str
) -> None:
    url = ResolverURL.parse(text)
    assert (url.scheme, url.server.host, url.server.port, url.path) == (scheme, host, port, path)
    assert str(url) == shown
    assert url.is_encrypted == (scheme in {Scheme.TLS, Scheme.HTTPS})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sytem", "resolver='sytem': not 'system', nor a URL such as udp://192.0.2.53 or https://"),
        ("9.9.9.9", "resolver='9.9.9.9': not 'system', nor a URL"),
        ("", "resolver: not 'system', nor a URL"),
        ("a word or two", "resolver: not 'system', nor a URL"),
        ("http://d.example/q", "resolver: scheme 'http' is not known; did you mean 'https'?"),
        ("quic://d.example", "resolver: scheme 'quic' is not known; known: udp, tcp, tls, https"),
        ("u d p://d.example", "resolver: what stands before '://' is no scheme; known: udp,"),
        ("udp://", "resolver (udp://): the host is missing"),
        ("udp://:53", "resolver (udp://): the host is missing"),
        ("https:///dns-query", "resolver (https://): the host is missing"),
        ("udp://d.example:0", "resolver (udp://): port 0 is not in 1 to 65535"),
        ("udp://d.example:65536", "resolver (udp://): port 65536 is not in 1 to 65535"),
        ("udp://d.example:dns", "has 'dns' where a port from 1 to 65535 belongs"),
        ("udp://2620:fe::fe", "resolver (udp://): an IPv6 address in a URL stands in brackets"),
        ("udp://[9.9.9.9]", "brackets are for IPv6 addresses"),
        ("udp://d..example", "has an empty label"),
        ("udp://d.example/x", "resolver (udp://d.example:53): something stands behind host and port"),
        ("tls://d.example?x", "something stands behind host and port; only https:// has a path"),
        ("https://d.example", "resolver (https://d.example:443): the path is missing, most often /dns-query"),
        ("https://d.example\\x", "the path is missing"),
        ("https://d.example/q?a=b", "a query string or fragment; the question goes into the body"),
        ("https://d.example?dns", "a query string or fragment"),
        ("https://d.example/q#a", "a query string or fragment"),
        ("https://d.example/q y", "the path is longer than 1024 characters, or has some that must be"),
        ("https://d.example/q\r\nX: y", "the path is longer than 1024 characters, or has some that"),
        ("https://d.example/\u00e9", "must be percent-encoded"),
        ("https://d.example/" + "x" * 1024, "the path is longer than 1024 characters"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_and_why(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ResolverURL.parse(text)
    assert words in str(caught.value)


def test_the_option_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^resolver\[2\] \(udp://\): the host is missing"):
        ResolverURL.parse("udp://", option="resolver[2]")


@pytest.mark.parametrize(
    "text",
    [
        f"udp://{SECRET}@d.example",
        f"https://me:{SECRET}@d.example/dns-query",
        f"https://me:{SECRET}@d.example:99999/dns-query",
        f"https://d.example/{SECRET}?x",
        f"https://d.example/q?{SECRET}",
        f"https://d.example/q#{SECRET}",
        f"https://d.example/{SECRET}\n",
        f"tls://d.example/{SECRET}",
        f"me:{SECRET}@d.example",
        f"htps://d.example/{SECRET}",
        f"d.example/{SECRET}",
    ],
)
def test_what_may_be_secret_is_never_quoted(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ResolverURL.parse(text)
    assert SECRET not in str(caught.value)


def test_a_path_may_identify_an_account_and_is_not_shown() -> None:
    url = ResolverURL.parse(f"https://d.example/{SECRET}")
    assert url.path == f"/{SECRET}"
    assert SECRET not in f"{url} {url!r}"


@given(st.one_of(st.text(), st.from_regex(r"(udp|tls|https)://[ -~]{0,40}", fullmatch=True)))
def test_any_text_is_a_url_or_refused(text: str) -> None:
    try:
        url = ResolverURL.parse(text)
    except ConfigError:
        return
    path = url.path or ("/" if url.scheme is Scheme.HTTPS else "")
    assert ResolverURL.parse(f"{url}{path}") == url
