"""Names choose who may take part; what no entrant is called is told with what was meant."""

from __future__ import annotations

from typing import Any

import pytest

from racer._choice import choose, no_such_entrant
from racer.errors import ConfigError

EVERY = ("direct", "proxyless", "soar")


@pytest.mark.parametrize(
    ("only", "exclude", "chosen"),
    [
        (None, (), EVERY),
        ("soar", (), ("soar",)),
        (["soar", "direct", "soar"], (), ("direct", "soar")),
        (None, "soar", ("direct", "proxyless")),
        (None, ["soar", "soar"], ("direct", "proxyless")),
        (["soar", "direct"], ("soar",), ("direct",)),
        (iter(["soar"]), iter(["direct"]), ("soar",)),
        (None, ["was-here"], EVERY),
        (None, dict.fromkeys(EVERY, "of no use here"), ()),
    ],
)
def test_who_is_left(only: Any, exclude: Any, chosen: tuple[str, ...]) -> None:
    assert choose(EVERY, only, exclude, gone=["was-here"]) == frozenset(chosen)


@pytest.mark.parametrize(
    ("only", "exclude", "words"),
    [
        ((), (), "only and exclude leave none of 'direct', 'proxyless', 'soar'"),
        ("soar", "soar", "only and exclude leave none of"),
        (None, EVERY, "only and exclude leave none of"),
        ("sore", (), "no entrant is called 'sore'; did you mean 'soar'?"),
        (["direct", "x"], (), "'x'; there are 'direct', 'proxyless', 'soar'"),
        ("was-here", (), "no entrant is called 'was-here'"),
        (None, ["x"], "no entrant is called 'x'"),
        (None, [["direct"]], r"no entrant is called \['direct'\]"),
        (7, (), "only takes an entrant's name or several, not int"),
        (None, b"soar", "exclude takes an entrant's name or several, not bytes"),
    ],
)
def test_what_cannot_be_chosen(only: Any, exclude: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        choose(EVERY, only, exclude, gone=["was-here"])


def test_an_error_is_no_longer_than_anybody_reads() -> None:
    every = [f"entrant-{number}" for number in range(1000)]
    words = str(no_such_entrant("x" * 5000, every))
    assert len(words) < 400
    assert words.endswith("'entrant-9' and 990 more")
    assert str(no_such_entrant("entrant-1000", every)).endswith("did you mean 'entrant-100'?")
