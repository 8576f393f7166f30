"""A failed race in plain words: every outcome and reason has some, and no peer's words get in."""

from __future__ import annotations

import itertools
import ssl

import pytest

import racer
from racer import Attempt, Explanation, Outcome, RaceReport, explain
from racer._explain import Cause
from racer._remedies import REMEDIES
from racer.errors import (
    AllAttemptsFailed,
    CredentialRejected,
    DialTimeout,
    ErrorType,
    NetworkError,
    RecordedError,
    SessionEnded,
    Stage,
)

FAILED = Outcome.CONNECT_FAILED


def failure(
    kind: ErrorType | None,
    stage: Stage | None = None,
    *,
    name: str = "direct",
    error: Exception | None = None,
    outcome: Outcome = FAILED,
) -> Attempt:
    return Attempt(
        transport=name,
        outcome=outcome,
        stage=stage,
        error=error,
        error_type=kind,
        started_at=0.5,
        finished_at=0.75,
    )


def report(
    *attempts: Attempt, outcome: Outcome = FAILED, winner: str | None = None, timeout: float = 80.0
) -> RaceReport:
    return RaceReport(
        target="news.example:443",
        tls=True,
        outcome=outcome,
        winner=winner,
        duration=1.25,
        timeout=timeout,
        started=1_800_000_000.0,
        attempts=attempts,
    )


def causes(told: Explanation) -> list[Cause]:
    return [one.cause for one in told.likely]


# --- nothing is left without words ----------------------------------------------------------------


@pytest.mark.parametrize("kind", [*ErrorType, None])
def test_every_reason_at_every_stage_has_words_a_cause_and_advice(kind: ErrorType | None) -> None:
    outcomes = (Outcome.CONNECT_FAILED, Outcome.TIMED_OUT)
    for stage, outcome in itertools.product([*Stage, None], outcomes):
        told = explain(report(failure(kind, stage, outcome=outcome)))
        ((name, said),) = told.happened
        assert name == "direct"
        assert said.endswith(" (after 250 ms).")
        assert told.likely
        for one in told.likely:
            assert one.transports == ("direct",)
            assert one.words.endswith(".")
            assert all(line.endswith(".") for line in one.advice)
        is_unknown = kind is ErrorType.OTHER or (kind is None and outcome is FAILED)
        assert (Cause.UNKNOWN in causes(told)) is is_unknown
        assert str(told)


@pytest.mark.parametrize("of_race", Outcome)
def test_every_outcome_has_words(of_race: Outcome) -> None:
    for of_attempt in Outcome:
        attempt = Attempt(transport="direct", outcome=of_attempt)
        winner = "direct" if of_race is Outcome.CONNECTED else None
        told = explain(report(attempt, outcome=of_race, winner=winner))
        assert told.headline.startswith(("news.example:443 ", "Nobody waited for news.example:443"))
        ((_, said),) = told.happened
        assert said.endswith(".")


def test_every_cause_has_a_remedy_and_every_remedy_a_cause() -> None:
    assert set(REMEDIES) == {cause.value for cause in Cause}


def test_every_cause_can_come_up() -> None:
    """None is there for show."""
    found = {
        one.cause
        for kind, stage in itertools.product([*ErrorType, None], [*Stage, None])
        for one in explain(report(failure(kind, stage))).likely
    }
    found |= {Cause.GRANT, Cause.CLOCK, Cause.TOO_SHORT, Cause.NOTHING_SERVES}  # tested below
    assert found == set(Cause)


# --- what is most likely wrong --------------------------------------------------------------------

E, S = ErrorType, Stage
NOT_YET = ssl.SSLCertVerificationError(1, "certificate verify failed: certificate is not yet valid")
MISMATCH = ssl.SSLCertVerificationError(1, "certificate verify failed: Hostname mismatch")

STORIES: dict[str, tuple[list[Attempt], list[Cause]]] = {
    "a filter cuts TLS when it reads the name": (
        [failure(E.CONNECTION_RESET, S.TLS)],
        [Cause.NAME_FILTER],
    ),
    "a filter swallows TLS when it reads the name": (
        [failure(E.TIMEOUT, S.TLS, outcome=Outcome.TIMED_OUT)],
        [Cause.NAME_FILTER, Cause.NOTHING_ANSWERED],
    ),
    "the address is blocked, a proxy refuses": (
        [
            failure(E.TIMEOUT, S.CONNECT),
            failure(E.PROXY_REFUSED, S.HANDSHAKE, name="proxy"),
        ],
        [Cause.ADDRESS_BLOCK, Cause.PROXY],
    ),
    "names are not answered": (
        [failure(E.DNS_FAILURE, S.RESOLVE)],
        [Cause.DNS, Cause.NOTHING_ANSWERED],
    ),
    "no network": (
        [
            failure(E.HOST_UNREACHABLE, S.CONNECT),
            failure(E.DNS_FAILURE, S.RESOLVE, name="proxyless"),
        ],
        [Cause.NO_NETWORK],
    ),
    "the clock is wrong": (
        [failure(E.CERTIFICATE_INVALID, S.TLS, error=NOT_YET)],
        [Cause.CLOCK],
    ),
    "somebody answers in the host's place": (
        [failure(E.CERTIFICATE_INVALID, S.TLS, error=MISMATCH)],
        [Cause.INTERCEPTION],
    ),
    "a wrong password": (
        [failure(E.CREDENTIAL_REJECTED, error=CredentialRejected("user or password rejected"))],
        [Cause.CREDENTIAL],
    ),
    "an expired grant": (
        [
            failure(E.TIMEOUT, S.CONNECT),
            failure(
                E.CREDENTIAL_REJECTED,
                name="soar",
                error=CredentialRejected("the grant has expired"),
            ),
        ],
        [Cause.GRANT, Cause.ADDRESS_BLOCK],
    ),
    "a grant that expired under a session": (
        [failure(E.SESSION_ENDED, error=SessionEnded("the grant has expired"))],
        [Cause.GRANT],
    ),
    "a silent tunnel is the last that failed": (
        [
            failure(E.CONNECTION_RESET, S.TLS),
            failure(E.TUNNEL_SILENT, S.HANDSHAKE, name="soar"),
        ],
        [Cause.NAME_FILTER, Cause.TUNNEL],
    ),
    "nothing answers anywhere": (
        [
            failure(E.TIMEOUT, S.CONNECT),
            failure(E.TUNNEL_SILENT, S.HANDSHAKE, name="soar"),
        ],
        [Cause.ADDRESS_BLOCK, Cause.TUNNEL, Cause.NOTHING_ANSWERED],
    ),
    "a plug-in crashed": ([failure(E.CRASHED, error=KeyError("x"))], [Cause.PLUGIN]),
}


@pytest.mark.parametrize("story", STORIES)
def test_what_is_most_likely_wrong_in_order_of_importance(story: str) -> None:
    attempts, expected = STORIES[story]
    told = explain(report(*attempts))
    assert causes(told) == expected
    assert [name for name, _ in told.happened] == [attempt.transport for attempt in attempts]


def test_a_report_that_was_read_back_says_the_same() -> None:
    for attempts, _ in STORIES.values():
        first = report(*attempts)
        assert explain(RaceReport.from_json(first.to_json())) == explain(first)


def test_a_deadline_that_left_somebody_no_turn() -> None:
    attempts = (
        failure(E.TIMEOUT, S.CONNECT, outcome=Outcome.TIMED_OUT),
        Attempt(transport="soar", outcome=Outcome.NOT_STARTED, start_delay=8.0),
    )
    error = DialTimeout(report(*attempts, outcome=Outcome.TIMED_OUT, timeout=5.0))
    told = error.explain()
    assert told.headline == "news.example:443 was not reached within 5 s."
    too_short = next(one for one in told.likely if one.cause is Cause.TOO_SHORT)
    assert too_short.transports == ("soar",)


def test_nothing_serves() -> None:
    ineligible = Attempt(transport="amp", outcome=Outcome.INELIGIBLE, reason="gives no stream")
    told = explain(report(ineligible, outcome=Outcome.INELIGIBLE))
    assert causes(told) == [Cause.NOTHING_SERVES]


def test_a_race_that_was_won_says_why_the_others_were_not_fast_enough() -> None:
    told = explain(
        report(
            failure(E.CONNECTION_RESET, S.TLS),
            Attempt(transport="soar", outcome=Outcome.CONNECTED, started_at=1.0, finished_at=1.25),
            Attempt(transport="proxy", outcome=Outcome.LOST_RACE),
            outcome=Outcome.CONNECTED,
            winner="soar",
        )
    )
    assert told.headline == "news.example:443 was reached by 'soar' in 1.25 s."
    assert dict(told.happened)["soar"] == "Connected (after 250 ms)."
    assert dict(told.happened)["proxy"] == "Another was faster."
    assert causes(told) == [Cause.NAME_FILTER]


# --- for a person ---------------------------------------------------------------------------------


def test_it_reads_well_on_a_terminal() -> None:
    error = AllAttemptsFailed(
        report(
            failure(E.CONNECTION_RESET, S.TLS),
            failure(E.CREDENTIAL_REJECTED, S.HANDSHAKE, name="proxy"),
        )
    )
    assert str(error.explain()) == (
        "news.example:443 could not be reached: every attempt failed.\n"
        "\n"
        "What happened:\n"
        "  direct  The connection stood, and was cut when TLS began (after 250 ms).\n"
        "  proxy   The credential was rejected (after 250 ms).\n"
        "\n"
        "Most likely:\n"
        "  - The proxy does not accept the user or password it was given, or wants one and was given none.\n"
        "  - A filter on the way reads which host is wanted from the beginning of TLS, and cuts the connection off.\n"
        "\n"
        "What to try:\n"
        "  1. Check user and password in the proxy's options; ask whoever runs the proxy.\n"
        "  2. Add the transport `proxyless`, which hides the name from such filters.\n"
        "  3. Add `fronting`, a proxy, or `soar`, for which the filter sees another name or none."
    )


def test_no_peer_s_words_and_no_secrets_get_in() -> None:
    secret = "hunter2\x1b[2J"
    attempts = [
        failure(kind, stage, error=NetworkError(f"the proxy said {secret}"), name=f"e{number}")
        for number, (kind, stage) in enumerate(itertools.product(ErrorType, Stage))
    ]
    told = explain(report(*attempts))
    assert "hunter2" not in str(told)
    assert "hunter2" not in repr(told)
    assert "\x1b" not in str(told)


def test_a_name_from_a_report_cannot_move_the_cursor() -> None:
    told = explain(report(failure(E.TIMEOUT, name="a\x1b[2J\nb")))
    assert "\x1b" not in str(told)


def test_it_is_plain_data() -> None:
    data = explain(report(failure(E.CONNECTION_RESET, S.TLS))).to_dict()
    assert data["happened"] == [
        {
            "transport": "direct",
            "words": "The connection stood, and was cut when TLS began (after 250 ms).",
        }
    ]
    (likely,) = data["likely"]
    assert likely["cause"] == "name_filter"
    assert likely["transports"] == ["direct"]


def test_it_is_to_be_had_by_name() -> None:
    assert racer.explain is explain
    recorded = failure(E.TIMEOUT, error=RecordedError("x", "TimeoutError"))
    assert isinstance(AllAttemptsFailed(report(recorded)).explain(), racer.Explanation)
