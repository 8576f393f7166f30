"""The thread that exports: what makes it export, what a flush waits for, and that its end has a bound."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from racer.telemetry._courier import Courier

if TYPE_CHECKING:
    from collections.abc import Iterator

FOREVER = 1e6  # seconds; nothing here waits until it is time


class Fake:
    """A line that keeps what it is asked for, and hangs while its gate is closed."""

    def __init__(self, *, every: float = FOREVER, works: bool = True) -> None:
        self.every = every
        self.works = works
        self.is_full = False
        self.asked: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.sending = threading.Event()
        self.sent = threading.Semaphore(0)

    def full(self) -> bool:
        return self.is_full

    def send(self, *, all_of_it: bool) -> bool:
        self.is_full = False
        self.sending.set()
        self.gate.wait(30)
        self.asked.append("all" if all_of_it else "due")
        self.sent.release()
        return self.works

    def end(self) -> None:
        self.asked.append("end")

    def abandon(self) -> None:
        self.asked.append("abandon")
        self.gate.set()

    def forked(self) -> None:
        self.asked.append("forked")


@pytest.fixture
def line() -> Fake:
    return Fake()


@pytest.fixture
def courier(line: Fake) -> Iterator[Courier]:
    made = Courier([line])
    made.start()
    yield made
    made.end(30)


def test_a_flush_waits_until_all_is_exported(courier: Courier, line: Fake) -> None:
    assert courier.flush(30)
    assert line.asked == ["all"]


def test_a_flush_says_that_an_export_failed(courier: Courier, line: Fake) -> None:
    line.works = False
    assert not courier.flush(30)
    line.works = True
    assert courier.flush(30)


def test_one_line_that_fails_keeps_no_other_from_its_turn() -> None:
    failing, other = Fake(works=False), Fake()
    courier = Courier([failing, other])
    courier.start()
    assert not courier.flush(30)
    assert other.asked == ["all"]
    courier.end(30)


def test_a_full_line_is_exported_before_its_time(courier: Courier, line: Fake) -> None:
    line.is_full = True
    courier.wake()
    assert line.sent.acquire(timeout=30)
    assert line.asked == ["due"]


def test_woken_for_one_line_it_leaves_the_other_until_its_time() -> None:
    full, other = Fake(), Fake()
    courier = Courier([other, full])
    courier.start()
    full.is_full = True
    courier.wake()
    assert full.sent.acquire(timeout=30)
    assert other.asked == []
    courier.end(30)


def test_each_line_has_its_time() -> None:
    """The clock leaps ten seconds at every look: the waits are what the clock says, not what is left of them."""
    now = [0.0]

    def clock() -> float:
        now[0] += 10
        return now[0]

    often, never = Fake(every=5), Fake()
    courier = Courier([often, never], clock=clock)
    courier.start()
    for _ in range(3):
        assert often.sent.acquire(timeout=30)
    assert never.asked == []
    courier.end(30)


def test_the_end_exports_what_is_left_and_closes(courier: Courier, line: Fake) -> None:
    assert courier.end(30)
    assert line.asked == ["all", "end"]
    assert courier.is_idle
    assert courier.end(30)  # once more is no harm
    assert not courier.flush(30)
    courier.start()  # nor is this
    assert line.asked == ["all", "end"]


def test_a_hanging_export_holds_up_neither_flush_nor_end(courier: Courier, line: Fake) -> None:
    line.gate.clear()
    assert not courier.flush(0)
    assert line.sending.wait(30)
    assert not courier.end(0)
    assert line.asked[0] == "abandon"  # lets it go
    assert line.sent.acquire(timeout=30)


def test_without_a_thread_there_is_nothing_to_wait_for(line: Fake) -> None:
    courier = Courier([line])
    assert courier.flush(0)
    assert courier.end(0)
    assert courier.is_idle
    assert line.asked == []
