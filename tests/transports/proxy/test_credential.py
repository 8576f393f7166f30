"""A credential is checked as a whole, and is shown by nothing."""

from __future__ import annotations

import pytest

from racer.errors import ConfigError
from transports.proxy._credential import credential_of


def test_none_is_none() -> None:
    assert credential_of(None, None) is None


def test_both_halves_become_utf8() -> None:
    made = credential_of("älice", "")
    assert made is not None
    assert (made.username, made.password) == ("älice".encode(), b"")


@pytest.mark.parametrize(
    ("username", "password", "words"),
    [
        ("s3cret", None, "username= without password="),
        (None, "s3cret", "password= without username="),
        (b"s3cret", "x", "username must be a str, not bytes"),
        ("x", 7, "password must be a str, not int"),
        ("x", "s3cret\ud800", "password: has half a character"),
    ],
)
def test_what_is_no_credential_is_refused_unquoted(
    username: object, password: object, words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        credential_of(username, password)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__context__ is None


def test_nothing_shows_it() -> None:
    made = credential_of("alice", "s3cret")
    assert made is not None
    assert "s3cret" not in repr(made)
    assert "alice" not in repr(made)
