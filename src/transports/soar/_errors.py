"""The core's reasons as the errors of racer."""

from __future__ import annotations

from typing import Final

from racer.errors import (
    CredentialRejected,
    ErrorType,
    NetworkError,
    NotUsable,
    SessionEnded,
    SessionLost,
    Stage,
    TargetRefused,
    TransportBusy,
    TransportError,
    TunnelSilent,
)
from transports.soar.core.client.reasons import EndReason, Failure
from transports.soar.core.streams.frames import RefusalReason

__all__ = ("error_of", "reset_error")

_MAY_HAVE_REACHED: Final = "; what was sent may have reached the target"

_REFUSALS: Final = {
    RefusalReason.POLICY: ErrorType.PROXY_REFUSED,
    RefusalReason.CONNECTION_REFUSED: ErrorType.CONNECTION_REFUSED,
    RefusalReason.UNREACHABLE: ErrorType.HOST_UNREACHABLE,
    RefusalReason.TIMED_OUT: ErrorType.TIMEOUT,
    RefusalReason.NAME_NOT_FOUND: ErrorType.DNS_FAILURE,
    RefusalReason.TOO_MANY_STREAMS: ErrorType.BUSY,
    RefusalReason.NOT_AN_ADDRESS: ErrorType.TARGET_REFUSED,
    RefusalReason.GRANT: ErrorType.PROXY_REFUSED,
    RefusalReason.INTERNAL: ErrorType.TARGET_REFUSED,
}

_CLASSES: Final[dict[Failure, type[TransportError]]] = {
    Failure.SILENT: TunnelSilent,
    Failure.LOST: SessionLost,
    Failure.ENDED: SessionEnded,
    Failure.CREDENTIAL: CredentialRejected,
    Failure.UNUSABLE: NotUsable,
    Failure.BUSY: TransportBusy,
    Failure.CLOSED: SessionEnded,
    Failure.RETIRED: SessionLost,
}


def error_of(reason: EndReason, *, stage: Stage | None = None) -> TransportError:
    """Return a new error that says `reason`.

    Args:
        reason: of the core's.
        stage: how far the dial had come; `None` for whom it is no question.
    """
    words = reason.words
    if reason.may_have_reached and reason.failure in {Failure.LOST, Failure.ENDED, Failure.SILENT}:
        words += _MAY_HAVE_REACHED
    match reason.failure:
        case Failure.REFUSED:
            return TargetRefused(words, error_type=_refusal_type(reason.code), stage=stage)
        case Failure.RESET:
            return NetworkError(words, error_type=ErrorType.CONNECTION_RESET, stage=stage)
        case Failure.PROTOCOL:
            return NetworkError(words, error_type=ErrorType.PROTOCOL_ERROR, stage=stage)
        case failure:
            return _CLASSES.get(failure, NetworkError)(words, stage=stage)


def reset_error(code: int) -> TransportError:
    """Return the error of a stream that the far end reset, for a code of SPEC 10.2."""
    msg = f"the stream was reset at the far end (code {code})"
    return NetworkError(msg, error_type=ErrorType.CONNECTION_RESET)


def _refusal_type(code: int | None) -> ErrorType:
    try:
        return _REFUSALS[RefusalReason(-1 if code is None else code)]
    except (KeyError, ValueError):
        return ErrorType.TARGET_REFUSED
