"""One request on its way: pooled connections, then races, one route after the other until an answer does (H1 to H5)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio

from racer.abc import RequestTransport
from racer.errors import DialError, DialTimeout, InvalidTarget, NoTransports
from racer.http._faults import RequestFailed, cause_of, connect_error
from racer.http._messages import Via, header
from racer.http._policy import Fallback, Held, Step
from racer.http._pool import Entry, Permit, Ticket
from racer.http._suitable import reason_against
from racer.http2._fault import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from racer._dialer import Dialer
    from racer._race import Finisher, Race
    from racer._target import Target
    from racer.abc import Guest
    from racer.http._engine import Engine
    from racer.http._messages import Request, Response

__all__ = ("Exchange", "Failure")


class Failure(Exception):
    """A request without a response.

    Attributes:
        kind: the name of the HTTP library's error.
        error: racer's own, which becomes its `__cause__`.
    """

    def __init__(self, kind: str, error: Exception) -> None:
        """Name every transport in the text."""
        super().__init__(str(error))
        self.kind = kind
        self.error = error


class _NoRouteLeft(Exception):
    """Every route that would take the request was tried."""


class Exchange:
    """One request, until its response's head is here.

    Args:
        engine: whose pool and memory are used.
        dialer: who races.
        request: what to send.
    """

    def __init__(self, engine: Engine, dialer: Dialer, request: Request) -> None:
        """Ask nobody yet."""
        self._engine = engine
        self._pool = engine.pool
        self._memory = engine.memory
        self._dialer = dialer
        self._request = request
        self._origin = request.origin
        self._policy = Fallback(
            idempotent=request.idempotent,
            retry_statuses=engine.retry_statuses,
            last_good=engine.memory.last_good(request.origin),
        )
        self._race: Race | None = None
        self._errors: list[Exception] = []
        self._kind = "ConnectError"
        self._unsuitable: dict[str, str] = {}
        self._guests: Mapping[str, Guest] = {}
        self._chosen: set[str] = set()
        self._spent: set[str] = set()

    async def run(self) -> tuple[Response, Via]:
        """Return the response and by which way it came.

        Raises:
            Failure: there is none.
        """
        try:
            target = self._engine.target(self._origin)
            self._guests = self._suitable(target)
            return await self._run(target)
        except InvalidTarget as exc:
            raise Failure("ConnectError", exc) from exc
        except BaseException:
            self._drop_held()
            raise
        finally:
            await self._leave_race()

    async def _run(self, target: Target) -> tuple[Response, Via]:
        while True:
            try:
                entry = await self._next_connection(target)
            except _NoRouteLeft:
                return self._last()
            route = entry.connection.transport_name
            reused, entry.served = entry.served > 0, entry.served + 1
            via = Via(transport_name=route, report=entry.connection.report, reused=reused)
            try:
                response = await entry.connection.exchange(
                    self._as_sent(route),
                    self._policy.patience(
                        self._request.timeouts.read, is_last=not self._others(route)
                    ),
                    partial(self._released, entry),
                )
            except Fault as fault:
                self._take_fault(fault.of(route, reused=reused))
                continue
            if self._take_response(entry, route, response, via):
                return response, via

    # --- what becomes of an answer ------------------------------------------------------------

    def _take_response(self, entry: Entry, route: str, response: Response, via: Via) -> bool:
        """Return whether the response is the caller's; else it is held."""
        now = anyio.current_time()
        upload = self._request.upload
        step = self._policy.after_response(
            route,
            response,
            repeatable=upload.is_repeatable,
            is_last=not self._others(route),
        )
        if response.status not in self._engine.retry_statuses:
            self._memory.worked(self._origin, route)
        elif agreed := self._policy.agreed(response.status):
            if step is Step.GIVE:
                self._memory.forget(self._origin, agreed)
            else:
                self._memory.failed(self._origin, route, now)
        else:
            self._memory.failed(self._origin, route, now)
        self._drop_held()
        if step is Step.GIVE:
            return True
        self._pool.detach(entry, now)
        self._policy.held = Held(response, via)
        return False

    def _take_fault(self, fault: Fault) -> None:
        """Return when another route is to be asked.

        Raises:
            Failure: none is.
        """
        step = self._policy.after_fault(fault, repeatable=self._request.upload.is_repeatable)
        if step is Step.AGAIN:
            return
        error = cause_of(fault)
        self._errors.append(error)
        self._kind = fault.kind
        if step is Step.RAISE:
            raise self._failure() from error
        self._memory.failed(self._origin, fault.transport, anyio.current_time())

    def _last(self) -> tuple[Response, Via]:
        """Return the held response, when no route is left.

        Raises:
            Failure: there is none, or it is no answer.
        """
        held = self._policy.held
        if self._policy.after_last() is Step.GIVE_HELD and held is not None:
            self._policy.held = None
            return held.response, held.via
        raise self._failure()

    def _failure(self) -> Failure:
        errors = self._errors
        return Failure(self._kind, errors[0] if len(errors) == 1 else RequestFailed(errors))

    def _drop_held(self) -> None:
        held, self._policy.held = self._policy.held, None
        if held is not None:
            held.response.body.close()

    def _released(self, entry: Entry, reusable: bool) -> None:  # noqa: FBT001 - a callback's argument
        self._engine.released(entry, self._dialer, self._pool, reusable=reusable)

    def _as_sent(self, route: str) -> Request:
        if (tag := self._engine.tag) is None:
            return self._request
        headers = [
            *self._request.headers,
            (b"X-Racer-App", tag.encode("ascii")),
            (b"X-Racer-Transport", route.encode("ascii", "replace")),
        ]
        return replace(self._request, headers=headers)

    # --- the next connection ------------------------------------------------------------------

    def _suitable(self, target: Target) -> Mapping[str, Guest]:
        """Return the guests that would take this request, and note why others would not (H5)."""
        guests = self._dialer.eligible(target, kind="any")
        if not any(isinstance(guest, RequestTransport) for guest in guests.values()):
            return guests
        request = self._request
        wants_stream = header(request.headers, b"accept") or b""
        for name, guest in guests.items():
            reason = reason_against(guest, request, wants_stream)
            if reason is not None:
                self._unsuitable[name] = reason
        return {name: guest for name, guest in guests.items() if name not in self._unsuitable}

    def _left(self) -> set[str]:
        """Return the routes that have neither been asked nor failed to connect."""
        return self._guests.keys() - self._policy.tried.keys() - self._spent

    def _others(self, route: str) -> set[str]:
        """Return the routes that could still be asked after this one."""
        return self._left() - {route}

    async def _next_connection(self, target: Target) -> Entry:
        """Return a place on a connection whose route was not tried, pooled or won.

        Raises:
            _NoRouteLeft: there is none.
            Failure: no request could be sent, for another reason.
        """
        if self._guests and not self._left():
            raise _NoRouteLeft
        ticket = Ticket(
            self._origin,
            frozenset(self._policy.tried.keys() | self._unsuitable.keys() | self._dialer.gone),
            frozenset(route for route in self._guests if self._policy.is_fresh_only(route)),
        )
        grant = await self._granted(ticket)
        if isinstance(grant, Entry):
            return grant
        try:
            finisher = await self._won(target)
        except BaseException as exc:
            failed = isinstance(exc, _NoRouteLeft | Failure)
            self._pool.give_up(grant, anyio.current_time(), failed=failed)
            raise
        try:
            return self._engine.adopt(finisher, grant, self._dialer, self._pool)
        except BaseException:
            self._pool.give_up(grant, anyio.current_time(), failed=False)
            raise

    async def _granted(self, ticket: Ticket) -> Entry | Permit:
        self._pool.ask(ticket, anyio.current_time())
        if ticket.grant is None:
            granted = anyio.Event()
            ticket.wake = granted.set
            try:
                with anyio.move_on_after(self._request.timeouts.pool):
                    await granted.wait()
            except BaseException:
                self._pool.withdraw(ticket, anyio.current_time())
                raise
        if ticket.grant is None:
            self._pool.withdraw(ticket, anyio.current_time())
            fault = Fault("PoolTimeout", "no connection became free in time", sent=False)
            error = cause_of(fault)
            self._errors.append(error)
            self._kind = fault.kind
            raise self._failure() from error
        return ticket.grant

    async def _won(self, target: Target) -> Finisher:
        """Return the next finisher of the race under way, or of one among the routes that are left.

        Routes in doubt come last: they race when all others have failed.

        Raises:
            _NoRouteLeft: nobody connected.
        """
        if self._race is not None:
            with suppress(StopAsyncIteration):
                return await anext(self._race)
            await self._end_race(None)
            if not self._left():
                raise _NoRouteLeft
        doubted = self._memory.doubted(self._origin, anyio.current_time())
        while True:
            left = self._left()
            try:
                return await self._first_of(target, left - doubted or left)
            except (DialError, NoTransports) as exc:
                await self._end_race(exc)
            if not self._left():
                raise _NoRouteLeft

    async def _end_race(self, error: DialError | NoTransports | None) -> None:
        """Note who did not connect in a race that is over."""
        race, chosen = self._race, self._chosen
        await self._leave_race()
        self._spent |= chosen
        if error is not None:
            self._errors.append(error)
            if not any(isinstance(fate, Fault) for fate in self._policy.tried.values()):
                self._kind = "ConnectTimeout" if isinstance(error, DialTimeout) else "ConnectError"
        elif race is not None:
            self._spent -= {a.transport for a in race.report.attempts if a.outcome == "connected"}
            self._errors += [
                connect_error(attempt) for attempt in race.report.attempts if attempt.error
            ]

    async def _first_of(self, target: Target, chosen: set[str]) -> Finisher:
        """Enter a race among these, and return its first finisher; without any, the race itself says why."""
        self._chosen = chosen
        exclude = dict(self._unsuitable)
        for name in self._guests:
            if name in self._policy.tried or name in self._spent:
                exclude[name] = "it was tried for this request already"
            elif name not in chosen:
                exclude[name] = "it did not do for this origin a moment ago"
        race = self._dialer.race(
            target,
            timeout=self._request.timeouts.connect,
            exclude=exclude,
            kind="any",
            check=self._engine.check(self._origin),
        )
        await race.__aenter__()
        self._race = race
        return await anext(race)

    async def _leave_race(self) -> None:
        race, self._race = self._race, None
        if race is not None:
            await race.__aexit__(None, None, None)
