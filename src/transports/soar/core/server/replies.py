"""Answers on their way out: what fits which copy, and how long it may be (SPEC 5.3, 8.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from transports.soar.core.crypto.headers import SizeClass
from transports.soar.core.crypto.notices import build_notice
from transports.soar.core.dns.answers import build_answer, nodata, nxdomain, room, truncated
from transports.soar.core.dns.questions import MIN_EDNS_OCTETS

if TYPE_CHECKING:
    from transports.soar.core.crypto.notices import Notice
    from transports.soar.core.server.question import Question
    from transports.soar.core.server.source import Source

__all__ = ("Replies", "room_for")

MAX_ANSWER: Final = (
    4_096  # octets of the largest answer, whatever the copy says: beyond it UDP goes in fragments
)
_BY_EDNS: Final = SizeClass.EDNS  # an enumeration is slow to ask for its members
_BY_1232: Final = SizeClass.OCTETS_1232
_SMALL: Final = 512
_MEDIUM: Final = 1_232


def room_for(question: Question, size_class: int) -> int:
    """Return how many octets an answer to `question` can carry, the packet being of that size class."""
    copy = question.copy
    announced = copy.edns_size
    if size_class == _BY_EDNS:
        limit = min(announced or MIN_EDNS_OCTETS, MAX_ANSWER)
    else:
        limit = _MEDIUM if size_class == _BY_1232 else _SMALL
        if limit > (announced or MIN_EDNS_OCTETS) and not question.source.tcp:
            limit = announced or MIN_EDNS_OCTETS
    return room(question.form, len(copy.question), limit, edns=announced is not None)


class Replies:
    """The messages that wait to be sent, in order.

    Attributes:
        counts: how many of each kind were made.
    """

    __slots__ = ("_outbox", "counts")

    def __init__(self) -> None:
        """Begin with none."""
        self._outbox: list[tuple[Source, bytes]] = []
        self.counts = dict.fromkeys(
            ("sealed", "repeat", "truncated", "empty", "notice", "other"), 0
        )

    def take(self) -> list[tuple[Source, bytes]]:
        """Return and forget what is to be sent."""
        outbox, self._outbox = self._outbox, []
        return outbox

    def message(self, source: Source, message: bytes) -> None:
        """Send a message that is ready."""
        self.counts["other"] += 1
        self._outbox.append((source, message))

    def empty(self, question: Question) -> None:
        """Answer with nothing (NODATA)."""
        self.counts["empty"] += 1
        self._outbox.append((question.source, nodata(question.copy, question.zone)))

    def too_big(self, question: Question) -> None:
        """Answer with TC."""
        self.counts["truncated"] += 1
        self._outbox.append((question.source, truncated(question.copy)))

    def notice(self, question: Question, status_key: bytes, notice: Notice) -> None:
        """Say that there's no such session."""
        self.counts["notice"] += 1
        copy = question.copy
        octets = build_notice(status_key, notice, copy.name)
        self._outbox.append((question.source, nxdomain(copy, question.zone, octets)))

    def handshake(self, question: Question, payload: bytes) -> None:
        """Answer a fragment. Nothing is known of the path's sizes yet, so only what every path takes may be used."""
        self._carry(question, payload, SizeClass.EDNS, "other")

    def sealed(self, question: Question, payload: bytes) -> None:
        """Answer with octets that were made to fit."""
        self.counts["sealed"] += 1
        message = build_answer(question.copy, question.form, payload, question.zone)
        self._outbox.append((question.source, message))

    def repeat(self, question: Question, payload: bytes, size_class: int) -> bool:
        """Answer another copy with the same octets, or with TC if they don't fit it; return whether they did."""
        return self._carry(question, payload, size_class, "repeat")

    def _carry(self, question: Question, payload: bytes, size_class: int, kind: str) -> bool:
        if len(payload) > room_for(question, size_class):
            self.too_big(question)
            return False
        self.counts[kind] += 1
        message = build_answer(question.copy, question.form, payload, question.zone)
        self._outbox.append((question.source, message))
        return True
