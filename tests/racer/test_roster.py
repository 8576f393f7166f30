"""Who takes part: places and their guests, which start once, take new credentials, and may be exchanged in flight."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import racer
from racer._roster import Lease, Roster
from racer.abc import Traits
from racer.errors import (
    AllAttemptsFailed,
    ConfigError,
    CredentialRejected,
    DialError,
    TransportBusy,
    TransportCrashed,
    TransportError,
)
from racer.testing import Lifecycle, ScriptedTransport, fails, hangs, returns, stream_pair, wins
from tests.racer.guests import Hosted

pytestmark = pytest.mark.virtual_time

HOST = "192.0.2.1:80"


async def settle() -> None:
    """Let every task that is ready run to its next wait."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


# --- entrants -------------------------------------------------------------------------------


def test_what_an_entrant_leaves_open_its_transport_says() -> None:
    guest = ScriptedTransport("soar", traits=Traits(start_delay=8.0, tier=2))
    own, told = (
        racer.Entrant(guest),
        racer.Entrant(guest, start_delay=0, tier=0, name="last resort"),
    )
    assert (own.name, own.start_delay, own.tier) == ("soar", 8.0, 2)
    assert (told.name, told.start_delay, told.tier) == ("last resort", 0, 0)
    assert own.transport is told.transport is guest


def test_an_entrant_does_not_change() -> None:
    entrant = racer.Entrant(ScriptedTransport("a"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        entrant.tier = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        *[
            ({"start_delay": bad}, "start_delay of 'a' must be a finite number of seconds")
            for bad in (math.nan, math.inf, "8", True, 10**400)
        ],
        *[
            ({"start_delay": bad}, r"start_delay of 'a'=.*: a delay is 0 or at least 0\.01 s")
            for bad in (-1, 0.009, 1e-9)
        ],
        *[
            ({"tier": bad}, "tier must be a whole number of at least 0")
            for bad in (-1, 1.5, "0", True)
        ],
        *[
            ({"name": bad}, "an entrant's name is a text of 1 to 100 characters")
            for bad in ("", "x" * 101, 7, b"a", " ", "a\nb", "\x1b[31m", "\ud800")
        ],
    ],
)
def test_places_that_cannot_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        racer.Entrant(ScriptedTransport("a"), **options)


def test_places_keep_the_order_in_which_they_were_listed() -> None:
    roster = Roster([ScriptedTransport(name) for name in "cab"])
    assert [(place.name, place.index) for place in roster] == [("c", 0), ("a", 1), ("b", 2)]
    assert roster["a"].index == 1


def test_a_lease_is_given_back_once() -> None:
    roster = Roster([ScriptedTransport("a")])
    lodger = roster["a"].lodger
    first, second = Lease(lodger), roster.lease(roster["a"])
    assert lodger.uses == 2
    first.release()
    first.release()
    assert lodger.uses == 1
    second.release()
    assert lodger.uses == 0


# --- starting -------------------------------------------------------------------------------


async def test_dials_that_come_together_wait_for_one_start() -> None:
    guest = ScriptedTransport("a", wins(0.25), lifecycle=Lifecycle(start_takes=0.5))

    async def dial() -> None:
        async with await dialer.dial(HOST):
            pass

    async with racer.Dialer([guest]) as dialer:
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(dial)
        await dial()
    assert guest.started_at == [0.0]
    assert [attempt.began_at for attempt in guest.attempts] == [0.5] * 3 + [0.75]
    assert guest.misuses == []


async def test_a_start_that_fails_fails_those_who_waited_and_is_tried_again() -> None:
    refused = CredentialRejected("the key is not known")
    guest = ScriptedTransport("a", lifecycle=Lifecycle(start_takes=0.5, start_errors=[refused]))
    errors: list[AllAttemptsFailed] = []

    async def dial() -> None:
        with pytest.raises(AllAttemptsFailed) as caught:
            await dialer.dial(HOST)
        errors.append(caught.value)

    async with racer.Dialer([guest]) as dialer:
        async with anyio.create_task_group() as group:
            group.start_soon(dial)
            group.start_soon(dial)
        assert anyio.current_time() == 0.5
        for error in errors:
            attempt = error.report["a"]
            assert (attempt.outcome, attempt.stage) == ("connect_failed", "start")
            assert attempt.error_type == "credential_rejected"
            assert "could not start: CredentialRejected: the key is not known" in str(error)
            assert error.find(CredentialRejected) is refused
        async with await dialer.dial(HOST):
            pass
    assert guest.started_at == [0.0, 0.5]
    assert guest.misuses == []


async def test_a_bug_in_a_start_is_a_crash_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    guest = ScriptedTransport("a", lifecycle=Lifecycle(start_errors=[ValueError("a bug")]))
    async with racer.Dialer([guest, ScriptedTransport("b", wins(0.5))]) as dialer:
        conn = await dialer.dial(HOST)
        await conn.aclose()
    attempt = conn.report["a"]
    assert attempt.error_type == "crashed"
    assert isinstance(attempt.error, TransportCrashed)
    assert "transport 'a' crashed" in caplog.text
    assert "in start" in caplog.text  # the traceback leads to the guest's own line


async def test_an_exit_in_a_start_is_told_as_critical_and_fails_the_attempt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guest = ScriptedTransport("a", lifecycle=Lifecycle(start_errors=[SystemExit(3)]))
    async with racer.Dialer([guest, ScriptedTransport("b", wins(0.5))]) as dialer:
        async with await dialer.dial(HOST) as conn:
            assert "its start() ended without an answer" in str(conn.report["a"].error)
        async with await dialer.dial(HOST, only="a"):
            pass
    assert [r.getMessage() for r in caplog.records if r.levelname == "CRITICAL"] == [
        "hosted task 'a start' raised 'SystemExit', and nobody waits for it"
    ]


async def test_a_start_survives_the_dial_that_asked_for_it() -> None:
    guest = ScriptedTransport("a", lifecycle=Lifecycle(start_takes=1.0))
    async with racer.Dialer([guest]) as dialer:
        with anyio.move_on_after(0.25):
            await dialer.dial(HOST)
        assert anyio.current_time() == 0.25
        assert guest.attempts == []
        async with await dialer.dial(HOST):
            assert anyio.current_time() == 1.0
    assert guest.started_at == [0.0]


async def test_the_time_of_a_start_is_the_attempts() -> None:
    guest = ScriptedTransport(
        "a", traits=Traits(attempt_timeout=0.5), lifecycle=Lifecycle(start_takes=0.75)
    )
    async with racer.Dialer([guest]) as dialer:
        with pytest.raises(DialError) as caught:
            await dialer.dial(HOST)
        attempt = caught.value.report["a"]
        assert (attempt.outcome, attempt.stage, attempt.finished_at) == ("timed_out", "start", 0.5)
        async with await dialer.dial(HOST):
            assert anyio.current_time() == 0.75
    assert guest.started_at == [0.0]


async def test_a_guest_without_a_start_is_ready() -> None:
    class Bare(racer.abc.Transport):
        name = "bare"

        async def connect(self, target: Any, progress: Any) -> Any:
            raise ConnectionRefusedError

    async with racer.Dialer([Bare()]) as dialer:
        with pytest.raises(AllAttemptsFailed) as caught:
            await dialer.dial(HOST)
    assert caught.value.find(ConnectionRefusedError)
    assert caught.value.find(TransportError) is None


# --- at its limit ---------------------------------------------------------------------------


async def test_a_guest_at_its_limit_fails_at_once_and_is_not_asked() -> None:
    guest = ScriptedTransport("a", wins(1.0), traits=Traits(max_concurrent=2))

    async def dial() -> None:
        async with await dialer.dial(HOST):
            pass

    async with racer.Dialer([guest]) as dialer:
        async with anyio.create_task_group() as group:
            group.start_soon(dial)
            group.start_soon(dial)
            await anyio.sleep(0.5)
            assert dialer.status()["a"].active == 2
            with pytest.raises(AllAttemptsFailed) as caught:
                await dialer.dial(HOST)
            assert anyio.current_time() == 0.5
        await dial()
    busy = caught.value.find(TransportBusy)
    assert busy is not None
    assert str(busy) == "2 attempts are under way, and its limit is 2"
    assert (busy.transport, caught.value.report["a"].error_type) == ("a", "busy")
    assert len(guest.attempts) == 3


async def test_a_guest_is_not_held_to_the_attempts_of_the_one_it_replaced() -> None:
    """One that is stuck is what one replaces."""
    stuck = ScriptedTransport("a", hangs().slow_cleanup(2), traits=Traits(max_concurrent=1))
    async with racer.Dialer([stuck]) as dialer:
        with anyio.move_on_after(1):
            await dialer.dial(HOST)
        with pytest.raises(AllAttemptsFailed, match="1 attempts are under way"):
            await dialer.dial(HOST)
        dialer.replace("a", ScriptedTransport("other", wins(), traits=Traits(max_concurrent=1)))
        await (await dialer.dial(HOST)).aclose()
        assert anyio.current_time() == 1


# --- credentials ----------------------------------------------------------------------------


async def test_no_attempt_that_begins_after_an_update_uses_the_old_credential() -> None:
    guest = ScriptedTransport("a", wins(1.0), credential="old")

    async def dial() -> None:
        async with await dialer.dial(HOST):
            pass

    dialer = racer.Dialer([guest])
    async with dialer, anyio.create_task_group() as group:
        group.start_soon(dial)
        await anyio.sleep(0.5)
        dialer.update_credential("a", "new")
        await dial()
    assert [attempt.credential for attempt in guest.attempts] == ["old", "new"]


# --- exchange -------------------------------------------------------------------------------


async def test_what_is_under_way_keeps_the_old_guest_which_is_closed_after_the_last() -> None:
    old, new = ScriptedTransport("old", wins(1.0)), ScriptedTransport("new", wins(1.0))
    used: list[tuple[str, float]] = []

    async def dial(hold: float) -> None:
        async with await dialer.dial(HOST) as conn:
            assert conn.transport_name == "place"
            await anyio.sleep(hold)
        await settle()
        used.append((f"closed {len(old.closed_at)}", anyio.current_time()))

    async with racer.Dialer([racer.Entrant(old, name="place")]) as dialer:
        async with anyio.create_task_group() as group:
            group.start_soon(dial, 1.0)
            await anyio.sleep(0.5)
            group.start_soon(dial, 2.0)
            await anyio.sleep(0.25)
            dialer.replace("place", new)
            group.start_soon(dial, 0.25)
        assert used == [("closed 0", 2.0), ("closed 0", 2.0), ("closed 1", 3.5)]
        assert (len(old.attempts), len(new.attempts)) == (2, 1)
        assert old.closed_at == [3.5]
        assert new.started_at == [0.75]
    assert (old.closed_at, new.closed_at) == ([3.5], [3.5])
    assert old.misuses == new.misuses == []


async def test_an_attempt_that_is_cancelled_gives_the_old_guest_free() -> None:
    old, new = ScriptedTransport("old", hangs().slow_cleanup(0.5)), ScriptedTransport("new")
    async with racer.Dialer([racer.Entrant(old, name="place")]) as dialer:
        with anyio.move_on_after(1):
            async with anyio.create_task_group() as group:
                group.start_soon(dialer.dial, HOST)
                await anyio.sleep(0.5)
                dialer.replace("place", new)
        await anyio.sleep(1)
        assert old.closed_at == [1.5]  # after its cleanup, which is use too


async def test_a_loser_that_is_slow_to_close_keeps_the_old_guest_until_then() -> None:
    """A tunnel that went before its stream could not say goodbye for it."""
    near, _ = stream_pair(close_delay=0.75)
    old = ScriptedTransport("old", returns(near, 0.5))
    winner = ScriptedTransport("winner", wins(0.5))
    async with racer.Dialer([winner, racer.Entrant(old, name="place")]) as dialer:
        conn = await dialer.dial(HOST)
        assert conn.transport_name == "winner"
        dialer.replace("place", ScriptedTransport("new"))
        await anyio.sleep(2)
        assert near.closed_at == 1.25
        assert old.closed_at == [1.25]
        await conn.aclose()


async def test_a_connection_that_is_dropped_gives_the_old_guest_free() -> None:
    old = ScriptedTransport("old")
    async with racer.Dialer([racer.Entrant(old, name="place")]) as dialer:
        held = [await dialer.dial(HOST)]
        dialer.replace("place", ScriptedTransport("new"))
        await anyio.sleep(1)
        assert old.closed_at == []
        with pytest.warns(ResourceWarning, match="dropped"):
            held.clear()
        await settle()
        assert old.closed_at == [1.0]


async def test_a_guest_that_nobody_uses_is_closed_when_it_is_replaced() -> None:
    guests = [ScriptedTransport(name) for name in "abc"]
    async with racer.Dialer([racer.Entrant(guests[0], name="place")]) as dialer:
        await anyio.sleep(1)
        dialer.replace("place", guests[1])
        await anyio.sleep(1)
        dialer.replace("place", guests[2])
        await settle()
        assert [guest.closed_at for guest in guests] == [[1.0], [2.0], []]
    assert [guest.closed_at for guest in guests] == [[1.0], [2.0], [2.0]]


async def test_a_guest_that_is_replaced_before_the_first_use_is_closed_at_the_end() -> None:
    old, new = ScriptedTransport("old"), ScriptedTransport("new")
    dialer = racer.Dialer([racer.Entrant(old, name="place")])
    dialer.replace("place", new)
    async with dialer:
        async with await dialer.dial(HOST):
            pass
        await anyio.sleep(1)
    assert (old.started_at, old.closed_at, new.closed_at) == ([], [1.0], [1.0])


async def test_a_guest_is_not_closed_while_it_starts() -> None:
    old = ScriptedTransport("old", lifecycle=Lifecycle(start_takes=2.0))
    async with racer.Dialer([racer.Entrant(old, name="place")]) as dialer:
        with anyio.move_on_after(1):
            await dialer.dial(HOST)
        dialer.replace("place", ScriptedTransport("new"))
        async with await dialer.dial(HOST):
            assert anyio.current_time() == 1.0
        await anyio.sleep(3)
    assert (old.started_at, old.closed_at, old.misuses) == ([0.0], [2.0], [])


async def test_a_replaced_guest_that_hangs_in_its_goodbye_is_cut_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def hang(guest: Hosted) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            guest.note("cut")

    old = Hosted("old", goodbye=hang)
    broken = ScriptedTransport("broken", lifecycle=Lifecycle(aclose_error=ValueError("a bug")))
    async with racer.Dialer([racer.Entrant(old, name="place")]) as dialer:
        dialer.replace("place", broken)
        dialer.replace("place", ScriptedTransport("new"))
        await anyio.sleep(5)
    assert old.diary == [("aclose", 0.0), ("cut", 1.0)]
    assert [record.getMessage() for record in caplog.records if record.name != "asyncio"] == [
        "hosted task 'broken close' failed",
        "transport 'old', replaced, did not close within 1.0 s",
    ]


async def test_replaced_guests_that_are_still_in_use_are_closed_at_the_end() -> None:
    old, older = ScriptedTransport("old"), ScriptedTransport("older")
    dialer = racer.Dialer([racer.Entrant(older, name="place")])
    conns = [await dialer.dial(HOST)]
    dialer.replace("place", old)
    conns.append(await dialer.dial(HOST))
    dialer.replace("place", ScriptedTransport("new", fails()))
    assert len(dialer.status().entrants) == 1
    await anyio.sleep(1)
    await dialer.aclose()
    assert (older.closed_at, old.closed_at) == ([1.0], [1.0])
    for conn in conns:
        await conn.aclose()
    await settle()
    assert (older.closed_at, old.closed_at) == ([1.0], [1.0])
