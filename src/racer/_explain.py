"""A race explained: what happened to each attempt, what is most likely wrong, and what to try. Pure.

All of it follows from outcomes, reasons and stages, and of an error's own words only what this file knows by heart: what a
peer wrote never gets in here.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, assert_never

from racer._axis import seconds
from racer._remedies import REMEDIES
from racer._report import Outcome
from racer._words import one_line, words
from racer.errors import ErrorType, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from racer._report import Attempt, RaceReport

__all__ = ("Cause", "Explanation", "Likely", "explain")


class Cause(enum.StrEnum):
    """What can be wrong; in the order in which a person should hear of it."""

    NO_NETWORK = "no_network"
    CLOCK = "clock"
    CREDENTIAL = "credential"
    GRANT = "grant"
    INTERCEPTION = "interception"
    NAME_FILTER = "name_filter"
    DNS = "dns"
    ADDRESS_BLOCK = "address_block"
    REFUSED = "refused"
    PROXY = "proxy"
    SERVER = "server"
    TARGET = "target"
    TUNNEL = "tunnel"
    SESSION = "session"
    PEER = "peer"
    CHECK = "check"
    FIREWALL = "firewall"
    LIMITS = "limits"
    PLUGIN = "plugin"
    TOO_SHORT = "too_short"
    NOTHING_ANSWERED = "nothing_answered"
    NOTHING_SERVES = "nothing_serves"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Likely:
    """One thing that is most likely wrong.

    Attributes:
        cause: which.
        words: the same in a sentence.
        advice: what to try, each in a sentence.
        transports: the entrants that it was seen at.
    """

    cause: Cause
    words: str
    advice: tuple[str, ...]
    transports: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A race in plain words; `str()` of it is for a person. No peer's words and no secrets are in it.

    Attributes:
        headline: how the race ended, in a sentence.
        happened: the entrants' names, and what happened to each in a sentence; in the report's order.
        likely: what is most likely wrong, what matters most first; empty where nothing is.
    """

    headline: str
    happened: tuple[tuple[str, str], ...]
    likely: tuple[Likely, ...]

    @property
    def advice(self) -> tuple[str, ...]:
        """What to try, what promises most first, each once."""
        return tuple(dict.fromkeys(line for one in self.likely for line in one.advice))

    def __str__(self) -> str:
        """Return all of it, as lines of plain text."""
        width = max((len(name) for name, _ in self.happened), default=0)
        lines = [self.headline]
        if self.happened:
            lines += ["", "What happened:"]
            lines += [f"  {name.ljust(width)}  {said}" for name, said in self.happened]
        if self.likely:
            lines += ["", "Most likely:"]
            lines += [f"  - {one.words}" for one in self.likely]
            lines += ["", "What to try:"]
            lines += [f"  {number}. {line}" for number, line in enumerate(self.advice, 1)]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "headline": self.headline,
            "happened": [{"transport": name, "words": said} for name, said in self.happened],
            "likely": [
                {
                    "cause": one.cause.value,
                    "words": one.words,
                    "advice": list(one.advice),
                    "transports": list(one.transports),
                }
                for one in self.likely
            ],
        }


def explain(report: RaceReport) -> Explanation:
    """Return what a race's report says, in plain words: what happened, what is most likely wrong, what to try."""
    failed = [_Failure(one) for one in report.attempts if one.outcome in _FAILED]
    return Explanation(
        headline=_headline(report),
        happened=tuple((one_line(one.transport), _happened(one)) for one in report.attempts),
        likely=_ranked(_causes(report, failed)),
    )


_FAILED: Final = (Outcome.CONNECT_FAILED, Outcome.TIMED_OUT)

_E, _S = ErrorType, Stage

# Without a stage: wherever it happens. These are ends of sentences that begin with the entrant's name.
_HAPPENED: Final[dict[ErrorType | tuple[ErrorType, Stage], str]] = {
    _E.DNS_FAILURE: "The name could not be looked up.",
    _E.CONNECTION_REFUSED: "The connection was refused.",
    _E.CONNECTION_RESET: "The connection was cut.",
    (_E.CONNECTION_RESET, _S.CONNECT): "The connection was cut while it was being made.",
    (_E.CONNECTION_RESET, _S.HANDSHAKE): "The connection was cut during the transport's handshake.",
    (_E.CONNECTION_RESET, _S.TLS): "The connection stood, and was cut when TLS began.",
    (_E.CONNECTION_RESET, _S.VERIFY): "The connection stood, and was cut while it was checked.",
    _E.HOST_UNREACHABLE: "There was no way to the address.",
    _E.TLS_FAILURE: "TLS could not be agreed on.",
    _E.CERTIFICATE_INVALID: "The certificate was not the host's, or not to be trusted.",
    _E.PROXY_REFUSED: "The proxy answered, and said no.",
    _E.TARGET_REFUSED: "The far end of the tunnel works, and could not or may not reach the host.",
    _E.SESSION_LOST: "The server no longer knew the session.",
    _E.SESSION_ENDED: "The server ended the session.",
    _E.CREDENTIAL_REJECTED: "The credential was rejected.",
    _E.TUNNEL_SILENT: "The tunnel's questions went out, and nothing authentic came back.",
    _E.NOT_USABLE: "A stream came, and did not do.",
    _E.BUSY: "The transport was at its own limit.",
    _E.RESOURCE_EXHAUSTED: "This machine had no more sockets or memory to give.",
    _E.PERMISSION_DENIED: "This machine did not allow the connection.",
    _E.PROTOCOL_ERROR: "What answered does not speak the protocol.",
    _E.TIMEOUT: "No answer came in time.",
    (_E.TIMEOUT, _S.START): "The transport was not ready in time.",
    (_E.TIMEOUT, _S.RESOLVE): "The name's look-up got no answer in time.",
    (_E.TIMEOUT, _S.CONNECT): "Nothing answered at the address.",
    (_E.TIMEOUT, _S.HANDSHAKE): "The transport's handshake got no answer in time.",
    (_E.TIMEOUT, _S.TLS): "The connection stood, and went silent when TLS began.",
    (_E.TIMEOUT, _S.VERIFY): "The connection stood, and its check was not passed in time.",
    _E.CRASHED: "The transport crashed: a bug in it.",
    _E.OTHER: "It failed, for no reason that is known.",
}


class _Failure:
    """A failed attempt, and what can be seen in it."""

    def __init__(self, attempt: Attempt) -> None:
        timed_out = attempt.outcome is Outcome.TIMED_OUT
        self.name = attempt.transport
        self.kind = attempt.error_type or (_E.TIMEOUT if timed_out else _E.OTHER)
        self.stage = attempt.stage
        self._words = words(attempt.error).lower() if attempt.error is not None else ""

    def says(self, *known: str) -> bool:
        """Whether its words have one of these in them, which Python, OpenSSL and racer's transports use."""
        return any(each in self._words for each in known)

    def sees(self, *seen: ErrorType | tuple[ErrorType, Stage]) -> bool:
        """Whether it failed for one of these reasons, in that stage where one is given."""
        return self.kind in seen or (self.stage is not None and (self.kind, self.stage) in seen)


def _happened(attempt: Attempt) -> str:
    """Return what happened to an attempt, in a sentence."""
    match attempt.outcome:
        case Outcome.CONNECTED:
            said = f"Connected{_after(attempt)}."
        case Outcome.CONNECT_FAILED | Outcome.TIMED_OUT:
            failure = _Failure(attempt)
            said = _HAPPENED[failure.kind]
            if failure.stage is not None:
                said = _HAPPENED.get((failure.kind, failure.stage), said)
            said = f"{said[:-1]}{_after(attempt)}."
        case Outcome.LOST_RACE:
            said = "Another was faster."
        case Outcome.CANCELLED:
            said = "It was still trying when the caller left."
        case Outcome.INELIGIBLE:
            said = "It does not serve this host; nothing was tried."
        case Outcome.NOT_STARTED if attempt.started_at is not None:
            said = "It is still trying."
        case Outcome.NOT_STARTED:
            said = "The race was over before its turn."
        case _:
            assert_never(attempt.outcome)
    return said


def _after(attempt: Attempt) -> str:
    if attempt.started_at is None or attempt.finished_at is None:
        return ""
    return f" (after {seconds(max(0.0, attempt.finished_at - attempt.started_at))})"


def _headline(report: RaceReport) -> str:
    target, took = one_line(report.target), seconds(report.duration)
    match report.outcome:
        case Outcome.CONNECTED:
            return f"{target} was reached by {one_line(report.winner or '')!r} in {took}."
        case Outcome.CONNECT_FAILED:
            return f"{target} could not be reached: every attempt failed."
        case Outcome.TIMED_OUT:
            return f"{target} was not reached within {seconds(report.timeout)}."
        case Outcome.CANCELLED:
            return f"Nobody waited for {target} any more, after {took}."
        case Outcome.INELIGIBLE:
            return f"{target} could not be tried: no transport serves it."
        case Outcome.LOST_RACE | Outcome.NOT_STARTED:
            return f"{target} is still being tried, after {took}."
        case _:
            assert_never(report.outcome)


# --- what is most likely wrong --------------------------------------------------------------

_SILENT: Final = (_E.HOST_UNREACHABLE, _E.DNS_FAILURE, _E.TIMEOUT, _E.TUNNEL_SILENT)
_OUTDATED: Final = ("not yet valid", "has expired")

# What each reason is a sign of, where nothing speaks for something else.
_SIGNS: Final[dict[Cause, tuple[ErrorType | tuple[ErrorType, Stage], ...]]] = {
    Cause.NAME_FILTER: (
        (_E.CONNECTION_RESET, _S.TLS),
        (_E.TIMEOUT, _S.TLS),
        (_E.TLS_FAILURE, _S.TLS),
    ),
    Cause.DNS: (
        _E.DNS_FAILURE,
        (_E.TIMEOUT, _S.RESOLVE),
        (_E.CONNECTION_RESET, _S.RESOLVE),
    ),
    Cause.ADDRESS_BLOCK: (_E.TIMEOUT, _E.CONNECTION_RESET, _E.HOST_UNREACHABLE),
    Cause.REFUSED: (_E.CONNECTION_REFUSED,),
    Cause.PROXY: (_E.PROXY_REFUSED,),
    Cause.SERVER: ((_E.TIMEOUT, _S.HANDSHAKE), (_E.CONNECTION_RESET, _S.HANDSHAKE)),
    Cause.TARGET: (_E.TARGET_REFUSED,),
    Cause.TUNNEL: (_E.TUNNEL_SILENT,),
    Cause.SESSION: (_E.SESSION_LOST, _E.SESSION_ENDED),
    Cause.PEER: (_E.PROTOCOL_ERROR, _E.TLS_FAILURE),
    Cause.CHECK: (
        _E.NOT_USABLE,
        (_E.TIMEOUT, _S.VERIFY),
        (_E.CONNECTION_RESET, _S.VERIFY),
    ),
    Cause.FIREWALL: (_E.PERMISSION_DENIED,),
    Cause.LIMITS: (_E.BUSY, _E.RESOURCE_EXHAUSTED, (_E.TIMEOUT, _S.START)),
    Cause.PLUGIN: (_E.CRASHED,),
}


def _causes(report: RaceReport, failed: list[_Failure]) -> dict[Cause, list[str]]:
    """Return what is seen of each cause: the names of the entrants that show it."""
    if report.outcome is Outcome.INELIGIBLE:
        return {Cause.NOTHING_SERVES: [one.transport for one in report.attempts]}
    found: dict[Cause, list[str]] = {}
    if late := _too_short(report):
        found[Cause.TOO_SHORT] = late
    if failed and report.winner is None:
        names = [one.name for one in failed]
        if all(one.sees(_E.HOST_UNREACHABLE, _E.DNS_FAILURE) for one in failed) and any(
            one.sees(_E.HOST_UNREACHABLE) for one in failed
        ):
            return found | {Cause.NO_NETWORK: names}
        if all(one.sees(*_SILENT) for one in failed):
            found[Cause.NOTHING_ANSWERED] = names
    for one in failed:
        found.setdefault(_cause_of(one), []).append(one.name)
    return found


def _cause_of(failure: _Failure) -> Cause:
    """Return what one failure is most likely a sign of."""
    if failure.kind is _E.CERTIFICATE_INVALID:
        return Cause.CLOCK if failure.says(*_OUTDATED) else Cause.INTERCEPTION
    if failure.kind is _E.CREDENTIAL_REJECTED:
        return Cause.GRANT if failure.says("grant") else Cause.CREDENTIAL
    if failure.kind is _E.SESSION_ENDED and failure.says("grant"):
        return Cause.GRANT
    by_stage = failure.stage is not None and (failure.kind, failure.stage)
    for seen in (by_stage, failure.kind):
        for cause, signs in _SIGNS.items():
            if seen in signs:
                return cause
    return Cause.UNKNOWN


def _too_short(report: RaceReport) -> list[str]:
    """Return who had no turn, or hardly one, because the deadline came first."""
    if report.outcome is not Outcome.TIMED_OUT:
        return []
    return [one.transport for one in report.attempts if one.outcome is Outcome.NOT_STARTED]


def _ranked(found: dict[Cause, list[str]]) -> tuple[Likely, ...]:
    order: Callable[[Cause], int] = tuple(Cause).index
    return tuple(_likely(cause, found[cause]) for cause in sorted(found, key=order))


def _likely(cause: Cause, transports: Iterable[str]) -> Likely:
    said, advice = REMEDIES[cause]
    names = tuple(dict.fromkeys(one_line(name) for name in transports))
    return Likely(cause=cause, words=said, advice=advice, transports=names)
