"""What a server leaves in OpenTelemetry, and what it keeps to itself (S25)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from tests.transports.soar.test_server import (
    ADDRESS,
    Network,
    exchange,
    make,
    opening,
    session,
    until,
)
from transports.soar import _server
from transports.soar.core.crypto import Grant
from transports.soar.core.server.credentials import IssuedGrant
from transports.soar.core.streams.frames import End, Opened, Refused, StreamData

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


@pytest.fixture(autouse=True)
def in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_server, "_FAREWELL", 0.002)


class Telescope:
    """An SDK that keeps everything."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        traces = TracerProvider()
        traces.add_span_processor(SimpleSpanProcessor(self._spans))
        self._meters = MeterProvider(metric_readers=[self._reader])
        self.options = {
            "tracer": traces.get_tracer("test"),
            "meter": self._meters.get_meter("test"),
        }

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._spans.get_finished_spans() if span.name == name]

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return values by name and by what tells them apart."""
        data = self._reader.get_metrics_data()
        found: dict[str, dict[str, float]] = {}
        if data is None:
            return found
        for resource in data.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points:
                        key = " ".join(map(str, (point.attributes or {}).values()))
                        value: Any = point
                        found.setdefault(metric.name, {})[key] = value.value
        return found

    def everything(self) -> str:
        return "".join(span.to_json() for span in self._spans.get_finished_spans())


async def story(telescope: Telescope, **options: Any) -> dict[str, dict[str, float]]:
    """One session with a grant, one stream that works and one that is refused; return the metrics of the midst."""
    network, grant = Network(), Grant.generate(lambda size: bytes(range(size)))
    options |= {"grants": [IssuedGrant(grant=grant)], "needs_grant": True, "dial_tcp": network}
    server = make(**telescope.options, **options)
    async with server, session(server, grant=grant) as script:
        exchange(script, opening(0, data=b"hello"))
        await until(script, lambda frame: isinstance(frame, Opened))
        exchange(script, opening(1, port=22))
        await until(script, lambda frame: isinstance(frame, Refused))
        assert await network.far[0].receive() == b"hello"
        await network.far[0].send(b"world!")
        await until(script, lambda frame: isinstance(frame, StreamData))
        midst = telescope.metrics()
        await network.far[0].aclose()
        exchange(script, StreamData(0, len(opening(0, data=b"hello").data), b"", True))
        while not telescope.spans("racer.soar.stream")[1:]:
            await anyio.lowlevel.checkpoint()
        exchange(script, End(2, 1))
        return midst


async def test_a_session_and_its_streams_are_spans() -> None:
    telescope = Telescope()
    await story(telescope)
    (whole,) = telescope.spans("racer.soar.session")
    refused, carried = telescope.spans("racer.soar.stream")
    assert (whole.kind, whole.parent, whole.status.status_code) == (
        SpanKind.SERVER,
        None,
        StatusCode.UNSET,
    )
    assert dict(whole.attributes or {}).keys() == {"racer.session.id", "racer.reason"}
    assert (whole.attributes or {})["racer.reason"] == "closed"
    for span in (refused, carried):
        assert span.kind is SpanKind.CLIENT
        assert span.parent is not None
        context: Any = whole.get_span_context()
        assert span.parent.span_id == context.span_id
    assert dict(carried.attributes or {}) == {
        "racer.soar.stream": 0,
        "server.port": 443,
        "racer.outcome": "closed",
        "racer.octets.to_target": 5,
        "racer.octets.from_target": 6,
    }
    assert carried.status.status_code is StatusCode.UNSET
    assert dict(refused.attributes or {}) == {
        "racer.soar.stream": 1,
        "server.port": 22,
        "racer.outcome": "refused",
        "racer.octets.to_target": 0,
        "racer.octets.from_target": 0,
        "error.type": "policy",
    }
    assert refused.status.status_code is StatusCode.ERROR


async def test_hosts_and_grants_leave_only_where_that_is_asked_for() -> None:
    silent, open_ = Telescope(), Telescope()
    await story(silent)
    await story(open_, shows_targets=True)
    grant = bytes(range(6)).hex()
    assert ADDRESS not in silent.everything()
    assert grant not in silent.everything()
    assert ADDRESS in open_.everything()
    assert grant in open_.everything()
    assert bytes(range(32)).hex() not in open_.everything()  # the secret's octets never


async def test_counts_are_read_when_somebody_collects() -> None:
    telescope = Telescope()
    midst = await story(telescope)
    assert midst["racer.soar.server.sessions"] == {"": 1}
    assert midst["racer.soar.server.handshakes"]["welcome"] == 1
    assert midst["racer.soar.server.questions"]["fragment"] == 3
    assert midst["racer.soar.server.questions"]["packet"] >= 4
    assert midst["racer.soar.server.answers"]["sealed"] >= 4
    assert midst["racer.soar.server.memory"][""] > 0
    assert midst["racer.soar.server.streams"] == {"refused policy": 1}
    after = telescope.metrics()
    assert after["racer.soar.server.streams"] == {"refused policy": 1, "closed": 1}
    assert after["racer.soar.server.octets"] == {"to_target": 5, "from_target": 6}
    # A server that is closed has nothing to observe any more.
    assert "racer.soar.server.questions" not in after


async def test_what_is_open_at_the_end_ends_with_it_or_says_why_not() -> None:
    telescope, network = Telescope(), Network()
    async with make(**telescope.options, dial_tcp=network) as server, session(server) as script:
        exchange(script, opening(0), opening(1, port=80))
        while len(server._tunnels) != 1 or not network.far:
            await anyio.lowlevel.checkpoint()
    (whole,) = telescope.spans("racer.soar.session")
    assert (whole.attributes or {})["racer.reason"] == "shutdown"
    failed, open_ = telescope.spans("racer.soar.stream")
    assert (failed.attributes or {})["error.type"] == "failed"
    assert (open_.attributes or {})["racer.outcome"] == "session_ended"
    await network.far[0].aclose()


async def test_without_an_sdk_nothing_is_kept() -> None:
    network = Network()
    async with make(dial_tcp=network) as server, session(server) as script:
        exchange(script, opening(0))
        await until(script, lambda frame: isinstance(frame, Opened))
        assert len(server._tunnels) == 1
    assert server._tunnels == {}
    await network.far[0].aclose()
