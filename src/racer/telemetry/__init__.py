"""OpenTelemetry for programs: what races tell goes to a collector, as the standard OTEL_* variables say (T7).

The library itself sets nothing up and reads none of these variables. A program that has no OpenTelemetry of its own calls
`setup` once, at its start:

    with racer.telemetry.setup(service_name="my-program"):
        anyio.run(main)

Spans wait in memory, and one thread exports them: a collector that is down, hangs or refuses delays no dial, costs one log
line a minute for each kind of failure, and holds up the program's end by 3 s at most. What is read:

* `OTEL_SDK_DISABLED`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`;
* `OTEL_EXPORTER_OTLP_ENDPOINT`, `_PROTOCOL`, `_HEADERS`, `_TIMEOUT`, `_COMPRESSION`, `_CERTIFICATE`, `_CLIENT_KEY`,
  `_CLIENT_CERTIFICATE`, `_INSECURE`, and those of one signal, such as `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`;
* `OTEL_TRACES_EXPORTER`, `OTEL_METRICS_EXPORTER`: `otlp`, `console` (on stderr) or `none`;
* `OTEL_TRACES_SAMPLER`, `OTEL_TRACES_SAMPLER_ARG`, `OTEL_BSP_*`, `OTEL_METRIC_EXPORT_INTERVAL`, and whatever else the
  SDK's providers and exporters read by themselves.

OTLP needs the `otlp` extra. docs/traces.md has recipes for collectors.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Final

from opentelemetry import metrics, trace

from racer.telemetry import _check
from racer.telemetry._check import Answer
from racer.telemetry._handle import EXIT_TIMEOUT_S, Handle, Status
from racer.telemetry._settings import is_asked, read

__all__ = ("Answer", "Handle", "Status", "check", "setup", "setup_if_asked")

_SERVICE: Final = "racer"

logger = logging.getLogger("racer.telemetry")

_lock = threading.Lock()
_installed: Handle | None = None


def setup(
    *,
    service_name: str | None = None,
    exit_timeout: float = EXIT_TIMEOUT_S,
    signals: bool = True,
    install: bool = True,
) -> Handle:
    """Return the process's telemetry, made as the OTEL_* variables say and begun; a second call returns the same.

    Whatever the program has set up itself stays: then nothing is done, one line is logged, and the handle is not active.
    A process forked later exports for itself, over connections of its own; one that ends by `os._exit`, as those of
    `multiprocessing` do, has to flush.

    Args:
        service_name: what the program is called, where `OTEL_SERVICE_NAME` says nothing else; `racer` by default.
        exit_timeout: seconds by which the end of the program may be held up.
        signals: flush at a SIGTERM that nothing else handles, too; only from the main thread.
        install: become the process's providers. Without, hand `tracer_provider` and `meter_provider` to a dialer, and
            call `shutdown` at the end.

    Raises:
        ConfigError: a variable says what cannot be, or the `otlp` extra is missing; names the variable.
    """
    global _installed  # noqa: PLW0603 - a process has one
    with _lock:
        if install and _installed is not None:
            return _installed
        settings = read(os.environ)
        why_not = "OTEL_SDK_DISABLED says so" if settings.is_disabled else None
        if install and why_not is None and (taken := _taken()):
            why_not = f"the program has a {taken} provider of its own"
            logger.warning("telemetry: not set up: %s", why_not)
        handle = Handle(
            settings,
            why_not=why_not,
            service_name=service_name or _SERVICE,
            exit_timeout=exit_timeout,
        )
        if install:
            handle.install(signals=signals)
            if handle.is_active:
                _installed = handle
        return handle


def setup_if_asked(*, service_name: str | None = None) -> Handle:
    """Return `setup()` if the environment names an endpoint or an exporter; else a handle that does nothing.

    That costs next to nothing: the SDK is not even loaded.

    Raises:
        ConfigError: as `setup` does.
    """
    if not is_asked(os.environ):
        return Handle(None, why_not="no OTEL_EXPORTER_OTLP_ENDPOINT is set")
    return setup(service_name=service_name)


def check(timeout: float = 5.0) -> tuple[Answer, ...]:
    """Return whether the collector that the environment names takes traces and metrics, in words, for each of them.

    It is sent exports with nothing in them. Where the environment asks for no export there is no answer. Blocks: call it in a thread where a loop runs.

    Args:
        timeout: seconds for each of them.

    Raises:
        ConfigError: as `setup` does.
    """
    return _check.check(read(os.environ), timeout=timeout) if is_asked(os.environ) else ()


def _taken() -> str | None:
    """Return what the program has set up itself, if anything."""
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return "tracer"
    # What stands for no provider yet has no public name.
    return None if type(metrics.get_meter_provider()).__name__ == "_ProxyMeterProvider" else "meter"
