"""What is made of the lines that exporters log."""

from __future__ import annotations

import logging
import ssl
import threading
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]  # it has no stubs
import pytest
import requests
import urllib3

from racer.telemetry._failures import Failure, Hearing, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

HTTP = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
GRPC = logging.getLogger("opentelemetry.exporter.otlp.proto.grpc.exporter")
LOST = "Failed to export %s batch code: %s, reason: %s"
RETRY = "Transient error %s encountered while exporting %s batch, retrying in %.2fs."
GRPC_LOST = "Failed to export %s to %s, error code: %s, error details: %s"
GRPC_RETRY = (
    "Transient error %s encountered while exporting %s to %s, retrying in %.2fs. Error details: %s"
)


def refused_connection() -> requests.ConnectionError:
    """As requests and urllib3 wrap it."""
    try:
        try:
            raise ConnectionRefusedError(111, "Connection refused")
        except OSError as exc:
            pool: Any = urllib3.HTTPConnectionPool("127.0.0.1")
            raise urllib3.exceptions.NewConnectionError(pool, "no") from exc
    except urllib3.exceptions.NewConnectionError as exc:
        return requests.ConnectionError(urllib3.exceptions.MaxRetryError(pool, "/", exc))


def bad_certificate() -> requests.exceptions.SSLError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "unable to get local issuer certificate"
    return requests.exceptions.SSLError(error)


@pytest.fixture
def hearing() -> Iterator[Hearing]:
    made = Hearing(["hunter2", "hunter22"])
    made.attach()
    yield made
    made.detach()


def failure(kind: Kind, code: str = "", words: str = "") -> Failure:
    return Failure(kind=kind, code=code, words=words)


STATUS = grpc.StatusCode


@pytest.mark.parametrize(
    ("logger", "message", "args", "expected", "line"),
    [
        (
            HTTP,
            LOST,
            ("spans", 401, "Unauthorized"),
            failure(Kind.REFUSED, "401", "Unauthorized"),
            "answered 401 Unauthorized",
        ),
        (
            HTTP,
            RETRY,
            ("Service Unavailable", "spans", 1.0),
            failure(Kind.REFUSED, "", "Service Unavailable"),
            "answered Service Unavailable",
        ),
        (
            HTTP,
            RETRY,
            (refused_connection(), "spans", 1.0),
            failure(Kind.UNREACHABLE, "", "Connection refused"),
            "cannot be reached: Connection refused",
        ),
        (
            HTTP,
            LOST,
            ("spans", None, bad_certificate()),
            failure(Kind.UNTRUSTED, "", "unable to get local issuer certificate"),
            "its certificate is not trusted: unable to get local issuer certificate",
        ),
        (
            HTTP,
            RETRY,
            (requests.exceptions.ReadTimeout("Read timed out. (read timeout=10)"), "spans", 1.0),
            failure(Kind.SLOW),
            "no answer in time",
        ),
        (
            HTTP,
            LOST,
            ("spans", None, ValueError("no adapter for hunter22 and hunter2")),
            failure(Kind.CRASHED, "", "ValueError: no adapter for *** and ***"),
            "ValueError: no adapter for *** and ***",
        ),
        (
            GRPC,
            GRPC_LOST,
            ("traces", "localhost:4317", STATUS.UNAUTHENTICATED, "no token\nat all"),
            failure(Kind.REFUSED, "UNAUTHENTICATED", "no token at all"),
            "answered UNAUTHENTICATED no token at all",
        ),
        (
            GRPC,
            GRPC_RETRY,
            (STATUS.UNAVAILABLE, "traces", "localhost:1", 1.0, "failed to connect to all"),
            failure(Kind.UNREACHABLE, "UNAVAILABLE", "failed to connect to all"),
            "cannot be reached: failed to connect to all",
        ),
        (
            GRPC,
            GRPC_RETRY,
            (STATUS.UNAVAILABLE, "traces", "localhost:1", 1.0, "come back later"),
            failure(Kind.REFUSED, "UNAVAILABLE", "come back later"),
            "answered UNAVAILABLE come back later",
        ),
        (
            GRPC,
            GRPC_LOST,
            ("traces", "localhost:1", STATUS.UNAVAILABLE, "Ssl handshake failed"),
            failure(Kind.UNTRUSTED, "UNAVAILABLE", "Ssl handshake failed"),
            "its certificate is not trusted: Ssl handshake failed",
        ),
        (
            GRPC,
            GRPC_LOST,
            ("traces", "localhost:1", STATUS.DEADLINE_EXCEEDED, None),
            failure(Kind.SLOW, "DEADLINE_EXCEEDED"),
            "no answer in time",
        ),
    ],
)
def test_a_line_in_words(
    hearing: Hearing,
    caplog: pytest.LogCaptureFixture,
    logger: logging.Logger,
    message: str,
    args: tuple[Any, ...],
    expected: Failure,
    line: str,
) -> None:
    heard: list[Failure] = []
    with hearing.listening(heard.append):
        logger.error(message, *args)
    assert heard == [expected]
    assert str(heard[0]) == line
    assert caplog.records == []


def test_a_line_without_a_reason_says_nothing(hearing: Hearing) -> None:
    heard: list[Failure] = []
    with hearing.listening(heard.append):
        HTTP.error("Failed to export %s batch due to timeout, max retries or shutdown.", "spans")
        HTTP.warning("Shutdown in progress, aborting retry.")
    assert heard == []


def test_an_error_that_is_logged_with_its_traceback_is_heard(hearing: Hearing) -> None:
    heard: list[Failure] = []
    with hearing.listening(heard.append):
        HTTP.error("Exception while exporting metrics", exc_info=OSError(113, "No route to host"))
    assert heard == [failure(Kind.UNREACHABLE, "", "No route to host")]


def test_lines_of_other_threads_and_other_times_are_left_alone(
    hearing: Hearing, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Failure] = []
    HTTP.error(LOST, "spans", 500, "before")
    with hearing.listening(heard.append):
        other = threading.Thread(target=HTTP.error, args=(LOST, "spans", 501, "beside"))
        other.start()
        other.join()
    HTTP.error(LOST, "spans", 502, "after")
    assert heard == []
    assert [record.args[1] for record in caplog.records if isinstance(record.args, tuple)] == [
        500,
        501,
        502,
    ]


def test_words_of_a_peer_are_bounded_and_on_one_line(hearing: Hearing) -> None:
    said = hearing.of(OSError(5, "\x1b[31m\n" + "x" * 10_000)).words
    assert len(said) == 300
    assert said.isprintable()


def test_a_chain_that_bites_its_tail_ends(hearing: Hearing) -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert hearing.of(first).words == "ValueError: b"
