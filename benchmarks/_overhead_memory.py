"""Memory: of a dial that is under way, of a connection that is there, and of an idle session of Soar's server."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel

import racer
from benchmarks._memory import Memory
from racer.abc import Transport

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from anyio.abc import ByteStream

    from racer.abc import Progress, Target

__all__ = ("MemoryCost", "measure_memory")

_ROOT: Final = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCost:
    """What one of many takes.

    Attributes:
        what: of what.
        number: how many there were.
        octets: for each of them.
    """

    what: str
    number: int
    octets: float


class _Waiting:
    """Counts who waits for ever."""

    def __init__(self) -> None:
        self.number = 0

    async def wait(self) -> None:
        self.number += 1
        await anyio.sleep_forever()


class _Hanging(Transport):
    """Never gives a stream."""

    def __init__(self, name: str, waiting: _Waiting) -> None:
        self.name = name
        self._waiting = waiting

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        """Wait for ever."""
        del target, progress
        await self._waiting.wait()
        raise AssertionError


def measure_memory(*, dials: int, sessions: int) -> list[MemoryCost]:
    """Return what is allocated for each dial that is under way and each connection; on asyncio, without an SDK.

    Beside them stands a task that only waits: what any dial needs at least. What an idle session of Soar's server
    takes of the machine is measured in a process of its own.
    """
    return [
        *anyio.run(_allocated, dials),
        MemoryCost(
            what="an idle session of Soar's server", number=sessions, octets=_of_sessions(sessions)
        ),
    ]


async def _allocated(dials: int) -> list[MemoryCost]:
    waiting = _Waiting()

    async def wait(_: racer.Dialer) -> None:
        await waiting.wait()

    async def dial(dialer: racer.Dialer) -> None:
        await dialer.dial("127.0.0.1", 9, tls=False)

    async def hold(dialer: racer.Dialer) -> None:
        async with await dialer.dial("127.0.0.1", 9, tls=False):
            await waiting.wait()

    def hanging(number: int) -> list[Transport]:
        return [_Hanging(f"hanging-{n}", waiting) for n in range(number)]

    kinds: list[
        tuple[str, list[Transport], Callable[[racer.Dialer], Coroutine[object, object, None]]]
    ] = [
        ("a task that waits", [], wait),
        ("a dial under way, 1 entrant", hanging(1), dial),
        ("a dial under way, 5 entrants", hanging(5), dial),
        ("a connection", [Memory()], hold),
    ]
    found = []
    for what, guests, task in kinds:
        async with racer.Dialer(guests or [Memory()]) as dialer:
            octets = await _of_tasks(dialer, task, dials, waiting, max(1, len(guests)))
        found.append(MemoryCost(what=what, number=dials, octets=octets / dials))
    return found


async def _of_tasks(
    dialer: racer.Dialer,
    task: Callable[[racer.Dialer], Coroutine[object, object, None]],
    number: int,
    waiting: _Waiting,
    each: int,
) -> int:
    """Return what so many tasks have allocated once all of them wait, `each` times."""

    async def begin(tasks: int) -> None:
        until = waiting.number + tasks * each
        for _ in range(tasks):
            group.start_soon(task, dialer)
        while waiting.number < until:
            await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        gc.collect()

    async with anyio.create_task_group() as group:
        await begin(1)  # what the first one loads and keeps is not counted
        tracemalloc.start()
        try:
            await begin(number)
            octets, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        group.cancel_scope.cancel()
    return octets


def _of_sessions(number: int) -> float:
    command = [sys.executable, "-m", "benchmarks.soar_server", "--hold", "--sessions", str(number)]
    done = subprocess.run(  # noqa: S603 - our own interpreter
        command, cwd=_ROOT, capture_output=True, check=True, text=True
    )
    octets: float = json.loads(done.stdout)["octets a session"]
    return octets
