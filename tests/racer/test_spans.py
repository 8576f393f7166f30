"""The spans of a race, whole: names, parents, times, attributes, statuses, links and events (T1 to T3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.trace import SpanKind

import racer
from racer.abc import Traits
from racer.errors import AllAttemptsFailed, DialerClosed, DialTimeout, NoTransports, SessionLost
from racer.testing import ScriptedTransport, fails, hangs, returns_none, wins
from tests.racer.guests import Hosted
from tests.racer.tracing import Node, Recorder, attempt, began_at, dial

if TYPE_CHECKING:
    from racer.abc import Progress

pytestmark = pytest.mark.virtual_time

HOST = "192.0.2.1:80"


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def dialer_of(recorder: Recorder, *entrants: Any, **options: Any) -> racer.Dialer:
    return racer.Dialer(
        entrants, tracer_provider=recorder.tracers, meter_provider=recorder.meters, **options
    )


CONNECTED = {"racer.outcome": "connected"}


# --- how a race may end ---------------------------------------------------------------------


async def test_a_win(recorder: Recorder) -> None:
    async with dialer_of(recorder, ScriptedTransport("direct", wins(0.5))) as dialer:
        conn = await dialer.dial(HOST)
        (span,) = recorder.named("racer.dial")
        assert began_at(span, conn.report)
        assert recorder.tree() == dial(
            0.5,
            CONNECTED | {"racer.winner": "direct"},
            attempt("direct", 0, 0.0, 0.5, "connected"),
        )
        await conn.aclose()
    assert recorder.trees() == []  # neither the connection nor the dialer has a span


class Broken(SpanProcessor):
    def on_end(self, span: Any) -> None:
        raise LookupError("broken")


async def test_a_processor_that_fails_at_a_spans_end_costs_nobody_the_connection(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    recorder.tracers.add_span_processor(Broken())
    async with dialer_of(
        recorder, ScriptedTransport("a", wins(0.5)), ScriptedTransport("b", hangs())
    ) as dialer:
        async with await dialer.dial(HOST) as conn:
            assert conn.transport_name == "a"
        assert dialer.status().races == 0
    assert recorder.open == 0
    told = [record.getMessage() for record in caplog.records]
    assert told == ["a span processor failed at the end of a span"] * 3


async def test_the_library_names_itself(recorder: Recorder) -> None:
    async with dialer_of(recorder, ScriptedTransport("direct")) as dialer:
        await (await dialer.dial(HOST)).aclose()
    scopes = [span.instrumentation_scope for span in recorder.spans]
    assert [(s.name, s.version) for s in scopes if s] == [("racer", racer.__version__)] * 2


async def test_a_win_over_others(recorder: Recorder) -> None:
    async with dialer_of(
        recorder,
        ScriptedTransport("refused", fails(0.25)),
        ScriptedTransport("winner", wins(1.0)),
        racer.Entrant(ScriptedTransport("hanging", hangs().slow_cleanup(1.0)), start_delay=0.3),
        racer.Entrant(ScriptedTransport("late"), start_delay=8.0),
        ScriptedTransport("unfit", serves="not this one"),
    ) as dialer:
        async with await dialer.dial(HOST):
            pass
        assert recorder.tree() == dial(
            1.0,
            CONNECTED
            | {
                "racer.winner": "winner",
                "racer.not_started": ["late"],
                "racer.ineligible": ["unfit"],
            },
            attempt(
                "refused",
                0,
                0.0,
                0.25,
                "connect_failed",
                failed="ConnectionRefusedError",
                error_type="connection_refused",
            ),
            attempt("winner", 1, 0.0, 1.0, "connected"),
            # Its cleanup is not part of it (R10), and to lose is no error (R11).
            attempt("hanging", 2, 0.3, 1.0, "lost_race", delay=0.3),
        )


async def test_all_failed(recorder: Recorder) -> None:
    def lose() -> SessionLost:
        return SessionLost("server lost the session", stage=racer.errors.Stage.HANDSHAKE)

    async with dialer_of(
        recorder,
        ScriptedTransport("direct", fails(0.5)),
        ScriptedTransport("empty", returns_none(0.25)),
        racer.Entrant(ScriptedTransport("soar", fails(0.25, lose)), start_delay=8.0),
        racer.Entrant(ScriptedTransport("slow", hangs(), traits=Traits(attempt_timeout=2)), tier=1),
    ) as dialer:
        with pytest.raises(AllAttemptsFailed):
            await dialer.dial(HOST)
    none = "TransportCrashed: connect() returned NoneType instead of an anyio ByteStream"
    assert recorder.tree() == dial(
        2.75,
        {"racer.outcome": "connect_failed", "error.type": "other"},
        attempt(
            "direct",
            0,
            0.0,
            0.5,
            "connect_failed",
            failed="ConnectionRefusedError",
            error_type="connection_refused",
        ),
        attempt("empty", 1, 0.0, 0.25, "connect_failed", failed=none, error_type="crashed"),
        attempt(
            "soar",
            2,
            0.5,
            0.75,
            "connect_failed",
            stage="handshake",
            delay=8.0,
            failed="SessionLost: server lost the session",
            error_type="session_lost",
        ),
        attempt(
            "slow",
            3,
            0.75,
            2.75,
            "timed_out",
            failed="AttemptTimeout: not usable within 2 s",
            error_type="timeout",
        ),
        failed=f"direct: ConnectionRefusedError; empty: {none}; soar: SessionLost: server lost the session; "
        "slow: AttemptTimeout: not usable within 2 s",
    )


async def test_a_reason_that_all_share_is_the_dials(recorder: Recorder) -> None:
    async with dialer_of(
        recorder, ScriptedTransport("one", fails()), ScriptedTransport("two", fails())
    ) as dialer:
        with pytest.raises(AllAttemptsFailed):
            await dialer.dial(HOST)
    assert recorder.tree().attributes["error.type"] == "connection_refused"


async def test_the_deadline(recorder: Recorder) -> None:
    async with dialer_of(
        recorder,
        ScriptedTransport("hanging", hangs()),
        ScriptedTransport("refused", fails(0.5)),
        racer.Entrant(ScriptedTransport("late"), start_delay=8.0),
    ) as dialer:
        with pytest.raises(DialTimeout):
            await dialer.dial(HOST, timeout=2.5)
    assert recorder.tree() == dial(
        2.5,
        {
            "racer.outcome": "timed_out",
            "error.type": "timeout",
            "racer.not_started": ["late"],
        },
        attempt(
            "hanging",
            0,
            0.0,
            2.5,
            "timed_out",
            failed="AttemptTimeout: not usable within 2.5 s",
            error_type="timeout",
        ),
        attempt(
            "refused",
            1,
            0.0,
            0.5,
            "connect_failed",
            failed="ConnectionRefusedError",
            error_type="connection_refused",
        ),
        failed="hanging: AttemptTimeout: not usable within 2.5 s; refused: ConnectionRefusedError; late: not_started",
    )


async def test_the_caller_goes_away(recorder: Recorder) -> None:
    async with dialer_of(
        recorder,
        ScriptedTransport("hanging", hangs().slow_cleanup(1.0)),
        racer.Entrant(ScriptedTransport("late"), start_delay=8.0),
    ) as dialer:
        with anyio.move_on_after(1.5):
            await dialer.dial(HOST)
        assert recorder.tree() == dial(
            1.5,
            {"racer.outcome": "cancelled", "racer.not_started": ["late"]},
            attempt("hanging", 0, 0.0, 1.5, "cancelled"),
            failed="hanging: cancelled; late: not_started",
        )


async def test_nothing_serves_the_target(recorder: Recorder) -> None:
    async with dialer_of(
        recorder, ScriptedTransport("one", serves="a reason"), ScriptedTransport("two", serves="x")
    ) as dialer:
        with pytest.raises(NoTransports):
            await dialer.dial(HOST)
    assert recorder.tree() == dial(
        0.0,
        {"racer.outcome": "ineligible", "racer.ineligible": ["one", "two"]},
        failed="one: a reason; two: x",
    )


async def test_a_transport_at_its_limit(recorder: Recorder) -> None:
    guest = ScriptedTransport("a", wins(1.0), traits=Traits(max_concurrent=1))
    dialer = dialer_of(recorder, guest)
    async with dialer, anyio.create_task_group() as group:
        group.start_soon(dialer.dial, HOST)
        await anyio.sleep(0.5)
        with pytest.raises(AllAttemptsFailed):
            await dialer.dial(HOST)
        words = "TransportBusy: 1 attempts are under way, and its limit is 1"
        assert recorder.tree() == dial(
            0.0,
            {"racer.outcome": "connect_failed", "error.type": "busy"},
            attempt(
                "a", 0, 0.0, 0.0, "connect_failed", stage="start", failed=words, error_type="busy"
            ),
            failed=f"a: {words}",
        )
        group.cancel_scope.cancel()


async def test_the_dialer_ends_under_it(recorder: Recorder) -> None:
    dialer = dialer_of(recorder, ScriptedTransport("a", hangs()))
    async with anyio.create_task_group() as group:
        group.start_soon(end_after, dialer, 1.0)
        with pytest.raises(DialerClosed):
            await dialer.dial(HOST)
    assert recorder.tree() == dial(
        1.0,
        {"racer.outcome": "cancelled"},
        attempt("a", 0, 0.0, 1.0, "cancelled"),
        failed="the dialer was closed: a: cancelled",
    )
    assert recorder.open == 0


async def end_after(dialer: racer.Dialer, seconds: float) -> None:
    await anyio.sleep(seconds)
    await dialer.aclose()


async def test_an_attempt_that_exits_the_program(recorder: Recorder) -> None:
    async with dialer_of(
        recorder,
        ScriptedTransport("exits", fails(0.5, SystemExit)),
        ScriptedTransport("b", hangs()),
    ) as dialer:
        with pytest.raises(SystemExit):
            await dialer.dial(HOST)
    assert recorder.tree() == dial(
        0.5,
        {"racer.outcome": "cancelled"},
        attempt(
            "exits",
            0,
            0.0,
            0.5,
            "connect_failed",
            failed="connect_failed",
            error_type="crashed",
        ),
        attempt("b", 1, 0.0, 0.5, "cancelled"),
        failed="exits: connect_failed; b: cancelled",
    )


# --- a race with several finishers ----------------------------------------------------------


async def test_a_race_is_one_dial_and_its_last_finisher_the_winner(recorder: Recorder) -> None:
    async with dialer_of(
        recorder,
        ScriptedTransport("first", wins(0.5)),
        racer.Entrant(ScriptedTransport("second", wins(0.25)), start_delay=1.0),
        racer.Entrant(ScriptedTransport("third"), start_delay=5.0),
    ) as dialer:
        async with dialer.race(HOST) as race:
            for _ in range(2):
                conn = await race.__anext__()
                await anyio.sleep(10)
                assert recorder.trees() == []  # nothing is fixed before the verdict
                await conn.aclose()
        assert recorder.tree() == dial(
            20.75,
            CONNECTED | {"racer.winner": "second", "racer.not_started": ["third"]},
            attempt("first", 0, 0.0, 0.5, "connected"),
            attempt("second", 1, 10.5, 10.75, "connected", delay=1.0),
        )


async def test_a_race_that_is_left_before_anything_came(recorder: Recorder) -> None:
    async with dialer_of(recorder, ScriptedTransport("a", wins(5.0))) as dialer:
        async with dialer.race(HOST):
            await anyio.sleep(1)
        assert recorder.tree() == dial(
            1.0,
            {"racer.outcome": "cancelled"},
            attempt("a", 0, 0.0, 1.0, "cancelled"),
            failed="a: cancelled",
        )


# --- what guests tell -----------------------------------------------------------------------


async def test_peers_stages_and_events_of_a_guest(recorder: Recorder) -> None:
    def tell(progress: Progress) -> None:
        progress.stage(racer.errors.Stage.RESOLVE)
        progress.event("lookup", {"racer.resolver": "system", "answers": 2, "cached": False})
        progress.peer("192.0.2.7", 8080)
        progress.peer("2001:db8::7", network="udp")
        progress.stage(racer.errors.Stage.HANDSHAKE)
        progress.event("hello")

    async with dialer_of(recorder, ScriptedTransport("a", wins(0.5).tells(tell))) as dialer:
        with anyio.move_on_after(0.25):
            await dialer.dial(HOST)
    assert recorder.tree().below == [
        attempt(
            "a",
            0,
            0.0,
            0.25,
            "cancelled",
            stage="handshake",
            events=[
                ("lookup", 0.0, {"racer.resolver": "system", "answers": 2, "cached": False}),
                ("hello", 0.0, {}),
            ],
            network_peer_address="2001:db8::7",
            network_peer_port=8080,
            network_transport="udp",
        )
    ]


async def test_what_a_guest_tells_after_the_verdict_is_not_news(recorder: Recorder) -> None:
    late: list[Progress] = []
    guests = ScriptedTransport("a", hangs().tells(late.append)), ScriptedTransport("b", wins(0.5))
    async with dialer_of(recorder, *guests) as dialer:
        async with await dialer.dial(HOST):
            before = recorder.spans
            late[0].event("too late")
            late[0].peer("192.0.2.7")
            late[0].session(reused=True)
            late[0].stage(racer.errors.Stage.TLS)
            assert recorder.spans == before
        assert recorder.tree().below[0] == attempt("a", 0, 0.0, 0.5, "lost_race")


async def test_a_dial_that_reuses_a_session_is_linked_with_the_sessions_own_span(
    recorder: Recorder,
) -> None:
    sessions: list[trace.Span] = []

    async def drive(guest: Hosted) -> None:
        assert guest.host is not None
        assert trace.get_current_span() is trace.INVALID_SPAN  # nobody's child (R21)
        sessions.append(guest.host.tracer.start_span("soar.session", start_time=1))
        try:
            await anyio.sleep_forever()
        finally:
            sessions[0].end(end_time=2)

    def reuse(progress: Progress) -> None:
        progress.session(reused=True, link=sessions[0].get_span_context())

    script = wins(0.5).tells(lambda progress: progress.session(reused=False))
    guest = Hosted("soar", script.then(wins(0.25).tells(reuse)), driver=drive)
    async with dialer_of(recorder, guest) as dialer:
        for _ in range(2):
            async with await dialer.dial(HOST):
                pass
    session, first, second = recorder.trees()
    own = sessions[0].get_span_context().span_id
    assert (session.name, session.below) == ("soar.session", [])
    assert first.below == [attempt("soar", 0, 0.0, 0.5, "connected", racer_session_reused=False)]
    assert second.below == [
        attempt("soar", 0, 0.0, 0.25, "connected", racer_session_reused=True, links=[own])
    ]


# --- contexts -------------------------------------------------------------------------------


class Tracing(ScriptedTransport):
    """Makes a span of its own while it connects, and one more while its stream is checked."""

    def __init__(self, name: str, recorder: Recorder) -> None:
        super().__init__(name, wins(0.25))
        self._tracer = recorder.tracers.get_tracer("guest")
        self.baggage: object = None

    async def connect(self, target: Any, progress: Any) -> Any:
        self.baggage = baggage.get_baggage("request")
        with self._tracer.start_as_current_span(
            "guest.connect", start_time=1, end_on_exit=False
        ) as s:
            stream = await super().connect(target, progress)
        s.end(end_time=2)
        return stream

    async def check(self, stream: Any) -> None:
        self._tracer.start_span("guest.check", start_time=1).end(end_time=2)


async def test_the_attempt_is_current_where_it_runs_and_the_callers_span_above(
    recorder: Recorder,
) -> None:
    guest = Tracing("a", recorder)
    tracer = recorder.tracers.get_tracer("app")
    async with dialer_of(recorder, guest) as dialer:
        token = context.attach(baggage.set_baggage("request", "42"))
        with tracer.start_as_current_span("app.request", kind=SpanKind.SERVER) as mine:
            async with await dialer.dial(HOST, check=guest.check):
                assert trace.get_current_span() is mine
        context.detach(token)
        assert trace.get_current_span() is trace.INVALID_SPAN
    assert guest.baggage == "42"
    assert names(recorder.tree()) == [
        "app.request",
        ["racer.dial", ["racer.attempt", ["guest.check"], ["guest.connect"]]],
    ]


def names(node: Node) -> list[Any]:
    return [node.name, *sorted(names(child) for child in node.below)]


async def test_an_attempt_that_starts_later_is_the_same_dials(recorder: Recorder) -> None:
    tracer = recorder.tracers.get_tracer("app")
    guests = [racer.Entrant(ScriptedTransport("b", wins(1.0)), start_delay=0.5)]
    async with dialer_of(recorder, ScriptedTransport("a", hangs()), *guests) as dialer:
        with tracer.start_as_current_span("app"):
            async with await dialer.dial(HOST):
                pass
    assert names(recorder.tree()) == [
        "app",
        ["racer.dial", ["racer.attempt"], ["racer.attempt"]],
    ]
