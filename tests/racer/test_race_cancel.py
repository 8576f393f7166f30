"""Cancellation at every point of a dial and of a race, by anyio's means and by asyncio's own: nothing is left (R9)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from racer import Entrant, Outcome
from racer.abc import Traits
from racer.errors import AllAttemptsFailed, DialError, DialTimeout
from racer.testing import (
    Lifecycle,
    ScriptedRequestTransport,
    ScriptedTransport,
    cancel_everywhere,
    fails,
    hangs,
    run_virtual,
    wins,
)
from tests.racer.scene import HOST, Acting, Scene
from tests.racer.test_race_tls import behind, says_nothing, server_context, speaks_tls, trusting

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from racer.testing import CancelSweep, MemoryStream

virtual_time = pytest.mark.virtual_time

PASSES = 6  # of the scheduler, after each moment: a hand-over takes two, a handshake in memory a few more


async def sweep(
    make: Callable[[], Scene],
    use: Callable[[Scene], Awaitable[None]],
    *,
    warm: bool = True,
) -> None:
    """Cancel `use` everywhere, each time on a new scene, and look for what is left.

    Args:
        make: makes the scene.
        use: what is cancelled; closes what it was handed.
        warm: whether the dialer has been used before.
    """
    scenes: list[Scene] = []

    async def dial_well(scene: Scene) -> None:
        async with await scene.dial():
            pass
        await scene.assert_clean()

    async def setup() -> None:
        scene = make()
        scenes.append(scene)
        if warm:
            await dial_well(scene)

    async def verify() -> None:
        scene = scenes.pop()
        await scene.assert_clean()
        await dial_well(scene)
        async with scene:
            pass
        assert not scene.dialer._host._running

    async def story() -> None:
        await use(scenes[-1])

    demand_cuts(await cancel_everywhere(story, setup=setup, verify=verify, passes=PASSES))


def demand_cuts(swept: CancelSweep) -> None:
    """Check that the sweep was one: it cut the story at many points."""
    assert swept.cancelled >= 10


async def dials(scene: Scene) -> None:
    async with await scene.dial() as connection:
        await connection.send(b"hello")


async def walks(scene: Scene) -> None:
    """Take one finisher after the other, hold each for a while, and leave with one under way."""
    async with scene.dialer.race(HOST, 80, kind="any") as race:
        async for connection in race:
            async with connection:
                await anyio.sleep(0.25)
            if connection.transport_name == "c":
                break


# --- dials ------------------------------------------------------------------------------------------


def a_race_won() -> Scene:
    """A winner, one that arrives in the same pass, one that is slow to close, one that cleans up, one to come."""
    return Scene(
        ScriptedTransport("a", wins(0.5)),
        ScriptedTransport("b", wins(0.5, close_delay=0.5)),
        ScriptedTransport("c", wins(0.5, close_hangs=True)),
        ScriptedTransport("d", hangs().slow_cleanup(0.25)),
        Entrant(ScriptedTransport("e", wins()), start_delay=0.5),
    )


@virtual_time
async def test_a_dial_that_wins() -> None:
    await sweep(a_race_won, dials)


@virtual_time
async def test_the_first_dial_which_brings_the_host_to_life() -> None:
    def make() -> Scene:
        slow_to_start = Lifecycle(start_takes=0.25)
        return Scene(
            ScriptedTransport("a", wins(0.25), lifecycle=slow_to_start),
            ScriptedTransport("b", wins(0.25), lifecycle=slow_to_start),
            Entrant(ScriptedTransport("c", hangs()), start_delay=0.25),
        )

    await sweep(make, dials, warm=False)


@virtual_time
async def test_a_dial_in_which_all_fail() -> None:
    def make() -> Scene:
        return Scene(
            ScriptedTransport("a", wins().then(fails(0.25))),
            Entrant(ScriptedTransport("b", fails(0.25)), start_delay=0.5),
            Entrant(ScriptedTransport("c", wins(0.25)), tier=1),
        )

    async def use(scene: Scene) -> None:
        with pytest.raises(AllAttemptsFailed):
            await scene.dial(exclude="c")

    await sweep(make, use)


@virtual_time
async def test_a_dial_that_runs_into_its_deadline() -> None:
    def make() -> Scene:
        return Scene(
            ScriptedTransport("a", hangs().slow_cleanup(0.25)),
            ScriptedTransport(
                "b", hangs().ignores_cancel(0.25), traits=Traits(attempt_timeout=0.5)
            ),
            Entrant(ScriptedTransport("c", wins(0.25)), start_delay=8.0),
        )

    async def use(scene: Scene) -> None:
        with pytest.raises(DialTimeout):
            await scene.dial(timeout=1.0, exclude="c")

    await sweep(make, use)


@virtual_time
async def test_a_dial_with_a_check_that_talks() -> None:
    async def check(stream: Any) -> bool:
        await stream.send(b"are you there?")
        await anyio.sleep(0.25)
        return bool(stream.name != "a")

    async def use(scene: Scene) -> None:
        async with await scene.dial(check=check) as connection:
            await connection.send(b"hello")

    def make() -> Scene:
        return Scene(
            ScriptedTransport("a", wins(0.25, close_delay=0.5)),
            ScriptedTransport("b", wins(0.25)),
            ScriptedTransport("c", wins(0.25)),
        )

    await sweep(make, use)


@virtual_time
async def test_a_dial_with_tls() -> None:
    """The handshakes go on in the pass of the win: the raw streams are at every stage of being wrapped."""

    async def use(scene: Scene) -> None:
        async with await scene.dial(port=443, tls=trusting()) as connection:
            await connection.send(b"hello")
            assert await connection.receive() == b"hello"

    def make() -> Scene:
        serve = speaks_tls(server_context(HOST))
        return Scene(
            behind(serve, "a", wins(0.25)),
            behind(serve, "b", wins(0.25, close_delay=0.5)),
            behind(says_nothing, "c", wins(0.125)),
        )

    await sweep(make, use)


# --- races ------------------------------------------------------------------------------------------


@virtual_time
async def test_a_race_walked_through() -> None:
    async def answer(request: object) -> object:
        return request

    def make() -> Scene:
        return Scene(
            ScriptedTransport("a", wins(0.25)),
            ScriptedTransport("b", fails(0.25)),
            ScriptedRequestTransport("amp", wins(0.5), answer=answer),
            ScriptedTransport("c", wins(0.5, close_delay=0.25)),
            ScriptedTransport("d", wins(0.75, close_hangs=True)),
            ScriptedTransport("e", hangs().slow_cleanup(0.25)),
        )

    await sweep(make, walks)


@virtual_time
async def test_a_race_left_with_finishers_untaken() -> None:
    async def use(scene: Scene) -> None:
        async with scene.dialer.race(HOST, 80) as race, await anext(race):
            await anyio.sleep(1.0)

    await sweep(a_race_won, use)


@virtual_time
async def test_a_race_to_its_end() -> None:
    def make() -> Scene:
        return Scene(
            ScriptedTransport("a", wins(0.25)),
            ScriptedTransport("b", hangs(), traits=Traits(attempt_timeout=0.5)),
        )

    await sweep(make, walks)


# --- a dialer's whole life --------------------------------------------------------------------------


@virtual_time
async def test_a_dialers_life_from_enter_to_exit() -> None:
    scenes: list[Scene] = []

    async def story() -> None:
        scene = a_race_won()
        scenes.append(scene)
        async with scene.dialer:
            await dials(scene)

    async def verify() -> None:
        scene = scenes.pop()
        await anyio.sleep(3.0)
        assert scene.open_streams == []
        assert [guest.name for guest in scene.guests if guest.running] == []
        scene.spans.assert_all_ended()
        async with scene:
            pass

    demand_cuts(await cancel_everywhere(story, verify=verify, passes=PASSES))


@pytest.mark.every_loop
async def test_on_real_clocks_too() -> None:
    """Without a timer anywhere, since these clocks do not stand still; uvloop has no other."""

    async def act(guest: Acting) -> MemoryStream:
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        return guest.stream()

    def make() -> Scene:
        return Scene(Acting("a", act), Acting("b", act), ScriptedTransport("c", hangs()))

    await sweep(make, dials)


# --- the instant of the win -------------------------------------------------------------------------


@virtual_time
async def test_a_cancellation_in_the_instant_of_the_win_goes_on_and_the_winner_is_closed() -> None:
    scopes: list[anyio.CancelScope] = []

    async def win(guest: Acting) -> MemoryStream:
        await anyio.sleep(1.0)
        return guest.stream()

    async def cancel_the_caller(guest: Acting) -> None:
        await anyio.sleep(1.0)
        scopes[-1].cancel()

    async with Scene(Acting("a", win), Acting("b", win), Acting("c", cancel_the_caller)) as scene:
        for _ in range(20):
            with anyio.CancelScope() as scope:
                scopes.append(scope)
                await scene.dial()
                pytest.fail("returned")
            assert scope.cancelled_caught
            await scene.assert_clean()
            last = scene.dialer.status()["a"].last
            assert last is not None
            assert last.outcome is Outcome.CANCELLED


@virtual_time
async def test_a_dial_that_is_cancelled_before_it_begins_asks_no_guest_for_anything() -> None:
    async with Scene(ScriptedTransport("a"), ScriptedTransport("b")) as scene:
        await dials(scene)
        asked = [len(guest.attempts) for guest in scene.guests]
        with anyio.CancelScope() as scope:
            scope.cancel()
            await scene.dial()
            pytest.fail("returned")
        with anyio.CancelScope() as scope:
            scope.cancel()
            async with scene.dialer.race(HOST, 80):
                pytest.fail("entered")
        await scene.assert_clean()
        assert [len(guest.attempts) for guest in scene.guests] == asked


# --- asyncio's own timeouts around the win ----------------------------------------------------------


@pytest.mark.parametrize("how", ["wait_for", "timeout"])
def test_a_hundred_of_asyncios_timeouts_around_the_win(how: str) -> None:
    """The win comes some passes after the timer of its instant, the timeout up to some passes before or after it."""
    ends: list[str] = []

    async def dial(scene: Scene, limit: float) -> None:
        if how == "wait_for":
            connection = await asyncio.wait_for(scene.dial(), limit)
        else:
            async with asyncio.timeout(limit):
                connection = await scene.dial()
        await connection.aclose()

    async def main(passes: int, limit: float) -> None:
        async def act(guest: Acting) -> MemoryStream:
            await anyio.sleep(1.0)
            for _ in range(passes):
                await anyio.lowlevel.checkpoint()
            return guest.stream()

        async with Scene(Acting("a", act), Acting("b", act)) as scene:
            try:
                await dial(scene, limit)
                ends.append("connected")
            except DialError:
                raise
            except TimeoutError:
                ends.append("timed out")
            await scene.assert_clean()
            async with await scene.dial() as connection:
                assert connection.transport_name == "a"
            await scene.assert_clean()

    for passes in range(10):
        for step in range(-5, 5):
            run_virtual(main, passes, 1.0 + step * 2**-52)
    assert len(ends) == 100
    assert set(ends) == {"connected", "timed out"}
