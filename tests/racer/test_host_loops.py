"""One dialer, one loop, one process; and what is left when a loop ends: nothing (R18, R19)."""

from __future__ import annotations

import asyncio
import os
import sys
import types
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from anyio import wait_all_tasks_blocked

import racer
from racer.errors import WrongLoop
from racer.testing import BackendName, ScriptedTransport, hangs, run_virtual, stream_pair, wins
from tests.racer.guests import Hosted
from tests.racer.programs import LOOPS, run_program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


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


def test_a_thread_that_is_half_way_through_importing_trio_bothers_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def enter() -> None:
        monkeypatch.setitem(sys.modules, "trio", types.ModuleType("trio"))
        async with racer.Dialer([ScriptedTransport("plain")]):
            monkeypatch.undo()

    run_virtual(enter, backend="asyncio")


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


if hasattr(os, "fork"):

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
                assert names == ["direct"], names  # as it is listed

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


@pytest.mark.every_loop
async def test_what_is_dropped_open_is_closed_on_every_loop() -> None:
    guest = ScriptedTransport("plain")
    held: list[Any] = [racer.Dialer([guest])]
    held.append(await held[0].dial("192.0.2.1:80"))
    for what in ("Connection by 'plain'", "Dialer of plain"):
        with pytest.warns(ResourceWarning, match=f"<{what}"):
            held.pop()
        await wait_all_tasks_blocked()
    guest.ledger.assert_all_closed()
    assert len(guest.closed_at) == 1


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
