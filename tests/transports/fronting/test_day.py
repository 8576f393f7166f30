"""A day of a pool's life, in no time: 30 % of the fronts broken, a network that goes away, an hour offline, a night."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from benchmarks._front_world import Fate, World, hunter_in
from racer.errors import TransportError
from tests.transports.fronting.lists import catalog, provider
from transports._net.wakeup import Wakeup
from transports.fronting._keeper import keep_proven

if TYPE_CHECKING:
    from transports.fronting._catalog import Front

pytestmark = pytest.mark.virtual_time

HOST = "api.example.com"
HOUR = 3600.0
ALPHA_OFF = (6 * HOUR, 9 * HOUR)  # the larger network refuses all
OFFLINE = (10 * HOUR, 11 * HOUR)
NIGHT = 16 * HOUR
BROKEN = ("hangs", "refuses", "unvetted")


def fate(front: Front, now: float) -> Fate:
    """Three in ten are broken for good, each in one of three ways; the rest answers in 0.1 to 0.4 s."""
    number = hashlib.sha256(repr(front.key).encode()).digest()
    if OFFLINE[0] <= now < OFFLINE[1]:
        return Fate("offline")
    if front.provider == "alpha" and ALPHA_OFF[0] <= now < ALPHA_OFF[1]:
        return Fate("unvetted", 0.2)
    if number[0] < 77:
        return Fate(BROKEN[number[1] % 3], 0.2)
    return Fate("works", 0.1 + number[2] / 850)


@dataclass
class Diary:
    took: list[tuple[float, float, str]] = field(default_factory=list)  # when, how long, whose
    failed: list[float] = field(default_factory=list)


async def live(world: World, hunter: Any, asked: Wakeup, diary: Diary) -> None:
    """Ask once in five minutes, and not at night."""
    while anyio.current_time() < NIGHT:
        began = anyio.current_time()
        try:
            found = await hunter.hunt(HOST)
        except TransportError:
            diary.failed.append(began)
        else:
            diary.took.append((began, anyio.current_time() - began, found.front.provider))
            await found.line.aclose()
        asked.set()
        await anyio.sleep(300 - (anyio.current_time() - began))


async def test_a_day() -> None:
    world = World(fate)
    fronts = catalog(alpha=provider("alpha", 200), beta=provider("beta", 50))
    hunter, pool = hunter_in(world, fronts)
    asked, diary = Wakeup(), Diary()
    demoted_at: set[str] = set()
    async with anyio.create_task_group() as group:
        group.start_soon(keep_proven, pool, hunter, asked)
        group.start_soon(live, world, hunter, asked, diary)
        while anyio.current_time() < 24 * HOUR:
            await anyio.sleep(600)
            demoted_at.update(pool.demoted(anyio.current_time()))
        group.cancel_scope.cancel()

    # Whoever was online got a line, and nobody waited long.
    assert all(OFFLINE[0] <= at < OFFLINE[1] for at in diary.failed)
    assert len(diary.took) + len(diary.failed) == NIGHT / 300
    assert max(took for _, took, _ in diary.took) < 3.0
    assert sorted(took for _, took, _ in diary.took)[len(diary.took) // 2] < 0.45
    # While the larger network refused, the other carried all; then it came back.
    off = [whose for at, _, whose in diary.took if ALPHA_OFF[0] + 600 <= at < ALPHA_OFF[1]]
    assert set(off) == {"beta"}
    assert "alpha" in [whose for at, _, whose in diary.took if at > ALPHA_OFF[1] + HOUR]
    assert "alpha" in demoted_at
    # An hour without a network left the fronts as they were: the first request after it went through at once.
    after = [took for at, took, _ in diary.took if OFFLINE[1] <= at < OFFLINE[1] + 600]
    assert after
    assert max(after) < 1.0
    # Little was wasted, and nothing was dialed at night.
    wasted = [ending for _, _, ending in world.dials if ending in BROKEN]
    assert len(wasted) < len(diary.took) / 2
    offline = [ending for _, _, ending in world.dials if ending == "offline"]
    assert len(offline) < 400
    assert max(at for at, *_ in world.dials) < NIGHT + 300
    assert world.open == 0
