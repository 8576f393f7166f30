"""The fronts that worked, as a file between two lives of a program."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transports.fronting._memory import from_json, to_json
from transports.fronting._pool import REMEMBERED_FOR, Remembered

KEYS = st.tuples(st.text(max_size=9), st.text(max_size=9), st.text(max_size=9))


@given(st.lists(st.builds(Remembered, KEYS, st.integers(0, 86_399).map(float)), max_size=5))
def test_round_trip(remembered: list[Remembered]) -> None:
    assert from_json(to_json(remembered, 1e9), 1e9) == remembered


def test_ages_go_on_and_end() -> None:
    data = to_json([Remembered(("a", "b", "c"), 100.0)], 1e9)
    (one,) = from_json(data, 1e9 + 50)
    assert one.age == 150
    assert from_json(data, 1e9 + REMEMBERED_FOR) == []
    assert from_json(data, 1e9 - 200) == []  # from the future


ENTRY = {"provider": "a", "domain": "b", "address": "c", "succeeded_at": 1e9}


@pytest.mark.parametrize(
    "entry",
    [
        None, 1, [], {}, {**ENTRY, "provider": None}, {**ENTRY, "address": 5}, {**ENTRY, "succeeded_at": "x"},
        {**ENTRY, "succeeded_at": True}, {**ENTRY, "succeeded_at": float("nan")},
    ],
)  # fmt: skip
def test_what_is_no_front_is_left_out(entry: object) -> None:
    data = json.dumps({"version": 1, "fronts": [entry, ENTRY]}).encode()
    assert [one.key for one in from_json(data, 1e9)] == [("a", "b", "c")]


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b'{"version": 2, "fronts": []}', b'{"version": 1}', b'{"version": 1, "fronts": {}}',
     b"\xff", b"[" * 100_000],
)  # fmt: skip
def test_what_is_no_such_file(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_json(data, 1e9)


@given(st.binary(max_size=80))
def test_garbage_is_one_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_json(data, 1e9)
