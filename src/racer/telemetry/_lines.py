"""The two signals as the courier carries them, and what is known of how it goes."""

from __future__ import annotations

import logging
import math
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opentelemetry.context import (
    _SUPPRESS_INSTRUMENTATION_KEY,  # what the SDK's own processors set, and instrumentations look at
    attach,
    detach,
    set_value,
)
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export import SpanExportResult

from racer.telemetry._failures import Failure, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.sdk.metrics.export import MetricsData
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

    from racer.telemetry._complaints import Complaints
    from racer.telemetry._courier import Courier
    from racer.telemetry._failures import Hearing
    from racer.telemetry._outbox import Outbox

__all__ = ("Desk", "MetricLine", "SpanLine")

logger = logging.getLogger("racer.telemetry")


@dataclass(slots=True, kw_only=True)
class Desk:
    """What the lines share: ears, a log that is not flooded, and a clock."""

    hearing: Hearing
    complaints: Complaints
    clock: Callable[[], float] = time.monotonic
    is_ending: bool = False


class _Line:
    """How exports of one signal go.

    Attributes:
        every: seconds between two exports.
        failure: the last one, and `None` before any.
    """

    def __init__(self, signal: str, where: str, *, every: float, desk: Desk) -> None:
        self.every = every
        self.failure: Failure | None = None
        self.is_failing = False
        self._signal = signal
        self._where = where
        self._desk = desk
        self._heard: Failure | None = None
        self._is_abandoned = False

    @contextmanager
    def _exporting(self) -> Iterator[None]:
        """Export inside: no instrumentation sees it, and what is logged is heard."""
        self._heard = None
        token = attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))  # noqa: FBT003 - OpenTelemetry's own
        try:
            with self._desk.hearing.listening(self._hear):
                yield
        finally:
            detach(token)

    def _hear(self, failure: Failure) -> None:
        if failure.code or self._heard is None or not self._heard.code:
            self._heard = failure
        # At the end nobody waits until what cannot be reached is tried once more.
        if self._desk.is_ending and failure.kind is Kind.UNREACHABLE:
            self.abandon()

    def abandon(self) -> None:
        self._is_abandoned = True

    def _went(self, *, well: bool) -> None:
        """Note how an export went, and log what is worth it."""
        desk = self._desk
        if well:
            self.is_failing = False
            if desk.complaints.worked(self._signal):
                logger.info("telemetry: %s works again", self._where)
            return
        self.is_failing = True
        failure = (
            self._heard or self.failure or Failure(kind=Kind.CRASHED, words="the export failed")
        )
        self.failure = failure
        if desk.complaints.failed(self._signal, failure.kind.value, desk.clock()):
            logger.warning(
                "telemetry: %s are lost: %s: %s; this is logged once a minute at most",
                self._signal,
                self._where,
                failure,
            )


class SpanLine(_Line, SpanProcessor):
    """Takes spans that have ended, and exports them in batches.

    Args:
        make: makes an exporter, at once and anew in a forked child: a connection is not to be shared.
        outbox: where they wait.
        where: the collector, in words.
        every: seconds that they wait at most.
        desk: what is shared.
    """

    def __init__(
        self,
        make: Callable[[], SpanExporter],
        outbox: Outbox[ReadableSpan],
        *,
        where: str,
        every: float,
        desk: Desk,
    ) -> None:
        """Make the exporter; nothing leaves before there is a courier."""
        super().__init__("spans", where, every=every, desk=desk)
        self._make = make
        self._exporter: SpanExporter | None = make()
        self._left_behind: list[object] = []
        self._overflowed = 0
        self.outbox = outbox
        self.courier: Courier | None = None

    # --- on the thread that dials ---

    def on_end(self, span: ReadableSpan) -> None:
        """Take a span."""
        if span.context is None or not span.context.trace_flags.sampled:
            return
        courier = self.courier
        if courier is None:
            return
        if self.outbox.put(span):
            courier.wake()
        courier.start()  # in a child that has none yet; else it is there

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Have all exported that waits."""
        return self.courier is None or self.courier.flush(timeout_millis / 1000)

    def shutdown(self) -> None:
        """Take no more."""
        self.courier = None

    # --- on the courier's ---

    def full(self) -> bool:
        """Return whether a batch has come together."""
        return self.outbox.waiting >= self.outbox.batch

    def send(self, *, all_of_it: bool) -> bool:
        """Export what waits: all of it, or until what is left makes no batch; a failure ends it."""
        self._note_overflow()
        while batch := self.outbox.take():
            if not self._export(batch):
                return False
            if not all_of_it and not self.full():
                break
        return True

    def _note_overflow(self) -> None:
        more, self._overflowed = self.outbox.overflowed - self._overflowed, self.outbox.overflowed
        if more and self._desk.complaints.happened(Kind.OVERFLOWED.value, self._desk.clock()):
            logger.warning(
                "telemetry: %d spans are lost: more than the %d of OTEL_BSP_MAX_QUEUE_SIZE wait for %s;"
                " this is logged once a minute at most",
                more,
                self.outbox.capacity,
                self._where,
            )

    def _export(self, batch: list[ReadableSpan]) -> bool:
        if self._is_abandoned:
            self.outbox.settle(len(batch), taken=False)
            return False
        well = False
        with self._exporting():
            try:
                if self._exporter is None:
                    self._exporter = self._make()
                well = self._exporter.export(batch) is SpanExportResult.SUCCESS
            except Exception as exc:  # noqa: BLE001 - telemetry breaks nothing, whatever an exporter does
                self._heard = self._desk.hearing.of(exc)
        self.outbox.settle(len(batch), taken=well)
        self._went(well=well)
        return well

    def end(self) -> None:
        """Close the exporter; what still waits is lost."""
        self.outbox.settle(self.outbox.clear(), taken=False)
        self.abandon()

    def abandon(self) -> None:
        """Close the exporter, whatever it is at."""
        if not self._is_abandoned:
            super().abandon()
            if self._exporter is not None:
                _close(self._exporter.shutdown)

    def forked(self) -> None:
        """Leave spans and connection to the parent."""
        self.outbox.clear()
        self._left_behind.append(self._exporter)  # to close it would disturb the parent's
        self._exporter = None


class MetricLine(_Line):
    """Collects metrics and exports them.

    Attributes:
        reader: for the meter provider.
        exported, dropped: collections that were taken, and that were not.
    """

    def __init__(
        self, make: Callable[[], MetricExporter], *, where: str, every: float, desk: Desk
    ) -> None:
        """Make the exporter and the reader."""
        super().__init__("metrics", where, every=every, desk=desk)
        self.exported = 0
        self.dropped = 0
        self._forwarding = _Forwarding(make)
        # Its own thread would have no bound at the end; without an interval it has none.
        self.reader = PeriodicExportingMetricReader(
            self._forwarding, export_interval_millis=math.inf
        )

    def full(self) -> bool:
        """Return that metrics wait for their time."""
        return False

    def send(self, *, all_of_it: bool) -> bool:  # noqa: ARG002 - there is one collection at a time
        """Collect and export once."""
        if self._is_abandoned:
            self.dropped += 1
            return False
        forwarding = self._forwarding
        forwarding.result = None
        with self._exporting():
            try:
                self.reader.collect()
            except Exception as exc:  # noqa: BLE001 - telemetry breaks nothing, whatever an exporter does
                self._heard = self._desk.hearing.of(exc)
                forwarding.result = MetricExportResult.FAILURE
        if forwarding.result is None:  # there is no metric yet
            return self._heard is None
        well = forwarding.result is MetricExportResult.SUCCESS
        if well:
            self.exported += 1
        else:
            self.dropped += 1
        self._went(well=well)
        return well

    def end(self) -> None:
        """Close the exporter."""
        self.abandon()

    def abandon(self) -> None:
        """Close the exporter, whatever it is at."""
        if not self._is_abandoned:
            super().abandon()
            _close(self._forwarding.close)

    def forked(self) -> None:
        """Leave the connection to the parent."""
        self._forwarding.forked()


class _Forwarding(MetricExporter):
    """Hands metrics to an exporter, which a forked child makes anew, and keeps the result: the reader does not tell it."""

    def __init__(self, make: Callable[[], MetricExporter]) -> None:
        exporter = make()
        super().__init__(  # as the reader reads them off an exporter
            preferred_temporality=exporter._preferred_temporality,  # noqa: SLF001 - it tells nobody else
            preferred_aggregation=exporter._preferred_aggregation,  # noqa: SLF001 - likewise
        )
        self.result: MetricExportResult | None = None
        self._make = make
        self._exporter: MetricExporter | None = exporter
        self._left_behind: list[object] = []

    def export(
        self,
        metrics_data: MetricsData,
        timeout_millis: float = 10_000,
        **options: object,
    ) -> MetricExportResult:
        self.result = MetricExportResult.FAILURE
        if self._exporter is None:
            self._exporter = self._make()
        self.result = self._exporter.export(metrics_data, timeout_millis=timeout_millis, **options)
        return self.result

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return self._exporter is None or self._exporter.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **options: object) -> None:
        del timeout_millis, options
        self.close()

    def close(self) -> None:
        exporter, self._exporter = self._exporter, None
        if exporter is not None:
            exporter.shutdown()

    def forked(self) -> None:
        self._left_behind.append(self._exporter)
        self._exporter = None


def _close(shutdown: Callable[[], None]) -> None:
    try:
        shutdown()
    except Exception as exc:  # noqa: BLE001 - it is over either way
        logger.debug("telemetry: an exporter failed to close: %s", type(exc).__name__)
