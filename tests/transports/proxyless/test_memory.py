"""What is remembered, for whom, how long, and what nothing can erase."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from racer.errors import ConfigError
from transports.proxyless._memory import ADDRESS_TTL, MAX_WINNERS, Key, Memory, Winner

HOME = Key("home", "news.example", 443, True)
CAFE = replace(HOME, network="café")
ROW = {
    "network": "home",
    "host": "news.example",
    "port": 443,
    "tls": True,
    "resolver": "system",
    "strategy": "split:1",
    "is_fallback": False,
    "age": 1.0,
}
WON = Winner(resolver="system", strategy="split:1", found_at=10.0)


def memory(ttl: float = 100.0) -> Memory:
    made = Memory(ttl)
    made.learn(HOME, WON)
    return made


def test_a_winner_is_of_one_network_and_target() -> None:
    made = memory()
    assert made.recall(HOME, 20.0) == WON
    for other in (
        CAFE,
        replace(HOME, host="other.example"),
        replace(HOME, port=8443),
        replace(HOME, tls=False),
    ):
        assert made.recall(other, 20.0) is None


def test_a_winner_is_forgotten_when_its_time_is_over() -> None:
    made = memory()
    assert made.recall(HOME, 109.9) == WON
    assert made.recall(HOME, 110.0) is None
    assert len(made) == 0


def test_doubt_erases_nothing() -> None:
    made = memory()
    made.doubt(HOME)
    made.doubt(CAFE)
    assert made.recall(HOME, 20.0) == replace(WON, is_doubted=True)
    made.learn(HOME, replace(WON, found_at=30.0))
    assert made.recall(HOME, 120.0) == replace(WON, found_at=30.0)


def test_hints_are_the_targets_own_and_then_the_networks() -> None:
    made = memory()
    other = replace(HOME, host="other.example")
    for key, strategy in ((other, "tlsfrag:1"), (replace(HOME, host="third.example"), "split:9")):
        made.learn(key, replace(WON, strategy=strategy))
    made.learn(replace(HOME, host="plain.example", tls=False), WON)
    made.learn(CAFE, WON)
    assert [each.strategy for each in made.hints(HOME, 20.0)] == ["split:1", "split:9", "tlsfrag:1"]
    new = replace(HOME, host="new.example")
    assert next(each.strategy for each in made.hints(new, 20.0)) == "split:1"
    assert made.hints(new, 110.0) == []


def test_addresses_are_fresh_for_a_minute() -> None:
    made = memory()
    made.refresh(HOME, ("192.0.2.7",), 40.0)
    made.refresh(CAFE, ("192.0.2.7",), 40.0)
    found = made.recall(HOME, 50.0)
    assert found is not None
    assert found.fresh_addresses(40.0 + ADDRESS_TTL - 0.1) == ("192.0.2.7",)
    assert found.fresh_addresses(40.0 + ADDRESS_TTL) == ()
    assert found.fresh_addresses(39.0) == ()  # another clock's time


def test_the_oldest_winner_makes_room() -> None:
    made = Memory(100.0)
    keys = [replace(HOME, host=f"n{number}.example") for number in range(MAX_WINNERS + 1)]
    for key in keys[:-1]:
        made.learn(key, WON)
    made.recall(keys[0], 20.0)
    made.learn(keys[-1], WON)
    assert len(made) == MAX_WINNERS
    assert made.recall(keys[0], 20.0) == WON
    assert made.recall(keys[1], 20.0) is None


def test_winners_outlast_the_process() -> None:
    data = json.loads(json.dumps(memory().to_data(40.0)))
    later = Memory(100.0)
    later.take_data(data, 5.0, passed=50.0)  # another clock, 80 s after it was found
    found = later.recall(HOME, 5.0)
    assert found is not None
    assert (found.resolver, found.strategy, found.found_at) == ("system", "split:1", -75.0)
    assert found.fresh_addresses(5.0) == ()
    assert later.recall(HOME, 24.9) is not None
    assert later.recall(HOME, 25.0) is None


def test_what_is_too_old_or_known_already_is_not_taken() -> None:
    data = memory().to_data(40.0)
    late = Memory(100.0)
    late.take_data(data, 5.0, passed=70.0)
    assert len(late) == 0
    newer = Memory(100.0)
    newer.learn(HOME, replace(WON, strategy="tlsfrag:1"))
    newer.take_data(data, 20.0, passed=0.0)
    found = newer.recall(HOME, 20.0)
    assert found is not None
    assert found.strategy == "tlsfrag:1"


@pytest.mark.parametrize("data", [None, {}, ["x"], [{}], [{"network": 1}]])
def test_what_is_no_memory(data: object) -> None:
    with pytest.raises(ConfigError, match="no list of winners"):
        Memory(100.0).take_data(data, 0.0, passed=0.0)


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
)


@settings(max_examples=20)
@given(
    st.lists(
        st.fixed_dictionaries(
            dict.fromkeys(
                ("network", "host", "port", "tls", "resolver", "strategy", "is_fallback", "age"),
                _ANYTHING,
            )
        ),
        max_size=3,
    )
)
def test_anything_is_a_memory_or_a_named_error(data: object) -> None:
    made = Memory(100.0)
    try:
        made.take_data(data, 0.0, passed=0.0)
    except ConfigError:
        return
    json.dumps(made.to_data(0.0))
