"""The one hash (SPEC 1)."""

from __future__ import annotations

from transports.soar.core.crypto.hashes import digest, equal


def test_it_is_blake2s() -> None:
    # RFC 7693 appendix B.
    assert digest(32, b"", b"abc").hex() == (
        "508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982"
    )


def test_another_length_or_key_is_another_function() -> None:
    whole = digest(32, b"", b"abc")
    assert digest(16, b"", b"abc") != whole[:16]
    assert digest(32, b"key", b"abc") != whole


def test_only_the_same_is_equal() -> None:
    assert equal(b"abc", b"abc")
    assert not equal(b"abc", b"abd")
    assert not equal(b"abc", b"ab")
    assert not equal(b"abc", b"")
