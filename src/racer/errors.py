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
 │   ├─ TransportCrashed        a bug in a guest
 │   └─ RecordedError           read back from a report: .type_name
 └─ ProtocolError               abstract: whose fault was it
     ├─ LocalProtocolError      ours
     └─ RemoteProtocolError     the peer's
"""

from __future__ import annotations

import socket
import ssl
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from racer._reasons import ErrorType, Severity, Stage, foreign, severity_of, vague

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from racer._explain import Explanation
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
    "RecordedError",
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
_T = TypeVar("_T")
_Reason = tuple[int, int, ErrorType]
"""How sure it is, how grave, and which."""

# Walks over causes and groups stop here: real ones are short, and a hostile one must not cost more.
_MAX_CAUSES = 20_000


class RacerError(Exception):
    """The root of every error that racer raises on purpose."""


class ConfigError(RacerError):
    """The caller asked for something that cannot be, said before any IO.

    Attributes:
        problems: where it is about a configuration file, each thing that is wrong with it, as `FILE:LINE: key: reason`.
    """

    problems: tuple[str, ...] = ()


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
        plural = "" if len(errors) == 1 else "s"
        self.group: ExceptionGroup[Exception] | None = (
            ExceptionGroup(f"{len(errors)} failed attempt{plural}", errors) if errors else None
        )
        self.__cause__ = self.group
        self.errno = _agreed_errno(self.group) if self.group else None

    def find(self, kind: type[_E]) -> _E | None:
        """Return the first error of `kind` among the causes, outermost first and in start order; else `None`."""
        if self.group is None:
            return None
        return next((exc for exc in _walk(self.group) if isinstance(exc, kind)), None)

    def explain(self) -> Explanation:
        """Return in plain words what happened to each attempt, what is most likely wrong, and what to try."""
        from racer._explain import explain  # noqa: PLC0415 - it stands upon the errors

        return explain(self.report)

    def __reduce__(self) -> tuple[Any, ...]:
        """Let the error cross a process border: everything but its notes follows from the report."""
        notes = getattr(self, "__notes__", None)
        return type(self), (self.report,), {"__notes__": list(notes)} if notes else None


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
        # Both by value, so that a guest's plain string serves, and an unknown one shows at once.
        self.stage = None if stage is None else Stage(stage)
        self.error_type = self.default_error_type if error_type is None else ErrorType(error_type)


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


class RecordedError(TransportError):
    """An error known by its words only: read back from a report, or unable to cross a process border itself.

    Attributes:
        type_name: the name of the type the error had.
    """

    def __init__(
        self,
        message: str,
        type_name: str = "RecordedError",
        *,
        transport: str = "",
        stage: Stage | None = None,
        error_type: ErrorType | None = None,
    ) -> None:
        """Keep the name beside the words."""
        super().__init__(message, transport=transport, stage=stage, error_type=error_type)
        self.type_name = type_name


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


_GRAVITY = tuple(Severity).index


def error_type_of(exc: BaseException) -> ErrorType:
    """Return the reason from the closed list that fits `exc` best, looking through causes and groups.

    An error that says something definite is believed, whatever it was raised from. One that says nothing of its own,
    such as an unknown wrapper, is asked for its causes and members, of which the gravest speaks (as in `classify`; the
    first of equals). Where nothing is known it is `other` if an `OSError` or one of racer's own is among them, else
    `crashed`.
    """
    reason = _fold(exc, _reason)
    return ErrorType.CRASHED if reason is None else reason[2]


def classify(exc: BaseException) -> Severity:
    """Return what `exc` asks of the program: `transient`, `permanent`, `ended` or `credential` (R16).

    Causes and groups are looked through, the gravest wins (credential > ended > permanent > transient), except that a
    race without a winner is `transient` if any of its attempts was: another try may find that route open. So is one
    whose deadline passed, since something had not been tried to its end.
    """
    return _fold(exc, _severity) or Severity.PERMANENT


def _fold(
    exc: BaseException, answer: Callable[[BaseException, list[_T | None]], _T | None]
) -> _T | None:
    """Return `answer` for `exc`, given its answers for what `exc` holds, and so on down.

    Without recursion, and each error once: a chain may be deep, and many groups may share it.
    """
    answers: dict[int, _T | None] = {}
    todo = [(exc, False)]
    while todo:
        found, complete = todo.pop()
        if complete:
            inner = [answers.get(id(child)) for child in _inside(found)]
            answers[id(found)] = answer(found, inner)
        elif id(found) not in answers and len(answers) < _MAX_CAUSES:
            answers[id(found)] = None  # under way: a circle adds nothing
            todo.append((found, True))
            todo.extend((child, False) for child in _inside(found))
    return answers[id(exc)]


def _reason(exc: BaseException, inner: list[_Reason | None]) -> _Reason | None:
    if (kind := _own_error_type(exc)) is not None:
        return 2, _GRAVITY(severity_of(kind)), kind
    if isinstance(exc, DialError):
        crashed = (2, _GRAVITY(Severity.PERMANENT), ErrorType.CRASHED)  # R15
        inner = [reason or crashed for reason in inner]
    hint = _hint(exc)
    own = None if hint is None else (int(hint is not ErrorType.OTHER), 0, hint)
    known = [reason for reason in (own, *inner) if reason is not None]
    return max(known, key=lambda reason: reason[:2], default=None)


def _severity(exc: BaseException, inner: list[Severity | None]) -> Severity | None:
    if isinstance(exc, DialTimeout):
        return Severity.TRANSIENT
    if isinstance(exc, DialError) and inner:
        # An attempt's error that nothing is known about is a bug in the guest (R15).
        attempts = [severity or Severity.PERMANENT for severity in inner]
        if Severity.TRANSIENT in attempts:
            return Severity.TRANSIENT
        return max(attempts, key=_GRAVITY)
    said = [severity for severity in (_own_severity(exc), *inner) if severity is not None]
    return max(said, key=_GRAVITY, default=None)


def _own_severity(exc: BaseException) -> Severity | None:
    """Return what `exc` says by itself; `None` when it says nothing."""
    if isinstance(exc, ConfigError | NoTransports):
        return Severity.PERMANENT
    kind = _own_error_type(exc) or _hint(exc)
    return None if kind is None else severity_of(kind)


def _own_error_type(exc: BaseException) -> ErrorType | None:
    """Return the reason `exc` gives by itself; `None` when it gives none."""
    if isinstance(exc, TransportError):
        return None if exc.error_type is ErrorType.OTHER else exc.error_type
    if isinstance(exc, ProtocolError):
        return ErrorType.PROTOCOL_ERROR
    if isinstance(exc, DialError) and not isinstance(exc, DialTimeout):
        return None  # its attempts know better than the errno they share
    return foreign(exc)


def _hint(exc: BaseException) -> ErrorType | None:
    """Return what `exc` means if none of its causes says anything."""
    return ErrorType.OTHER if isinstance(exc, RacerError) else vague(exc)


def _agreed_errno(exc: BaseException) -> int | None:
    """Return the errno that everything at the bottom of `exc` has; `None` if one has another or none."""
    numbers: set[int | None] = set()
    seen: set[int] = set()
    todo = [exc]
    while todo and len(seen) < _MAX_CAUSES:
        found = todo.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        inner = _inside(found)
        if (number := _os_errno(found)) is not None or not inner:
            numbers.add(number)
        else:
            todo.extend(inner)
    return numbers.pop() if len(numbers) == 1 else None


def _os_errno(exc: BaseException) -> int | None:
    """Return the errno of `exc` if it is the operating system's; OpenSSL and the resolver number differently."""
    if not isinstance(exc, OSError) or isinstance(
        exc, ssl.SSLError | socket.gaierror | socket.herror
    ):
        return None
    return exc.errno or None


def _walk(exc: BaseException) -> Iterator[BaseException]:
    """Yield `exc`, then what it was raised from and what it groups, outermost first, each once, bounded."""
    queue = deque([exc])
    seen: set[int] = set()
    while queue and len(seen) < _MAX_CAUSES:
        current = queue.popleft()
        if id(current) not in seen:
            seen.add(id(current))
            yield current
            queue.extend(_inside(current))


def _inside(exc: BaseException) -> tuple[BaseException, ...]:
    """Return what `exc` groups and what it was raised from."""
    if isinstance(exc, DialError):
        return () if exc.group is None else exc.group.exceptions
    inner = exc.exceptions if isinstance(exc, BaseExceptionGroup) else ()
    return inner if exc.__cause__ is None else (*inner, exc.__cause__)
