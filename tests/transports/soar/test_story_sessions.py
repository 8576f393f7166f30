"""Sessions through pauses, sleep, crashes, revocation and crowds, from end to end (virtual time)."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING

import anyio
import pytest

import racer
from racer.errors import (
    AllAttemptsFailed,
    CredentialRejected,
    SessionEnded,
    SessionLost,
    Severity,
    classify,
)
from racer.testing import ScriptedTransport, fails, hangs
from tests.transports.soar.memory_world import (
    RTT,
    MemoryWorld,
    connect,
    everything,
    exactly,
    pattern,
    tunnel,
)
from transports.soar.core.crypto.grants import Grant
from transports.soar.core.server.credentials import IssuedGrant

if TYPE_CHECKING:
    from anyio.abc import ByteStream

    from transports.soar import Soar

pytestmark = pytest.mark.virtual_time

OLD, NEW = (Grant.generate(random.Random(seed).randbytes) for seed in ("old", "new"))


async def echo(soar: Soar) -> None:
    async with await connect(soar, "echo.example") as stream:
        await stream.send(b"ping")
        assert await exactly(stream, 4) == b"ping"


def notices(world: MemoryWorld) -> int:
    """Return how often the server had to say that it does not know a session."""
    assert world.server is not None
    return world.server.status(world.clocks.now()).answers.get("notice", 0)


# --- pauses and sleep -------------------------------------------------------------------------


async def test_a_short_idle_timeout_costs_one_handshake_and_no_failure() -> None:
    async with (
        MemoryWorld(idle_timeout=1.0) as world,
        world.started(session_idle=0.5) as soar,
    ):
        await echo(soar)
        await anyio.sleep(2)
        before = world.handshakes
        await echo(soar)
        assert world.handshakes == before + 1
        assert notices(world) == 0


@pytest.mark.parametrize(("pause", "handshakes"), [(17.0, 1), (79.0, 1), (101.0, 2), (3600.0, 2)])
async def test_a_pause_keeps_a_session_for_as_long_as_the_server_does(
    pause: float, handshakes: int
) -> None:
    async with MemoryWorld() as world, world.started() as soar:
        await echo(soar)
        await anyio.sleep(pause)
        await echo(soar)
        assert (world.handshakes, notices(world)) == (handshakes, 0)


async def test_a_laptop_that_slept_presents_no_dead_session() -> None:
    """Three minutes pass for the server, and none for the loop's own clock (S6)."""
    async with MemoryWorld() as world, world.started() as soar:
        await echo(soar)
        await anyio.sleep(1)
        world.clocks.slept += 180
        await echo(soar)
        assert (world.handshakes, notices(world)) == (2, 0)


async def test_a_warm_session_is_kept_confirmed_by_one_question_in_a_while() -> None:
    async with MemoryWorld() as world, world.started(warm=True) as soar:
        await echo(soar)
        await anyio.sleep(5)
        asked = world.questions
        await anyio.sleep(3600)
        assert 36 <= world.questions - asked <= 80  # at half of session_idle, or later
        began = anyio.current_time()
        async with await connect(soar, "echo.example"):
            assert anyio.current_time() - began == pytest.approx(RTT)
        assert (world.handshakes, notices(world)) == (1, 0)


async def test_nothing_is_asked_while_nothing_is_wanted() -> None:
    async with MemoryWorld() as world, world.started() as soar:
        await echo(soar)
        await anyio.sleep(5)
        asked = world.questions
        await anyio.sleep(3600)
        assert world.questions == asked


async def test_an_open_stream_keeps_its_session() -> None:
    async with MemoryWorld(idle_timeout=10.0) as world, world.started() as soar:
        async with await connect(soar, "push.example") as stream:
            await anyio.sleep(300)
            asked = world.questions
            await anyio.sleep(60)
            assert world.questions - asked < 120
            world.push.set()
            began = anyio.current_time()
            assert await exactly(stream, 4) == b"news"
            assert anyio.current_time() - began < 2
        assert world.handshakes == 1


async def test_a_link_that_is_away_for_half_a_minute_loses_nothing() -> None:
    async with MemoryWorld() as world, world.started() as soar:
        async with await connect(soar, "down.example") as stream:
            await stream.send(b"100000")
            got = await exactly(stream, 20_000)
            world.is_up = False
            await anyio.sleep(30)
            world.is_up = True
            assert got + await everything(stream) == pattern(100_000)
        assert world.handshakes == 1


# --- a server that is gone --------------------------------------------------------------------


async def test_a_server_that_restarts_in_the_middle_of_a_stream_ends_it_soon_after() -> None:
    async with MemoryWorld() as world, world.started() as soar:
        async with await connect(soar, "down.example") as stream:
            await stream.send(b"5000000")
            await exactly(stream, 5_000)
            world.kill_server()
            await anyio.sleep(1)
            world.start_server()
            restarted = anyio.current_time()
            with pytest.raises(anyio.BrokenResourceError) as caught:
                await everything(stream)
            assert isinstance(caught.value.__cause__, SessionLost)
            assert "the server lost the session" in str(caught.value.__cause__)
            assert anyio.current_time() - restarted < 2  # a silent path is asked less often
        await echo(soar)
        assert world.handshakes == 2


async def test_a_server_that_stays_away_ends_streams_within_a_minute_of_silence() -> None:
    async with MemoryWorld() as world, world.started() as soar:
        async with await connect(soar, "push.example") as stream:
            world.kill_server()
            began = anyio.current_time()
            with pytest.raises(anyio.BrokenResourceError) as caught:
                await stream.receive()
            assert classify(caught.value) is Severity.TRANSIENT
            assert "without an authentic answer" in str(caught.value.__cause__)
            assert 60 <= anyio.current_time() - began < 65
        world.start_server()
        await echo(soar)


async def test_a_server_that_restarted_between_dials_costs_one_round_trip() -> None:
    async with MemoryWorld() as world, world.started() as soar:
        await echo(soar)
        await anyio.sleep(10)
        world.restart_server()
        began = anyio.current_time()
        async with await connect(soar, "echo.example"):
            # A notice, a handshake whose early frames a young server does not execute, and the opening.
            assert anyio.current_time() - began <= 3.1 * RTT
        assert world.handshakes == 2


async def test_an_operator_who_shuts_down_is_told_apart_from_a_loss() -> None:
    async with tunnel("push.example") as (world, stream):
        assert world.server is not None
        world.server.shutdown(world.clocks.now())
        world.flush()
        with pytest.raises(anyio.BrokenResourceError) as caught:
            await stream.receive()
        assert isinstance(caught.value.__cause__, SessionEnded)
        assert "the server shut down; a new session is needed" in str(caught.value.__cause__)


# --- credentials --------------------------------------------------------------------------------


async def test_a_grant_that_is_revoked_ends_a_download_and_the_next_dial() -> None:
    grants = (IssuedGrant(grant=OLD),)
    async with (
        MemoryWorld(grants=grants, needs_grant=True) as world,
        world.started(credential=OLD) as soar,
    ):
        async with await connect(soar, "down.example") as stream:
            await stream.send(b"5000000")
            await exactly(stream, 5_000)
            assert world.server is not None
            world.server.revoke(OLD.id, world.clocks.now())
            world.flush()
            revoked = anyio.current_time()
            with pytest.raises(anyio.BrokenResourceError) as caught:
                await everything(stream)
            assert str(caught.value.__cause__).startswith("the grant was revoked")
            assert anyio.current_time() - revoked < 1
        with pytest.raises(CredentialRejected) as rejected:
            await connect(soar, "echo.example")
        assert classify(rejected.value) is Severity.CREDENTIAL
        assert OLD.to_text() not in str(rejected.value)


async def test_a_rejected_credential_is_asked_about_once_and_said_first() -> None:
    async with MemoryWorld(needs_grant=True) as world:
        soar = racer.Entrant(world.soar(credential=OLD), start_delay=0.0)
        direct = ScriptedTransport("direct", fails(1.0))
        async with racer.Dialer([direct, soar]) as dialer:
            with pytest.raises(AllAttemptsFailed) as caught:
                await dialer.dial("echo.example", 80)
        assert classify(caught.value.report.attempts[1].error or OSError()) is Severity.CREDENTIAL
        assert caught.value.find(CredentialRejected) is not None
        assert world.server is not None
        counts = world.server.status(world.clocks.now()).handshakes
        assert {kind: count for kind, count in counts.items() if count} == {"refused": 1}


async def test_a_credential_that_is_replaced_during_a_race_is_used_by_no_later_dial() -> None:
    grants = (IssuedGrant(grant=OLD), IssuedGrant(grant=NEW))
    async with MemoryWorld(grants=grants, needs_grant=True) as world:
        soar = racer.Entrant(world.soar(credential=OLD), start_delay=0.0)
        async with racer.Dialer([ScriptedTransport("direct", hangs()), soar]) as dialer:
            held = await dialer.dial("push.example", 80)
            streams: list[ByteStream] = []

            async def dial() -> None:
                streams.append(await dialer.dial("echo.example", 80))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(dial)
                await anyio.sleep(RTT / 4)  # its question is under way
                dialer.update_credential("soar", NEW.to_text())
                tasks.start_soon(dial)
            assert world.handshakes == 2
            states = {s.id: s.state for s in dialer.status().entrants[1].transport.sessions}
            assert states == {"2": "live", "1": "draining"}
            world.push.set()
            assert await exactly(held, 4) == b"news"  # what is open goes on
            for stream in (held, *streams):
                await stream.aclose()
            await anyio.sleep(2)
            sessions = dialer.status().entrants[1].transport.sessions
            assert [session.id for session in sessions] == ["2"]


# --- crowds -------------------------------------------------------------------------------------


async def test_fifty_dials_at_once_share_one_session() -> None:
    async with MemoryWorld() as world, world.started() as soar:
        done: list[int] = []

        async def dial(number: int) -> None:
            async with await connect(soar, "echo.example") as stream:
                words = b"stream %d" % number
                await stream.send(words)
                assert await exactly(stream, len(words)) == words
                done.append(number)

        async with anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(dial, number)
        assert sorted(done) == list(range(50))
        assert world.handshakes == 1


async def test_an_upload_that_saturates_the_path_stops_no_interactive_stream() -> None:
    async with MemoryWorld() as world, world.started() as soar, anyio.create_task_group() as tasks:
        sums: list[bytes] = []

        async def upload() -> None:
            async with await connect(soar, "up.example") as stream:
                await stream.send(pattern(100_000))
                await stream.send_eof()
                sums.append(await everything(stream))

        tasks.start_soon(upload)
        await anyio.sleep(2 * RTT)
        waits: list[float] = []
        async with await connect(soar, "echo.example") as stream:
            while not sums:
                began = anyio.current_time()
                await stream.send(b"key")
                await exactly(stream, 3)
                waits.append(anyio.current_time() - began)
        assert sums == [hashlib.sha256(pattern(100_000)).digest()]
        assert len(waits) >= 3
        assert max(waits) < 6 * RTT
        assert world.handshakes == 1


async def test_downloads_in_a_row_are_whole_and_none_slower_than_the_first() -> None:
    async with MemoryWorld() as world, world.started() as soar:
        took: list[float] = []
        for _ in range(6):
            began = anyio.current_time()
            async with await connect(soar, "down.example") as stream:
                await stream.send(b"100000")
                assert await everything(stream) == pattern(100_000)
            took.append(anyio.current_time() - began)
        assert max(took[1:]) <= took[0]
        assert world.handshakes == 1
