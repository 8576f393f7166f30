"""Verdicts name a peer; whose winner they are about is found by it."""

from __future__ import annotations

from dataclasses import replace

from transports.proxyless._flights import MAX_FLIGHTS, Flights
from transports.proxyless._memory import Key

KEY = Key("home", "news.example", 443, True)
OTHER = replace(KEY, host="other.example")
PEER = "192.0.2.7:443"


def test_a_crash_is_about_all_who_went_there() -> None:
    flights = Flights()
    flights.add(PEER, KEY)
    flights.add(PEER, OTHER)
    flights.add("192.0.2.8:443", replace(KEY, host="third.example"))
    assert flights.crash(PEER) == {KEY, OTHER}
    assert flights.crash(PEER) == set()
    assert len(flights.crash("192.0.2.8:443")) == 1


def test_who_has_landed_is_not_blamed() -> None:
    flights = Flights()
    flights.add(PEER, KEY)
    flights.land(PEER)
    flights.land(PEER)
    assert flights.crash(PEER) == set()


def test_losers_are_forgotten_in_the_end() -> None:
    flights = Flights()
    flights.add(PEER, KEY)
    for number in range(MAX_FLIGHTS):
        flights.add(f"peer {number}", KEY)
    assert flights.crash(PEER) == set()
