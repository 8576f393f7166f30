"""Blocks whose tasks end with them: at once, and without adding to what the block raised."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import anyio
import pytest

from racer.errors import ConfigError
from racer.lab._running import Running, Timetable, sleep_until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from racer.lab._running import Tasks

pytestmark = pytest.mark.virtual_time


class Background(Running):
    """Runs one task, and notes whether it was ended."""

    def __init__(self, task: Callable[[], Awaitable[None]] = anyio.sleep_forever) -> None:
        self.ended = False
        self._task = task

    def _start(self, group: Tasks) -> None:
        group.start_soon(self._run)

    async def _run(self) -> None:
        try:
            await self._task()
        finally:
            self.ended = True

    def check(self) -> None:
        self._check_running()


async def test_the_task_ends_with_the_block() -> None:
    async with Background() as background:
        await anyio.sleep(1)
    assert background.ended
    assert anyio.current_time() == 1


@pytest.mark.parametrize("exc", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3)])
async def test_what_the_block_raises_leaves_as_it_was_raised(exc: BaseException) -> None:
    background = Background()
    with pytest.raises(type(exc)) as caught:
        async with background:
            raise exc
    assert caught.value is exc
    assert background.ended


async def test_a_group_that_the_block_raises_leaves_as_it_was_raised() -> None:
    group = ExceptionGroup("mine", [ValueError("x")])
    with pytest.raises(ExceptionGroup) as caught:
        async with Background():
            raise group
    assert caught.value is group


async def test_a_cancelled_block_ends_as_a_cancelled_block() -> None:
    with anyio.CancelScope() as scope:
        async with Background() as background:
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert background.ended


async def test_a_cancelled_block_whose_cleaning_fails_raises_what_it_raised() -> None:
    with anyio.CancelScope() as scope, pytest.raises(ValueError, match="cleaning"):
        async with Background():
            scope.cancel()
            try:
                await anyio.sleep_forever()
            finally:
                raise ValueError("cleaning")


async def fail() -> None:
    await anyio.sleep(1)
    raise AssertionError("a handler's own")


async def test_a_task_that_fails_cancels_the_block_and_leaves_it() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with Background(fail):
            await anyio.sleep_forever()
    assert [str(exc) for exc in caught.value.exceptions] == ["a handler's own"]
    assert anyio.current_time() == 1


async def test_a_task_that_fails_beside_the_block_is_told_with_it_as_cause() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with Background(fail):
            await anyio.sleep(0.5)
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)
            raise ValueError("the block's")
    assert isinstance(caught.value.__cause__, ValueError)


async def test_a_task_that_fails_under_a_group_of_the_block_leaves_it() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with Background(fail), anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
    assert caught.group_contains(AssertionError)


async def test_one_block_at_a_time_and_another_afterwards() -> None:
    background = Background()
    with pytest.raises(ConfigError, match="not running"):
        background.check()
    async with background:
        background.check()
        with pytest.raises(ConfigError, match="running already"):
            await background.__aenter__()
    with pytest.raises(ConfigError, match="not running"):
        background.check()
    async with background:
        background.check()


async def test_it_may_leave_before_it_began() -> None:
    class Failing(Background):
        def _start(self, group: Tasks) -> None:
            super()._start(group)
            raise OSError("taken")

    failing = Failing()
    with pytest.raises(OSError, match="taken"):
        async with failing:
            raise AssertionError
    assert failing.ended
    with pytest.raises(ConfigError, match="not running"):
        failing.check()


async def test_sleeping_until_a_time_ends_at_that_time() -> None:
    await anyio.sleep(0.1)
    when = 0.1 + 0.2 + 1e-9
    await sleep_until(when)
    assert anyio.current_time() == when
    await sleep_until(0)
    assert anyio.current_time() == when
    with anyio.move_on_after(1):
        await sleep_until(math.inf)
        raise AssertionError


async def test_a_timetable_calls_in_order_of_time_and_entry() -> None:
    calls: list[tuple[str, float]] = []
    timetable = Timetable()

    def enter(name: str, when: float) -> None:
        timetable.enter(when, lambda: calls.append((name, anyio.current_time())))

    async with anyio.create_task_group() as group:
        group.start_soon(timetable.run)
        enter("now", 0)
        assert calls == [("now", 0)]
        enter("c", 2)
        enter("a", 1)
        enter("b", 1)
        enter("never", math.inf)
        await anyio.sleep(0.5)
        enter("past", 0.25)
        enter("first", 0.75)
        await anyio.sleep(2)
        group.cancel_scope.cancel()
    assert calls == [("now", 0), ("past", 0.5), ("first", 0.75), ("a", 1), ("b", 1), ("c", 2)]
