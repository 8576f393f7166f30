"""Cookies (SPEC 7.7)."""

from __future__ import annotations

import pytest

from tests.transports.soar.crypto.parties import FixedEntropy, flips
from transports.soar.core.crypto import Cookies
from transports.soar.core.crypto import cookies as module

SID = b"abcd"


def cookies() -> Cookies:
    return Cookies(FixedEntropy("cookies"), now=1000.0)


def test_a_cookie_admits_one_first_message() -> None:
    jar = cookies()
    cookie = jar.cookie(SID, 1000.0)
    assert len(cookie) == 8
    assert jar.check(SID, cookie, 1001.0)
    assert not jar.check(SID, cookie, 1001.0)


def test_a_cookie_is_for_one_sid() -> None:
    jar = cookies()
    cookie = jar.cookie(SID, 1000.0)
    assert cookie != jar.cookie(b"abce", 1000.0)
    assert not jar.check(b"abce", cookie, 1000.0)
    for forged in (*flips(cookie), cookie[:7], b""):
        assert not jar.check(SID, forged, 1000.0)
    assert jar.check(SID, cookie, 1000.0)  # what was forged spends nothing


@pytest.mark.parametrize(
    ("given", "brought", "good"),
    [
        (1000.0, 1119.9, True),
        (1000.0, 1120.0, True),  # under the next secret
        (1119.9, 1239.9, True),
        (1000.0, 1239.9, True),
        (1000.0, 1240.0, False),
        (1000.0, 9000.0, False),
    ],
)
def test_a_cookie_is_good_for_two_to_four_minutes(given: float, brought: float, good: bool) -> None:
    jar = cookies()
    cookie = jar.cookie(SID, given)
    assert jar.check(SID, cookie, brought) == good


def test_a_cookie_dies_with_the_second_change_after_it() -> None:
    jar = cookies()
    cookie = jar.cookie(SID, 1000.0)
    jar.cookie(SID, 1120.0)
    jar.cookie(SID, 1240.0)
    assert not jar.check(SID, cookie, 1240.0)


def test_a_spent_cookie_stays_spent_under_the_next_secret() -> None:
    jar = cookies()
    cookie = jar.cookie(SID, 1000.0)
    assert jar.check(SID, cookie, 1000.0)
    assert not jar.check(SID, cookie, 1121.0)


def test_it_gives_the_same_until_the_secret_changes() -> None:
    jar = cookies()
    first = jar.cookie(SID, 1000.0)
    assert jar.cookie(SID, 1119.0) == first
    assert jar.cookie(SID, 1120.0) != first
    assert cookies().cookie(SID, 1000.0) == first  # of the same randomness
    assert Cookies(FixedEntropy("other"), now=0.0).cookie(SID, 0.0) != first


def test_what_it_remembers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SPENT", 10)
    jar = cookies()
    waiting = jar.cookie(SID, 1000.0)
    for number in range(10):
        sid = number.to_bytes(4)
        assert jar.check(sid, jar.cookie(sid, 1000.0), 1000.0)
    assert jar.cookie(SID, 1000.0) != waiting  # a new secret, early
    assert jar.check(SID, waiting, 1000.0)  # and the last one is still good
    for number in range(1000):
        sid = number.to_bytes(4)
        assert jar.check(sid, jar.cookie(sid, 1000.0), 1000.0)
    kept = [secret for secret in (jar._secret, jar._last) if secret is not None]
    assert sum(len(secret.spent) for secret in kept) <= 20
