"""Three clocks: one that counts sleep, the loop's own, and the wall's."""

from __future__ import annotations

import time

import anyio

from racer.testing import run_virtual
from transports.soar._clocks import SystemClocks


async def test_awake_time_is_the_loops() -> None:
    before = anyio.current_time()
    now = SystemClocks().now()
    assert before <= now.awake <= anyio.current_time()


async def test_elapsed_time_counts_what_the_machine_slept() -> None:
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    read = time.monotonic if boottime is None else lambda: time.clock_gettime(boottime)
    before = read()
    assert before <= SystemClocks().now().elapsed <= read()


async def test_the_wall_clock_is_unix_time() -> None:
    before = time.time()
    assert before <= SystemClocks().now().wall <= time.time()


def test_deadlines_are_kept_on_a_virtual_loop() -> None:
    async def nap() -> float:
        clocks = SystemClocks()
        began = clocks.now().awake
        await anyio.sleep(3600)
        return clocks.now().awake - began

    assert run_virtual(nap) == 3600
