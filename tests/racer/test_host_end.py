"""A loop that ends under a dialer, and what asyncio's own cancellation does to it (R19)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import racer
from racer.errors import DialerClosed
from racer.testing import BackendName, ScriptedTransport, hangs, run_virtual, wins
from tests.racer.guests import Hosted
from tests.racer.programs import LOOPS

if TYPE_CHECKING:
    from racer.abc import Progress

on_both = pytest.mark.parametrize("backend", ["asyncio", "trio"])
on_each = pytest.mark.parametrize("loop", LOOPS)


# --- the loop's end -------------------------------------------------------------------------


@on_both
def test_at_the_loops_end_each_driver_says_goodbye_twice(backend: BackendName) -> None:
    async def drive(guest: Hosted) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            guest.note("synchronous goodbye")
            with anyio.move_on_after(0.5, shield=True):
                await anyio.sleep(0.25)
                guest.note("asynchronous goodbye")

    guests = [Hosted(f"guest {number}", driver=drive) for number in range(2)]

    dialer = racer.Dialer(guests)

    async def story() -> None:
        await (await dialer.dial("192.0.2.1:80")).aclose()
        await anyio.sleep(1)

    run_virtual(story, backend=backend)
    for guest in guests:
        assert sorted(guest.diary, key=lambda entry: (entry[1], entry[0])) == [
            ("aclose", 1.0),
            ("synchronous goodbye", 1.0),
            ("asynchronous goodbye", 1.25),
        ]


@on_both
def test_at_the_loops_end_guests_are_closed_within_bounds(
    backend: BackendName, caplog: pytest.LogCaptureFixture
) -> None:
    async def hang(guest: Hosted) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            guest.note("closed")

    async def nap(guest: Hosted) -> None:
        await anyio.sleep(0.5)
        guest.note("closed")

    guests = [Hosted("hangs", goodbye=hang), Hosted("naps", goodbye=nap)]
    dialer = racer.Dialer(guests)

    async def story() -> None:
        await (await dialer.dial("192.0.2.1:80")).aclose()

    run_virtual(story, backend=backend)
    assert [guest.diary for guest in guests] == [
        [("aclose", 0.0), ("closed", 1.0)],
        [("aclose", 0.0), ("closed", 0.5)],
    ]
    assert dialer.status().closed
    assert [record.getMessage() for record in caplog.records] == [
        "transport 'hangs' did not close within 1.0 s"
    ]


@on_both
def test_the_loops_end_ends_a_pending_dial(backend: BackendName) -> None:
    """A caller in a system task of trio, or beside main on asyncio, outlives main for a moment."""
    dialer = racer.Dialer([ScriptedTransport("plain", hangs())])

    async def story() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(dialer.dial, "192.0.2.1:80")
            await anyio.sleep(1)
            group.cancel_scope.cancel()

    run_virtual(story, backend=backend)
    assert dialer.status().closed
    last = dialer.status()["plain"].last
    assert last is not None
    assert last.outcome == "cancelled"
    assert dialer.status()["plain"].active == 0


@on_both
def test_what_is_dropped_after_its_loop_only_warns(backend: BackendName) -> None:
    held: list[Any] = []

    async def story() -> None:
        held.append(await racer.Dialer([ScriptedTransport("plain")]).dial("192.0.2.1:80"))

    run_virtual(story, backend=backend)
    with pytest.warns(ResourceWarning) as warned:
        held.clear()
    assert len(warned) == 1  # the connection; its dialer has ended with the loop


@on_both
def test_the_loops_end_frees_what_is_still_being_closed(backend: BackendName) -> None:
    """On asyncio the loop's end cuts through the shield of a close in good order."""
    guests = [
        ScriptedTransport("winner", wins(0.5)),
        ScriptedTransport("mute", wins(0.5, close_hangs=True)),
        ScriptedTransport("slow", wins(0.5, close_delay=1.5)),
        ScriptedTransport("hanging", hangs().slow_cleanup(0.25)),
    ]
    dialer = racer.Dialer(guests)

    async def story() -> None:
        await (await dialer.dial("192.0.2.1:80")).aclose()
        assert dialer.status().cleanups == 3

    run_virtual(story, backend=backend)
    for guest in guests:
        guest.ledger.assert_all_closed()
        assert not guest.running
    assert dialer.status().cleanups == 0
    mute = guests[1].attempts[0].stream
    assert mute is not None
    assert mute.closed_by_force


@on_both
def test_the_loops_end_closes_what_a_race_has_not_handed_out(backend: BackendName) -> None:
    guests = [ScriptedTransport(name, wins(0.5)) for name in ("taken", "waiting")]
    dialer = racer.Dialer(guests)
    held: list[Any] = []

    async def story() -> None:
        race = await dialer.race("192.0.2.1:80").__aenter__()
        held.extend([race, await race.__anext__()])

    run_virtual(story, backend=backend)
    guests[1].ledger.assert_all_closed()
    assert held[0].report["waiting"].outcome == "cancelled"
    assert [stream.name for stream in guests[0].ledger.open_streams] == ["taken"]
    with pytest.warns(ResourceWarning, match="<Connection by 'taken'"):
        held.clear()


def test_cancelling_every_task_natively_ends_a_pending_dial() -> None:
    raised: list[BaseException] = []
    dialer = racer.Dialer(
        [ScriptedTransport("one", hangs()), ScriptedTransport("other", hangs().slow_cleanup(0.25))]
    )

    async def dial() -> None:
        try:
            await dialer.dial("192.0.2.1:80")
        except BaseException as exc:
            raised.append(exc)
            raise

    async def story() -> None:
        task = asyncio.create_task(dial())
        await anyio.sleep(1)
        for each in asyncio.all_tasks() - {asyncio.current_task()}:
            each.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        await anyio.sleep(1)
        assert dialer.status().closed  # its keeper was among them
        with pytest.raises(DialerClosed):
            await dialer.dial("192.0.2.1:80")
        assert len(asyncio.all_tasks()) == 1

    run_virtual(story)
    assert [type(exc) for exc in raised] == [asyncio.CancelledError]


def test_a_hosted_task_that_is_cancelled_natively_takes_nothing_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tasks: list[asyncio.Task[Any]] = []

    async def drive(guest: Hosted) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        await anyio.sleep_forever()

    async def story() -> None:
        async with racer.Dialer([Hosted(driver=drive)]) as dialer:
            await (await dialer.dial("192.0.2.1:80")).aclose()
            await anyio.lowlevel.checkpoint()
            tasks[0].cancel()
            await asyncio.wait(tasks)
            await (await dialer.dial("192.0.2.1:80")).aclose()

    with caplog.at_level(logging.DEBUG, "racer"):
        run_virtual(story)
    assert not caplog.records


def test_an_attempt_that_is_cancelled_natively_has_failed_and_the_race_goes_on() -> None:
    def cut(progress: Progress) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    async def story() -> None:
        guests = [
            ScriptedTransport("cut", wins(1.0).tells(cut)),
            ScriptedTransport("plain", wins(2.0)),
        ]
        async with racer.Dialer(guests) as dialer:
            async with await dialer.dial("192.0.2.1:80") as conn:
                assert conn.transport_name == "plain"
                assert anyio.current_time() == 2.0
                attempt = conn.report["cut"]
                assert (attempt.outcome, attempt.error_type) == ("connect_failed", "crashed")
                assert "cancelled, and not by the race" in str(attempt.error)
            async with await dialer.dial("192.0.2.1:80"):
                pass

    run_virtual(story)
