"""Where first messages come in: from fragments to a welcome, a refusal, or another try (SPEC 7)."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

from transports.soar.core.crypto.cookies import Cookies
from transports.soar.core.crypto.fragments import read_fragment
from transports.soar.core.crypto.handshake import open_first
from transports.soar.core.crypto.retries import Retry, RetryCode, build_retry
from transports.soar.core.crypto.terms import Status, Terms
from transports.soar.core.server.admission import (
    HANDSHAKES_BEFORE_COOKIES,
    HANDSHAKES_BEFORE_SILENCE,
    KNOWN_FOR,
    Calendar,
    Rate,
    Seen,
)
from transports.soar.core.server.pieces import Pieces

if TYPE_CHECKING:
    from collections.abc import Callable

    from transports.soar.core.crypto.handshake import First
    from transports.soar.core.crypto.keys import ServerKey
    from transports.soar.core.instants import Instant
    from transports.soar.core.server.arrival import Arrival
    from transports.soar.core.server.deadlines import Deadlines
    from transports.soar.core.server.question import Question
    from transports.soar.core.server.replies import Replies

__all__ = ("Door", "Host")

ANSWERS_KEPT: Final = 16_384  # to first messages that made no session; the oldest give way
ANSWER_LIFE: Final = 10.0  # seconds for which repeats of those get the same octets


class Host(Protocol):
    """Whoever has the sessions."""

    def welcome(self, sid: bytes) -> bytes | None:
        """Return what fragments of that session are answered, or None if there's no such session."""

    def has_ended(self, sid: bytes, now: Instant) -> bool:
        """Return whether a session of that name is known to have ended."""

    def status(self, first: First, question: Question, now: Instant) -> Status:
        """Return whether a first message may begin a session."""

    def begin(
        self, first: First, question: Question, now: Instant, *, may_execute: bool, known_for: float
    ) -> bytes:
        """Begin a session, and return what its fragments are answered; see `Terms` for `known_for`."""

    def greet(self, first: First, now: Instant) -> None:
        """Execute what a first message brought, if it has begun a session; its fragments are answered."""


class Door:
    """Admit first messages.

    What costs least is asked first: the gate, which a stranger to the public key can't make; then whether the message
    is known; then how many came this second. Only then a curve operation opens it. Every message that was opened is
    remembered, whatever came of it, and no copy of it makes anything happen again.
    """

    def __init__(
        self,
        host: Host,
        *,
        key: ServerKey,
        entropy: Callable[[int], bytes],
        replies: Replies,
        deadlines: Deadlines,
        now: Instant,
        start: float,
    ) -> None:
        """Begin at `now`; `start` is the same in Unix seconds, for what may be executed (SPEC 7.9)."""
        self._host = host
        self._key = key
        self._entropy = entropy
        self._replies = replies
        self._pieces = Pieces(deadlines, dismiss=replies.empty)
        self._calendar = Calendar(start)
        self._seen = Seen(now)
        self._free = Rate(HANDSHAKES_BEFORE_COOKIES)
        self._any = Rate(HANDSHAKES_BEFORE_SILENCE)
        self._cookies = Cookies(entropy, now=now.elapsed)
        self._began = now.elapsed
        self._answers: OrderedDict[bytes, tuple[bytes, float]] = OrderedDict()
        self.counts = dict.fromkeys(("welcome", "refused", "retry", "unheard", "junk"), 0)

    @property
    def in_part(self) -> int:
        """How many first messages have come in part."""
        return len(self._pieces)

    def has_opened(self, sid: bytes, now: Instant) -> bool:
        """Return whether a first message of that name was opened lately, so that none will be again."""
        return self._seen.has(sid, now)

    def receive(self, arrival: Arrival, now: Instant) -> None:
        """Take a fragment and answer what can be answered."""
        question: Question | None = arrival.question
        sid = arrival.header.sid
        fragment = read_fragment(self._key.public.header_key, arrival.header, arrival.packet)
        if fragment is None:
            self.counts["junk"] += 1
            self._replies.empty(arrival.question)
            return
        if (
            not arrival.question.fits_form
        ):  # a probe's piece is as good as any, its answer carries nothing
            self._replies.empty(arrival.question)
            question = None
        first = None
        answer = self._known(sid, now)
        if answer is None and not self._is_over(sid, now):
            whole = self._pieces.add(arrival.question.zone, sid, fragment, question, now)
            if whole is None:
                return
            first = self._open(whole.message, arrival.question, now)
            answer = None if first is None else self._answer(first, arrival.question, now)
            waiting = whole.questions
        else:
            waiting = [] if question is None else [question]
        for each in waiting:
            if answer is None:
                self._replies.empty(each)
            else:
                self._replies.handshake(each, answer)
        if first is not None:
            self._host.greet(first, now)

    def _known(self, sid: bytes, now: Instant) -> bytes | None:
        """Return what a message was answered before."""
        answer = self._host.welcome(sid)
        if answer is None and sid in self._answers:
            answer, until = self._answers[sid]
            if now.awake >= until:
                return None
        return answer

    def _is_over(self, sid: bytes, now: Instant) -> bool:
        return self._host.has_ended(sid, now) or self._seen.has(sid, now)

    def _open(self, message: bytes, question: Question, now: Instant) -> First | None:
        """Return a whole message that is new, opened; None if it can't be, or not now."""
        if not self._any.take(now):
            self.counts["unheard"] += 1
            return None
        first = open_first(self._key, question.zone.wire, message)
        if first is None:
            self.counts["junk"] += 1
        return first

    def _answer(self, first: First, question: Question, now: Instant) -> bytes:
        """Return what a first message is answered, once for all."""
        sid = first.sid
        self._seen.add(sid, now)
        may_execute = self._calendar.may_execute(first.claims.time)
        known_for = min(now.elapsed - self._began, KNOWN_FOR)
        earlier = None  # whether the message that this one takes the place of may have been executed before the start
        if first.claims.cookie is not None:
            earlier = self._read_cookie(*first.claims.cookie, now)
            may_execute = may_execute and earlier is False
            known_for = 0.0 if earlier is None else known_for
        code = self._retry_code(first, now, is_cleared=earlier is not None)
        if code is not None:
            self.counts["retry"] += 1
            # A client gives a first message up long before the memory of it is lost (SPEC 14.5).
            is_free = may_execute or known_for >= KNOWN_FOR
            cookie = self._cookies.cookie(_bound(sid, is_free=is_free), now.elapsed)
            retry = Retry(code, cookie, int(now.wall))
            return self._keep(sid, build_retry(self._key.public.header_key, sid, retry), now)
        status = self._host.status(first, question, now)
        if status is not Status.WELCOME:
            self.counts["refused"] += 1
            terms = Terms(status=status, time=int(now.wall), known_for=known_for)
            return self._keep(sid, first.answer(terms, entropy=self._entropy), now)
        self.counts["welcome"] += 1
        return self._host.begin(first, question, now, may_execute=may_execute, known_for=known_for)

    def _retry_code(self, first: First, now: Instant, *, is_cleared: bool) -> RetryCode | None:
        """Return why a first message has to be said again, or None; `is_cleared`: it has a cookie of this server's."""
        if not self._calendar.is_current(first.claims.time, now):
            return RetryCode.CLOCK
        return None if self._free.take(now) or is_cleared else RetryCode.BUSY

    def _read_cookie(self, cookie: bytes, sid: bytes, now: Instant) -> bool | None:
        """Return whether an earlier process may have executed the first message `sid`, as its RETRY's cookie tells.

        None if the cookie isn't good: then nobody here knows what became of that message, which a forged RETRY may have
        answered.
        """
        for is_free in (True, False):
            if self._cookies.check(_bound(sid, is_free=is_free), cookie, now.elapsed):
                return not is_free
        return None

    def _keep(self, sid: bytes, answer: bytes, now: Instant) -> bytes:
        answers = self._answers
        while answers and (
            len(answers) >= ANSWERS_KEPT or next(iter(answers.values()))[1] <= now.awake
        ):
            answers.popitem(last=False)
        answers[sid] = (answer, now.awake + ANSWER_LIFE)
        return answer


def _bound(sid: bytes, *, is_free: bool) -> bytes:
    """Return what the cookie of a RETRY is made of: what was asked, and whether certainly nobody executed that."""
    return sid + bytes((is_free,))
