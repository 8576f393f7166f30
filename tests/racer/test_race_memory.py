"""R13: with the garbage collector off, nothing of a finished race stays alive."""

from __future__ import annotations

import gc
import socket
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from racer import Connection, RaceReport
from racer._attempt import Run
from racer._race import Race
from racer.abc import Progress, Target, Traits, Transport
from racer.errors import AllAttemptsFailed, DialTimeout, RecordedError
from racer.testing import MemoryStream, StreamLedger, stream_pair
from tests.racer.scene import Scene
from transports.direct import Direct

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

virtual_time = pytest.mark.virtual_time

RACES = 25  # on a virtual clock each is like the last: what one of them keeps alive, all do


class Lost(OSError):
    """An error of this module's own, to be counted."""


class Inner(Exception):
    """What `Lost` is raised from."""


# RaceReport is left out: the last attempt of each entrant is kept for status().
OF_A_RACE = {
    AllAttemptsFailed,
    Connection,
    ConnectionRefusedError,
    DialTimeout,
    Inner,
    Lost,
    MemoryStream,
    Race,
    Run,
}


def alive() -> dict[str, int]:
    """Return how many objects of races live, by type."""
    return Counter(type(one).__name__ for one in gc.get_objects() if type(one) in OF_A_RACE)


@contextmanager
def no_collector() -> Iterator[Callable[[], dict[str, int]]]:
    """Turn the collector off; what this gives tells how many more objects of races live than before, by type."""
    gc.collect()
    gc.disable()
    before = alive()

    def more() -> dict[str, int]:
        now = alive()
        return {name: n - before.get(name, 0) for name, n in now.items() if n > before.get(name, 0)}

    try:
        yield more
    finally:
        gc.enable()


class Forgetful(Transport):
    """A guest that keeps nothing, as a good one does; its errors have real tracebacks, causes and contexts."""

    ledger = StreamLedger()

    def __init__(self, name: str, act: Callable[[Progress], Awaitable[Any]]) -> None:
        self.name = name
        self.running = 0
        self.traits = Traits(attempt_timeout=5.0)
        self._act = act

    async def connect(self, target: Target, progress: Progress) -> Any:
        return await self._act(progress)


async def fail(progress: Progress) -> None:
    await anyio.sleep(0.25)
    near, far = stream_pair()
    async with near, far:
        try:
            try:
                fail_deep_down(progress, near)
            except Inner:
                raise KeyError  # noqa: B904 - so that the context alone leads on
        except KeyError as exc:
            raise Lost("lost") from exc


def fail_deep_down(*held_by_this_frame: object) -> None:
    raise Inner("deep down")


async def hang(progress: Progress) -> None:
    near, far = stream_pair()
    async with near, far:
        await anyio.sleep_forever()


async def win(progress: Progress) -> MemoryStream:
    await anyio.sleep(0.5)
    return stream_pair()[0]


def scene_of(*acts: Callable[[Progress], Awaitable[Any]]) -> Scene:
    return Scene(*[Forgetful(f"g{number}", act) for number, act in enumerate(acts)])


def has_frames(error: BaseException | None) -> bool:
    """Whether an error, or any behind it, leads to the frames it came through."""
    return error is not None and (
        error.__traceback__ is not None
        or has_frames(error.__cause__)
        or has_frames(error.__context__)
    )


async def failed(scene: Scene) -> None:
    with pytest.raises(AllAttemptsFailed) as caught:
        await scene.dial()
    error = caught.value
    lost = error.find(Lost)
    assert lost is not None
    assert lost.__traceback__ is not None  # a failed race says where it failed
    del caught, error, lost  # the error's own traceback leads to this frame


async def expired(scene: Scene) -> None:
    with pytest.raises(DialTimeout):
        await scene.dial(timeout=1.0)


async def cancelled(scene: Scene) -> None:
    with anyio.move_on_after(1.0):
        await scene.dial()


async def won(scene: Scene) -> None:
    async with await scene.dial() as connection:
        assert connection.transport_name == "g2"


async def walked_through(scene: Scene) -> None:
    async with scene.dialer.race("example.com", 80) as race:
        async for connection in race:
            await connection.aclose()


@virtual_time
@pytest.mark.parametrize(
    ("story", "acts"),
    [
        pytest.param(failed, [fail, fail, fail], id="failed"),
        pytest.param(expired, [fail, hang], id="expired"),
        pytest.param(cancelled, [fail, hang], id="cancelled"),
        pytest.param(won, [fail, hang, win], id="won"),
        pytest.param(walked_through, [fail, win, win], id="walked-through"),
        pytest.param(walked_through, [fail, win, hang], id="walked-through-to-the-deadline"),
    ],
)
async def test_nothing_of_a_race_stays_alive(
    story: Callable[[Scene], Awaitable[None]], acts: list[Callable[[Progress], Awaitable[Any]]]
) -> None:
    async with scene_of(*acts) as scene:
        await story(scene)
        await scene.settle()
        with no_collector() as more:
            for _ in range(RACES):
                await story(scene)
            await scene.settle()
            assert more() == {}


@virtual_time
async def test_the_report_of_a_won_race_keeps_causes_and_no_frames() -> None:
    async with scene_of(fail, win) as scene:
        with no_collector() as more:
            reports: list[RaceReport] = []
            for _ in range(RACES):
                async with await scene.dial() as connection:
                    reports.append(connection.report)
                del connection
            await scene.settle()
            assert more() == {"Lost": RACES, "Inner": RACES}
            assert not any(has_frames(report["g0"].error) for report in reports)
            reports.clear()
            assert more() == {}


@virtual_time
async def test_status_keeps_what_a_failed_attempt_said_and_not_the_error() -> None:
    async with scene_of(fail) as scene:
        with pytest.raises(AllAttemptsFailed) as caught:
            await scene.dial()
        last = scene.dialer.status()["g0"].last
        assert last == caught.value.report["g0"]
        assert last is not None
        assert isinstance(last.error, RecordedError)
        assert last.cause == caught.value.report["g0"].cause


async def test_nothing_stays_alive_of_refused_connections() -> None:
    """The same with real sockets and the real guest."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    async with Scene(Counted()) as scene:

        async def refused() -> None:
            with pytest.raises(AllAttemptsFailed) as caught:
                await scene.dial("127.0.0.1", port)
            assert caught.value.find(ConnectionRefusedError) is not None
            del caught  # the error's own traceback leads to this frame

        await refused()
        await scene.settle()
        with no_collector() as more:
            for _ in range(RACES):
                await refused()
            await scene.settle()
            assert more() == {}


class Counted(Direct):
    """The real guest, with the books that a scene looks at."""

    ledger = StreamLedger()
    running = 0
