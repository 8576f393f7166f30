from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from transports.soar.core.server.records import MAX_OUTSTANDING, MAX_SEALED, Records, RecordState


def test_a_number_is_admitted_from_the_floor_to_8191_above_it() -> None:
    records = Records()
    assert records.admits(0)
    assert records.admits(8191)
    assert not records.admits(8192)
    records.raise_floor(100)
    assert not records.admits(99)
    assert records.admits(100)
    assert records.admits(100 + MAX_OUTSTANDING - 1)
    assert not records.admits(100 + MAX_OUTSTANDING)


def test_the_floor_frees_what_is_below_it_and_never_falls() -> None:
    records = Records()
    for number in (3, 1, 5):
        records.add(number, 0.0)
    records.seal(3, records.get(3) or records.add(3, 0.0), bytes(100), [], keep=MAX_SEALED)
    assert (records.highest, records.sealed_octets) == (5, 100)
    freed = records.raise_floor(4)
    assert [number for number, _ in freed] == [1, 3]
    assert (records.floor, records.sealed_octets, len(records)) == (4, 0, 1)
    assert records.raise_floor(2) == []
    assert records.floor == 4


def test_a_jump_over_numbers_that_never_came_costs_only_what_is_there() -> None:
    records = Records()
    records.add(8000, 0.0)
    records.add(10, 0.0)
    records.bury(4000, 0.0)
    assert [number for number, _ in records.raise_floor(1 << 40)] == [10, 4000, 8000]
    assert len(records) == 0


def test_a_buried_number_is_dead() -> None:
    records = Records()
    records.bury(4, 1.0)
    record = records.get(4)
    assert record is not None
    assert record.state is RecordState.DEAD
    assert records.highest == -1  # it wasn't seen


def test_of_sealed_answers_the_youngest_are_kept() -> None:
    records = Records()
    for number in range(10):
        records.seal(number, records.add(number, 0.0), bytes(100), [], keep=350)
    kept = [number for number in range(10) if (found := records.get(number)) and found.sealed]
    assert kept == [7, 8, 9]
    assert records.sealed_octets == 300
    states = {found.state for number in range(10) if (found := records.get(number))}
    assert states == {RecordState.ANSWERED}


def test_answers_can_be_dropped_without_forgetting_that_they_were_given() -> None:
    records = Records()
    for number in range(3):
        records.seal(number, records.add(number, 0.0), bytes(100), [], keep=MAX_SEALED)
    records.drop_sealed()
    assert (records.sealed_octets, len(records)) == (0, 3)
    record = records.get(1)
    assert record is not None
    assert (record.sealed, record.state) == (None, RecordState.ANSWERED)
    records.seal(3, records.add(3, 0.0), bytes(100), [], keep=MAX_SEALED)
    assert records.sealed_octets == 100


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "seal", "floor", "bury"]), st.integers(0, 60)),
        max_size=80,
    ),
    st.integers(0, 1000),
)
def test_what_is_kept_is_what_is_counted(steps: list[tuple[str, int]], keep: int) -> None:
    records = Records()
    for step, number in steps:
        known = records.get(number)
        if step == "floor":
            records.raise_floor(number)
        elif not records.admits(number):
            continue
        elif step == "add" and known is None:
            records.add(number, 0.0)
        elif step == "bury" and known is None:
            records.bury(number, 0.0)
        elif step == "seal" and known is not None and known.state is RecordState.WAITING:
            records.seal(number, known, bytes(number), [], keep=keep)
        left = [found for n in range(61) if (found := records.get(n)) is not None]
        assert sum(len(found.sealed or b"") for found in left) == records.sealed_octets <= keep
        assert len(left) == len(records)
        assert all(records.get(n) is None for n in range(records.floor))
