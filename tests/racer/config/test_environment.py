"""Values of the environment in texts, and out of errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.config._environment import Expander, hide


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("${A}", "one"),
        ("x${A}${B}y", "xone${A}y"),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("$A $ {A} }{", "$A $ {A} }{"),
        ("", ""),
    ],
)
def test_what_stands_for_what(text: str, expanded: str) -> None:
    complaints: list[object] = []
    expander = Expander({"A": "one", "B": "${A}"}, lambda *args: complaints.append(args))
    assert expander.expand({"k": [text, 5, None]}, ()) == {"k": [expanded, 5, None]}
    assert complaints == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password 'hunter2' is weak", "password '${PW}' is weak"),
        ("password 'hunt... is weak", "password '${PW}... is weak"),
        ("HUNTER2HUNTER2", "${PW}"),
        ("hunter2%2F", "${PW}%2F"),
        ("hun ter", "hun ter"),
        ("nothing", "nothing"),
        ("", ""),
    ],
)
def test_a_value_and_parts_of_it_are_hidden(text: str, shown: str) -> None:
    assert hide(text, {"PW": "hunter2"}) == shown


def test_a_short_value_is_hidden_as_a_whole() -> None:
    assert hide("pin 123, and 12", {"PIN": "123"}) == "pin ${PIN}, and 12"


def test_a_value_is_hidden_quoted_and_escaped_too() -> None:
    value = "a\"\\\n'b /ü"
    assert hide(f"not {value!r}", {"PW": value}) == "not '${PW}'"
    assert "%22" not in hide("not a%22%5C%0A%27b%20%2F%C3%BC", {"PW": value})


def test_words_that_are_no_secret_may_stand_although_a_value_has_them() -> None:
    secrets = {"URL": "socks5://bob:hunter2@proxy.example:1080"}
    text = "proxy: 'socks5://bob:hunter2' has a proxy.example that socks5 does not take"
    assert hide(text, secrets, ["proxy", "socks5"]) == (
        "proxy: '${URL}' has a ${URL} that socks5 does not take"
    )


def test_of_several_values_each_has_its_own_name() -> None:
    assert hide("alpha beta", {"A": "alpha", "B": "beta"}) == "${A} ${B}"


@given(
    st.text(min_size=4, max_size=30), st.text(max_size=30), st.text(max_size=30), st.integers(4, 30)
)
def test_no_four_characters_of_a_value_get_through(
    value: str, before: str, behind: str, size: int
) -> None:
    shown = hide(f"{before}{value[:size]}{behind}", {"\0": value})
    for at in range(len(value) - 3):
        # The mark's own characters aside, which a value may have too.
        assert value[at : at + 4] not in shown.replace("${\0}", "\0")
