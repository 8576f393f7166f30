"""What leaves for a collector, as bytes: whole, well-formed, and enough to tell why a dial failed.

A collector of the test's own listens on loopback and speaks OTLP over HTTP; nothing here looks at the SDK's own objects.
"""

from __future__ import annotations

import contextlib
import ssl
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import trustme
from anyio.streams.tls import TLSStream
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

import racer
from racer import Entrant
from racer.errors import DialError, SessionLost
from racer.testing import MemoryStream, ScriptedTransport, fails, hangs, run_virtual, wins
from tests.racer.collector import Collector, values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from racer.abc import Guest
    from racer.testing import BackendName

HOST, ANOTHER = "hidden.example", "blockpage.example"

on_both = pytest.mark.parametrize("backend", ["asyncio", "trio"])


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


# --- what an operator reads ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Read:
    """A span as somebody reads it who has never seen the code."""

    who: str
    outcome: str
    why: str | None = None
    words: str | None = None
    stage: str | None = None
    at: tuple[float, float] = (0, 0)
    rest: dict[str, list[str]] = field(default_factory=dict)


def read(spans: list[Span]) -> list[Read]:
    (dial,) = (span for span in spans if span.name == "racer.dial")
    began = dial.start_time_unix_nano
    rows = []
    for span in spans:
        told = values(span.attributes)
        failed = span.status.code == Status.STATUS_CODE_ERROR
        rows.append(
            Read(
                who=told.get("racer.transport", "dial"),
                outcome=told["racer.outcome"],
                why=told.get("error.type"),
                words=span.status.message if failed else None,
                stage=told.get("racer.attempt.stage"),
                at=(
                    (span.start_time_unix_nano - began) / 1e9,
                    (span.end_time_unix_nano - began) / 1e9,
                ),
                rest={key: value for key, value in told.items() if isinstance(value, list)},
            )
        )
    return rows


@cache
def authority() -> trustme.CA:
    return trustme.CA()


@cache
def certified(name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority().issue_cert(name).configure_cert(context)
    return context


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority().configure_trust(context)
    return context


async def says_nothing(far: MemoryStream) -> None:
    await anyio.sleep_forever()


async def hangs_up(far: MemoryStream) -> None:
    await far.receive()
    await far.aclose()


async def serves(far: MemoryStream) -> None:
    await (await TLSStream.wrap(far, server_side=True, ssl_context=certified(HOST))).receive()


async def shows_anothers_certificate(far: MemoryStream) -> None:
    with contextlib.suppress(ssl.SSLError, anyio.EndOfStream, anyio.BrokenResourceError):
        await TLSStream.wrap(far, server_side=True, ssl_context=certified(ANOTHER))


REFUSED = ConnectionRefusedError(111, "Connection refused")
LOST = SessionLost("server lost the session")


def all_blocked() -> list[Guest | Entrant]:
    return [
        ScriptedTransport("direct", fails(0.5, REFUSED)),
        ScriptedTransport("proxyless", wins(1), serve=hangs_up),
        Entrant(ScriptedTransport("soar", fails(1, LOST)), start_delay=8.0),
        ScriptedTransport("plain", serves="only without TLS"),
    ]


def middlebox() -> list[Guest | Entrant]:
    return [
        ScriptedTransport("direct", wins(0.25), serve=says_nothing),
        ScriptedTransport("proxyless", hangs()),
        Entrant(ScriptedTransport("soar", wins(), serve=serves), start_delay=8.0),
    ]


SITUATIONS: dict[str, tuple[Callable[[], list[Guest | Entrant]], dict[str, Any], list[Read]]] = {
    "all-blocked": (
        all_blocked,
        {},
        [
            Read(
                who="dial",
                outcome="connect_failed",
                why="other",
                words="direct: ConnectionRefusedError: [Errno 111] Connection refused; "
                "proxyless: NetworkError: the stream was cut off in the TLS handshake (EndOfStream); "
                "soar: SessionLost: server lost the session; plain: only without TLS",
                at=(0, 2),
                rest={"racer.ineligible": ["plain"]},
            ),
            Read(
                who="direct",
                outcome="connect_failed",
                why="connection_refused",
                words="ConnectionRefusedError: [Errno 111] Connection refused",
                stage="connect",
                at=(0, 0.5),
            ),
            Read(
                who="proxyless",
                outcome="connect_failed",
                why="connection_reset",
                words="NetworkError: the stream was cut off in the TLS handshake (EndOfStream)",
                stage="tls",
                at=(0, 1),
            ),
            Read(
                who="soar",
                outcome="connect_failed",
                why="session_lost",
                words="SessionLost: server lost the session",
                stage="connect",
                at=(1, 2),
            ),
        ],
    ),
    "a-middlebox-accepts-and-hangs-until-the-deadline": (
        middlebox,
        {"timeout": 5.0},
        [
            Read(
                who="dial",
                outcome="timed_out",
                why="timeout",
                words="direct: AttemptTimeout: not usable within 5 s, still in tls; "
                "proxyless: AttemptTimeout: not usable within 5 s; soar: not_started",
                at=(0, 5),
                rest={"racer.not_started": ["soar"]},
            ),
            Read(
                who="direct",
                outcome="timed_out",
                why="timeout",
                words="AttemptTimeout: not usable within 5 s, still in tls",
                stage="tls",
                at=(0, 5),
            ),
            Read(
                who="proxyless",
                outcome="timed_out",
                why="timeout",
                words="AttemptTimeout: not usable within 5 s",
                stage="connect",
                at=(0, 5),
            ),
        ],
    ),
    "the-caller-goes": (
        middlebox,
        {"leave_after": 1.5},
        [
            Read(
                who="dial",
                outcome="cancelled",
                words="direct: cancelled; proxyless: cancelled; soar: not_started",
                at=(0, 1.5),
                rest={"racer.not_started": ["soar"]},
            ),
            Read(who="direct", outcome="cancelled", stage="tls", at=(0, 1.5)),
            Read(who="proxyless", outcome="cancelled", stage="connect", at=(0, 1.5)),
        ],
    ),
    "the-next-one-wins": (
        middlebox,
        {},
        [
            Read(
                who="dial",
                outcome="connected",
                at=(0, 8),
            ),
            Read(who="direct", outcome="lost_race", stage="tls", at=(0, 8)),
            Read(who="proxyless", outcome="lost_race", stage="connect", at=(0, 8)),
            Read(who="soar", outcome="connected", stage="tls", at=(8, 8)),
        ],
    ),
}


def tell(
    collector: Collector,
    backend: BackendName,
    entrants: list[Guest | Entrant],
    *,
    leave_after: float | None = None,
    redact: bool = False,
    tls: bool = True,
    **options: Any,
) -> None:
    """Dial once, and end."""
    trusted = trusting() if tls else False
    for name in (HOST, ANOTHER):
        certified(name)  # it writes files, which may not happen on a loop

    async def story() -> None:
        async with racer.Dialer(
            entrants,
            tracer_provider=collector.tracers,
            meter_provider=collector.meters,
            redact=redact,
        ) as dialer:
            with anyio.move_on_after(leave_after):
                with contextlib.suppress(DialError):
                    await (await dialer.dial(HOST, tls=trusted, **options)).aclose()

    run_virtual(story, backend=backend)


@on_both
@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_trace_alone_tells_what_happened(
    collector: Collector, backend: BackendName, situation: str
) -> None:
    entrants, options, expected = SITUATIONS[situation]
    tell(collector, backend, entrants(), **options)
    assert read(collector.spans()) == expected


@on_both
def test_a_wrong_certificate_is_told_with_both_names(
    collector: Collector, backend: BackendName
) -> None:
    guest = ScriptedTransport("direct", wins(), serve=shows_anothers_certificate)
    tell(collector, backend, [guest])
    dial, attempt = read(collector.spans())
    assert (attempt.outcome, attempt.why, attempt.stage) == (
        "connect_failed",
        "certificate_invalid",
        "tls",
    )
    assert dial.why == attempt.why
    assert dial.words == f"direct: {attempt.words}"
    assert attempt.words is not None
    assert f"certificate is not valid for '{HOST}'" in attempt.words


@on_both
def test_where_it_went_stands_on_every_span(collector: Collector, backend: BackendName) -> None:
    tell(collector, backend, all_blocked())
    for span in collector.spans():
        told = values(span.attributes)
        assert (told["server.address"], told["server.port"]) == (HOST, 443)


@on_both
def test_metrics_are_counted_by_reason_and_name_no_host(
    collector: Collector, backend: BackendName
) -> None:
    tell(collector, backend, all_blocked())
    tell(collector, backend, middlebox())
    found = collector.metrics()
    assert {name: (metric.unit, metric.WhichOneof("data")) for name, metric in found.items()} == {
        "racer.dial.duration": ("s", "histogram"),
        "racer.attempt.duration": ("s", "histogram"),
        "racer.cleanup.duration": ("s", "histogram"),
        "racer.attempts.active": ("{attempt}", "sum"),
    }
    dials = found["racer.dial.duration"].histogram.data_points
    assert {
        tuple(sorted(values(point.attributes).items())): (point.count, point.sum) for point in dials
    } == {
        (("error.type", "other"), ("racer.outcome", "connect_failed")): (1, 2.0),
        (("racer.outcome", "connected"), ("racer.transport", "soar")): (1, 8.0),
    }
    for point in dials:
        assert min(point.explicit_bounds) == 0.005  # seconds, not the SDK's milliseconds
        assert sum(point.bucket_counts) == 1
        assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
    active = found["racer.attempts.active"].sum
    assert not active.is_monotonic
    assert [point.as_int for point in active.data_points] == [0] * 3
    assert not any(
        HOST.encode() in body for body in collector.raw if b"racer.dial.duration" in body
    )


@on_both
def test_redacted_no_byte_of_a_host_leaves(collector: Collector, backend: BackendName) -> None:
    refused = OSError(f"no way to {HOST}")
    entrants = [
        ScriptedTransport("direct", fails(0.5, refused)),
        ScriptedTransport("cut", wins(), serve=shows_anothers_certificate),
        ScriptedTransport("plain", serves=f"not {HOST}"),
    ]
    tell(collector, backend, list(entrants), redact=True)
    dial, *_ = read(collector.spans())
    assert dial.words == (
        "direct: OSError: other; cut: SSLCertVerificationError: certificate_invalid; plain: ineligible"
    )
    collector.metrics()
    assert len(collector.raw) == 2
    assert not any(b"hidden" in body for body in collector.raw)


@on_both
def test_what_guests_and_peers_say_breaks_no_export(
    collector: Collector, backend: BackendName
) -> None:
    """One text that cannot be encoded would take every span of its batch with it."""
    hostile = "\ud800\x1b[31m\x00 \u202e" + "x" * 100_000

    class Noisy(ScriptedTransport):
        async def connect(self, target: Any, progress: Any) -> Any:
            progress.event(hostile, {"number": 7})
            return await super().connect(target, progress)

    entrants = [
        Noisy("noisy", fails(0.5, OSError(hostile))),
        ScriptedTransport("plain", serves=hostile),
    ]
    tell(collector, backend, list(entrants), tls=False)
    dial, noisy = collector.spans()
    (event,) = noisy.events
    assert values(event.attributes) == {"number": 7}
    for text in (dial.status.message, noisy.status.message, event.name):
        assert text.isprintable()
        assert r"\ud800\x1b[31m\x00 \u202e" in text
        assert len(text) < 3000
