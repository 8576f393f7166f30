from __future__ import annotations

from transports.soar.core.instants import Instant
from transports.soar.core.server.tombstones import (
    MAX_TOMBSTONES,
    TOMBSTONE_LIFE,
    Tombstone,
    Tombstones,
)


def at(elapsed: float) -> Instant:
    return Instant(elapsed, elapsed - 5.0, 0.0)


def sid(number: int) -> bytes:
    return number.to_bytes(4)


def test_an_end_is_remembered_for_ten_minutes() -> None:
    stones = Tombstones(began=0.0)
    stones.add(sid(1), 5, 7, at(100.0))
    assert stones.get(sid(1), at(699.9)) == Tombstone(5, 7, 100.0)
    assert stones.get(sid(1), at(700.0)) is None
    assert stones.get(sid(2), at(100.0)) is None


def test_old_ones_make_room_by_themselves() -> None:
    stones = Tombstones(began=0.0, capacity=2)
    stones.add(sid(1), 3, None, at(0.0))
    stones.add(sid(2), 3, None, at(1.0))
    stones.add(sid(3), 3, None, at(TOMBSTONE_LIFE + 0.5))
    assert len(stones) == 2
    assert stones.memory(at(TOMBSTONE_LIFE + 0.5)) == TOMBSTONE_LIFE


def test_memory_reaches_back_to_the_start() -> None:
    stones = Tombstones(began=50.0)
    assert stones.memory(at(50.0)) == 0.0
    assert stones.memory(at(80.0)) == 30.0
    assert stones.memory(at(10_000.0)) == TOMBSTONE_LIFE


def test_one_that_is_dropped_for_want_of_room_shortens_the_memory() -> None:
    stones = Tombstones(began=0.0, capacity=3)
    for number in range(3):
        stones.add(sid(number), 2, None, at(200.0 + number))
    assert stones.memory(at(210.0)) == 210.0
    stones.add(sid(3), 2, None, at(210.0))
    assert stones.get(sid(0), at(210.0)) is None
    assert stones.memory(at(210.0)) == 10.0
    stones.add(sid(4), 2, None, at(211.0))
    # The youngest of those dropped counts: session 1 ended at 201.
    assert stones.memory(at(212.0)) == 11.0
    assert stones.memory(at(301.0)) == 100.0


def test_there_are_never_more_than_65536() -> None:
    stones = Tombstones(began=0.0)
    for number in range(MAX_TOMBSTONES + 1000):
        stones.add(sid(number), 7, 0, at(number / 1000))
    assert len(stones) == MAX_TOMBSTONES
    assert stones.get(sid(999), at(66.536)) is None
    assert stones.get(sid(1000), at(66.536)) is not None
