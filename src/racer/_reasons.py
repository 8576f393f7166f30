"""Why attempts fail, in racer's own words, and how the errors of others translate into them."""

from __future__ import annotations

import enum
import errno
import socket
import ssl

import anyio

__all__ = ("ErrorType", "Severity", "Stage", "foreign", "severity_of", "vague")


class ErrorType(enum.StrEnum):
    """The closed list of reasons an attempt can fail for: `Attempt.error_type`, and `error.type` in telemetry."""

    DNS_FAILURE = "dns_failure"
    CONNECTION_REFUSED = "connection_refused"
    CONNECTION_RESET = "connection_reset"
    HOST_UNREACHABLE = "host_unreachable"
    TLS_FAILURE = "tls_failure"
    CERTIFICATE_INVALID = "certificate_invalid"
    PROXY_REFUSED = "proxy_refused"
    TARGET_REFUSED = "target_refused"
    SESSION_LOST = "session_lost"
    SESSION_ENDED = "session_ended"
    CREDENTIAL_REJECTED = "credential_rejected"
    TUNNEL_SILENT = "tunnel_silent"
    NOT_USABLE = "not_usable"
    BUSY = "busy"
    RESOURCE_EXHAUSTED = "resource_exhausted"
    PERMISSION_DENIED = "permission_denied"
    PROTOCOL_ERROR = "protocol_error"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    OTHER = "other"


class Stage(enum.StrEnum):
    """How far an attempt had come. Guests report all but `TLS` and `VERIFY`, which are the race's own."""

    START = "start"
    RESOLVE = "resolve"
    CONNECT = "connect"
    HANDSHAKE = "handshake"
    TLS = "tls"
    VERIFY = "verify"


class Severity(enum.StrEnum):
    """What a failure asks of the program that met it; the answer of `classify`. In rising order of gravity."""

    TRANSIENT = "transient"
    """Trying again later, or elsewhere, may work."""
    PERMANENT = "permanent"
    """Trying again without a change will fail again."""
    ENDED = "ended"
    """The session is over for good: a new one is needed, this one must not be used or renewed."""
    CREDENTIAL = "credential"
    """The credential was rejected: a new one is needed."""


_SEVERITY = {
    ErrorType.CREDENTIAL_REJECTED: Severity.CREDENTIAL,
    ErrorType.SESSION_ENDED: Severity.ENDED,
    ErrorType.CERTIFICATE_INVALID: Severity.PERMANENT,
    ErrorType.PERMISSION_DENIED: Severity.PERMANENT,
    ErrorType.PROTOCOL_ERROR: Severity.PERMANENT,
    ErrorType.PROXY_REFUSED: Severity.PERMANENT,
    ErrorType.TARGET_REFUSED: Severity.PERMANENT,
    ErrorType.CRASHED: Severity.PERMANENT,
}  # every other reason is transient

# First match first: SSLError is an OSError whose errno is OpenSSL's, and the event loops raise many of these
# without an errno.
_BY_CLASS: tuple[tuple[type[BaseException], ErrorType], ...] = (
    (ssl.SSLCertVerificationError, ErrorType.CERTIFICATE_INVALID),
    (ssl.SSLError, ErrorType.TLS_FAILURE),
    (socket.gaierror, ErrorType.DNS_FAILURE),
    (socket.herror, ErrorType.DNS_FAILURE),
    (TimeoutError, ErrorType.TIMEOUT),
    (ConnectionRefusedError, ErrorType.CONNECTION_REFUSED),
    (ConnectionResetError, ErrorType.CONNECTION_RESET),
    (ConnectionAbortedError, ErrorType.CONNECTION_RESET),
    (BrokenPipeError, ErrorType.CONNECTION_RESET),
    (PermissionError, ErrorType.PERMISSION_DENIED),
    (EOFError, ErrorType.CONNECTION_RESET),
    (MemoryError, ErrorType.RESOURCE_EXHAUSTED),
)

_BY_ERRNO = {
    errno.ENETRESET: ErrorType.CONNECTION_RESET,
    errno.EHOSTUNREACH: ErrorType.HOST_UNREACHABLE,
    errno.EHOSTDOWN: ErrorType.HOST_UNREACHABLE,
    errno.ENETUNREACH: ErrorType.HOST_UNREACHABLE,
    errno.ENETDOWN: ErrorType.HOST_UNREACHABLE,
    errno.EADDRNOTAVAIL: ErrorType.HOST_UNREACHABLE,
    errno.EAFNOSUPPORT: ErrorType.HOST_UNREACHABLE,
    errno.EMFILE: ErrorType.RESOURCE_EXHAUSTED,
    errno.ENFILE: ErrorType.RESOURCE_EXHAUSTED,
    errno.ENOBUFS: ErrorType.RESOURCE_EXHAUSTED,
    errno.ENOMEM: ErrorType.RESOURCE_EXHAUSTED,
}  # the others have a class of their own, above


def severity_of(kind: ErrorType) -> Severity:
    """Return what a failure for this reason asks of the program."""
    return _SEVERITY.get(kind, Severity.TRANSIENT)


def foreign(exc: BaseException) -> ErrorType | None:
    """Return the reason an error of Python's or anyio's gives by type or errno; `None` when it gives none."""
    for kind, reason in _BY_CLASS:
        if isinstance(exc, kind):
            return reason
    if isinstance(exc, anyio.EndOfStream | anyio.IncompleteRead):
        return ErrorType.CONNECTION_RESET
    if isinstance(exc, anyio.DelimiterNotFound):
        return ErrorType.PROTOCOL_ERROR
    return _BY_ERRNO.get(exc.errno or 0) if isinstance(exc, OSError) else None


def vague(exc: BaseException) -> ErrorType | None:
    """Return what such an error means if none of its causes says more; `None` if it means nothing even then."""
    if isinstance(exc, anyio.BrokenResourceError):  # anyio wraps the socket's own error in it
        return ErrorType.CONNECTION_RESET
    return ErrorType.OTHER if isinstance(exc, OSError) else None
