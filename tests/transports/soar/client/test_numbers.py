"""Packet numbers, FLOOR and LOST (SPEC 8.3, 9.2, 9.3)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from transports.soar.core.client.numbers import MOST_OUTSTANDING, PacketNumbers
from transports.soar.core.streams.frames import LostMap, decode


def taken(count: int) -> PacketNumbers:
    numbers = PacketNumbers()
    assert [numbers.take() for _ in range(count)] == list(range(count))
    return numbers


def test_the_floor_follows_what_is_settled_in_any_order() -> None:
    numbers = taken(5)
    floors = []
    for number in (1, 0, 3, 2, 4):
        numbers.settle(number)
        floors.append(numbers.floor)
    assert floors == [0, 2, 2, 4, 5]


def test_a_loss_is_said_in_two_packets_and_settled_by_either() -> None:
    numbers = taken(3)
    numbers.lost(1)
    assert numbers.to_report
    first = numbers.reports(numbers.take(), 14)
    second = numbers.reports(numbers.take(), 14)
    assert first == second == (1,)
    assert numbers.reports(numbers.take(), 14) == ()
    assert not numbers.to_report
    numbers.settle(0)
    numbers.told(0, second)
    assert numbers.floor == 2


def test_what_a_lost_packet_said_is_said_again() -> None:
    numbers = taken(3)
    numbers.lost(0)
    said = numbers.reports(numbers.take(), 14)
    numbers.reports(numbers.take(), 14)
    numbers.untold(said)
    assert numbers.reports(numbers.take(), 14) == (0,)


def test_a_late_answer_makes_the_report_needless() -> None:
    numbers = taken(3)
    numbers.lost(0)
    numbers.settle(0)
    assert numbers.reports(numbers.take(), 14) == ()
    numbers.untold((0,))
    assert not numbers.to_report


def test_a_report_fits_its_packet() -> None:
    numbers = taken(200)
    for number in range(10):
        numbers.lost(number)
    # Type, count, and two octets each; the next ones a little later.
    assert numbers.reports(200, 14) == (0, 1, 2, 3, 4, 5)
    assert numbers.reports(201, 14) == (6, 7, 8, 9, 0, 1)
    assert numbers.reports(202, 3) == ()
    assert numbers.reports(203, 4) == (2,)


def test_what_holds_the_floor_down_is_said_first_and_nothing_waits_twice() -> None:
    """Lost again and again, reports would else fill the queue, and the one that matters would wait behind them all."""
    numbers = taken(300)
    for number in (250, 7, 90, 3, 130, 4, 200, 150):
        numbers.lost(number)
    said = numbers.reports(300, 14)
    assert said == (3, 4, 7, 90, 130, 150)
    for _ in range(5):
        numbers.untold(said)
    assert sorted(numbers.to_report) == [3, 4, 7, 90, 130, 150, 200, 250]
    assert numbers.reports(301, 14) == said


def test_many_losses_are_said_as_bits_from_the_lowest_on() -> None:
    numbers = taken(2_000)
    lost = {5, 6, 12, 60, *range(100, 700, 2)}
    for number in lost:
        numbers.lost(number)
    numbers.settle(6)
    out = bytearray()
    floor, said = numbers.tell(out, 2_000, 14, is_poll=True)
    assert floor == -1
    (frame,) = decode(bytes(out), from_client=True)
    assert isinstance(frame, LostMap)
    assert len(out) <= 14
    assert set(said) == {each for each in lost - {6} if each < 5 + 80}
    bits = {
        2_000 - frame.delta + place
        for place in range(8 * len(frame.bits))
        if frame.bits[place >> 3] & 0x80 >> (place & 7)
    }
    assert bits == set(said)
    # With more room at most 504 numbers; and what they say is said again if it is lost.
    out = bytearray()
    _, more = numbers.tell(out, 2_001, 200, is_poll=False)
    assert set(more) == {each for each in lost if 100 <= each < 100 + 504}
    numbers.untold(said)
    assert numbers.to_report[0] == 5


def test_bits_of_numbers_that_are_settled_are_not_said() -> None:
    numbers = taken(100)
    for number in range(50):
        numbers.lost(number)
        numbers.settle(number)
    numbers.told_at = 99
    out = bytearray()
    assert numbers.tell(out, 100, 14, is_poll=False) == (-1, ())
    assert not out
    assert not numbers.to_report
    for number in range(50, 90):
        numbers.lost(number)
    assert numbers.tell(out, 100, 11, is_poll=False) == (-1, ())
    assert not out, "there was no room"


def test_a_report_has_at_most_32_entries() -> None:
    numbers = taken(60)
    for number in range(50):
        numbers.lost(number)
    assert len(numbers.reports(60, 1000)) == 32


def test_far_above_the_confirmed_floor_only_polls_go_out_and_then_nothing() -> None:
    numbers = taken(MOST_OUTSTANDING - 4097)
    assert not numbers.is_full
    numbers.take()
    assert numbers.is_full
    assert not numbers.is_exhausted
    for _ in range(4096):
        numbers.take()
    assert numbers.is_exhausted
    numbers.told(5000, ())
    assert not numbers.is_full


@settings(max_examples=80)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40)), max_size=150))
def test_the_floor_never_passes_what_the_server_may_still_need(
    steps: list[tuple[int, int]],
) -> None:
    """Everything below the floor was answered, or was named in an answered packet (SPEC 9.2)."""
    numbers = PacketNumbers()
    answered: set[int] = set()
    told: set[int] = set()
    carried: dict[int, tuple[int, ...]] = {}
    for what, back in steps:
        number = max(0, numbers.next - 1 - back)
        if what <= 2 or not numbers.next:
            carrier = numbers.next
            reports = numbers.reports(carrier, 14)
            assert numbers.take() == carrier
            carried[carrier] = reports
            assert len(set(reports)) == len(reports)
            assert all(each < carrier for each in reports)
        elif what == 3 and number not in answered:
            numbers.lost(number)
            numbers.untold(carried[number])
        else:
            answered.add(number)
            told.update(carried[number])
            numbers.settle(number)
            numbers.told(0, carried[number])
        assert all(each in answered or each in told for each in range(numbers.floor))
        assert numbers.floor == numbers.next or numbers.floor not in answered | told


def test_all_that_nobody_watches_over_is_reported() -> None:
    numbers = taken(6)
    numbers.settle(2)
    numbers.lose_all_but({4, 5})
    assert numbers.reports(6, 14) == (0, 1, 3)
