"""A race as a collector receives it, over both protocols: the tree whole, and everything the environment asks for."""

from __future__ import annotations

import contextlib
import json
import logging
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]  # it has no stubs
import pytest
import trustme
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

import racer
from racer.abc import Host, Progress, SessionTrace, Target, Transport
from racer.errors import ConfigError, DialError
from racer.telemetry import _exporters
from racer.telemetry._failures import Hearing
from racer.telemetry._settings import read
from racer.testing import ScriptedTransport, fails, hangs, run_virtual, stream_pair
from tests.racer.collector import values
from tests.racer.telemetry.conftest import PROTOCOLS
from tests.racer.telemetry.receivers import closed_port, counting_relay

if TYPE_CHECKING:
    from collections.abc import Callable

    from racer.telemetry import Handle
    from racer.testing import MemoryStream
    from tests.racer.telemetry.receivers import Receiver

    SetUp = Callable[..., Handle]

HOST = "news.example"
SECRET = "hunter2-is-in-no-log"


class Tunnel(Transport):
    """Comes half a second late, on a session that it keeps."""

    name = "tunnel"

    def __init__(self) -> None:
        self.host: Host | None = None
        self.session: SessionTrace | None = None

    async def start(self, host: Host) -> None:
        self.host = host

    async def connect(self, target: Target, progress: Progress) -> MemoryStream:
        assert self.host is not None
        reused = self.session is not None
        self.session = self.session or self.host.open_session(self.name)
        progress.session(reused=reused, link=self.session.context)
        return stream_pair()[0]

    async def aclose(self) -> None:
        if self.session is not None:
            self.session.end("closed")


def refusing() -> ScriptedTransport:
    return ScriptedTransport("direct", fails(0.5, ConnectionRefusedError()))


def dial(handle: Handle, *entrants: Any, times: int = 1) -> None:
    """Dial on a virtual clock, with what `handle` has for providers."""

    async def story() -> None:
        async with racer.Dialer(
            list(entrants),
            tracer_provider=handle.tracer_provider,
            meter_provider=handle.meter_provider,
        ) as dialer:
            for _ in range(times):
                with contextlib.suppress(DialError):
                    await (await dialer.dial(HOST, 80, timeout=5.0)).aclose()

    run_virtual(story)


def offsets(spans: list[Span]) -> list[tuple[float, float]]:
    began = spans[0].start_time_unix_nano
    return [
        ((s.start_time_unix_nano - began) / 1e9, (s.end_time_unix_nano - began) / 1e9)
        for s in spans
    ]


# --- what is received ------------------------------------------------------------------------------


def test_a_failed_dial_arrives_whole(receiver: Receiver, set_up: SetUp) -> None:
    handle = set_up(**receiver.environ())
    dial(handle, refusing(), ScriptedTransport("stuck", hangs()))
    assert handle.flush(10)
    whole, direct, stuck = receiver.spans()
    assert [span.name for span in (whole, direct, stuck)] == [
        "racer.dial",
        "racer.attempt",
        "racer.attempt",
    ]
    assert direct.parent_span_id == stuck.parent_span_id == whole.span_id
    assert direct.trace_id == stuck.trace_id == whole.trace_id
    assert offsets([whole, direct, stuck]) == [(0, 5), (0, 0.5), (0, 5)]
    assert [span.status.code for span in (whole, direct, stuck)] == [Status.STATUS_CODE_ERROR] * 3
    assert [span.kind for span in (whole, direct)] == [
        Span.SPAN_KIND_INTERNAL,
        Span.SPAN_KIND_CLIENT,
    ]
    assert direct.status.message in whole.status.message
    told = [values(span.attributes) for span in (whole, direct, stuck)]
    assert [one["racer.outcome"] for one in told] == ["timed_out", "connect_failed", "timed_out"]
    assert [one["error.type"] for one in told] == ["timeout", "connection_refused", "timeout"]


def test_dials_and_the_session_they_share_arrive_linked(receiver: Receiver, set_up: SetUp) -> None:
    handle = set_up(**receiver.environ())
    dial(handle, refusing(), racer.Entrant(Tunnel(), start_delay=0.2), times=2)
    assert handle.flush(10)
    spans = receiver.spans()
    (session,) = (span for span in spans if span.name == "racer.session")
    first, second = (
        span
        for span in spans
        if values(span.attributes).get("racer.transport") == "tunnel" and span is not session
    )
    assert session.parent_span_id == b""
    assert session.trace_id not in {first.trace_id, second.trace_id}
    assert [link.span_id for link in session.links] == [first.span_id]
    assert [[link.span_id for link in span.links] for span in (first, second)] == [
        [session.span_id],
        [session.span_id],
    ]
    reused = [values(span.attributes)["racer.session.reused"] for span in (first, second)]
    assert reused == [False, True]


def test_metrics_arrive(receiver: Receiver, set_up: SetUp) -> None:
    handle = set_up(**receiver.environ())
    dial(handle, refusing(), racer.Entrant(Tunnel(), start_delay=0.2))
    assert handle.flush(10)
    found = receiver.metrics()
    assert set(found) == {
        "racer.dial.duration",
        "racer.attempt.duration",
        "racer.cleanup.duration",
        "racer.attempts.active",
        "racer.sessions.open",
        "racer.sessions.closed",
    }
    (point,) = found["racer.dial.duration"].histogram.data_points
    assert values(point.attributes) == {"racer.outcome": "connected", "racer.transport": "tunnel"}
    assert (point.count, point.sum) == (1, 0.2)


def test_what_was_taken_is_counted(receiver: Receiver, set_up: SetUp) -> None:
    handle = set_up(**receiver.environ(OTEL_BSP_MAX_EXPORT_BATCH_SIZE="2"))
    dial(handle, refusing(), times=3)
    assert handle.flush(10)
    status = handle.status()
    assert (status.is_active, status.why_not, status.is_failing) == (True, None, False)
    assert (status.spans_exported, status.spans_dropped, status.spans_waiting) == (6, 0, 0)
    assert (status.collections_exported, status.collections_dropped) == (1, 0)
    assert status.last_error is None
    sizes = [
        len(scope.spans)
        for one in receiver.received
        if one.signal == "traces"
        for resource in one.message.resource_spans
        for scope in resource.scope_spans
    ]
    assert sum(sizes) == 6
    assert max(sizes) == 2


def test_the_end_flushes_once(receiver: Receiver, set_up: SetUp) -> None:
    with set_up(**receiver.environ()) as handle:
        dial(handle, refusing())
    assert len(receiver.spans()) == 2
    assert handle.shutdown(0)
    assert handle.status().why_not == "it was shut down"
    dial(handle, refusing())  # whoever still dials is not disturbed
    assert not handle.flush(0)
    assert len(receiver.spans()) == 2


# --- what the environment asks for -----------------------------------------------------------------


def test_headers_go_along_and_into_no_word_of_ours(
    receiver: Receiver, set_up: SetUp, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    handle = set_up(
        **receiver.environ(
            OTEL_EXPORTER_OTLP_HEADERS=f"authorization=Bearer%20{SECRET},x-team=racers"
        )
    )
    receiver.refusal = 401 if receiver.protocol != "grpc" else grpc.StatusCode.UNAUTHENTICATED
    dial(handle, refusing())
    assert not handle.flush(10)
    answers = handle.check()
    assert {one.headers["authorization"] for one in receiver.received} == {f"Bearer {SECRET}"}
    assert {one.headers["x-team"] for one in receiver.received} == {"racers"}
    assert [answer.is_taken for answer in answers] == [False, False]
    assert "OTEL_EXPORTER_OTLP_HEADERS" in str(answers[0].advice)
    lines = [record.getMessage() for record in caplog.records if record.name != "urllib3"]
    assert SECRET not in f"{handle.status()} {answers} {lines} {handle!r}"


def test_resource_attributes_go_along(receiver: Receiver, set_up: SetUp) -> None:
    handle = set_up(**receiver.environ(OTEL_RESOURCE_ATTRIBUTES="deployment.environment=lab"))
    dial(handle, refusing())
    assert handle.flush(10)
    resources = [
        values(resource.resource.attributes)
        for one in receiver.received
        if one.signal == "traces"
        for resource in one.message.resource_spans
    ]
    assert [one["deployment.environment"] for one in resources] == ["lab"]


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({}, "mine"),
        ({"OTEL_SERVICE_NAME": "an app"}, "an app"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=theirs"}, "theirs"),
    ],
)
def test_the_environment_names_the_service_before_the_program_does(
    environ: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in {**environ, "OTEL_TRACES_EXPORTER": "console"}.items():
        monkeypatch.setenv(key, value)
    with racer.telemetry.setup(install=False, service_name="mine") as handle:
        resource: Any = handle.tracer_provider
        assert resource.resource.attributes["service.name"] == name


def test_a_sampler_decides(receiver: Receiver, set_up: SetUp) -> None:
    handle = set_up(**receiver.environ(OTEL_TRACES_SAMPLER="always_off"))
    dial(handle, refusing())
    assert handle.flush(10)
    assert receiver.spans() == []
    assert "racer.dial.duration" in receiver.metrics()


def test_a_signal_can_be_left_out(receiver: Receiver, set_up: SetUp) -> None:
    handle = set_up(**receiver.environ(OTEL_METRICS_EXPORTER="none"))
    dial(handle, refusing())
    assert handle.flush(10)
    assert handle.meter_provider is None
    assert {one.signal for one in receiver.received} == {"traces"}


def test_the_console_is_stderr(set_up: SetUp, capfd: pytest.CaptureFixture[str]) -> None:
    handle = set_up(OTEL_TRACES_EXPORTER="console", OTEL_METRICS_EXPORTER="console")
    dial(handle, refusing())
    assert handle.flush(10)
    printed = capfd.readouterr()
    assert printed.out == ""
    assert '"name": "racer.dial"' in printed.err
    assert '"name": "racer.dial.duration"' in printed.err


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_gzip_goes_over_the_wire(protocol: str, set_up: SetUp) -> None:
    receiver = PROTOCOLS[protocol]()
    try:
        with counting_relay(int(receiver.url.rpartition(":")[2])) as (port, counts):
            handle = set_up(
                **receiver.environ(
                    OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}",
                    OTEL_EXPORTER_OTLP_COMPRESSION="gzip",
                    OTEL_METRICS_EXPORTER="none",
                )
            )
            name = "racer" * 1000
            dial(handle, ScriptedTransport("direct", fails(0.5, OSError(name))), times=20)
            assert handle.shutdown(10)
        assert len(receiver.spans()) == 40
        assert sum(one.message.ByteSize() for one in receiver.received) > 40_000
        assert 0 < sum(counts) < 10_000
    finally:
        receiver.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_tls_with_an_authority_of_ones_own(
    protocol: str, set_up: SetUp, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "theirs.pem"))  # for everybody else
    authority, stranger = trustme.CA(), trustme.CA()
    for who, name in ((authority, "ours.pem"), (stranger, "theirs.pem")):
        who.cert_pem.write_to_path(str(tmp_path / name))
    receiver = PROTOCOLS[protocol](authority=authority)
    common = {"OTEL_EXPORTER_OTLP_TIMEOUT": "0.5", "OTEL_METRICS_EXPORTER": "none"}
    try:
        handle = set_up(
            **receiver.environ(
                **common, OTEL_EXPORTER_OTLP_CERTIFICATE=str(tmp_path / "theirs.pem")
            )
        )
        dial(handle, refusing())
        assert not handle.flush(10)
        assert "certificate" in str(handle.status().last_error)
        (answer,) = handle.check(0.5)
        assert "OTEL_EXPORTER_OTLP_CERTIFICATE" in str(answer.advice)
        assert receiver.spans() == []

        trusting = {"OTEL_EXPORTER_OTLP_CERTIFICATE": str(tmp_path / "ours.pem")}
        handle = set_up(
            **receiver.environ(**common | {"OTEL_EXPORTER_OTLP_TIMEOUT": "10"}, **trusting)
        )
        dial(handle, refusing())
        assert handle.flush(10)
        assert len(receiver.spans()) == 2
        assert [one.is_taken for one in handle.check()] == [True]
    finally:
        receiver.close()


@pytest.mark.parametrize(
    ("protocol", "module"),
    [("grpc", "grpc.trace_exporter"), ("http/protobuf", "http.trace_exporter"), ("grpc", None)],
)
def test_a_missing_extra_is_said(
    protocol: str, module: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "grpc" if module is None else f"opentelemetry.exporter.otlp.proto.{module}"
    monkeypatch.setitem(__import__("sys").modules, name, None)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    with pytest.raises(ConfigError, match=r"install racer-dialer\[otlp\]") as caught:
        racer.telemetry.setup(install=False)
    assert f"OTLP over {protocol}" in str(caught.value)


def test_none_is_a_compression_though_grpcs_exporter_does_not_know_it() -> None:
    settings = read(
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_COMPRESSION": "none"}
    )
    _exporters.span_exporter(settings, Hearing()).shutdown()


# --- asking a collector ------------------------------------------------------------------------------


def test_a_collector_that_takes_says_so(receiver: Receiver, set_up: SetUp) -> None:
    traces, metrics = set_up(**receiver.environ()).check()
    assert (traces.signal, metrics.signal) == ("traces", "metrics")
    assert traces.is_taken
    assert metrics.is_taken
    assert traces.advice is None
    assert traces.words.startswith(f"the collector at {receiver.url}")
    assert "takes what it is sent" in traces.words
    assert json.dumps(traces.words)
    assert [one.message.ByteSize() for one in receiver.received] == [0, 0]


def test_nobody_asks_where_nobody_is_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert racer.telemetry.check() == ()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert racer.telemetry.check() == ()


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_nobody_there_is_told_from_a_refusal(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = closed_port()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    (answer,) = racer.telemetry.check(0.3)
    assert "cannot be reached" in answer.words
    assert "Connection refused" in answer.words
    assert "see that it runs" in str(answer.advice)


def test_the_other_protocol_is_suggested(set_up: SetUp, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = PROTOCOLS["grpc"]()
    try:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        answers = racer.telemetry.check(0.3)
        assert [one.is_taken for one in answers] == [False, False]
        assert "OTEL_EXPORTER_OTLP_PROTOCOL=grpc" in str(answers[0].advice)
    finally:
        receiver.close()
