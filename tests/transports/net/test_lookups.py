"""Blocking calls in daemon threads: bounded, reused, given up at once, and in nobody's way."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from racer.errors import ErrorType, NetworkError, Stage, TransportBusy, error_type_of
from transports._net.lookups import Lookup, LookupThreads
from transports._net.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.every_loop


class Gate:
    """A call that blocks until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.release = threading.Event()

    def __call__(self) -> str:
        self.entered.set()
        assert self.release.wait(30)
        return "through"


class Pool:
    """A pool, with a way to wait for what runs in it."""

    def __init__(self, **options: float) -> None:
        defaults: dict[str, float] = {"max_stuck": 2, "max_awaited": 3, "idle": 1.0}
        self.threads = LookupThreads(name="test-lookup", **(defaults | options))  # type: ignore[arg-type]
        self.wakeup = Wakeup()
        self.gates: list[Gate] = []

    def begin(self, call: Callable[[], object]) -> Lookup[object]:
        return self.threads.begin(call, self.wakeup.set)

    def block(self) -> tuple[Lookup[object], Gate]:
        gate = Gate()
        self.gates.append(gate)
        return self.begin(gate), gate

    async def end(self, lookup: Lookup[object]) -> object:
        while not lookup.is_done:
            await self.wakeup.wait()
        return lookup.answer()

    async def entered(self, gate: Gate) -> None:
        assert await anyio.to_thread.run_sync(gate.entered.wait, 30)

    async def call(self, call: Callable[[], object]) -> object:
        return await self.end(self.begin(call))

    async def settled(self, stuck: int = 0) -> None:
        """Wait until no more than `stuck` given-up calls run."""
        while self.threads.stuck > stuck:
            await anyio.lowlevel.checkpoint()


@pytest.fixture
def own_threads() -> Iterator[Callable[[], list[threading.Thread]]]:
    def alive() -> list[threading.Thread]:
        return [t for t in threading.enumerate() if t.name == "test-lookup" and t not in before]

    before = set(threading.enumerate())
    yield alive
    for thread in alive():
        assert thread.daemon


async def test_an_answer_or_error_arrives_in_the_loop() -> None:
    pool = Pool()
    assert await pool.call(lambda: "answer") == "answer"
    with pytest.raises(ValueError, match="no answer"):
        await pool.call(lambda: int("no answer"))
    assert await pool.call(threading.get_ident) != threading.get_ident()


async def test_even_what_ends_programs_is_raised_where_the_answer_is_awaited() -> None:
    pool = Pool()

    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await pool.call(leave)
    assert await pool.call(lambda: "still there") == "still there"


async def test_threads_are_reused_and_the_last_to_become_idle_first() -> None:
    pool = Pool()
    idents = {await pool.call(threading.get_ident) for _ in range(20)}
    assert len(idents) == 1


async def test_idle_threads_end(own_threads: Callable[[], list[threading.Thread]]) -> None:
    pool = Pool(idle=0.01)
    first, second = pool.block(), pool.block()
    for lookup, gate in (first, second):
        gate.release.set()
        await pool.end(lookup)
    for thread in own_threads():
        await anyio.to_thread.run_sync(thread.join, 30)
    assert own_threads() == []
    assert await pool.call(lambda: "a new one") == "a new one"


async def test_calls_run_side_by_side_up_to_the_bound_and_then_wait_their_turn() -> None:
    pool = Pool(max_awaited=2)
    (first, gate1), (second, gate2) = pool.block(), pool.block()
    third, gate3 = pool.block()
    fourth, gate4 = pool.block()
    await pool.entered(gate1)
    await pool.entered(gate2)
    assert not gate3.entered.is_set()

    gate1.release.set()
    assert await pool.end(first) == "through"
    await pool.entered(gate3)
    assert not gate4.entered.is_set()
    for gate in (gate2, gate3, gate4):
        gate.release.set()
    for lookup in (second, third, fourth):
        assert await pool.end(lookup) == "through"


async def test_giving_up_on_a_call_makes_room_for_the_next_while_it_runs_on() -> None:
    pool = Pool(max_awaited=1)
    stuck, gate1 = pool.block()
    await pool.entered(gate1)
    waiting, gate2 = pool.block()
    stuck.give_up()
    assert pool.threads.stuck == 1
    await pool.entered(gate2)
    gate2.release.set()
    assert await pool.end(waiting) == "through"
    gate1.release.set()
    await pool.settled()
    assert not stuck.is_done


async def test_a_call_given_up_before_its_turn_is_never_made() -> None:
    pool = Pool(max_awaited=1)
    running, gate = pool.block()
    never, untouched = pool.block()
    never.give_up()
    never.give_up()
    assert pool.threads.stuck == 0
    gate.release.set()
    await pool.end(running)
    assert await pool.call(lambda: "next") == "next"
    assert not untouched.entered.is_set()


async def test_while_too_many_are_stuck_a_new_call_is_refused() -> None:
    pool = Pool(max_stuck=2)
    stuck = [pool.block() for _ in range(2)]
    for lookup, gate in stuck:
        await pool.entered(gate)
        lookup.give_up()
    with pytest.raises(TransportBusy, match="2 earlier lookups are stuck"):
        pool.begin(lambda: "refused")

    stuck[0][1].release.set()
    await pool.settled(1)
    assert await pool.call(lambda: "room again") == "room again"
    stuck[1][1].release.set()
    await pool.settled()


async def test_giving_up_on_what_has_ended_changes_nothing() -> None:
    pool = Pool()
    lookup = pool.begin(lambda: "done")
    while not lookup.is_done:
        await pool.wakeup.wait()
    lookup.give_up()
    assert pool.threads.stuck == 0
    assert await pool.call(lambda: "next") == "next"


async def test_a_system_without_threads_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(max_awaited=1)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for _ in range(3):
            lookup = pool.begin(lambda: "never")
            with pytest.raises(NetworkError, match="can't start new thread") as caught:
                await pool.end(lookup)
            assert caught.value.stage is Stage.RESOLVE
            assert error_type_of(caught.value) is ErrorType.RESOURCE_EXHAUSTED
    assert await pool.call(lambda: "threads again") == "threads again"


def test_a_loop_that_ended_is_not_waited_for(anyio_backend: tuple[str, dict[str, object]]) -> None:
    name, options = anyio_backend
    pools: list[Pool] = []

    async def leave_at_once() -> None:
        pool = Pool()
        pools.append(pool)
        lookup, gate = pool.block()
        await pool.entered(gate)
        del lookup

    async def use(pool: Pool) -> object:
        pool.wakeup = Wakeup()
        return await pool.call(lambda: "another loop")

    anyio.run(leave_at_once, backend=name, backend_options=options)
    pool = pools[0]
    for gate in pool.gates:
        gate.release.set()
    assert anyio.run(use, pool, backend=name, backend_options=options) == "another loop"


async def test_one_pool_serves_several_loops_at_once() -> None:
    pool = Pool(max_awaited=2)
    lookup, gate = pool.block()

    async def other() -> object:
        theirs = Pool()
        theirs.threads = pool.threads
        return await theirs.call(lambda: "there")

    assert await anyio.to_thread.run_sync(anyio.run, other) == "there"
    gate.release.set()
    assert await pool.end(lookup) == "through"


async def test_an_idle_thread_keeps_nobodys_answer_alive() -> None:
    class Something:
        pass

    class Fault(Exception):
        pass

    kept: list[weakref.ref[object]] = []

    def make() -> Something:
        something = Something()
        kept.append(weakref.ref(something))
        return something

    def fail() -> None:
        fault = Fault()
        kept.append(weakref.ref(fault))
        try:
            raise fault
        finally:
            del fault

    given_up = threading.Event()

    def fail_late() -> None:
        assert given_up.wait(30)
        fail()

    async def forgotten() -> None:
        """Wait until the thread, which has told us first, has forgotten the last answer too."""
        with anyio.fail_after(10):
            while kept[-1]() is not None:
                await anyio.lowlevel.checkpoint()

    pool = Pool(idle=20)  # a thread that ends forgets in any case
    gc.collect()
    gc.disable()
    try:
        await pool.call(make)
        await forgotten()
        with pytest.raises(Fault):
            await pool.call(fail)
        await forgotten()

        unasked = pool.begin(fail)
        while not unasked.is_done:
            await pool.wakeup.wait()
        unasked.give_up()
        del unasked
        await forgotten()

        late = pool.begin(fail_late)
        late.give_up()
        given_up.set()
        del late
        await pool.settled()
        await forgotten()
    finally:
        gc.enable()
