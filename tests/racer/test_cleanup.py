"""Closing what races leave behind: in good order, then by force, and whatever happens to the task that does it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import anyio
import pytest

from racer import Dialer
from racer._cleanup import Cleanups, close_within
from racer.testing import MemoryStream, ScriptedTransport, run_virtual, stream_pair, wins
from tests.racer.scene import HOST

if TYPE_CHECKING:
    from racer.testing import BackendName

virtual_time = pytest.mark.virtual_time


class Clumsy:
    """Something that, unlike a good stream, is not free when its closing is cancelled; only a second call frees it."""

    def __init__(self, *errors: Exception) -> None:
        self.calls: list[float] = []
        self.closed = False
        self._errors = list(errors)

    async def aclose(self) -> None:
        self.calls.append(anyio.current_time())
        if self._errors:
            raise self._errors.pop(0)
        if len(self.calls) == 1:
            await anyio.sleep_forever()
        self.closed = True


async def close(stream: MemoryStream | Clumsy, **options: float) -> float:
    await close_within(stream, scope=anyio.CancelScope(), **options)
    return anyio.current_time()


# --- one stream -------------------------------------------------------------------------------------


@virtual_time
@pytest.mark.parametrize(
    ("close_delay", "took", "by_force"),
    [(0.0, 0.0, False), (1.5, 1.5, False), (2.0, 2.0, True), (60.0, 2.0, True)],
)
async def test_it_is_closed_in_two_seconds(close_delay: float, took: float, by_force: bool) -> None:
    near, _far = stream_pair(close_delay=close_delay)
    assert await close(near) == took
    assert (near.closed, near.closed_by_force) == (True, by_force)


@virtual_time
async def test_the_grace_can_be_another() -> None:
    near, _far = stream_pair(close_hangs=True)
    assert await close(near, grace=0.25) == 0.25
    assert near.closed_by_force


@virtual_time
async def test_what_is_not_free_after_the_grace_is_closed_again_by_force() -> None:
    clumsy = Clumsy()
    await close(clumsy)
    assert clumsy.closed
    assert clumsy.calls == [0.0, 2.0]


@virtual_time
async def test_force_can_come_before_and_meanwhile() -> None:
    for early in (True, False):
        near, _far = stream_pair(close_hangs=True)
        scope = anyio.CancelScope()
        began = anyio.current_time()
        async with anyio.create_task_group() as group:
            if early:
                scope.cancel()
            group.start_soon(lambda: close_within(near, scope=scope))  # noqa: B023 - awaited right here
            await anyio.sleep(0.5)
            scope.cancel()
        assert near.closed_at == began + (0.0 if early else 0.5)
        assert near.closed_by_force


@virtual_time
async def test_errors_in_closing_are_logged_without_their_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "racer.host")
    await close(Clumsy(OSError("secret.example refused")))
    assert [record.getMessage() for record in caplog.records] == [
        "closing a stream failed: OSError"
    ]


@virtual_time
async def test_it_runs_to_its_end_under_cancellation() -> None:
    near, _far = stream_pair(close_delay=1.0)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await close(near)
    assert near.closed_at == 1.0
    assert not near.closed_by_force


def test_where_a_native_cancel_cuts_through_the_shield_it_is_closed_by_force_first() -> None:
    async def main() -> None:
        clumsy = Clumsy()
        task = asyncio.create_task(close_within(clumsy, scope=anyio.CancelScope()))
        await anyio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert clumsy.closed
        assert clumsy.calls == [0.0, 0.5]

    run_virtual(main)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_loop_that_ends_first_leaves_no_loser_open(backend: BackendName) -> None:
    """Trio waits for the shield; asyncio cancels through it, and force comes at once (R19)."""
    loser = ScriptedTransport("b", wins(close_delay=0.5))
    ended: list[float] = []

    async def main() -> None:
        dialer = Dialer([ScriptedTransport("a", wins()), loser])
        connection = await dialer.dial(HOST, 80)
        await connection.aclose()
        ended.append(anyio.current_time())
        dialers.append(dialer)  # else it would warn of being dropped

    dialers: list[Dialer] = []
    run_virtual(main, backend=backend)
    stream = loser.attempts[0].stream
    assert stream is not None
    assert stream.closed
    assert stream.closed_by_force == (backend == "asyncio")
    assert ended == [0.0]


# --- all of a host's --------------------------------------------------------------------------------


class Left:
    """Something of an attempt that is still ending."""

    def __init__(self, transport_name: str, decided_at: float = 0.0) -> None:
        self.transport_name = transport_name
        self.decided_at = decided_at
        self.forced = 0

    def force(self) -> None:
        self.forced += 1


def kept(limit: int = 2) -> tuple[Cleanups, list[tuple[str, float]]]:
    done: list[tuple[str, float]] = []
    return Cleanups(limit=limit, on_done=lambda name, took: done.append((name, took))), done


def test_past_the_limit_the_oldest_is_forced_and_still_counted_until_it_ends() -> None:
    cleanups, done = kept(limit=2)
    everyone = [Left(name) for name in "abcd"]
    for one in everyone:
        cleanups.add(one)
    assert [one.forced for one in everyone] == [1, 1, 0, 0]
    assert len(cleanups) == 4
    for now, one in enumerate(everyone):
        cleanups.discard(one, now)
        cleanups.discard(one, now)
    assert len(cleanups) == 0
    assert done == [("a", 0), ("b", 1), ("c", 2), ("d", 3)]


def test_at_the_end_all_are_forced() -> None:
    cleanups, _ = kept(limit=2)
    everyone = [Left(name) for name in "abc"]
    for one in everyone:
        cleanups.add(one)
    cleanups.force_all()
    assert [one.forced for one in everyone] == [1, 1, 1]
    assert len(cleanups) == 3


@virtual_time
async def test_each_is_warned_of_once_a_second_after_its_outcome(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cleanups, _ = kept(limit=9)
    times: list[float] = []

    class Clock(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            times.append(anyio.current_time())
            return True

    clock = Clock()
    logging.getLogger("racer.host").addFilter(clock)
    try:
        quick = Left("quick")
        async with anyio.create_task_group() as group:
            for one in (Left("a", -0.5), Left("b"), Left("b"), quick):
                cleanups.add(one)
            group.start_soon(cleanups.watch)
            await anyio.sleep(0.25)
            cleanups.add(Left("late", 0.25))
            cleanups.discard(quick, 0.25)
    finally:
        logging.getLogger("racer.host").removeFilter(clock)
    assert times == [0.5, 1.0, 1.25]
    assert [record.getMessage() for record in caplog.records] == [
        "transport 'a' has not ended 1.0 s after its attempt was over",
        "transport 'b' has not ended 1.0 s after 2 of its attempts were over",
        "transport 'late' has not ended 1.0 s after its attempt was over",
    ]


@virtual_time
async def test_who_waits_for_the_last_is_told() -> None:
    cleanups, _ = kept()
    await cleanups.drained()
    one, other = Left("a"), Left("b")
    cleanups.add(one)
    cleanups.add(other)
    async with anyio.create_task_group() as group:
        group.start_soon(cleanups.drained)
        await anyio.sleep(1.0)
        cleanups.discard(one, 1.0)
        await anyio.sleep(1.0)
        cleanups.discard(other, 2.0)
    assert anyio.current_time() == 2.0
