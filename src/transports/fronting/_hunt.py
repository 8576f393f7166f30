"""From a host to a line through some front: tries overlap, the first that does wins, and each teaches the pool."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

from racer.errors import NetworkError, NotUsable, TransportBusy, TransportError, error_type_of
from transports._net.wakeup import Wakeup

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Collection

    from transports.fronting._catalog import Front, FrontKey, Provider
    from transports.fronting._dialing import FrontDialer, Line
    from transports.fronting._pool import Choice, Pool

__all__ = ("Found", "Hunter")

MAX_TRIES: Final = 16
"""Fronts that one hunt tries at most: where all hang, they take 22 s."""

MAX_AT_ONCE: Final = 4
"""Tries that run at the same time."""

STAGGER: Final = 0.75
"""Seconds until the next try starts while none has ended: a try takes three round trips, and most take one of 50 ms.

The first two start together where neither is proven, and where there are two providers they are of both: whole networks
are blocked more often than anything else.
"""

# They say that this machine has no network, and nothing about a front.
_OFFLINE: Final = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL})


@dataclass(frozen=True, slots=True)
class Found:
    """A line that is ready for a request to a front; who holds it closes it. The pool has had its verdict."""

    front: Front
    provider: Provider
    line: Line


class Hunter:
    """Finds lines.

    Args:
        dialer: connects.
        pool: says which fronts to try, and learns how they did.
        make_context: gives the TLS context with the roots of the pool's catalog.
        on_change: called when the pool has learnt something.
    """

    def __init__(
        self,
        dialer: FrontDialer,
        pool: Pool,
        make_context: Callable[[], ssl.SSLContext],
        on_change: Callable[[], None],
    ) -> None:
        """Keep the arguments."""
        self._dialer = dialer
        self._pool = pool
        self._make_context = make_context
        self._on_change = on_change

    async def hunt(
        self,
        host: str,
        *,
        tried: Collection[FrontKey] = (),
        avoid: Collection[str] = (),
    ) -> Found:
        """Return a line for requests to `host`, through a front that is proven; the caller closes it.

        A front that no answer has proven lately is vetted on the line itself. Cancelling closes every try, and counts
        against none.

        Args:
            host: the origin's.
            tried: fronts that are out of the question.
            avoid: providers to come back to last.

        Raises:
            TransportError: no front did; the cause is the group of their errors.
        """
        state = _State(set(tried))
        try:
            async with anyio.create_task_group() as group:
                while state.found is None:
                    deadline = None
                    choice = self._next(host, state, avoid)
                    if choice is not None:
                        state.running += 1
                        state.started += 1
                        group.start_soon(self._try, choice, state)
                        state.owed -= state.started > 1 or choice.is_proven
                        if state.owed > 0:
                            continue
                        state.owed = 0
                        deadline = anyio.current_time() + STAGGER
                    elif not state.running:
                        break
                    await state.wake.wait(deadline)
                group.cancel_scope.cancel()
        except BaseException:
            if state.found is not None:
                await state.found.line.aclose()
            raise
        if state.found is None:
            raise self._nothing_found(host, state)
        return state.found

    async def reach(self, choice: Choice) -> Line:
        """Return a line to a chosen front, vetted if it is not proven; the caller closes it. The pool has its verdict then.

        Raises:
            TransportError: why not.
        """
        began = anyio.current_time()
        try:
            line = await self._reach(choice)
        except (OSError, TransportError) as exc:
            self.judge_failure(choice, exc)
            raise
        except BaseException:
            self._pool.released(choice)
            raise
        if choice.is_proven:
            self._pool.released(
                choice
            )  # that it can be reached says less than the answer that proved it
        else:
            now = anyio.current_time()
            self._pool.succeeded(choice, now, took=now - began)
            self._on_change()
        return line

    async def _reach(self, choice: Choice) -> Line:
        line = await self._dialer.dial(choice.front, choice.provider, self._make_context)
        if choice.is_proven:
            return line
        try:
            await self._dialer.vet(line, choice.provider)
            if not line.connection.is_idle:
                # The edge ends each connection with its answer. It has proven itself all the same.
                await line.aclose()
                line = await self._dialer.dial(choice.front, choice.provider, self._make_context)
        except BaseException:
            await line.aclose()
            raise
        return line

    def judge_failure(self, choice: Choice, error: Exception) -> None:
        """Give the pool the verdict on a try that failed with `error`."""
        if says_nothing(error):
            self._pool.released(choice)
        else:
            self._pool.failed(choice, anyio.current_time())
            self._on_change()

    def _next(self, host: str, state: _State, avoid: Collection[str]) -> Choice | None:
        if state.running >= MAX_AT_ONCE or state.started >= MAX_TRIES or state.is_full:
            return None
        choice = self._pool.choose(host, anyio.current_time(), tried=state.tried, avoid=avoid)
        if choice is not None:
            state.tried.add(choice.front.key)
        return choice

    async def _try(self, choice: Choice, state: _State) -> None:
        try:
            line = await self.reach(choice)
        except (OSError, TransportError) as exc:
            if isinstance(exc, TransportBusy):
                state.is_full = True
            elif says_nothing(exc):
                state.tried |= self._pool.family_of(choice.front)
            state.errors.append(exc)
            state.owed += 1
        else:
            if state.found is None:
                state.found = Found(choice.front, choice.provider, line)
            else:  # another was a moment faster
                await line.aclose()
        finally:
            state.running -= 1
            state.wake.set()

    def _nothing_found(self, host: str, state: _State) -> TransportError:
        if not state.errors:
            return NotUsable(f"there is no front left to try for {host}")
        group = ExceptionGroup(f"{len(state.errors)} fronts failed", state.errors)
        if all(isinstance(error, TransportBusy) for error in state.errors):
            return TransportBusy(str(state.errors[0]))
        told = "; ".join(dict.fromkeys(str(error) for error in state.errors))
        error = NetworkError(
            f"no front could be used: {told[:600]}", error_type=error_type_of(group)
        )
        error.__cause__ = group
        return error


class _State:
    """One hunt as it goes.

    Attributes:
        owed: tries to start without a wait: one at the beginning, and one for each that has failed.
    """

    def __init__(self, tried: set[FrontKey]) -> None:
        self.tried = tried
        self.running = 0
        self.started = 0
        self.owed = 1
        self.is_full = False
        self.errors: list[Exception] = []
        self.found: Found | None = None
        self.wake = Wakeup()


def says_nothing(error: BaseException) -> bool:
    """Return whether an error says nothing about the front it came from: no network here, or no socket left."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, TransportBusy) or getattr(seen, "errno", None) in _OFFLINE:
            return True
        seen = seen.__cause__
    return False
