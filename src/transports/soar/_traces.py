"""Sessions as OpenTelemetry sees them: a span for each, whose events tell its life (T3, S16)."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Final

from transports.soar.core.client.states import FINAL, SessionState

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

    from racer.abc import Host, SessionTrace
    from transports.soar.core.client.events import HandshakeEnded, SessionChanged

__all__ = ("SessionTraces",)

_PROPER_ENDS: Final = frozenset({SessionState.RETIRED, SessionState.CLOSED})


class SessionTraces:
    """The spans of the sessions that are not over.

    Args:
        name: the transport's.
        host: opens them.
    """

    def __init__(self, name: str, host: Host) -> None:
        """Begin with none."""
        self._name = name
        self._host = host
        self._traces: dict[int, SessionTrace] = {}

    def numbers(self) -> frozenset[int]:
        """Return the numbers of the sessions that are not over."""
        return frozenset(self._traces)

    def link(self, session: int) -> SpanContext | None:
        """Return the span to link an attempt with that rides on a session."""
        trace = self._traces.get(session)
        return None if trace is None else trace.context

    def begin(self, session: int, cause: contextvars.Context | None) -> None:
        """Begin a session's span, linked with the attempt that runs in `cause`; a RETRY is an event of the same span."""
        if (trace := self._traces.get(session)) is not None:
            trace.event("racer.session.retry")
            return
        context = contextvars.Context() if cause is None else cause
        self._traces[session] = context.run(self._host.open_session, self._name)

    def handshaken(self, event: HandshakeEnded) -> None:
        """Note a welcome, and what it took."""
        if (trace := self._traces.get(event.session)) is not None:
            trace.event(
                "racer.session.handshaken",
                {
                    "racer.seconds": event.seconds,
                    "racer.waves": event.waves,
                    "racer.form": event.form,
                },
            )

    def changed(self, event: SessionChanged) -> None:
        """Note a change of state; the last one ends the span."""
        trace = self._traces.get(event.session)
        if trace is None:
            return
        state = event.after
        trace.event(f"racer.session.{state.value}", {"racer.reason": event.reason})
        if state in FINAL:
            del self._traces[event.session]
            trace.end(state.value, failed=state not in _PROPER_ENDS)
