"""One dialer, one loop, one process; and what is left when a loop ends: nothing (R18, R19)."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import racer
from racer.errors import DialerClosed, WrongLoop
from racer.testing import BackendName, ScriptedTransport, hangs, run_virtual, stream_pair, wins
from tests.racer.guests import Hosted
from tests.racer.programs import LOOPS, run_program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from racer.abc import Progress

on_both = pytest.mark.parametrize("backend", ["asyncio", "trio"])
on_each = pytest.mark.parametrize("loop", LOOPS)

# Each is a way in; where it leads nowhere, all say the same.
USES: dict[str, Callable[[racer.Dialer], Any]] = {
    "race": lambda dialer: dialer.race("192.0.2.1"),
    "replace": lambda dialer: dialer.replace("plain", ScriptedTransport("other")),
    "status": lambda dialer: dialer.status(),
    "update_credential": lambda dialer: dialer.update_credential("plain", "new"),
}
ASYNC_USES: dict[str, Callable[[racer.Dialer], Any]] = {
    "aclose": lambda dialer: dialer.aclose(),
    "dial": lambda dialer: dialer.dial("192.0.2.1:80"),
    "enter": lambda dialer: dialer.__aenter__(),
}


# --- where a dialer belongs -----------------------------------------------------------------


@on_both
def test_a_dialer_made_before_any_loop_is_bound_by_its_first_use(backend: BackendName) -> None:
    dialer = racer.Dialer([ScriptedTransport("plain")])

    async def story() -> None:
        async with dialer, await dialer.dial("192.0.2.1:80") as conn:
            assert conn.transport_name == "plain"

    run_virtual(story, backend=backend)
    assert dialer.status().closed


@on_both
def test_another_loop_is_refused_and_the_first_goes_on(backend: BackendName) -> None:
    async def elsewhere(dialer: racer.Dialer) -> None:
        for use in USES.values():
            with pytest.raises(WrongLoop, match=r"another event loop.*racer\.dial\(\)"):
                use(dialer)
        for start in ASYNC_USES.values():
            with pytest.raises(WrongLoop, match="another event loop"):
                await start(dialer)

    async def story() -> None:
        async with racer.Dialer([ScriptedTransport("plain")]) as dialer:
            await anyio.to_thread.run_sync(lambda: anyio.run(elsewhere, dialer, backend=backend))
            async with await dialer.dial("192.0.2.1:80") as conn:
                assert conn.report.outcome == "connected"

    run_virtual(story, backend=backend)


async def test_a_thread_without_a_loop_is_refused() -> None:
    def elsewhere(dialer: racer.Dialer) -> None:
        for use in USES.values():
            with pytest.raises(WrongLoop, match="none runs in this thread"):
                use(dialer)

    async with racer.Dialer([ScriptedTransport("plain")]) as dialer:
        await anyio.to_thread.run_sync(elsewhere, dialer)


def test_without_a_loop_an_unused_dialer_can_be_looked_at_and_changed() -> None:
    dialer = racer.Dialer([ScriptedTransport("plain")])
    dialer.replace("plain", ScriptedTransport("other", credential="old"))
    dialer.update_credential("plain", "new")
    assert not dialer.status().closed


@on_both
def test_a_dialer_whose_loop_has_ended_says_so_in_the_next(backend: BackendName) -> None:
    dialer = racer.Dialer([ScriptedTransport("plain")])

    async def story() -> None:
        await (await dialer.dial("192.0.2.1:80")).aclose()

    async def next_story() -> None:
        with pytest.raises(WrongLoop, match="another event loop"):
            await dialer.dial("192.0.2.1:80")
        await dialer.aclose()  # there is nothing left to be done

    run_virtual(story, backend=backend)
    assert dialer.status().closed
    run_virtual(next_story, backend=backend)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@on_each
def test_a_forked_child_is_refused_and_makes_its_own(loop: str, tmp_path: Path) -> None:
    printed = run_program(
        """
        from racer.errors import WrongLoop

        async def own():
            async with await racer.dial("192.0.2.1:80") as conn:
                return conn.transport_name

        async def child(dialer):
            for use in (dialer.dial("192.0.2.1:80"), dialer.aclose(), dialer.__aenter__()):
                try:
                    await use
                except WrongLoop as exc:
                    assert f"process {os.getppid()}" in str(exc), exc
                    assert f"process {os.getpid()}" in str(exc), exc
                else:
                    raise AssertionError(use)
            names = []
            thread = threading.Thread(target=lambda: names.append(run(own)))
            thread.start()
            thread.join()
            assert names == ["plain"], names

        async def main():
            dialer = racer.Dialer([Plain()])
            racer.set_default_dialer(dialer)
            await (await racer.dial("192.0.2.1:80")).aclose()
            dropped = weakref.ref(dialer)
            pid = os.fork()
            if not pid:
                code = 1
                try:
                    await child(dialer)
                    _default._defaults.clear()
                    del dialer
                    gc.collect()
                    assert dropped() is None  # and nobody is blamed: a child cannot close it
                    code = 0
                finally:
                    sys.stderr.flush()
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            await (await dialer.dial("192.0.2.1:80")).aclose()
            await dialer.aclose()

        run(main)
        print("done")
        """,
        loop,
        tmp_path,
    )
    assert printed == "done\n"


# --- what a loop leaves ---------------------------------------------------------------------


@on_each
def test_loops_in_turn_leave_nothing_without_being_told(loop: str, tmp_path: Path) -> None:
    printed = run_program(
        """
        left = []

        async def main():
            conn = await racer.dial("192.0.2.1:80")
            await conn.aclose()
            here = _loops.current_loop()
            dialer = _default._defaults[here]
            assert Plain.drivers == 1
            left.extend(map(weakref.ref, (here, dialer, dialer._host, next(iter(dialer._roster)).lodger.guest)))

        for _ in range(3):
            run(main)
            assert Plain.drivers == 0
        assert all_die(left), left
        assert not _default._defaults and not _host._orphans
        print("done")
        """,
        loop,
        tmp_path,
    )
    assert printed == "done\n"


@on_each
def test_a_dialer_that_was_chosen_and_never_used_leaves_with_its_loop(
    loop: str, tmp_path: Path
) -> None:
    printed = run_program(
        """
        left = []

        async def main():
            dialer = racer.Dialer([Plain()])
            racer.set_default_dialer(dialer)
            left.extend(map(weakref.ref, (_loops.current_loop(), dialer)))

        for _ in range(3):
            run(main)
        assert all_die(left), left
        assert not _default._defaults and not _host._orphans
        print("done")
        """,
        loop,
        tmp_path,
    )
    assert printed == "done\n"


@pytest.mark.parametrize("loop", [loop for loop in LOOPS if loop != "trio"])
def test_a_loop_that_was_just_closed_is_swept_by_the_next(loop: str, tmp_path: Path) -> None:
    printed = run_program(
        """
        left = []

        async def main():
            await (await racer.dial("192.0.2.1:80")).aclose()
            here = _loops.current_loop()
            left.extend(map(weakref.ref, (here, _default._defaults[here])))

        def bare():
            if LOOP == "uvloop":
                import uvloop
                loop = uvloop.new_event_loop()
            else:
                loop = asyncio.new_event_loop()
            loop.run_until_complete(main())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

        bare()
        gc.collect()
        assert left[1]() is not None  # nobody was told
        run(main)
        # The loop itself stays: anyio keeps what it knows of a task for as long as that task lives.
        assert all_die(left[1:]), left
        assert not _default._defaults and not _host._orphans
        print("done")
        """,
        loop,
        tmp_path,
        quiet=False,
    )
    assert printed.startswith("done\n")


@on_each
def test_an_interrupt_ends_a_pending_dial_and_leaves_nothing(loop: str, tmp_path: Path) -> None:
    printed = run_program(
        """
        class Slow(Plain):
            async def connect(self, target, progress):
                try:
                    signal.raise_signal(signal.SIGINT)
                    await anyio.sleep_forever()
                finally:
                    print("cancelled")

        def make(context):
            return Slow()

        async def main():
            await racer.dial("192.0.2.1:80")

        try:
            run(main)
        except KeyboardInterrupt:
            print("interrupted")
        assert Plain.drivers == 0 and not _default._defaults and not _host._orphans
        """,
        loop,
        tmp_path,
    )
    assert printed == "cancelled\ninterrupted\n"


if sys.version_info >= (3, 12):

    class Instant(racer.abc.Transport):
        """Ends in its first step, and so, as an eager task, before anybody has waited for it."""

        def __init__(self, name: str) -> None:
            self.name = name

        async def connect(self, target: Any, progress: Any) -> Any:
            if self.name == "failing":
                raise ConnectionRefusedError
            return stream_pair()[0]

    def test_eager_tasks_change_nothing() -> None:
        async def story() -> None:
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
            first, second = ScriptedTransport("first", hangs()), Hosted("second", wins(0.5))
            async with racer.Dialer([Instant("failing"), first, second]) as dialer:
                for _ in range(2):
                    began = anyio.current_time()
                    async with await dialer.dial("192.0.2.1:80") as conn:
                        assert conn.transport_name == "second"
                        assert anyio.current_time() - began == 0.5
            assert (second.started_at, second.closed_at) == ([0.0], [1.0])
            assert not first.running
            second.ledger.assert_all_closed()
            async with racer.Dialer([Instant("winning"), first]) as dialer:
                conn = await dialer.dial("192.0.2.1:80")
                assert conn.transport_name == "winning"
                await conn.aclose()

        run_virtual(story)


# --- a loop that ends under a dialer --------------------------------------------------------


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
