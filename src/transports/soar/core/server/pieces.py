"""First messages that come in pieces (SPEC 7.3, 7.4)."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from transports.soar.core.crypto.fragments import Fragment
    from transports.soar.core.dns.zone import Zone
    from transports.soar.core.instants import Instant
    from transports.soar.core.server.deadlines import Alarm, Deadlines
    from transports.soar.core.server.question import Question

__all__ = ("Pieces", "Whole")

MAX_PARTIALS: Final = 4_096  # SPEC 19; the oldest gives way
MAX_WAITING: Final = (
    8  # questions that wait for one message; the oldest gives way. A flight has four at most
)
PARTIAL_LIFE: Final = 2.0  # SPEC 7.4
PIECE_WAIT: Final = 0.025  # SPEC 7.4


class Whole(NamedTuple):
    """A first message, and the questions that brought it and are still unanswered."""

    message: bytes
    questions: list[Question]


class _Key(NamedTuple):
    """What pieces must share to belong together: a message is for one zone (SPEC 7.1)."""

    zone: bytes
    sid: bytes
    total: int


class _Partial:
    """What has come of one message. `covered` has a bit for each octet."""

    __slots__ = ("covered", "expiry", "octets", "questions")

    def __init__(self, total: int) -> None:
        self.octets = bytearray(total)
        self.covered = 0
        self.questions: list[tuple[Question, Alarm]] = []
        self.expiry: Alarm | None = None


class Pieces:
    """Put pieces together, for at most two seconds, and hold the early ones' questions for 25 ms.

    A message is known by its SID, length and zone, so a forged length can't spoil it. A forged piece can; what doesn't
    hash to the SID is then dropped together, and the client sends it again.
    """

    def __init__(self, deadlines: Deadlines, *, dismiss: Callable[[Question], None]) -> None:
        """Answer by `dismiss` the questions that waited in vain."""
        self._deadlines = deadlines
        self._dismiss = dismiss
        self._partials: OrderedDict[_Key, _Partial] = OrderedDict()

    def __len__(self) -> int:
        """Return how many messages have come in part."""
        return len(self._partials)

    def add(
        self, zone: Zone, sid: bytes, fragment: Fragment, question: Question | None, now: Instant
    ) -> Whole | None:
        """Take one piece, and return the message if that was the last; else keep the question, if any, for 25 ms."""
        offset, total, piece = fragment
        key = _Key(zone.wire, sid, total)
        partial = self._partials.get(key)
        if partial is None:
            partial = self._begin(key, now)
        partial.octets[offset : offset + len(piece)] = piece
        partial.covered |= ((1 << len(piece)) - 1) << offset
        if partial.covered != (1 << total) - 1:
            if question is not None:
                self._hold(partial, question, now)
            return None
        message = bytes(partial.octets)
        questions = self._release(key)
        if question is not None:
            questions.append(question)
        if hashlib.blake2s(message, digest_size=4).digest() != sid:
            for waiting in questions:
                self._dismiss(waiting)
            return None
        return Whole(message, questions)

    def _begin(self, key: _Key, now: Instant) -> _Partial:
        if len(self._partials) >= MAX_PARTIALS:
            self._give_up(next(iter(self._partials)))
        partial = self._partials[key] = _Partial(key.total)
        partial.expiry = self._deadlines.set(
            now.awake + PARTIAL_LIFE, lambda _now: self._give_up(key)
        )
        return partial

    def _hold(self, partial: _Partial, question: Question, now: Instant) -> None:
        if len(partial.questions) >= MAX_WAITING:
            oldest, alarm = partial.questions.pop(0)
            self._deadlines.cancel(alarm)
            self._dismiss(oldest)

        def give_up(_now: Instant) -> None:
            # Each waits equally long, so the one that is due is the oldest.
            self._dismiss(partial.questions.pop(0)[0])

        alarm = self._deadlines.set(now.awake + PIECE_WAIT, give_up)
        partial.questions.append((question, alarm))

    def _release(self, key: _Key) -> list[Question]:
        """Forget a message and return its questions."""
        partial = self._partials.pop(key)
        if partial.expiry is not None:
            self._deadlines.cancel(partial.expiry)
        for _, alarm in partial.questions:
            self._deadlines.cancel(alarm)
        return [question for question, _ in partial.questions]

    def _give_up(self, key: _Key) -> None:
        for question in self._release(key):
            self._dismiss(question)
