from __future__ import annotations

import dataclasses
import errno
import math
import re
import textwrap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer._report import Attempt, Outcome, RaceReport
from racer.cli._columns import width_of
from racer.cli._waterfall import render, seconds
from racer.errors import AttemptTimeout, ErrorType, SessionLost, Stage

REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def attempt(
    name: str, outcome: str, began: float | None = None, ended: float | None = None, **more: Any
) -> Attempt:
    return Attempt(
        transport=name, outcome=Outcome(outcome), started_at=began, finished_at=ended, **more
    )


def race(
    *attempts: Attempt,
    outcome: str = "connected",
    winner: str | None = None,
    duration: float = 1.0,
    timeout: float = 80.0,
) -> RaceReport:
    return RaceReport(
        target="example.com:443",
        tls=True,
        outcome=Outcome(outcome),
        winner=winner,
        duration=duration,
        timeout=timeout,
        started=1_800_000_000.0,
        attempts=attempts,
    )


TYPICAL = race(
    attempt(
        "direct",
        "connect_failed",
        0.0,
        1.5,
        stage=Stage.TLS,
        peer="192.0.2.1:443",
        error=OSError("EOF occurred in violation of protocol (_ssl.c:1006)"),
        error_type=ErrorType.TLS_FAILURE,
    ),
    attempt(
        "proxyless",
        "timed_out",
        0.3,
        8.0,
        stage=Stage.CONNECT,
        start_delay=0.3,
        error=AttemptTimeout("not usable within 7.7 s"),
        error_type=ErrorType.TIMEOUT,
    ),
    attempt("socks", "lost_race", 1.5, 8.31, stage=Stage.HANDSHAKE),
    attempt("soar", "connected", 1.5, 8.31, stage=Stage.VERIFY, peer="203.0.113.5:53"),
    attempt("fronting", "not_started", start_delay=9.0),
    attempt("last", "not_started", tier=1),
    attempt(
        "amp-broker-with-a-long-name",
        "ineligible",
        reason="gives responses to requests, not a byte stream",
    ),
    winner="soar",
    duration=8.31,
)

PICTURES = {
    "a win after failures": (
        TYPICAL,
        """\
        example.com:443 connected by soar in 8.31 s

                           0       2 s     4 s     6 s     8 s
                           ┼───────┼───────┼───────┼───────┼─
          direct           ──────✗                            tls_failure at 1.5 s
          proxyless         ───────────────────────────────┃  timed out at 8 s (connect)
          socks                  ───────────────────────────· lost the race (handshake)
        ▶ soar                   ━━━━━━━━━━━━━━━━━━━━━━━━━━━✓ connected at 8.31 s
          fronting         not started (due at 9 s)
          last             not started (tier 1)
          amp-brok…ng-name ineligible: gives responses to requests, not a byte stream

        direct (tls, 192.0.2.1:443): OSError: EOF occurred in violation of protocol
          (_ssl.c:1006)
        proxyless (connect): AttemptTimeout: not usable within 7.7 s
        soar: peer 203.0.113.5:53
        """,
    ),
    "everybody failed within 3 ms": (
        race(
            attempt(
                "direct",
                "connect_failed",
                0.0,
                0.0012,
                stage=Stage.CONNECT,
                peer="127.0.0.1:443",
                error=REFUSED,
                error_type=ErrorType.CONNECTION_REFUSED,
            ),
            attempt(
                "soar",
                "connect_failed",
                0.0012,
                0.0031,
                stage=Stage.HANDSHAKE,
                error=SessionLost("server lost the session"),
                error_type=ErrorType.SESSION_LOST,
            ),
            outcome="connect_failed",
            duration=0.0031,
        ),
        """\
        example.com:443 not connected: every attempt failed, after 3.1 ms

                 0            1 ms         2 ms          3 ms
                 ┼────────────┼────────────┼─────────────┼─
          direct ────────────────✗                          connection_refused at 1.2 ms
          soar                   ─────────────────────────✗ session_lost at 3.1 ms

        direct (connect, 127.0.0.1:443): ConnectionRefusedError: [Errno 111] Connection
          refused
        soar (handshake): SessionLost: server lost the session
        """,
    ),
    "the deadline of 80 s": (
        race(
            attempt("direct", "timed_out", 0.0, 80.0, stage=Stage.CONNECT),
            attempt("soar", "timed_out", 8.0, 80.0, stage=Stage.RESOLVE, start_delay=8.0),
            attempt("last-resort", "not_started", tier=1),
            outcome="timed_out",
            duration=80.0,
        ),
        """\
        example.com:443 not connected within 80 s

                      0        20 s     40 s      60 s     80 s
                      ┼────────┼────────┼─────────┼────────┼
          direct      ─────────────────────────────────────┃ timed out at 80 s (connect)
          soar            ─────────────────────────────────┃ timed out at 80 s (resolve)
          last-resort not started (tier 1)

        direct (connect): timed_out
        soar (resolve): timed_out
        """,
    ),
    "interrupted": (
        race(
            attempt("direct", "cancelled", 0.0, 2.5, stage=Stage.TLS),
            attempt("soar", "not_started", start_delay=8.0),
            outcome="cancelled",
            duration=2.5,
        ),
        """\
        example.com:443 cancelled after 2.5 s

                 0          500 ms     1 s       1.5 s      2 s        2.5 s
                 ┼──────────┼──────────┼─────────┼──────────┼──────────┼
          direct ──────────────────────────────────────────────────────· cancelled (tls)
          soar   not started (due at 8 s)
        """,
    ),
    "nobody may": (
        race(
            attempt("amp", "ineligible", reason="gives responses to requests\nnot a stream"),
            attempt("shy", "ineligible"),
            outcome="ineligible",
            duration=0.0,
        ),
        """\
        example.com:443 not connected: no transport serves it

          amp ineligible: gives responses to requests not a stream
          shy ineligible: no reason given
        """,
    ),
    "still under way": (
        race(
            attempt("direct", "not_started", 0.0, None, stage=Stage.CONNECT),
            attempt(
                "front",
                "connect_failed",
                0.3,
                0.9,
                error=KeyError("x"),
                error_type=ErrorType.CRASHED,
            ),
            attempt("soar", "not_started", start_delay=8.0),
            outcome="not_started",
            duration=2.0,
        ),
        """\
        example.com:443 still racing after 2 s

                 0            500 ms       1 s          1.5 s        2 s
                 ┼────────────┼────────────┼────────────┼────────────┼
          direct ────────────────────────────────────────────────────… running (connect)
          front          ───────────────✗                              crashed at 900 ms
          soar   not started (due at 8 s)

        front: KeyError: 'x'
        """,
    ),
    "in no time": (
        race(
            attempt("instant", "connected", 0.0, 0.0, stage=Stage.VERIFY),
            attempt("other", "lost_race", 0.0, 0.0, stage=Stage.START),
            winner="instant",
            duration=0.0,
        ),
        """\
        example.com:443 connected by instant in 0 ms

                  0
                  ┼───────────────────────────────────────────────
        ▶ instant ✓                                                connected at 0 ms
          other   ·                                                lost the race (start)
        """,
    ),
    "the second finisher did": (
        race(
            attempt("first", "connected", 0.0, 0.5, stage=Stage.VERIFY),
            attempt("second", "connected", 0.0, 2.0, stage=Stage.VERIFY),
            winner="second",
            duration=2.25,
        ),
        """\
        example.com:443 connected by second in 2 s

                 0          500 ms     1 s        1.5 s      2 s
                 ┼──────────┼──────────┼──────────┼──────────┼──────
          first  ───────────✓                                        connected at 500 ms
        ▶ second ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━✓       connected at 2 s
        """,
    ),
    "wide and hostile texts": (
        race(
            attempt(
                "日本語の経路の長い名前です",
                "connect_failed",
                0.0,
                0.4,
                error=OSError("接続できませんでした。" * 5),
                error_type=ErrorType.OTHER,
            ),
            attempt("\x1b[31mred\n\u202e", "connect_failed", 0.0, 1.0, error=OSError("\x1b[2Jx")),
            outcome="connect_failed",
        ),
        """\
        example.com:443 not connected: every attempt failed, after 1 s

                           0        200 ms  400 ms   600 ms  800 ms   1 s
                           ┼────────┼───────┼────────┼───────┼────────┼
          日本語の…前です  ─────────────────✗                           failed at 400 ms
          \\x1b[31m… \\u202e ───────────────────────────────────────────✗ failed at 1 s

        日本語の経路の長い名前です: OSError:
          接続できませんでした。接続できませんでした。接続できませんでした。接続できませ
          んでした。接続できませんでした。
        \\x1b[31mred \\u202e: OSError: \\x1b[2Jx
        """,
    ),
    "nobody there": (
        race(outcome="cancelled", duration=0.0),
        "example.com:443 cancelled after 0 ms\n",
    ),
}


@pytest.mark.parametrize(("report", "picture"), PICTURES.values(), ids=PICTURES)
def test_a_race_is_drawn_in_80_columns(report: RaceReport, picture: str) -> None:
    assert render(report) == textwrap.dedent(picture).rstrip("\n")


def test_a_picture_can_do_with_ascii() -> None:
    assert render(TYPICAL, unicode=False) == textwrap.dedent("""\
        example.com:443 connected by soar in 8.31 s

                           0       2 s     4 s     6 s     8 s
                           +-------+-------+-------+-------+-
          direct           ------x                            tls_failure at 1.5 s
          proxyless         -------------------------------|  timed out at 8 s (connect)
          socks                  ---------------------------. lost the race (handshake)
        > soar                   ===========================* connected at 8.31 s
          fronting         not started (due at 9 s)
          last             not started (tier 1)
          amp-bro...g-name ineligible: gives responses to requests, not a byte stream

        direct (tls, 192.0.2.1:443): OSError: EOF occurred in violation of protocol
          (_ssl.c:1006)
        proxyless (connect): AttemptTimeout: not usable within 7.7 s
        soar: peer 203.0.113.5:53""")


def test_a_narrow_terminal_loses_words_only_where_they_stand_in_full_below() -> None:
    assert render(TYPICAL, width=40) == textwrap.dedent("""\
        example.com:443 connected by soar in
        8.31 s

                   0      5 s
                   ┼──────┼────
          direct   ──✗          tls_failure at…
          prox…ess ───────────┃ timed out at 8…
          socks      ─────────· lost the race…
        ▶ soar       ━━━━━━━━━✓ connected at 8.…
          fronting not started (due at 9 s)
          last     not started (tier 1)
          amp-…ame ineligible: gives responses…

        direct (tls, 192.0.2.1:443): OSError:
          EOF occurred in violation of protocol
          (_ssl.c:1006)
        proxyless (connect): AttemptTimeout: not
          usable within 7.7 s
        soar: peer 203.0.113.5:53
        amp-broker-with-a-long-name: ineligible:
          gives responses to requests, not a
          byte stream""")
    assert render(TYPICAL, width=1) == render(TYPICAL, width=40)


def test_colour_only_adds_to_the_picture() -> None:
    coloured = render(TYPICAL, colour=True)
    assert ESCAPE.sub("", coloured) == render(TYPICAL)
    rows = [line for line in coloured.splitlines() if line.startswith("\x1b")]
    assert all(row.endswith("\x1b[0m") for row in rows)
    assert [row[: row.index("m") + 1] for row in rows] == [
        "\x1b[1m",  # the headline
        "\x1b[31m",  # failed
        "\x1b[33m",  # timed out
        "\x1b[2m",  # lost, which is no failure
        "\x1b[32m",  # won
        "\x1b[2m",
        "\x1b[2m",
        "\x1b[2m",
    ]
    assert "\x1b" not in render(TYPICAL)


def test_a_hundred_entrants_have_a_row_each() -> None:
    entrants = [
        attempt(f"entrant-{n:03}", "lost_race", n / 100, 1.0, stage=Stage.CONNECT)
        for n in range(99)
    ]
    report = race(*entrants, attempt("best", "connected", 0.99, 1.0), winner="best")
    lines = render(report).splitlines()
    assert len(lines) == 1 + 1 + 2 + 100
    assert [line.split()[0] for line in lines[4:103]] == [f"entrant-{n:03}" for n in range(99)]
    assert lines[-1].startswith("▶ best")
    starts = [re.search(r"[─·]", line) for line in lines[4:103]]
    columns = [found.start() for found in starts if found]
    assert columns == sorted(columns)


@pytest.mark.parametrize(
    "end", [1e-12, 1e-6, 0.003, 0.0199, 0.5, 1.0, 3.7, 9.99, 61.0, 80.0, 3600.0, 1e7]
)
@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_axis_has_room_for_its_labels(end: float, width: int) -> None:
    report = race(
        attempt("direct", "connected", 0.0, end, stage=Stage.VERIFY), winner="direct", duration=end
    )
    labels, line, bar = render(report, width=width).splitlines()[-3:]
    assert line.strip().startswith("┼")
    columns = [match.start() for match in re.finditer("┼", line)]
    starts = [match.start() for match in re.finditer(r"\S+( m?s)?", labels)]
    assert starts == columns
    assert bar.index("━" if "━" in bar else "✓") == columns[0]
    assert len(line) <= width
    assert len(labels) <= width
    if end > 1e-9 and width >= 80:
        assert len(columns) >= 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 ms"),
        (-1.0, "0 ms"),
        (1.2e-5, "0.012 ms"),
        (0.0031, "3.1 ms"),
        (0.04512, "45.1 ms"),
        (0.8324, "832 ms"),
        (0.9994, "999 ms"),
        (0.9999, "1 s"),
        (1.0, "1 s"),
        (8.31, "8.31 s"),
        (80.0, "80 s"),
        (99.96, "100 s"),
        (123.4, "123 s"),
        (999.7, "1000 s"),
        (86400.0, "86400 s"),
        (1e300, "1e+300 s"),
    ],
)
def test_times_have_three_digits_and_a_unit(value: float, text: str) -> None:
    assert seconds(value) == text


texts = st.text(st.characters(exclude_categories=[]), max_size=60)
times = st.floats() | st.sampled_from([0.0, -0.0, 1e-320, 1e308, 1.0])
attempts = st.builds(
    Attempt,
    transport=texts,
    outcome=st.sampled_from(Outcome),
    stage=st.none() | st.sampled_from(Stage),
    error=st.none() | st.builds(OSError, texts),
    error_type=st.none() | st.sampled_from(ErrorType),
    reason=st.none() | texts,
    start_delay=times,
    tier=st.integers(),
    started_at=st.none() | times,
    finished_at=st.none() | times,
    peer=st.none() | texts,
)
reports = st.builds(
    RaceReport,
    target=texts,
    tls=st.booleans(),
    outcome=st.sampled_from(Outcome),
    winner=st.none() | texts,
    duration=times,
    timeout=times,
    started=times,
    attempts=st.lists(attempts, max_size=5).map(tuple),
)


@given(reports, st.integers(0, 200), st.booleans(), st.booleans())
def test_any_report_fits_and_is_safe_to_print(
    report: RaceReport, width: int, unicode: bool, colour: bool
) -> None:
    picture = render(report, width=width, unicode=unicode, colour=colour)
    plain = ESCAPE.sub("", picture)
    for line in plain.split("\n"):
        assert line.isprintable()
        assert width_of(line) <= max(width, 40)
        assert line == line.rstrip() or colour
    assert unicode or plain.isascii()
    assert len([line for line in plain.split("\n") if line]) > len(report.attempts)


def test_numbers_that_are_none_do_no_harm() -> None:
    report = dataclasses.replace(TYPICAL, duration=math.nan, timeout=math.inf)
    assert "connected by soar" in render(report)
