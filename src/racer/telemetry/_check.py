"""Whether a collector takes what would be sent to it, in words that say what to try if it does not."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from racer.telemetry._exporters import metric_exporter, span_exporter
from racer.telemetry._failures import Failure, Hearing, Kind
from racer.telemetry._settings import Protocol, Signal

if TYPE_CHECKING:
    from racer.telemetry._settings import Carrier, Settings

__all__ = ("Answer", "check")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a collector made of an empty export.

    Attributes:
        signal: `traces` or `metrics`.
        endpoint: where it was sent to.
        protocol: how: `grpc` or `http/protobuf`.
        is_taken: whether it was taken.
        seconds: how long that took.
        words: how it went, in a sentence.
        advice: what to try, in a sentence; `None` where nothing is wrong.
    """

    signal: str
    endpoint: str
    protocol: str
    is_taken: bool
    seconds: float
    words: str
    advice: str | None = None


def check(settings: Settings, *, timeout: float) -> tuple[Answer, ...]:
    """Export nothing, over connections of its own, and return what came of it for each signal that goes out over OTLP."""
    return tuple(
        _ask(settings, signal, carrier, timeout) for signal, carrier in settings.carriers.items()
    )


def _ask(settings: Settings, signal: Signal, carrier: Carrier, timeout: float) -> Answer:
    heard: list[Failure] = []
    hearing = Hearing(carrier.secrets)
    began = time.monotonic()
    try:
        if signal is Signal.TRACES:
            spans = span_exporter(settings, hearing, timeout=timeout)
            hearing.attach()
            with hearing.listening(heard.append):
                result = spans.export([]).name
            spans.shutdown()
        else:
            from opentelemetry.sdk.metrics.export import MetricsData  # noqa: PLC0415 - the SDK is loaded when asked for

            counts = metric_exporter(settings, hearing, timeout=timeout)
            hearing.attach()
            with hearing.listening(heard.append):
                result = counts.export(MetricsData(resource_metrics=[])).name
            counts.shutdown()
    finally:
        hearing.detach()
    seconds = time.monotonic() - began
    failure = None if result == "SUCCESS" else _telling(heard)
    return Answer(
        signal=signal.value,
        endpoint=carrier.endpoint,
        protocol=carrier.protocol.value,
        is_taken=failure is None,
        seconds=seconds,
        words=f"the collector at {carrier.endpoint} {_said(failure, seconds)}",
        advice=None if failure is None else _advice(failure, carrier, signal),
    )


def _telling(heard: list[Failure]) -> Failure:
    """Return the failure that says most: one with a status before one with words, the last before the first."""
    ranked = sorted(heard, key=lambda failure: (bool(failure.code), bool(failure.words)))
    return ranked[-1] if ranked else Failure(kind=Kind.SLOW)


def _said(failure: Failure | None, seconds: float) -> str:
    if failure is None:
        return f"takes what it is sent (answered in {seconds * 1000:.0f} ms)"
    match failure.kind:
        case Kind.SLOW:
            return f"gave no answer within {seconds:.1f} s"
        case Kind.CRASHED | Kind.OVERFLOWED:
            return f"could not be asked: {failure}"
        case Kind.UNREACHABLE | Kind.REFUSED | Kind.UNTRUSTED:
            return str(failure)


def _advice(failure: Failure, carrier: Carrier, signal: Signal) -> str:
    other = (
        "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf and port 4318"
        if carrier.protocol is Protocol.GRPC
        else "OTEL_EXPORTER_OTLP_PROTOCOL=grpc and port 4317"
    )
    match failure.kind:
        case Kind.UNTRUSTED:
            return (
                "name the collector as its certificate does, or the authority that signed it in"
                " OTEL_EXPORTER_OTLP_CERTIFICATE"
            )
        case Kind.SLOW | Kind.UNREACHABLE:
            return f"see that it runs, and that nothing between keeps you from it; for the other protocol set {other}"
        case Kind.REFUSED if failure.code in {"401", "403", "UNAUTHENTICATED", "PERMISSION_DENIED"}:
            return "put what it wants of a client into OTEL_EXPORTER_OTLP_HEADERS, as name=value"
        case Kind.REFUSED if failure.code in {"404", "405", "415", "UNIMPLEMENTED", "UNKNOWN"}:
            return (
                f"that is no collector, or none for {signal.value} (then set OTEL_{signal.name}_EXPORTER=none),"
                f" or one for the other protocol: for that set {other}"
            )
        case Kind.REFUSED:
            return "see its own log; until it answers, spans are kept for a while and then dropped"
        case Kind.CRASHED | Kind.OVERFLOWED:
            return (
                "see that the address is that of a collector, and https:// only where it speaks TLS"
            )
