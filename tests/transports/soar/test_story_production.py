"""The story that Soar's sessions are made for: its turn comes 8 s into a race, and the server has forgotten the session.

Everything is read from the trace alone (T3, R16), on virtual time, plain and under TLS.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from opentelemetry.trace import StatusCode

import racer
from racer.errors import AllAttemptsFailed
from racer.testing import ScriptedTransport, hangs
from tests.racer.tracing import Node, Point, Recorder
from tests.transports.soar.memory_world import RTT, MemoryWorld, exactly, tls_contexts
from transports.soar.core.client import dial as dial_module
from transports.soar.core.client.repair import Verdict
from transports.soar.core.client.session import Session

if TYPE_CHECKING:
    from anyio.abc import ByteStream

pytestmark = pytest.mark.virtual_time

FORGOTTEN = 121.0  # seconds: one more than the server keeps a silent session


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def tls(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@dataclass
class Story:
    """Two dials, and a pause between them in which the server forgets the session.

    Attributes:
        second: the second dial's span.
        attempt: Soar's in it.
        sessions: the spans of all sessions, in order.
        error: what the second dial raised.
    """

    second: Node
    attempt: Node
    sessions: list[Node]
    recorder: Recorder
    world: MemoryWorld
    error: AllAttemptsFailed | None = field(default=None)

    def events(self) -> list[str]:
        return [name for name, _, _ in self.attempt.events]


async def story(*, tls: bool, pause: float = FORGOTTEN) -> Story:
    recorder = Recorder()
    host, port = ("tls.example", 443) if tls else ("echo.example", 80)
    options: dict[str, Any] = {"tls": tls_contexts()[1] if tls else False}
    error = None
    async with MemoryWorld() as world:
        blocked = ScriptedTransport("direct", hangs())
        dialer = racer.Dialer(
            [blocked, world.soar()],
            tracer_provider=recorder.tracers,
            meter_provider=recorder.meters,
        )
        async with dialer:
            await use(await dialer.dial(host, port, **options))
            await anyio.sleep(pause)
            try:
                await use(await dialer.dial(host, port, **options))
            except AllAttemptsFailed as exc:
                error = exc
    trees = recorder.trees()
    dials = [tree for tree in trees if tree.name == "racer.dial"]
    sessions = [tree for tree in trees if tree.name == "racer.session"]
    (attempt,) = [node for node in dials[1].below if node.attributes["racer.transport"] == "soar"]
    return Story(dials[1], attempt, sessions, recorder, world, error)


async def use(stream: ByteStream) -> None:
    async with stream:
        await stream.send(b"ping")
        assert await exactly(stream, 4) == b"ping"


@pytest.fixture
def no_retirement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have sessions used that the server may have forgotten, as clients once did."""
    monkeypatch.setattr(Session, "has_expired", lambda self, now: False)


@pytest.fixture
def no_repair(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a dial fail with its session."""

    def judge(*args: object, proven: bool, **options: object) -> Verdict:
        return Verdict(False, proven)

    monkeypatch.setattr(dial_module, "judge", judge)


async def test_without_retirement_and_repair_the_trace_shows_a_lost_session(
    tls: bool, no_retirement: None, no_repair: None
) -> None:
    told = await story(tls=tls)
    attempt = told.attempt
    assert attempt.start == 8.0
    assert attempt.end - attempt.start == pytest.approx(RTT)  # the network's time, and nothing more
    assert attempt.attributes["racer.outcome"] == "connect_failed"
    assert attempt.attributes["error.type"] == "session_lost"
    assert attempt.attributes["racer.attempt.stage"] == "connect"
    assert attempt.attributes["racer.session.reused"] is True
    assert attempt.status is StatusCode.ERROR
    assert attempt.words is not None
    assert "the server lost the session" in attempt.words
    (session,) = told.sessions
    assert session.attributes["racer.reason"] == "lost"
    assert (session.status, session.words) == (StatusCode.ERROR, "lost")
    assert session.events[-1][0] == "racer.session.lost"
    assert session.events[-1][2]["racer.reason"] == "the server lost the session"
    assert told.world.handshakes == 1
    assert told.error is not None
    assert "the server lost the session" in str(told.error)


async def test_with_retirement_one_new_handshake_connects(tls: bool) -> None:
    told = await story(tls=tls)
    attempt = told.attempt
    assert attempt.start == 8.0
    assert attempt.attributes["racer.outcome"] == "connected"
    assert attempt.attributes["racer.session.reused"] is False
    # TLS has two round trips of its own, the first of which rides with the handshake.
    assert attempt.end - attempt.start <= (2.2 if tls else 1.1) * RTT
    assert told.events() == ["racer.session.handshaken"]
    old, new = told.sessions
    assert old.attributes["racer.reason"] == "retired"
    assert old.status is StatusCode.UNSET
    assert old.events[-1][2]["racer.reason"].startswith("no activity for 12")
    assert new.attributes["racer.reason"] == "closed"
    assert told.world.handshakes == 2


async def test_with_repair_alone_the_loss_and_the_new_handshake_are_events(
    tls: bool, no_retirement: None
) -> None:
    told = await story(tls=tls)
    attempt = told.attempt
    assert attempt.attributes["racer.outcome"] == "connected"
    assert attempt.attributes["racer.session.reused"] is False  # any more
    assert told.events() == ["racer.session.lost", "racer.session.handshaken"]
    _, at, attributes = attempt.events[0]
    assert at - attempt.start == pytest.approx(RTT, abs=0.001)
    assert attributes == {
        "racer.reason": "the server lost the session",
        "racer.proven": True,
    }
    old, new = told.sessions
    assert (old.attributes["racer.reason"], old.status) == ("lost", StatusCode.ERROR)
    assert [name for name, _, _ in new.events][:2] == [
        "racer.session.handshaken",
        "racer.session.live",
    ]
    assert told.world.handshakes == 2
    # Each span leads to the others: the attempt to both sessions, the new one to the attempt.
    assert len(attempt.links) == 2
    assert len(new.links) == 1


async def test_a_pause_of_seventeen_seconds_keeps_the_session(tls: bool) -> None:
    told = await story(tls=tls, pause=17.0)
    attempt = told.attempt
    assert attempt.attributes["racer.outcome"] == "connected"
    assert attempt.attributes["racer.session.reused"] is True
    assert told.events() == []
    (session,) = told.sessions
    assert len(session.links) == 1  # with the dial that made it; others link themselves
    assert told.world.handshakes == 1


async def test_sessions_are_counted_by_how_they_ended(no_retirement: None) -> None:
    told = await story(tls=False)
    metrics = told.recorder.metrics()
    own = ("racer.transport", "soar")
    assert metrics["racer.sessions.open"] == {(own,): Point(value=0)}
    assert metrics["racer.sessions.closed"] == {
        (("racer.reason", "lost"), own): Point(value=1),
        (("racer.reason", "closed"), own): Point(value=1),
    }


@pytest.mark.parametrize(
    ("host", "error_type"),
    [
        ("refused.example", "connection_refused"),
        ("unreachable.example", "host_unreachable"),
        ("forbidden.example", "proxy_refused"),
    ],
)
async def test_a_refused_target_reads_the_same_under_tls(
    host: str, error_type: str, tls: bool
) -> None:
    recorder = Recorder()
    async with MemoryWorld() as world:
        entrant = racer.Entrant(world.soar(), start_delay=0.0)
        async with racer.Dialer([entrant], tracer_provider=recorder.tracers) as dialer:
            with pytest.raises(AllAttemptsFailed) as caught:
                await dialer.dial(host, 443, tls=tls_contexts()[1] if tls else False)
    (failed,) = caught.value.report.attempts
    assert (failed.error_type, failed.stage) == (error_type, "connect")
    (attempt,) = recorder.trees()[0].below
    assert attempt.attributes["error.type"] == error_type
    assert attempt.attributes["racer.attempt.stage"] == "connect"
    assert attempt.words is not None
    assert attempt.words.startswith("TargetRefused: ")


async def test_a_session_lost_within_tls_reads_so() -> None:
    """The target was connected, so nothing is repaired; the reason must not drown in TLS."""
    async with MemoryWorld() as world:
        entrant = racer.Entrant(world.soar(), start_delay=0.0)
        async with racer.Dialer([entrant]) as dialer, anyio.create_task_group() as tasks:

            async def lose() -> None:
                await anyio.sleep(2)
                world.restart_server()

            tasks.start_soon(lose)
            with pytest.raises(AllAttemptsFailed, match="the server lost the session") as caught:
                await dialer.dial("sink.example", 443, tls=tls_contexts()[1])
    (failed,) = caught.value.report.attempts
    assert (failed.error_type, failed.stage) == ("session_lost", "tls")
