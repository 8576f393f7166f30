"""A world of addresses and names on a virtual clock: each connects, fails or answers when the table says so."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from racer.abc import Progress, Stage
from transports._net.addresses import Family
from transports._net.eyeballs import connect_name
from transports._net.resolve import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from transports._net.resolve import Resolver

__all__ = (
    "BOTH",
    "V4",
    "V6",
    "Diary",
    "Made",
    "Oracle",
    "World",
    "answer4",
    "answer6",
    "answers",
    "connect",
)

V6, V4 = Family.IPV6, Family.IPV4
BOTH = (V6, V4)

Spot = tuple[float, BaseException | None]
"""Seconds an address takes to answer, and the error it answers with; none for a connection."""


@dataclass(eq=False)
class Made:
    """A connection to `address`, of which somebody has to take care."""

    address: str
    is_open: bool = True


@dataclass
class World:
    """What is behind each address, and what happened there."""

    table: dict[str, Spot]
    starts: list[tuple[str, float]] = field(default_factory=list)
    made: list[Made] = field(default_factory=list)
    running: int = 0
    most_running: int = 0

    async def dial(self, address: str, port: int) -> Made:
        assert port == 443
        self.starts.append((address, anyio.current_time()))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            seconds, error = self.table[address]
            await anyio.sleep(seconds)
        finally:
            self.running -= 1
        if error is not None:
            raise error
        made = Made(address)
        self.made.append(made)
        return made

    async def discard(self, made: Made) -> None:
        assert made.is_open, "closed twice"
        made.is_open = False

    @property
    def open(self) -> list[str]:
        return [made.address for made in self.made if made.is_open]


@dataclass
class Oracle:
    """A resolver that reports each answer at its time, and ends at the last one's with `error`, if any."""

    timetable: Sequence[tuple[float, Answer]]
    error: BaseException | None = None
    asked: list[tuple[str, tuple[Family, ...]]] = field(default_factory=list)

    async def resolve(
        self, name: str, families: Sequence[Family], report: Callable[[Answer], None]
    ) -> None:
        self.asked.append((name, tuple(families)))
        began = anyio.current_time()
        for seconds, answer in self.timetable:
            await anyio.sleep_until(began + seconds)
            report(answer)
        if self.error is not None:
            raise self.error


@dataclass
class Diary(Progress):
    """Keeps what an attempt tells."""

    stages: list[Stage] = field(default_factory=list)
    peers: list[tuple[str, int | None]] = field(default_factory=list)

    def stage(self, stage: Stage) -> None:
        self.stages.append(stage)

    def peer(self, address: str, port: int | None = None, *, network: str = "tcp") -> None:
        self.peers.append((address, port))


def answer6(*addresses: str, error: OSError | None = None) -> Answer:
    return Answer(families=(V6,), addresses=addresses, error=error)


def answer4(*addresses: str, error: OSError | None = None) -> Answer:
    return Answer(families=(V4,), addresses=addresses, error=error)


def answers(*addresses: str) -> Answer:
    return Answer(families=BOTH, addresses=addresses)


async def connect(
    world: World,
    resolver: Resolver,
    *,
    families: Sequence[Family] = BOTH,
    attempt_delay: float = 0.25,
    progress: Progress | None = None,
) -> Made:
    return await connect_name(
        "name.example",
        443,
        resolver=resolver,
        families=families,
        dial=world.dial,
        discard=world.discard,
        attempt_delay=attempt_delay,
        resolution_delay=0.05,
        progress=progress or Progress(),
    )
