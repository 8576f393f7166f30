"""When which pieces of a first message go out (SPEC 7.3, 7.5)."""

from __future__ import annotations

import pytest

from transports.soar.core.client.flight import FIRST_TIMEOUT_S, Flight
from transports.soar.core.dns.answers import Form


def waves(flight: Flight, count: int, timeout: float = FIRST_TIMEOUT_S) -> list[tuple[float, str]]:
    told = []
    for _ in range(count):
        at = flight.next_at
        wave = flight.take(at, timeout)
        names = "+".join(form.name for form in wave.forms)
        told.append((round(at, 3), f"{names}{' long' if wave.is_long else ''}"))
    return told


def test_forms_are_tried_one_after_the_other_and_then_one_long_name_at_a_time() -> None:
    assert waves(Flight(10.0), 9) == [
        (10.0, "DS"),
        (10.4, "DS+TXT"),
        (10.8, "SOA"),
        (11.2, "TXT long"),
        (11.7, "DS long"),
        (12.2, "DS"),
        (13.7, "SOA long"),
        (14.2, "TXT"),
        (15.7, "TXT long"),
    ]


def test_a_known_path_is_asked_again_after_its_own_timeout() -> None:
    assert [at for at, _ in waves(Flight(0.0), 4, timeout=0.11)] == [0.0, 0.11, 0.22, 0.33]


def test_after_1_2_seconds_it_asks_at_most_two_questions_a_second() -> None:
    flight = Flight(0.0)
    questions = []
    while flight.next_at < 30.0:
        at = flight.next_at
        wave = flight.take(at, FIRST_TIMEOUT_S)
        questions += [at] * (1 if wave.is_long else 3 * len(wave.forms))
    for begin in range(2, 28):
        assert sum(begin <= at < begin + 4 for at in questions) <= 2 * 4 + 2


def test_an_open_failure_brings_the_next_wave_forward_once_for_each() -> None:
    flight = Flight(0.0)
    flight.take(0.0, 0.4)
    assert flight.hurry(0.07)
    assert flight.next_at == 0.07
    assert not flight.hurry(0.07)
    wave = flight.take(0.07, 0.4)
    assert wave.forms == (Form.DS, Form.TXT)


def test_a_forger_brings_forward_three_waves_not_more() -> None:
    flight = Flight(0.0)
    now = 0.0
    hurried = 0
    for _ in range(20):
        flight.take(now, 0.4)
        hurried += flight.hurry(now + 0.01)
        now = flight.next_at
    assert hurried == 3


@pytest.mark.parametrize("late", [0.0, 0.1])
def test_a_wave_that_is_due_is_not_hurried(late: float) -> None:
    flight = Flight(0.0)
    flight.take(0.0, 0.4)
    assert not flight.hurry(0.4 + late)
