"""What `racer doctor` is told of a tunnel: whether the zone leads to a server, whether that is ours, and who may use it."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import anyio

from racer.abc import Finding, Verdict
from racer.errors import ErrorType, NetworkError
from transports._net.addresses import Family
from transports._net.connector import Connector
from transports._net.dns_resolver import DNSResolver, ResolverTLS
from transports._net.resolve import SystemResolver
from transports.soar.core.client.states import SessionState

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from racer.abc import DialTCP, DialUDP
    from transports._net.resolve import Answer
    from transports._net.resolver_urls import ResolverURL
    from transports.soar._last_attempt import LastAttempt
    from transports.soar.core.client.client import SessionStatus

__all__ = ("ZoneAnswer", "ask_zones", "findings")

_LIMIT: Final = 8.0  # seconds for all questions; a guest has 10 for its checks
_SOON: Final = 86_400.0  # seconds; a grant that ends sooner is worth a word

_ZONE_ADVICE: Final = (
    "Compare `domain` with what the server's operator gave out.",
    "Whoever runs the server: see that the parent zone has NS records that lead to it (docs/soar-server.md).",
)
_SERVER_ADVICE: Final = (
    "Ask whoever runs the server whether it is up, and reached on port 53 from outside, UDP and TCP.",
)
_KEY_ADVICE: Final = ("Compare `server_key` with what the server's operator gave out.",)
_GRANT_ADVICE: Final = (
    "Ask whoever runs the server for a new grant, and put it into the entrant's option `credential`.",
)


@dataclass(frozen=True, slots=True)
class ZoneAnswer:
    """What a resolver says about a zone.

    Attributes:
        zone: which.
        resolver: its URL, without path.
        rcode: of its answer; `None` where there was none.
        error: why not.
    """

    zone: str
    resolver: str
    rcode: str | None
    error: str = ""


async def ask_zones(
    resolvers: Sequence[ResolverURL],
    zones: Sequence[str],
    *,
    tls: ssl.SSLContext | None,
    dial_tcp: DialTCP | None,
    dial_udp: DialUDP | None,
) -> list[ZoneAnswer]:
    """Return what each resolver says about each zone's own name, which a Soar server has nothing at and answers for.

    Args:
        resolvers: whom.
        zones: the server's.
        tls: the context for those that are encrypted; `None` for the system's trust.
        dial_tcp: makes connections in place of our own sockets.
        dial_udp: likewise, for datagrams.
    """
    connector = Connector(SystemResolver(), dial_tcp=dial_tcp, dial_udp=dial_udp)
    contexts = ResolverTLS(tls)
    places = [(zone, url) for zone in zones for url in resolvers]
    found = {
        place: ZoneAnswer(place[0], str(place[1]), None, "no answer in time") for place in places
    }

    async def ask(zone: str, url: ResolverURL) -> None:
        heard: list[Answer] = []
        error = ""
        try:
            await DNSResolver(url, connector, tls=contexts).resolve(
                zone, [Family.IPV4], heard.append
            )
        except (OSError, NetworkError) as exc:
            error = str(exc).removeprefix(str(url)).lstrip(": ")
        rcode = _rcode(heard[0]) if heard else None
        found[zone, url] = ZoneAnswer(zone, str(url), rcode, error)

    with anyio.move_on_after(_LIMIT):
        async with anyio.create_task_group() as group:
            for zone, url in places:
                group.start_soon(ask, zone, url)
    return [found[place] for place in places]


def _rcode(answer: Answer) -> str:
    match answer.error:
        case None:
            return "NOERROR"
        case socket.gaierror():
            return "NXDOMAIN"
        case error:
            return str(error).rpartition(" ")[2]


# --- judging --------------------------------------------------------------------------------


def findings(
    name: str,
    answers: Sequence[ZoneAnswer],
    last: LastAttempt | None,
    sessions: Sequence[SessionStatus],
) -> list[Finding]:
    """Return what is to be said of the zones, the server and the sessions. Pure.

    Args:
        name: the entrant's.
        answers: what resolvers say about the zones.
        last: what came of the last attempt; `None` before the first.
        sessions: as they are now.
    """
    is_reached = last is not None and (last.is_connected or last.error_type in _FROM_THE_SERVER)
    sessions = [session for session in sessions if session.state in _STANDING]
    return [
        *_zones(name, answers, is_reached=is_reached or bool(sessions)),
        _server(name, answers, last, is_reached=is_reached),
        _sessions(name, sessions),
    ]


# A session that stands; one in its handshake has not heard of the server yet.
_STANDING: Final = (SessionState.LIVE, SessionState.IDLE, SessionState.DRAINING)

_FROM_THE_SERVER: Final = frozenset(
    {
        ErrorType.CREDENTIAL_REJECTED,
        ErrorType.TARGET_REFUSED,
        ErrorType.PROXY_REFUSED,
        ErrorType.SESSION_ENDED,
        ErrorType.SESSION_LOST,
        ErrorType.CONNECTION_REFUSED,
        ErrorType.NOT_USABLE,
    }
)
"""Reasons that only a server with our key can give."""

_SILENT: Final = frozenset({ErrorType.TUNNEL_SILENT, ErrorType.TIMEOUT})


def _zones(name: str, answers: Sequence[ZoneAnswer], *, is_reached: bool) -> list[Finding]:
    return [_zone(name, answer, is_reached=is_reached) for answer in answers]


def _zone(name: str, answer: ZoneAnswer, *, is_reached: bool) -> Finding:
    advice: tuple[str, ...] = ()
    match answer.rcode:
        case "NOERROR":
            verdict = Verdict.OK
            words = f"{answer.zone} is delegated, and answered for, as {answer.resolver} sees it."
        case None:
            verdict = Verdict.WARN
            words = f"{answer.resolver} does not answer about {answer.zone}: {answer.error}."
            advice = ("List other resolvers in the option `resolvers`.",)
        case "NXDOMAIN":
            verdict = Verdict.FAIL
            words = f"{answer.zone} is not delegated: {answer.resolver} says that there is no such name."
            advice = _ZONE_ADVICE
        case rcode:
            verdict = Verdict.FAIL
            words = (
                f"{answer.zone} is not answered for: {answer.resolver} says {rcode}, as it does where the zone's server "
                "is down, or is not asked for this zone."
            )
            advice = (*_SERVER_ADVICE, *_ZONE_ADVICE)
    if is_reached and verdict is Verdict.FAIL:
        verdict = Verdict.WARN  # another way leads there
    data = {"zone": answer.zone, "resolver": answer.resolver, "rcode": answer.rcode}
    return Finding(check=f"zone of {name}", verdict=verdict, words=words, advice=advice, data=data)


def _server(
    name: str, answers: Sequence[ZoneAnswer], last: LastAttempt | None, *, is_reached: bool
) -> Finding:
    check = f"server of {name}"
    if last is None:
        words = f"The server of {name} was not tried."
        return Finding(check=check, verdict=Verdict.SKIPPED, words=words)
    data: dict[str, Any] = {"error_type": last.error_type.value if last.error_type else None}
    grant = _grant(last)
    if grant:
        return Finding(
            check=check, verdict=Verdict.FAIL, words=grant, advice=_GRANT_ADVICE, data=data
        )
    if is_reached:
        words = f"The server of {name} answers, with the key that is configured."
        if last.error_type in {ErrorType.TARGET_REFUSED, ErrorType.PROXY_REFUSED}:
            words = f"{words[:-1]}; it may not, or could not, reach the host."
        return Finding(check=check, verdict=Verdict.OK, words=words, data=data)
    if last.error_type in _SILENT and any(answer.rcode == "NOERROR" for answer in answers):
        words = (
            f"Something answers for the zone of {name}, and nothing that it says is sealed with the server's key: the "
            "key is another's, or resolvers do not let the questions through."
        )
        advice = (*_KEY_ADVICE, "List other resolvers in the option `resolvers`.")
        return Finding(check=check, verdict=Verdict.FAIL, words=words, advice=advice, data=data)
    words = f"The server of {name} was not reached."
    return Finding(check=check, verdict=Verdict.FAIL, words=words, advice=_SERVER_ADVICE, data=data)


def _grant(last: LastAttempt) -> str:
    """Return what is wrong with the grant; empty where nothing is known to be."""
    if last.error_type not in {ErrorType.CREDENTIAL_REJECTED, ErrorType.SESSION_ENDED}:
        return ""
    for sign, words in (
        ("grant has expired", "The grant has expired."),
        ("grant was revoked", "The grant was revoked."),
        ("demands a grant", "The server demands a grant, and none is configured."),
        (
            "rejected the grant",
            "The server does not know the grant: it is another server's, or mistyped.",
        ),
    ):
        if sign in last.words:
            return words
    return "The server does not accept the grant." if "grant" in last.words else ""


def _sessions(name: str, sessions: Sequence[SessionStatus]) -> Finding:
    check = f"sessions of {name}"
    if not sessions:
        return Finding(
            check=check,
            verdict=Verdict.SKIPPED,
            words=f"{name} has no session with its server now.",
        )
    leases = [session.lease for session in sessions if session.lease is not None]
    streams = sum(session.streams for session in sessions)
    plural = "" if len(sessions) == 1 else "s"
    words = (
        f"{name} has {len(sessions)} session{plural} with its server, and {streams} open streams"
    )
    data = {
        "sessions": [
            {
                "state": session.state.value,
                "streams": session.streams,
                "idle": round(session.idle, 1),
                "lease": session.lease,
            }
            for session in sessions
        ]
    }
    if leases and min(leases) < _SOON:
        words = f"{words}; the grant is good for another {_hours(min(leases))}."
        return Finding(
            check=check, verdict=Verdict.WARN, words=words, advice=_GRANT_ADVICE, data=data
        )
    until = f"; the grant is good for another {_hours(min(leases))}" if leases else ""
    return Finding(check=check, verdict=Verdict.OK, words=f"{words}{until}.", data=data)


def _hours(seconds: float) -> str:
    if seconds < 7200:
        return f"{max(0, round(seconds / 60))} minutes"
    return (
        f"{round(seconds / 3600)} hours" if seconds < 172_800 else f"{round(seconds / 86_400)} days"
    )
