"""Sessions in OpenTelemetry: a root span for each, linked with the attempt that began it, and two metrics (T3, T4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from racer.abc import SessionTrace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Span, SpanContext, Tracer

    from racer.abc import AttributeValue

    Shown = Callable[[Mapping[str, AttributeValue]], Mapping[str, AttributeValue]]

__all__ = ("Sessions",)


class Sessions:
    """Opens the traces of one dialer's sessions, and counts them.

    Args:
        tracer: for guests, which keeps to what may leave.
        meter: the dialer's.
        shown: gives those attributes that may leave.
    """

    def __init__(self, *, tracer: Tracer, meter: Meter, shown: Shown) -> None:
        """Make the instruments."""
        self._tracer = tracer
        self._shown = shown
        self._open = meter.create_up_down_counter(
            "racer.sessions.open", unit="{session}", description="Sessions that guests hold."
        )
        self._closed = meter.create_counter(
            "racer.sessions.closed", unit="{session}", description="Sessions that ended, by reason."
        )

    def open(self, transport: str, attributes: Mapping[str, AttributeValue]) -> SessionTrace:
        """Return the trace of a session that begins now."""
        cause = trace.get_current_span().get_span_context()
        span = self._tracer.start_span(
            "racer.session",
            # A root: the session outlives the dial that began it, and serves many.
            context=Context(),
            kind=SpanKind.CLIENT,
            attributes={"racer.transport": transport, **attributes},
            links=[Link(cause)] if cause.is_valid else [],
        )
        self._open.add(1, self._shown({"racer.transport": transport}))
        return _Traced(self, span, transport)

    def count_out(self, transport: str, reason: str) -> None:
        """Count a session that ended."""
        self._open.add(-1, self._shown({"racer.transport": transport}))
        self._closed.add(1, self._shown({"racer.transport": transport, "racer.reason": reason}))


class _Traced(SessionTrace):
    __slots__ = ("_ended", "_sessions", "_span", "_transport")

    def __init__(self, sessions: Sessions, span: Span, transport: str) -> None:
        self._sessions = sessions
        self._span = span
        self._transport = transport
        self._ended = False

    @property
    def context(self) -> SpanContext | None:
        context = self._span.get_span_context()
        return context if context.is_valid else None

    def event(self, name: str, attributes: Mapping[str, AttributeValue] | None = None) -> None:
        if not self._ended:
            self._span.add_event(name, attributes)

    def end(self, reason: str, *, failed: bool = False) -> None:
        if self._ended:
            return
        self._ended = True
        self._span.set_attribute("racer.reason", reason)
        if failed:
            self._span.set_status(Status(StatusCode.ERROR, reason))
        self._span.end()
        self._sessions.count_out(self._transport, reason)
