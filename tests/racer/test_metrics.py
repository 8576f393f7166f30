"""The metrics of races: exact values, exact sets of attributes, and never a host among them (T4)."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

import racer
from racer.abc import Traits
from racer.errors import AllAttemptsFailed, DialError, NoTransports
from racer.testing import ScriptedTransport, fails, hangs, wins
from tests.racer.tracing import Point, Recorder

pytestmark = pytest.mark.virtual_time

HOST = "192.0.2.1:80"


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def dialer_of(recorder: Recorder, *entrants: Any, **options: Any) -> racer.Dialer:
    return racer.Dialer(
        entrants, tracer_provider=recorder.tracers, meter_provider=recorder.meters, **options
    )


def key(**attributes: Any) -> tuple[tuple[str, Any], ...]:
    """Return a set of attributes, named with `_` for their dots, as `Recorder.metrics` has it."""
    names = {"transport": "racer.transport", "outcome": "racer.outcome", "error": "error.type"}
    return tuple(sorted((names[name], value) for name, value in attributes.items()))


async def settle() -> None:
    """Let every task that is ready run to its next wait."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


async def test_instruments_say_what_they_measure(recorder: Recorder) -> None:
    guests = ScriptedTransport("a", wins(0.5)), ScriptedTransport("b", hangs())
    async with dialer_of(recorder, *guests) as dialer:
        await (await dialer.dial(HOST)).aclose()
    buckets = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 90)
    found = {}
    for metric in recorder.raw_metrics():
        (point, *_) = metric.data.data_points
        bounds = getattr(point, "explicit_bounds", None)
        found[metric.name] = (metric.unit, bounds and tuple(bounds))
        assert metric.description.endswith(".")
    assert found == {
        "racer.dial.duration": ("s", buckets),
        "racer.attempt.duration": ("s", buckets),
        "racer.cleanup.duration": ("s", buckets),
        "racer.attempts.active": ("{attempt}", None),
    }


async def test_a_win_over_others(recorder: Recorder) -> None:
    async with (
        dialer_of(
            recorder,
            ScriptedTransport("refused", fails(0.25)),
            ScriptedTransport("winner", wins(1.0)),
            racer.Entrant(ScriptedTransport("slow", hangs().slow_cleanup(0.75)), start_delay=0.5),
            racer.Entrant(ScriptedTransport("late"), start_delay=8.0),
            ScriptedTransport("unfit", serves="not this one"),
        ) as dialer,
        await dialer.dial(HOST),
    ):
        await anyio.sleep(5)
    assert recorder.metrics() == {
        "racer.dial.duration": {
            key(transport="winner", outcome="connected"): Point(value=1.0, count=1)
        },
        "racer.attempt.duration": {
            key(transport="refused", outcome="connect_failed", error="connection_refused"): Point(
                value=0.25, count=1
            ),
            key(transport="winner", outcome="connected"): Point(value=1.0, count=1),
            # A blocked route's time must not be invisible because another was faster.
            key(transport="slow", outcome="lost_race"): Point(value=0.5, count=1),
        },
        "racer.cleanup.duration": {key(transport="slow"): Point(value=0.75, count=1)},
        "racer.attempts.active": {
            key(transport=name): Point(value=0) for name in ("refused", "winner", "slow")
        },
    }


async def test_ways_to_have_no_winner(recorder: Recorder) -> None:
    guests = [
        ScriptedTransport("a", fails(0.5).then(hangs()), traits=Traits(attempt_timeout=3.0)),
        ScriptedTransport("b", fails(0.25, lambda: racer.errors.SessionLost("gone")).then(hangs())),
    ]
    async with dialer_of(recorder, *guests) as dialer:
        with pytest.raises(AllAttemptsFailed):
            await dialer.dial(HOST)
        with pytest.raises(AllAttemptsFailed):
            await dialer.dial(HOST, only="a")
        with pytest.raises(DialError):
            await dialer.dial(HOST, only="b", timeout=1.5)
        with anyio.move_on_after(0.125):
            await dialer.dial(HOST)
        with pytest.raises(NoTransports):
            dialer.replace("a", ScriptedTransport("a", serves="no"))
            dialer.replace("b", ScriptedTransport("b", serves="no"))
            await dialer.dial(HOST)
    metrics = recorder.metrics()
    assert metrics["racer.dial.duration"] == {
        key(outcome="connect_failed", error="other"): Point(value=0.5, count=1),
        key(outcome="connect_failed", error="timeout"): Point(value=3.0, count=1),
        key(outcome="timed_out", error="timeout"): Point(value=1.5, count=1),
        key(outcome="cancelled"): Point(value=0.125, count=1),
        key(outcome="ineligible"): Point(value=0.0, count=1),
    }
    assert metrics["racer.attempt.duration"] == {
        key(transport="a", outcome="connect_failed", error="connection_refused"): Point(
            value=0.5, count=1
        ),
        key(transport="b", outcome="connect_failed", error="session_lost"): Point(
            value=0.25, count=1
        ),
        key(transport="a", outcome="timed_out", error="timeout"): Point(value=3.0, count=1),
        key(transport="b", outcome="timed_out", error="timeout"): Point(value=1.5, count=1),
        key(transport="a", outcome="cancelled"): Point(value=0.125, count=1),
        key(transport="b", outcome="cancelled"): Point(value=0.125, count=1),
    }
    assert metrics["racer.attempts.active"] == {
        key(transport=name): Point(value=0) for name in "ab"
    }


async def test_attempts_are_active_from_their_start_to_the_verdict(recorder: Recorder) -> None:
    def active() -> dict[str, float]:
        points = recorder.metrics()["racer.attempts.active"]
        return {str(dict(key)["racer.transport"]): point.value for key, point in points.items()}

    guests = ScriptedTransport("a", wins(1.0)), ScriptedTransport("b", hangs().slow_cleanup(1.0))
    dialer = dialer_of(recorder, guests[0], racer.Entrant(guests[1], start_delay=0.5))

    async def dial() -> None:
        async with await dialer.dial(HOST):
            pass

    async with dialer, anyio.create_task_group() as group:
        group.start_soon(dial)
        group.start_soon(dial)
        await anyio.sleep(0.25)
        assert active() == {"a": 2}
        await anyio.sleep(0.5)
        assert active() == {"a": 2, "b": 2}
        await anyio.sleep(0.25)
        await settle()
        assert active() == {"a": 0, "b": 0}


async def test_a_stream_that_nobody_took_counts_among_cleanups(recorder: Recorder) -> None:
    guests = [ScriptedTransport("a", wins(0.5)), ScriptedTransport("b", wins(0.5, close_delay=1.5))]
    async with dialer_of(recorder, *guests) as dialer:
        for _ in range(2):
            await (await dialer.dial(HOST)).aclose()
            await anyio.sleep(5)
    assert recorder.metrics()["racer.cleanup.duration"] == {
        key(transport="b"): Point(value=3.0, count=2)
    }


async def test_values_fall_into_the_advised_buckets(recorder: Recorder) -> None:
    async with dialer_of(recorder, ScriptedTransport("a", wins(0.25))) as dialer:
        await (await dialer.dial(HOST)).aclose()
    (metric,) = [m for m in recorder.raw_metrics() if m.name == "racer.dial.duration"]
    (point,) = metric.data.data_points
    assert dict(zip(point.explicit_bounds, point.bucket_counts, strict=False))[0.25] == 1


async def test_no_metric_knows_a_host(recorder: Recorder) -> None:
    def tell(progress: racer.abc.Progress) -> None:
        progress.peer("203.0.113.77", 80)

    refused = fails(0, lambda: OSError("secret.example refused"))
    guests = ScriptedTransport("a", refused), ScriptedTransport("b", wins().tells(tell))
    async with dialer_of(recorder, *guests) as dialer:
        await (await dialer.dial("secret.example", 80)).aclose()
        with pytest.raises(AllAttemptsFailed):
            await dialer.dial("secret.example", 80, only="a")
    allowed = {"racer.transport", "racer.outcome", "error.type"}
    for points in recorder.metrics().values():
        for attributes in points:
            assert {name for name, _ in attributes} <= allowed
            assert "secret" not in str(attributes)


async def test_without_a_meter_everything_works() -> None:
    async with racer.Dialer([ScriptedTransport("a")]) as dialer:
        await (await dialer.dial(HOST)).aclose()
