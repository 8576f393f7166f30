"""Everybody through every network: how the race benchmark takes its samples."""

from __future__ import annotations

import itertools
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from benchmarks._dialers import DIALERS
from benchmarks._networks import ADDRESS, HOST, KINDS, World
from benchmarks._samples import Lateness, Sample
from benchmarks._tunnel import Tunnel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks._dialers import Dialed
    from benchmarks._networks import Authorities, Kind

__all__ = ("Plan", "measure", "measure_all")

_PULSE: Final = 0.01  # seconds between two looks at how late the loop is


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a network is measured.

    Attributes:
        runs: how often each dialer is sent into it.
        seed: of the first run's network; the next one's is one more.
        deadline: seconds for each dial.
        in_memory: whether to do without sockets, for virtual clocks.
        side_by_side: whether the dialers of a run go at the same time, each in a network of its own; else one after the
            other, in an order that changes from run to run.
        together: whether networks for which this is so, one behind the other in the list, are one batch: in turn, and
            beside them the one where only DNS gets out.
        resolver: what stands before Soar's server, where there is one.
    """

    runs: int
    seed: int
    deadline: float
    in_memory: bool = False
    side_by_side: bool = False
    together: bool = False
    resolver: str = "unbound"


async def measure(
    kind: Kind,
    authorities: Authorities,
    plan: Plan,
    *,
    done: Callable[[str, int], None] | None = None,
) -> list[Sample]:
    """Return one network's samples.

    Args:
        kind: the network.
        authorities: whose certificates are shown.
        plan: how often, and how.
        done: is told of each dial that is over: dialer and run.

    Raises:
        Unusable: what stands before Soar's server is not installed.
    """
    names = list(DIALERS)
    samples: list[Sample] = []
    async with AsyncExitStack() as stack:
        tunnel = await _tunnel(kind, authorities, plan, stack)

        async def dial(name: str, run: int) -> None:
            seed = plan.seed + run
            async with World.of(
                kind, authorities, seed=seed, in_memory=plan.in_memory, tunnel=tunnel
            ) as world:
                dialed = await DIALERS[name](world, plan.deadline)
                samples.append(_sample(kind, name, world, dialed, run=run, seed=seed))
            if done is not None:
                done(name, run)

        for run in range(plan.runs):
            order = names[run % len(names) :] + names[: run % len(names)]
            if plan.side_by_side:
                async with anyio.create_task_group() as group:
                    for name in order:
                        group.start_soon(dial, name, run)
            else:
                for name in order:
                    await dial(name, run)
    return samples


async def _tunnel(
    kind: Kind, authorities: Authorities, plan: Plan, stack: AsyncExitStack
) -> Tunnel | None:
    if not kind.tunnelled:
        return None
    return await stack.enter_async_context(
        Tunnel.of(HOST, ADDRESS, authorities.trusted, seed=plan.seed, resolver=plan.resolver)
    )


def _sample(
    kind: Kind, dialer: str, world: World, dialed: Dialed, *, run: int, seed: int
) -> Sample:
    usable = dialed.winner is not None
    opened = world.dialed_tcp - dialed.tcp_before + world.has_tunnelled
    return Sample(
        network=kind.name,
        dialer=dialer,
        run=run,
        seed=seed,
        usable=usable,
        seconds=dialed.seconds,
        winner=dialed.winner,
        started=dialed.started,
        opened=opened,
        wasted=opened - usable,
        reached=world.reached - dialed.reached_before,
        errors=dialed.errors,
        report=dialed.report,
    )


async def measure_all(
    authorities: Authorities,
    plans: Sequence[tuple[Kind, Plan]],
    *,
    tell: Callable[[Kind, list[Sample]], None],
    done: Callable[[Kind, str, int], None] | None = None,
) -> tuple[list[Sample], Lateness | None]:
    """Return every sample, and how late the loop was; `None` on a virtual clock, which is never late.

    Args:
        authorities: whose certificates are shown.
        plans: the networks, and how each is measured.
        tell: is told of each network's samples as they are there.
        done: is told of each dial that is over.
    """
    virtual = plans[0][1].in_memory
    # What is loaded, made and compiled once is no part of a connection.
    warm_up = Plan(runs=1, seed=plans[0][1].seed, deadline=5.0, in_memory=virtual)
    await measure(KINDS[0], authorities, warm_up)
    samples: list[Sample] = []
    late: list[float] = []
    gone: BrokenPipeError | None = None
    async with anyio.create_task_group() as group:
        if not virtual:
            group.start_soon(_pulse, late)
        for together, planned in itertools.groupby(plans, key=lambda one: one[1].together):
            for batch in [list(planned)] if together else [[one] for one in planned]:
                found = await _batch(authorities, batch, done)
                samples += [sample for _, there in found for sample in there]
                try:
                    for kind, there in found:
                        tell(kind, there)
                except BrokenPipeError as exc:  # raised outside, where no group is put around it
                    gone = exc
                    break
            if gone is not None:
                break
        group.cancel_scope.cancel()
    if gone is not None:
        raise gone
    return samples, Lateness.of(late) if late else None


async def _batch(
    authorities: Authorities,
    batch: Sequence[tuple[Kind, Plan]],
    done: Callable[[Kind, str, int], None] | None,
) -> list[tuple[Kind, list[Sample]]]:
    """Return the samples of some networks, measured in turn, and beside them where only DNS gets out."""
    found: dict[str, list[Sample]] = {}

    async def one(kind: Kind, plan: Plan) -> None:
        told = None if done is None else partial(done, kind)
        found[kind.name] = await measure(kind, authorities, plan, done=told)

    async def in_turn(planned: list[tuple[Kind, Plan]]) -> None:
        for kind, plan in planned:
            await one(kind, plan)

    async with anyio.create_task_group() as group:
        # Where only DNS gets out, dialers wait for most of ten seconds.
        for is_tunnelled in (True, False):
            group.start_soon(in_turn, [each for each in batch if each[0].tunnelled is is_tunnelled])
    return [(kind, found[kind.name]) for kind, _ in batch]


async def _pulse(late: list[float]) -> None:
    while True:
        due = anyio.current_time() + _PULSE
        await anyio.sleep(_PULSE)
        late.append(anyio.current_time() - due)
