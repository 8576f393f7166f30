"""What a tunnel tells the doctor: each kind of answer about the zone, of the last attempt, and of sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from racer import lab
from racer.abc import Attempt, Outcome, Verdict
from racer.errors import CredentialRejected, ErrorType, NetworkError
from transports._net.resolver_urls import ResolverURL
from transports.soar._diagnose import ZoneAnswer, ask_zones, findings
from transports.soar._last_attempt import LastAttempt
from transports.soar.core.client.client import SessionStatus
from transports.soar.core.client.states import SessionState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from racer.abc import Finding

ZONE, RESOLVER = "t.example.com", "udp://192.0.2.53"
DELEGATED = ZoneAnswer(ZONE, RESOLVER, "NOERROR")
CONNECTED = LastAttempt(True)


def failed(kind: ErrorType, words: str = "") -> LastAttempt:
    return LastAttempt(False, kind, words)


def told(
    answer: ZoneAnswer = DELEGATED,
    last: LastAttempt | None = None,
    sessions: Sequence[SessionStatus] = (),
) -> list[Finding]:
    return findings("soar", [answer], last, sessions)


def session(lease: float | None = None, state: SessionState = SessionState.LIVE) -> SessionStatus:
    return SessionStatus(number=1, state=state, streams=2, idle=1.5, lease=lease)


@pytest.mark.parametrize(
    ("rcode", "verdict", "words"),
    [
        ("NOERROR", Verdict.OK, f"{ZONE} is delegated, and answered for, as {RESOLVER} sees it."),
        (
            "NXDOMAIN",
            Verdict.FAIL,
            f"{ZONE} is not delegated: {RESOLVER} says that there is no such name.",
        ),
        (
            "SERVFAIL",
            Verdict.FAIL,
            f"{ZONE} is not answered for: {RESOLVER} says SERVFAIL, as it does where the zone's server is down, or is not asked for this zone.",
        ),
        (None, Verdict.WARN, f"{RESOLVER} does not answer about {ZONE}: no answer in time."),
    ],
)
def test_what_a_resolver_says_of_the_zone(rcode: str | None, verdict: Verdict, words: str) -> None:
    found = told(ZoneAnswer(ZONE, RESOLVER, rcode, "no answer in time"))[0]
    assert (found.check, found.verdict, found.words) == ("zone of soar", verdict, words)
    assert bool(found.advice) is (verdict is not Verdict.OK)


def test_a_zone_that_one_resolver_does_not_see_is_only_odd_where_another_leads_there() -> None:
    found = told(ZoneAnswer(ZONE, RESOLVER, "NXDOMAIN"), CONNECTED)[0]
    assert found.verdict is Verdict.WARN


@pytest.mark.parametrize(
    ("last", "verdict", "words"),
    [
        (None, Verdict.SKIPPED, "The server of soar was not tried."),
        (CONNECTED, Verdict.OK, "The server of soar answers, with the key that is configured."),
        (
            failed(ErrorType.TARGET_REFUSED),
            Verdict.OK,
            "The server of soar answers, with the key that is configured; it may not, or could not, reach the host.",
        ),
        (
            failed(ErrorType.CREDENTIAL_REJECTED, "the grant has expired"),
            Verdict.FAIL,
            "The grant has expired.",
        ),
        (
            failed(ErrorType.SESSION_ENDED, "cut off; the grant was revoked; what was sent …"),
            Verdict.FAIL,
            "The grant was revoked.",
        ),
        (
            failed(ErrorType.CREDENTIAL_REJECTED, "the server demands a grant"),
            Verdict.FAIL,
            "The server demands a grant, and none is configured.",
        ),
        (
            failed(ErrorType.CREDENTIAL_REJECTED, "the server rejected the grant"),
            Verdict.FAIL,
            "The server does not know the grant: it is another server's, or mistyped.",
        ),
        (
            failed(ErrorType.CREDENTIAL_REJECTED, "a grant of another kind"),
            Verdict.FAIL,
            "The server does not accept the grant.",
        ),
        (
            failed(ErrorType.SESSION_ENDED, "the server shut down"),
            Verdict.OK,
            "The server of soar answers, with the key that is configured.",
        ),
        (failed(ErrorType.DNS_FAILURE), Verdict.FAIL, "The server of soar was not reached."),
    ],
)
def test_what_the_last_attempt_says_of_the_server(
    last: LastAttempt | None, verdict: Verdict, words: str
) -> None:
    found = told(last=last)[1]
    assert (found.check, found.verdict, found.words) == ("server of soar", verdict, words)


@pytest.mark.parametrize("kind", [ErrorType.TUNNEL_SILENT, ErrorType.TIMEOUT])
def test_silence_is_another_key_only_where_something_answers(kind: ErrorType) -> None:
    assert "the key is another's" in told(last=failed(kind))[1].words
    silent = ZoneAnswer(ZONE, RESOLVER, "SERVFAIL")
    assert told(silent, failed(kind))[1].words == "The server of soar was not reached."


@pytest.mark.parametrize(
    ("lease", "verdict", "words"),
    [
        (None, Verdict.OK, "soar has 1 session with its server, and 2 open streams."),
        (
            30 * 86_400.0,
            Verdict.OK,
            "soar has 1 session with its server, and 2 open streams; the grant is good for another 30 days.",
        ),
        (
            3 * 3600.0,
            Verdict.WARN,
            "soar has 1 session with its server, and 2 open streams; the grant is good for another 3 hours.",
        ),
        (
            90.0,
            Verdict.WARN,
            "soar has 1 session with its server, and 2 open streams; the grant is good for another 2 minutes.",
        ),
    ],
)
def test_sessions_and_their_leases(lease: float | None, verdict: Verdict, words: str) -> None:
    found = told(last=CONNECTED, sessions=[session(lease)])[2]
    assert (found.verdict, found.words) == (verdict, words)
    assert told()[2].verdict is Verdict.SKIPPED


@pytest.mark.parametrize("state", SessionState)
def test_only_a_session_that_stands_is_one_with_the_server(state: SessionState) -> None:
    stands = state in {SessionState.LIVE, SessionState.IDLE, SessionState.DRAINING}
    silent = ZoneAnswer(ZONE, RESOLVER, "SERVFAIL")
    zone, _, sessions = told(silent, failed(ErrorType.TUNNEL_SILENT), [session(state=state)])
    assert sessions.verdict is (Verdict.OK if stands else Verdict.SKIPPED)
    assert zone.verdict is (Verdict.WARN if stands else Verdict.FAIL)


def test_an_attempt_is_kept_as_words_alone() -> None:
    error = NetworkError("cut off in the TLS handshake")
    error.__cause__ = CredentialRejected("the grant has expired")
    attempt = Attempt(
        transport="soar",
        outcome=Outcome.CONNECT_FAILED,
        error=error,
        error_type=ErrorType.CREDENTIAL_REJECTED,
    )
    last = LastAttempt.of(attempt)
    assert last == failed(
        ErrorType.CREDENTIAL_REJECTED, "cut off in the TLS handshake; the grant has expired"
    )
    assert told(last=last)[1].words == "The grant has expired."


@pytest.mark.parametrize(
    ("rule", "rcode"),
    [
        (None, "NXDOMAIN"),
        (lab.Fail(rcode="SERVFAIL"), "SERVFAIL"),
        (lab.Fail(rcode="REFUSED"), "REFUSED"),
    ],
)
async def test_a_resolver_is_asked_on_loopback(rule: lab.NameRule | None, rcode: str) -> None:
    zone = lab.Zone({})
    if rule is not None:
        zone.rules.append(rule)
    async with lab.NameServer(zone) as server:
        url = ResolverURL.parse(server.url)
        (answer,) = await ask_zones([url], [ZONE], tls=None, dial_tcp=None, dial_udp=None)
    assert answer == ZoneAnswer(ZONE, str(url), rcode)
