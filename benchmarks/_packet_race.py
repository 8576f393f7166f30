"""Dialers in networks of packets, as samples beside those of the other networks. Linux and root are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks._networks import Kind
from benchmarks._samples import Sample
from benchmarks._wire import DOT, NETWORKS, SYSTEM, Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks._wire import Censor

__all__ = ("DIALERS", "measure_packets")

DIALERS: Final = ("racer", "connect_tcp")


async def measure_packets(
    *, runs: int, deadline: float, tell: Callable[[Kind, list[Sample]], None]
) -> None:
    """Tell of each network, and every dialer's samples in it.

    Args:
        runs: how often each dialer is sent into it.
        deadline: seconds for each dial.
        tell: takes a network and its samples.
    """
    async with Wire.of() as wire:
        for dialer in DIALERS:  # what is loaded once is no part of a connection
            await wire.use(NETWORKS[0], resolvers=[SYSTEM, DOT], dialer=dialer, timeout=deadline)
        for censor in NETWORKS:
            kind = Kind(name=f"packets: {censor.name}", words=censor.words)
            samples = [
                await _sample(wire, censor, dialer, kind.name, run, deadline)
                for run in range(runs)
                for dialer in DIALERS[run % 2 :] + DIALERS[: run % 2]
            ]
            tell(kind, samples)


async def _sample(  # noqa: PLR0917 - one place calls it
    wire: Wire, censor: Censor, dialer: str, network: str, run: int, deadline: float
) -> Sample:
    (found,) = await wire.use(censor, resolvers=[SYSTEM, DOT], dialer=dialer, timeout=deadline)
    usable = found["winner"] is not None
    return Sample(
        network=network,
        dialer=dialer,
        run=run,
        seed=0,
        usable=usable,
        seconds=found["seconds"],
        winner=found["winner"],
        started=found["started"],
        opened=wire.connections,
        wasted=wire.connections - usable,
        reached=wire.reached,
        errors=found["errors"],
    )
