from __future__ import annotations

from racer.cli._ration import Ration


def test_a_few_lines_go_through_at_once_and_then_one_for_each_span() -> None:
    ration = Ration(burst=2, every=10)
    assert [ration.ask(0.0) for _ in range(5)] == [0, 0, None, None, None]
    assert ration.ask(9.0) is None
    assert ration.ask(10.0) == 4
    assert ration.ask(10.0) is None
    assert ration.ask(20.0) == 1


def test_quiet_time_saves_no_more_than_the_burst() -> None:
    ration = Ration(burst=2, every=10)
    assert ration.ask(0.0) == 0
    assert [ration.ask(1e9) for _ in range(4)] == [0, 0, None, None]


def test_a_storm_writes_a_bounded_number_of_lines() -> None:
    ration = Ration(burst=10, every=1)
    lines = sum(ration.ask(step / 1000) is not None for step in range(60_000))
    assert 10 + 58 <= lines <= 10 + 60
