"""How others race: their schedules, run over the same routes as everybody's.

Only when they start what is modelled. What they call connected is taken from racer, which flatters them: kindling calls a
TCP connection connected, and sends its request on it.
"""

from __future__ import annotations

import math
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio

from racer.scheduling import Lane, Schedule

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from anyio.abc import ByteStream

__all__ = ("KINDLING", "OUTLINE", "Policy", "Ran", "race_by")


class Policy(NamedTuple):
    """When what starts.

    Attributes:
        tiers: of routes by name; 0 for those that are not in it.
        stagger: seconds between one start and the next; 0 for all at once.
        eager: whether a failure lets the next one start at once.
    """

    tiers: Mapping[str, int] = {}
    stagger: float = 0.0
    eager: bool = False


KINDLING: Final = Policy(tiers={"soar": 100})
"""All of a tier at once; the DNS tunnel's tier when everything else has failed. No attempt has a time of its own."""

OUTLINE: Final = Policy(stagger=0.25, eager=True)
"""A start every 250 ms, or when one has failed, as its smart dialer does with resolvers and strategies."""


@dataclass(slots=True)
class Ran:
    """What a race by a policy came to.

    Attributes:
        winner: the route; `None` for none.
        ended_at: when it was usable, or it was certain that none would be, on the loop's clock.
        started: the routes that were tried.
        errors: what kept each of the others.
    """

    winner: str | None = None
    ended_at: float = math.nan
    started: list[str] = field(default_factory=list)
    errors: dict[str, BaseException] = field(default_factory=dict)


async def race_by(
    policy: Policy,
    routes: Mapping[str, Callable[[], AbstractAsyncContextManager[ByteStream]]],
    *,
    prove: Callable[[ByteStream], Awaitable[None]],
    failures: tuple[type[BaseException], ...],
    deadline: float,
) -> Ran:
    """Race routes and return what came of it; every stream is closed then.

    Args:
        policy: when what starts.
        routes: how each connects, by name.
        prove: fails unless a stream is usable.
        failures: what a route may fail with.
        deadline: seconds.
    """
    names = list(routes)
    lanes = [Lane(tier=policy.tiers.get(name, 0)) for name in names]
    ran = Ran()
    wake = anyio.Event()
    usable_at: dict[int, float] = {}
    schedule = Schedule(
        lanes,
        now=anyio.current_time(),
        timeout=deadline,
        stagger=policy.stagger,
        eager=policy.eager,
    )

    async def attempt(index: int) -> None:
        try:
            async with AsyncExitStack() as stack:
                stream = await stack.enter_async_context(routes[names[index]]())
                await prove(stream)
                usable_at[index] = anyio.current_time()
                schedule.arrived(index)
                wake.set()
                await anyio.sleep_forever()
        except failures as exc:
            if index in usable_at:  # closing it is no part of the race
                return
            ran.errors[names[index]] = exc
            schedule.failed(index)
            wake.set()

    async with anyio.create_task_group() as group:
        while True:
            now = anyio.current_time()
            if (won := schedule.take()) is not None:
                ran.winner, ran.ended_at = names[won], usable_at[won]
                break
            if schedule.is_exhausted or schedule.is_expired(now):
                ran.ended_at = now
                break
            for index in schedule.start_due(now):
                ran.started.append(names[index])
                group.start_soon(attempt, index)
            wake = anyio.Event()
            due = schedule.next_timeout()
            with anyio.move_on_after(math.inf if due is None else due - now):
                await wake.wait()
        group.cancel_scope.cancel()
    if ran.winner is None:
        for name in ran.started:
            ran.errors.setdefault(name, TimeoutError())
    return ran
