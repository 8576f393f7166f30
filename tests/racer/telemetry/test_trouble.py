"""Collectors that are down, hang or refuse: no dial is a moment later, no log is flooded, no end is held up."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any

import anyio
import grpc  # type: ignore[import-untyped]  # it has no stubs
import pytest

import racer
from racer.errors import DialError
from racer.testing import ScriptedTransport, fails, run_virtual, wins
from tests.racer.telemetry.receivers import closed_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from racer.telemetry import Handle
    from racer.testing import BackendName
    from tests.racer.telemetry.receivers import Receiver

    SetUp = Callable[..., Handle]

# Every span is a batch of its own, and no export takes longer than a test may.
EAGER = {
    "OTEL_BSP_SCHEDULE_DELAY": "1",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "1",
    "OTEL_EXPORTER_OTLP_TIMEOUT": "0.1",
}
DIALS = 10


def instants(backend: BackendName, handle: Handle | None) -> list[float]:
    """Return when each of several dials ended, of which every second fails."""

    async def story() -> list[float]:
        ends = []
        late, never = wins(0.75), fails(0.5, ConnectionRefusedError())
        providers: dict[str, Any] = {}
        if handle is not None:
            providers = {
                "tracer_provider": handle.tracer_provider,
                "meter_provider": handle.meter_provider,
            }
        for number in range(DIALS):
            entrants = [
                ScriptedTransport("first", never),
                ScriptedTransport("second", never if number % 2 else late),
            ]
            async with racer.Dialer(list(entrants), **providers) as dialer:
                with contextlib.suppress(DialError):
                    await (await dialer.dial("news.example", 80)).aclose()
                ends.append(anyio.current_time())
        return ends

    return run_virtual(story, backend=backend)


def trouble(receiver: Receiver, how: str) -> dict[str, str]:
    match how:
        case "down":
            return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{closed_port()}"}
        case "hangs":
            receiver.gate.clear()
        case "refuses":
            receiver.refusal = (
                grpc.StatusCode.RESOURCE_EXHAUSTED if receiver.protocol == "grpc" else 503
            )
        case _:
            receiver.refusal = grpc.StatusCode.UNAVAILABLE if receiver.protocol == "grpc" else 429
    return {}


@pytest.mark.parametrize(
    ("how", "backend"),
    [
        ("down", "asyncio"),
        ("hangs", "trio"),
        ("refuses", "asyncio"),
        ("is not there today", "trio"),
    ],
)
def test_trouble_delays_no_dial_and_floods_no_log(
    receiver: Receiver,
    set_up: SetUp,
    backend: BackendName,
    how: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    plain = instants(backend, None)
    handle = set_up(**receiver.environ(**EAGER, **trouble(receiver, how)))
    assert instants(backend, handle) == plain
    assert not handle.flush(10)
    receiver.gate.set()
    handle.shutdown(10)
    lines = [record.getMessage() for record in caplog.records]
    assert all(line.startswith("telemetry: ") for line in lines), lines
    assert 1 <= len(lines) <= 3, lines  # kinds of failure: at most one line each
    assert len({line.partition(": ")[2] for line in lines}) == len(lines)
    status = handle.status()
    assert status.last_error is not None
    assert status.spans_dropped > 0
    assert status.spans_waiting == 0
    assert status.spans_exported + status.spans_dropped == DIALS * 3


def test_a_failure_and_its_end_are_said_once(
    receiver: Receiver, set_up: SetUp, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    handle = set_up(**receiver.environ(**EAGER, OTEL_METRICS_EXPORTER="none"))
    receiver.refusal = grpc.StatusCode.PERMISSION_DENIED if receiver.protocol == "grpc" else 403
    for _ in range(2):
        instants("asyncio", handle)
        assert not handle.flush(10)
    assert handle.status().is_failing
    receiver.refusal = None
    for _ in range(2):
        instants("asyncio", handle)
        handle.flush(10)
    assert handle.flush(10)
    assert not handle.status().is_failing
    failed, works = [record.getMessage() for record in caplog.records]
    assert "spans are lost: the collector at http://127.0.0.1" in failed
    assert ("403" if receiver.protocol != "grpc" else "PERMISSION_DENIED") in failed
    assert works.endswith("works again")


def test_more_than_there_is_room_for_is_counted_and_said_once(
    receiver: Receiver, set_up: SetUp, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.gate.clear()
    handle = set_up(**receiver.environ(OTEL_METRICS_EXPORTER="none", OTEL_BSP_MAX_QUEUE_SIZE="4"))
    instants("asyncio", handle)
    receiver.gate.set()
    assert handle.flush(10)
    status = handle.status()
    assert status.spans_exported + status.spans_dropped == DIALS * 3
    assert status.spans_dropped >= DIALS * 3 - 8  # what was under way, and what waited
    (line,) = (record.getMessage() for record in caplog.records)
    assert "more than the 4 of OTEL_BSP_MAX_QUEUE_SIZE wait" in line


def test_the_end_waits_for_what_hangs_no_longer_than_it_says(
    receiver: Receiver, set_up: SetUp
) -> None:
    """The collector answers only after the end: had the end waited for it, this would never finish."""
    receiver.gate.clear()
    handle = set_up(**receiver.environ(OTEL_EXPORTER_OTLP_TIMEOUT="25"))
    instants("asyncio", handle)
    assert not handle.flush(0.01)
    assert receiver.arrived.wait(20)
    assert not handle.shutdown(0.01)
    receiver.gate.set()


def test_at_the_end_what_cannot_be_reached_is_tried_once(
    set_up: SetUp, caplog: pytest.LogCaptureFixture
) -> None:
    """With the ten seconds of the default, three tries would take seven."""
    for protocol in ("grpc", "http/protobuf"):
        handle = set_up(
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{closed_port()}",
            OTEL_EXPORTER_OTLP_PROTOCOL=protocol,
        )
        instants("asyncio", handle)
        handle.shutdown(20)
        assert handle._courier is not None
        assert handle._courier.is_idle
        assert handle.status().spans_dropped == DIALS * 3
        assert "Connection refused" in str(handle.status().last_error)
