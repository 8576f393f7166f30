"""Why a session, a dial or a stream is over, in words that a transport can turn into its errors."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from transports.soar.core.crypto.notices import EndCode
from transports.soar.core.crypto.terms import Status
from transports.soar.core.streams.frames import RefusalReason

if TYPE_CHECKING:
    from transports.soar.core.client.session import Session
    from transports.soar.core.crypto.notices import Notice

__all__ = ("EndReason", "Failure", "Over", "of_end", "of_refusal", "of_status")


class Failure(Enum):
    """The kinds of ends; most are named as in `racer.errors.ErrorType`."""

    SILENT = "tunnel_silent"
    LOST = "session_lost"
    ENDED = "session_ended"
    CREDENTIAL = "credential_rejected"
    REFUSED = "target_refused"
    RESET = "connection_reset"
    UNUSABLE = "not_usable"
    BUSY = "busy"
    PROTOCOL = "protocol_error"
    CANCELLED = "cancelled"
    CLOSED = "closed"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndReason:
    """Why something is over.

    Attributes:
        failure: the kind.
        words: what happened; no secrets, no hosts.
        code: `EndCode`, `Status`, `RefusalReason` or a RESET's code, if one was told.
        may_have_reached: whether octets may have reached the target; `None` where that is no question.
    """

    failure: Failure
    words: str
    code: int | None = None
    may_have_reached: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """How a session ended.

    Attributes:
        session: which.
        reason: why.
        notice: the server's word, if that was it.
        received: when, elapsed clock.
    """

    session: Session
    reason: EndReason
    notice: Notice | None
    received: float


_END_WORDS = {
    EndCode.UNKNOWN: "the server lost the session",
    EndCode.CLOSED: "the session was closed by this client; a new session is needed",
    EndCode.OPERATOR: "the operator ended the session; a new session is needed",
    EndCode.SHUTDOWN: "the server shut down; a new session is needed",
    EndCode.REVOKED: "the grant was revoked",
    EndCode.EXPIRED: "the grant has expired",
    EndCode.CAPACITY: "the server had no room for the session; a new session is needed",
    EndCode.PROTOCOL: "the server says that this client broke the protocol; a new session is needed",
}

_REFUSAL_WORDS = {
    RefusalReason.POLICY: "the server's policy does not allow the target",
    RefusalReason.CONNECTION_REFUSED: "the target refused the connection",
    RefusalReason.UNREACHABLE: "the target is unreachable from the server",
    RefusalReason.TIMED_OUT: "the server's connection to the target timed out",
    RefusalReason.NAME_NOT_FOUND: "the server found no address of the target",
    RefusalReason.TOO_MANY_STREAMS: "the session has too many streams",
    RefusalReason.NOT_AN_ADDRESS: "the server took the target for no address",
    RefusalReason.GRANT: "the grant does not allow the target",
    RefusalReason.INTERNAL: "the server failed to open the target",
}

_STATUS_REASONS = {
    Status.GRANT_NEEDED: (Failure.CREDENTIAL, "the server demands a grant"),
    Status.GRANT_REJECTED: (Failure.CREDENTIAL, "the server rejected the grant"),
    Status.GRANT_EXPIRED: (Failure.CREDENTIAL, "the grant has expired"),
    Status.GRANT_REVOKED: (Failure.CREDENTIAL, "the grant was revoked"),
    Status.CAPACITY: (Failure.ENDED, "the server has no room for another session"),
    Status.SHUTTING_DOWN: (Failure.ENDED, "the server is shutting down"),
    Status.VERSION: (
        Failure.UNUSABLE,
        "the server speaks no version of the protocol that this client does",
    ),
}


def of_end(code: int) -> EndReason:
    """Return the reason for a session's end that was proven, by a notice or an END."""
    end = EndCode(code)
    failure = Failure.LOST if end is EndCode.UNKNOWN else Failure.ENDED
    words = _END_WORDS.get(end, f"the server ended the session, with code {code}")
    return EndReason(failure=failure, words=words, code=code)


def of_status(status: Status) -> EndReason:
    """Return the reason for a handshake's rejection."""
    unknown = (Failure.ENDED, "the server refused the session")
    failure, words = _STATUS_REASONS.get(status, unknown)
    return EndReason(failure=failure, words=words, code=status, may_have_reached=False)


def of_refusal(reason: int) -> EndReason:
    """Return the reason for a stream that was not opened."""
    try:
        words = _REFUSAL_WORDS[RefusalReason(reason)]
    except ValueError:
        words = f"the server did not open the target, for reason {reason}"
    return EndReason(failure=Failure.REFUSED, words=words, code=reason, may_have_reached=False)
