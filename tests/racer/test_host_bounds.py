"""What a dialer holds stays bounded, however many races there are, and is nothing after its end (R22)."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

import racer
from racer.testing import ScriptedTransport, fails, hangs, wins

HOST = "192.0.2.1:80"


async def settle() -> None:
    """Let every task that is ready run to its next wait."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


@pytest.mark.virtual_time
async def test_at_most_256_cleanups_go_on_in_good_order() -> None:
    winner = ScriptedTransport("winner", wins(0.5))
    slow = ScriptedTransport("slow", wins(0.5, close_delay=1.5))

    async def dial() -> None:
        async with await dialer.dial(HOST):
            pass

    async with racer.Dialer([winner, slow]) as dialer:
        async with anyio.create_task_group() as group:
            for _ in range(300):
                group.start_soon(dial)
        await settle()
        assert anyio.current_time() == 0.5
        assert dialer.status().cleanups == 256
        await anyio.sleep(1.5)
        await settle()
        assert dialer.status().cleanups == 0
        streams = [attempt.stream for attempt in slow.attempts]
        ends = sorted((s.closed_at, s.closed_by_force) for s in streams if s is not None)
        assert ends == [(0.5, True)] * 44 + [(2.0, False)] * 256
    winner.ledger.assert_all_closed()


@pytest.mark.virtual_time
async def test_the_oldest_cleanup_makes_room_and_the_bound_is_the_callers() -> None:
    winner = ScriptedTransport("winner", wins(0.5))
    slow = ScriptedTransport("slow", wins(0.5, close_delay=1.5))
    async with racer.Dialer([winner, slow], max_cleanups=1) as dialer:
        for _ in range(3):
            async with await dialer.dial(HOST):
                pass
        await settle()
        assert dialer.status().cleanups == 1
        streams = [attempt.stream for attempt in slow.attempts]
        assert [s.closed_by_force for s in streams if s is not None] == [True, True, False]


@pytest.mark.virtual_time
async def test_cleanups_that_were_forced_count_until_they_have_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR)
    stubborn = ScriptedTransport("stubborn", hangs().slow_cleanup(2.0))
    async with racer.Dialer(
        [ScriptedTransport("winner", wins(0.5)), stubborn], max_cleanups=1
    ) as dialer:
        for _ in range(3):
            async with await dialer.dial(HOST):
                pass
        assert dialer.status().cleanups == 3
        assert dialer.status()["stubborn"].active == 3
        await anyio.sleep(2.0)
        await settle()
        assert dialer.status().cleanups == 0
        assert dialer.status()["stubborn"].active == 0


# --- many races -----------------------------------------------------------------------------


class Census(SpanProcessor):
    """Counts spans that have started and not ended."""

    def __init__(self) -> None:
        self.open = 0
        self.started = 0

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self.open += 1
        self.started += 1

    def on_end(self, span: Any) -> None:
        self.open -= 1


class Socketed(ScriptedTransport):
    """Gives real sockets, so that what leaks is seen by the system too."""

    async def connect(self, target: Any, progress: Any) -> anyio.abc.ByteStream:
        await (await super().connect(target, progress)).aclose()
        near, far = socket.socketpair()
        far.close()
        return await anyio.abc.UNIXSocketStream.from_socket(near)


def tasks() -> int:
    if anyio.get_cancelled_exc_class() is asyncio.CancelledError:
        return len(asyncio.all_tasks())
    import trio

    return trio.lowlevel.current_statistics().tasks_living


def descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


async def run_races(races: int) -> None:
    census = Census()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(census)
    guests = [
        Socketed("last", wins(0.5)),
        Socketed("first", wins(0.25).then(fails(0.1)).then(wins(0.1))),
        Socketed("equal", wins(0.5)),
        ScriptedTransport("hanging", hangs()),
    ]
    before = tasks(), descriptors()
    async with racer.Dialer(guests, tracer_provider=provider) as dialer:
        peaks: list[int] = []

        async def dial(number: int) -> None:
            match number % 4:
                case 0:
                    with anyio.move_on_after(0.05):  # the caller leaves before anything has come
                        await dialer.dial(HOST)
                case 1:
                    async with await dialer.dial(HOST, exclude="first"):
                        pass
                case 2:
                    async with dialer.race(HOST) as race:
                        async for conn in race:
                            await conn.aclose()
                            if conn.transport_name == "last":
                                break
                case _:
                    async with await dialer.dial(HOST):
                        pass
            peaks[-1] = max(peaks[-1], tasks() + descriptors())
            for guest in guests:  # the records are the fakes' own
                del guest.attempts[: -1 if guest.attempts else None]

        for number in range(0, races, 20):
            peaks.append(0)
            async with anyio.create_task_group() as group:
                for each in range(number, number + 20):
                    group.start_soon(dial, each)
        await settle()
        half = len(peaks) // 2
        assert max(peaks[half:]) <= max(peaks[:half]) + 5  # trio's order differs from time to time
        assert max(peaks) < sum(before) + 20 * 10
        assert dialer.status().cleanups == 0
        assert dialer.status().races == 0
        assert [entrant.active for entrant in dialer.status().entrants] == [0] * 4
        assert census.open == 0
        assert tasks() <= before[0] + 2  # the keeper, and who watches cleanups for a second
    await settle()
    gc.collect()
    assert (tasks(), descriptors()) == before
    assert census.started > 3 * races


@pytest.mark.virtual_time
async def test_five_hundred_races_leave_nothing() -> None:
    await run_races(500)


@pytest.mark.soak
@pytest.mark.virtual_time
@pytest.mark.timeout(600)
async def test_ten_thousand_races_leave_nothing() -> None:
    await run_races(10_000)
