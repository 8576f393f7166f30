"""Whole programs: what leaves at their end, at a SIGTERM, from a forked child, and beside somebody else's providers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider

from racer import telemetry
from tests.racer.collector import values
from tests.racer.telemetry.conftest import PROTOCOLS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.racer.telemetry.receivers import Receiver

GUARD_S = 50.0

PRELUDE = """
import os, signal, sys, time
import anyio, racer, racer.telemetry
from racer.testing import ScriptedTransport, fails


def dial(name):
    async def story():
        guest = ScriptedTransport(name, fails(0.0, ConnectionRefusedError()))
        async with racer.Dialer([guest]) as dialer:
            try:
                await dialer.dial("news.example", 80)
            except racer.errors.DialError:
                pass

    anyio.run(story)


"""


def begin(program: str, environ: dict[str, str]) -> subprocess.Popen[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(program)],
        env={**kept, "NO_PROXY": "*", **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(program: str, environ: dict[str, str]) -> str:
    """Return what a program printed; it must end well and say nothing on stderr."""
    process = begin(program, environ)
    out, err = process.communicate(timeout=GUARD_S)
    assert (process.returncode, err) == (0, "")
    return out


def who(receiver: Receiver) -> list[str]:
    told = [values(span.attributes) for span in receiver.spans()]
    return sorted(one["racer.transport"] for one in told if "racer.transport" in one)


def over(often: str) -> pytest.MarkDecorator:
    """Run on one protocol, and on the other with the long tests: an interpreter takes a second to start."""
    return pytest.mark.parametrize(
        "receiver",
        [
            name if name == often else pytest.param(name, marks=pytest.mark.soak)
            for name in PROTOCOLS
        ],
        indirect=True,
    )


@pytest.fixture
def over_http() -> Iterator[Receiver]:
    made = PROTOCOLS["http"]()
    yield made
    made.close()


@over("grpc")
def test_a_program_leaves_everything_behind_at_its_end(receiver: Receiver) -> None:
    out = run(
        """
        handle = racer.telemetry.setup()
        assert racer.telemetry.setup() is handle is racer.telemetry.setup_if_asked()
        dial("last")
        print(handle.status().spans_exported)
        """,
        receiver.environ(),
    )
    assert out == "0\n"
    assert who(receiver) == ["last"]
    assert "racer.dial.duration" in receiver.metrics()


@over("http")
def test_a_sigterm_ends_a_program_as_ever_but_for_a_flush(receiver: Receiver) -> None:
    process = begin(
        """
        racer.telemetry.setup()
        dial("last")
        print("ready", flush=True)
        signal.pause()
        """,
        receiver.environ(),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    _, err = process.communicate(timeout=GUARD_S)
    assert (process.returncode, err) == (-signal.SIGTERM, "")
    assert who(receiver) == ["last"]


@pytest.mark.soak
def test_who_handles_sigterm_goes_on_handling_it(over_http: Receiver) -> None:
    out = run(
        """
        signal.signal(signal.SIGTERM, lambda *_: print("mine"))
        racer.telemetry.setup()
        os.kill(os.getpid(), signal.SIGTERM)
        """,
        over_http.environ(),
    )
    assert out == "mine\n"


@over("grpc")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_exports_for_itself(receiver: Receiver) -> None:
    run(
        """
        handle = racer.telemetry.setup()
        dial("before")
        handle.flush(20)
        dial("of the parent")
        child = os.fork()
        if not child:
            dial("of the child")
            sys.exit()
        assert os.waitpid(child, 0)[1] == 0
        """,
        receiver.environ(),
    )
    assert who(receiver) == ["before", "of the child", "of the parent"]


@over("http")
def test_an_end_is_held_up_by_a_collector_that_hangs_no_longer_than_said(
    receiver: Receiver,
) -> None:
    """It answers only once the program is gone."""
    receiver.gate.clear()
    out = run(
        """
        racer.telemetry.setup(exit_timeout=0.1)
        dial("last")
        """,
        receiver.environ(OTEL_EXPORTER_OTLP_TIMEOUT="40"),
    )
    assert out == ""


@pytest.mark.parametrize("signal_name", ["tracer", "meter"])
def test_the_programs_own_providers_stay(
    signal_name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    module, own = {
        "tracer": (trace, TracerProvider(shutdown_on_exit=False)),
        "meter": (metrics, MeterProvider(shutdown_on_exit=False)),
    }[signal_name]
    monkeypatch.setattr(module, f"get_{signal_name}_provider", lambda: own)
    handle = telemetry.setup()
    assert not handle.is_active
    assert handle.flush(0)
    assert handle.shutdown()
    why = f"the program has a {signal_name} provider of its own"
    assert handle.status().why_not == why
    assert caplog.messages == [f"telemetry: not set up: {why}"]


def test_unasked_nothing_is_made() -> None:
    with telemetry.setup_if_asked() as handle:
        assert not handle.is_active
        assert handle.status().why_not == "no OTEL_EXPORTER_OTLP_ENDPOINT is set"
        assert handle.check() == ()
        assert (handle.tracer_provider, handle.meter_provider) == (None, None)


def test_disabled_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    for handle in (telemetry.setup(), telemetry.setup(install=False)):
        assert not handle.is_active
        assert handle.status().why_not == "OTEL_SDK_DISABLED says so"
        assert (handle.tracer_provider, handle.meter_provider) == (None, None)
    assert telemetry.setup_if_asked().status().why_not is not None


def test_the_command_exports_what_it_dials(over_http: Receiver) -> None:
    run(
        """
        from racer.cli import main

        sys.stderr = sys.stdout
        assert main(["dial", "127.0.0.1:9", "--timeout", "2", "--json"]) == 1
        """,
        over_http.environ(),
    )
    assert "racer.dial" in {span.name for span in over_http.spans()}
