"""Soar's client without IO: paths in, sessions within, dials and their streams out."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from racer.errors import LocalProtocolError, RemoteProtocolError
from transports.soar.core.client.dial import Dial, DialState
from transports.soar.core.client.dice import Dice
from transports.soar.core.client.events import QuestionsLost, StreamFailed
from transports.soar.core.client.path import MOST_PATHS, Outgoing, Path
from transports.soar.core.client.pool import SessionPool
from transports.soar.core.client.questions import FRAGMENT
from transports.soar.core.client.reasons import Failure
from transports.soar.core.client.warm import WarmKeeper
from transports.soar.core.dns.answers import Answer, read_answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from transports.soar.core.client.events import ClientEvent
    from transports.soar.core.client.questions import Question
    from transports.soar.core.client.reasons import Over
    from transports.soar.core.client.settings import ClientSettings
    from transports.soar.core.client.states import SessionState
    from transports.soar.core.crypto.grants import Grant
    from transports.soar.core.instants import Instant
    from transports.soar.core.streams.targets import Target

__all__ = ("Client", "ClientStatus", "PathStatus", "SessionStatus")

_OTHERS_LATELY_S: Final = (
    10.0  # how new another path's answer must be for a silent path to be the only silent one
)


_PROBES_ALONE: Final = (
    2  # probe timeouts that a path gets before all that it owes is asked on others that answer
)

# A driver's arithmetic may lose the last bits of a time. One that then came too early would come again and again.
_LATE_S: Final = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """A session as `Client.status` shows it.

    Attributes:
        number: at this client.
        state: of SPEC 14.4.
        streams: not over.
        idle: seconds since its activity, elapsed clock.
        lease: seconds that its grant is still good for; `None` for no end.
    """

    number: int
    state: SessionState
    streams: int
    idle: float
    lease: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStatus:
    """A path as `Client.status` shows it.

    Attributes:
        index: its number.
        form: in which it is asked.
        round_trip: seconds, smoothed; `None` while there is none.
        window: questions that it bears.
        in_flight: questions not answered and not lost.
        is_dead: whether it is only probed.
    """

    index: int
    form: str
    round_trip: float | None
    window: int
    in_flight: int
    is_dead: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientStatus:
    """Everything at one moment; `is_stale` is that of the warm session."""

    sessions: tuple[SessionStatus, ...]
    paths: tuple[PathStatus, ...]
    is_stale: bool


class Client:
    """One server's client.

    The driver gives it messages and time, sends what `messages_to_send` returns after every call, and calls
    `handle_timeout` at `next_timeout`.

    Args:
        settings: the server, and how to use it.
        entropy: returns that many random octets.
        owner: of its sessions: a process id (SPEC 14.8).
    """

    def __init__(
        self, settings: ClientSettings, *, entropy: Callable[[int], bytes], owner: int
    ) -> None:
        self._settings = settings
        self._owner = owner
        self._dice = Dice(entropy)
        self._events: deque[ClientEvent] = deque()
        self._out: list[Outgoing] = []
        self._paths: dict[int, Path] = {}
        self._now: Instant | None = None
        self._is_closed = False
        self._begin()

    def _begin(self) -> None:
        self._pool = SessionPool(
            self._settings,
            paths=self._paths,
            dice=self._dice,
            emit=self._events.append,
            on_over=self._session_over,
        )
        self._warm = WarmKeeper(
            self._pool,
            max_stale=self._settings.max_stale,
            dice=self._dice,
            emit=self._events.append,
        )

    # --- paths ------------------------------------------------------------------------------

    def add_path(self, zone_index: int = 0, *, datagram: bool = True) -> int:
        """Return the number of a new path, by which its messages are known.

        Args:
            zone_index: the zone's place in the settings.
            datagram: whether messages go by UDP, and so may be lost, and want new source ports.

        Raises:
            LocalProtocolError: there are sixteen already.
        """
        index = next((index for index in range(MOST_PATHS) if index not in self._paths), None)
        if index is None:
            msg = f"a client has at most {MOST_PATHS} paths"
            raise LocalProtocolError(msg)
        zone = self._settings.zones[zone_index]
        self._paths[index] = Path(index, zone, datagram=datagram, out=self._out)
        return index

    def remove_path(self, path: int, now: Instant) -> None:
        """Ask no more on `path`; what is under way there is sent on others."""
        self.carrier_failed(path, now)
        self._paths.pop(path, None)

    def carrier_failed(self, path: int, now: Instant) -> None:
        """Take all that is under way on `path` as lost: its connection broke, or its port is closed."""
        self._now = now
        if (found := self._paths.get(path)) is not None:
            self._give_up(found, now)

    # --- the program's side -----------------------------------------------------------------

    def dial(
        self, target: Target, now: Instant, *, early_data: bytes = b"", replay_safe: bool = True
    ) -> Dial:
        """Return a dial to `target`, whose stream can be written to at once.

        Args:
            target: where to.
            now: when.
            early_data: octets that may reach the target twice, sent with the opening.
            replay_safe: whether the same holds for whatever else is written before `DialOpened`. If not, it is not sent
                in a handshake, and the dial is repaired only if that is proven to be safe.

        Raises:
            LocalProtocolError: no stream can lead there, or the client is closed.
        """
        if self._is_closed:
            msg = "the client is closed"
            raise LocalProtocolError(msg)
        self._now = now
        dial = Dial(target, replay_safe=replay_safe, pool=self._pool, emit=self._events.append)
        if self._settings.keep_warm:
            self._warm.start(now)
        dial.start(now)
        if early_data:
            dial.stream.write(early_data)
        return dial

    def keep_warm(self, now: Instant) -> None:
        """Make a session now, and keep one confirmed, without waiting for a dial."""
        self._now = now
        self._warm.start(now)

    def update_credential(self, grant: Grant | None, now: Instant) -> None:
        """Show `grant` from here on; no new stream uses an older session (S13)."""
        self._now = now
        self._pool.change_credential(grant, now)

    def check_owner(self, owner: int) -> None:
        """Drop all sessions, dials and events, without a word, if `owner` is not the one that made them (SPEC 14.8)."""
        if owner == self._owner:
            return
        self._owner = owner
        self._dice.forget()
        self._pool.forget()
        self._events.clear()
        self._out.clear()
        for index, path in tuple(self._paths.items()):
            self._paths[index] = Path(index, path.zone, datagram=path.datagram, out=self._out)
        self._begin()

    def close(self, now: Instant) -> None:
        """End every session, and tell the server; dials fail, and what is to be sent is said once more."""
        self._now = now
        self._is_closed = True
        self._pool.close(now)

    def status(self, now: Instant) -> ClientStatus:
        """Return what sessions and paths are like."""
        return ClientStatus(
            sessions=tuple(
                SessionStatus(
                    number=session.number,
                    state=session.state,
                    streams=session.table.live,
                    idle=now.elapsed - session.activity,
                    lease=None
                    if session.intake.lease_until is None
                    else max(0.0, session.intake.lease_until - now.elapsed),
                )
                for session in self._pool.sessions
            ),
            paths=tuple(
                PathStatus(
                    index=path.index,
                    form=path.forms.current.name,
                    round_trip=path.polls.srtt if path.polls.is_known else None,
                    window=int(path.window.size),
                    in_flight=path.window.in_flight,
                    is_dead=path.silence.is_dead,
                )
                for path in self._paths.values()
            ),
            is_stale=self._warm.is_stale,
        )

    def next_event(self) -> ClientEvent | None:
        """Return the oldest event that was not returned yet."""
        return self._events.popleft() if self._events else None

    # --- the driver's side ------------------------------------------------------------------

    def receive_message(self, path: int, message: bytes, now: Instant) -> None:
        """Take a message that came on `path`. Whatever is not an authentic answer ends and refreshes nothing."""
        self._now = now
        way = self._paths.get(path)
        if way is None or len(message) < 12:
            return
        question = way.recovery.pending.get(message[0] << 8 | message[1])
        if question is None:
            return
        try:
            answer = read_answer(message, question.form, asked=question.asked)
        except RemoteProtocolError:
            return
        if answer.question != question.asked:
            return
        was_known = way.is_known
        if not self._is_authentic(way, question, answer, len(message), now):
            self._take_hint(way, question, answer, now)
        elif way.is_known and not was_known:
            self._doubt_others(now)

    def messages_to_send(self, now: Instant) -> list[Outgoing]:
        """Return the messages to send now, in order, each once."""
        self.handle_timeout(now)
        for session in tuple(self._pool.sessions):
            session.send(now)
        out = self._out.copy()
        self._out.clear()
        return out

    def next_timeout(self) -> float | None:
        """Return when, in seconds of the awake clock, there is something to do if nothing comes until then."""
        now = self._now
        if now is None:
            return None
        due: list[float | None] = [path.recovery.deadline() for path in self._paths.values()]
        for session in self._pool.sessions:
            due.append(session.deadline(now.awake))
            if session.is_blocked:
                zones = session.packets.zones  # room where it may not ask is none
                due.extend(
                    path.room_at(now.awake)
                    for path in self._paths.values()
                    if path.zone.wire in zones
                )
        due.append(self._warm.deadline(now))
        first = min((at for at in due if at is not None), default=None)
        return None if first is None else first + _LATE_S

    def handle_timeout(self, now: Instant) -> None:
        """Do what time brings."""
        self._now = now
        for path in tuple(self._paths.values()):
            if (due := path.recovery.deadline()) is not None and now.awake >= due:
                self._lose(path, path.detect(now.awake), now)
            if len(self._paths) > 1 or path.silence.is_dead:
                self._compare(path, now)
        for session in tuple(self._pool.sessions):
            session.tick(now)
        self._warm.tick(now)

    # --- within -----------------------------------------------------------------------------

    def _is_authentic(
        self, path: Path, question: Question, answer: Answer, octets: int, now: Instant
    ) -> bool:
        session = question.owner
        if answer.payload is not None and not answer.truncated:
            if question.number != FRAGMENT:
                return bool(session.packet_answered(path, question, answer.payload, octets, now))
            if session.fragment_answered(path, question, answer.payload, octets, now):
                self._pool.welcomed(session, now)
                return True
        elif answer.notice is not None and question.number != FRAGMENT:
            return bool(session.noticed(question, answer.notice, now))
        return False

    def _take_hint(self, path: Path, question: Question, answer: Answer, now: Instant) -> None:
        if answer.payload is not None and not answer.truncated:
            return  # forged octets, or an early answer that is kept: nothing is to be learnt
        session = question.owner
        if question.number == FRAGMENT:
            path.hint(question, answer, now.awake)
            session.fragment_failed(question, now)
        elif path.hint(question, answer, now.awake):
            session.question_lost(question, now)

    def _lose(self, path: Path, lost: list[Question], now: Instant) -> None:
        if lost:
            self._events.append(QuestionsLost(path=path.index, lost=len(lost)))
        for question in lost:
            question.owner.question_lost(question, now)

    def _give_up(self, path: Path, now: Instant) -> None:
        self._lose(path, path.give_up(now.awake), now)

    def _doubt_others(self, now: Instant) -> None:
        """Send nothing more, now that a path has answered, to where no answer ever came from, and anew what went there.

        What is only slow answers in its turn, and is then as good as any.
        """
        for other in self._paths.values():
            if not other.is_known and not other.is_doubted:
                other.is_doubted = True
                self._give_up(other, now)

    def _compare(self, path: Path, now: Instant) -> None:
        """Ask elsewhere what waits on a path that is silent while others answer, or is no match for them."""
        zone = path.zone
        path.compare(other for other in self._paths.values() if other.zone is zone)
        others_answer = self._others_answer(path, now.awake)
        if path.is_doubted and not others_answer and self._others_are_silent(path):
            self._trust_again(path, now)
        if path.silence.judge(now.awake, path.patience, others_answer=others_answer):
            path.forms.doubt()
            path.partials.doubt()
        elif not (others_answer and path.recovery.probes >= _PROBES_ALONE):
            return
        path.is_doubted = True
        self._give_up(path, now)

    def _trust_again(self, path: Path, now: Instant) -> None:
        """Ask `path` as any other: where nobody answers, none is worse than the others.

        What waits on those, in vain for as long, would be waited for still, and nothing asked here.
        """
        path.is_doubted = False
        path.recovery.probes = 0
        for other in self._paths.values():
            if other is not path and not other.is_doubted:
                self._give_up(other, now)

    def _others_are_silent(self, path: Path) -> bool:
        return all(
            other.is_doubted or other.recovery.probes >= _PROBES_ALONE
            for other in self._paths.values()
            if other is not path
        )

    def _others_answer(self, path: Path, now: float) -> bool:
        return any(
            other.answered_at > max(path.answered_at, now - _OTHERS_LATELY_S)
            for other in self._paths.values()
            if other is not path
        )

    def _session_over(self, over: Over, now: Instant) -> None:
        self._warm.session_over(over, now)
        for stream in tuple(over.session.intake.streams.values()):
            dial = stream.dial
            if dial.state is not DialState.OPENING:
                stream.fail(over.reason)
                if dial.state is DialState.OPEN:
                    self._events.append(StreamFailed(stream=stream, error=over.reason))
            elif self._is_closed and over.reason.failure is Failure.CLOSED:
                dial.abandon(over.reason)
            else:
                dial.session_over(over, now)
