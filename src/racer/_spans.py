"""What a race leaves in OpenTelemetry: one dial span, a child for every attempt, and the metrics (T1 to T6).

Only the API is used: without an SDK everything here is a no-op that costs microseconds. Times are the race's own, put on
a wall-clock anchor, so that every duration in a trace is exactly the report's.
"""

from __future__ import annotations

import contextvars
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.trace import INVALID_SPAN, SpanKind, Status, StatusCode, set_span_in_context

from racer._logs import log_error
from racer._redacting import RedactingSpan, RedactingTracer
from racer._report import Outcome, describe
from racer._version import __version__
from racer._words import one_line
from racer.abc import AttributeValue
from racer.errors import ErrorType

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, SpanContext, Tracer, TracerProvider

    from racer._report import Attempt, RaceReport
    from racer._target import Target

__all__ = ("AttemptTrace", "RaceTrace", "Redact", "Telemetry")

Redact = bool | Callable[[str, AttributeValue], AttributeValue | None]
"""`True` hides hosts and peers; a function is given every attribute's key and value and returns what may leave."""

logger = logging.getLogger("racer.telemetry")

# Seconds; SDK defaults are shaped for milliseconds.
_BUCKETS: Final = (
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    20.0,
    30.0,
    60.0,
    90.0,
)

# String attributes that can hold neither a host nor a peer.
_HARMLESS: Final = frozenset(
    {
        "racer.transport",
        "racer.outcome",
        "racer.attempt.stage",
        "racer.memory",
        "racer.winner",
        "racer.session.id",
        "racer.session.state",
        "racer.reason",
        "racer.proxy.protocol",
        "network.transport",
        "error.type",
    }
)

_FAILED: Final = (Outcome.CONNECT_FAILED, Outcome.TIMED_OUT)

_Attributes = Mapping[str, AttributeValue]


class Telemetry:
    """The tracer, the meter and the instruments of one dialer.

    Args:
        tracer_provider: `None` for the global one, also when it is set later.
        meter_provider: likewise.
        redact: what may leave (T5).
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        redact: Redact,
    ) -> None:
        """Make the instruments."""
        self.tracer = trace.get_tracer("racer", __version__, tracer_provider)
        self.meter = metrics.get_meter("racer", __version__, meter_provider)
        self.redact = redact
        self.dial_duration = self._histogram(
            "racer.dial.duration", "Time from the start of a race to its verdict."
        )
        self.attempt_duration = self._histogram(
            "racer.attempt.duration", "Time from an attempt's start to its outcome."
        )
        self.cleanup_duration = self._histogram(
            "racer.cleanup.duration", "Time from an outcome until nothing is left of it."
        )
        self.attempts_active = self.meter.create_up_down_counter(
            "racer.attempts.active", unit="{attempt}", description="Attempts under way."
        )

    @property
    def guest_tracer(self) -> Tracer:
        """The tracer for spans that guests make themselves: what may not leave leaves by none of them."""
        return RedactingTracer(self.tracer, self) if self.is_redacting else self.tracer

    def _histogram(self, name: str, description: str) -> metrics.Histogram:
        return self.meter.create_histogram(
            name, unit="s", description=description, explicit_bucket_boundaries_advisory=_BUCKETS
        )

    @property
    def is_redacting(self) -> bool:
        """Whether anything may not leave, so that errors are logged without their own words (T5)."""
        return self.redact is not False

    def begin(self, target: Target, now: float, *, generation: int = 1) -> RaceTrace:
        """Start the dial span, a child of the current one; `generation` says which configuration it goes by."""
        return RaceTrace(self, target, now, generation=generation)

    def end(self, span: Span, at: int) -> None:
        """End a span. What a program's own processor raises then must not cost it the connection it just won."""
        try:
            span.end(at)
        except Exception as exc:  # noqa: BLE001 - see above
            message = "a span processor failed at the end of a span"
            log_error(logger, logging.ERROR, message, error=exc, redacted=self.is_redacting)

    def cleaned(self, transport: str, seconds: float) -> None:
        """Record one cleanup that ended."""
        self.cleanup_duration.record(seconds, self.shown({"racer.transport": transport}))

    def shown(self, attributes: _Attributes) -> _Attributes:
        """Return those attributes that may leave, as they may."""
        if self.redact is False:
            return attributes
        return {
            key: out
            for key, value in attributes.items()
            if (out := self._redacted(key, value)) is not None
        }

    def _redacted(self, key: str, value: AttributeValue) -> AttributeValue | None:
        if callable(self.redact):
            try:
                return self.redact(key, value)
            except Exception as exc:  # noqa: BLE001 - a program's slip must not fail a dial
                # Nor let through what it was to hide: the error's own words may hold the value.
                log_error(
                    logger,
                    logging.ERROR,
                    "the redact function failed for %r, which is left out",
                    key,
                    error=exc,
                    redacted=True,
                )
                return None
        # Only numbers are known to hold no name: a text may, and so may a list.
        return value if isinstance(value, bool | int | float) or key in _HARMLESS else None

    def said(self, text: str) -> str | None:
        """Return what may leave of words about an error, `None` for nothing."""
        if self.redact is False:
            return text
        if self.redact is True:
            return None
        out = self._redacted("error.message", text)
        return None if out is None else str(out)

    def told(self, exc: BaseException, kind: ErrorType | None) -> str:
        """Return an error in words for a span or a log."""
        if self.redact is True:
            return f"{type(exc).__name__}: {kind}" if kind else type(exc).__name__
        return self.said(describe(exc)) or kind or type(exc).__name__


class RaceTrace:
    """The dial span of one race, and the clock of all its spans."""

    def __init__(
        self, telemetry: Telemetry, target: Target, now: float, *, generation: int
    ) -> None:
        """Start the span."""
        self.telemetry = telemetry
        self.started = time.time()  # noqa: TID251 - the one wall-clock anchor of a trace
        self._anchor = int(self.started * 1e9)
        self._began = now
        self._where = telemetry.shown({"server.address": target.host, "server.port": target.port})
        self._span = telemetry.tracer.start_span(
            "racer.dial",
            kind=SpanKind.INTERNAL,
            attributes={
                **self._where,
                **telemetry.shown({"racer.config.generation": generation}),
            },
            start_time=self._anchor,
            record_exception=False,
        )
        self.is_recording = self._span.is_recording()
        # Without an SDK, and below no span of anybody's, a child would be as void as this one.
        self._is_void = not self.is_recording and not self._span.get_span_context().is_valid
        self._context = None if self._is_void else set_span_in_context(self._span)

    def at(self, now: float) -> int:
        """Return a moment of the race in nanoseconds since 1970."""
        return self._anchor + round((now - self._began) * 1e9)

    def recalled(self, entrant: str | None) -> None:
        """Say which entrant the memory put first; `none` where there is a memory and it knew of none."""
        if self.is_recording:
            self._span.set_attributes(self.telemetry.shown({"racer.memory": entrant or "none"}))

    def attempt(
        self, transport: str, *, index: int, start_delay: float, now: float
    ) -> AttemptTrace:
        """Start the span of an attempt, and count the attempt as active."""
        telemetry = self.telemetry
        counted = telemetry.shown({"racer.transport": transport})
        if self._is_void:
            telemetry.attempts_active.add(1, counted)
            return AttemptTrace(self, INVALID_SPAN, transport, counted)
        span = telemetry.tracer.start_span(
            "racer.attempt",
            context=self._context,
            kind=SpanKind.CLIENT,
            attributes={
                **self._where,  # here too: a backend draws its map of services from client spans
                **telemetry.shown(
                    {
                        "racer.transport": transport,
                        "racer.attempt.index": index,
                        "racer.attempt.start_delay": round(float(start_delay), 6),
                    }
                ),
            },
            start_time=self.at(now),
            record_exception=False,
        )
        telemetry.attempts_active.add(1, counted)  # once nothing can keep it from being counted out
        return AttemptTrace(self, span, transport, counted)

    def end(self, report: RaceReport, now: float, *, aborted: str | None = None) -> None:
        """End the dial span, after those of its attempts.

        Args:
            report: the race.
            now: when its outcome was fixed.
            aborted: what ended it, where that was neither the race nor the caller.
        """
        telemetry = self.telemetry
        kind = _error_type_of_race(report)
        attributes = {"racer.outcome": report.outcome.value}
        if kind is not None:
            attributes["error.type"] = kind.value
        measured = (
            attributes if report.winner is None else attributes | {"racer.transport": report.winner}
        )
        telemetry.dial_duration.record(report.duration, telemetry.shown(measured))
        if self.is_recording:
            if report.winner is not None:
                attributes["racer.winner"] = report.winner
            self._span.set_attributes(telemetry.shown(attributes))
            self._describe(report, aborted)
        telemetry.end(self._span, self.at(now))

    def _describe(self, report: RaceReport, aborted: str | None) -> None:
        """Say who had no part in the race, and why it failed if it did."""
        shown = self.telemetry.shown
        for outcome in (Outcome.NOT_STARTED, Outcome.INELIGIBLE):
            names = [
                name
                for attempt in report.attempts
                if attempt.outcome is outcome
                for name in shown({"racer.transport": attempt.transport}).values()
            ]
            if names:
                self._span.set_attribute(f"racer.{outcome.value}", names)
        if report.winner is None:
            words = "; ".join(f"{a.transport}: {self._fate(a)}" for a in report.attempts)
            words = words or report.outcome.value
            self._span.set_status(
                Status(StatusCode.ERROR, f"{aborted}: {words}" if aborted else words)
            )

    def _fate(self, attempt: Attempt) -> str:
        if attempt.error is not None:
            return self.telemetry.told(attempt.error, attempt.error_type)
        reason = self.telemetry.said(one_line(attempt.reason)) if attempt.reason else None
        return reason or attempt.outcome.value


class AttemptTrace:
    """The span of one attempt."""

    def __init__(self, race: RaceTrace, span: Span, transport: str, counted: _Attributes) -> None:
        """Take a span that has started; `counted` is what the attempt is counted under while it is active."""
        self.span = span
        self._is_recording = span.is_recording()
        self._race = race
        self._telemetry = race.telemetry
        self._transport = transport
        self._counted = counted

    def context(self) -> contextvars.Context:
        """Return the caller's contextvars with this span as the current one (R21)."""
        context = contextvars.copy_context()
        if self.span.get_span_context().is_valid:
            # The copy is the attempt's alone and dies with it: nothing has to be detached.
            span = (
                RedactingSpan(self.span, self._telemetry)
                if self._telemetry.is_redacting
                else self.span
            )
            context.run(otel_context.attach, set_span_in_context(span))
        return context

    def peer(self, address: str, port: int | None, network: str) -> None:
        """Say who is really talked to."""
        if self._is_recording:
            attributes: dict[str, AttributeValue] = {
                "network.peer.address": address,
                "network.transport": network,
            }
            if port is not None:
                attributes["network.peer.port"] = port
            self.span.set_attributes(self._telemetry.shown(attributes))

    def session(self, *, reused: bool, link: SpanContext | None) -> None:
        """Say which session carries the stream (T3)."""
        if self._is_recording:
            self.span.set_attributes(self._telemetry.shown({"racer.session.reused": reused}))
            if link is not None:
                self.span.add_link(link)

    def event(self, name: str, attributes: _Attributes, now: float) -> None:
        """Put a moment on the span."""
        if self._is_recording:
            # A name that no exporter can encode would take a whole batch of spans with it.
            self.span.add_event(
                one_line(name), self._telemetry.shown(attributes), timestamp=self._race.at(now)
            )

    def end(self, attempt: Attempt, *, began: float) -> None:
        """End the span at the moment the outcome was fixed; the one place that does."""
        telemetry = self._telemetry
        failed = attempt.outcome in _FAILED
        finished = attempt.finished_at or 0.0
        attributes = {"racer.outcome": attempt.outcome.value}
        if failed and attempt.error_type is not None:
            attributes["error.type"] = attempt.error_type.value
        telemetry.attempts_active.add(-1, self._counted)
        telemetry.attempt_duration.record(
            finished - (attempt.started_at or 0.0),
            telemetry.shown({"racer.transport": self._transport, **attributes}),
        )
        if self._is_recording:
            if attempt.stage is not None:
                attributes["racer.attempt.stage"] = attempt.stage.value
            self.span.set_attributes(telemetry.shown(attributes))
            if failed:
                error = attempt.error
                words = (
                    telemetry.told(error, attempt.error_type) if error else attempt.outcome.value
                )
                self.span.set_status(Status(StatusCode.ERROR, words))
        telemetry.end(self.span, self._race.at(began + finished))


def _error_type_of_race(report: RaceReport) -> ErrorType | None:
    """Return why the race as a whole failed: the deadline, or what all attempts agree on."""
    if report.outcome is Outcome.TIMED_OUT:
        return ErrorType.TIMEOUT
    if report.outcome is not Outcome.CONNECT_FAILED:
        return None
    kinds = {attempt.error_type for attempt in report.attempts if attempt.outcome in _FAILED}
    return kinds.pop() if len(kinds) == 1 else ErrorType.OTHER
