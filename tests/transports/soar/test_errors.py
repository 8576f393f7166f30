"""Every end of the core's as an error of racer's, with the right blame."""

from __future__ import annotations

import pytest

from racer.errors import (
    CredentialRejected,
    ErrorType,
    NetworkError,
    NotUsable,
    SessionEnded,
    SessionLost,
    Severity,
    Stage,
    TargetRefused,
    TransportBusy,
    TunnelSilent,
    classify,
)
from transports.soar._errors import error_of, reset_error
from transports.soar.core.client.reasons import (
    EndReason,
    Failure,
    of_end,
    of_refusal,
    of_status,
)
from transports.soar.core.crypto.notices import EndCode
from transports.soar.core.crypto.terms import Status
from transports.soar.core.streams.frames import RefusalReason

TRANSIENT, PERMANENT = Severity.TRANSIENT, Severity.PERMANENT


def of(failure: Failure) -> EndReason:
    return EndReason(failure=failure, words="so it is")


@pytest.mark.parametrize(
    ("reason", "kind", "error_type", "severity"),
    [
        (of(Failure.SILENT), TunnelSilent, ErrorType.TUNNEL_SILENT, TRANSIENT),
        (of(Failure.UNUSABLE), NotUsable, ErrorType.NOT_USABLE, TRANSIENT),
        (of(Failure.BUSY), TransportBusy, ErrorType.BUSY, TRANSIENT),
        (of(Failure.PROTOCOL), NetworkError, ErrorType.PROTOCOL_ERROR, PERMANENT),
        (of(Failure.RESET), NetworkError, ErrorType.CONNECTION_RESET, TRANSIENT),
        (of(Failure.CLOSED), SessionEnded, ErrorType.SESSION_ENDED, Severity.ENDED),
        (of(Failure.RETIRED), SessionLost, ErrorType.SESSION_LOST, TRANSIENT),
        (of_end(EndCode.UNKNOWN), SessionLost, ErrorType.SESSION_LOST, TRANSIENT),
        (of_end(EndCode.OPERATOR), SessionEnded, ErrorType.SESSION_ENDED, Severity.ENDED),
        (of_end(EndCode.REVOKED), SessionEnded, ErrorType.SESSION_ENDED, Severity.ENDED),
        (
            of_status(Status.GRANT_REJECTED),
            CredentialRejected,
            ErrorType.CREDENTIAL_REJECTED,
            Severity.CREDENTIAL,
        ),
    ],
    ids=str,
)
def test_each_end_is_an_error(
    reason: EndReason, kind: type[Exception], error_type: ErrorType, severity: Severity
) -> None:
    error = error_of(reason, stage=Stage.HANDSHAKE)
    assert type(error) is kind
    assert (error.error_type, error.stage, str(error)) == (
        error_type,
        Stage.HANDSHAKE,
        reason.words,
    )
    assert classify(error) is severity
    assert error.__cause__ is None  # it would be asked in the error's place


@pytest.mark.parametrize("failure", Failure)
def test_no_end_is_without_an_error(failure: Failure) -> None:
    assert str(error_of(of(failure))) == "so it is"


@pytest.mark.parametrize(
    ("refusal", "error_type"),
    [
        (RefusalReason.POLICY, ErrorType.PROXY_REFUSED),
        (RefusalReason.CONNECTION_REFUSED, ErrorType.CONNECTION_REFUSED),
        (RefusalReason.UNREACHABLE, ErrorType.HOST_UNREACHABLE),
        (RefusalReason.TIMED_OUT, ErrorType.TIMEOUT),
        (RefusalReason.NAME_NOT_FOUND, ErrorType.DNS_FAILURE),
        (RefusalReason.TOO_MANY_STREAMS, ErrorType.BUSY),
        (RefusalReason.NOT_AN_ADDRESS, ErrorType.TARGET_REFUSED),
        (RefusalReason.GRANT, ErrorType.PROXY_REFUSED),
        (RefusalReason.INTERNAL, ErrorType.TARGET_REFUSED),
        (200, ErrorType.TARGET_REFUSED),  # of a newer server
    ],
)
def test_a_refusal_says_what_the_server_met(refusal: int, error_type: ErrorType) -> None:
    error = error_of(of_refusal(refusal), stage=Stage.CONNECT)
    assert type(error) is TargetRefused
    assert (error.error_type, error.stage) == (error_type, Stage.CONNECT)


@pytest.mark.parametrize(
    ("failure", "told"), [(Failure.LOST, True), (Failure.SILENT, True), (Failure.REFUSED, False)]
)
def test_whether_the_target_may_have_got_it_is_told(failure: Failure, told: bool) -> None:
    reason = EndReason(failure=failure, words="gone", may_have_reached=True)
    assert ("may have reached the target" in str(error_of(reason))) is told
    unsent = EndReason(failure=failure, words="gone", may_have_reached=False)
    assert str(error_of(unsent)) == "gone"


def test_a_reset_names_its_code() -> None:
    error = reset_error(2)
    assert error.error_type is ErrorType.CONNECTION_RESET
    assert "(code 2)" in str(error)
