"""One session: its states, what may be opened on it, and what ends it (SPEC 14, 15)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from racer.errors import RemoteProtocolError
from transports.soar.core.client.events import HandshakeStarted, SessionChanged
from transports.soar.core.client.handshake import Handshake
from transports.soar.core.client.intake import Intake, carry_octets, read_frames
from transports.soar.core.client.lifetime import (
    HANDSHAKE_S,
    MOST_AGE_S,
    Liveness,
    draw_session_idle,
    has_expired,
)
from transports.soar.core.client.numbers import MOST_NUMBERS
from transports.soar.core.client.packets import Packets
from transports.soar.core.client.reasons import EndReason, Failure, Over, of_end, of_status
from transports.soar.core.client.states import (
    FINAL,
    OPENABLE,
    RETIRED,
    Retired,
    SessionState,
    follow,
)
from transports.soar.core.crypto.notices import EndCode, Notice, read_notice
from transports.soar.core.crypto.retries import Retry
from transports.soar.core.crypto.terms import Status
from transports.soar.core.streams.frames import End, encode_frame
from transports.soar.core.streams.table import StreamTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from transports.soar.core.client.dice import Dice
    from transports.soar.core.client.events import ClientEvent
    from transports.soar.core.client.path import Path
    from transports.soar.core.client.questions import Question
    from transports.soar.core.client.settings import ClientSettings
    from transports.soar.core.crypto.grants import Grant
    from transports.soar.core.crypto.terms import Terms
    from transports.soar.core.dns.zone import Zone
    from transports.soar.core.instants import Instant
    from transports.soar.core.streams.frames import Frame

__all__ = ("Session",)

_IDLE: Final = SessionState.IDLE  # asked for with every answer, and an enumeration is slow


class Session:
    """A session, from its first message to its end.

    Args:
        number: its number at this client.
        zone: in which to shake hands.
        grant: the credential to show, or `None`.
        generation: of that credential.
        settings, paths, dice: the client's.
        emit: takes events.
        on_over: is told of the end, once.
        now: when it begins.

    Attributes:
        state: see SPEC 14.4.
        table: its streams.
        packets: its packets.
        intake: what its frames are about: the handles of its streams, its lease.
        activity: sending time of the newest question that had an authentic answer, elapsed clock (SPEC 14.2).
        session_idle: after how many seconds without activity it is retired.
        executed_from: what was first sent before, elapsed clock, an earlier process may have executed (SPEC 16.3).
        is_blocked: whether something waits for a path to have room.
        is_final: whether it is over.
    """

    __slots__ = (
        "_dice",
        "_emit",
        "_grown_at",
        "_handshake",
        "_liveness",
        "_on_over",
        "_settings",
        "_started",
        "_status_key",
        "activity",
        "executed_from",
        "generation",
        "intake",
        "is_blocked",
        "is_final",
        "number",
        "packets",
        "session_idle",
        "state",
        "table",
        "zone",
    )

    def __init__(
        self,
        *,
        number: int,
        zone: Zone,
        grant: Grant | None,
        generation: int,
        settings: ClientSettings,
        paths: Mapping[int, Path],
        dice: Dice,
        emit: Callable[[ClientEvent], None],
        on_over: Callable[[Over, Instant], None],
        now: Instant,
    ) -> None:
        self.number = number
        self.generation = generation
        self.zone = zone
        self.state = SessionState.HANDSHAKING
        self.table = StreamTable(client=True, limits=settings.limits)
        self.packets = Packets(owner=self, zone=zone, paths=paths, table=self.table, dice=dice)
        self.intake = Intake(self.table, self.packets)
        self.activity = now.elapsed
        self.session_idle = settings.session_idle
        self.is_blocked = self.is_final = False
        self.executed_from = float("-inf")
        self._settings = settings
        self._dice = dice
        self._emit = emit
        self._on_over = on_over
        self._started = now.elapsed
        self._grown_at = now.awake
        self._status_key = b""
        self._liveness = Liveness()
        self._handshake: Handshake | None = Handshake(
            owner=self,
            zone=zone,
            grant=grant,
            settings=settings,
            paths=paths,
            table=self.table,
            packets=self.packets,
            dice=dice,
            now=now,
        )
        emit(HandshakeStarted(session=number, is_retry=False))

    def __repr__(self) -> str:
        return f"<Session {self.number} {self.state.value}>"

    # --- opening ----------------------------------------------------------------------------

    @property
    def is_established(self) -> bool:
        """Whether it got a welcome, ever."""
        return bool(self._status_key)

    @property
    def is_busy(self) -> bool:
        """Whether a stream is not over, a frame is queued, or a packet that needs its answer has none (SPEC 13.1)."""
        table = self.table
        return bool(table.live or self.packets.owed or table.has_queued())

    def has_expired(self, now: Instant) -> bool:
        """Whether it is to be retired instead of used (SPEC 14.3)."""
        return self.state is SessionState.IDLE and has_expired(
            now.elapsed, self.activity, self.session_idle, is_busy=self.is_busy
        )

    def is_worn(self, now: Instant) -> bool:
        """Whether it takes no new stream any more, but for its credential (SPEC 14.7)."""
        return (
            now.elapsed - self._started >= MOST_AGE_S
            or self.packets.numbers.next >= MOST_NUMBERS
            or self.intake.lease_has_ended(now)
        )

    def try_open(self, header: bytes, now: Instant) -> int | Retired:
        """Return the number of a new stream whose octets begin with `header`, or `RETIRED`.

        The test and the opening are one step: nothing can come between (S5).
        """
        if self.state not in OPENABLE or not self.table.can_open():
            return RETIRED
        if self.has_expired(now):
            self.retire(now)
            return RETIRED
        number = self.table.open(header)
        self.packets.watch(number)
        self.packets.polls.moved(
            now.awake
        )  # what the target sends first is to find questions waiting
        self._settle(now)
        return number

    def retire(self, now: Instant) -> None:
        """End it silently, since the server may have forgotten it: nothing is sent, ever."""
        words = f"no activity for {now.elapsed - self.activity:.0f} s"
        self._finish(SessionState.RETIRED, EndReason(failure=Failure.RETIRED, words=words), now)

    def drain(self, reason: str, now: Instant) -> None:
        """Take no new streams, and close when it is no longer busy. One that shakes hands drains afterwards."""
        if self.state in (SessionState.LIVE, SessionState.IDLE):
            self._change(SessionState.DRAINING, reason)
            self._settle(now)

    def close(self, now: Instant) -> None:
        """End it, and tell the server so if it can be told."""
        if self.is_final:
            return
        if self._handshake is None:
            end = End(code=EndCode.CLOSED, last_stream=self.table.last_stream)
            self.packets.say(encode_frame(end), now)
        reason = EndReason(failure=Failure.CLOSED, words="closed by this client")
        self._finish(SessionState.CLOSED, reason, now)

    def ping(self, now: Instant) -> bool:
        """Ask for a sign of life; return whether a path could take the question."""
        return self._handshake is None and not self.is_final and self.packets.ping(now)

    # --- answers ----------------------------------------------------------------------------

    def fragment_answered(
        self, path: Path, question: Question, payload: bytes, octets: int, now: Instant
    ) -> bool:
        """Take the octets that answer a fragment; return whether they are authentic, or a RETRY that is obeyed."""
        first = self.packets.first
        handshake = self._handshake
        result: Terms | Retry | None = None
        try:
            if first is not None and question.first is first:
                result = first.receive(payload)
            elif handshake is not None:
                result = handshake.revive(question, payload)
        except RemoteProtocolError as exc:
            assert handshake is not None, "once there is a welcome no other answer is opened"
            reason = EndReason(failure=Failure.UNUSABLE, words=str(exc))
            self._emit(handshake.ended(self.number, question, path, now, reason))
            self._finish(SessionState.ENDED, reason, now)
            return False
        if result is None:
            return False
        if isinstance(result, Retry):
            if handshake is None or handshake.is_retry:
                return False
            handshake.retry(result, now)
            self._emit(HandshakeStarted(session=self.number, is_retry=True))
            return True
        path.answered(question, octets=octets, held=0.0, is_productive=False, now=now.awake)
        if handshake is not None:
            self._judge_terms(handshake, result, question, path, now)
        return True

    def packet_answered(
        self,
        path: Path,
        question: Question,
        payload: bytes,
        octets: int,
        now: Instant,
        *,
        waited: float = 0.0,
    ) -> bool:
        """Take the octets that answer a packet, and came `waited` seconds ago; return whether they are authentic."""
        packets = self.packets
        if question.first is not packets.first:
            return False
        if self._handshake is not None:
            self._handshake.hold(path, question, payload, octets, now.awake)
            return False
        opened = packets.open_answer(question.number, payload)
        if opened is None:
            return False
        frames, broken = read_frames(opened.frames)
        has_octets = carry_octets(frames)
        is_final = self.is_final
        if not is_final:
            packets.answered(question, has_frames=bool(frames))
        path.answered(
            question,
            octets=octets,
            held=opened.held + waited,
            is_productive=has_octets or opened.backlog > 0,
            now=now.awake,
        )
        if is_final:
            return True
        self._liveness.asked = 0
        if question.sent_elapsed > self.activity:  # noqa: PLR1730 - max() takes several times as long
            self.activity = question.sent_elapsed
        if broken:
            self._broken(broken, now)
            return True
        packets.polls.answered(now.awake, backlog=opened.backlog, is_empty=not frames)
        if has_octets:
            packets.polls.moved(now.awake)
            path.sizes.has_begun = True
        if frames:
            self._take_frames(frames, path, now)
        self._settle(now)
        return True

    def noticed(self, question: Question, octets: bytes, now: Instant) -> bool:
        """Take what may be a notice; return whether it is one, for this session and question (SPEC 15.5)."""
        if not self._status_key or question.first is not self.packets.first:
            return False
        name = question.asked[:-4]
        notice = read_notice(octets, self._status_key, name)
        if notice is None:
            return False
        if not self.is_final:
            self._end_by(notice, now)
        return True

    def question_lost(self, question: Question, now: Instant) -> None:
        """Take one of its questions as lost; it was in flight until now."""
        if question.number < 0 or self.is_final or question.first is not self.packets.first:
            return
        self.packets.lost(question)
        self._settle(now)

    def fragment_failed(self, question: Question, now: Instant) -> bool:
        """Take an open, unproven failure of a fragment; return whether the next wave is brought forward."""
        handshake = self._handshake
        return (
            handshake is not None
            and question.first is handshake.first
            and handshake.flight.hurry(now.awake)
        )

    # --- time -------------------------------------------------------------------------------

    def send(self, now: Instant) -> None:
        """Send what is due."""
        if self.is_final:
            return
        handshake = self._handshake
        if handshake is not None:
            handshake.send(now)
        before = self.packets.numbers.next
        self.is_blocked = self.packets.send(now, is_busy=self.is_busy)
        self._liveness.sent(now.awake, self.packets.numbers.next - before)

    def tick(self, now: Instant) -> None:
        """Do what time alone brings: end what is silent."""
        if self.is_final:
            return
        if (due := self._silent_at()) is not None and now.awake >= due:
            words = f"{self._liveness.asked} questions without an authentic answer"
            if self.packets.numbers.is_exhausted:
                words = "no packet number is left: news of lost answers did not reach the server in time"
            reason = EndReason(failure=Failure.SILENT, words=words)
            if self._handshake is not None:
                words = f"no proven answer to the handshake for {HANDSHAKE_S:.0f} s"
                reason = EndReason(failure=Failure.SILENT, words=words)
            self._lose(reason, now)
            return
        if self._handshake is not None and now.elapsed - self._started >= HANDSHAKE_S:
            # What a server made of its first message is about to be forgotten there, or is already (SPEC 14.5).
            words = "the machine slept while the session was made"
            self._lose(EndReason(failure=Failure.LOST, words=words), now)
            return
        self._grow(now)
        self._settle(now)

    def deadline(self, now: float) -> float | None:
        """Return when `tick` or `send` has something to do, awake clock."""
        if self.is_final:
            return None
        due = [self._silent_at()]
        if self._handshake is not None:
            due.append(self._handshake.flight.next_at)
        if self.is_busy:
            due.append(self.packets.polls.deadline(now, self.packets.parked))
            due.append(self.packets.unheard_at(now))
        return min((at for at in due if at is not None), default=None)

    def _lose(self, reason: EndReason, now: Instant) -> None:
        if self._handshake is not None:
            self._emit(self._handshake.ended(self.number, None, None, now, reason))
        self._finish(SessionState.LOST, reason, now)

    def _silent_at(self) -> float | None:
        if self._handshake is not None:
            return self._handshake.began_at + HANDSHAKE_S
        if self.packets.numbers.is_exhausted and not self.packets.outstanding:
            return float("-inf")  # nothing can be asked any more, so nothing will be heard
        return self._liveness.deadline(is_established=self.intake.connected > 0)

    def _grow(self, now: Instant) -> None:
        if self.table.live and (best := self.packets.best_round_trip()) is not None:
            self.table.grow(best, now.awake)

    # --- within -----------------------------------------------------------------------------

    def _judge_terms(
        self, handshake: Handshake, terms: Terms, question: Question, path: Path, now: Instant
    ) -> None:
        is_welcome = terms.status is Status.WELCOME
        if terms.early_refused or not is_welcome:
            self.executed_from = now.elapsed - terms.known_for
        reason = None if is_welcome else of_status(terms.status)
        self._emit(handshake.ended(self.number, question, path, now, reason))
        if reason is None:
            self._begin(handshake, terms, path, now)
        else:
            self._finish(SessionState.ENDED, reason, now)

    def _begin(self, handshake: Handshake, terms: Terms, path: Path, now: Instant) -> None:
        self._handshake = None
        self._status_key = terms.status_key
        # Of all copies of the first message the server counts from the first; which one that was, nobody says.
        self.activity = handshake.made_at
        self.session_idle = draw_session_idle(
            self._settings.session_idle, terms.idle_timeout, self._dice.fraction()
        )
        if terms.lease:
            self.intake.lease_until = now.elapsed + terms.lease
        self.table.welcome(
            stream_window=terms.stream_window,
            session_window=terms.session_window,
            max_streams=terms.max_streams,
        )
        self.packets.establish(terms.shards)
        self.packets.polls.outpace(terms.idle_timeout)
        if terms.early_refused:
            self.packets.take_back()
            self.table.lost(handshake.records)
            self.intake.take_back(self.executed_from)
        else:
            self.table.acked(handshake.records)
        self._change(SessionState.LIVE if self.is_busy else SessionState.IDLE, "welcome")
        for stream in self.intake.streams.values():
            stream.release()
        if self.state is SessionState.IDLE:
            self.packets.polls.fell_idle(now.awake, path.patience)
        frames, broken = read_frames(terms.frames)
        if broken:
            self._broken(broken, now)
        elif frames:
            self._take_frames(frames, path, now)
        for way, held, payload, octets, came in handshake.held:
            if way.recovery.pending.get(held.id) is held and not self.is_final:
                self.packet_answered(way, held, payload, octets, now, waited=now.awake - came)

    def _take_frames(self, frames: list[Frame], path: Path, now: Instant) -> None:
        match self.intake.take(frames, path, now):
            case None:
                pass
            case str(broken):
                self._broken(broken, now)
            case notice:
                self._end_by(notice, now)

    def _end_by(self, notice: Notice, now: Instant) -> None:
        reason = of_end(notice.code)
        lost = notice.code is EndCode.UNKNOWN
        self._finish(SessionState.LOST if lost else SessionState.ENDED, reason, now, notice)

    def _broken(self, words: str, now: Instant) -> None:
        end = End(code=EndCode.CLOSED, last_stream=self.table.last_stream)
        self.packets.say(encode_frame(end), now)
        self._finish(SessionState.CLOSED, EndReason(failure=Failure.PROTOCOL, words=words), now)

    def _settle(self, now: Instant) -> None:
        """Follow what the session is busy with."""
        if self._handshake is not None or self.is_final:
            return
        busy = self.is_busy
        if busy:
            if self.state is _IDLE:
                self._change(SessionState.LIVE, "busy")
                self.packets.polls.moved(now.awake)
        elif self.state is SessionState.LIVE:
            self._change(SessionState.IDLE, "nothing to do")
            self.packets.polls.fell_idle(now.awake, self.packets.patience())
        elif self.state is SessionState.DRAINING:
            self.close(now)

    def _change(self, after: SessionState, reason: str) -> None:
        before = self.state
        self.state = follow(before, after)
        self.is_final = after in FINAL
        self._emit(SessionChanged(session=self.number, before=before, after=after, reason=reason))

    def _finish(
        self, after: SessionState, reason: EndReason, now: Instant, notice: Notice | None = None
    ) -> None:
        self._change(after, reason.words)
        self._handshake = None
        over = Over(session=self, reason=reason, notice=notice, received=now.elapsed)
        self._on_over(over, now)
