"""What a dialer says of itself: frozen, complete, and never an error of its own."""

from __future__ import annotations

import dataclasses
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import racer
from racer.abc import SessionStatus, TransportStatus
from racer.errors import AllAttemptsFailed
from racer.testing import ScriptedTransport, fails, hangs, wins

pytestmark = pytest.mark.virtual_time

HOST = "192.0.2.1:80"


async def settle() -> None:
    """Let every task that is ready run to its next wait."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


def test_before_the_first_use_it_shows_who_is_listed() -> None:
    dialer = racer.Dialer(
        [
            ScriptedTransport("direct"),
            racer.Entrant(ScriptedTransport("soar"), start_delay=8.0, tier=1, name="last resort"),
        ]
    )
    status = dialer.status()
    assert status == racer.DialerStatus(
        entrants=(
            racer.EntrantStatus(
                name="direct",
                start_delay=0.0,
                tier=0,
                active=0,
                last=None,
                transport=TransportStatus(),
            ),
            racer.EntrantStatus(
                name="last resort",
                start_delay=8.0,
                tier=1,
                active=0,
                last=None,
                transport=TransportStatus(),
            ),
        ),
        races=0,
        cleanups=0,
        closed=False,
    )
    assert status["last resort"].start_delay == 8.0
    with pytest.raises(KeyError, match="proxyless"):
        status["proxyless"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        status.races = 1  # type: ignore[misc]


async def test_it_counts_what_is_under_way() -> None:
    slow = ScriptedTransport("slow", hangs().slow_cleanup(0.75))
    async with racer.Dialer([ScriptedTransport("quick", wins(1.0)), slow]) as dialer:

        def counts() -> tuple[int, int, int, int]:
            status = dialer.status()
            return status.races, status["quick"].active, status["slow"].active, status.cleanups

        async def dial() -> None:
            async with await dialer.dial(HOST):
                await anyio.sleep(10)

        assert counts() == (0, 0, 0, 0)
        async with anyio.create_task_group() as group:
            group.start_soon(dial)
            await anyio.sleep(0.5)
            group.start_soon(dial)
            await settle()
            assert counts() == (2, 2, 2, 0)
            await anyio.sleep(0.5)
            await settle()
            assert counts() == (1, 1, 2, 1)
            await anyio.sleep(0.5)
            await settle()
            assert counts() == (0, 0, 2, 2)  # what only cleans up is still there
            await anyio.sleep(0.5)
            await settle()
            assert counts() == (0, 0, 1, 1)
            await anyio.sleep(0.5)
            assert counts() == (0, 0, 0, 0)
            group.cancel_scope.cancel()


async def test_a_race_counts_until_it_is_left() -> None:
    async with racer.Dialer([ScriptedTransport("a")]) as dialer:
        race = dialer.race(HOST)
        assert dialer.status().races == 0
        async with race:
            async with await race.__anext__():
                assert dialer.status().races == 1
            assert dialer.status().races == 1
        assert dialer.status().races == 0


async def test_it_shows_each_entrants_last_attempt_that_began() -> None:
    guests = [
        ScriptedTransport("fails", fails(0.5).then(hangs())),
        ScriptedTransport("wins", wins(1.0).then(fails())),
        ScriptedTransport("late"),
    ]
    async with racer.Dialer(
        [*guests[:2], racer.Entrant(guests[2], start_delay=5.0), ScriptedTransport("no", serves="")]
    ) as dialer:
        async with await dialer.dial(HOST) as conn:
            first = dialer.status()
            assert first["fails"].last == conn.report["fails"]
            assert first["wins"].last is conn.report["wins"]
            assert first["late"].last is None
            assert first["no"].last is None
        with anyio.move_on_after(1):
            await dialer.dial(HOST)
        lasts = [entrant.last for entrant in dialer.status().entrants]
        assert [last and last.outcome.value for last in lasts] == [
            "cancelled",
            "connect_failed",
            None,
            None,
        ]
        assert first["fails"].last == conn.report["fails"]  # what was told does not change


async def test_a_guest_tells_its_own_health_and_sessions() -> None:
    class Tunnel(ScriptedTransport):
        def status(self) -> TransportStatus:
            sessions = (SessionStatus(id="7f3a", state="live", streams=2, idle=1.5),)
            return TransportStatus(health="stale", sessions=sessions, details={"resolvers": 3})

    async with racer.Dialer([Tunnel("soar")]) as dialer:
        told = dialer.status()["soar"].transport
    assert (told.health, told.details) == ("stale", {"resolvers": 3})
    assert [(s.id, s.state, s.streams, s.idle) for s in told.sessions] == [("7f3a", "live", 2, 1.5)]


async def test_a_status_that_is_none_is_the_guests_bug() -> None:
    class Wrong(ScriptedTransport):
        def status(self) -> Any:
            return "fine"

    async with racer.Dialer([Wrong("wrong")]) as dialer:
        assert dialer.status()["wrong"].transport.health == "its status() failed: TypeError"


@pytest.mark.parametrize("redact", [False, True])
async def test_a_guest_that_cannot_tell_hides_no_other(
    redact: bool, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(ScriptedTransport):
        def status(self) -> TransportStatus:
            raise ValueError("secret.example")

    async with racer.Dialer(
        [Broken("broken"), ScriptedTransport("whole")], redact=redact
    ) as dialer:
        status = dialer.status()
    assert status["broken"].transport.health == "its status() failed: ValueError"
    assert status["whole"].transport.health == "ok"
    assert "transport 'broken' failed to tell its status" in caplog.text
    assert ("ValueError: secret.example" in caplog.text) is not redact


async def test_after_the_end_it_still_answers_anywhere() -> None:
    guest = ScriptedTransport("a", fails())
    dialer = racer.Dialer([guest])
    with pytest.raises(AllAttemptsFailed):
        await dialer.dial(HOST)
    await dialer.aclose()
    told: list[Any] = [dialer.status()]
    await anyio.to_thread.run_sync(lambda: told.append(dialer.status()))
    assert told[0] == told[1]
    assert told[0].closed
    assert told[0]["a"].last.outcome == "connect_failed"
