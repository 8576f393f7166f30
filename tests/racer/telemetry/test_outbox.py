"""Spans that wait: in order, bounded, and each accounted for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from racer.telemetry._outbox import Outbox


def test_items_leave_in_batches_in_their_order() -> None:
    outbox = Outbox[int](capacity=10, batch=3)
    assert [outbox.put(number) for number in range(5)] == [False, False, True, True, True]
    assert [outbox.take(), outbox.take(), outbox.take()] == [[0, 1, 2], [3, 4], []]


def test_the_oldest_gives_way_to_the_newest() -> None:
    outbox = Outbox[int](capacity=3, batch=3)
    for number in range(5):
        outbox.put(number)
    assert (outbox.waiting, outbox.overflowed, outbox.lost) == (3, 2, 0)
    assert outbox.take() == [2, 3, 4]


def test_what_a_child_forgets_is_not_lost() -> None:
    outbox = Outbox[int](capacity=3, batch=2)
    outbox.put(1)
    assert outbox.clear() == 1
    assert (outbox.waiting, outbox.overflowed, outbox.lost) == (0, 0, 0)


@given(
    capacity=st.integers(1, 5),
    batch=st.integers(1, 5),
    steps=st.lists(st.sampled_from(["put", "taken", "lost"]), max_size=60),
)
def test_every_item_is_somewhere(capacity: int, batch: int, steps: list[str]) -> None:
    outbox = Outbox[int](capacity=capacity, batch=min(batch, capacity))
    added = 0
    for step in steps:
        if step == "put":
            outbox.put(added)
            added += 1
        else:
            outbox.settle(len(outbox.take()), taken=step == "taken")
        assert outbox.waiting <= capacity
        assert outbox.waiting + outbox.exported + outbox.lost + outbox.overflowed == added
