from __future__ import annotations

import pytest

from racer.errors import ConfigError
from transports.soar.core.crypto import Grant
from transports.soar.core.server.credentials import GrantBook, IssuedGrant, TargetRule
from transports.soar.core.streams.targets import Target

GRANT = Grant(id=b"grant1", secret=bytes(32))


@pytest.mark.parametrize(
    ("rule", "host", "port", "allowed"),
    [
        ("example.com:443", "example.com", 443, True),
        ("example.com:443", "EXAMPLE.com.", 443, True),
        ("Example.com.:443", "example.com", 443, True),
        ("example.com:443", "example.com", 80, False),
        ("example.com:*", "example.com", 80, True),
        ("example.com:*", "www.example.com", 80, False),
        ("*.example.com:443", "www.example.com", 443, True),
        ("*.example.com:443", "a.b.example.com", 443, True),
        ("*.example.com:443", "example.com", 443, False),
        ("*.example.com:443", "badexample.com", 443, False),
        ("*:443", "anything", 443, True),
        ("*:443", "192.0.2.1", 443, True),
        ("*:443", "anything", 80, False),
        ("192.0.2.0/24:80", "192.0.2.7", 80, True),
        ("192.0.2.0/24:80", "192.0.3.7", 80, False),
        ("192.0.2.0/24:80", "example.com", 80, False),
        ("192.0.2.0/24:80", "2001:db8::1", 80, False),
        ("192.0.2.1:80", "192.0.2.1", 80, True),
        ("[2001:db8::/32]:443", "2001:db8::1", 443, True),
        ("[2001:db8::1]:*", "2001:db8::1", 7, True),
        ("[2001:db8::1]:*", "192.0.2.1", 7, False),
        ("example.com:443", "192.0.2.1", 443, False),
    ],
)
def test_a_rule_means_what_it_says(rule: str, host: str, port: int, allowed: bool) -> None:
    assert TargetRule.parse(rule).allows(Target.of(host, port)) is allowed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.com",
        "example.com:",
        "example.com:0",
        "example.com:65536",
        "a:b:c",
        "[nonsense]:80",
        "192.0.2.0/33:80",
        "2001:db8::1:80",
        ":80",
        "example.com:http",
    ],
)
def test_a_rule_that_says_nothing_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match="target"):
        TargetRule.parse(text)


def test_a_grant_without_rules_allows_what_the_server_does() -> None:
    target = Target.of("example.com", 443)
    assert IssuedGrant(grant=GRANT).allows(target)
    rules = (TargetRule.parse("a.example:1"), TargetRule.parse("*.com:443"))
    assert IssuedGrant(grant=GRANT, targets=rules).allows(target)
    assert not IssuedGrant(grant=GRANT, targets=rules[:1]).allows(target)


def test_a_lease_ends_when_the_grant_does() -> None:
    assert IssuedGrant(grant=GRANT).lease(100.0) == 0
    assert not IssuedGrant(grant=GRANT).has_expired(1e12)
    ending = IssuedGrant(grant=GRANT, expires=200.0)
    assert ending.lease(100.5) == 99
    assert ending.lease(199.9) == 1  # 0 would say that it has no end
    assert not ending.has_expired(199.9)
    assert ending.has_expired(200.0)


def test_a_book_knows_each_grant_once() -> None:
    with pytest.raises(ConfigError, match="twice"):
        GrantBook([IssuedGrant(grant=GRANT), IssuedGrant(grant=GRANT, expires=1.0)])
    book = GrantBook([IssuedGrant(grant=GRANT, expires=5.0)])
    book.revoke(b"absent")
    book.revoke(GRANT.id)
    assert book.get(GRANT.id) == IssuedGrant(grant=GRANT, expires=5.0, is_revoked=True)
    assert book.get(b"absent") is None


def test_secrets_are_not_shown() -> None:
    grant = Grant(id=b"grant1", secret=b"do not show this, do not show it")
    assert "do not" not in repr(IssuedGrant(grant=grant))
