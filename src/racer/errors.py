"""Every error racer raises, and what a program should make of one.

RacerError
 ├─ ConfigError                 the caller's mistake, found before any IO
 │   ├─ InvalidTarget           (also ValueError) a host, port or TLS wish that cannot be dialed
 │   ├─ InvalidReport           (also ValueError) text that is not a race report
 │   ├─ WrongLoop               a dialer used from another event loop, thread or forked child
 │   └─ DialerClosed            a dialer used after its end, or ended under a dial
 ├─ NoTransports                nothing installed, or nothing that serves this target
 ├─ DialError                   (also OSError) a race without a winner: .report .group .find()
 │   ├─ AllAttemptsFailed
 │   └─ DialTimeout             (also TimeoutError)
 ├─ TransportError              raised by guests: .transport .stage .error_type
 │   ├─ NetworkError            the path failed
 │   ├─ AttemptTimeout          (also TimeoutError)
 │   ├─ ProxyRefused            a proxy said no: .code
 │   ├─ TargetRefused           the far end of a tunnel may not, or could not, reach the target
 │   ├─ NotUsable               a stream came, and did not do
 │   ├─ CredentialRejected
 │   ├─ SessionLost  SessionEnded  TunnelSilent
 │   ├─ TransportBusy           at its limit of simultaneous attempts or lookups
 │   └─ TransportCrashed        a bug in a guest
 └─ ProtocolError               abstract: whose fault was it
     ├─ LocalProtocolError      ours
     └─ RemoteProtocolError     the peer's
"""

from __future__ import annotations

import enum
import errno
import socket
import ssl
from typing import TYPE_CHECKING, ClassVar, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from racer._report import RaceReport

__all__ = (
    "AllAttemptsFailed",
    "AttemptTimeout",
    "ConfigError",
    "CredentialRejected",
    "DialError",
    "DialTimeout",
    "DialerClosed",
    "ErrorType",
    "InvalidReport",
    "InvalidTarget",
    "LocalProtocolError",
    "NetworkError",
    "NoTransports",
    "NotUsable",
    "ProtocolError",
    "ProxyRefused",
    "RacerError",
    "RemoteProtocolError",
    "SessionEnded",
    "SessionLost",
    "Severity",
    "Stage",
    "TargetRefused",
    "TransportBusy",
    "TransportCrashed",
    "TransportError",
    "TunnelSilent",
    "WrongLoop",
    "classify",
    "error_type_of",
)

_E = TypeVar("_E", bound=BaseException)

# Walks over causes and groups stop here: chains are short, and a hostile or circular one must not cost more.
_MAX_CAUSES = 1000


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
    """What a failure asks of the program that met it; the answer of `classify`."""

    TRANSIENT = "transient"
    """Trying again later, or elsewhere, may work."""
    PERMANENT = "permanent"
    """Trying again without a change will fail again."""
    ENDED = "ended"
    """The session is over for good: a new one is needed, this one must not be used or renewed."""
    CREDENTIAL = "credential"
    """The credential was rejected: a new one is needed."""


class RacerError(Exception):
    """The root of every error that racer raises on purpose."""


class ConfigError(RacerError):
    """The caller asked for something that cannot be, said before any IO."""


class InvalidTarget(ConfigError, ValueError):
    """A host, port or TLS wish that cannot be dialed; the text says which part, and why."""


class InvalidReport(ConfigError, ValueError):
    """Text that is not a race report, or one of a version this racer does not read."""


class WrongLoop(ConfigError):
    """A dialer was used from another event loop, thread or process than the one it is bound to (R18)."""


class DialerClosed(ConfigError):
    """A dialer was used after `aclose()`, or was closed while this dial was under way."""


class NoTransports(RacerError):
    """Nothing could even start: no transport is installed, or none serves the target.

    Attributes:
        report: the race as data when there were entrants, each `ineligible`; else `None`.
    """

    def __init__(self, message: str, report: RaceReport | None = None) -> None:
        """Keep the report beside the words."""
        super().__init__(message)
        self.report = report


class DialError(RacerError, OSError):
    """A race that ended without a winner; its text names every entrant and its cause.

    Attributes:
        report: the race as data, one `Attempt` for every entrant, in start order.
        group: the causes as an `ExceptionGroup`, in start order; also `__cause__`. `None` only when no attempt
            had begun.
        errno: set when the causes of all failed attempts agree on it.
    """

    _headline: ClassVar[str] = "could not connect to {target}"

    def __init__(self, report: RaceReport) -> None:
        """Build text, group and errno from the report."""
        super().__init__(report.explain(self._headline.format(target=report.target)))
        self.report = report
        errors = [a.error for a in report.attempts if isinstance(a.error, Exception)]
        self.group: ExceptionGroup[Exception] | None = (
            ExceptionGroup(f"{len(errors)} failed attempts", errors) if errors else None
        )
        self.__cause__ = self.group
        numbers = {_errno_of(error) for error in errors}
        if len(numbers) == 1:
            self.errno = numbers.pop()

    def find(self, kind: type[_E]) -> _E | None:
        """Return the first error of `kind` among the causes, looking through causes and groups; else `None`."""
        if self.group is None:
            return None
        return next((exc for exc in _walk(self.group) if isinstance(exc, kind)), None)

    def __reduce__(self) -> tuple[type[DialError], tuple[RaceReport]]:
        """Let the error cross a process border: everything follows from the report."""
        return type(self), (self.report,)


class AllAttemptsFailed(DialError):
    """Every entrant failed (R13)."""

    _headline = "every attempt to reach {target} failed"


class DialTimeout(DialError, TimeoutError):
    """The deadline of the whole race passed (R14): what was running is `timed_out`, what never began `not_started`."""

    _headline = "the deadline passed while dialing {target}"


class TransportError(RacerError):
    """A guest's failure.

    Args:
        message: what happened, in words, without secrets.
        transport: the entrant's name; the race fills it in where the guest left it empty.
        stage: how far the attempt had come; likewise.
        error_type: the reason from the closed list; by default the class's own.
    """

    default_error_type: ClassVar[ErrorType] = ErrorType.OTHER

    def __init__(
        self,
        message: str,
        *,
        transport: str = "",
        stage: Stage | None = None,
        error_type: ErrorType | None = None,
    ) -> None:
        """Keep the facts beside the words."""
        super().__init__(message)
        self.transport = transport
        self.stage = stage
        self.error_type = error_type or self.default_error_type


class NetworkError(TransportError):
    """The path to the peer failed; `error_type` says how."""


class AttemptTimeout(TransportError, TimeoutError):
    """An attempt was not usable within its own time, or within the race's."""

    default_error_type = ErrorType.TIMEOUT


class ProxyRefused(TransportError):
    """A proxy answered, and said no; `code` is its own reply code or status, `None` if it gave none."""

    default_error_type = ErrorType.PROXY_REFUSED

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        transport: str = "",
        stage: Stage | None = None,
        error_type: ErrorType | None = None,
    ) -> None:
        """Keep the reply code beside the words."""
        super().__init__(message, transport=transport, stage=stage, error_type=error_type)
        self.code = code


class TargetRefused(TransportError):
    """The far end of a tunnel works, and will not or cannot reach the target."""

    default_error_type = ErrorType.TARGET_REFUSED


class NotUsable(TransportError):
    """A stream came, and failed what was asked of it: `check`, or proof of its own TLS."""

    default_error_type = ErrorType.NOT_USABLE


class CredentialRejected(TransportError):
    """The peer rejected the credential; trying again with the same one is pointless."""

    default_error_type = ErrorType.CREDENTIAL_REJECTED


class SessionLost(TransportError):
    """The server no longer knows the session."""

    default_error_type = ErrorType.SESSION_LOST


class SessionEnded(TransportError):
    """The server ended the session for good; a new session is needed."""

    default_error_type = ErrorType.SESSION_ENDED


class TunnelSilent(TransportError):
    """A tunnel asked and asked, and nothing authentic came back."""

    default_error_type = ErrorType.TUNNEL_SILENT


class TransportBusy(TransportError):
    """The transport is at its own limit of simultaneous work; nothing was sent."""

    default_error_type = ErrorType.BUSY


class TransportCrashed(TransportError):
    """A bug in a guest: it gave no stream, ended without an answer, or broke its contract (R15)."""

    default_error_type = ErrorType.CRASHED


class ProtocolError(RacerError):
    """A protocol's rules were broken; abstract, since the first question is whose fault it was."""

    def __init__(self, message: str) -> None:
        """Refuse to be raised without blame."""
        if type(self) is ProtocolError:
            msg = "ProtocolError is abstract: raise LocalProtocolError or RemoteProtocolError"
            raise TypeError(msg)
        super().__init__(message)


class LocalProtocolError(ProtocolError):
    """Our side misused the protocol: a bug in the program."""


class RemoteProtocolError(ProtocolError):
    """The peer broke the protocol's rules."""


_BY_ERRNO = {
    errno.ECONNREFUSED: ErrorType.CONNECTION_REFUSED,
    errno.ECONNRESET: ErrorType.CONNECTION_RESET,
    errno.ECONNABORTED: ErrorType.CONNECTION_RESET,
    errno.EPIPE: ErrorType.CONNECTION_RESET,
    errno.EHOSTUNREACH: ErrorType.HOST_UNREACHABLE,
    errno.ENETUNREACH: ErrorType.HOST_UNREACHABLE,
    errno.ENETDOWN: ErrorType.HOST_UNREACHABLE,
    errno.EADDRNOTAVAIL: ErrorType.HOST_UNREACHABLE,
    errno.EAFNOSUPPORT: ErrorType.HOST_UNREACHABLE,
    errno.ETIMEDOUT: ErrorType.TIMEOUT,
    errno.EMFILE: ErrorType.RESOURCE_EXHAUSTED,
    errno.ENFILE: ErrorType.RESOURCE_EXHAUSTED,
    errno.ENOBUFS: ErrorType.RESOURCE_EXHAUSTED,
    errno.ENOMEM: ErrorType.RESOURCE_EXHAUSTED,
    errno.EACCES: ErrorType.PERMISSION_DENIED,
    errno.EPERM: ErrorType.PERMISSION_DENIED,
}

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

_RANK = (Severity.TRANSIENT, Severity.PERMANENT, Severity.ENDED, Severity.CREDENTIAL)


def error_type_of(exc: BaseException) -> ErrorType:
    """Return the reason from the closed list that fits `exc` best, looking through causes and groups.

    The outermost error that says anything definite is believed; an error that says nothing of its own (an unknown
    wrapper) is asked for its causes. An exception nothing is known about is `crashed`, a bare `OSError` is `other`.
    """
    for found in _walk(exc):
        if (kind := _own_error_type(found)) is not None:
            return kind
    return ErrorType.OTHER if isinstance(exc, OSError | RacerError) else ErrorType.CRASHED


def classify(exc: BaseException) -> Severity:
    """Return what `exc` asks of the program: `transient`, `permanent`, `ended` or `credential` (R16).

    Causes and groups are looked through, the gravest wins (credential > ended > permanent > transient), except that a
    race without a winner is `transient` if any of its attempts was: another try may find that route open.
    """
    return _classify(exc, _MAX_CAUSES)


def _classify(exc: BaseException, budget: int) -> Severity:
    if isinstance(exc, DialError) and exc.group is not None and budget > 0:
        children = [_classify(child, budget // 2) for child in exc.group.exceptions]
        return (
            Severity.TRANSIENT if Severity.TRANSIENT in children else max(children, key=_RANK.index)
        )
    found = [
        # A race inside a group or behind a cause keeps its own rule.
        _classify(inner, budget // 2) if isinstance(inner, DialError) and budget > 0 else severity
        for inner in _walk(exc, into_races=False)
        if (severity := _own_severity(inner)) is not None
    ]
    if found:
        return max(found, key=_RANK.index)
    return Severity.TRANSIENT if isinstance(exc, OSError | RacerError) else Severity.PERMANENT


def _own_severity(exc: BaseException) -> Severity | None:
    """Return what `exc` says by itself; `None` when it says nothing."""
    if isinstance(exc, ConfigError | NoTransports):
        return Severity.PERMANENT
    if isinstance(exc, DialError):
        return Severity.TRANSIENT
    kind = _own_error_type(exc)
    if kind is None:
        return None
    return _SEVERITY.get(kind, Severity.TRANSIENT)


def _own_error_type(exc: BaseException) -> ErrorType | None:  # noqa: PLR0911 - a table in code, one row a line
    """Return the reason `exc` gives by its type or errno alone; `None` when it gives none."""
    match exc:
        case TransportError():
            return None if exc.error_type is ErrorType.OTHER else exc.error_type
        case ProtocolError():
            return ErrorType.PROTOCOL_ERROR
        case DialError():
            return None
        # SSLError is an OSError whose errno is OpenSSL's: it has to be asked first.
        case ssl.SSLCertVerificationError():
            return ErrorType.CERTIFICATE_INVALID
        case ssl.SSLError():
            return ErrorType.TLS_FAILURE
        case socket.gaierror() | socket.herror():
            return ErrorType.DNS_FAILURE
        case TimeoutError():
            return ErrorType.TIMEOUT
        case OSError():
            return _BY_ERRNO.get(exc.errno or 0)
        case anyio.EndOfStream() | anyio.IncompleteRead():
            return ErrorType.CONNECTION_RESET
        case anyio.BrokenResourceError():
            # anyio wraps the socket's own error in it, which knows better.
            return None if exc.__cause__ is not None else ErrorType.CONNECTION_RESET
        case MemoryError():
            return ErrorType.RESOURCE_EXHAUSTED
        case _:
            return None


def _errno_of(exc: BaseException) -> int | None:
    """Return the first errno among `exc` and its causes that is the operating system's own."""
    for found in _walk(exc):
        if (
            isinstance(found, OSError)
            and not isinstance(found, ssl.SSLError | socket.gaierror)
            and found.errno
        ):
            return found.errno
    return None


def _walk(exc: BaseException, *, into_races: bool = True) -> Iterator[BaseException]:
    """Yield `exc`, then what it was raised from and what it groups, outermost first, each once, bounded."""
    queue: list[BaseException] = [exc]
    seen: set[int] = set()
    while queue and len(seen) < _MAX_CAUSES:
        current = queue.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        if isinstance(current, DialError) and not into_races:
            continue
        if isinstance(current, BaseExceptionGroup):
            queue.extend(current.exceptions)
        if current.__cause__ is not None:
            queue.append(current.__cause__)
