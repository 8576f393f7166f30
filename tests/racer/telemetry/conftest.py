"""Collectors and an environment for the tests of telemetry."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from racer import telemetry
from tests.racer.telemetry.receivers import GrpcReceiver, HttpReceiver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from racer.telemetry import Handle
    from tests.racer.telemetry.receivers import Receiver

PROTOCOLS = {"http": HttpReceiver, "grpc": GrpcReceiver}


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the machine's own settings and proxies out."""
    for name in list(os.environ):
        if name.startswith("OTEL_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GRPC_VERBOSITY", "NONE")  # set here, what is set in a test is undone


@pytest.fixture(params=PROTOCOLS)
def receiver(request: pytest.FixtureRequest) -> Iterator[Receiver]:
    made = PROTOCOLS[request.param]()
    yield made
    made.close()


@pytest.fixture
def set_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Handle]]:
    """Set telemetry up for an environment, and end it after the test."""
    handles: list[Handle] = []

    def begin(**environ: str) -> Handle:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        handles.append(telemetry.setup(install=False))
        return handles[-1]

    yield begin
    for handle in handles:
        handle.shutdown(10)
