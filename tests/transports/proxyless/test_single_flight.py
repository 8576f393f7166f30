"""One search for all who want it at once: who waits, who goes, who is told."""

from __future__ import annotations

import anyio
import pytest

from racer.errors import ErrorType, NetworkError, TransportError
from racer.testing import LocalHost
from transports.proxyless._single_flight import SingleFlight

pytestmark = pytest.mark.virtual_time


class Work:
    def __init__(self, error: Exception | None = None) -> None:
        self.begun = 0
        self.error = error

    async def __call__(self) -> int:
        self.begun += 1
        await anyio.sleep(1.0)
        if self.error is not None:
            raise self.error
        return self.begun


async def test_eight_who_come_at_once_share_one() -> None:
    flights: SingleFlight[int] = SingleFlight()
    work, results = Work(), []

    async def want() -> None:
        results.append(await flights.run("a", work, host))

    async with LocalHost() as host, anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(want)
    assert (work.begun, results) == (1, [1] * 8)
    assert anyio.current_time() == 1.0
    assert len(flights) == 0


async def test_who_comes_later_begins_anew_and_keys_do_not_mix() -> None:
    flights: SingleFlight[int] = SingleFlight()
    work = Work()
    async with LocalHost() as host:
        assert await flights.run("a", work, host) == 1
        assert await flights.run("a", work, host) == 2
        async with anyio.create_task_group() as group:
            group.start_soon(flights.run, "a", work, host)
            group.start_soon(flights.run, "b", work, host)
    assert (work.begun, anyio.current_time()) == (4, 3.0)


async def test_it_goes_on_when_nobody_waits() -> None:
    flights: SingleFlight[int] = SingleFlight()
    work = Work()
    async with LocalHost() as host:
        with anyio.move_on_after(0.05):
            await flights.run("a", work, host)
        assert anyio.current_time() == 0.05
        assert await flights.run("a", work, host) == 1
        assert (work.begun, anyio.current_time()) == (1, 1.0)


async def test_each_who_waits_has_an_error_of_its_own() -> None:
    flights: SingleFlight[int] = SingleFlight()
    cause = ExceptionGroup("all of it", [OSError("one")])
    error = NetworkError("nothing works", error_type=ErrorType.CONNECTION_RESET)
    error.__cause__ = cause
    caught: list[NetworkError] = []

    async def want() -> None:
        try:
            await flights.run("a", work, host)
        except NetworkError as exc:
            caught.append(exc)

    work = Work(error)
    async with LocalHost() as host, anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(want)
    assert len(set(map(id, caught))) == 3
    for each in caught:
        assert (str(each), each.error_type) == ("nothing works", ErrorType.CONNECTION_RESET)
        assert each.__cause__ is cause


async def test_a_bug_is_raised_where_somebody_waits() -> None:
    flights: SingleFlight[int] = SingleFlight()
    async with LocalHost() as host:
        with pytest.raises(ZeroDivisionError):
            await flights.run("a", Work(ZeroDivisionError()), host)
        assert len(flights) == 0


async def test_who_waits_is_told_of_the_end() -> None:
    flights: SingleFlight[int] = SingleFlight()
    async with LocalHost() as host, anyio.create_task_group() as group:
        told = []

        async def want() -> None:
            try:
                await flights.run("a", Work(), host)
            except TransportError as exc:
                told.append(str(exc))

        group.start_soon(want)
        await anyio.wait_all_tasks_blocked()
        flights.cancel()
    assert told == ["the search was ended"]
    assert anyio.current_time() < 1.0
