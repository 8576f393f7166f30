from __future__ import annotations

import pytest

from tests.transports.soar.server.scripted import RESOLVER, ZONE
from transports.soar.core.crypto import Info
from transports.soar.core.dns.answers import Form
from transports.soar.core.dns.questions import Copy
from transports.soar.core.instants import Instant
from transports.soar.core.server.parking import Park, Parking
from transports.soar.core.server.question import Question


def at(awake: float) -> Instant:
    return Instant(0.0, awake, 0.0)


def question(number: int = 0, *, tcp: bool = False) -> Question:
    return Question(Copy(number, 0x0100), ZONE, RESOLVER._replace(tcp=tcp), Form.DS, 1, 0.0)


def park(number: int, since: float = 0.0, *, path: int = 0) -> Park:
    return Park(number, question(), Info(path, 0, True), since)


def test_a_park_ends_after_600_ms() -> None:
    parking = Parking()
    parking.add(one := park(0, 3.0), at(3.0))
    assert one.until == 3.6
    assert parking.parks.get(0) is parking.oldest() is one
    assert len(parking) == 1


def test_two_wait_for_each_path_and_the_oldest_gives_way() -> None:
    parking = Parking()
    parks = [park(number) for number in range(3)]
    other = park(9, path=1)
    assert parking.add(parks[0], at(0)) is None
    assert parking.add(other, at(0)) is None
    assert parking.add(parks[1], at(0)) is None
    assert parking.add(parks[2], at(0)) is parks[0]
    assert parking.parks.get(0) is None
    assert parking.oldest() is other
    parking.remove(other)
    assert parking.oldest() is parks[1]
    parking.remove(parks[1])
    assert parking.add(park(4), at(0)) is None


def test_the_newest_copy_counts_and_the_fourth_ends_the_park() -> None:
    parking = Parking()
    parking.add(one := park(0), at(0))
    for number in (1, 2):
        assert not parking.repeat(one, question(number), at(0.1 * number))
        assert one.question.copy.id == number
    assert parking.repeat(one, question(3), at(0.3))
    assert one.question.copy.id == 3


def test_a_copy_by_tcp_ends_the_park() -> None:
    parking = Parking()
    parking.add(one := park(0), at(0))
    assert parking.repeat(one, question(1, tcp=True), at(0.1))


def test_on_a_path_with_traffic_and_repeats_a_park_ends_after_250_ms() -> None:
    parking = Parking()
    parking.note_traffic(0, at(9.5))
    parking.add(one := park(0, 10.0), at(10.0))
    assert one.until == 10.6  # traffic alone is no reason
    assert not parking.repeat(one, question(1), at(10.1))
    assert one.until == 10.25
    parking.add(two := park(1, 10.2), at(10.2))
    assert two.until == pytest.approx(10.45)
    parking.add(elsewhere := park(2, 10.2, path=1), at(10.2))
    assert elsewhere.until == pytest.approx(10.8)
    parking.remove(one)
    parking.add(later := park(3, 11.2), at(11.2))
    assert later.until == pytest.approx(11.8)


def test_a_repeat_after_the_shorter_time_ends_the_park_at_once() -> None:
    parking = Parking()
    parking.add(one := park(0), at(0))
    parking.note_traffic(0, at(0.3))
    assert parking.repeat(one, question(1), at(0.3))


def test_repeats_alone_do_not_shorten_a_park() -> None:
    parking = Parking()
    parking.add(one := park(0), at(0))
    assert not parking.repeat(one, question(1), at(0.3))
    assert one.until == 0.6
