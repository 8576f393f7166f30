"""Spans that nobody wants, and those that everybody must be able to count on: each started is ended once (T2, T6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import sampling

import racer
from racer import _spans
from racer.errors import AllAttemptsFailed, DialError
from racer.testing import ScriptedTransport, cancel_everywhere, fails, hangs, wins
from tests.racer.tracing import Point, Recorder

if TYPE_CHECKING:
    from racer.abc import Progress

pytestmark = pytest.mark.virtual_time

HOST = "192.0.2.1:80"


def field(script: Any = None) -> list[Any]:
    return [
        ScriptedTransport("refused", fails(0.25)),
        ScriptedTransport("winner", wins(0.5) if script is None else script),
        racer.Entrant(ScriptedTransport("hanging", hangs()), start_delay=0.1),
    ]


class Only(sampling.Sampler):
    """Keeps spans of one name, whatever is above them."""

    def __init__(self, name: str) -> None:
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self._name = name

    def should_sample(
        self,
        parent_context: Any,
        trace_id: int,
        name: str,
        kind: Any = None,
        attributes: Any = None,
        links: Any = None,
        trace_state: Any = None,
    ) -> sampling.SamplingResult:
        self.seen.append((name, dict(attributes or {})))
        wanted = name == self._name
        return sampling.SamplingResult(
            sampling.Decision.RECORD_AND_SAMPLE if wanted else sampling.Decision.DROP
        )

    def get_description(self) -> str:
        return "Only"


# --- spans that nobody wants ----------------------------------------------------------------


def count_descriptions(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Return a list into which goes every error that is put into words for telemetry."""
    described: list[BaseException] = []

    def describe(exc: BaseException) -> str:
        described.append(exc)
        return "words"

    monkeypatch.setattr(_spans, "describe", describe)
    return described


async def race_twice(dialer: racer.Dialer) -> None:
    async with dialer:
        async with await dialer.dial(HOST):
            pass
        with pytest.raises(AllAttemptsFailed):
            await dialer.dial(HOST, only="refused")


async def test_without_an_sdk_nothing_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    described = count_descriptions(monkeypatch)
    seen: list[tuple[trace.Span, Progress]] = []

    def tell(progress: Progress) -> None:
        progress.peer("192.0.2.7", 80)
        progress.session(reused=True, link=trace.INVALID_SPAN_CONTEXT)
        progress.event("hello", {"a": 1})
        seen.append((trace.get_current_span(), progress))

    none = trace.NoOpTracerProvider()  # what a program has that never heard of OpenTelemetry
    await race_twice(racer.Dialer(field(wins(0.5).tells(tell)), tracer_provider=none))
    assert described == []
    assert [span for span, _ in seen] == [trace.INVALID_SPAN]


async def test_without_an_sdk_the_callers_span_stays_the_current_one() -> None:
    """Somebody else's propagated context must reach the guests, and whom they call."""
    above = trace.NonRecordingSpan(
        trace.SpanContext(trace_id=7, span_id=9, is_remote=True, trace_flags=trace.TraceFlags(1))
    )
    seen: list[trace.SpanContext] = []
    guest = ScriptedTransport(
        "a", wins().tells(lambda _: seen.append(trace.get_current_span().get_span_context()))
    )
    async with racer.Dialer([guest], tracer_provider=trace.NoOpTracerProvider()) as dialer:
        with trace.use_span(above):
            await (await dialer.dial(HOST)).aclose()
    assert seen == [above.get_span_context()]


async def test_below_a_span_that_was_sampled_out_nothing_is_recorded_or_described(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    described = count_descriptions(monkeypatch)
    recorder = Recorder(sampler=sampling.ParentBased(sampling.ALWAYS_OFF))
    seen: list[trace.Span] = []
    script = wins(0.5).tells(lambda _: seen.append(trace.get_current_span()))
    dialer = racer.Dialer(
        field(script), tracer_provider=recorder.tracers, meter_provider=recorder.meters
    )
    with recorder.tracers.get_tracer("app").start_as_current_span("app") as mine:
        await race_twice(dialer)
    assert (recorder.started, recorder.spans, described) == (0, (), [])
    assert seen[0].get_span_context().trace_id == mine.get_span_context().trace_id
    assert not seen[0].get_span_context().trace_flags.sampled
    # Metrics are complete all the same.
    assert recorder.metrics()["racer.dial.duration"][
        ("racer.outcome", "connected"), ("racer.transport", "winner")
    ] == Point(value=0.5, count=1)


async def test_a_sampler_sees_target_and_transport() -> None:
    sampler = Only("racer.dial")
    recorder = Recorder(sampler=sampler)
    async with racer.Dialer([ScriptedTransport("a")], tracer_provider=recorder.tracers) as dialer:
        await (await dialer.dial(HOST)).aclose()
    where = {"server.address": "192.0.2.1", "server.port": 80}
    assert sampler.seen == [
        ("racer.dial", where | {"racer.config.generation": 1}),
        (
            "racer.attempt",
            where
            | {
                "racer.transport": "a",
                "racer.attempt.index": 0,
                "racer.attempt.start_delay": 0.0,
            },
        ),
    ]
    assert [span.name for span in recorder.spans] == ["racer.dial"]


async def test_an_attempt_is_described_even_where_its_dial_was_dropped() -> None:
    recorder = Recorder(sampler=Only("racer.attempt"))
    async with racer.Dialer(field(), tracer_provider=recorder.tracers) as dialer:
        await (await dialer.dial(HOST)).aclose()
    assert [
        ((span.attributes or {})["racer.outcome"], span.status.status_code.name)
        for span in recorder.spans
    ] == [("connect_failed", "ERROR"), ("connected", "UNSET"), ("lost_race", "UNSET")]


# --- each span that was started is ended, once ----------------------------------------------


class Check:
    """Asks after each round of a sweep whether every span has ended, and none twice."""

    def __init__(self, recorder: Recorder, caplog: pytest.LogCaptureFixture) -> None:
        self.recorder = recorder
        self._caplog = caplog

    async def __call__(self) -> None:
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        assert self.recorder.open == 0
        assert len(self.recorder.spans) == self.recorder.started
        # The SDK itself complains of a span that is ended twice, or written to after its end.
        assert [r for r in self._caplog.records if r.name.startswith("opentelemetry")] == []


async def test_a_dial_that_is_cancelled_anywhere_ends_its_spans(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorder = Recorder()
    async with racer.Dialer(field(), tracer_provider=recorder.tracers) as dialer:

        async def story() -> None:
            async with await dialer.dial(HOST):
                pass

        sweep = await cancel_everywhere(story, verify=Check(recorder, caplog), passes=6)
    assert sweep.cancelled > 20
    outcomes = {(span.attributes or {})["racer.outcome"] for span in recorder.spans}
    assert outcomes == {"connected", "connect_failed", "lost_race", "cancelled"}


async def test_a_race_that_is_cancelled_anywhere_ends_its_spans(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorder = Recorder()
    async with racer.Dialer(field(), tracer_provider=recorder.tracers) as dialer:

        async def story() -> None:
            async with dialer.race(HOST, timeout=1.0) as race:
                async for conn in race:
                    await conn.aclose()

        sweep = await cancel_everywhere(story, verify=Check(recorder, caplog), passes=6)
    assert sweep.cancelled > 20


async def test_a_dial_that_fails_anyhow_ends_its_spans(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    check = Check(recorder, caplog)
    guests = [
        ScriptedTransport("a", fails().then(fails(0, SystemExit)).then(hangs())),
        ScriptedTransport("b", fails(0.5).then(hangs()).then(hangs())),
    ]
    async with racer.Dialer(guests, tracer_provider=recorder.tracers) as dialer:
        for kind in (AllAttemptsFailed, SystemExit, racer.errors.DialTimeout):
            with pytest.raises(kind):
                await dialer.dial(HOST, timeout=2.0)
            await check()
        with pytest.raises(DialError):
            await dialer.dial(HOST, timeout=0.01)
        await check()
    assert recorder.started == 4 * 3
