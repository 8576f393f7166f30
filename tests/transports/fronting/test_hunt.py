"""Tries overlap, the first that does wins, every other is closed, and each teaches the pool; in exact times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from benchmarks._front_world import Fate, World, hunter_in
from racer.errors import NetworkError, NotUsable, TransportBusy
from racer.testing import cancel_everywhere
from tests.transports.fronting.lists import catalog, provider

if TYPE_CHECKING:
    from transports.fronting._catalog import Front

pytestmark = pytest.mark.virtual_time

HOST = "api.example.com"


def order(*fates: Fate) -> World:
    """Return a world in which the fronts that are tried one after the other have these fates."""
    left, known = list(fates), {}

    def fate(front: Front, now: float) -> Fate:
        if front.key not in known:
            known[front.key] = left.pop(0)
        return known[front.key]

    return World(fate)


async def test_the_first_that_does_wins_at_once() -> None:
    world = order(Fate("works", 0.1))
    hunter, pool = hunter_in(world, catalog(one=provider("one", 1)))
    found = await hunter.hunt(HOST)
    assert anyio.current_time() == pytest.approx(0.15)  # with the vetting
    assert pool.proven(anyio.current_time()) == 1
    again = await hunter.hunt(HOST)
    assert again.front == found.front
    assert anyio.current_time() == pytest.approx(0.25)  # without
    await found.line.aclose()
    await again.line.aclose()
    assert world.open == 0


async def test_two_that_hang_are_overtaken_after_the_stagger() -> None:
    world = order(Fate("hangs"), Fate("hangs"), Fate("works", 0.1))
    hunter, pool = hunter_in(world, catalog(one=provider("one"), two=provider("two")))
    found = await hunter.hunt(HOST)
    assert anyio.current_time() == pytest.approx(0.75 + 0.15)
    assert [round(at, 2) for at, *_ in world.dials] == [0.0, 0.0, 0.75]
    assert {front.provider for _, front, _ in world.dials[:2]} == {"one", "two"}
    assert pool.resting(1.0) == 0  # who lost has not failed (R11)
    await found.line.aclose()


async def test_one_that_fails_makes_room_at_once() -> None:
    world = order(Fate("refuses", 0.1), Fate("unvetted", 0.1), Fate("hangs"), Fate("works", 0.1))
    hunter, pool = hunter_in(world, catalog(one=provider("one", 9)))
    found = await hunter.hunt(HOST)
    # The third begins when the first has failed, after 0.1 s, and the fourth when the second has.
    assert [round(at, 2) for at, *_ in world.dials] == [0.0, 0.0, 0.1, 0.15]
    assert anyio.current_time() == pytest.approx(0.15 + 0.15)
    assert pool.resting(anyio.current_time()) == 2
    await found.line.aclose()
    assert world.open == 0


async def test_two_that_do_in_the_same_instant_leave_one_line() -> None:
    world = order(Fate("works", 0.1), Fate("works", 0.1))
    hunter, pool = hunter_in(world, catalog(one=provider("one")))
    found = await hunter.hunt(HOST)
    assert anyio.current_time() == pytest.approx(0.15)
    await found.line.aclose()
    assert world.open == 0
    assert all(s.leases == 0 for s in pool._standings.values())


async def test_no_more_than_four_at_once_and_sixteen_in_all() -> None:
    world = World(lambda front, now: Fate("hangs"))
    hunter, _ = hunter_in(world, catalog(one=provider("one", 40)))
    with pytest.raises(NetworkError, match="no front could be used") as caught:
        await hunter.hunt(HOST)
    starts = [round(at, 2) for at, *_ in world.dials]
    assert starts[:8] == [0.0, 0.0, 0.75, 1.5, 5.0, 5.0, 5.75, 6.5]
    assert isinstance(caught.value.__cause__, ExceptionGroup)
    assert len(caught.value.__cause__.exceptions) == 16
    assert caught.value.error_type == "timeout"
    assert anyio.current_time() == starts[-1] + 5 == 21.5


async def test_being_offline_teaches_nothing() -> None:
    world = World(lambda front, now: Fate("offline"))
    hunter, pool = hunter_in(world, catalog(one=provider("one", 30)))
    with pytest.raises(NetworkError):
        await hunter.hunt(HOST)
    assert (
        len(world.dials) == 2
    )  # where there is no way to two addresses, there is none to others of their kind
    assert pool.resting(0) == 0
    assert pool.demoted(0) == ()


async def test_a_network_without_ipv6_costs_no_more_than_two_tries() -> None:
    """radiance#520."""
    world = World(lambda front, now: Fate("offline" if ":" in front.address else "works", 0.1))
    fronts = [
        {"domain": f"f{n}.example.org", "ipaddress": f"2001:db8::{n:x}" if n else "192.0.2.1"}
        for n in range(60)
    ]
    hunter, _ = hunter_in(world, catalog(one=provider("one", masquerades=fronts)))
    found = await hunter.hunt(HOST)
    assert found.front.address == "192.0.2.1"
    assert len(world.dials) <= 3
    await found.line.aclose()


async def test_when_no_socket_is_left_nothing_more_is_tried() -> None:
    class Full(World):
        async def dial(self, *args: object) -> object:  # type: ignore[override]
            self.dials.append((0.0, *args[:1], "full"))  # type: ignore[arg-type]
            raise TransportBusy("32 connections are open")

    world = Full(lambda front, now: Fate())
    hunter, pool = hunter_in(world, catalog(one=provider("one")))
    with pytest.raises(TransportBusy):
        await hunter.hunt(HOST)
    assert len(world.dials) == 2
    assert pool.resting(0) == 0


async def test_what_is_out_of_the_question_is_not_tried() -> None:
    world = World(lambda front, now: Fate())
    hunter, pool = hunter_in(world, catalog(one=provider("one", 2)))
    keys = set(pool._standings)
    with pytest.raises(NotUsable, match="no front left"):
        await hunter.hunt(HOST, tried=keys)
    assert world.dials == []


async def test_a_providers_fault_does_not_use_up_the_tries() -> None:
    """domainfront#15, at the level of connections: one network is blocked, the other is not."""
    world = World(lambda front, now: Fate("hangs" if front.provider == "blocked" else "works", 0.1))
    hunter, _ = hunter_in(
        world, catalog(blocked=provider("blocked", 200), free=provider("free", 2))
    )
    found = await hunter.hunt(HOST)
    assert found.front.provider == "free"
    assert anyio.current_time() == pytest.approx(0.15)
    await found.line.aclose()


async def test_cancelled_anywhere_nothing_stays_open_or_leased() -> None:
    world = World(lambda front, now: Fate("works" if front.domain[5] in "03" else "refuses", 0.8))
    hunter, pool = hunter_in(world, catalog(one=provider("one"), two=provider("two")))

    async def story() -> None:
        found = await hunter.hunt(HOST)
        try:
            await anyio.lowlevel.checkpoint()
        finally:
            await found.line.aclose()

    async def verify() -> None:
        assert world.open == 0
        assert all(s.leases == 0 for s in pool._standings.values())
        assert all(g.leases == 0 for g in pool._graces.values())

    sweep = await cancel_everywhere(story, verify=verify)
    assert sweep.cancelled > 5
