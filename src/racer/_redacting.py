"""A tracer for guests of a dialer from which hosts may not leave: spans of their own tell no more than racer's (T5)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, use_span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opentelemetry.context import Context
    from opentelemetry.trace import SpanContext

__all__ = ("RedactingSpan", "RedactingTracer", "Rules")


class Rules(Protocol):
    """What may leave."""

    def shown(self, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return those attributes that may leave, as they may."""

    def said(self, text: str) -> str | None:
        """Return what may leave of words about an error, `None` for nothing."""


class RedactingTracer(Tracer):
    """Starts spans that keep to the rules; times, parents and samplers are those of the tracer within."""

    def __init__(self, tracer: Tracer, rules: Rules) -> None:
        """Wrap `tracer`."""
        self._tracer = tracer
        self._rules = rules

    def start_span(  # noqa: PLR0917 - OpenTelemetry's own signature
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Mapping[str, Any] | None = None,
        links: Sequence[Link] | None = None,
        start_time: int | None = None,
        record_exception: bool = True,  # noqa: FBT001, FBT002 - OpenTelemetry's own signature
        set_status_on_exception: bool = True,  # noqa: FBT001, FBT002 - likewise
    ) -> Span:
        """Start a span; as a context manager it ends, and tells nothing of errors."""
        del record_exception, set_status_on_exception
        span = self._tracer.start_span(
            name,
            context,
            kind,
            self._rules.shown(attributes or {}),
            [Link(link.context, self._rules.shown(link.attributes or {})) for link in links or ()],
            start_time,
            record_exception=False,
            set_status_on_exception=False,
        )
        return RedactingSpan(span, self._rules)

    @contextmanager
    def start_as_current_span(  # type: ignore[override]  # noqa: PLR0917 - the API's own signature, but for its return
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Mapping[str, Any] | None = None,
        links: Sequence[Link] | None = None,
        start_time: int | None = None,
        record_exception: bool = True,  # noqa: FBT001, FBT002 - OpenTelemetry's own signature
        set_status_on_exception: bool = True,  # noqa: FBT001, FBT002 - likewise
        end_on_exit: bool = True,  # noqa: FBT001, FBT002 - likewise
    ) -> Iterator[Span]:
        """Start a span and have it current while the context lasts."""
        span = self.start_span(name, context, kind, attributes, links, start_time)
        with use_span(
            span,
            end_on_exit=end_on_exit,
            record_exception=record_exception,
            set_status_on_exception=set_status_on_exception,
        ):
            yield span


class RedactingSpan(Span):
    """A span that keeps to the rules."""

    def __init__(self, span: Span, rules: Rules) -> None:
        """Wrap `span`."""
        self._span = span
        self._rules = rules

    def end(self, end_time: int | None = None) -> None:
        """End it."""
        self._span.end(end_time)

    def get_span_context(self) -> SpanContext:
        """Return its identity."""
        return self._span.get_span_context()

    def is_recording(self) -> bool:
        """Return whether anybody will see it."""
        return self._span.is_recording()

    def update_name(self, name: str) -> None:
        """Rename it; hosts and peers belong into attributes, never into the name."""
        self._span.update_name(name)

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Set those attributes that may leave."""
        self._span.set_attributes(self._rules.shown(attributes))

    def set_attribute(self, key: str, value: Any) -> None:  # noqa: ANN401 - OpenTelemetry's own signature
        """Set an attribute if it may leave."""
        self.set_attributes({key: value})

    def add_event(
        self, name: str, attributes: Mapping[str, Any] | None = None, timestamp: int | None = None
    ) -> None:
        """Add an event with those attributes that may leave."""
        self._span.add_event(name, self._rules.shown(attributes or {}), timestamp)

    def add_link(self, context: SpanContext, attributes: Mapping[str, Any] | None = None) -> None:
        """Add a link with those attributes that may leave."""
        self._span.add_link(context, self._rules.shown(attributes or {}))

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Set the status, with those words that may leave."""
        code, words = (
            (status.status_code, status.description)
            if isinstance(status, Status)
            else (status, description)
        )
        said = None if words is None or code is not StatusCode.ERROR else self._rules.said(words)
        self._span.set_status(Status(code, said))

    def record_exception(
        self,
        exception: BaseException,
        attributes: Mapping[str, Any] | None = None,
        timestamp: int | None = None,
        escaped: bool = False,  # noqa: FBT001, FBT002 - OpenTelemetry's own signature
    ) -> None:
        """Add an event that names the exception's type, and those of its words that may leave; no traceback."""
        told: dict[str, Any] = {**self._rules.shown(attributes or {})}
        told["exception.type"] = type(exception).__qualname__
        told["exception.escaped"] = escaped
        if (said := self._rules.said(str(exception))) is not None:
            told["exception.message"] = said
        self._span.add_event("exception", told, timestamp)
