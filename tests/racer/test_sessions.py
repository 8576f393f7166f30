"""A guest's sessions in OpenTelemetry: roots of their own, linked both ways, counted open and closed (T3, T4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from opentelemetry.trace import SpanKind, StatusCode

import racer
from racer.abc import Host, Progress, SessionTrace, Target, Transport
from racer.testing import MemoryStream, stream_pair
from tests.racer.tracing import Point, Recorder

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

pytestmark = pytest.mark.virtual_time

HOST = "192.0.2.1"


class Tunnel(Transport):
    """Keeps one session for all its streams, as Soar will."""

    name = "tunnel"

    def __init__(self) -> None:
        self.session: SessionTrace | None = None
        self.host: Host | None = None

    async def start(self, host: Host) -> None:
        self.host = host

    async def connect(self, target: Target, progress: Progress) -> MemoryStream:
        reused = self.session is not None
        if self.session is None:
            assert self.host is not None
            self.session = self.host.open_session(self.name, {"server.address": target.host})
            self.session.event("handshake", {"racer.session.id": "s1"})
        progress.session(reused=reused, link=self.session.context)
        return stream_pair()[0]

    async def aclose(self) -> None:
        if self.session is not None:
            self.session.end("closed")
            self.session.end("lost", failed=True)  # once is enough: the second says nothing


async def dialed_twice(recorder: Recorder, tunnel: Tunnel, *, redact: bool = False) -> None:
    dialer = racer.Dialer(
        [tunnel], tracer_provider=recorder.tracers, meter_provider=recorder.meters, redact=redact
    )
    async with dialer:
        for _ in range(2):
            await (await dialer.dial(HOST, 80)).aclose()


def link_ids(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


async def test_a_session_is_a_root_linked_with_every_dial_that_used_it() -> None:
    recorder, tunnel = Recorder(), Tunnel()
    await dialed_twice(recorder, tunnel)
    (session,) = recorder.named("racer.session")
    first, second = recorder.named("racer.attempt")
    assert session.parent is None
    assert session.kind is SpanKind.CLIENT
    assert session.status.status_code is StatusCode.UNSET
    assert dict(session.attributes or {}) == {
        "racer.transport": "tunnel",
        "server.address": HOST,
        "racer.reason": "closed",
    }
    assert [(event.name, dict(event.attributes or {})) for event in session.events] == [
        ("handshake", {"racer.session.id": "s1"})
    ]
    assert session.context is not None
    assert first.context is not None
    assert link_ids(session) == [first.context.span_id]
    assert link_ids(first) == link_ids(second) == [session.context.span_id]
    reused = [(span.attributes or {})["racer.session.reused"] for span in (first, second)]
    assert reused == [False, True]


async def test_sessions_are_counted_while_open_and_by_reason_when_closed() -> None:
    recorder, tunnel = Recorder(), Tunnel()
    await dialed_twice(recorder, tunnel)
    metrics = recorder.metrics()
    own = ("racer.transport", "tunnel")
    assert metrics["racer.sessions.open"] == {(own,): Point(value=0)}
    assert metrics["racer.sessions.closed"] == {(("racer.reason", "closed"), own): Point(value=1)}


async def test_an_open_session_shows_as_one() -> None:
    recorder, tunnel = Recorder(), Tunnel()
    dialer = racer.Dialer([tunnel], meter_provider=recorder.meters)
    async with dialer:
        await (await dialer.dial(HOST, 80)).aclose()
        assert recorder.metrics()["racer.sessions.open"] == {
            (("racer.transport", "tunnel"),): Point(value=1)
        }


async def test_a_lost_session_is_an_error_of_its_own_span() -> None:
    recorder, tunnel = Recorder(), Tunnel()
    dialer = racer.Dialer([tunnel], tracer_provider=recorder.tracers)
    async with dialer:
        await (await dialer.dial(HOST, 80)).aclose()
        assert tunnel.session is not None
        tunnel.session.end("lost", failed=True)
    (session,) = recorder.named("racer.session")
    assert session.status.status_code is StatusCode.ERROR
    assert session.status.description == "lost"


async def test_redaction_reaches_sessions_and_their_events() -> None:
    recorder, tunnel = Recorder(), Tunnel()
    await dialed_twice(recorder, tunnel, redact=True)
    (session,) = recorder.named("racer.session")
    assert dict(session.attributes or {}) == {"racer.transport": "tunnel", "racer.reason": "closed"}
    assert HOST not in recorder.text()


async def test_without_an_sdk_a_session_has_no_link() -> None:
    tunnel = Tunnel()
    async with racer.Dialer([tunnel]) as dialer:
        await (await dialer.dial(HOST, 80)).aclose()
        assert tunnel.session is not None
        assert tunnel.session.context is None
