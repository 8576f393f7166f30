from __future__ import annotations

import errno

import pytest

from racer import Attempt, Outcome, RaceReport
from racer.errors import (
    AllAttemptsFailed,
    DialerClosed,
    DialTimeout,
    ErrorType,
    InvalidTarget,
    NetworkError,
    NoTransports,
)
from racer.proxy._requests import Reply
from racer.proxy._verdicts import verdict_of

TARGET = "news.example:443"


def report(*attempts: Attempt) -> RaceReport:
    return RaceReport(
        target=TARGET,
        tls=False,
        outcome=Outcome.CONNECT_FAILED,
        winner=None,
        duration=1.0,
        timeout=80.0,
        started=0.0,
        attempts=attempts,
    )


def failed(name: str, error: BaseException, kind: ErrorType) -> Attempt:
    return Attempt(
        transport=name,
        outcome=Outcome.CONNECT_FAILED,
        error=error,
        error_type=kind,
        started_at=0.0,
        finished_at=0.25,
    )


@pytest.mark.parametrize(
    ("kinds", "reply", "status", "error"),
    [
        (["dns_failure"], Reply.HOST_UNREACHABLE, 502, "dns_error"),
        (["connection_refused"] * 2, Reply.CONNECTION_REFUSED, 502, "connection_refused"),
        (["connection_refused", "timeout"], Reply.HOST_UNREACHABLE, 502, "destination_unavailable"),
        (["timeout", "timeout"], Reply.TTL_EXPIRED, 504, "connection_timeout"),
        (["tunnel_silent"], Reply.TTL_EXPIRED, 504, "connection_timeout"),
        (["host_unreachable"], Reply.HOST_UNREACHABLE, 502, "destination_ip_unroutable"),
        (["busy"], Reply.GENERAL_FAILURE, 503, "connection_limit_reached"),
        (["crashed"], Reply.GENERAL_FAILURE, 500, "proxy_internal_error"),
        (["credential_rejected"], Reply.HOST_UNREACHABLE, 502, "destination_unavailable"),
    ],
)
def test_what_all_attempts_agree_on_is_told_in_the_protocols_own_codes(
    kinds: list[str], reply: Reply, status: int, error: str
) -> None:
    attempts = [
        failed(f"t{index}", NetworkError("no", error_type=ErrorType(kind)), ErrorType(kind))
        for index, kind in enumerate(kinds)
    ]
    verdict = verdict_of(AllAttemptsFailed(report(*attempts)), TARGET)
    assert (verdict.reply, verdict.status, verdict.error) == (reply, status, error)


def test_a_network_that_is_down_is_one() -> None:
    error = OSError(errno.ENETUNREACH, "Network is unreachable")
    verdict = verdict_of(
        AllAttemptsFailed(report(failed("direct", error, ErrorType.HOST_UNREACHABLE))), TARGET
    )
    assert verdict.reply is Reply.NETWORK_UNREACHABLE


def test_the_body_names_each_transport_and_why() -> None:
    verdict = verdict_of(
        AllAttemptsFailed(
            report(
                failed("direct", ConnectionRefusedError("refused\r\nby it"), ErrorType.OTHER),
                Attempt(transport="amp", outcome=Outcome.INELIGIBLE, reason="no stream"),
            )
        ),
        TARGET,
    )
    assert verdict.body.decode() == (
        "racer: could not connect to news.example:443:\n"
        "  direct: ConnectionRefusedError: refused by it (after 0.2 s)\n"
        "  amp: no stream\n"
    )


def test_a_deadline_is_told_with_its_seconds() -> None:
    verdict = verdict_of(DialTimeout(report()), TARGET)
    assert (verdict.reply, verdict.status) == (Reply.TTL_EXPIRED, 504)
    assert verdict.words == "could not connect to news.example:443 within 80 s"


def test_no_transport_is_told_with_each_ones_reason() -> None:
    attempt = Attempt(transport="amp", outcome=Outcome.INELIGIBLE, reason="no stream")
    verdict = verdict_of(NoTransports("nothing", report(attempt)), TARGET)
    assert (verdict.reply, verdict.status) == (Reply.NETWORK_UNREACHABLE, 503)
    assert verdict.details == ("  amp: no stream",)
    assert verdict_of(NoTransports("nothing installed"), TARGET).words == "nothing installed"


def test_other_errors_have_their_place() -> None:
    invalid = verdict_of(InvalidTarget("no such port"), TARGET)
    assert (invalid.reply, invalid.status) == (Reply.HOST_UNREACHABLE, 400)
    closed = verdict_of(DialerClosed("the dialer was closed"), TARGET)
    assert (closed.reply, closed.status) == (Reply.GENERAL_FAILURE, 503)
    bug = verdict_of(RuntimeError("s3cret"), TARGET)
    assert (bug.reply, bug.status) == (Reply.GENERAL_FAILURE, 500)
    assert b"s3cret" not in bug.body


def test_a_report_without_end_is_cut() -> None:
    attempts = [failed(f"t{n}", OSError("x" * 5000), ErrorType.OTHER) for n in range(500)]
    verdict = verdict_of(AllAttemptsFailed(report(*attempts)), TARGET)
    assert len(verdict.details) == 64
    assert len(verdict.body) < 80_000
