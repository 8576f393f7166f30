from __future__ import annotations

from tests.transports.soar.server.scripted import RESOLVER, ZONE
from transports.soar.core.crypto import Header, Kind
from transports.soar.core.dns.answers import Form
from transports.soar.core.dns.questions import Copy, QType
from transports.soar.core.instants import Instant
from transports.soar.core.server.arrival import Arrival
from transports.soar.core.server.deadlines import Deadlines
from transports.soar.core.server.early import OVERHEAD, EarlyPackets
from transports.soar.core.server.question import Question


def at(awake: float) -> Instant:
    return Instant(0.0, awake, 0.0)


class Table:
    """Early packets, and the ids of the questions that were dismissed."""

    def __init__(self, max_octets: int = 1 << 20) -> None:
        self.deadlines = Deadlines()
        self.dismissed: list[int] = []
        self.early = EarlyPackets(
            self.deadlines,
            dismiss=lambda q: self.dismissed.append(q.copy.id),
            max_octets=max_octets,
        )

    def add(
        self,
        number: int,
        now: float = 0.0,
        sid: bytes = b"sid1",
        qtype: QType = QType.DS,
        packet: bytes | None = None,
        name: bytes = b"",
    ) -> None:
        copy = Copy(number, 0x0100, name=name, qtype=qtype)
        question = Question(copy, ZONE, RESOLVER, Form.DS, 1, 0.0)
        header = Header(Kind.EARLY, 0, sid, number, bytes(7))
        packet = number.to_bytes(38) if packet is None else packet
        self.early.add(sid, Arrival(header, packet, question), at(now))

    def take(self, sid: bytes = b"sid1") -> list[tuple[int, bool]]:
        return [(arrival.header.x, waits) for arrival, waits in self.early.take(sid)]


def test_the_newest_copy_is_the_one_to_answer() -> None:
    table = Table()
    packet = bytes(38)
    table.add(1, packet=packet)
    table.add(2, 0.08, packet=packet)
    table.add(3, 0.1, qtype=QType.A, packet=packet)
    assert table.dismissed == [3]  # a probe is answered at once
    table.deadlines.ring(at(0.6))
    assert table.dismissed == [3, 2]
    table.add(4, 0.7, packet=packet)
    assert table.dismissed == [3, 2, 4]
    assert table.take() == [(2, False)]


def test_the_fourth_copy_is_answered_at_once() -> None:
    table = Table()
    packet = bytes(38)
    for number in range(1, 5):
        table.add(number, number / 10, packet=packet)
    assert table.dismissed == [4]
    table.deadlines.ring(at(0.7))
    assert table.dismissed == [4]


def test_a_packet_that_comes_under_another_name_leaves_neither_question_waiting() -> None:
    table = Table()
    packet = bytes(38)
    table.add(1, packet=packet, name=b"\1a\0")
    table.add(2, 0.1, packet=packet, name=b"\1b\0")
    assert table.dismissed == [1, 2]
    table.add(3, 0.2, packet=packet, name=b"\1a\0")
    table.deadlines.ring(at(0.7))
    assert table.dismissed == [1, 2, 3]
    assert table.take() == [(1, False)]


def test_packets_wait_for_their_session() -> None:
    table = Table()
    table.add(1)
    table.add(2, sid=b"sid2")
    table.add(3)
    assert table.take() == [(1, True), (3, True)]
    assert table.take() == []
    assert len(table.early) == 1
    assert table.dismissed == []


def test_a_question_waits_600_ms_and_its_packet_two_seconds() -> None:
    table = Table()
    table.add(1, 5.0)
    assert table.deadlines.next() == 5.6
    table.deadlines.ring(at(5.6))
    assert table.dismissed == [1]
    table.add(2, 6.0)
    assert table.take() == [(1, False), (2, True)]
    assert table.deadlines.next() is None


def test_after_two_seconds_a_packet_is_forgotten() -> None:
    table = Table()
    table.add(1, 5.0)
    table.deadlines.ring(at(5.6))
    assert table.deadlines.next() == 7.0
    table.deadlines.ring(at(7.0))
    assert table.take() == []
    assert table.early.octets == 0
    assert table.dismissed == [1]


def test_a_probe_is_answered_at_once_and_its_packet_kept() -> None:
    table = Table()
    table.add(1, qtype=QType.A)
    assert table.dismissed == [1]
    assert table.take() == [(1, False)]


def test_octets_are_bounded_and_the_oldest_gives_way_answered() -> None:
    table = Table(max_octets=3 * (OVERHEAD + 38))
    for number in range(5):
        table.add(number, sid=bytes([number]) * 4)
    assert table.dismissed == [0, 1]
    assert len(table.early) == 3
    assert table.early.octets == 3 * (OVERHEAD + 38)
    assert not table.take(b"\0\0\0\0")
    assert set(table.early._by_sid) == {bytes([number]) * 4 for number in (2, 3, 4)}
