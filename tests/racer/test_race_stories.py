"""The bugs that other racing dialers had, each tried on this one, with exact times."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from racer import Entrant, Outcome
from racer.abc import Traits
from racer.errors import (
    AllAttemptsFailed,
    AttemptTimeout,
    DialTimeout,
    ErrorType,
    SessionLost,
    Stage,
    TargetRefused,
)
from racer.testing import ScriptedTransport, fails, hangs, wins
from tests.racer.scene import Acting, Scene

if TYPE_CHECKING:
    from racer import Connection, RaceReport
    from racer.testing import MemoryStream, Script

pytestmark = pytest.mark.virtual_time


def guests(*scripts: Script, **traits: Any) -> list[ScriptedTransport]:
    return [
        ScriptedTransport(name, script, traits=Traits(**traits))
        for name, script in zip("abcdefgh", scripts, strict=False)
    ]


def staggered(*scripts: Script, delay: float = 0.25, **traits: Any) -> list[Entrant]:
    return [
        Entrant(guest, start_delay=index * delay)
        for index, guest in enumerate(guests(*scripts, **traits))
    ]


def starts(report: RaceReport) -> dict[str, float | None]:
    return {attempt.transport: attempt.started_at for attempt in report.attempts}


def outcomes(report: RaceReport) -> dict[str, str]:
    return {attempt.transport: attempt.outcome.value for attempt in report.attempts}


async def took(scene: Scene, expected: float, **options: Any) -> Connection:
    """Dial, check how long it took, and give the connection back open."""
    began = anyio.current_time()
    connection = await scene.dial(**options)
    assert anyio.current_time() - began == expected
    return connection


# --- 1. the runner-up leak ------------------------------------------------------------------------


async def test_runners_up_of_the_same_instant_are_closed() -> None:
    everyone = guests(*[wins(1.0)] * 5)
    async with Scene(*everyone) as scene, await took(scene, 1.0) as connection:
        assert connection.transport_name == "a"
        await scene.assert_clean(but=[connection._resource])
        for guest in everyone[1:]:
            peer = guest.attempts[0].peer
            assert peer is not None
            with pytest.raises(anyio.EndOfStream):
                await peer.receive()
            await peer.aclose()


# --- 2. a loser that has a stream and waits for more ----------------------------------------------


async def test_losers_with_a_stream_in_a_later_step_are_closed() -> None:
    """Connect, then one more wait: the stream is in racer's hands, in a step that is cancelled."""

    async def check(stream: Any) -> None:
        await anyio.sleep(0.5 if stream.name == "a" else 3600)

    everyone = guests(*[wins(0.25)] * 5)
    async with Scene(*everyone) as scene:
        for _ in range(20):
            async with await took(scene, 0.75, check=check) as connection:
                assert set(outcomes(connection.report).values()) == {"connected", "lost_race"}
                assert connection.report["b"].stage is Stage.VERIFY
                await scene.assert_clean(but=[connection._resource])


async def test_a_stream_that_does_not_do_is_closed() -> None:
    async def check(stream: Any) -> bool:
        return bool(stream.name != "a")

    async with Scene(*guests(wins(), wins(0.5))) as scene:
        connection = await took(scene, 0.5, check=check)
        lost = connection.report["a"]
        assert (lost.outcome, lost.error_type) == (Outcome.CONNECT_FAILED, ErrorType.NOT_USABLE)
        await scene.assert_clean(but=[connection._resource])
        await connection.aclose()


# --- 6. a slow loser holds up nobody --------------------------------------------------------------


@pytest.mark.parametrize(
    ("loser", "closed_after"),
    [
        pytest.param(hangs().slow_cleanup(5.0), 5.0, id="guest-cleans-up-for-5-s"),
        pytest.param(wins(1.0, close_delay=0.5), 0.5, id="its-stream-closes-in-half-a-second"),
        pytest.param(wins(1.0, close_delay=5.0), 2.0, id="its-stream-would-take-5-s"),
        pytest.param(wins(1.0, close_hangs=True), 2.0, id="its-stream-never-closes"),
    ],
)
async def test_a_slow_loser_does_not_delay_the_winner(loser: Script, closed_after: float) -> None:
    async with Scene(*guests(wins(1.0), loser)) as scene, await took(scene, 1.0) as connection:
        await scene.assert_clean(but=[connection._resource])
        assert anyio.current_time() == 1.0 + closed_after


async def test_slow_cleanup_delays_no_other_verdict_either() -> None:
    """Failure, deadline and cancellation are as punctual as a win."""

    async def never(stream: Any) -> bool:
        return False

    async with Scene(*guests(wins(1.0, close_hangs=True))) as scene:
        with pytest.raises(AllAttemptsFailed):
            await scene.dial(check=never)
        assert anyio.current_time() == 1.0
        await scene.assert_clean()
        assert anyio.current_time() == 3.0

    async with Scene(*guests(hangs().slow_cleanup(5.0))) as scene:
        with pytest.raises(DialTimeout):
            await scene.dial(timeout=1.0)
        assert anyio.current_time() == 4.0
        with anyio.move_on_after(1.0):
            await scene.dial()
        assert anyio.current_time() == 5.0
        await scene.assert_clean()
        assert anyio.current_time() == 10.0


# --- 7. the deadline in the instant of the completion ---------------------------------------------


async def test_what_arrives_in_the_instant_of_the_deadline_wins() -> None:
    async with Scene(*guests(wins(1.0), hangs())) as scene:
        for _ in range(20):
            async with await took(scene, 1.0, timeout=1.0):
                pass
        await scene.assert_clean()


@pytest.mark.parametrize("extra", range(4))
async def test_a_callers_own_timeout_in_the_instant_of_the_win_loses_nothing(extra: int) -> None:
    """Either there is a connection, or there was a cancellation; never neither, never both."""

    async def act(guest: Acting) -> MemoryStream:
        await anyio.sleep(1.0)
        for _ in range(extra):
            await anyio.lowlevel.checkpoint()
        return guest.stream()

    async with Scene(Acting("a", act)) as scene:
        connection: Connection | None = None
        with anyio.move_on_after(1.0) as scope:
            connection = await scene.dial()
        assert scope.cancelled_caught == (connection is None)
        await scene.assert_clean(but=[] if connection is None else [connection._resource])
        if connection is not None:
            await connection.aclose()


# --- 11. a start after, or beside, a win ----------------------------------------------------------


@pytest.mark.parametrize(
    ("won_at", "others"),
    [
        (0.25 - 2**-20, ["not_started", "not_started"]),
        (0.25, ["not_started", "not_started"]),
        (0.25 + 2**-20, ["lost_race", "not_started"]),
        (0.5, ["lost_race", "not_started"]),
    ],
)
async def test_nothing_starts_in_the_instant_of_a_win(won_at: float, others: list[str]) -> None:
    async with Scene(*staggered(wins(won_at), hangs(), hangs())) as scene:
        async with await took(scene, won_at) as connection:
            assert list(outcomes(connection.report).values()) == ["connected", *others]
            started = [name == "lost_race" for name in others]
            assert [bool(guest.attempts) for guest in scene.guests[1:]] == started
            await scene.settle()
        await anyio.sleep(10)
        assert [bool(guest.attempts) for guest in scene.guests[1:]] == started


# --- 12. a fast failure ends the wait -------------------------------------------------------------


async def test_a_fast_failure_lets_the_next_start_at_once() -> None:
    entrants = staggered(fails(2**-10), wins(1.0), delay=10.0)
    async with Scene(*entrants) as scene, await took(scene, 1.0 + 2**-10) as connection:
        assert starts(connection.report) == {"a": 0.0, "b": 2**-10}


async def test_all_that_fail_fast_bring_the_last_forward() -> None:
    """Soar's 8 s end when everything before it has failed."""
    entrants = [
        *staggered(fails(0.5), fails(0.5), delay=0.25),
        Entrant(ScriptedTransport("soar", wins(1.0)), start_delay=8.0),
    ]
    async with Scene(*entrants) as scene, await took(scene, 1.75) as connection:
        assert starts(connection.report) == {"a": 0.0, "b": 0.25, "soar": 0.75}


# --- 16. one deadline for all, not divided --------------------------------------------------------


async def test_black_holes_do_not_eat_the_deadline() -> None:
    async with Scene(*staggered(hangs(), hangs(), hangs(), wins(1.0))) as scene:
        connection = await took(scene, 1.75, timeout=1.75)
        await connection.aclose()


async def test_the_deadline_is_exact_and_no_attempt_gets_a_share_of_it() -> None:
    async with Scene(*staggered(hangs(), hangs(), hangs())) as scene:
        with pytest.raises(DialTimeout) as caught:
            await scene.dial(timeout=2.0)
        assert anyio.current_time() == 2.0
        assert starts(caught.value.report) == {"a": 0.0, "b": 0.25, "c": 0.5}
        assert {attempt.finished_at for attempt in caught.value.report.attempts} == {2.0}


# --- 18. every failure is told, with its name, in start order -------------------------------------


async def test_three_failures_are_all_reachable() -> None:
    refused = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
    lost = SessionLost("server lost the session")
    denied = TargetRefused("not allowed")
    # Listed in another order than they start in, and failing in a third.
    everyone = guests(fails(0.5, denied), fails(2.0, lost), fails(1.0, refused))
    delays = {"a": 0.5, "b": 0.25, "c": 0.0}
    async with Scene(*[Entrant(g, start_delay=delays[g.name]) for g in everyone]) as scene:
        with pytest.raises(AllAttemptsFailed) as caught:
            await scene.dial()
    error = caught.value
    assert anyio.current_time() == 2.25
    assert [(a.transport, a.error, a.error_type) for a in error.report.attempts] == [
        ("c", refused, "connection_refused"),
        ("b", lost, "session_lost"),
        ("a", denied, "target_refused"),
    ]
    assert error.group is error.__cause__
    assert error.group is not None
    assert error.group.exceptions == (refused, lost, denied)
    assert error.find(SessionLost) is lost
    assert error.find(ConnectionRefusedError) is refused
    assert error.find(TargetRefused) is denied
    assert error.find(AttemptTimeout) is None
    assert (lost.transport, denied.transport) == ("b", "a")
    assert error.errno is None
    text = str(error)
    assert text.index("c: ConnectionRefusedError") < text.index("b: SessionLost")
    assert text.index("b: SessionLost: server lost the session") < text.index("a: TargetRefused")
    found: list[BaseException] = []
    try:
        raise error.group
    except* SessionLost as group:
        found += group.exceptions
    except* OSError as group:
        found += group.exceptions
    except* TargetRefused as group:
        found += group.exceptions
    assert found == [lost, refused, denied]


async def test_failures_before_the_deadline_are_told_at_the_deadline() -> None:
    lost = SessionLost("server lost the session")
    entrants = [*staggered(fails(0.5, lost), hangs()), Entrant(ScriptedTransport("soar"), tier=1)]
    async with Scene(*entrants) as scene:
        with pytest.raises(DialTimeout) as caught:
            await scene.dial(timeout=4.0)
    error = caught.value
    assert isinstance(error, TimeoutError)
    assert isinstance(error, OSError)
    assert outcomes(error.report) == {
        "a": "connect_failed",
        "b": "timed_out",
        "soar": "not_started",
    }
    assert error.find(SessionLost) is lost
    late = error.find(AttemptTimeout)
    assert late is not None
    assert (late.transport, late.stage, str(late)) == (
        "b",
        Stage.CONNECT,
        "not usable within 3.75 s",
    )
    assert "a: SessionLost: server lost the session" in str(error)
    assert "soar: not_started" in str(error)


async def test_a_failure_in_the_instant_of_the_deadline_is_not_lost() -> None:
    """kindling's: the result and the deadline were both ready, and the result was dropped."""
    lost = SessionLost("server lost the session")
    async with Scene(*guests(fails(1.0, lost), hangs())) as scene:
        for _ in range(20):
            with pytest.raises(DialTimeout) as caught:
                await scene.dial(timeout=1.0)
            assert caught.value.find(SessionLost) is lost
            assert outcomes(caught.value.report) == {"a": "connect_failed", "b": "timed_out"}
    async with Scene(*guests(fails(1.0), fails(1.0))) as scene:
        with pytest.raises(AllAttemptsFailed):
            await scene.dial(timeout=1.0)


async def test_errno_is_set_when_all_agree() -> None:
    def refused() -> OSError:
        return ConnectionRefusedError(errno.ECONNREFUSED, "refused")

    async with Scene(*guests(fails(0, refused), fails(0.5, refused))) as scene:
        with pytest.raises(AllAttemptsFailed) as caught:
            await scene.dial()
    assert caught.value.errno == errno.ECONNREFUSED


async def test_the_production_case_reads_as_it_should() -> None:
    """Soar's turn comes 8 s into the race, and its session was lost meanwhile."""
    soar = ScriptedTransport("soar", fails(0.5, SessionLost("server lost the session")))
    blocked = ScriptedTransport("direct", hangs(), traits=Traits(attempt_timeout=30.0))
    async with Scene(blocked, Entrant(soar, start_delay=8.0)) as scene:
        with pytest.raises(AllAttemptsFailed) as caught:
            await scene.dial()
    assert anyio.current_time() == 30.0
    attempt = caught.value.report["soar"]
    assert (attempt.outcome, attempt.error_type) == (
        Outcome.CONNECT_FAILED,
        ErrorType.SESSION_LOST,
    )
    assert (attempt.started_at, attempt.finished_at) == (8.0, 8.5)
    assert "server lost the session" in attempt.cause


# --- 24. the off-by-one delay ---------------------------------------------------------------------


async def test_the_report_says_what_each_was_given() -> None:
    entrants: list[Entrant | ScriptedTransport] = [
        ScriptedTransport("a", hangs(), traits=Traits(attempt_timeout=2.0)),
        Entrant(
            ScriptedTransport("b", wins(1.0), traits=Traits(attempt_timeout=5.0)), start_delay=3.0
        ),
        Entrant(ScriptedTransport("c", wins(1.0), traits=Traits(attempt_timeout=7.0)), tier=1),
        ScriptedTransport("d", wins(1.0), serves="nobody"),
    ]
    async with Scene(*entrants) as scene:
        connection = await took(scene, 3.0)
        given = {one.transport: one.timeout for one in connection.report.attempts}
        assert given == {"a": 2.0, "b": 5.0, "c": 7.0, "d": None}
        assert connection.report["a"].outcome is Outcome.TIMED_OUT
        await connection.aclose()


async def test_the_kth_starts_at_k_delays() -> None:
    async with Scene(*staggered(*[hangs()] * 5)) as scene:
        with pytest.raises(DialTimeout) as caught:
            await scene.dial(timeout=10.0)
        told = [attempt.started_at for attempt in caught.value.report.attempts]
        assert told == [0.0, 0.25, 0.5, 0.75, 1.0]
        assert [guest.attempts[0].began_at for guest in scene.guests] == told
