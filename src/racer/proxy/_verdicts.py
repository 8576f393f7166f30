"""What a client is told of a race that gave it nothing: a SOCKS reply, an HTTP status, and words for a person. Pure."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from racer._words import one_line
from racer.errors import (
    ConfigError,
    DialError,
    DialTimeout,
    ErrorType,
    InvalidTarget,
    NoTransports,
    error_type_of,
)
from racer.proxy._requests import Reply

if TYPE_CHECKING:
    from racer._report import RaceReport

__all__ = ("FULL", "LOOP", "Verdict", "verdict_of")

_MAX_LINES: Final = 64  # entrants that a client is told about

# What all attempts agree on: SOCKS reply (RFC 1928 §6), HTTP status, and its reason (RFC 9209 §2.3).
_AGREED: Final = {
    ErrorType.DNS_FAILURE: (Reply.HOST_UNREACHABLE, 502, "dns_error"),
    ErrorType.CONNECTION_REFUSED: (Reply.CONNECTION_REFUSED, 502, "connection_refused"),
    ErrorType.CONNECTION_RESET: (Reply.HOST_UNREACHABLE, 502, "connection_terminated"),
    ErrorType.HOST_UNREACHABLE: (Reply.HOST_UNREACHABLE, 502, "destination_ip_unroutable"),
    ErrorType.TIMEOUT: (Reply.TTL_EXPIRED, 504, "connection_timeout"),
    ErrorType.TUNNEL_SILENT: (Reply.TTL_EXPIRED, 504, "connection_timeout"),
    ErrorType.TARGET_REFUSED: (Reply.HOST_UNREACHABLE, 502, "destination_unavailable"),
    ErrorType.PROXY_REFUSED: (Reply.HOST_UNREACHABLE, 502, "destination_unavailable"),
    ErrorType.BUSY: (Reply.GENERAL_FAILURE, 503, "connection_limit_reached"),
    ErrorType.RESOURCE_EXHAUSTED: (Reply.GENERAL_FAILURE, 503, "proxy_internal_error"),
    ErrorType.CRASHED: (Reply.GENERAL_FAILURE, 500, "proxy_internal_error"),
}
_MIXED: Final = (Reply.HOST_UNREACHABLE, 502, "destination_unavailable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Why a client gets no stream.

    Attributes:
        reply: for SOCKS5.
        status: for HTTP.
        error: the status's reason, as `Proxy-Status` has it (RFC 9209).
        words: one line for a person.
        details: a line for each entrant: which failed, and why; no secrets.
    """

    reply: Reply
    status: int
    error: str
    words: str
    details: tuple[str, ...] = ()

    @property
    def body(self) -> bytes:
        """What an HTTP client can show."""
        head = f"racer: {self.words}{':' if self.details else ''}"
        return "".join(f"{line}\n" for line in (head, *self.details)).encode()


LOOP: Final = Verdict(
    reply=Reply.NOT_ALLOWED,
    status=403,
    error="proxy_loop_detected",
    words="that is this proxy itself: it does not dial its own address",
)
FULL: Final = Verdict(
    reply=Reply.GENERAL_FAILURE,
    status=503,
    error="connection_limit_reached",
    words="this proxy has as many connections as it may have; try again when some have ended",
)


def verdict_of(error: BaseException, target: str) -> Verdict:
    """Return what to tell a client of the error with which its race ended.

    Args:
        error: what `Dialer.dial` raised.
        target: `host:port`, as it was asked for.
    """
    if isinstance(error, DialError):
        reply, status, kind = _of_attempts(error)
        words = f"could not connect to {target}"
        if isinstance(error, DialTimeout):
            words += f" within {error.report.timeout:g} s"
        return Verdict(
            reply=reply,
            status=status,
            error=kind,
            words=words,
            details=_lines(error.report),
        )
    if isinstance(error, NoTransports):
        return Verdict(
            reply=Reply.NETWORK_UNREACHABLE,
            status=503,
            error="destination_unavailable",
            words=f"no transport serves {target}" if error.report else one_line(str(error)),
            details=() if error.report is None else _lines(error.report),
        )
    if isinstance(error, InvalidTarget):
        return Verdict(
            reply=Reply.HOST_UNREACHABLE,
            status=400,
            error="http_request_error",
            words=one_line(str(error)),
        )
    is_config = isinstance(error, ConfigError)  # closed, above all
    return Verdict(
        reply=Reply.GENERAL_FAILURE,
        status=503 if is_config else 500,
        error="proxy_internal_error",
        words=one_line(str(error)) if is_config else f"a bug in racer: {type(error).__name__}",
    )


def _of_attempts(error: DialError) -> tuple[Reply, int, str]:
    if isinstance(error, DialTimeout):
        return _AGREED[ErrorType.TIMEOUT]
    kinds = {
        attempt.error_type or error_type_of(attempt.error)
        for attempt in error.report.attempts
        if attempt.error is not None
    }
    if error.errno in {errno.ENETUNREACH, errno.ENETDOWN}:
        return Reply.NETWORK_UNREACHABLE, 502, "destination_ip_unroutable"
    return _AGREED.get(kinds.pop(), _MIXED) if len(kinds) == 1 else _MIXED


def _lines(report: RaceReport) -> tuple[str, ...]:
    lines = []
    for attempt in report.attempts[:_MAX_LINES]:
        took = (
            f" (after {attempt.finished_at - attempt.started_at:.1f} s)"
            if attempt.started_at is not None and attempt.finished_at is not None
            else ""
        )
        lines.append(f"  {one_line(attempt.transport)}: {attempt.cause}{took}")
    return tuple(lines)
