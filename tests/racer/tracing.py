"""What a race leaves in OpenTelemetry, as plain data that a test can compare whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import NumberDataPoint
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.sampling import Sampler

    from racer import RaceReport

__all__ = ("Node", "Point", "Recorder", "attempt", "began_at", "dial")


@dataclass(frozen=True, kw_only=True)
class Node:
    """A span and those below it. Times are seconds since the root's start; two spans are equal if all of it is."""

    name: str
    kind: SpanKind = SpanKind.INTERNAL
    start: float = 0.0
    end: float = 0.0
    attributes: dict[str, Any] = field(default_factory=dict)
    status: StatusCode = StatusCode.UNSET
    words: str | None = None
    links: list[int] = field(default_factory=list)
    events: list[tuple[str, float, dict[str, Any]]] = field(default_factory=list)
    below: list[Node] = field(default_factory=list)


def dial(end: float, attributes: dict[str, Any], *below: Node, failed: str | None = None) -> Node:
    """Return the span of a dial to 192.0.2.1:80 that ended after `end` seconds; `failed` are its status' words."""
    return Node(
        name="racer.dial",
        end=end,
        attributes={
            "server.address": "192.0.2.1",
            "server.port": 80,
            "racer.config.generation": 1,
            **attributes,
        },
        status=StatusCode.UNSET if failed is None else StatusCode.ERROR,
        words=failed,
        below=list(below),
    )


def attempt(
    transport: str,
    index: int,
    start: float,
    end: float,
    outcome: str,
    *,
    stage: str = "connect",
    failed: str | None = None,
    delay: float = 0.0,
    links: list[int] | None = None,
    events: list[tuple[str, float, dict[str, Any]]] | None = None,
    below: list[Node] | None = None,
    **more: Any,
) -> Node:
    """Return the span of an attempt; `more` attributes are named with `_` for their dots."""
    return Node(
        name="racer.attempt",
        kind=SpanKind.CLIENT,
        start=start,
        end=end,
        attributes={
            "server.address": "192.0.2.1",
            "server.port": 80,
            "racer.transport": transport,
            "racer.attempt.index": index,
            "racer.attempt.start_delay": delay,
            "racer.attempt.stage": stage,
            "racer.outcome": outcome,
            **{key.replace("_", "."): value for key, value in more.items()},
        },
        status=StatusCode.UNSET if failed is None else StatusCode.ERROR,
        words=failed,
        links=links or [],
        events=events or [],
        below=below or [],
    )


@dataclass(frozen=True, kw_only=True)
class Point:
    """What a metric says for one set of attributes: a number, or how many values and their sum."""

    value: float
    count: int | None = None


class Recorder(SpanProcessor):
    """An application's OpenTelemetry, in memory.

    Attributes:
        tracers, meters: the providers to hand to a dialer.
        started, open: spans that have started, and those of them that have not ended.
    """

    def __init__(self, *, sampler: Sampler | None = None) -> None:
        self.started = 0
        self.open = 0
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self.tracers.add_span_processor(self)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self.started += 1
        self.open += 1

    def on_end(self, span: Any) -> None:
        self.open -= 1

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """Every span that has ended, in that order."""
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def trees(self) -> list[Node]:
        """Return what has ended so far as trees, in order of their roots' start, and begin anew."""
        spans = sorted(self.spans, key=lambda span: span.start_time or 0)
        self._exporter.clear()
        known = {span.context.span_id for span in spans if span.context}
        return [
            _node(span, spans, span.start_time or 0)
            for span in spans
            if span.parent is None or span.parent.span_id not in known
        ]

    def tree(self) -> Node:
        """Return the only tree."""
        (node,) = self.trees()
        return node

    def text(self) -> str:
        """Return all that was exported, as JSON."""
        data = self._reader.get_metrics_data()
        metrics = "" if data is None else data.to_json()
        return "\n".join([*(span.to_json() for span in self.spans), metrics])

    def metrics(self) -> dict[str, dict[tuple[tuple[str, Any], ...], Point]]:
        """Return every point of every metric: by the metric's name, then by its attributes in order of their keys."""
        return {
            metric.name: {
                tuple(sorted((point.attributes or {}).items())): _point(point)
                for point in metric.data.data_points
            }
            for metric in self.raw_metrics()
        }

    def raw_metrics(self) -> list[Any]:
        data = self._reader.get_metrics_data()
        if data is None:
            return []
        return [
            metric
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]


def began_at(span: ReadableSpan, report: RaceReport) -> bool:
    """Return whether a span begins at the wall-clock time that a report gives."""
    return span.start_time == int(report.started * 1e9)


def _node(span: ReadableSpan, spans: list[ReadableSpan], anchor: int) -> Node:
    assert span.context is not None
    own = span.context.span_id
    return Node(
        name=span.name,
        kind=span.kind,
        start=_seconds(span.start_time, anchor),
        end=_seconds(span.end_time, anchor),
        attributes={
            key: list(value) if isinstance(value, tuple) else value
            for key, value in (span.attributes or {}).items()
        },
        status=span.status.status_code,
        words=span.status.description,
        links=[link.context.span_id for link in span.links],
        events=[
            (event.name, _seconds(event.timestamp, anchor), dict(event.attributes or {}))
            for event in span.events
        ],
        below=[
            _node(child, spans, anchor)
            for child in spans
            if child.parent is not None and child.parent.span_id == own
        ],
    )


def _seconds(moment: int | None, anchor: int) -> float:
    assert moment is not None
    return (moment - anchor) / 1e9


def _point(point: NumberDataPoint | HistogramDataPoint) -> Point:
    if isinstance(point, HistogramDataPoint):
        return Point(value=point.sum, count=point.count)
    return Point(value=point.value)
