from __future__ import annotations

import copy
import errno
import inspect
import pickle
import socket
import ssl
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio
import pytest

from racer import errors
from racer.errors import (
    AllAttemptsFailed,
    AttemptTimeout,
    ConfigError,
    CredentialRejected,
    DialerClosed,
    DialError,
    DialTimeout,
    ErrorType,
    InvalidReport,
    InvalidTarget,
    LocalProtocolError,
    NetworkError,
    NoTransports,
    NotUsable,
    ProtocolError,
    ProxyRefused,
    RacerError,
    RecordedError,
    RemoteProtocolError,
    SessionEnded,
    SessionLost,
    Severity,
    Stage,
    TargetRefused,
    TransportBusy,
    TransportCrashed,
    TransportError,
    TunnelSilent,
    WrongLoop,
    classify,
    error_type_of,
)
from tests.racer.reports import failed as race
from tests.racer.reports import wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

TRANSIENT, PERMANENT = Severity.TRANSIENT, Severity.PERMANENT
ENDED, CREDENTIAL = Severity.ENDED, Severity.CREDENTIAL

# Everything a guest raises by name, with what it means.
KINDS: list[tuple[type[TransportError], ErrorType, Severity]] = [
    (NetworkError, ErrorType.OTHER, TRANSIENT),
    (AttemptTimeout, ErrorType.TIMEOUT, TRANSIENT),
    (ProxyRefused, ErrorType.PROXY_REFUSED, PERMANENT),
    (TargetRefused, ErrorType.TARGET_REFUSED, PERMANENT),
    (NotUsable, ErrorType.NOT_USABLE, TRANSIENT),
    (CredentialRejected, ErrorType.CREDENTIAL_REJECTED, CREDENTIAL),
    (SessionLost, ErrorType.SESSION_LOST, TRANSIENT),
    (SessionEnded, ErrorType.SESSION_ENDED, ENDED),
    (TunnelSilent, ErrorType.TUNNEL_SILENT, TRANSIENT),
    (TransportBusy, ErrorType.BUSY, TRANSIENT),
    (TransportCrashed, ErrorType.CRASHED, PERMANENT),
    (RecordedError, ErrorType.OTHER, TRANSIENT),
]

REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


class Wrapper(Exception):
    """Another library's error, which says nothing to racer."""


@contextmanager
def few_frames(number: int) -> Iterator[None]:
    """Let the block call no deeper than this."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + number)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def deep(bottom: BaseException, depth: int) -> BaseException:
    exc = bottom
    for _ in range(depth):
        exc = wrapped(Wrapper(), exc)
    return exc


# --- the tree -------------------------------------------------------------------------------


def test_every_error_hangs_on_one_root_and_stands_in_the_drawing() -> None:
    drawing = inspect.getdoc(errors) or ""
    found = {
        name: value
        for name in errors.__all__
        if isinstance(value := getattr(errors, name), type) and issubclass(value, BaseException)
    }
    assert found
    for name, kind in found.items():
        assert issubclass(kind, RacerError), name
        assert name in drawing, name


@pytest.mark.parametrize(
    ("kind", "also"),
    [
        (DialError, OSError),
        (AllAttemptsFailed, OSError),
        (DialTimeout, TimeoutError),
        (AttemptTimeout, TimeoutError),
        (InvalidTarget, ValueError),
        (InvalidTarget, ConfigError),
        (InvalidReport, ValueError),
        (WrongLoop, ConfigError),
        (DialerClosed, ConfigError),
    ],
)
def test_errors_are_also_what_callers_already_catch(
    kind: type[Exception], also: type[Exception]
) -> None:
    assert issubclass(kind, also)


def test_a_protocol_error_needs_somebody_to_blame() -> None:
    with pytest.raises(TypeError, match="LocalProtocolError or RemoteProtocolError"):
        ProtocolError("broken")
    assert str(RemoteProtocolError("§4.2: a length of 0")) == "§4.2: a length of 0"


@pytest.mark.parametrize(("kind", "reason", "severity"), KINDS)
def test_a_guests_error_says_its_reason_by_its_class(
    kind: type[TransportError], reason: ErrorType, severity: Severity
) -> None:
    exc = kind("what happened")
    assert (exc.error_type, exc.transport, exc.stage) == (reason, "", None)
    assert str(exc) == "what happened"
    assert error_type_of(exc) == reason
    assert classify(exc) == severity


@pytest.mark.parametrize("kind", [kind for kind, *_ in KINDS])
def test_the_table_of_kinds_is_complete_and_each_takes_the_facts(
    kind: type[TransportError],
) -> None:
    exc = kind("x", transport="soar", stage=Stage.HANDSHAKE, error_type=ErrorType.CONNECTION_RESET)
    assert (exc.transport, exc.stage, exc.error_type) == ("soar", "handshake", "connection_reset")
    assert set(TransportError.__subclasses__()) >= {kind for kind, *_ in KINDS}
    assert {k for k in vars(errors).values() if isinstance(k, type)} & set(
        TransportError.__subclasses__()
    ) == {kind for kind, *_ in KINDS}


def test_a_guest_may_give_plain_strings_and_learns_of_a_wrong_one_at_once() -> None:
    exc = NetworkError("x", stage="tls", error_type="dns_failure")  # type: ignore[arg-type]
    assert exc.stage is Stage.TLS
    assert exc.error_type is ErrorType.DNS_FAILURE
    with pytest.raises(ValueError, match="dns_fail"):
        NetworkError("x", error_type="dns_fail")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="moon"):
        NetworkError("x", stage="moon")  # type: ignore[arg-type]


# --- error_type_of and classify -------------------------------------------------------------


@pytest.mark.parametrize(
    ("exc", "reason", "severity"),
    [
        (REFUSED, ErrorType.CONNECTION_REFUSED, TRANSIENT),
        (ConnectionRefusedError(), ErrorType.CONNECTION_REFUSED, TRANSIENT),
        (OSError(errno.ECONNRESET, "reset"), ErrorType.CONNECTION_RESET, TRANSIENT),
        (ConnectionResetError("Connection lost"), ErrorType.CONNECTION_RESET, TRANSIENT),
        (ConnectionAbortedError("slow handshake"), ErrorType.CONNECTION_RESET, TRANSIENT),
        (BrokenPipeError(), ErrorType.CONNECTION_RESET, TRANSIENT),
        (OSError(errno.ENETRESET, "x"), ErrorType.CONNECTION_RESET, TRANSIENT),
        (EOFError(), ErrorType.CONNECTION_RESET, TRANSIENT),
        (OSError(errno.EHOSTUNREACH, "x"), ErrorType.HOST_UNREACHABLE, TRANSIENT),
        (OSError(errno.EHOSTDOWN, "x"), ErrorType.HOST_UNREACHABLE, TRANSIENT),
        (OSError(errno.ENETUNREACH, "x"), ErrorType.HOST_UNREACHABLE, TRANSIENT),
        (OSError(errno.EADDRNOTAVAIL, "x"), ErrorType.HOST_UNREACHABLE, TRANSIENT),
        (OSError(errno.ETIMEDOUT, "x"), ErrorType.TIMEOUT, TRANSIENT),
        (TimeoutError(), ErrorType.TIMEOUT, TRANSIENT),
        (OSError(errno.EMFILE, "x"), ErrorType.RESOURCE_EXHAUSTED, TRANSIENT),
        (OSError(errno.ENOBUFS, "x"), ErrorType.RESOURCE_EXHAUSTED, TRANSIENT),
        (MemoryError(), ErrorType.RESOURCE_EXHAUSTED, TRANSIENT),
        (OSError(errno.EPERM, "x"), ErrorType.PERMISSION_DENIED, PERMANENT),
        (PermissionError(), ErrorType.PERMISSION_DENIED, PERMANENT),
        (OSError(errno.ENOENT, "x"), ErrorType.OTHER, TRANSIENT),
        (OSError("words only"), ErrorType.OTHER, TRANSIENT),
        (socket.gaierror(socket.EAI_NONAME, "x"), ErrorType.DNS_FAILURE, TRANSIENT),
        (socket.gaierror(socket.EAI_AGAIN, "x"), ErrorType.DNS_FAILURE, TRANSIENT),
        (socket.herror(1, "x"), ErrorType.DNS_FAILURE, TRANSIENT),
        # OpenSSL's numbers are in errno: 1 would be EPERM, 8 would be ENOEXEC.
        (ssl.SSLError(1, "wrong version number"), ErrorType.TLS_FAILURE, TRANSIENT),
        (ssl.SSLEOFError(8, "EOF occurred"), ErrorType.TLS_FAILURE, TRANSIENT),
        (ssl.SSLCertVerificationError(1, "expired"), ErrorType.CERTIFICATE_INVALID, PERMANENT),
        (anyio.EndOfStream(), ErrorType.CONNECTION_RESET, TRANSIENT),
        (anyio.IncompleteRead(), ErrorType.CONNECTION_RESET, TRANSIENT),
        (anyio.BrokenResourceError(), ErrorType.CONNECTION_RESET, TRANSIENT),
        (anyio.DelimiterNotFound(9), ErrorType.PROTOCOL_ERROR, PERMANENT),
        (anyio.ClosedResourceError(), ErrorType.CRASHED, PERMANENT),
        (anyio.ConnectionFailed("x"), ErrorType.OTHER, TRANSIENT),
        (RemoteProtocolError("x"), ErrorType.PROTOCOL_ERROR, PERMANENT),
        (LocalProtocolError("x"), ErrorType.PROTOCOL_ERROR, PERMANENT),
        (ConfigError("x"), ErrorType.OTHER, PERMANENT),
        (InvalidTarget("x"), ErrorType.OTHER, PERMANENT),
        (NoTransports("x"), ErrorType.OTHER, PERMANENT),
        (RuntimeError("a bug"), ErrorType.CRASHED, PERMANENT),
        (KeyboardInterrupt(), ErrorType.CRASHED, PERMANENT),
    ],
    ids=repr,
)
def test_each_error_has_a_reason_and_a_severity(
    exc: BaseException, reason: ErrorType, severity: Severity
) -> None:
    assert error_type_of(exc) is reason
    assert classify(exc) is severity


def test_every_reason_has_a_severity() -> None:
    by_severity = {kind: classify(NetworkError("x", error_type=kind)) for kind in ErrorType}
    assert {k for k, v in by_severity.items() if v is CREDENTIAL} == {"credential_rejected"}
    assert {k for k, v in by_severity.items() if v is ENDED} == {"session_ended"}
    assert {k for k, v in by_severity.items() if v is PERMANENT} == {
        "certificate_invalid",
        "permission_denied",
        "protocol_error",
        "proxy_refused",
        "target_refused",
        "crashed",
    }


@pytest.mark.parametrize("depth", [1, 2, 3, 50])
@pytest.mark.parametrize(
    ("cause", "reason", "severity"),
    [
        (CredentialRejected("no"), ErrorType.CREDENTIAL_REJECTED, CREDENTIAL),
        (SessionEnded("over"), ErrorType.SESSION_ENDED, ENDED),
        (REFUSED, ErrorType.CONNECTION_REFUSED, TRANSIENT),
        (OSError("words only"), ErrorType.OTHER, TRANSIENT),
        (anyio.BrokenResourceError(), ErrorType.CONNECTION_RESET, TRANSIENT),
        (KeyError("bug"), ErrorType.CRASHED, PERMANENT),
    ],
    ids=repr,
)
def test_unknown_wrappers_defer_to_their_causes(
    cause: BaseException, reason: ErrorType, severity: Severity, depth: int
) -> None:
    exc = deep(cause, depth)
    assert error_type_of(exc) is reason
    assert classify(exc) is severity


def test_a_rejected_credential_is_seen_behind_a_fetch_error() -> None:
    # B6: two rejections, wrapped in what the HTTP layer calls a network fault.
    rejections = ExceptionGroup("both answers", [CredentialRejected("a"), CredentialRejected("b")])
    exc = wrapped(NetworkError("fetch failed"), wrapped(OSError("request failed"), rejections))
    assert classify(exc) is CREDENTIAL
    assert error_type_of(exc) is ErrorType.CREDENTIAL_REJECTED


def test_the_outermost_definite_reason_is_told_and_the_gravest_severity_decides() -> None:
    # The production case of an idle tunnel: the words are the guest's, whatever it was found out from.
    lost = wrapped(SessionLost("server lost the session"), TimeoutError())
    assert error_type_of(lost) is ErrorType.SESSION_LOST
    assert classify(lost) is TRANSIENT

    slow = wrapped(AttemptTimeout("30 s"), CredentialRejected("expired"))
    assert error_type_of(slow) is ErrorType.TIMEOUT
    assert classify(slow) is CREDENTIAL


def test_a_broken_stream_defers_to_the_sockets_own_error() -> None:
    timed_out = wrapped(anyio.BrokenResourceError(), OSError(errno.ETIMEDOUT, "x"))
    assert error_type_of(timed_out) is ErrorType.TIMEOUT


@pytest.mark.parametrize(
    ("members", "reason", "severity"),
    [
        ([REFUSED, TimeoutError()], ErrorType.CONNECTION_REFUSED, TRANSIENT),
        ([TimeoutError(), REFUSED], ErrorType.TIMEOUT, TRANSIENT),
        ([REFUSED, SessionEnded("x")], ErrorType.SESSION_ENDED, ENDED),
        (
            [REFUSED, deep(CredentialRejected("x"), 2)],
            ErrorType.CREDENTIAL_REJECTED,
            CREDENTIAL,
        ),
        ([REFUSED, PermissionError()], ErrorType.PERMISSION_DENIED, PERMANENT),
        (
            [SessionEnded("x"), PermissionError(), CredentialRejected("x")],
            ErrorType.CREDENTIAL_REJECTED,
            CREDENTIAL,
        ),
        ([OSError("vague")], ErrorType.OTHER, TRANSIENT),
        ([RuntimeError("bug"), OSError("vague")], ErrorType.OTHER, TRANSIENT),
        ([RuntimeError("bug")], ErrorType.CRASHED, PERMANENT),
    ],
)
def test_the_gravest_member_speaks_for_a_group(
    members: list[Exception], reason: ErrorType, severity: Severity
) -> None:
    group = ExceptionGroup("several", members)
    for exc in (group, ExceptionGroup("outer", [group]), wrapped(Wrapper(), group)):
        assert error_type_of(exc) is reason
        assert classify(exc) is severity


@pytest.mark.parametrize(
    ("causes", "severity"),
    [
        ([TimeoutError(), CredentialRejected("x")], TRANSIENT),
        ([PermissionError(), CredentialRejected("x")], CREDENTIAL),
        ([PermissionError(), SessionEnded("x")], ENDED),
        ([SessionEnded("x"), CredentialRejected("x")], CREDENTIAL),
        ([PermissionError(), RuntimeError("bug")], PERMANENT),
        ([deep(CredentialRejected("x"), 2), CredentialRejected("y")], CREDENTIAL),
        # Members of one attempt's group still count for that attempt, by the gravest.
        ([ExceptionGroup("g", [TimeoutError(), CredentialRejected("x")])], CREDENTIAL),
        ([], TRANSIENT),
    ],
)
def test_a_race_may_be_tried_again_if_any_of_its_attempts_may(
    causes: list[BaseException], severity: Severity
) -> None:
    exc = race(*causes)
    assert classify(exc) is severity
    assert classify(wrapped(Wrapper(), exc)) is severity
    assert classify(ExceptionGroup("task group", [exc])) is severity


def test_a_race_within_a_race_keeps_its_own_rule() -> None:
    open_route = race(TimeoutError(), CredentialRejected("x"))
    closed = race(CredentialRejected("x"))
    assert classify(race(open_route, PermissionError())) is TRANSIENT
    assert classify(race(closed, PermissionError())) is CREDENTIAL
    assert classify(race(wrapped(Wrapper(), open_route), closed)) is TRANSIENT


def test_a_race_that_ran_out_of_time_may_be_tried_again() -> None:
    exc = race(CredentialRejected("x"), None, kind=DialTimeout)
    assert classify(exc) is TRANSIENT
    assert error_type_of(exc) is ErrorType.TIMEOUT


def test_a_failed_race_tells_its_gravest_reason() -> None:
    shared_errno = wrapped(CredentialRejected("x"), OSError(errno.ECONNRESET, "reset"))
    exc = race(OSError(errno.ECONNRESET, "reset"), shared_errno)
    assert exc.errno == errno.ECONNRESET
    assert error_type_of(exc) is ErrorType.CREDENTIAL_REJECTED
    assert error_type_of(race(RuntimeError("bug"))) is ErrorType.CRASHED
    assert error_type_of(race(TimeoutError(), RuntimeError("bug"))) is ErrorType.CRASHED
    assert error_type_of(race(TimeoutError(), OSError("vague"))) is ErrorType.TIMEOUT


def test_circles_end() -> None:
    a, b = Wrapper("a"), Wrapper("b")
    a.__cause__, b.__cause__ = b, a
    assert error_type_of(a) is ErrorType.CRASHED
    assert classify(a) is PERMANENT
    assert race(a).errno is None

    members: list[Exception] = [REFUSED]
    group = ExceptionGroup("g", members)
    again = wrapped(OSError(), group)
    looped = ExceptionGroup("g", [again, wrapped(CredentialRejected("x"), again)])
    group.__cause__ = looped
    assert classify(looped) is CREDENTIAL
    assert error_type_of(looped) is ErrorType.CREDENTIAL_REJECTED
    assert race(looped).find(ConnectionRefusedError) is REFUSED

    within = race(a)
    a.__cause__ = within
    assert classify(within) is PERMANENT


def test_depth_costs_no_recursion() -> None:
    exc = deep(CredentialRejected("far down"), 4_000)
    assert classify(exc) is CREDENTIAL
    assert error_type_of(exc) is ErrorType.CREDENTIAL_REJECTED
    failed = race(exc, exc)
    assert isinstance(failed.find(CredentialRejected), CredentialRejected)
    assert failed.errno is None

    nested: DialError = race(OSError(errno.ECONNRESET, "x"))
    for _ in range(100):
        nested = race(nested, nested)  # 2**100 paths through 101 errors
    with few_frames(80):  # less than one for each level
        assert classify(nested) is TRANSIENT
        assert error_type_of(nested) is ErrorType.CONNECTION_RESET
        assert nested.errno == errno.ECONNRESET


def test_hostile_size_is_bounded() -> None:
    shared = deep(REFUSED, 3_000)  # 9 million steps if each path were walked on its own
    exc = ExceptionGroup("wide", [wrapped(Wrapper(), shared) for _ in range(3_000)])
    endless = deep(CredentialRejected("beyond what is looked at"), 100_000)
    assert classify(exc) is TRANSIENT
    assert error_type_of(exc) is ErrorType.CONNECTION_REFUSED
    assert classify(endless) is PERMANENT
    assert error_type_of(endless) is ErrorType.CRASHED


# --- races that failed ----------------------------------------------------------------------


def test_a_failed_race_names_every_entrant_in_order() -> None:
    exc = race(REFUSED, SessionLost("server lost the session"))
    assert str(exc) == (
        "every attempt to reach example.com:443 failed: "
        "t0: ConnectionRefusedError: [Errno 111] Connection refused; "
        "t1: SessionLost: server lost the session"
    )
    assert exc.group is exc.__cause__
    assert exc.group is not None
    assert exc.group.exceptions == (REFUSED, exc.report.attempts[1].error)
    assert exc.group.message == "2 failed attempts"
    assert "1 failed attempt " in str(race(REFUSED).group)

    late = race(TimeoutError(), None, kind=DialTimeout)
    assert str(late) == (
        "the deadline passed while dialing example.com:443: t0: TimeoutError; t1: not_started"
    )


def test_a_race_in_which_nothing_began_has_no_group() -> None:
    exc = race(None, None, kind=DialTimeout)
    assert exc.group is None
    assert exc.__cause__ is None
    assert exc.find(Exception) is None
    assert exc.errno is None
    assert classify(exc) is TRANSIENT


def test_find_looks_through_causes_groups_and_nested_races() -> None:
    bottom = SessionEnded("over")
    nested = race(ExceptionGroup("g", [wrapped(Wrapper(), bottom)]))
    exc = race(REFUSED, wrapped(Wrapper(), nested))
    assert exc.find(SessionEnded) is bottom
    assert exc.find(ConnectionRefusedError) is REFUSED
    assert exc.find(DialError) is nested
    assert exc.find(CredentialRejected) is None

    first, second = OSError("first"), OSError("second")
    assert race(first, second).find(OSError) is first


@pytest.mark.parametrize(
    ("causes", "number"),
    [
        ([REFUSED], errno.ECONNREFUSED),
        ([REFUSED, wrapped(NetworkError("x"), REFUSED)], errno.ECONNREFUSED),
        ([REFUSED, OSError(errno.ECONNRESET, "x")], None),
        ([REFUSED, RuntimeError("bug")], None),
        ([REFUSED, OSError("no number")], None),
        ([wrapped(OSError("all addresses"), ExceptionGroup("g", [REFUSED, REFUSED]))], 111),
        ([ExceptionGroup("g", [REFUSED, OSError(errno.ENETUNREACH, "x")])], None),
        ([wrapped(OSError(errno.EPIPE, "x"), REFUSED)], errno.EPIPE),
        ([socket.gaierror(socket.EAI_NONAME, "x")], None),
        ([socket.herror(1, "x")], None),
        ([ssl.SSLError(1, "x")], None),
        ([wrapped(ssl.SSLError(5, "x"), OSError(errno.EPIPE, "x"))], errno.EPIPE),
        ([], None),
    ],
)
def test_errno_is_set_when_all_agree(causes: list[BaseException], number: int | None) -> None:
    assert race(*causes).errno == number


# --- across borders -------------------------------------------------------------------------


def same_error(a: BaseException, b: BaseException) -> bool:
    return type(a) is type(b) and str(a) == str(b)


@pytest.mark.parametrize("kind", [kind for kind, *_ in KINDS])
@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))]
)
def test_a_guests_error_survives_copy_and_pickle(kind: type[TransportError], again: object) -> None:
    exc = kind("words", transport="soar", stage=Stage.TLS, error_type=ErrorType.BUSY)
    exc.add_note("a note")
    back = again(exc)  # type: ignore[operator]
    assert same_error(back, exc)
    assert (back.transport, back.stage, back.error_type) == ("soar", Stage.TLS, ErrorType.BUSY)
    assert back.__notes__ == ["a note"]


def test_facts_of_their_own_survive_too() -> None:
    refused = pickle.loads(pickle.dumps(ProxyRefused("no", code=5)))
    assert refused.code == 5
    recorded = pickle.loads(pickle.dumps(RecordedError("words", "SomeError")))
    assert (str(recorded), recorded.type_name) == ("words", "SomeError")
    none = pickle.loads(pickle.dumps(NoTransports("nothing", race().report)))
    assert none.report == race().report
    assert same_error(
        pickle.loads(pickle.dumps(RemoteProtocolError("x"))), RemoteProtocolError("x")
    )
    assert same_error(pickle.loads(pickle.dumps(InvalidTarget("x"))), InvalidTarget("x"))


class NeedsTwo(Exception):
    """Pickles, and then cannot be unpickled: the trap that breaks a whole process pool."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"cannot reach {host} at {port}")


class Doubles(Exception):
    """Unpickles to other words than it had."""

    def __init__(self, host: str) -> None:
        super().__init__(f"cannot reach {host}")


class HoldsALock(Exception):
    def __init__(self) -> None:
        super().__init__("locked")
        self.lock = threading.Lock()


@pytest.mark.parametrize("kind", [AllAttemptsFailed, DialTimeout, DialError])
def test_a_failed_race_crosses_a_process_border_whole(kind: type[DialError]) -> None:
    exc = race(
        REFUSED,
        wrapped(NetworkError("handshake failed", stage=Stage.TLS), wrapped(OSError("x"), REFUSED)),
        wrapped(NeedsTwo("h", 1), CredentialRejected("no")),
        Doubles("h"),
        HoldsALock(),
        wrapped(Wrapper("w"), ExceptionGroup("g", [SessionEnded("over")])),
        race(SessionLost("server lost the session")),
        None,
        kind=kind,
    )
    exc.add_note("a note")
    back = pickle.loads(pickle.dumps(exc))
    assert same_error(back, exc)
    assert back.report == exc.report
    assert back.__notes__ == ["a note"]
    assert back.find(CredentialRejected) is not None
    assert back.find(SessionEnded) is not None
    assert back.find(SessionLost) is not None
    assert classify(back) == classify(exc)
    assert error_type_of(back) == error_type_of(exc)
    types = [type(a.error).__name__ for a in back.report.attempts]
    assert types[2:5] == ["RecordedError"] * 3
    assert [a.cause for a in back.report.attempts] == [a.cause for a in exc.report.attempts]
    assert back.errno == exc.errno
    assert pickle.loads(pickle.dumps(race(REFUSED, REFUSED))).errno == errno.ECONNREFUSED


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy])
def test_a_copied_race_keeps_its_very_causes(again: object) -> None:
    exc = race(NeedsTwo("h", 1))
    back = again(exc)  # type: ignore[operator]
    assert same_error(back, exc)
    assert back.report.attempts[0].error is exc.report.attempts[0].error


def test_causes_in_a_circle_can_be_pickled() -> None:
    a, b = Wrapper("a"), Wrapper("b")
    a.__cause__, b.__cause__ = b, a
    assert str(pickle.loads(pickle.dumps(race(a)))) == str(race(a))
    long = race(deep(REFUSED, 10_000))
    assert str(pickle.loads(pickle.dumps(long))) == str(long)
