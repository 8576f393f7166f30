"""Ranges beside the plain set that they stand for."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from transports.soar.core.streams.ranges import RangeSet

places = st.integers(0, 12)  # few, so that ranges often touch
steps = st.lists(st.tuples(st.booleans(), places, places), max_size=25)


@given(steps, places, places)
def test_a_range_set_is_a_set(steps: list[tuple[bool, int, int]], low: int, high: int) -> None:
    ranges = RangeSet()
    model: set[int] = set()
    for adds, start, stop in steps:
        if adds:
            ranges.add(start, stop)
            model |= set(range(start, stop))
        else:
            ranges.remove(start, stop)
            model -= set(range(start, stop))
        listed = list(ranges)
        assert {i for a, b in listed for i in range(a, b)} == model
        assert all(a < b for a, b in listed)
        assert all(b < c for (_, b), (c, _) in pairwise(listed))
        assert ranges.size == len(model)
        assert len(ranges) == len(listed)
        assert bool(ranges) == bool(model)
        if model:
            assert ranges.first() == listed[0]
    assert all((i in ranges) == (i in model) for i in range(14))
    place = ranges.take(low)
    assert place == next(i for i in range(low, 14) if i not in model)
    model -= set(range(place))
    assert {i for a, b in ranges for i in range(a, b)} == model
    assert ranges.size == len(model)
    gaps = ranges.gaps(low, high)
    assert {i for a, b in gaps for i in range(a, b)} == set(range(low, high)) - model
    assert all(a < b for a, b in gaps)
