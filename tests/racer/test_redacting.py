"""Spans that guests make themselves tell no more than racer's own where hosts may not leave (T5)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import Link, SpanKind, StatusCode

import racer
from racer.testing import wins
from tests.racer.guests import Hosted
from tests.racer.tracing import Recorder

if TYPE_CHECKING:
    from racer._spans import Redact
    from racer.abc import Progress

pytestmark = pytest.mark.virtual_time

SECRET = "secret.example"
PEER = "203.0.113.77"


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def dialer_of(recorder: Recorder, guest: Hosted, *, redact: Redact = True) -> racer.Dialer:
    return racer.Dialer([guest], tracer_provider=recorder.tracers, redact=redact)


class Talkative(Hosted):
    """Makes spans of its own wherever it can, and says too much in each."""

    def __init__(self, **told: Any) -> None:
        super().__init__("a", wins(0.5), driver=Talkative.drive, **told)

    @staticmethod
    async def drive(guest: Hosted) -> None:
        assert guest.host is not None
        session = guest.host.tracer.start_span(
            "session", kind=SpanKind.CLIENT, attributes={"server.address": SECRET, "streams": 2}
        )
        session.set_attributes({"peers": [PEER, PEER], "racer.reason": "idle"})
        session.set_attribute("peer", PEER)
        session.add_event("lost", {"peer": PEER, "after": 1.5})
        session.set_status(StatusCode.ERROR, f"{PEER} is gone")
        session.update_name("soar.session")
        session.end()

    async def connect(self, target: Any, progress: Progress) -> Any:
        current = trace.get_current_span()
        current.set_attribute("dns.question.name", target.host)
        current.record_exception(OSError(PEER), {"peer": PEER})
        progress.event("answers", {"addresses": [PEER]})  # type: ignore[dict-item]
        assert self.host is not None
        link = Link(current.get_span_context(), {"peer": PEER, "count": 1})
        with (
            contextlib.suppress(ValueError),
            self.host.tracer.start_as_current_span("lookup", links=[link]) as lookup,
        ):
            assert trace.get_current_span() is lookup
            assert lookup.is_recording()
            lookup.add_link(current.get_span_context(), {"peer": PEER})
            with self.host.tracer.start_span("query", attributes={"name": target.host}):
                pass
            raise ValueError(target.host)
        return await super().connect(target, progress)


async def test_spans_that_guests_make_tell_no_more_than_racers_own(recorder: Recorder) -> None:
    async with dialer_of(recorder, Talkative()) as dialer:
        await (await dialer.dial(SECRET, 80)).aclose()
    assert not any(word in recorder.text() for word in (SECRET, PEER))
    (session,) = recorder.named("soar.session")
    assert session.kind is SpanKind.CLIENT
    assert dict(session.attributes or {}) == {"streams": 2, "racer.reason": "idle"}
    assert (session.status.status_code, session.status.description) == (StatusCode.ERROR, None)
    assert [(event.name, dict(event.attributes or {})) for event in session.events] == [
        ("lost", {"after": 1.5})
    ]
    (lookup,), (attempt,) = recorder.named("lookup"), recorder.named("racer.attempt")
    assert (lookup.status.status_code, lookup.status.description) == (StatusCode.ERROR, None)
    assert [dict(event.attributes or {}) for event in lookup.events] == [
        {"exception.type": "ValueError", "exception.escaped": False}
    ]
    assert [dict(link.attributes or {}) for link in lookup.links] == [{"count": 1}, {}]
    (query,) = recorder.named("query")
    assert lookup.parent == attempt.context
    assert query.parent == lookup.context
    assert recorder.open == 0


async def test_a_function_decides_on_what_guests_say_too(recorder: Recorder) -> None:
    def hide(key: str, value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(SECRET, "[host]").replace(PEER, "[peer]")
        return None if isinstance(value, list) else value

    async with dialer_of(recorder, Talkative(), redact=hide) as dialer:
        await (await dialer.dial(SECRET, 80)).aclose()
    assert not any(word in recorder.text() for word in (SECRET, PEER))
    (session,), (lookup,) = recorder.named("soar.session"), recorder.named("lookup")
    assert session.status.description == "[peer] is gone"
    assert (session.attributes or {})["peer"] == "[peer]"
    assert (lookup.events[0].attributes or {})["exception.message"] == "[host]"
    assert lookup.status.description == "ValueError: [host]"


async def test_without_redact_guests_have_the_programs_own_tracer(recorder: Recorder) -> None:
    async with dialer_of(recorder, Talkative(), redact=False) as dialer:
        await (await dialer.dial(SECRET, 80)).aclose()
    (session,) = recorder.named("soar.session")
    assert session.status.description == f"{PEER} is gone"
