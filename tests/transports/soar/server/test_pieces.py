from __future__ import annotations

import hashlib

import pytest

from tests.transports.soar.server.scripted import OTHER_ZONE, RESOLVER, ZONE
from transports.soar.core.crypto import Fragment
from transports.soar.core.dns.answers import Form
from transports.soar.core.dns.questions import Copy
from transports.soar.core.instants import Instant
from transports.soar.core.server.deadlines import Deadlines
from transports.soar.core.server.pieces import MAX_PARTIALS, MAX_WAITING, Pieces, Whole
from transports.soar.core.server.question import Question

MESSAGE = bytes(range(81))
SID = hashlib.blake2s(MESSAGE, digest_size=4).digest()


def at(awake: float) -> Instant:
    return Instant(0.0, awake, 0.0)


def question(number: int) -> Question:
    return Question(Copy(number, 0x0100), ZONE, RESOLVER, Form.DS, 1, 0.0)


def fragment(offset: int, size: int = 27, message: bytes = MESSAGE) -> Fragment:
    return Fragment(offset, len(message), message[offset : offset + size])


class Table:
    """Pieces, and the ids of the questions that were dismissed."""

    def __init__(self) -> None:
        self.deadlines = Deadlines()
        self.dismissed: list[int] = []
        self.pieces = Pieces(self.deadlines, dismiss=lambda q: self.dismissed.append(q.copy.id))

    def add(
        self, number: int | None, piece: Fragment, now: float = 0.0, sid: bytes = SID
    ) -> Whole | None:
        asked = None if number is None else question(number)
        return self.pieces.add(ZONE, sid, piece, asked, at(now))

    def ring(self, now: float) -> None:
        self.deadlines.ring(at(now))


@pytest.mark.parametrize("order", [(0, 27, 54), (54, 27, 0), (27, 54, 0)])
def test_pieces_make_a_message_in_any_order(order: tuple[int, int, int]) -> None:
    table = Table()
    assert table.add(1, fragment(order[0])) is None
    assert table.add(2, fragment(order[1])) is None
    whole = table.add(3, fragment(order[2]))
    assert whole is not None
    assert whole.message == MESSAGE
    assert [each.copy.id for each in whole.questions] == [1, 2, 3]
    assert len(table.pieces) == 0
    assert table.deadlines.next() is None
    assert table.dismissed == []


def test_pieces_of_different_cuts_fit_together() -> None:
    table = Table()
    assert table.add(1, fragment(0, 40)) is None
    assert table.add(2, fragment(54)) is None
    assert table.add(3, fragment(27)) is not None
    assert (whole := table.add(4, fragment(0, 81))) is not None
    assert [each.copy.id for each in whole.questions] == [4]


def test_an_early_question_waits_25_ms_and_its_piece_two_seconds() -> None:
    table = Table()
    table.add(1, fragment(0), 10.0)
    table.add(2, fragment(27), 10.01)
    assert table.deadlines.next() == 10.025
    table.ring(10.025)
    assert table.dismissed == [1]
    assert table.deadlines.next() == 10.035
    table.ring(10.035)
    assert table.dismissed == [1, 2]
    assert table.deadlines.next() == 12.0
    whole = table.add(3, fragment(54), 11.9)
    assert whole is not None
    assert [each.copy.id for each in whole.questions] == [3]


def test_after_two_seconds_a_part_is_forgotten() -> None:
    table = Table()
    table.add(1, fragment(0), 10.0)
    table.ring(12.0)
    assert len(table.pieces) == 0
    assert table.add(2, fragment(27), 12.0) is None
    assert table.add(3, fragment(54), 12.0) is None


def test_what_does_not_hash_to_the_sid_is_dropped_together() -> None:
    table = Table()
    table.add(1, fragment(0))
    table.add(2, fragment(27, message=bytes(81)))
    assert table.add(3, fragment(54)) is None
    assert table.dismissed == [1, 2, 3]
    assert len(table.pieces) == 0
    for number, offset in ((4, 0), (5, 27)):
        assert table.add(number, fragment(offset)) is None
    assert table.add(6, fragment(54)) is not None


def test_a_forged_length_or_zone_spoils_nothing() -> None:
    table = Table()
    table.add(1, fragment(0))
    table.add(2, Fragment(0, 100, bytes(27)))
    table.pieces.add(OTHER_ZONE, SID, Fragment(27, 81, bytes(27)), question(3), at(0))
    table.add(4, fragment(27))
    assert (whole := table.add(5, fragment(54))) is not None
    assert [each.copy.id for each in whole.questions] == [1, 4, 5]


def test_a_piece_without_a_question_counts_too() -> None:
    table = Table()
    table.add(None, fragment(0))
    table.add(None, fragment(27))
    assert (whole := table.add(None, fragment(54))) is not None
    assert whole == Whole(MESSAGE, [])


def test_the_questions_of_one_message_are_bounded() -> None:
    table = Table()
    for number in range(MAX_WAITING + 2):
        table.add(number, fragment(0), number / 1000)
    assert table.dismissed == [0, 1]
    table.ring(0.0261)
    assert table.dismissed == [0, 1]
    table.ring(0.0271)
    assert table.dismissed == [0, 1, 2]


def test_messages_in_part_are_bounded_and_the_oldest_gives_way_answered() -> None:
    table = Table()
    for number in range(MAX_PARTIALS + 5):
        table.add(number, fragment(0), sid=number.to_bytes(4))
    assert len(table.pieces) == MAX_PARTIALS
    assert table.dismissed == [0, 1, 2, 3, 4]
