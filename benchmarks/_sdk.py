"""OpenTelemetry as a program would set it up, but with an exporter that only counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import Span

__all__ = ("SDK", "SpanCount")

_QUEUE: Final = (
    1 << 20
)  # of spans; the default of 2,048 silently drops what a benchmark makes in the 5 s between exports


class _Counting(SpanExporter):
    """Counts spans, and keeps none."""

    def __init__(self) -> None:
        self.spans = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += len(spans)
        return SpanExportResult.SUCCESS


class SpanCount(SpanProcessor):
    """How many spans began and how many have ended."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.started = 0
        self.ended = 0

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Count a span that began."""
        del span, parent_context
        self.started += 1

    def on_end(self, span: ReadableSpan) -> None:
        """Count a span that ended."""
        del span
        self.ended += 1


class SDK:
    """A tracer provider that exports in batches, and a meter provider that aggregates.

    Args:
        *processors: see every span too.
        metrics: whether there is a meter provider.

    Attributes:
        tracer_provider: for a `Dialer`.
        meter_provider: likewise, or `None`.
    """

    def __init__(self, *processors: SpanProcessor, metrics: bool) -> None:
        """Start the exporter's thread."""
        self._exporter = _Counting()
        batch = BatchSpanProcessor(
            self._exporter, max_queue_size=_QUEUE, export_timeout_millis=60_000
        )
        self.tracer_provider = TracerProvider(shutdown_on_exit=False)
        for processor in (*processors, batch):
            self.tracer_provider.add_span_processor(processor)
        self.meter_provider = (
            MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False) if metrics else None
        )

    def shutdown(self) -> int:
        """Export what is left, end the thread, and return how many spans have been exported in all."""
        self.tracer_provider.shutdown()
        if self.meter_provider is not None:
            self.meter_provider.shutdown()
        return self._exporter.spans
