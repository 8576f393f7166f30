"""An OTLP/HTTP receiver of the tests' own, on loopback, and what it demands of the spans that come."""

from __future__ import annotations

import gzip
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import racer

__all__ = ("Collector", "values")


class Collector:
    """An OTLP/HTTP receiver on loopback, and a program's OpenTelemetry that exports to it.

    Attributes:
        raw: every body that came, unpacked but not decoded.
        tracers, meters: the providers to hand to a dialer.
    """

    def __init__(self) -> None:
        self.raw: list[bytes] = []
        self.refused: list[str] = []
        self._bodies: dict[str, list[bytes]] = defaultdict(list)
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers["Content-Encoding"] == "gzip":
                    body = gzip.decompress(body)
                if self.headers["Content-Type"] != "application/x-protobuf":
                    collector.refused.append(self.headers["Content-Type"])
                collector.raw.append(body)
                collector._bodies[self.path].append(body)
                answers: dict[str, Any] = {
                    "/v1/traces": ExportTraceServiceResponse(),
                    "/v1/metrics": ExportMetricsServiceResponse(),
                }
                answer = answers[self.path].SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self._thread.start()
        url = f"http://127.0.0.1:{self._server.server_port}"
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy of the machine's between us
        options: dict[str, Any] = {"session": self._session, "compression": Compression.Gzip}
        resource = Resource({"service.name": "an app"})
        self.tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        self.tracers.add_span_processor(
            BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces", **options))
        )
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{url}/v1/metrics", **options))
        self.meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False)

    def close(self) -> None:
        self.tracers.shutdown()
        self.meters.shutdown()
        self._session.close()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def spans(self) -> list[Span]:
        """Return every span so far, in order of their start, each checked to be well-formed."""
        assert self.tracers.force_flush()
        found: list[Span] = []
        for body in self._bodies["/v1/traces"]:
            request = ExportTraceServiceRequest.FromString(body)
            for resource in request.resource_spans:
                assert values(resource.resource.attributes)["service.name"] == "an app"
                for scope in resource.scope_spans:
                    assert (scope.scope.name, scope.scope.version) == ("racer", racer.__version__)
                    found += scope.spans
        assert self.refused == []
        check(found)
        return sorted(found, key=lambda span: (span.start_time_unix_nano, span.kind))

    def metrics(self) -> dict[str, Any]:
        """Return every metric so far, by name."""
        assert self.meters.force_flush()
        return {
            metric.name: metric
            for body in self._bodies["/v1/metrics"]
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


def values(attributes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in attributes:
        assert one.key not in found
        kind = one.value.WhichOneof("value")
        assert kind is not None
        value = getattr(one.value, kind)
        found[one.key] = (
            [item.string_value for item in value.values] if kind == "array_value" else value
        )
    return found


def check(spans: list[Span]) -> None:
    """Hold spans to OpenTelemetry's protocol: ids, parents, times, and what may be said of an end."""
    by_id = {span.span_id: span for span in spans}
    assert len(by_id) == len(spans)
    for span in spans:
        assert (len(span.trace_id), len(span.span_id)) == (16, 8)
        assert any(span.trace_id)
        assert any(span.span_id)
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        assert span.dropped_attributes_count == span.dropped_events_count == 0
        assert "exception" not in {event.name for event in span.events}  # the status says it all
        if span.status.code != Status.STATUS_CODE_ERROR:
            assert span.status.message == ""
        if span.name == "racer.dial":
            assert span.parent_span_id == b""
            assert span.kind == Span.SPAN_KIND_INTERNAL
            continue
        assert (span.name, span.kind) == ("racer.attempt", Span.SPAN_KIND_CLIENT)
        parent = by_id[span.parent_span_id]
        assert parent.trace_id == span.trace_id
        assert parent.start_time_unix_nano <= span.start_time_unix_nano
        assert span.end_time_unix_nano <= parent.end_time_unix_nano
