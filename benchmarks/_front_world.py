"""Fronts that are made up: each does what a plan says, on whatever clock runs."""

from __future__ import annotations

import errno
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import anyio

from racer.errors import AttemptTimeout, NetworkError, NotUsable
from transports.fronting._hunt import Hunter
from transports.fronting._pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from transports.fronting._catalog import Catalog, Front

__all__ = ("Fate", "MadeUpLine", "World", "hunter_in")


@dataclass(frozen=True)
class Fate:
    """What becomes of a try: `works`, `hangs`, `refuses`, `unvetted` or `offline`, after some seconds."""

    ending: str = "works"
    after: float = 0.15


class MadeUpConnection:
    is_idle = True


class MadeUpLine:
    """A line that counts itself."""

    def __init__(self, world: World, front: Front) -> None:
        self.world = world
        self.front = front
        self.connection = MadeUpConnection()
        self.is_open = True
        world.open += 1

    async def aclose(self) -> None:
        if self.is_open:
            self.is_open = False
            self.world.open -= 1
        await anyio.lowlevel.checkpoint()


@dataclass
class World:
    """Every front's fate, told by a function of front and time."""

    fate: Callable[[Front, float], Fate]
    dials: list[tuple[float, Front, str]] = field(default_factory=list)
    open: int = 0

    async def dial(self, front: Front, provider: object, make: object) -> MadeUpLine:
        del provider, make
        now = anyio.current_time()
        fate = self.fate(front, now)
        self.dials.append((now, front, fate.ending))
        match fate.ending:
            case "hangs":
                await anyio.sleep(5.0)
                raise AttemptTimeout("no connection within 5 s")
            case "offline":
                await anyio.lowlevel.checkpoint()
                raise NetworkError("no network") from OSError(errno.ENETUNREACH, "unreachable")
            case "refuses":
                await anyio.sleep(fate.after)
                raise NetworkError("refused")
            case _:
                await anyio.sleep(fate.after)
                return MadeUpLine(self, front)

    async def vet(self, line: MadeUpLine, provider: object) -> None:
        del provider
        fate = self.fate(line.front, anyio.current_time())
        await anyio.sleep(0.05)
        if fate.ending == "unvetted":
            raise NotUsable("the vetting was answered with 403")


def hunter_in(world: World, catalog: Catalog, seed: int = 1) -> tuple[Hunter, Pool]:
    pool = Pool(catalog, rng=random.Random(seed))
    made = Hunter(cast("Any", world), pool, lambda: cast("Any", None), lambda: None)
    return made, pool
