"""Floods: what they cost is bounded, and whoever is honest gets through (design rule S27; SPEC 18.3, 18.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.transports.soar.server.scripted import ZONE, Desk, Dice, Script
from transports.soar.core.crypto import Status, Terms
from transports.soar.core.crypto.headers import Kind, mask_header, pack_header
from transports.soar.core.dns.answers import Form
from transports.soar.core.server.early import MAX_OCTETS
from transports.soar.core.server.pieces import MAX_PARTIALS
from transports.soar.core.server.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

PUBLIC = Source(bytes([198, 51, 100, 1]), 53)  # a resolver that serves honest people and others


def one_prefix(number: int) -> Source:
    return PUBLIC._replace(port=1024 + number)


def many_prefixes(number: int) -> Source:
    return Source(bytes([10, number >> 8, number & 255, 1]), 53)


@pytest.mark.parametrize("source", [one_prefix, many_prefixes])
def test_a_flood_of_first_messages_fills_a_quarter_and_lets_the_honest_in(
    source: Callable[[int], Source],
) -> None:
    desk = Desk(max_sessions=80)
    regular = Script(desk, seed="regular")
    regular.shake(PUBLIC)
    regular.open_stream()
    for number in range(240):
        Script(desk, seed=f"flood {number}").shake(source(number))
        desk.time += 1 / 400
        if number % 60 == 59:
            honest = Script(desk, seed=f"honest {number}")
            assert isinstance(honest.shake(PUBLIC), Terms)
            assert honest.terms is not None
            assert honest.terms.status is Status.WELCOME
            desk.wait(0.02)  # its round trip
            honest.exchange()
        status = desk.server.status(desk.now)
        assert len(status.sessions) <= 20 + 5
    regular.exchange()
    assert {s.is_confirmed for s in desk.server.status(desk.now).sessions} == {True, False}
    desk.wait(40.0)
    assert {s.is_confirmed for s in desk.server.status(desk.now).sessions} == {True}
    assert len(desk.server.status(desk.now).sessions) == 5


def test_a_flood_of_pieces_is_answered_and_leaves_nothing() -> None:
    desk = Desk()
    dice = Dice("pieces")
    header_key = desk.settings.key.public.header_key
    client = Script(desk)
    count = MAX_PARTIALS + 500
    for number in range(count):
        piece = dice(27)
        header = pack_header(Kind.FRAGMENT, Form.DS, number.to_bytes(4), 0 << 8 | 81)
        packet = mask_header(header_key, header, piece + header_key.gate(header + piece))
        name = ZONE.encode(packet, number=1, selector=0, flag=0)
        desk.server.receive_message(client.question(name, Form.DS), PUBLIC, desk.now)
    assert desk.server.status(desk.now).in_part == MAX_PARTIALS
    desk.wait(0.025)
    assert len(desk.said) == count
    desk.wait(2.0)
    assert desk.server.status(desk.now).in_part == 0
    assert desk.server.next_timeout() is None


def test_a_flood_of_early_packets_is_answered_and_leaves_nothing() -> None:
    desk = Desk()
    dice = Dice("early")
    header_key = desk.settings.key.public.header_key
    client = Script(desk)
    for number in range(2500):
        header = pack_header(Kind.EARLY, Form.DS, number.to_bytes(4), 0)
        packet = mask_header(header_key, header, dice(31))
        name = ZONE.encode(packet, number=1, selector=0, flag=0)
        desk.server.receive_message(client.question(name, Form.DS), PUBLIC, desk.now)
    assert desk.server._keeper.early.octets <= MAX_OCTETS
    assert len(desk.server._keeper.early) < 2500
    desk.wait(0.6)
    assert len(desk.said) == 2500
    desk.wait(2.0)
    assert desk.server._keeper.early.octets == 0
    assert desk.server.next_timeout() is None


def test_thousands_of_replays_of_one_flight_make_one_session() -> None:
    desk = Desk()
    client = Script(desk)
    flight = client.flight()
    for number in range(3000):
        for question in flight:
            desk.server.receive_message(question, many_prefixes(number), desk.now)
    assert len(desk.flush()) == 3000 * len(flight)
    assert len(desk.server.sids()) == 1
    assert desk.server.status(desk.now).handshakes["welcome"] == 1
