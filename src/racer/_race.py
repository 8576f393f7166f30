"""The hands of a race: they do what the schedule says, and fix every outcome at one synchronous instant (R10).

A `Race` never runs anything in the caller's task but its own waiting. Attempts live in the dialer's host; the caller's
task starts them, waits for their word, takes a stream out of a slot. So whatever cancels the caller meets only that
wait, and leaving it (`_finish`) is synchronous.
"""

from __future__ import annotations

import contextvars
import logging
import math
from typing import TYPE_CHECKING, Final

import anyio

from racer._attempt import Run, is_crash, log_crash
from racer._connection import Connection, ReportBox, RoutedConnection
from racer._nesting import endless, enter
from racer._report import Outcome, RaceReport
from racer._schedule import Lane, Schedule
from racer._verdict import attempt_of, drop_tracebacks, fate_of, idle
from racer.abc import RequestTransport
from racer.errors import (
    AllAttemptsFailed,
    DialerClosed,
    DialError,
    DialTimeout,
    NoTransports,
    NotUsable,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType
    from typing import Self

    from anyio.abc import ByteStream

    from racer._host import LoopHost
    from racer._memory import Memory
    from racer._recollection import Recollection
    from racer._roster import Place, Roster
    from racer._spans import Telemetry
    from racer._target import Target
    from racer._tls import Contexts
    from racer.errors import TransportError

__all__ = ("Finisher", "Race")

Finisher = Connection | RoutedConnection

logger = logging.getLogger("racer.race")

_LEFT: Final = "it was taken out of the configuration after this race had been made"


class Race:
    """One race, for who needs more than its first finisher: `async with dialer.race(...) as race: async for conn in race`.

    It is demand-driven. A finisher that was handed out counts as running until the next is asked for, and asking says
    "that one did not do". Meanwhile the race's clock stands still and nothing new starts, while attempts under way go on,
    and their own time with them.
    Leaving the context cancels them and closes what nobody took; streams that were handed out belong to the consumer,
    also when the body raises.

    Not for use from several tasks at once. Made by `Dialer.race`.
    """

    def __init__(
        self,
        *,
        owner: object,
        host: LoopHost,
        roster: Roster,
        places: list[tuple[Place, str | None]],
        target: Target,
        timeout: float,
        check: Callable[[ByteStream], Awaitable[bool | None]] | None,
        contexts: Contexts,
        telemetry: Telemetry,
        reason_against: Callable[[Place], str | None],
        memory: Memory | None = None,
    ) -> None:
        """Keep the arguments; nothing starts before the race is entered."""
        self._owner = owner
        self._host = host
        self._roster = roster
        self._target = target
        self._timeout = timeout
        self._check = check
        self._contexts = contexts
        self._telemetry = telemetry
        self._reason_against = reason_against
        self._memory = memory
        self._recollection: Recollection | None = None
        self._first: tuple[str, ...] = ()
        self._places = [place for place, reason in places if reason is None]
        self._lanes: list[Lane] = []
        self._asked = {place.name: place.lodger for place in self._places}
        self._generation = roster.generation
        self._gone: set[int] = set()
        self._ineligible = [(place, reason) for place, reason in places if reason is not None]
        self._runs: dict[int, Run] = {}
        self._news: list[Run] = []
        self._wake: anyio.Event | None = None
        self._begun = False
        self._over = False
        self._abort_reason: str | None = None
        self._held: int | None = None
        self._handed_out = 0
        self._winner: str | None = None
        self._box: ReportBox | None = None

    @property
    def report(self) -> RaceReport:
        """The race as data: what is known so far, and after its end all of it.

        Raises:
            RuntimeError: the race was not entered yet.
        """
        if self._box is None:
            msg = "this race has not begun: use 'async with'"
            raise RuntimeError(msg)
        return self._box.report

    def _so_far(self) -> RaceReport:
        outcome = Outcome.CONNECTED if self._handed_out else Outcome.NOT_STARTED
        return self._snapshot(outcome, anyio.current_time())

    async def __aenter__(self) -> Self:
        """Begin: what is due starts.

        Raises:
            NoTransports: no entrant serves the target.
            WrongLoop, DialerClosed: as `Dialer.dial`.
            RuntimeError: it was entered before.
        """
        if self._begun:
            msg = "a race can be entered only once; make another with Dialer.race()"
            raise RuntimeError(msg)
        await self._host.ensure()
        await anyio.lowlevel.checkpoint_if_cancelled()
        if self._memory is not None:
            await self._memory.ready()
        self._begin()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """End: cancel what is under way and close what nobody took, in the host; waits for nothing.

        Raises:
            SystemExit, KeyboardInterrupt: of an attempt, since the last finisher was handed out (R20).
        """
        leaving = self._unheard_exit() if exc is None else None
        self._finish(Outcome.CONNECTED if self._handed_out else Outcome.CANCELLED)
        if leaving is not None:
            try:
                raise leaving
            finally:
                del leaving

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> Finisher:
        """Return the next finisher, which is the caller's to close; the one before "did not do".

        Raises:
            StopAsyncIteration: nothing more comes, and at least one was handed out.
            AllAttemptsFailed, DialTimeout: nothing more comes, and none was.
            anyio.BusyResourceError: another task waits for it already.
        """
        if not self._begun:
            msg = "this race has not begun: use 'async with'"
            raise RuntimeError(msg)
        if self._over and self._abort_reason is None:
            if self._handed_out:
                raise StopAsyncIteration
            msg = "this race is over"
            raise RuntimeError(msg)
        if self._wake is not None:
            action = "waiting for the next finisher of"
            raise anyio.BusyResourceError(action)
        try:
            return await self._next()
        except DialError:
            if self._handed_out:
                raise StopAsyncIteration from None
            raise

    async def first(self) -> Finisher:
        """Run the whole race and return its winner, for `Dialer.dial`; the host must be ready.

        Raises:
            NoTransports, AllAttemptsFailed, DialTimeout, DialerClosed: no winner.
        """
        await anyio.lowlevel.checkpoint_if_cancelled()  # who has gone already dials nobody
        if self._memory is not None:
            await self._memory.ready()
        self._begin()
        try:
            finisher = await self._next()
        except BaseException:
            self._finish(Outcome.CANCELLED)
            raise
        self._finish(Outcome.CONNECTED)
        return finisher

    def abort(self, why: str) -> None:
        """End now: the host is going away (R19). Whoever waits gets `DialerClosed`."""
        self._abort_reason = self._abort_reason or why
        self._finish(Outcome.CANCELLED)  # now: what lies in slots needs the host to be closed
        self._ring()

    def _begin(self) -> None:
        now = anyio.current_time()
        self._begun = True
        self._started = now
        self._trace = self._telemetry.begin(self._target, now, generation=self._generation)
        self._box = ReportBox(self._so_far)
        if not self._places:
            self._finish(Outcome.INELIGIBLE)
            report = self.report
            raise NoTransports(report.explain(f"no transport serves {self._target}"), report)
        self._recall()
        self._lanes = [
            Lane(
                start_delay=self._delay_of(place),
                tier=place.tier,
                timeout=place.lodger.guest.traits.attempt_timeout,
            )
            for place in self._places
        ]
        self._schedule = Schedule(self._lanes, now=now, timeout=self._timeout)
        self._host.enter_race(self)
        try:
            if not self._contexts.has(self._target):
                # Reading the trust store takes as long as a near connection: let both go on side by side.
                self._host.start_in(
                    contextvars.Context(),
                    self._contexts.get,
                    self._target,
                    name="racer trust store",
                )
            self._start_due(now)
        except BaseException:
            self._finish(Outcome.CANCELLED)
            raise

    def _recall(self) -> None:
        """Put who won last in front, where it starts at once; everyone else keeps rank and delay."""
        if self._memory is None:
            return
        entrants = [(place.name, place.tier) for place in self._places]
        self._recollection = self._memory.recall(self._target, entrants, self._host)
        self._first = self._recollection.first
        if self._first:
            self._places.sort(key=lambda place: place.name not in self._first)
        self._trace.recalled(self._first[0] if self._first else None)

    def _delay_of(self, place: Place) -> float:
        return 0.0 if place.name in self._first else place.start_delay

    def _start_due(self, now: float) -> None:
        while due := self._schedule.start_due(now):
            for index in due:
                self._start(index, now)

    def _start(self, index: int, now: float) -> None:
        place = self._places[index]
        if place.tenure.has_left:
            self._gone.add(index)
            self._ineligible.append((place, _LEFT))
            self._schedule.failed(index)
            return
        delay = self._delay_of(place)
        trace = self._trace.attempt(place.name, index=len(self._runs), start_delay=delay, now=now)
        obstacle = place.busy() or self._misfit(index) or endless(place, self._target)
        run = Run(
            place=place,
            start_delay=delay,
            index=index,
            lease=self._roster.lease(place),
            target=self._target,
            check=self._check,
            contexts=self._contexts,
            host=self._host,
            trace=trace,
            settle=self._settled,
            now=now,
        )
        self._runs[index] = run
        if obstacle is not None:
            run.fail_at_once(obstacle, now)
            self._schedule.failed(index)
        else:
            enter(run)
            self._host.start_in(run.context, run.run, name=f"racer attempt {place.name}")

    def _misfit(self, index: int) -> TransportError | None:
        """Return why a guest that took its place after this race was made can have no part in it."""
        place = self._places[index]
        is_same = place.lodger is self._asked[place.name]
        if is_same or (reason := self._reason_against(place)) is None:
            return None
        return NotUsable(f"the transport that took its place does not serve this: {reason}")

    def _settled(self, run: Run) -> None:
        """Take an attempt's word, in the attempt's own task; the dialing task acts on it when it next runs (R8)."""
        self._news.append(run)
        if run.error is not None and is_crash(run.error):
            log_crash(run.place.name, run.error, redacted=self._telemetry.is_redacting)
        self._ring()

    def _ring(self) -> None:
        if self._wake is not None:
            self._wake.set()

    async def _next(self) -> Finisher:
        if self._held is not None and not self._over:
            self._schedule.resume(anyio.current_time())
            self._schedule.dismiss(self._held)
            self._held = None
        while True:
            if self._abort_reason is not None:
                raise DialerClosed(self._abort_reason)
            if self._news:
                self._take_news()
            if self._schedule.has_arrivals:
                # A cancellation that came in the same instant wins: the stream stays in its slot (R9).
                await anyio.lowlevel.checkpoint_if_cancelled()
                return self._hand_out()
            now = anyio.current_time()
            self._end_if_over(now)
            for late in self._schedule.expire(now):
                self._runs[late].decide(Outcome.TIMED_OUT, now)
            self._start_due(now)
            if not self._schedule.is_exhausted:
                await self._wait()

    def _take_news(self) -> None:
        news, self._news = self._news, []
        for run in news:
            if run.has_arrived:
                self._schedule.arrived(run.index)
            else:
                self._schedule.failed(run.index)
        if (leaving := self._unheard_exit()) is not None:
            try:
                raise leaving
            finally:
                del leaving

    def _unheard_exit(self) -> BaseException | None:
        """Return an exit of an attempt of which the caller has not heard (R20), and forget it."""
        for run in self._runs.values():
            if run.exit is not None:
                leaving, run.exit = run.exit, None
                return leaving
        return None

    def _end_if_over(self, now: float) -> None:
        outcome: Outcome
        kind: type[DialError]
        if self._schedule.is_exhausted:
            outcome, kind = Outcome.CONNECT_FAILED, AllAttemptsFailed
        elif self._schedule.is_expired(now):
            outcome, kind = Outcome.TIMED_OUT, DialTimeout
        else:
            return
        self._finish(outcome)
        error = kind(self.report)
        try:
            raise error
        finally:
            del error  # or this frame and the error would keep each other alive (R13)

    async def _wait(self) -> None:
        """Wait for news, or until the schedule wants to look again."""
        self._wake = wake = anyio.Event()
        deadline = self._schedule.next_timeout()
        try:
            with anyio.CancelScope(deadline=math.inf if deadline is None else deadline) as scope:
                await wake.wait()
            if scope.cancelled_caught:
                # What lands in the same instant as a timer counts (R14), and nothing starts beside a win (R5).
                await anyio.lowlevel.checkpoint()
        finally:
            self._wake = None

    def _hand_out(self) -> Finisher:
        index = self._schedule.take()
        assert index is not None
        run = self._runs[index]
        resource, run.resource = run.resource, None
        now = anyio.current_time()
        run.decide(Outcome.CONNECTED, now)
        self._held = index
        self._handed_out += 1
        self._winner = run.place.name
        self._schedule.pause(now)
        assert self._box is not None
        memory = self._recollection
        kind: type[Connection | RoutedConnection] = (
            RoutedConnection if isinstance(run.lease.lodger.guest, RequestTransport) else Connection
        )
        return kind(
            resource,
            name=run.place.name,
            box=self._box,
            lease=run.lease,
            host=self._host,
            owner=self._owner,
            prove=memory.proof_of(run.place.name, self._check) if memory is not None else None,
        )

    def _finish(self, outcome: Outcome) -> None:
        """Fix what is not fixed yet, end every span, let the host clean up: the verdict. Synchronous; once."""
        if self._over or self._box is None:
            return
        self._over = True
        now = anyio.current_time()
        for run in self._runs.values():
            if run.outcome is None:
                self._dispose(run, fate_of(outcome), now)
        if self._handed_out:
            outcome = Outcome.CONNECTED
        report = self._snapshot(outcome, now)
        if outcome is Outcome.CONNECTED:
            for attempt in report.attempts:
                drop_tracebacks(attempt.error)
        self._box.seal(report)
        self._host.leave_race(self)
        self._tell(report, now)
        if self._recollection is not None:
            self._recollection.learn(report)
        for run in self._runs.values():
            if run.exit is not None:
                logger.critical(
                    "transport %r raised %r, and nobody waits for it any more",
                    run.place.name,
                    type(run.exit).__name__,
                )
            run.error = run.exit = None
        self._runs.clear()
        self._news.clear()

    def _dispose(self, run: Run, outcome: Outcome, now: float) -> None:
        run.decide(outcome, now)
        resource, run.resource = run.resource, None
        if resource is not None:
            self._host.close_soon(resource, run.place.name, run.context, run.lease.release)

    def _tell(self, report: RaceReport, now: float) -> None:
        """End the spans and let the guests learn."""
        # A report begins with the attempts that began, in the order of their start.
        for run, attempt in zip(self._runs.values(), report.attempts, strict=False):
            run.trace.end(attempt, began=self._started)
            run.tell_guest(attempt, redacted=self._telemetry.is_redacting)
        self._trace.end(report, now, aborted=self._abort_reason)

    def _snapshot(self, outcome: Outcome, now: float) -> RaceReport:
        """Return the race as data, as it is now."""
        lanes = self._lanes
        attempts = [attempt_of(run, self._started, lanes[i]) for i, run in self._runs.items()]
        if len(attempts) < len(self._places):
            begun = self._gone.union(self._runs)
            waiting = [n for n in range(len(lanes)) if n not in begun]
            waiting.sort(key=lambda n: (lanes[n].tier, lanes[n].start_delay))
            attempts += [idle(self._places[n], Outcome.NOT_STARTED, lanes[n]) for n in waiting]
        attempts += [idle(one, Outcome.INELIGIBLE, reason=why) for one, why in self._ineligible]
        return RaceReport(
            target=str(self._target),
            tls=self._target.tls is not False,
            outcome=outcome,
            winner=self._winner,
            duration=now - self._started,
            timeout=self._timeout,
            started=self._trace.started,
            attempts=tuple(attempts),
        )
