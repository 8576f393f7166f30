"""What is said again: the last frames, as far as they are not settled (SPEC 11.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.transports.soar.streams.pairs import HEADER, Pair, drain
from transports.soar.core.streams.frames import Opened, StreamData, decode

if TYPE_CHECKING:
    from transports.soar.core.streams.tail import Tail

ROOM = 1_095


def said(tail: Tail, *, room: int = ROOM, once_more: bool = False) -> list[object]:
    out = bytearray()
    tail.fill(out, room, once_more=once_more)
    assert len(out) <= room
    return list(decode(bytes(out), from_client=False)) if out else []


def spoken(*texts: bytes, most_octets: int = 100) -> tuple[Pair, int, Tail]:
    """Return a stream whose server has said `texts`, a packet each, and the tail that noted them."""
    pair = Pair()
    number = pair.open()
    tail = pair.server.tail(most_octets)
    for text in texts:
        pair.server.write(number, text)
        tail.note(pair.down().records)
    return pair, number, tail


def test_frames_that_follow_each_other_are_said_again_as_one_and_once() -> None:
    _, number, tail = spoken(b"one ", b"two")
    assert tail.octets == 7
    assert tail.is_due()
    assert said(tail) == [StreamData(number, 0, b"one two", False)]
    assert not tail.is_due()
    assert said(tail) == []


def test_what_does_not_fit_is_left_for_the_next() -> None:
    _, number, tail = spoken(b"0123456789")
    first, second = said(tail, room=8), said(tail, room=8)
    assert [*first, *second] == [
        StreamData(number, 0, b"012345", False),
        StreamData(number, 6, b"6789", False),
    ]


def test_in_a_poor_packet_it_is_worth_one_more_time_and_no_third() -> None:
    _, number, tail = spoken(b"text")
    for _ in range(2):
        assert said(tail, once_more=True) == [StreamData(number, 0, b"text", False)]
    assert said(tail, once_more=True) == []


def test_what_is_settled_is_not_said_again() -> None:
    pair = Pair()
    number = pair.open()
    tail = pair.server.tail(100)
    packets = []
    for text in (b"one ", b"two "):
        pair.server.write(number, text)
        packets.append(pair.down())
        tail.note(packets[-1].records)
    packets[0].ack()
    assert said(tail) == [StreamData(number, 4, b"two ", False)]
    tail.note(packets[1].records)
    packets[1].ack()
    assert not tail.is_due()


def test_of_a_stream_that_was_reset_nothing_is_said_again() -> None:
    pair, number, tail = spoken(b"text")
    pair.server.reset(number, 1)
    assert not tail.is_due()


def test_control_frames_are_said_again_too_until_they_are_settled() -> None:
    pair = Pair()
    number = pair.client.open(HEADER)
    pair.run()
    tail = pair.server.tail(100)
    pair.server.opened(number)
    packet = pair.down()
    tail.note(packet.records)
    assert said(tail) == [Opened(number)]
    tail.note(packet.records)
    packet.ack()
    assert not tail.is_due()


def test_the_end_of_a_stream_is_said_again_with_its_last_octets() -> None:
    pair = Pair()
    number = pair.open()
    tail = pair.server.tail(100)
    pair.server.write(number, b"last")
    pair.server.finish(number)
    tail.note(pair.down().records)
    assert said(tail) == [StreamData(number, 0, b"last", True)]


def test_only_the_newest_octets_are_said_again() -> None:
    _, number, tail = spoken(bytes(80), bytes(range(60)))
    assert said(tail) == [StreamData(number, 40, bytes(40) + bytes(range(60)), False)]


def test_of_two_streams_the_older_gives_way() -> None:
    pair = Pair()
    first, second = pair.open(), pair.open()
    tail = pair.server.tail(100)
    for number, octets in ((first, 50), (second, 90)):
        pair.server.write(number, bytes(octets))
        tail.note(pair.down().records)
    assert said(tail) == [
        StreamData(first, 40, bytes(10), False),
        StreamData(second, 0, bytes(90), False),
    ]


def test_while_much_is_under_way_nothing_is_said_again() -> None:
    _, _, tail = spoken(bytes(80), bytes(60), bytes(70))
    assert not tail.is_due()


def test_what_comes_twice_changes_nothing() -> None:
    pair, number, tail = spoken(b"text")
    out = bytearray()
    records = tail.fill(out, ROOM)
    for _ in range(2):
        for frame in decode(bytes(out), from_client=False):
            pair.client.receive(frame)
    assert drain(pair.client, number) == b"text"
    pair.server.acked(records)
    assert pair.server.sending == 0
