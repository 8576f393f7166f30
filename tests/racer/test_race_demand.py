"""`Dialer.race()`: one finisher after the other, as the consumer asks for them; and how a race is left."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from racer import Connection, Entrant, Outcome, Race
from racer._connection import RoutedConnection
from racer.abc import Traits
from racer.errors import (
    AllAttemptsFailed,
    DialerClosed,
    DialTimeout,
    NoTransports,
)
from racer.testing import (
    ScriptedRequestTransport,
    ScriptedTransport,
    fails,
    hangs,
    returns,
    wins,
)
from tests.racer.scene import HOST, Acting, Scene

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from racer._race import Finisher
    from racer.testing import Script

pytestmark = pytest.mark.virtual_time


def scene_of(*scripts: tuple[Script, float], **traits: Any) -> Scene:
    """Return a scene with guests a, b, c, each with its start delay."""
    return Scene(
        *[
            Entrant(ScriptedTransport(name, script, traits=Traits(**traits)), start_delay=delay)
            for name, (script, delay) in zip("abcdef", scripts, strict=False)
        ]
    )


def race_in(scene: Scene, **options: Any) -> Race:
    return scene.dialer.race(HOST, 80, **options)


def began(scene: Scene) -> dict[str, float]:
    return {g.name: g.attempts[0].began_at for g in scene.guests if g.attempts}


# --- asking says "that one did not do" ------------------------------------------------------------


async def test_nothing_starts_while_a_finisher_is_in_hands() -> None:
    async with scene_of((wins(), 0), (wins(), 0.1), (wins(), 0.2)) as scene:
        async with race_in(scene) as race:
            async for connection in race:
                if connection.transport_name == "a":
                    await anyio.sleep(0.3)
                    assert began(scene) == {"a": 0.0}
                await connection.aclose()
                if connection.transport_name == "b":
                    break
        assert began(scene) == {"a": 0.0, "b": 0.3}
        assert race.report.winner == "b"
        outcomes = [attempt.outcome.value for attempt in race.report.attempts]
        assert outcomes == ["connected", "connected", "not_started"]
        await scene.assert_clean()


async def test_attempts_under_way_go_on_meanwhile() -> None:
    async with scene_of((wins(0.25), 0), (wins(0.5), 0)) as scene, race_in(scene) as race:
        async with await anext(race) as first:
            assert (anyio.current_time(), first.transport_name) == (0.25, "a")
            await anyio.sleep(1.0)
        async with await anext(race) as second:
            assert (anyio.current_time(), second.transport_name) == (1.25, "b")
            assert race.report["b"].finished_at == 0.5
            assert second.report.winner == "b"
        with pytest.raises(StopAsyncIteration):
            await anext(race)


async def test_the_deadline_counts_waiting_only() -> None:
    async with scene_of((wins(0.5), 0), (hangs(), 0)) as scene:
        async with race_in(scene, timeout=1.0) as race:
            async with await anext(race):
                await anyio.sleep(10.0)
            with pytest.raises(StopAsyncIteration):
                await anext(race)
            assert anyio.current_time() == 11.0
        assert race.report["b"].outcome is Outcome.TIMED_OUT
        assert race.report.outcome is Outcome.CONNECTED
        await scene.assert_clean()


async def test_delays_count_waiting_only_and_an_attempts_own_time_goes_on() -> None:
    scripts = (wins(0.5), 0), (hangs(), 0), (wins(), 2.0)
    async with scene_of(*scripts, attempt_timeout=11.0) as scene, race_in(scene) as race:
        async with await anext(race):
            await anyio.sleep(10.0)
        async with await anext(race) as third:
            assert third.transport_name == "c"
            assert began(scene) == {
                "a": 0.0,
                "b": 0.0,
                "c": 11.0,
            }  # b's time was over before c's turn
            assert race.report["b"].outcome is Outcome.TIMED_OUT
        with pytest.raises(StopAsyncIteration):
            await anext(race)
        assert anyio.current_time() == 11.0


async def test_an_attempt_whose_time_ran_out_meanwhile_is_over_when_the_next_is_asked_for() -> None:
    scripts = (wins(0.5), 0), (hangs(), 0), (wins(), 8.0)
    async with scene_of(*scripts, attempt_timeout=3.0) as scene, race_in(scene) as race:
        async with await anext(race):
            await anyio.sleep(10.0)
        async with await anext(race) as third:
            assert third.transport_name == "c"
        assert anyio.current_time() == 10.5
        assert race.report["b"].outcome is Outcome.TIMED_OUT


async def test_a_failure_while_a_finisher_is_in_hands_counts_when_the_next_is_asked_for() -> None:
    scripts = (wins(), 0), (fails(0.5), 0), (wins(), 8.0)
    async with scene_of(*scripts) as scene, race_in(scene) as race:
        async with await anext(race):
            await anyio.sleep(2.0)
        async with await anext(race) as last:
            assert last.transport_name == "c"
        assert anyio.current_time() == 2.0  # nothing ran any more: the 8 s were over


async def test_tiers_open_when_what_was_handed_out_did_not_do() -> None:
    last_resort = Entrant(ScriptedTransport("z"), tier=1)
    async with Scene(ScriptedTransport("a", wins()), last_resort) as scene:
        async with race_in(scene) as race:
            names = []
            async for connection in race:
                names.append(connection.transport_name)
                await connection.aclose()
        assert names == ["a", "z"]


# --- the end --------------------------------------------------------------------------------------


async def test_without_any_finisher_the_end_is_an_error() -> None:
    async with scene_of((fails(0.5), 0), (fails(1.0), 0)) as scene:
        async with race_in(scene) as race:
            with pytest.raises(AllAttemptsFailed):
                await anext(race)
            with pytest.raises(RuntimeError, match="over"):
                await anext(race)
        async with race_in(scene, timeout=0.75) as race:
            with pytest.raises(DialTimeout):
                async for _ in race:
                    pass
        await scene.assert_clean()


async def test_after_a_finisher_the_end_is_just_the_end() -> None:
    async with scene_of((wins(), 0), (fails(1.0), 0)) as scene:
        async with race_in(scene) as race:
            async for connection in race:
                await connection.aclose()
            with pytest.raises(StopAsyncIteration):
                await anext(race)
            assert race.report.outcome is Outcome.CONNECTED
            assert race.report.winner == "a"
            error = race.report["b"].error
            assert error is not None
            assert error.__traceback__ is None
        dial_span = scene.spans.named("racer.dial")[0]
        assert dial_span.status.is_unset
        assert dial_span.attributes is not None
        assert "error.type" not in dial_span.attributes


async def test_nothing_serves() -> None:
    async with Scene(ScriptedTransport("a", serves="no")) as scene:
        with pytest.raises(NoTransports):
            async with race_in(scene):
                pytest.fail("entered")
        assert scene.dialer.status().races == 0


async def test_how_a_race_must_not_be_used() -> None:
    async with scene_of((wins(), 0)) as scene:
        race = race_in(scene)
        with pytest.raises(RuntimeError, match="not begun"):
            await anext(race)
        with pytest.raises(RuntimeError, match="not begun"):
            _ = race.report
        async with race:
            assert race.report.outcome is Outcome.NOT_STARTED
            with pytest.raises(RuntimeError, match="once"):
                async with race:
                    pytest.fail("entered twice")
        with pytest.raises(RuntimeError, match="once"):
            async with race:
                pytest.fail("entered again")
        with pytest.raises(RuntimeError, match="over"):
            await anext(race)
        await scene.assert_clean()


# --- leaving --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["break", "raise", "cancel"])
async def test_leaving_cancels_the_rest_and_leaves_what_was_handed_out(how: str) -> None:
    """One in hands, one arrived and not taken, one under way, one to come."""
    scripts = (wins(0.25), 0), (wins(0.5), 0), (hangs().slow_cleanup(0.5), 0), (wins(), 8.0)
    async with scene_of(*scripts) as scene:
        kept: list[Finisher] = []
        race = race_in(scene)
        own = KeyError("the body's own")
        bodys_error = pytest.raises(KeyError, check=lambda exc: exc is own)
        with bodys_error if how == "raise" else nullcontext(), anyio.CancelScope() as scope:
            async with race:
                async for connection in race:
                    kept.append(connection)
                    await anyio.sleep(1.0)
                    if how == "raise":
                        raise own
                    if how == "cancel":
                        scope.cancel()
                        await anyio.sleep_forever()
                    break
        assert scope.cancelled_caught == (how == "cancel")
        assert anyio.current_time() == 1.25
        await scene.assert_clean(but=[kept[0]._resource])
        assert anyio.current_time() == 1.75
        assert [(a.transport, a.outcome.value) for a in race.report.attempts] == [
            ("a", "connected"),
            ("b", "lost_race"),
            ("c", "lost_race"),
            ("d", "not_started"),
        ]
        assert isinstance(kept[0], Connection)
        await kept[0].send(b"still open")
        await kept[0].aclose()


async def test_leaving_before_anything_was_handed_out() -> None:
    async with scene_of((wins(0.25), 0), (hangs(), 0)) as scene:
        async with race_in(scene) as race:
            await anyio.sleep(1.0)
        assert {attempt.outcome for attempt in race.report.attempts} == {Outcome.CANCELLED}
        await scene.assert_clean()


async def test_a_race_that_is_left_at_once_asks_no_guest_for_anything() -> None:
    async with scene_of((wins(), 0), (hangs(), 0)) as scene:
        async with race_in(scene):
            pass
        assert {
            entrant.last and entrant.last.outcome for entrant in scene.dialer.status().entrants
        } == {Outcome.CANCELLED}
        await scene.assert_clean()
        assert began(scene) == {}


async def test_who_gives_up_waiting_may_ask_again() -> None:
    """Also when the patience ended in the very instant in which something had arrived."""
    async with scene_of((wins(1.0), 0)) as scene:
        for patience in (0.5, 1.0):
            async with race_in(scene) as race:
                connection: Finisher | None = None
                with anyio.move_on_after(patience):
                    connection = await anext(race)
                if connection is None:
                    connection = await anext(race)
                await connection.aclose()
            await scene.assert_clean()


@pytest.mark.parametrize("passes", range(6))
async def test_a_finisher_is_not_lost_to_a_consumer_that_was_cancelled_as_it_came(
    passes: int,
) -> None:
    async with scene_of((wins(1.0), 0)) as scene, race_in(scene) as race:
        taken: list[Finisher] = []

        async def take() -> None:
            taken.append(await anext(race))

        async with anyio.create_task_group() as group:
            group.start_soon(take)
            await anyio.sleep(1.0)
            for _ in range(passes):
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        if not taken:
            await take()
        assert anyio.current_time() == 1.0
        await taken[0].aclose()


# --- the dialer's end under a race ----------------------------------------------------------------


async def test_the_dialers_end_is_told_to_who_waits() -> None:
    async def wait(ask: Callable[[], Awaitable[object]]) -> None:
        with pytest.raises(DialerClosed, match="closed"):
            await ask()

    async with scene_of((hangs(), 0)) as scene, race_in(scene) as race:
        async with anyio.create_task_group() as group:
            group.start_soon(wait, scene.dial)
            group.start_soon(wait, race.__anext__)
            await anyio.sleep(1.0)
            await scene.dialer.aclose()
            assert race.report["a"].outcome is Outcome.CANCELLED
        assert anyio.current_time() == 1.0


async def test_the_dialers_end_closes_what_lies_ready_and_blames_no_guest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with scene_of((wins(0.25), 0), (wins(0.5), 0), (hangs(), 0)) as scene:
        async with race_in(scene) as race:
            connection = await anext(race)
            await anyio.sleep(1.0)
            await scene.dialer.aclose()
            assert scene.open_streams == [connection._resource]
            for _ in range(2):
                with pytest.raises(DialerClosed):
                    await anext(race)
        await connection.aclose()
    assert [record.getMessage() for record in caplog.records] == []


# --- exits ----------------------------------------------------------------------------------------


class _Group(BaseExceptionGroup[BaseException]):
    pass


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("wrapped", [False, True])
async def test_an_exit_reaches_the_dialing_caller_bare(
    kind: type[BaseException], wrapped: bool
) -> None:
    leaving = kind(3)

    def exit_of_guest() -> BaseException:
        if wrapped:
            return BaseExceptionGroup("a task group's", [ValueError(), _Group("inner", [leaving])])
        return leaving

    scripts = (hangs().slow_cleanup(0.5), 0), (fails(1.0, exit_of_guest), 0), (wins(1.0), 0)
    async with scene_of(*scripts) as scene:
        for _ in range(5):
            with pytest.raises(kind) as caught:
                await scene.dial()
            assert caught.value is leaving
            await scene.assert_clean()
        assert anyio.current_time() == 5 * 1.5


async def test_an_exit_from_a_check_does_so_too() -> None:
    async def check(stream: Any) -> None:
        raise SystemExit(3)

    async with scene_of((wins(), 0)) as scene:
        with pytest.raises(SystemExit):
            await scene.dial(check=check)
        await scene.assert_clean()


async def test_an_exit_after_the_verdict_is_logged_and_hurts_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def leave_when_cancelled(guest: Acting) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise SystemExit(3)

    async with Scene(ScriptedTransport("a", wins(1)), Acting("b", leave_when_cancelled)) as scene:
        async with await scene.dial() as connection:
            assert connection.report["b"].outcome is Outcome.LOST_RACE
            await scene.settle()
        async with await scene.dial():
            pass
    told = [r.getMessage() for r in caplog.records if r.levelno == logging.CRITICAL]
    assert (
        told == ["hosted task 'racer attempt b' raised 'SystemExit', and nobody waits for it"] * 2
    )


async def test_an_exit_reaches_a_race_at_the_next_question_or_when_it_is_left() -> None:
    scripts = (wins(), 0), (fails(1.0, SystemExit(3)), 0), (hangs(), 0)
    async with scene_of(*scripts) as scene:
        async with race_in(scene) as race:
            async with await anext(race):
                await anyio.sleep(2.0)
            with pytest.raises(SystemExit):
                await anext(race)
        with pytest.raises(SystemExit):
            async with race_in(scene) as race, await anext(race):
                await anyio.sleep(2.0)
        await scene.assert_clean()


async def test_an_exit_that_nobody_can_be_given_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scripts = (wins(), 0), (fails(1.0, SystemExit(3)), 0)
    async with scene_of(*scripts) as scene:
        with pytest.raises(KeyError):
            async with race_in(scene) as race, await anext(race):
                await anyio.sleep(2.0)
                raise KeyError
        await scene.assert_clean()
    assert [r.levelname for r in caplog.records] == ["CRITICAL"]


# --- routes for requests --------------------------------------------------------------------------


async def test_a_race_of_any_kind_gives_streams_and_routes() -> None:
    async def answer(request: str) -> str:
        return request.upper()

    async def no_answer(request: str) -> str:
        raise AssertionError

    amp = ScriptedRequestTransport("amp", wins(0.5), answer=answer)
    late = ScriptedRequestTransport("late", wins(1.0), answer=no_answer)
    async with Scene(amp, ScriptedTransport("direct", wins(0.25)), late) as scene:
        async with race_in(scene, kind="any") as race:
            async with await anext(race) as stream:
                assert stream.transport_name == "direct"
            async with await anext(race) as route:
                assert isinstance(route, RoutedConnection)
                assert await route.handle("hello") == "HELLO"
                await anyio.sleep(1.0)
        await scene.assert_clean()
        assert late.ledger.streams
        async with race_in(scene, kind="request") as race, await anext(race) as route:
            assert route.transport_name == "amp"
            assert race.report["direct"].outcome is Outcome.INELIGIBLE
        async with await scene.dial() as stream:
            assert stream.report["amp"].outcome is Outcome.INELIGIBLE
        await scene.assert_clean()


@pytest.mark.parametrize("wrong", [None, 42, "a route"])
async def test_what_is_no_route_is_a_bug_of_its_guest(wrong: object) -> None:
    async def answer(request: object) -> object:
        return request

    broken = ScriptedRequestTransport("broken", returns(wrong), answer=answer)
    async with Scene(broken) as scene:
        async with race_in(scene, kind="request") as race:
            with pytest.raises(
                AllAttemptsFailed, match=f"prepare.. returned {type(wrong).__name__}"
            ):
                await anext(race)
            assert race.report["broken"].error_type == "crashed"
        await scene.assert_clean()
