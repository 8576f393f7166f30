"""The SDK's own exporters, made as the environment says."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from racer.errors import ConfigError
from racer.telemetry._settings import Exporter, Protocol, Signal

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter
    from opentelemetry.sdk.trace.export import SpanExporter

    from racer.telemetry._settings import Settings

__all__ = ("metric_exporter", "span_exporter")

_OTLP: Final = "opentelemetry.exporter.otlp.proto"
_MODULES: Final = {
    (Protocol.GRPC, Signal.TRACES): f"{_OTLP}.grpc.trace_exporter",
    (Protocol.GRPC, Signal.METRICS): f"{_OTLP}.grpc.metric_exporter",
    (Protocol.HTTP, Signal.TRACES): f"{_OTLP}.http.trace_exporter",
    (Protocol.HTTP, Signal.METRICS): f"{_OTLP}.http.metric_exporter",
}


def span_exporter(settings: Settings, *, timeout: float | None = None) -> SpanExporter:
    """Return what exports spans; it has made no connection yet.

    Args:
        settings: what is asked for.
        timeout: seconds for one export, retries included; `None` for what the environment says.

    Raises:
        ConfigError: the `otlp` extra is missing, or the exporter refuses what the environment says.
    """
    if settings.exporters[Signal.TRACES] is Exporter.CONSOLE:
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter  # noqa: PLC0415 - not loaded for nothing

        return ConsoleSpanExporter(out=sys.stderr)  # stdout is for what a program answers
    exporter: SpanExporter = _made(settings, Signal.TRACES, "OTLPSpanExporter", timeout)
    return exporter


def metric_exporter(settings: Settings, *, timeout: float | None = None) -> MetricExporter:
    """Return what exports metrics; all else as for `span_exporter`."""
    if settings.exporters[Signal.METRICS] is Exporter.CONSOLE:
        from opentelemetry.sdk.metrics.export import ConsoleMetricExporter  # noqa: PLC0415 - not loaded for nothing

        return ConsoleMetricExporter(out=sys.stderr)
    exporter: MetricExporter = _made(settings, Signal.METRICS, "OTLPMetricExporter", timeout)
    return exporter


def _made(settings: Settings, signal: Signal, name: str, timeout: float | None) -> Any:  # noqa: ANN401 - two classes with nothing in common
    carrier = settings.carriers[signal]
    options: dict[str, Any] = {} if timeout is None else {"timeout": timeout}
    try:
        if carrier.protocol is Protocol.GRPC:
            # gRPC's core writes a line of its own to stderr at every failed connection.
            os.environ.setdefault("GRPC_VERBOSITY", "NONE")
            # The exporter itself does not know the standard's word "none".
            known = importlib.import_module("grpc").Compression
            options["compression"] = (
                known.Gzip if carrier.compression == "gzip" else known.NoCompression
            )
        make = getattr(importlib.import_module(_MODULES[carrier.protocol, signal]), name)
    except ImportError as exc:
        msg = (
            f"OTLP over {carrier.protocol.value} is asked for, and cannot be spoken: {exc};"
            " install racer-dialer[otlp], or set OTEL_SDK_DISABLED=true"
        )
        raise ConfigError(msg) from exc
    try:
        return make(**options)
    except Exception as exc:
        msg = f"the OTLP exporter for {signal.value} refuses what the OTEL_* variables say: {type(exc).__name__}: {exc}"
        raise ConfigError(msg) from exc
