from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer._report import Attempt, Outcome, RaceReport, RecordedError, describe
from racer.errors import (
    ConfigError,
    CredentialRejected,
    ErrorType,
    InvalidReport,
    NetworkError,
    Severity,
    Stage,
    classify,
    error_type_of,
)
from tests.racer.reports import failed, wrapped

ATTEMPT: dict[str, Any] = {
    "transport": "direct",
    "outcome": "connect_failed",
    "stage": "tls",
    "error": {"type": "SSLEOFError", "text": "EOF occurred in violation of protocol"},
    "error_type": "tls_failure",
    "reason": None,
    "start_delay": 0.25,
    "tier": 0,
    "timeout": 30.0,
    "started_at": 0.0,
    "finished_at": 1.5,
    "peer": "192.0.2.1:443",
}
WON: dict[str, Any] = {
    "transport": "soar",
    "outcome": "connected",
    "stage": "verify",
    "error": None,
    "error_type": None,
    "reason": None,
    "start_delay": 8.0,
    "tier": 1,
    "timeout": None,
    "started_at": 1.5,
    "finished_at": 8.31,
    "peer": None,
}
REPORT: dict[str, Any] = {
    "version": 1,
    "target": "example.com:443",
    "tls": True,
    "outcome": "connected",
    "winner": "soar",
    "duration": 8.31,
    "timeout": 80.0,
    "started": 1_800_000_000.25,
    "attempts": [ATTEMPT, WON],
}


def changed(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in (REPORT | changes).items() if value is not ...}


def changed_attempt(**changes: Any) -> dict[str, Any]:
    attempt = {key: value for key, value in (ATTEMPT | changes).items() if value is not ...}
    return REPORT | {"attempts": [WON, attempt]}


# --- JSON both ways -------------------------------------------------------------------------


def test_a_report_is_read_and_written_exactly() -> None:
    report = RaceReport.from_json(json.dumps(REPORT))
    assert json.loads(report.to_json()) == REPORT
    assert RaceReport.from_json(report.to_json()) == report
    assert RaceReport.from_json(report.to_json(indent=2).encode()) == report
    assert RaceReport.from_json(bytearray(report.to_json().encode("utf-16"))) == report  # type: ignore[arg-type]
    first, second = report.attempts
    assert (report.outcome, report.winner, report.tls) == (Outcome.CONNECTED, "soar", True)
    assert (first.stage, first.error_type, first.start_delay) == (
        Stage.TLS,
        ErrorType.TLS_FAILURE,
        0.25,
    )
    assert first.cause == "SSLEOFError: EOF occurred in violation of protocol"
    assert (second.started_at, second.finished_at, second.tier) == (1.5, 8.31, 1)
    assert report["soar"] is second
    with pytest.raises(KeyError, match="nobody"):
        report["nobody"]


def test_a_report_of_before_attempts_told_their_time_is_read_too() -> None:
    old = [{key: one[key] for key in one if key != "timeout"} for one in (ATTEMPT, WON)]
    report = RaceReport.from_json(json.dumps(changed(attempts=old)))
    assert [attempt.timeout for attempt in report.attempts] == [None, None]
    assert RaceReport.from_json(report.to_json()) == report


def test_seconds_may_be_written_as_whole_numbers() -> None:
    report = RaceReport.from_json(json.dumps(changed(duration=8, timeout=80, started=0)))
    assert (report.duration, report.timeout, report.started) == (8.0, 80.0, 0.0)
    assert isinstance(report.duration, float)


def test_an_error_read_back_keeps_type_words_and_reason() -> None:
    live = failed(
        wrapped(NetworkError("handshake failed"), CredentialRejected("token expired")),
        TimeoutError(),
        ExceptionGroup("g", [OSError("a"), OSError("b")]),
    )
    read = RaceReport.from_json(live.report.to_json())
    assert read == live.report
    assert hash(read) == hash(live.report)
    assert read.explain("x") == live.report.explain("x")
    assert [describe(a.error) for a in read.attempts if a.error] == [
        describe(a.error) for a in live.report.attempts if a.error
    ]
    error = read.attempts[0].error
    assert isinstance(error, RecordedError)
    assert (error.type_name, str(error)) == (
        "NetworkError",
        "handshake failed (CredentialRejected: token expired)",
    )
    again = type(live)(read)
    assert str(again) == str(live)
    assert classify(error) is Severity.CREDENTIAL
    assert error_type_of(again) == error_type_of(live)
    assert classify(again) == classify(live)


def test_text_of_any_kind_can_be_written_to_any_terminal() -> None:
    attempt = Attempt(
        transport="trä\udcffnsport",
        outcome=Outcome.INELIGIBLE,
        reason="鍵がない\nneeds a key\x1b[31m",
        peer="\ud800",
        error=OSError("\udcff"),
    )
    report = dataclasses.replace(failed().report, target="bücher\u202e", attempts=(attempt,))
    text = report.to_json()
    assert text.isascii()
    assert RaceReport.from_json(text.encode()) == report
    read = RaceReport.from_json(text).attempts[0]
    assert (read.transport, read.reason, read.peer) == (
        attempt.transport,
        attempt.reason,
        attempt.peer,
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_json_cannot_hold_is_not_written(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        dataclasses.replace(failed().report, duration=value).to_json()


# --- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (changed(version=2), "report version 2; this racer reads version 1"),
        (changed(version=10**4000), "report version of that size"),
        (changed(version=True), "report: 'version' must be int, not bool"),
        (changed(version="1"), "report: 'version' must be int, not str"),
        (changed(version=...), "report: 'version' is missing"),
        (changed(target=...), "report: 'target' is missing"),
        (changed(target=None), "report: 'target' must be str, not NoneType"),
        (changed(tls=1), "report: 'tls' must be bool, not int"),
        (changed(winner=5), "report: 'winner' must be str, not int"),
        (changed(outcome="won"), "report: 'outcome' is 'won', which is none of connected, "),
        (changed(outcome="x" * 10**6), "report: 'outcome' is 'xxx"),
        (changed(duration="1"), "report: 'duration' must be float, not str"),
        (changed(duration=True), "report: 'duration' must be float, not bool"),
        (changed(duration=None), "report: 'duration' must be float, not NoneType"),
        (changed(duration=math.nan), "report: 'duration' is not a finite number"),
        (changed(timeout=math.inf), "report: 'timeout' is not a finite number"),
        (changed(started=10**400), "report: 'started' is not a finite number"),
        (changed(attempts={}), "report: 'attempts' must be list, not dict"),
        (changed(attempts=None), "report: 'attempts' must be list, not NoneType"),
        (changed(attempts=[[]]), r"attempts\[0\]: an object was expected, not list"),
        (changed(zebra=1, apple=2), "report: unknown key 'apple'"),
        (changed(**{"x" * 10**6: 1}), "report: unknown key 'xxx"),
        (changed_attempt(transport=...), r"attempts\[1\]: 'transport' is missing"),
        (changed_attempt(transport=None), r"attempts\[1\]: 'transport' must be str"),
        (changed_attempt(outcome=None), r"attempts\[1\]: 'outcome' must be str"),
        (
            changed_attempt(stage="moon"),
            r"attempts\[1\]: 'stage' is 'moon', which is none of start",
        ),
        (changed_attempt(error_type="bad"), r"attempts\[1\]: 'error_type' is 'bad'"),
        (changed_attempt(error="bad"), r"attempts\[1\]: 'error' must be dict, not str"),
        (changed_attempt(error={"type": "x"}), r"attempts\[1\]\.error: 'text' is missing"),
        (changed_attempt(error={"text": "x"}), r"attempts\[1\]\.error: 'type' is missing"),
        (
            changed_attempt(error={"type": "x", "text": "x", "more": 1}),
            r"attempts\[1\]\.error: unknown key 'more'",
        ),
        (changed_attempt(tier=1.0), r"attempts\[1\]: 'tier' must be int, not float"),
        (changed_attempt(tier=False), r"attempts\[1\]: 'tier' must be int, not bool"),
        (changed_attempt(started_at="0"), r"attempts\[1\]: 'started_at' must be float"),
        (changed_attempt(start_delay=None), r"attempts\[1\]: 'start_delay' must be float"),
        (changed_attempt(finished_at=math.nan), r"attempts\[1\]: 'finished_at' is not a finite"),
        (changed_attempt(timeout="30"), r"attempts\[1\]: 'timeout' must be float, not str"),
        (changed_attempt(peer=443), r"attempts\[1\]: 'peer' must be str, not int"),
        (changed_attempt(extra=1), r"attempts\[1\]: unknown key 'extra'"),
        ([REPORT], "report: an object was expected, not list"),
        (None, "report: an object was expected, not NoneType"),
    ],
    ids=lambda value: ascii(value)[:1] if isinstance(value, dict) else ascii(value)[:40],
)
def test_what_is_not_a_report_is_refused_with_the_place(data: object, words: str) -> None:
    with pytest.raises(InvalidReport, match=words) as caught:
        RaceReport.from_json(json.dumps(data))
    assert len(str(caught.value)) < 400
    assert isinstance(caught.value, ConfigError | ValueError)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        (json.dumps(REPORT)[:-1], "not JSON"),
        (json.dumps(REPORT) + "x", "not JSON"),
        ("\ufeff" + json.dumps(REPORT), "not JSON"),
        (b"\xff\xfe\xfd", "not JSON"),
        (json.dumps(REPORT).encode().replace(b"soar", b"so\xffr"), "not JSON"),
        ("9" * 5000, "not JSON"),
        ("[" * 200_000, "not JSON"),
        ('{"a":' * 200_000, "not JSON"),
        ('{"version": 1, "version": 1}', "the key 'version' stands twice"),
        (" " * (5 * 1024 * 1024), "5242880 bytes; at most 4194304"),
        (b"1" * (5 * 1024 * 1024), "5242880 bytes; at most 4194304"),
        (None, "read from text or bytes, not from NoneType"),
        (REPORT, "read from text or bytes, not from dict"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_what_is_not_json_is_refused(text: Any, words: str) -> None:
    with pytest.raises(InvalidReport, match=words) as caught:
        RaceReport.from_json(text)
    assert len(str(caught.value)) < 300


def test_the_largest_inputs_are_still_quick() -> None:
    half_a_million_keys = json.dumps({f"{n:x}": 0 for n in range(300_000)} | {"version": 2})
    with pytest.raises(InvalidReport, match="version 2"):
        RaceReport.from_json(half_a_million_keys[:-1] + ', "0": 0}'.replace('"0"', '"new"'))
    with pytest.raises(InvalidReport, match="twice"):
        RaceReport.from_json(half_a_million_keys[:-1] + ', "1": 0}')
    many = RaceReport.from_json(json.dumps(changed(attempts=[ATTEMPT] * 10_000)))
    assert len(many.attempts) == 10_000


def test_one_attempt_can_be_read_alone() -> None:
    attempt = Attempt.from_dict(ATTEMPT)
    assert attempt.to_dict() == ATTEMPT
    assert Attempt.from_dict(attempt.to_dict()) == attempt
    with pytest.raises(InvalidReport, match="attempt: 'peer' is missing"):
        Attempt.from_dict({key: value for key, value in ATTEMPT.items() if key != "peer"})


# --- data -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attempt", "cause"),
    [
        (Attempt(transport="x", outcome=Outcome.LOST_RACE), "lost_race"),
        (Attempt(transport="x", outcome=Outcome.INELIGIBLE, reason="no\nIPv6"), "no IPv6"),
        (Attempt(transport="x", outcome=Outcome.INELIGIBLE, reason=""), "ineligible"),
        (
            Attempt(transport="x", outcome=Outcome.TIMED_OUT, error=TimeoutError("30 s")),
            "TimeoutError: 30 s",
        ),
    ],
)
def test_the_cause_is_for_people(attempt: Attempt, cause: str) -> None:
    assert attempt.cause == cause


def test_a_report_explains_itself_in_one_line() -> None:
    report = dataclasses.replace(
        failed().report,
        attempts=(
            Attempt(transport="a\nb", outcome=Outcome.CONNECT_FAILED, error=OSError("x")),
            Attempt(transport="c", outcome=Outcome.NOT_STARTED),
        ),
    )
    assert report.explain("it failed") == "it failed: a b: OSError: x; c: not_started"
    assert failed().report.explain("it failed") == "it failed"


def test_attempts_are_values_compared_by_what_they_tell() -> None:
    a, b = (Attempt.from_dict(ATTEMPT) for _ in range(2))
    assert a == b
    assert hash(a) == hash(b)
    assert a != dataclasses.replace(a, error=OSError("EOF occurred in violation of protocol"))
    assert a != dataclasses.replace(a, peer=None)
    assert a != ATTEMPT
    assert copy.copy(a) is a
    assert copy.deepcopy(a) is a
    with pytest.raises(dataclasses.FrozenInstanceError):
        a.tier = 1  # type: ignore[misc]


def test_a_report_can_be_pickled() -> None:
    report = RaceReport.from_json(json.dumps(REPORT))
    assert pickle.loads(pickle.dumps(report)) == report
    assert copy.deepcopy(report) == report


# --- anything -------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=[]))
numbers = st.floats(allow_nan=False, allow_infinity=False)
attempts = st.builds(
    Attempt,
    transport=texts,
    outcome=st.sampled_from(Outcome),
    stage=st.none() | st.sampled_from(Stage),
    error=st.none()
    | st.builds(OSError, texts)
    | st.builds(RecordedError, texts, texts)
    | st.builds(wrapped, st.builds(NetworkError, texts), st.builds(ValueError, texts)),
    error_type=st.none() | st.sampled_from(ErrorType),
    reason=st.none() | texts,
    start_delay=numbers,
    tier=st.integers(),
    started_at=st.none() | numbers,
    finished_at=st.none() | numbers,
    peer=st.none() | texts,
)
reports = st.builds(
    RaceReport,
    target=texts,
    tls=st.booleans(),
    outcome=st.sampled_from(Outcome),
    winner=st.none() | texts,
    duration=numbers,
    timeout=numbers,
    started=numbers,
    attempts=st.lists(attempts, max_size=3).map(tuple),
)


@given(reports)
def test_every_report_survives_the_round_trip(report: RaceReport) -> None:
    read = RaceReport.from_json(report.to_json().encode())
    assert read == report
    assert read.explain("x") == report.explain("x")
    assert RaceReport.from_json(read.to_json(indent=1)) == read
    assert pickle.loads(pickle.dumps(report)) == report


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
keys = sorted({*REPORT, *ATTEMPT, "type", "text"})


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    copied = json.loads(json.dumps(REPORT))
    changes: list[tuple[dict[str, Any], str, Any]] = []
    for _ in range(draw(st.integers(1, 3))):
        first, second = copied["attempts"]
        place = draw(st.sampled_from([copied, first, second, first["error"]]))
        key = draw(st.sampled_from(keys))
        changes.append((place, key, draw(anything) if draw(st.booleans()) else ...))
    for place, key, value in changes:
        if value is ...:
            place.pop(key, None)
        else:
            place[key] = value
    return copied


@given(st.one_of(anything, mutated()).map(json.dumps) | st.text() | st.binary())
def test_any_text_is_a_report_or_refused(text: str | bytes) -> None:
    try:
        report = RaceReport.from_json(text)
    except InvalidReport as exc:
        assert len(str(exc)) < 400  # noqa: PT017
        return
    assert RaceReport.from_json(report.to_json()) == report
