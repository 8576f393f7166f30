"""What a program holds of its telemetry: providers, a flush with a bound, an end with a bound, and how it goes."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from opentelemetry import metrics, trace

from racer.telemetry import _check
from racer.telemetry._settings import Exporter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType, TracebackType

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from racer.telemetry._check import Answer
    from racer.telemetry._courier import Courier
    from racer.telemetry._lines import Desk, MetricLine, SpanLine
    from racer.telemetry._settings import Settings

__all__ = ("EXIT_TIMEOUT_S", "Handle", "Status")

EXIT_TIMEOUT_S: Final = 3.0
"""Seconds by which telemetry holds up the end of a program at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How exporting goes. It holds no header, and no user or password of an endpoint.

    Attributes:
        is_active: whether anything is exported.
        why_not: what keeps it from that, in words; `None` if nothing does.
        endpoints: where each signal goes to.
        spans_exported: spans that a collector has taken.
        spans_dropped: spans that were lost: there was no room, or nobody took them.
        spans_waiting: spans that will be exported.
        collections_exported: how often metrics were taken.
        collections_dropped: how often they were not. Counts and sums are in the next one again.
        is_failing: whether the last export failed.
        last_error: why the last export that failed did, in words; `None` if none did.
    """

    is_active: bool
    why_not: str | None = None
    endpoints: Mapping[str, str]
    spans_exported: int = 0
    spans_dropped: int = 0
    spans_waiting: int = 0
    collections_exported: int = 0
    collections_dropped: int = 0
    is_failing: bool = False
    last_error: str | None = None


class Handle:
    """The telemetry of a process, from `setup`. As a context manager it ends when the block does.

    Attributes:
        tracer_provider: where spans go that are to be exported; `None` if none are.
        meter_provider: likewise, for metrics.
    """

    def __init__(
        self,
        settings: Settings | None,
        *,
        why_not: str | None = None,
        service_name: str | None = None,
        exit_timeout: float = EXIT_TIMEOUT_S,
    ) -> None:
        """Make what `settings` ask for, and begin; use `setup`."""
        self.tracer_provider: TracerProvider | None = None
        self.meter_provider: MeterProvider | None = None
        self._settings = settings
        self._why_not = why_not
        self._exit_timeout = exit_timeout
        self._spans: SpanLine | None = None
        self._metrics: MetricLine | None = None
        self._courier: Courier | None = None
        self._desk: Desk
        self._is_over = False
        self._undo: list[Callable[[], object]] = []
        if settings is not None and why_not is None:
            self._make(settings, service_name)

    def _make(self, settings: Settings, service_name: str | None) -> None:
        # Not before it is asked for: the SDK takes a while to load.
        from racer.telemetry import _making  # noqa: PLC0415 - as said

        made = _making.make(settings, service_name=service_name)
        self._spans, self._metrics = made.spans, made.metrics
        self._desk = made.desk
        self.tracer_provider, self.meter_provider = made.tracer_provider, made.meter_provider
        self._courier = made.courier
        made.courier.start()

    @property
    def is_active(self) -> bool:
        """Whether anything is exported."""
        return self._courier is not None and not self._is_over

    def __enter__(self) -> Self:
        """Return the handle."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it."""
        self.shutdown()

    def flush(self, timeout: float = 5.0) -> bool:
        """Have everything exported that there is; blocks, so call it in a thread where a loop runs.

        Args:
            timeout: seconds it takes at most.

        Returns:
            Whether all of it was taken. There is nothing to take where nothing is exported.
        """
        return self._courier is None or self._courier.flush(timeout)

    def shutdown(self, timeout: float | None = None) -> bool:
        """Export what there is, and then nothing more; happens by itself when the program ends. May be called again.

        Args:
            timeout: seconds it takes at most, whatever the collector does; those of `setup` by default.

        Returns:
            Whether all of it was taken.
        """
        if self._courier is None or self._is_over:
            return True
        self._is_over = True
        self._desk.is_ending = True
        for undo in self._undo:
            undo()
        self._undo.clear()
        try:
            return self._courier.end(self._exit_timeout if timeout is None else timeout)
        finally:
            if self._courier.is_idle:
                self._desk.hearing.detach()

    def status(self) -> Status:
        """Return how it goes."""
        spans, counted, settings = self._spans, self._metrics, self._settings
        lines = [line for line in (spans, counted) if line is not None]
        failures = [line.failure for line in lines if line.failure is not None]
        failing = [line for line in lines if line.is_failing]
        last = (failing[0].failure if failing else None) or (failures[0] if failures else None)
        return Status(
            is_active=self.is_active,
            why_not="it was shut down" if self._is_over else self._why_not,
            endpoints={}
            if settings is None
            else {
                signal.value: settings.carriers[signal].endpoint
                if exporter is Exporter.OTLP
                else exporter.value
                for signal, exporter in settings.exporters.items()
            },
            spans_exported=0 if spans is None else spans.outbox.exported,
            spans_dropped=0 if spans is None else spans.outbox.lost + spans.outbox.overflowed,
            spans_waiting=0 if spans is None else spans.outbox.waiting,
            collections_exported=0 if counted is None else counted.exported,
            collections_dropped=0 if counted is None else counted.dropped,
            is_failing=bool(failing),
            last_error=None if last is None else str(last),
        )

    def check(self, timeout: float = 5.0) -> tuple[Answer, ...]:
        """Ask the collector whether it takes what this program would send; blocks. See `racer.telemetry.check`."""
        return () if self._settings is None else _check.check(self._settings, timeout=timeout)

    def install(self, *, signals: bool) -> None:
        """Become the process's telemetry, flush at its end and, with `signals`, at a SIGTERM."""
        if not self.is_active:
            return
        if self.tracer_provider is not None:
            trace.set_tracer_provider(self.tracer_provider)
        if self.meter_provider is not None:
            metrics.set_meter_provider(self.meter_provider)
        atexit.register(self.shutdown)
        self._undo.append(lambda: atexit.unregister(self.shutdown))
        if signals and threading.current_thread() is threading.main_thread():
            self._watch_sigterm()

    def _watch_sigterm(self) -> None:
        """Flush where a SIGTERM would end the process at once. Who handles it already, or later, is left alone."""
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return

        def ended(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of handlers
            signal.signal(number, signal.SIG_DFL)
            self.shutdown()
            os.kill(os.getpid(), number)  # so that whoever waits for the process sees what ended it

        def undo() -> None:
            if signal.getsignal(signal.SIGTERM) is ended and (
                threading.current_thread() is threading.main_thread()
            ):
                signal.signal(signal.SIGTERM, signal.SIG_DFL)

        signal.signal(signal.SIGTERM, ended)
        self._undo.append(undo)
