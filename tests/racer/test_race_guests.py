"""What guests may do wrong, and what a race owes those that do it right."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from opentelemetry.sdk.trace import SpanProcessor

from racer import Entrant, Outcome
from racer.abc import Progress, Traits
from racer.errors import (
    AllAttemptsFailed,
    AttemptTimeout,
    DialTimeout,
    NoTransports,
    Severity,
    Stage,
    TransportBusy,
    classify,
)
from racer.testing import (
    MemoryStream,
    ScriptedTransport,
    fails,
    hangs,
    returns,
    returns_none,
    wins,
)
from tests.racer.scene import Acting, Scene

if TYPE_CHECKING:
    from racer.testing import Script

pytestmark = pytest.mark.virtual_time


class Times(logging.Handler):
    """Notes what was logged by which logger, and when on the loop's clock."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.notes: list[tuple[float, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.notes.append((anyio.current_time(), record.getMessage()))


# --- R8: the first listed of those that arrive together -------------------------------------------


async def test_the_first_listed_wins_two_hundred_times() -> None:
    """Whatever order the loop runs ready tasks in; trio shuffles them on purpose."""
    slow, one, two = (ScriptedTransport(n, wins(t)) for n, t in (("a", 2), ("b", 1), ("c", 1)))
    async with Scene(slow, one, two) as scene:
        winners = []
        for _ in range(200):
            async with await scene.dial() as connection:
                winners.append(connection.transport_name)
    assert winners == ["b"] * 200


# --- R15: bugs of guests --------------------------------------------------------------------------


class HalfStream:
    """Something that can be closed, and is no stream."""

    name = "half"
    made_at = None

    def __init__(self) -> None:
        self.closed = False

    async def aclose(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("script", "told"),
    [
        pytest.param(returns_none(0.5), "NoneType", id="None"),
        pytest.param(returns(42, 0.5), "int", id="an-int"),
        pytest.param(returns(HalfStream, 0.5), "type", id="a-class"),
        pytest.param(fails(0.5, ValueError("oops")), "ValueError: oops", id="ValueError"),
        pytest.param(fails(0.5, AssertionError), "AssertionError", id="AssertionError"),
        pytest.param(fails(0.5, StopIteration), "StopIteration", id="StopIteration"),
        pytest.param(
            fails(0.5, lambda: ExceptionGroup("two", [KeyError("k"), IndexError()])),
            "KeyError",
            id="ExceptionGroup",
        ),
        pytest.param(fails(0.5, GeneratorExit), "GeneratorExit", id="GeneratorExit"),
        pytest.param(fails(0.5, asyncio.CancelledError), "cancelled", id="CancelledError"),
    ],
)
async def test_a_bug_is_its_attempts_failure_and_the_race_goes_on(
    script: Script, told: str, caplog: pytest.LogCaptureFixture, anyio_backend_name: str
) -> None:
    if anyio_backend_name == "trio" and told == "cancelled":
        told = "raised CancelledError, which is no Exception"  # that of another loop
    broken = ScriptedTransport("broken", script)
    async with Scene(broken, Entrant(ScriptedTransport("good", wins(1)), start_delay=8)) as scene:
        async with await scene.dial() as connection:
            assert anyio.current_time() == 1.5
            attempt = connection.report["broken"]
            assert (attempt.outcome, attempt.error_type) == (Outcome.CONNECT_FAILED, "crashed")
            assert told in attempt.cause
        assert broken.observed == [attempt]
        crash = next(record for record in caplog.records if "broken" in record.getMessage())
        assert (crash.levelname, crash.name) == ("ERROR", "racer.race")
        assert crash.exc_info is not None
        with pytest.raises(AllAttemptsFailed) as caught:
            await scene.dial(only="broken")
        assert classify(caught.value) is Severity.PERMANENT
        await scene.assert_clean()


async def test_what_can_be_closed_is_closed_though_it_is_no_stream() -> None:
    half = HalfStream()
    async with Scene(ScriptedTransport("broken", returns(half))) as scene:
        with pytest.raises(AllAttemptsFailed) as caught:
            await scene.dial()
        assert "HalfStream instead of an anyio ByteStream" in str(caught.value)
        await scene.assert_clean()
        assert half.closed


async def test_a_check_that_crashes_fails_its_attempt_only() -> None:
    async def check(stream: Any) -> None:
        if stream.name == "a":
            raise LookupError("a bug in the check")

    everyone = [ScriptedTransport("a", wins()), ScriptedTransport("b", wins(1))]
    async with Scene(*everyone) as scene, await scene.dial(check=check) as connection:
        assert connection.transport_name == "b"
        assert connection.report["a"].stage is Stage.VERIFY
        await scene.assert_clean(but=[connection._resource])


async def test_a_guest_that_swallows_the_cancellation_and_wins_anyway_is_closed() -> None:
    late = ScriptedTransport("late", wins(3).ignores_cancel())
    async with Scene(ScriptedTransport("a", wins(1)), late) as scene:
        async with await scene.dial() as connection:
            assert anyio.current_time() == 1
            assert connection.report["late"].outcome is Outcome.LOST_RACE
            await scene.assert_clean(but=[connection._resource])
            assert anyio.current_time() == 3
            assert late.attempts[0].stream is not None
        assert late.observed == []


async def test_a_guest_that_fails_when_it_is_cancelled_has_lost_and_not_failed() -> None:
    """R11: what comes of our own cancellation is no news, though it be a crash."""

    async def spoil(guest: Acting) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("the cleanup is broken")

    spoiler = Acting("spoiler", spoil)
    async with Scene(ScriptedTransport("a", wins(1)), spoiler) as scene:
        async with await scene.dial() as connection:
            attempt = connection.report["spoiler"]
            assert (attempt.outcome, attempt.error, attempt.error_type) == ("lost_race", None, None)
        await scene.assert_clean()
    assert spoiler.observed == []


async def test_a_guest_that_ignores_cancellation_is_named_in_a_warning_after_a_second() -> None:
    times = Times()
    logging.getLogger("racer.host").addHandler(times)
    try:
        everyone = [
            ScriptedTransport("good", wins(0.5)),
            ScriptedTransport("deaf", hangs().ignores_cancel(6)),
            ScriptedTransport("brisk", hangs().slow_cleanup(0.75)),
        ]
        async with Scene(*everyone) as scene:
            async with await scene.dial():
                assert anyio.current_time() == 0.5
                assert scene.dialer.status().cleanups == 2
            await scene.assert_clean()
            assert anyio.current_time() == 6.5
    finally:
        logging.getLogger("racer.host").removeHandler(times)
    assert times.notes == [(1.5, "transport 'deaf' has not ended 1.0 s after its attempt was over")]


# --- R21: contexts --------------------------------------------------------------------------------

who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


async def test_attempts_and_cleanups_see_the_callers_context() -> None:
    seen: list[tuple[str, str]] = []

    class Attentive(MemoryStream):
        async def aclose(self) -> None:
            seen.append(("close", who.get()))
            await super().aclose()

    async def act(guest: Acting) -> Any:
        seen.append((guest.name, who.get()))
        who.set("the guest")
        await anyio.sleep(1.0)
        stream = guest.stream()
        stream.__class__ = Attentive
        return stream

    async with Scene(Acting("a", act), Acting("b", act)) as scene:
        who.set("caller")
        connection = await scene.dial()
        assert who.get() == "caller"
        await scene.settle()
        assert sorted(seen) == [("a", "caller"), ("b", "caller"), ("close", "caller")]
        await connection.aclose()


# --- observe --------------------------------------------------------------------------------------


async def test_each_verdict_is_told_once_and_losing_is_none() -> None:
    entrants = [
        Entrant(ScriptedTransport("fails", fails(0.5))),
        Entrant(ScriptedTransport("times out", hangs(), traits=Traits(attempt_timeout=0.75))),
        Entrant(ScriptedTransport("wins", wins(1.0))),
        Entrant(ScriptedTransport("loses", hangs())),
        Entrant(ScriptedTransport("waits", wins()), start_delay=5.0),
        Entrant(ScriptedTransport("refuses", wins(), serves="not that port")),
    ]
    async with Scene(*entrants) as scene:
        async with await scene.dial() as connection:
            report = connection.report
        with anyio.move_on_after(0.125):
            await scene.dial(exclude="fails")
        told = {guest.name: guest.observed for guest in scene.guests}
        assert told == {
            "fails": [report["fails"]],
            "times out": [report["times out"]],
            "wins": [report["wins"]],
            "loses": [],
            "waits": [],
            "refuses": [],
        }
        assert [a.outcome for a in report.attempts] == [
            "connect_failed",
            "timed_out",
            "connected",
            "lost_race",
            "not_started",
            "ineligible",
        ]
        last = {entrant.name: entrant.last for entrant in scene.dialer.status().entrants}
        assert last["fails"] == report["fails"]
        assert last["wins"] is not None
        assert last["wins"].outcome is Outcome.CANCELLED
        assert last["waits"] is last["refuses"] is None


async def test_an_observer_that_crashes_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    class Clumsy(ScriptedTransport):
        def observe(self, attempt: Any) -> None:
            super().observe(attempt)
            raise RuntimeError("a bug in observe")

    everyone = [Clumsy("a", fails()), Clumsy("b", fails()), Clumsy("c", wins(1))]
    async with Scene(*everyone) as scene:
        async with await scene.dial() as connection:
            assert connection.transport_name == "c"
        await scene.assert_clean()
    assert [len(guest.observed) for guest in everyone] == [1, 1, 1]
    assert sum("failed to observe" in record.getMessage() for record in caplog.records) == 3


async def test_what_a_guest_tells_of_its_progress_is_in_the_report_until_the_verdict() -> None:
    def tell(progress: Progress) -> None:
        progress.stage(Stage.HANDSHAKE)
        progress.peer("2001:db8::1", 443)

    async with Scene(
        ScriptedTransport("a", wins(1).tells(tell)),
        ScriptedTransport("b", fails(0.5).tells(lambda p: p.peer("192.0.2.1", 53, network="udp"))),
        ScriptedTransport("c", hangs().tells(lambda p: p.peer("pipe"))),
    ) as scene:
        late = Acting("late", lambda guest: anyio.sleep_forever())
        async with await scene.dial() as connection:
            report = connection.report
            late.progress.stage(Stage.HANDSHAKE)
    assert [(a.transport, a.peer) for a in report.attempts] == [
        ("a", "[2001:db8::1]:443"),
        ("b", "192.0.2.1:53"),
        ("c", "pipe"),
    ]
    assert report["a"].stage is Stage.HANDSHAKE
    peers = {s.attributes and s.attributes.get("network.peer.address") for s in scene.spans.ended}
    assert peers == {None, "2001:db8::1", "192.0.2.1", "pipe"}


async def test_progress_told_after_the_outcome_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    def tell(progress: Progress) -> None:
        progress.stage(Stage.HANDSHAKE)
        progress.peer("192.0.2.1", 1)
        progress.session(reused=True)
        progress.event("too late")

    async def arrive(guest: Acting) -> MemoryStream:
        return guest.stream()

    ready = Acting("ready", arrive)
    loser = Acting("loser", lambda guest: anyio.sleep_forever())
    async with Scene(ScriptedTransport("a", wins()), ready, loser) as scene:
        async with scene.dialer.race("example.com", 80) as race, await anext(race):
            await anyio.sleep(1.0)
            tell(ready.progress)  # its stream lies in a slot
        tell(loser.progress)
        told = [(race.report[name].stage, race.report[name].peer) for name in ("ready", "loser")]
        assert told == [(Stage.CONNECT, None)] * 2
        await scene.assert_clean()
    assert caplog.records == []  # the SDK complains of attributes set on a span that has ended


# --- a guest that is replaced under a race --------------------------------------------------------


async def test_a_replaced_guest_is_closed_after_its_last_attempt_whatever_came_of_it() -> None:
    """Its stream won, arrived too late, failed a check, was cancelled: each gives the guest back."""

    async def check(stream: Any) -> bool:
        return bool(stream.name != "refused")

    scripts = {"won": wins(1), "late": wins(1), "refused": wins(1), "hangs": hangs(), "f": fails()}
    everyone = {name: ScriptedTransport(name, script) for name, script in scripts.items()}
    async with Scene(*everyone.values()) as scene:
        connection = await scene.dial(check=check)
        for name in everyone:
            scene.dialer.replace(name, ScriptedTransport(name))
        await anyio.sleep(1)
        closed = {name: guest.closed_at for name, guest in everyone.items()}
        assert closed == {"won": [], "late": [1], "refused": [1], "hangs": [1], "f": [1]}
        await connection.aclose()
        await anyio.sleep(1)
        assert everyone["won"].closed_at == [2]


# --- telemetry that breaks ------------------------------------------------------------------------


async def test_a_span_processor_that_breaks_as_the_race_begins_leaves_no_race_behind() -> None:
    class Broken(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            if span.attributes.get("racer.transport") == "b":
                raise LookupError("broken")

    async with Scene(ScriptedTransport("a", wins(1)), ScriptedTransport("b", wins(1))) as scene:
        scene.provider.add_span_processor(Broken())
        with pytest.raises(LookupError):
            await scene.dial()
        await scene.settle()
        assert scene.dialer.status().races == 0
        assert scene.open_streams == []
        scene.spans.started.remove("racer.attempt")  # the one that broke
        scene.spans.assert_all_ended()


# --- limits ---------------------------------------------------------------------------------------


async def test_one_attempt_too_many_is_busy_and_the_next_entrant_starts_at_once() -> None:
    narrow = ScriptedTransport("narrow", wins(1), traits=Traits(max_concurrent=2))
    spare = ScriptedTransport("spare", wins(0.5))
    async with Scene(narrow, Entrant(spare, start_delay=8)) as scene:
        winners: list[tuple[float, str]] = []

        async def dial() -> None:
            async with await scene.dial() as connection:
                winners.append((anyio.current_time(), connection.transport_name))
                if connection.transport_name == "spare":
                    busy = connection.report["narrow"]
                    assert isinstance(busy.error, TransportBusy)
                    assert (busy.stage, busy.error_type) == (Stage.START, "busy")
                    assert (busy.started_at, busy.finished_at) == (0.0, 0.0)

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(dial)
        assert winners == [(0.5, "spare"), (1.0, "narrow"), (1.0, "narrow")]
        await dial()
        assert winners[3:] == [(2.0, "narrow")]
        await scene.assert_clean()


async def test_when_all_are_busy_another_try_may_help() -> None:
    async with Scene(ScriptedTransport("a", wins(1), traits=Traits(max_concurrent=1))) as scene:
        async with anyio.create_task_group() as group:

            async def dial() -> None:
                await (await scene.dial()).aclose()

            group.start_soon(dial)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(AllAttemptsFailed) as caught:
                await scene.dial()
            assert caught.value.find(TransportBusy) is not None
            assert classify(caught.value) is Severity.TRANSIENT
        await scene.assert_clean()


async def test_an_attempts_own_timeout_is_exact() -> None:
    hanging = ScriptedTransport("a", hangs(), traits=Traits(attempt_timeout=0.7))
    in_time = ScriptedTransport("b", wins(0.7), traits=Traits(attempt_timeout=0.7))
    async with Scene(hanging, Entrant(in_time, start_delay=8.0)) as scene:
        async with await scene.dial() as connection:
            assert anyio.current_time() == 0.7 + 0.7
            attempt = connection.report["a"]
            assert (attempt.outcome, attempt.finished_at) == (Outcome.TIMED_OUT, 0.7)
            assert isinstance(attempt.error, AttemptTimeout)
            assert isinstance(attempt.error, TimeoutError)
            assert attempt.error.stage is Stage.CONNECT
        assert hanging.observed == [attempt]


async def test_what_comes_of_the_end_of_its_time_does_not_change_why_it_ended() -> None:
    """It fails as it is cancelled, while the race goes on: it has timed out all the same."""

    async def fail_when_cancelled(guest: Acting) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ConnectionResetError

    late = Acting("late", fail_when_cancelled, attempt_timeout=0.5)
    async with Scene(late, ScriptedTransport("b", wins(1.0))) as scene:
        async with await scene.dial() as connection:
            attempt = connection.report["late"]
            assert (attempt.outcome, attempt.error_type) == (Outcome.TIMED_OUT, "timeout")
        assert late.observed == [attempt]


async def test_a_guests_own_attempt_timeout_counts_as_one() -> None:
    async with Scene(ScriptedTransport("a", fails(0.5, AttemptTimeout("gave up")))) as scene:
        with pytest.raises(AllAttemptsFailed) as caught:
            await scene.dial()
        assert caught.value.report["a"].outcome is Outcome.TIMED_OUT


@pytest.mark.parametrize(
    ("dialers", "dials", "expected"),
    [(None, None, 120.0), (None, 5.0, 5.0), (5.0, None, 5.0), (5.0, 7.0, 7.0)],
)
async def test_only_the_default_deadline_is_stretched(
    dialers: float | None, dials: float | None, expected: float
) -> None:
    patient = ScriptedTransport("a", hangs(), traits=Traits(attempt_timeout=120.0))
    other = ScriptedTransport("b", wins(), traits=Traits(attempt_timeout=999.0), serves="no")
    async with Scene(patient, other, timeout=dialers) as scene:
        with pytest.raises(DialTimeout) as caught:
            await scene.dial(timeout=dials)
        assert anyio.current_time() == caught.value.report.timeout == expected


async def test_when_nothing_serves_nothing_starts() -> None:
    async with Scene(ScriptedTransport("a", wins(), serves="only onions")) as scene:
        with pytest.raises(NoTransports, match="only onions") as caught:
            await scene.dial()
        assert caught.value.report is not None
        assert caught.value.report.outcome is Outcome.INELIGIBLE
        assert scene.guests[0].attempts == []
        await scene.assert_clean()
        assert scene.spans.started == ["racer.dial"]


async def test_past_the_limit_of_cleanups_the_oldest_is_closed_by_force() -> None:
    everyone = [ScriptedTransport(name, wins(1, close_hangs=True)) for name in "abcdef"]
    async with Scene(*everyone, max_cleanups=2) as scene:
        connection = await scene.dial()
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        assert anyio.current_time() == 1
        assert [stream.name for stream in scene.open_streams] == ["a", "e", "f"]
        assert scene.dialer.status().cleanups == 2
        await scene.assert_clean(but=[connection._resource])
        assert anyio.current_time() == 3
        with anyio.move_on_after(0):
            await connection.aclose()
