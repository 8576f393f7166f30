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

    from racer.telemetry._failures import Hearing
    from racer.telemetry._settings import Settings

__all__ = ("metric_exporter", "span_exporter")

_OTLP: Final = "opentelemetry.exporter.otlp.proto"
_MODULES: Final = {
    (Protocol.GRPC, Signal.TRACES): f"{_OTLP}.grpc.trace_exporter",
    (Protocol.GRPC, Signal.METRICS): f"{_OTLP}.grpc.metric_exporter",
    (Protocol.HTTP, Signal.TRACES): f"{_OTLP}.http.trace_exporter",
    (Protocol.HTTP, Signal.METRICS): f"{_OTLP}.http.metric_exporter",
}


def span_exporter(
    settings: Settings, hearing: Hearing, *, timeout: float | None = None
) -> SpanExporter:
    """Return what exports spans; it has made no connection yet.

    Args:
        settings: what is asked for.
        hearing: is told of every try that fails over HTTP.
        timeout: seconds for one export, retries included; `None` for what the environment says.

    Raises:
        ConfigError: the `otlp` extra is missing, or the exporter refuses what the environment says.
    """
    if settings.exporters[Signal.TRACES] is Exporter.CONSOLE:
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter  # noqa: PLC0415 - not loaded for nothing

        return ConsoleSpanExporter(out=sys.stderr)  # stdout is for what a program answers
    exporter: SpanExporter = _made(settings, Signal.TRACES, "OTLPSpanExporter", hearing, timeout)
    return exporter


def metric_exporter(
    settings: Settings, hearing: Hearing, *, timeout: float | None = None
) -> MetricExporter:
    """Return what exports metrics; all else as for `span_exporter`."""
    if settings.exporters[Signal.METRICS] is Exporter.CONSOLE:
        from opentelemetry.sdk.metrics.export import ConsoleMetricExporter  # noqa: PLC0415 - not loaded for nothing

        return ConsoleMetricExporter(out=sys.stderr)
    exporter: MetricExporter = _made(
        settings, Signal.METRICS, "OTLPMetricExporter", hearing, timeout
    )
    return exporter


def _made(
    settings: Settings, signal: Signal, name: str, hearing: Hearing, timeout: float | None
) -> Any:  # noqa: ANN401 - the two classes have nothing in common
    carrier = settings.carriers[signal]
    options: dict[str, Any] = {} if timeout is None else {"timeout": timeout}
    try:
        if carrier.protocol is Protocol.GRPC:
            # gRPC's core writes a line of its own to stderr at every failed connection.
            os.environ.setdefault("GRPC_VERBOSITY", "NONE")
            # The exporter itself does not know the standard's word "none".
            known = importlib.import_module("grpc").Compression
            is_packed = carrier.compression == "gzip"
            options["compression"] = known.Gzip if is_packed else known.NoCompression
        else:
            options["session"] = _session(hearing)
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
        words = hearing.of(exc)
        msg = f"the OTLP exporter for {signal.value} refuses what the OTEL_* variables say: {words}"
        raise ConfigError(msg) from exc


def _session(hearing: Hearing) -> Any:  # noqa: ANN401 - a class of requests, which the exporter brings
    """Return what sends over HTTP; the exporter says of a last try only that there will be no other."""
    session: Any = importlib.import_module("requests").Session

    class Told(session):  # type: ignore[misc]  # known when it is loaded
        def merge_environment_settings(
            self,
            url: Any,  # noqa: ANN401 - requests' own signature
            proxies: Any,  # noqa: ANN401 - requests' own signature
            stream: Any,  # noqa: ANN401 - requests' own signature
            verify: Any,  # noqa: ANN401 - requests' own signature
            cert: Any,  # noqa: ANN401 - requests' own signature
        ) -> Any:  # noqa: ANN401 - likewise
            # REQUESTS_CA_BUNDLE, which is for everybody, would override the certificate that is for the collector.
            own = self.verify if verify is None and self.verify is not True else verify
            return super().merge_environment_settings(url, proxies, stream, own, cert)

        def send(self, request: Any, **options: Any) -> Any:  # noqa: ANN401 - requests' own signature
            try:
                response = super().send(request, **options)
            except Exception as exc:
                hearing.tell(hearing.of(exc))
                raise
            if response.status_code >= 400:
                hearing.tell(hearing.status(str(response.status_code), str(response.reason)))
            return response

    return Told()
