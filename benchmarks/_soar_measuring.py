"""How the Soar benchmark takes its samples: every tunnel through every resolver over every link, one at a time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

from benchmarks._results import Unusable
from benchmarks._soar_lab import Ground, Host, Lab, free_ports, running, said
from benchmarks._soar_peers import Place, prepare
from benchmarks._soar_processes import cpu_seconds
from benchmarks._soar_resolvers import resolver_of
from benchmarks._soar_samples import OURS, Sample

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from benchmarks._soar_links import Link
    from benchmarks._soar_peers import Peer

__all__ = ("ZONE", "Plan", "measure")

ZONE: Final = "t.example.com"
_KINDS: Final = ("start", "down", "up")
_SETTLE: Final = 0.5  # seconds that a peer's server has to listen
_FAREWELL: Final = 3.0  # seconds that a client has to end by itself
_LIMIT: Final = 90.0  # seconds, beside what a client is asked to take


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured.

    Attributes:
        runs: starts, and transfers each way, of each tunnel over each link.
        warm: further streams of each start.
        seconds: that a transfer takes.
        patience: seconds that a peer has to come up.
        seed: of the links' dice.
        ground: what the links are made of.
    """

    runs: int
    warm: int
    seconds: float
    patience: float
    seed: int
    ground: Ground


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """A tunnel whose server and resolver run."""

    job: dict[str, Any]
    server: list[int]
    resolver: list[int]


async def measure(
    link: Link,
    resolvers: Sequence[str],
    peers: Sequence[Peer],
    plan: Plan,
    *,
    tell: Callable[[str, list[Sample]], None],
    done: Callable[[str], None],
) -> list[Sample]:
    """Return the samples of one link; peers are measured through the first resolver.

    Args:
        link: over which.
        resolvers: through which.
        peers: beside our own tunnel.
        plan: how much.
        tell: is told of each resolver's samples as they are there.
        done: is told in words what is over.

    Raises:
        Unusable: the links cannot be made, or a resolver does not answer.
    """
    samples: list[Sample] = []
    async with Lab.of(link, plan.ground, seed=plan.seed) as lab:
        origin = [sys.executable, "-m", "benchmarks._soar_far", "origin", str(lab.origin.port)]
        async with running(lab.command(Host.SERVER, *origin)) as process:
            await said(process)
            for number, resolver in enumerate(resolvers):
                found: list[Sample] = []
                for peer in (None, *(peers if number == 0 else ())):
                    name = OURS if peer is None else peer.name
                    sample = partial(Sample, link=link.name, resolver=resolver, tunnel=name)
                    found += await _tunnel(
                        peer, resolver, lab=lab, plan=plan, sample=sample, done=done
                    )
                samples += found
                tell(resolver, found)
    return samples


async def _tunnel(
    peer: Peer | None,
    resolver: str,
    *,
    lab: Lab,
    plan: Plan,
    sample: Callable[..., Sample],
    done: Callable[[str], None],
) -> list[Sample]:
    """Return one tunnel's samples, through a resolver and a server of its own."""
    if peer is not None and peer.fixed_port and plan.ground is not Ground.NAMESPACES:
        reason = "asks port 53 alone: only network namespaces have one to give"
        return [sample(what="start", run=0, failed=reason)]
    samples: list[Sample] = []
    async with anyio.TemporaryDirectory(prefix="racer-") as folder:
        try:
            async with _far(peer, lab, Path(folder)) as (job, server):
                (Path(folder) / "resolver").mkdir()
                async with resolver_of(resolver, lab, ZONE, Path(folder) / "resolver") as pids:
                    tunnel = _Running(job=job, server=server, resolver=pids)
                    for run in range(plan.runs):
                        for what in _KINDS:
                            one = await _sample(tunnel, what, lab, plan)
                            samples.append(sample(what=what, run=run, **one))
                            done(f"{samples[-1].link}, {resolver}, {samples[-1].tunnel}: {what}")
                            if peer is not None and samples[0].failed:
                                return samples  # who does not come up has had its time
        except (OSError, subprocess.CalledProcessError) as exc:
            if peer is None:
                raise
            samples.append(sample(what="start", run=0, failed=f"could not be started: {exc}"))
        except Unusable as exc:
            if peer is None:
                raise
            samples.append(sample(what="start", run=0, failed=str(exc)))
    return samples


@asynccontextmanager
async def _far(
    peer: Peer | None, lab: Lab, folder: Path
) -> AsyncIterator[tuple[dict[str, Any], list[int]]]:
    """Run a tunnel's server, and yield what its client has to know, and the server's processes."""
    if peer is None:
        words = [ZONE, *map(str, lab.listens), f"{lab.origin.host}:{lab.origin.port}"]
        command = [sys.executable, "-m", "benchmarks._soar_far", "server", *words]
        async with running(lab.command(Host.SERVER, *command)) as process:
            job = {"domain": ZONE, "key": await said(process), "target": lab.origin}
            yield job | {"resolver": f"{lab.asks.host}:{lab.asks.port}"}, [process.pid]
        return
    place = Place(
        folder=folder,
        zone=ZONE,
        listens=lab.listens,
        asks=lab.asks,
        origin=lab.origin,
        local=free_ports(1)[0],
    )
    await prepare(peer, place)
    command = lab.command(Host.SERVER, *peer.server(place))
    async with running(command, log=folder / "server.log") as process:
        await anyio.sleep(_SETTLE)
        job = {"command": peer.client(place), "target": peer.target(place)}
        yield job | {"log": str(folder / "client.log")}, [process.pid]


async def _sample(tunnel: _Running, what: str, lab: Lab, plan: Plan) -> dict[str, Any]:
    """Return what one new client has measured, as arguments of `Sample`."""
    limit = plan.seconds if what != "start" else 0.0
    job = {**tunnel.job, "what": what, "warm": plan.warm, "patience": plan.patience}
    if what != "start":
        job["seconds"] = plan.seconds
    crossed = await lab.counts()
    server, resolver = cpu_seconds(tunnel.server), cpu_seconds(tunnel.resolver)
    job["spawned"] = time.monotonic()
    command = [sys.executable, "-m", "benchmarks._soar_near", json.dumps(job)]
    async with running(lab.command(Host.CLIENT, *command)) as process:
        try:
            line = await said(process, within=plan.patience + limit + _LIMIT)
        except Unusable:
            line = '{"failed": "its client ended, or hung, without a word"}'
        told: dict[str, Any] = json.loads(line)
        told["questions"] = (await lab.counts()).questions - crossed.questions
        told["server_cpu"] = cpu_seconds(tunnel.server) - server
        told["resolver_cpu"] = cpu_seconds(tunnel.resolver) - resolver
        assert process.stdin is not None
        await process.stdin.aclose()
        with anyio.move_on_after(_FAREWELL):
            await process.wait()
    told["client_cpu"] = told.pop("cpu", 0.0)
    if "warm" in told:
        told["warm"] = tuple(told["warm"])
    return told
