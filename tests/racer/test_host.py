"""The home of everything that outlives a call: how it is entered, ended and dropped (R17, R19)."""

from __future__ import annotations

import contextvars
import gc
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import racer
from racer.errors import DialerClosed
from racer.testing import Lifecycle, ScriptedTransport, fails, hangs, wins
from tests.racer.guests import Hosted

pytestmark = pytest.mark.virtual_time

HOST = "192.0.2.1:80"
MARK: contextvars.ContextVar[str] = contextvars.ContextVar("MARK", default="empty")


async def settle() -> None:
    """Let every task that is ready run to its next wait."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


def drop(held: list[Any]) -> None:
    """Let go of what a list holds, and of what that leads to."""
    held.clear()
    gc.collect()


def messages(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [
        (record.levelname, record.getMessage())
        for record in caplog.records
        if record.name.startswith("racer")
    ]


# --- entering and leaving (R17) -------------------------------------------------------------


async def test_a_dialer_may_be_used_without_entering_it() -> None:
    guest = ScriptedTransport("plain")
    dialer = racer.Dialer([guest])
    async with await dialer.dial(HOST) as conn:
        assert conn.transport_name == "plain"
    await dialer.aclose()
    assert guest.closed_at == [0.0]


async def test_an_exception_in_the_body_leaves_as_it_was_raised() -> None:
    error = KeyError("mine")
    with pytest.raises(KeyError) as caught:
        async with racer.Dialer([ScriptedTransport("plain")]) as dialer:
            conn = await dialer.dial(HOST)
            await conn.aclose()
            raise error
    assert caught.value is error
    assert dialer.status().closed


async def test_a_cancellation_of_the_body_is_no_group_either() -> None:
    with anyio.move_on_after(1) as scope:
        async with racer.Dialer([ScriptedTransport("plain", hangs())]) as dialer:
            await dialer.dial(HOST)
    assert scope.cancelled_caught
    assert anyio.current_time() == 1.0
    assert dialer.status().closed


async def test_one_task_may_enter_and_another_leave() -> None:
    dialer = racer.Dialer([ScriptedTransport("plain")])

    async def enter() -> None:
        await dialer.__aenter__()

    async def leave() -> None:
        await dialer.__aexit__(None, None, None)

    async with anyio.create_task_group() as group:
        group.start_soon(enter)
    async with await dialer.dial(HOST):
        pass
    async with anyio.create_task_group() as group:
        group.start_soon(leave)
    assert dialer.status().closed


async def test_the_first_uses_may_come_all_at_once() -> None:
    guest = ScriptedTransport("plain", wins(0.5))

    async def use() -> None:
        async with await dialer.dial(HOST):
            pass

    async with racer.Dialer([guest]) as dialer, anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(use)
    assert guest.started_at == [0.0]
    assert [attempt.ended_at for attempt in guest.attempts] == [0.5] * 5


# --- the end (R19) --------------------------------------------------------------------------


async def test_closing_twice_closes_guests_once() -> None:
    guest = ScriptedTransport("plain")
    async with racer.Dialer([guest]) as dialer:
        await dialer.aclose()
        await dialer.aclose()
    assert guest.closed_at == [0.0]


async def test_closing_from_several_tasks_returns_to_all_when_it_is_done() -> None:
    guest = ScriptedTransport("plain", lifecycle=Lifecycle(aclose_takes=0.5))
    dialer = racer.Dialer([guest])
    returned = []

    async def close() -> None:
        await dialer.aclose()
        returned.append(anyio.current_time())

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(close)
    assert returned == [0.5] * 3
    assert guest.closed_at == [0.0]


async def test_closing_a_dialer_that_was_never_used_closes_its_guests() -> None:
    guests = [ScriptedTransport("one"), ScriptedTransport("two")]
    await racer.Dialer(guests).aclose()
    assert [guest.closed_at for guest in guests] == [[0.0], [0.0]]
    assert [guest.started_at for guest in guests] == [[], []]


@pytest.mark.parametrize("used", [False, True])
async def test_closing_under_cancellation_closes_all_the_same(used: bool) -> None:
    guest = ScriptedTransport("plain", lifecycle=Lifecycle(aclose_takes=0.5))
    dialer = racer.Dialer([guest])
    if used:
        await dialer.__aenter__()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await dialer.aclose()
        assert anyio.current_time() == 0.5
        await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert guest.closed_at == [0.0]
    assert dialer.status().closed


async def test_a_closed_dialer_says_so() -> None:
    dialer = racer.Dialer([ScriptedTransport("plain", credential="old")])
    await dialer.aclose()
    for use in (
        lambda: dialer.race(HOST),
        lambda: dialer.replace("plain", ScriptedTransport("other")),
        lambda: dialer.update_credential("plain", "new"),
    ):
        with pytest.raises(DialerClosed, match="closed; make a new one"):
            use()
    for start in (dialer.dial(HOST), dialer.__aenter__()):
        with pytest.raises(DialerClosed, match="closed; make a new one"):
            await start
    assert dialer.status().closed


async def test_a_guest_that_hangs_in_its_goodbye_is_cut_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stuck = ScriptedTransport("stuck", lifecycle=Lifecycle(aclose_takes=60.0))
    quick = ScriptedTransport("quick", lifecycle=Lifecycle(aclose_takes=0.25))
    await racer.Dialer([stuck, quick]).aclose()
    assert anyio.current_time() == 1.0
    assert messages(caplog) == [("WARNING", "transport 'stuck' did not close within 1.0 s")]


async def test_a_guest_that_shields_itself_holds_nobody_up_longer_than_three_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def shield(guest: Hosted) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(6)
        guest.note("at last")

    stuck, quick = Hosted("stuck", goodbye=shield), Hosted("quick")
    await racer.Dialer([stuck, quick]).aclose()
    assert anyio.current_time() == 3.0
    assert quick.diary == [("aclose", 0.0)]
    assert messages(caplog) == [
        ("WARNING", "transport 'stuck' did not close within 1.0 s"),
        ("WARNING", "the dialer's end did not wait longer than 3.0 s for: stuck aclose"),
    ]
    await anyio.sleep(4)
    assert stuck.diary == [("aclose", 0.0), ("at last", 6.0)]


async def test_a_guest_that_fails_in_its_goodbye_hurts_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = ScriptedTransport("broken", lifecycle=Lifecycle(aclose_error=ValueError("a bug")))
    whole = ScriptedTransport("whole", lifecycle=Lifecycle(aclose_takes=0.5))
    await racer.Dialer([broken, whole]).aclose()
    assert anyio.current_time() == 0.5
    assert messages(caplog) == [("ERROR", "closing transport 'broken' failed")]


async def test_closing_ends_dials_and_races_under_way() -> None:
    won, hanging = ScriptedTransport("won", wins(0.5)), ScriptedTransport("hanging", hangs())
    dialer = racer.Dialer([won, hanging])
    told: list[str] = []

    async def dial() -> None:
        with pytest.raises(DialerClosed) as caught:
            await dialer.dial(HOST, only="hanging")
        told.append(str(caught.value))
        assert anyio.current_time() == 1.0

    async def race() -> None:
        async with dialer.race(HOST) as race:
            async with await race.__anext__():
                await anyio.sleep(2)
            with pytest.raises(DialerClosed) as caught:
                await race.__anext__()
            told.append(str(caught.value))

    async with anyio.create_task_group() as group:
        group.start_soon(dial)
        group.start_soon(race)
        await anyio.sleep(1)
        assert dialer.status().races == 2
        await dialer.aclose()
        assert anyio.current_time() == 1.0
        assert (dialer.status().races, hanging.running) == (0, ())
    assert told == ["the dialer was closed"] * 2


async def test_closing_closes_what_arrived_and_was_not_taken() -> None:
    guests = [ScriptedTransport(name, wins(0.5)) for name in ("taken", "waiting")]
    dialer = racer.Dialer(guests)
    async with dialer.race(HOST) as race, await race.__anext__() as conn:
        assert conn.transport_name == "taken"
        await dialer.aclose()
        assert [stream.name for stream in guests[0].ledger.open_streams] == ["taken"]
        guests[1].ledger.assert_all_closed()
        assert conn.report["waiting"].outcome == "cancelled"
        assert isinstance(conn, racer.Connection)
        await conn.send(b"still works")


async def test_closing_waits_for_cleanups_in_good_order_and_forces_the_rest() -> None:
    slow = ScriptedTransport("slow", wins(0.5, close_delay=1.5))
    mute = ScriptedTransport("mute", wins(0.5, close_hangs=True))
    first = ScriptedTransport("first", wins(0.5))
    dialer = racer.Dialer([first, slow, mute])
    async with await dialer.dial(HOST):
        pass
    assert dialer.status().cleanups == 2
    await dialer.aclose()
    assert anyio.current_time() == 2.5
    streams = [guest.attempts[0].stream for guest in (slow, mute)]
    assert [(s.closed_at, s.closed_by_force) for s in streams if s] == [(2.0, False), (2.5, True)]
    assert dialer.status().cleanups == 0


async def test_closing_does_not_wait_for_an_attempt_that_will_not_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stubborn = ScriptedTransport("stubborn", hangs().slow_cleanup(10.0))
    dialer = racer.Dialer([ScriptedTransport("quick", wins(0.5)), stubborn])
    async with await dialer.dial(HOST):
        pass
    await dialer.aclose()
    assert anyio.current_time() == 3.5
    assert messages(caplog) == [
        ("WARNING", "transport 'stubborn' has not ended 1.0 s after its attempt was over"),
        (
            "WARNING",
            "the dialer's end did not wait longer than 3.0 s for: racer attempt stubborn",
        ),
    ]


# --- closed from within ---------------------------------------------------------------------


@pytest.mark.parametrize("where", ["check", "below-a-check", "driver", "goodbye"])
async def test_a_task_of_the_dialers_own_begins_its_end_and_does_not_wait_for_it(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def close(*_: object) -> None:
        await dialer.aclose()

    async def close_below(*_: object) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(dialer.aclose)

    guest = Hosted(
        "hosted",
        hangs() if where == "driver" else wins(),
        driver=close if where == "driver" else None,
        goodbye=close if where == "goodbye" else None,
    )
    dialer = racer.Dialer([guest])
    if where == "goodbye":
        await (await dialer.dial(HOST)).aclose()
    else:
        with pytest.raises(DialerClosed, match="the dialer was closed"):
            await dialer.dial(HOST, check=close if where == "check" else close_below)
    await dialer.aclose()
    assert anyio.current_time() == 0
    assert guest.diary == [("aclose", 0.0)]
    guest.ledger.assert_all_closed()
    assert messages(caplog) == []


# --- dropped open ---------------------------------------------------------------------------


async def test_a_dialer_that_is_dropped_open_warns_and_ends() -> None:
    guest = Hosted("plain", wins().then(hangs()))
    held = [racer.Dialer([guest])]
    await (await held[0].dial(HOST)).aclose()
    with pytest.warns(ResourceWarning, match="<Dialer of plain> was dropped without aclose"):
        drop(held)
    await settle()
    assert guest.diary == [("aclose", 0.0)]
    assert guest.host is not None
    with pytest.raises(DialerClosed):
        guest.host.start_soon(anyio.sleep, 1, name="late")


async def test_a_dialer_that_is_dropped_just_after_a_cancelled_first_use_ends_too() -> None:
    guest = Hosted()
    held = [racer.Dialer([guest])]
    with anyio.CancelScope() as scope:
        scope.cancel()
        await held[0].__aenter__()
    await settle()  # trio's scheduler still holds the cancellation, and with it this frame
    with pytest.warns(ResourceWarning, match="dropped without aclose"):
        drop(held)
    await settle()
    assert guest.diary == [("aclose", 0.0)]


async def test_an_unused_or_closed_dialer_may_be_dropped() -> None:
    dialer = racer.Dialer([ScriptedTransport("plain")])
    await dialer.aclose()
    del dialer
    racer.Dialer([ScriptedTransport("plain")])
    gc.collect()


async def test_a_connection_that_is_dropped_open_warns_and_is_closed_by_force() -> None:
    guest = ScriptedTransport("plain", wins(close_delay=1.0))
    async with racer.Dialer([guest]) as dialer:
        held = [await dialer.dial(HOST)]
        with pytest.warns(ResourceWarning, match="<Connection by 'plain'.*without aclose"):
            drop(held)
        await settle()
        stream = guest.attempts[0].stream
        assert stream is not None
        assert (stream.closed_at, stream.closed_by_force) == (0.0, True)
        assert dialer.status().cleanups == 0


async def test_what_another_thread_drops_is_closed_by_the_loop() -> None:
    guest = ScriptedTransport("plain")
    dialer = racer.Dialer([guest])
    held: list[Any] = [await dialer.dial(HOST)]
    with pytest.warns(ResourceWarning, match="<Connection by 'plain'"):
        await anyio.to_thread.run_sync(drop, held)
    await settle()
    guest.ledger.assert_all_closed()
    held.append(dialer)
    del dialer
    with pytest.warns(ResourceWarning, match="<Dialer of plain>"):
        await anyio.to_thread.run_sync(drop, held)
    await settle()
    assert len(guest.closed_at) == 1


async def test_a_connection_that_is_dropped_while_its_dialer_says_goodbye_is_closed_all_the_same() -> (
    None
):
    guest = ScriptedTransport("plain", lifecycle=Lifecycle(aclose_takes=0.5))
    dialer = racer.Dialer([guest])
    held = [await dialer.dial(HOST)]
    async with anyio.create_task_group() as group:
        group.start_soon(dialer.aclose)
        await anyio.sleep(0.1)
        with pytest.warns(ResourceWarning, match="<Connection by 'plain'.*without aclose"):
            drop(held)
        await settle()
        guest.ledger.assert_all_closed()


async def test_a_connection_that_outlives_its_dialer_is_still_closed_when_it_is_dropped() -> None:
    guest = ScriptedTransport("plain", wins(close_delay=1.0))
    async with racer.Dialer([guest]) as dialer:
        held = [await dialer.dial(HOST)]
    await held[0].send(b"still works")
    with pytest.warns(ResourceWarning, match="<Connection by 'plain'"):
        drop(held)
    await settle()
    stream = guest.attempts[0].stream
    assert stream is not None
    assert (stream.closed_at, stream.closed_by_force) == (0.0, True)


async def test_a_connection_keeps_its_dialer_alive() -> None:
    guest = ScriptedTransport("plain")
    held = [await racer.Dialer([guest]).dial(HOST)]
    gc.collect()
    await held[0].send(b"alive")
    assert guest.closed_at == []
    await held[0].aclose()
    with pytest.warns(ResourceWarning, match="<Dialer of plain>"):
        drop(held)
    await settle()
    assert guest.closed_at == [0.0]


async def test_nothing_can_be_hosted_before_the_first_use_nor_after_the_end() -> None:
    guest = Hosted("plain", fails())
    dialer = racer.Dialer([guest])
    with pytest.raises(racer.errors.AllAttemptsFailed):
        await dialer.dial(HOST)
    await dialer.aclose()
    assert guest.host is not None
    with pytest.raises(DialerClosed):
        guest.host.start_soon(anyio.sleep, 1, name="late")
