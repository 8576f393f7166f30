"""The SDK's providers, put together; the one module that loads the SDK."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider

from racer.telemetry._complaints import Complaints
from racer.telemetry._courier import Courier
from racer.telemetry._exporters import metric_exporter, span_exporter
from racer.telemetry._failures import Hearing
from racer.telemetry._lines import Desk, MetricLine, SpanLine
from racer.telemetry._outbox import Outbox
from racer.telemetry._settings import Exporter, Signal

if TYPE_CHECKING:
    from racer.telemetry._settings import Settings

__all__ = ("Made", "make")


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What `make` has made."""

    desk: Desk
    courier: Courier
    spans: SpanLine | None
    metrics: MetricLine | None
    tracer_provider: TracerProvider | None
    meter_provider: MeterProvider | None


def make(settings: Settings, *, service_name: str | None) -> Made:
    """Return providers whose spans and metrics go where `settings` say, once the courier is started.

    Raises:
        ConfigError: an exporter cannot be made.
    """
    secrets = [secret for carrier in settings.carriers.values() for secret in carrier.secrets]
    desk = Desk(hearing=Hearing(secrets), complaints=Complaints())
    spans, counted = _span_line(settings, desk), _metric_line(settings, desk)
    desk.hearing.attach()  # now that the exporters and their loggers are there
    courier = Courier([line for line in (spans, counted) if line is not None])
    resource = _resource(service_name)
    tracer_provider = meter_provider = None
    if spans is not None:
        spans.courier = courier
        # Its sampler and its limits are those of the environment.
        tracer_provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        tracer_provider.add_span_processor(spans)
    if counted is not None:
        meter_provider = MeterProvider([counted.reader], resource=resource, shutdown_on_exit=False)
    return Made(
        desk=desk,
        courier=courier,
        spans=spans,
        metrics=counted,
        tracer_provider=tracer_provider,
        meter_provider=meter_provider,
    )


def _span_line(settings: Settings, desk: Desk) -> SpanLine | None:
    if settings.exporters[Signal.TRACES] is Exporter.NONE:
        return None
    return SpanLine(
        partial(span_exporter, settings, desk.hearing),
        Outbox(capacity=settings.queue, batch=settings.batch),
        where=_where(settings, Signal.TRACES),
        every=settings.delay,
        desk=desk,
    )


def _metric_line(settings: Settings, desk: Desk) -> MetricLine | None:
    if settings.exporters[Signal.METRICS] is Exporter.NONE:
        return None
    return MetricLine(
        partial(metric_exporter, settings, desk.hearing),
        where=_where(settings, Signal.METRICS),
        every=settings.interval,
        desk=desk,
    )


def _where(settings: Settings, signal: Signal) -> str:
    carrier = settings.carriers.get(signal)
    return "the console" if carrier is None else f"the collector at {carrier.endpoint}"


def _resource(service_name: str | None) -> Resource:
    """Return who exports: what the environment says, else `service_name`."""
    named = Resource({SERVICE_NAME: service_name}) if service_name else Resource({})
    has_name = os.environ.get("OTEL_SERVICE_NAME") or SERVICE_NAME in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    created = Resource.create()
    return created if has_name else created.merge(named)
