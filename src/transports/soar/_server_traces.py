"""A server as OpenTelemetry sees it: a span for each session and stream, and counts that are read, not pushed (S25).

Only the API is used: without an SDK all of this costs next to nothing. No packet costs anything either way: the core
counts, and instruments read the counts when somebody collects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import Observation
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

from transports.soar._tunnels import Outcome
from transports.soar.core.crypto.notices import EndCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from opentelemetry.metrics import CallbackOptions, Meter
    from opentelemetry.trace import Span, Tracer

    from transports.soar._tunnels import Tunnel
    from transports.soar.core.server.events import SessionEnded, SessionStarted
    from transports.soar.core.server.status import ServerCounts

__all__ = ("ServerTraces",)

_NAME: Final = "racer.soar.server"
_PROPER_ENDS: Final = frozenset({EndCode.UNKNOWN, EndCode.CLOSED, EndCode.SHUTDOWN})
_FAULTS: Final = frozenset(
    {Outcome.REFUSED, Outcome.RESET_BY_TARGET, Outcome.STUCK, Outcome.FAILED}
)
# Of each: name, unit, what tells its parts apart, and where the counts are.
_COUNTERS: Final = (
    ("sessions.ended", "{session}", "racer.reason", "ends"),
    ("handshakes", "{handshake}", "racer.result", "handshakes"),
    ("questions", "{question}", "racer.kind", "questions"),
    ("answers", "{answer}", "racer.kind", "answers"),
)


class ServerTraces:
    """Spans and metrics of one server.

    Args:
        tracer: the global provider's by default.
        meter: likewise.
        shows_targets: whether hosts, and the ids of grants, may leave; ports, numbers and reasons always do.
        count: returns the core's counts, or `None` once the server is closed; is called from any thread.
    """

    def __init__(
        self,
        *,
        tracer: Tracer | None,
        meter: Meter | None,
        shows_targets: bool,
        count: Callable[[], ServerCounts | None],
    ) -> None:
        """Make the instruments."""
        self._tracer = tracer or trace.get_tracer(_NAME)
        self._shows_targets = shows_targets
        self._count = count
        self._sessions: dict[bytes, Span] = {}
        self._streams: dict[Tunnel, Span] = {}
        meter = meter or metrics.get_meter(_NAME)
        self._stream_count = meter.create_counter(
            "racer.soar.server.streams",
            unit="{stream}",
            description="Streams that ended, by outcome.",
        )
        self._octets = meter.create_counter(
            "racer.soar.server.octets",
            unit="By",
            description="Octets of streams that ended, by direction.",
        )
        meter.create_observable_up_down_counter(
            "racer.soar.server.sessions",
            [self._observe(lambda counts: [Observation(counts.sessions)])],
            unit="{session}",
            description="Sessions that are there.",
        )
        meter.create_observable_up_down_counter(
            "racer.soar.server.memory",
            [self._observe(lambda counts: [Observation(counts.octets)])],
            unit="By",
            description="Octets that sessions hold.",
        )
        for name, unit, key, field in _COUNTERS:
            meter.create_observable_counter(
                f"racer.soar.server.{name}",
                [self._observe(_by(key, field))],
                unit=unit,
                description=f"Since the start, by {key.removeprefix('racer.')}.",
            )

    def _observe(
        self, read: Callable[[ServerCounts], list[Observation]]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(options: CallbackOptions) -> Iterable[Observation]:  # noqa: ARG001 - the API's signature
            counts = self._count()
            return [] if counts is None else read(counts)

        return observe

    # --- sessions -----------------------------------------------------------------------------

    def session_started(self, event: SessionStarted) -> None:
        """Begin a span: a root, since the client's traces are its own."""
        span = self._tracer.start_span(
            "racer.soar.session",
            context=Context(),
            kind=SpanKind.SERVER,
            attributes={"racer.session.id": event.sid.hex()},
        )
        if self._shows_targets and event.grant_id is not None:
            span.set_attribute("racer.soar.grant", event.grant_id.hex())
        self._sessions[event.sid] = span

    def session_ended(self, event: SessionEnded) -> None:
        """End it, with the reason; UNKNOWN is silence."""
        span = self._sessions.pop(event.sid, None)
        if span is None:
            return
        reason = "silent" if event.code is EndCode.UNKNOWN else event.code.name.lower()
        span.set_attribute("racer.reason", reason)
        if event.code not in _PROPER_ENDS:
            span.set_attribute("error.type", reason)
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    # --- streams ------------------------------------------------------------------------------

    def stream_opened(self, tunnel: Tunnel) -> None:
        """Begin a span, a child of its session's."""
        stream = tunnel.stream
        parent = self._sessions.get(stream.sid)
        span = self._tracer.start_span(
            "racer.soar.stream",
            context=Context() if parent is None else set_span_in_context(parent, Context()),
            kind=SpanKind.CLIENT,
            attributes={"racer.soar.stream": stream.number, "server.port": stream.target.port},
        )
        if self._shows_targets:
            span.set_attribute("server.address", str(stream.target.host))
        self._streams[tunnel] = span

    def stream_ended(self, tunnel: Tunnel) -> None:
        """End it, with how it went."""
        outcome = tunnel.outcome
        self._stream_count.add(1, {"racer.outcome": outcome.value, **_refusal(tunnel)})
        for direction, octets in (
            ("to_target", tunnel.to_target),
            ("from_target", tunnel.from_target),
        ):
            self._octets.add(octets, {"racer.direction": direction})
        span = self._streams.pop(tunnel, None)
        if span is None:
            return
        span.set_attribute("racer.outcome", outcome.value)
        span.set_attribute("racer.octets.to_target", tunnel.to_target)
        span.set_attribute("racer.octets.from_target", tunnel.from_target)
        if outcome in _FAULTS:
            refusal = tunnel.refusal
            kind = outcome.value if refusal is None else refusal.name.lower()
            span.set_attribute("error.type", kind)
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def close(self) -> None:
        """End what is left: the server has."""
        for tunnel in list(self._streams):
            self.stream_ended(tunnel)
        for span in self._sessions.values():
            span.set_attribute("racer.reason", "stopped")
            span.end()
        self._sessions.clear()


def _refusal(tunnel: Tunnel) -> dict[str, str]:
    return {} if tunnel.refusal is None else {"error.type": tunnel.refusal.name.lower()}


def _by(key: str, field: str) -> Callable[[ServerCounts], list[Observation]]:
    def observe(counts: ServerCounts) -> list[Observation]:
        parts: Mapping[str, int] = getattr(counts, field)
        return [Observation(count, {key: part}) for part, count in parts.items()]

    return observe
