from __future__ import annotations

from transports.soar.core.instants import Instant
from transports.soar.core.server.deadlines import Deadlines


def at(awake: float) -> Instant:
    return Instant(awake, awake, awake)


def test_alarms_ring_in_order_of_time_and_then_of_setting() -> None:
    deadlines = Deadlines()
    rung: list[str] = []
    for when, name in ((2.0, "c"), (1.0, "a"), (2.0, "d"), (1.5, "b"), (9.0, "never")):
        deadlines.set(when, lambda _now, name=name: rung.append(name))  # type: ignore[misc]
    assert deadlines.next() == 1.0
    deadlines.ring(at(2.0))
    assert rung == ["a", "b", "c", "d"]
    assert deadlines.next() == 9.0


def test_what_is_cancelled_does_not_ring_and_is_not_waited_for() -> None:
    deadlines = Deadlines()
    rung: list[Instant] = []
    first = deadlines.set(1.0, rung.append)
    deadlines.set(2.0, rung.append)
    assert first.is_set
    deadlines.cancel(first)
    deadlines.cancel(first)
    assert not first.is_set
    assert deadlines.next() == 2.0
    assert len(deadlines) == 1
    deadlines.ring(at(5.0))
    assert rung == [at(5.0)]
    assert deadlines.next() is None
    deadlines.cancel(first)
    assert len(deadlines) == 0


def test_an_alarm_may_set_and_cancel_others_while_it_rings() -> None:
    deadlines = Deadlines()
    rung: list[str] = []
    doomed = deadlines.set(2.0, lambda _now: rung.append("doomed"))

    def ring(now: Instant) -> None:
        rung.append("first")
        deadlines.cancel(doomed)
        deadlines.set(now.awake, lambda _now: rung.append("at once"))
        deadlines.set(now.awake + 1, lambda _now: rung.append("later"))

    deadlines.set(1.0, ring)
    deadlines.ring(at(2.0))
    assert rung == ["first", "at once"]
    assert deadlines.next() == 3.0


def test_cancelled_alarms_are_tidied_away() -> None:
    deadlines = Deadlines()
    for _ in range(10_000):
        deadlines.cancel(deadlines.set(1_000.0, print))
    assert len(deadlines) == 0
    assert len(deadlines._heap) < 100
