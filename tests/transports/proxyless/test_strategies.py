"""Strategies as text: what is understood, how it is written back, and what is refused with which words."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from racer.errors import ConfigError
from transports.proxyless._strategies import DIRECT, Override, parse_strategy


@pytest.mark.parametrize(
    ("text", "shortest"),
    [
        ("", ""),
        ("  ", ""),
        ("split:1", "split:1"),
        ("split:2,20*5", "split:2,20*5"),
        ("split:1*2,20*5", "split:2,20*5"),
        (" split:2 | tlsfrag:1 ", "split:2|tlsfrag:1"),
        ("tlsfrag:-5", "tlsfrag:-5"),
        ("split:sni|tlsfrag:sni", "split:sni|tlsfrag:sni"),
        ("split:200|disorder:1", "disorder:1|split:200"),
        ("disorder:1|split:200", "disorder:1|split:200"),
        ("override:host=cdn.example&port=8443", "override:host=cdn.example&port=8443"),
        ("override:port=8443|split:1", "split:1|override:port=8443"),
        ("override:?host=CDN.example", "override:host=cdn.example"),
    ],
)
def test_what_is_understood_is_written_back(text: str, shortest: str) -> None:
    strategy = parse_strategy(text)
    assert strategy.text == shortest
    assert parse_strategy(shortest) == strategy


def test_no_trick_at_all() -> None:
    assert parse_strategy("") == DIRECT
    assert DIRECT.begin() is None
    assert str(DIRECT) == "direct"


def test_an_override() -> None:
    found = parse_strategy("override:host=2001:db8::1&port=8443").override
    assert found == Override(host="2001:db8::1", port=8443)
    assert parse_strategy("override:port=8443").override == Override(port=8443)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (7, "must be a text, not int"),
        ("x" * 600, "longer than 512"),
        ("splitt:1", "unknown key 'splitt'.*did you mean 'split'|split"),
        ("|".join(["split:1"] * 9), "9 parts in a pipe"),
        ("split", "'split': the setting is missing"),
        ("split:", "the setting is missing"),
        ("split:0", "a piece of nothing"),
        ("split:0*5", "a piece of nothing"),
        ("split:-1", "takes 'sni', or lengths"),
        ("split:1,", "takes 'sni', or lengths"),
        ("split:2*3*4", "takes 'sni', or lengths"),
        ("split:300*1", "more than 256 pieces"),
        ("split:99999", "no first flight is that long"),
        ("tlsfrag:0", "a record cut at 0 is not cut"),
        ("tlsfrag:one", "takes a whole number from -16384 to 16384"),
        ("tlsfrag:99999", "takes a whole number"),
        ("disorder:-1", "takes a whole number from 0 to 255"),
        ("disorder:256", "takes a whole number from 0 to 255"),
        ("disorder:0|disorder:1", "disorder more than once"),
        ("override:port=1|override:port=2", "override more than once"),
        ("override:port=0", "takes a whole number from 1 to 65535"),
        ("override:hots=a", "did you mean 'host'|unknown key 'hots'"),
        ("override:a", "takes host=… and port=…"),
        ("override:port=1&port=2", "a key twice"),
        ("override:host=a b", "cannot be in a host name"),
        ("tlsfrag:1|split:2", "write 'tlsfrag:1' to the right of 'split:2'"),
        ("split:1|tlsfrag:1|split:2", "tlsfrag joins what split has cut"),
        ("ss://secret@192.0.2.1:8388", "'ss' is not supported here"),
        ("split:1|socks5://me:secret@192.0.2.1", "'socks5' is not supported here"),
        ("tls:sni=a", "'tls' is not supported here"),
        ("||", "a part of the pipe is no trick"),
        ("se cret:1", "a part of the pipe is no trick"),
    ],
)
def test_what_is_refused(text: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        parse_strategy(text, option="tls[3]")
    assert str(caught.value).startswith("tls[3]: ")
    assert "secret" not in str(caught.value)


@settings(max_examples=50)
@given(st.text(max_size=60))
def test_any_text_is_a_strategy_or_a_named_error(text: str) -> None:
    try:
        strategy = parse_strategy(text)
    except ConfigError:
        return
    assert parse_strategy(strategy.text) == strategy


@settings(max_examples=50)
@given(
    st.lists(
        st.sampled_from(
            [
                "split:1",
                "tlsfrag:sni",
                "disorder:0",
                "override:port=1",
                "|",
                ",",
                "*",
                ":",
                "9",
                "sni",
            ]
        )
    )
)
def test_any_mixture_is_a_strategy_or_a_named_error(parts: list[str]) -> None:
    try:
        strategy = parse_strategy("".join(parts))
    except ConfigError:
        return
    assert parse_strategy(strategy.text) == strategy
