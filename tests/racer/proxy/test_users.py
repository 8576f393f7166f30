from __future__ import annotations

from typing import Any

import pytest

from racer.errors import ConfigError
from racer.proxy._users import Users


def test_nobody_is_wanted_without_accounts() -> None:
    assert not Users(None).are_wanted
    assert not Users(None).let_in(b"", b"")


@pytest.mark.parametrize(
    ("accounts", "words"),
    [
        ({}, "0 accounts"),
        ({"a:b": "secret"}, "without a colon"),
        ({"": "secret"}, "no name"),
        ({"a" * 256: "secret"}, "no name"),
        ({"a\n": "secret"}, "no name"),
        ({"a": ""}, "has 0 octets"),
        ({"a": "secret" * 50}, "has 300 octets"),
        ({"a": 1}, "must be text"),
        (["a"], "must be a mapping"),
        ({str(n): "secret" for n in range(1001)}, "1001 accounts"),
    ],
)
def test_an_account_that_cannot_be_is_refused_without_its_password(
    accounts: Any, words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        Users(accounts)
    assert "secret" not in str(caught.value)
