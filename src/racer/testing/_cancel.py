"""Cancel a piece of async code everywhere it can be cancelled, and see what it leaves behind.

A cancellation can arrive while code waits, in the very instant in which what it waited for has happened,
or while some other task is half-way through its own work. Tests that cancel "after 10 ms" meet one of
these by chance. `cancel_everywhere` goes through them one by one.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from racer.testing._loops import on_asyncio
from racer.testing._points import (
    CancelFault,
    CancelKind,
    CancellationMishandled,
    CancelMoment,
    CancelPoint,
    CancelSweep,
)
from racer.testing._rounds import Round

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ("cancel_everywhere",)

_PASSES = 12  # a hand-over through three or four tasks takes less
_GRACE = 5.0
_TIMEOUT = 600.0
_MAX_ROUNDS = 20_000


async def cancel_everywhere(
    story: Callable[[], Coroutine[Any, Any, object]],
    *,
    setup: Callable[[], Awaitable[object]] | None = None,
    verify: Callable[[], Awaitable[object]] | None = None,
    passes: int = _PASSES,
    native: bool = True,
    grace: float = _GRACE,
    timeout: float = _TIMEOUT,
    max_rounds: int = _MAX_ROUNDS,
) -> CancelSweep:
    """Return how often `story` was cancelled, once at every point, without one fault.

    The story is run to its end once. Then it is run again for each point:

    * for each time it suspends, in the same pass of the scheduler and in each of the `passes` that follow,
      for as long as it stays suspended there;
    * for each time it resumes, in between what it waited for and its own next line;
    * on the virtual clocks of this package, for each jump that the clock makes while it runs, in that pass
      and in each of the `passes` that follow: the points at which other tasks, on whom it waits, are at work.

    Each point is tried with an anyio cancel scope and, on asyncio, with ``task.cancel()``. Each run has a
    task of its own. Works on real and on virtual clocks; a virtual clock is held up only for the passes. The
    kit can only repeat what repeats: a story over real sockets may suspend elsewhere each time.

    Args:
        story: Gives a fresh coroutine at each call. What it returns is dropped, so it has to close what it
            opened.
        setup: Called before each run, outside of the cancellation.
        verify: Called after each run, outside of the cancellation; raises when something was left behind.
        passes: How many passes of the scheduler after each moment are tried.
        native: Whether to use ``task.cancel()`` as well, where there is one.
        grace: Seconds, on the loop's clock, in which the story has to end when it was cancelled.
        timeout: Seconds, on the loop's clock, in which the story has to end by itself.
        max_rounds: The most rounds there may be to plan for.

    Raises:
        CancellationMishandled: The first fault found: the story swallowed the cancellation, raised something
            else, did not end, or `verify` raised. Says at which point.
        ValueError: There would be more than `max_rounds`.
        TypeError: `story` does not give a coroutine.

    Example:
        >>> from racer.testing import StreamLedger, run_virtual, stream_pair
        >>> async def sweep() -> bool:
        ...     ledger = StreamLedger()
        ...     async def story() -> None:
        ...         near, far = stream_pair(ledger=ledger)
        ...         async with near, far:
        ...             await near.send(b"ping")
        ...             await far.receive()
        ...     async def verify() -> None:
        ...         ledger.assert_all_closed()
        ...     return (await cancel_everywhere(story, verify=verify)).cancelled > 10
        >>> run_virtual(sweep)
        True
    """
    sweep = _Sweep(story, setup=setup, verify=verify, passes=passes, grace=grace, timeout=timeout)
    first = await sweep.run(None)
    kinds = list(CancelKind) if native and on_asyncio() else [CancelKind.SCOPE]
    planned = len(kinds) * ((passes + 2) * len(first.places) + (passes + 1) * first.jumps)
    if planned > max_rounds:
        raise ValueError(
            f"{len(first.places)} suspensions and {first.jumps} jumps of the clock make up to {planned} "
            f"rounds, over max_rounds={max_rounds}: shorten the story, or allow more"
        )
    for kind in kinds:
        for index, place in enumerate(first.places):
            waiting = CancelPoint(
                kind=kind, moment=CancelMoment.SUSPENDED, index=index, where=place
            )
            await sweep.run_passes(waiting)
            resumed = CancelPoint(kind=kind, moment=CancelMoment.RESUMED, index=index, where=place)
            await sweep.run(resumed)
        for index in range(first.jumps):
            await sweep.run_passes(CancelPoint(kind=kind, moment=CancelMoment.JUMPED, index=index))
    return CancelSweep(
        rounds=sweep.rounds,
        cancelled=sweep.cancelled,
        completed=sweep.rounds - sweep.cancelled,
        points=len(first.places),
        jumps=first.jumps,
    )


class _Sweep:
    """The rounds of one sweep, one after the other."""

    def __init__(
        self,
        story: Callable[[], Coroutine[Any, Any, object]],
        *,
        setup: Callable[[], Awaitable[object]] | None,
        verify: Callable[[], Awaitable[object]] | None,
        passes: int,
        grace: float,
        timeout: float,
    ) -> None:
        self.rounds = 0
        self.cancelled = 0
        self._story = story
        self._setup = setup
        self._verify = verify
        self._passes = passes
        self._grace = grace
        self._timeout = timeout

    async def run_passes(self, point: CancelPoint) -> None:
        """Cancel after each number of passes for which the point is still what it says."""
        for passes in range(self._passes + 1):
            played = await self.run(replace(point, passes=passes))
            if played.late:
                break  # more passes would only repeat what later points try

    async def run(self, point: CancelPoint | None) -> Round:
        """Play the story once, cancelled at `point`, and raise if anything was wrong with it."""
        if self._setup is not None:
            await self._setup()
        coroutine = self._story()
        if not isinstance(coroutine, Coroutine):
            raise TypeError(f"story must give a coroutine each time, not {coroutine!r}")
        played = Round(coroutine, point, grace=self._grace, timeout=self._timeout)
        await played.run()
        played.raise_fault()
        if self._verify is not None:
            try:
                await self._verify()
            except Exception as exc:
                text = f"{point or 'not cancelled'}: verify raised {exc!r}"
                raise CancellationMishandled(text, fault=CancelFault.LEAKED, point=point) from exc
        if point is not None:
            self.rounds += 1
            self.cancelled += played.cancelled
        return played
