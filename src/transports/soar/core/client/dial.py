"""One dial: a target, a stream toward it, and at most one repair (SPEC 16, S7, S11)."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from transports.soar.core.client.events import DialFailed, DialOpened, DialRepaired
from transports.soar.core.client.reasons import EndReason, Failure, of_refusal
from transports.soar.core.client.repair import is_proven, judge
from transports.soar.core.client.states import Retired
from transports.soar.core.client.stream import ClientStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from transports.soar.core.client.events import ClientEvent
    from transports.soar.core.client.pool import SessionPool
    from transports.soar.core.client.reasons import Over
    from transports.soar.core.instants import Instant
    from transports.soar.core.streams.targets import Target

__all__ = ("Dial", "DialState")


class DialState(Enum):
    """Where a dial is."""

    OPENING = "opening"
    OPEN = "open"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Dial:
    """One wish for a stream.

    Args:
        target: where to.
        replay_safe: whether all that is written before the target is connected may reach it twice.
        pool: gives sessions.
        emit: takes events.

    Attributes:
        stream: usable at once for what may be sent early, and the program's own from `DialOpened` on.
        state: see there.
        session: the number of the session that carries it, -1 while none does.
        acquired: how often a session was asked for; more than once if another dial retired it (S7).
    """

    __slots__ = (
        "_header",
        "_pool",
        "_repairs_left",
        "acquired",
        "emit",
        "replay_safe",
        "session",
        "state",
        "stream",
        "target",
    )

    def __init__(
        self,
        target: Target,
        *,
        replay_safe: bool,
        pool: SessionPool,
        emit: Callable[[ClientEvent], None],
    ) -> None:
        self.target = target
        self.replay_safe = replay_safe
        self.emit = emit
        self.state = DialState.OPENING
        self.session = -1
        self.acquired = 0
        self.stream = ClientStream(self)
        self._header = target.to_wire()
        self._pool = pool
        self._repairs_left = 1

    def start(self, now: Instant) -> None:
        """Open the stream on a session; a session that was retired meanwhile is replaced by another."""
        while True:
            self.acquired += 1
            session = self._pool.acquire(now)
            if session is None:
                words = "every session is at its limit, or there is no path"
                self._fail(EndReason(failure=Failure.BUSY, words=words, may_have_reached=False))
                return
            number = session.try_open(self._header, now)
            if not isinstance(number, Retired):
                break
        self.session = session.number
        # Unproven as a RETRY is, it may cost a second sending of what the first message carried (SPEC 7.7).
        hold = not self.replay_safe and not session.is_established
        self.stream.bind(session, number, hold=hold)

    def cancel(self, now: Instant) -> None:
        """Give the dial up. The session stays; a server that has the opening is told (SPEC 10.2)."""
        del now  # what is to be said is sent when the session next sends
        if self.state is DialState.OPENING:
            self.state = DialState.CANCELLED
            self.stream.reset()

    # --- what becomes of it -----------------------------------------------------------------

    def opened(self) -> None:
        """Take the target as connected."""
        self.state = DialState.OPEN
        self.emit(DialOpened(dial=self))

    def refused(self, reason: int) -> None:
        """Take the server's refusal."""
        self._drop_stream()
        self._fail(of_refusal(reason))

    def reset_early(self, code: int) -> None:
        """Take a RESET before the target was connected."""
        self._drop_stream()
        words = "the server reset the stream before its target was connected"
        self._fail(EndReason(failure=Failure.RESET, words=words, code=code, may_have_reached=True))

    def session_over(self, over: Over, now: Instant) -> None:
        """Take the end of the session before the stream was open: repair, or fail (SPEC 16.5)."""
        reason = over.reason
        number = self.stream.number
        first_sent = self.stream.unbind()
        if over.notice is not None:
            proven = is_proven(
                over.notice,
                stream=number,
                first_sent=first_sent,
                received=over.received,
                executed_from=over.session.executed_from,
            )
        else:
            proven = first_sent is None or (
                reason.may_have_reached is False and first_sent >= over.session.executed_from
            )
        verdict = judge(
            reason.failure,
            reason.code if over.notice is not None else None,
            proven=proven,
            replay_safe=self.replay_safe,
            repairs_left=self._repairs_left,
        )
        if not verdict.repair:
            self._fail(replace(reason, may_have_reached=not proven))
            return
        self._repairs_left -= 1
        self.emit(DialRepaired(dial=self, reason=reason, proven=verdict.proven))
        self.start(now)

    def executed_elsewhere(self, reason: EndReason) -> None:
        """Take the news that an earlier process may have executed the opening, and this one has not (SPEC 16.4)."""
        verdict = judge(
            reason.failure,
            None,
            proven=False,
            replay_safe=self.replay_safe,
            repairs_left=self._repairs_left,
        )
        if verdict.repair:  # within the session, which sends it anew
            self._repairs_left -= 1
            self.emit(DialRepaired(dial=self, reason=reason, proven=False))
            return
        self._drop_stream()
        self._fail(replace(reason, may_have_reached=True))

    def abandon(self, reason: EndReason) -> None:
        """Fail without another try: the client closes."""
        self.stream.unbind()
        self._fail(reason)

    def _fail(self, reason: EndReason) -> None:
        self.state = DialState.FAILED
        self.stream.fail(reason)
        self.emit(DialFailed(dial=self, error=reason))

    def _drop_stream(self) -> None:
        self.stream.reset()
