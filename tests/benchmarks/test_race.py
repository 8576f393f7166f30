"""What the race benchmark finds: exactly on virtual clocks, and that the program itself runs on real sockets."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import race
from benchmarks._dialers import DIALERS, ROUTE_TIMEOUT, STAGGER
from benchmarks._networks import DELAY, JITTER, KINDS, Authorities
from benchmarks._samples import Lateness, Row, Sample, rows_of

ROOT = Path(__file__).parents[2]
BY_NAME = {kind.name: kind for kind in KINDS}
DEADLINE = 5.0
COLUMNS = 80
ROUND_TRIP = 2 * DELAY
MOST = 2 * (DELAY + JITTER)


@pytest.fixture(scope="module")
def authorities() -> Authorities:
    return Authorities()


async def measured(
    authorities: Authorities, network: str, *, seed: int = 1, runs: int = 1
) -> dict[str, Sample]:
    """Return the last sample of each dialer, on a virtual clock."""
    samples = await race.measure(
        BY_NAME[network], authorities, runs=runs, seed=seed, deadline=DEADLINE, in_memory=True
    )
    assert len(samples) == runs * len(DIALERS)
    return {sample.dialer: sample for sample in samples}


# --- what is found --------------------------------------------------------------------------

# By network: who wins for racer, for one connect, and for the loop, and what keeps the direct route.
FOUND: dict[str, tuple[str, str | None, str, str | None]] = {
    "clean": ("direct", "direct", "direct", None),
    "poisoned-dns": ("proxy", None, "proxy", "certificate_invalid"),
    "sni-reset": ("proxy", None, "proxy", "connection_reset"),
    "refused": ("proxy", None, "proxy", "connection_refused"),
    "blackhole": ("proxy", None, "proxy", "timeout"),
    "hang": ("proxy", None, "proxy", "timeout"),
    "throttled": ("proxy", "direct", "direct", None),
}


def test_every_network_is_looked_at() -> None:
    assert list(FOUND) == list(BY_NAME)


@pytest.mark.virtual_time
@pytest.mark.parametrize("network", FOUND)
async def test_who_wins_and_what_keeps_the_others(authorities: Authorities, network: str) -> None:
    samples = await measured(authorities, network)
    ours, plain, fallback = (samples[name] for name in ("racer", "connect_tcp", "fallback"))
    *winners, why = FOUND[network]
    assert [ours.winner, plain.winner, fallback.winner] == winners
    assert [s.usable for s in (ours, plain, fallback)] == [one is not None for one in winners]

    if plain.winner is None:
        assert plain.errors == {"direct": why}
        assert fallback.errors == {"direct": why}
    # To racer a route that was overtaken has not failed.
    assert ours.errors == ({} if why in {None, "timeout"} else {"direct": why})


@pytest.mark.virtual_time
@pytest.mark.parametrize("network", FOUND)
async def test_every_connection_is_counted(authorities: Authorities, network: str) -> None:
    for sample in (await measured(authorities, network)).values():
        routes = 1 if sample.winner == "direct" or sample.dialer == "connect_tcp" else 2
        assert (sample.started, sample.opened) == (routes, routes)
        assert sample.wasted == sample.opened - sample.usable
    # What is refused, vanishes or hangs on the way does not come as far as the site.
    reached = {name: one.reached for name, one in (await measured(authorities, network)).items()}
    stopped = network in {"refused", "blackhole", "hang"}
    assert reached["connect_tcp"] == (0 if stopped else 1)
    assert reached["racer"] == (1 if stopped or network == "clean" else 2)


@pytest.mark.virtual_time
@pytest.mark.parametrize("network", ["blackhole", "hang"])
async def test_silence_costs_a_stagger_or_a_whole_timeout(
    authorities: Authorities, network: str
) -> None:
    samples = await measured(authorities, network)
    ours, fallback = samples["racer"].seconds, samples["fallback"].seconds
    # The same proxy with the same dice, behind another wait.
    assert ours - STAGGER == pytest.approx(fallback - ROUTE_TIMEOUT, abs=1e-6)
    assert 5 * ROUND_TRIP < ours - STAGGER < 5 * MOST + 0.05
    assert samples["connect_tcp"].seconds == pytest.approx(DEADLINE)


@pytest.mark.virtual_time
@pytest.mark.parametrize("network", ["poisoned-dns", "sni-reset", "refused"])
async def test_a_failure_starts_the_next_route_at_once(
    authorities: Authorities, network: str
) -> None:
    samples = await measured(authorities, network)
    # Nobody waits for anything: racer asks for both families and goes on with the first, the loop waits for both.
    assert samples["racer"].seconds <= samples["fallback"].seconds + 1e-6
    assert samples["racer"].seconds == pytest.approx(samples["fallback"].seconds, abs=2 * JITTER)
    assert samples["racer"].seconds - samples["connect_tcp"].seconds > 5 * ROUND_TRIP


@pytest.mark.virtual_time
async def test_where_nothing_is_wrong_a_race_costs_no_time(authorities: Authorities) -> None:
    samples = await measured(authorities, "clean")
    # Look-up, TCP, TLS, one byte and back.
    for sample in samples.values():
        assert 4 * ROUND_TRIP < sample.seconds < 4 * MOST + JITTER
    assert samples["racer"].seconds <= samples["connect_tcp"].seconds + 1e-6


@pytest.mark.virtual_time
async def test_a_seed_is_a_network(authorities: Authorities) -> None:
    first, again, other = [
        (await measured(authorities, "refused", seed=seed))["racer"] for seed in (1, 1, 2)
    ]
    assert first.seconds == pytest.approx(again.seconds, abs=1e-9)
    assert first.seconds != pytest.approx(other.seconds, abs=1e-4)


@pytest.mark.virtual_time
async def test_each_run_has_a_seed_of_its_own_and_another_order(authorities: Authorities) -> None:
    samples = await race.measure(
        BY_NAME["refused"], authorities, runs=3, seed=7, deadline=DEADLINE, in_memory=True
    )
    assert [(sample.run, sample.seed, sample.dialer) for sample in samples] == [
        (0, 7, "racer"),
        (0, 7, "connect_tcp"),
        (0, 7, "fallback"),
        (1, 8, "connect_tcp"),
        (1, 8, "fallback"),
        (1, 8, "racer"),
        (2, 9, "fallback"),
        (2, 9, "racer"),
        (2, 9, "connect_tcp"),
    ]


# --- rows -----------------------------------------------------------------------------------

SAMPLE = Sample(
    network="clean",
    dialer="racer",
    run=0,
    seed=1,
    usable=True,
    seconds=0.2,
    winner="direct",
    started=1,
    opened=1,
    wasted=0,
    reached=1,
    errors={},
)


def failing(sample: Sample, seconds: float, why: str) -> Sample:
    return replace(
        sample, usable=False, seconds=seconds, winner=None, wasted=1, errors={"direct": why}
    )


def test_rows_stand_beside_racers_within_each_network() -> None:
    samples = [
        replace(SAMPLE, dialer="other", seconds=0.3),
        replace(SAMPLE, seconds=0.1),
        replace(SAMPLE, network="bad", seconds=0.5),
        replace(SAMPLE, network="bad", dialer="other", seconds=0.25),
    ]
    assert [(row.network, row.dialer, row.ratio) for row in rows_of(samples)] == [
        ("clean", "racer", 1.0),
        ("clean", "other", pytest.approx(3.0)),
        ("bad", "racer", 1.0),
        ("bad", "other", pytest.approx(0.5)),
    ]


def test_a_row_counts_failures_and_times_what_was_usable() -> None:
    samples = [replace(SAMPLE, seconds=n / 10) for n in range(1, 10)]
    row = Row.of([*samples, failing(SAMPLE, 5.0, "timeout")], 0.25)
    assert (row.runs, row.failed) == (10, 1)
    assert (row.p50, row.p95, row.ratio) == (0.5, 0.9, 2.0)
    assert row.outcomes == {"direct": 9, "timeout": 1}
    assert (row.started, row.wasted) == (1.0, 0.1)


def test_where_all_failed_the_times_are_those_of_failing() -> None:
    samples = [failing(SAMPLE, seconds, "connection_reset") for seconds in (0.1, 0.2, 0.3)]
    (row,) = rows_of(samples)
    assert (row.failed, row.p50, row.p95, row.ratio) == (3, 0.2, 0.3, None)
    (ours, rival) = rows_of([*samples, replace(SAMPLE, dialer="other")])
    assert (ours.ratio, rival.ratio) == (None, None)


def test_lateness_is_told_in_three_numbers() -> None:
    late = Lateness.of([n / 1000 for n in range(100, -1, -1)])
    assert (late.p50, late.p95, late.worst) == (0.05, 0.095, 0.1)


# --- the program ----------------------------------------------------------------------------

KEYS = {
    "samples": set(SAMPLE.__dataclass_fields__),
    "rows": set(Row.__dataclass_fields__),
}


def run(*options: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert race.main(options) == 0
    return printed.getvalue()


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """One virtual run of everything: what was printed, and what was written."""
    file = tmp_path_factory.mktemp("race") / "samples.json"
    text = run("--virtual", "--quick", "--json", str(file))
    return text, json.loads(file.read_text(encoding="utf-8"))


def test_there_is_a_table_for_each_network(told: tuple[str, dict[str, Any]]) -> None:
    head, *tables, noise = told[0].split("\n\n")[2:]
    assert head.startswith("Each dial has 3 s.")
    assert [table.partition(":")[0] for table in tables] == list(BY_NAME)
    for table in tables:
        *_, columns, ours, plain, fallback = table.splitlines()
        assert columns.split() == ["p50", "p95", "ratio", "won", "by", "tried", "waste", "fail"]
        assert [row.split()[0] for row in (ours, plain, fallback)] == list(DIALERS)
    assert noise == "On a virtual clock: exact, and work takes no time.\n"


def test_who_cannot_win_is_shown_with_its_reason_and_its_time(
    told: tuple[str, dict[str, Any]],
) -> None:
    tables = {table.partition(":")[0]: table for table in told[0].split("\n\n")}
    line = next(row for row in tables["blackhole"].splitlines() if row.startswith("connect_tcp"))
    assert line.split() == ["connect_tcp", "(3000)", "(3000)", "(timeout)", "1.0", "1.0", "2/2"]
    line = next(row for row in tables["sni-reset"].splitlines() if row.startswith("connect_tcp"))
    assert line.split()[3:] == ["(connection_reset)", "1.0", "1.0", "3/3"]


def test_the_text_is_ascii_and_fits_a_terminal(told: tuple[str, dict[str, Any]]) -> None:
    assert told[0].isascii()
    assert max(map(len, told[0].splitlines())) <= COLUMNS


def test_the_setting_is_stated(told: tuple[str, dict[str, Any]]) -> None:
    text, figures = told
    assert figures["setting"] == {
        "seed": 1,
        "deadline": 3.0,
        "virtual": True,
        "delay": DELAY,
        "jitter": JITTER,
        "stagger": STAGGER,
        "route_timeout": ROUTE_TIMEOUT,
    }
    for stated in ("45 ms round trips", "250 ms later", "at most 2 s", "has 3 s", "(seed 1)"):
        assert stated in text


def test_samples_are_written_raw_with_their_rows(told: tuple[str, dict[str, Any]]) -> None:
    figures = told[1]
    runs = {kind.name: 2 if kind.waits else 3 for kind in KINDS}
    assert len(figures["samples"]) == sum(runs.values()) * len(DIALERS)
    assert [(row["network"], row["dialer"], row["runs"]) for row in figures["rows"]] == [
        (network, dialer, n) for network, n in runs.items() for dialer in DIALERS
    ]
    for kind, keys in KEYS.items():
        assert all(set(entry) == keys for entry in figures[kind])
    assert [Sample(**entry) for entry in figures["samples"]]
    assert figures["networks"] == {kind.name: kind.words for kind in KINDS}
    assert figures["lateness"] is None


def test_it_runs_on_real_sockets(tmp_path: Path) -> None:
    file = tmp_path / "samples.json"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.race", "--runs", "1"),
            *("--networks", "poisoned-dns,clean", "--json", str(file)),
        ],
        capture_output=True,
        cwd=ROOT,
        timeout=50,
        check=False,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    figures = json.loads(file.read_text(encoding="utf-8"))
    assert [(one["network"], one["dialer"], one["winner"]) for one in figures["samples"]] == [
        ("poisoned-dns", "racer", "proxy"),
        ("poisoned-dns", "connect_tcp", None),
        ("poisoned-dns", "fallback", "proxy"),
        ("clean", "racer", "direct"),
        ("clean", "connect_tcp", "direct"),
        ("clean", "fallback", "direct"),
    ]
    for sample in figures["samples"]:
        assert math.isfinite(sample["seconds"])
        assert sample["seconds"] > 3 * ROUND_TRIP  # nothing is faster than the link
    assert 0 <= figures["lateness"]["p50"] <= figures["lateness"]["worst"]
    assert "This machine's noise: " in done.stdout
    assert not figures["setting"]["virtual"]


def test_who_stops_reading_ends_it_quietly() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.race", "--virtual", "--runs", "1"],
        stdout=writer,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        timeout=50,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("wrong", [("--networks", "moon"), ("--runs", "0"), ("--seed", "x")])
def test_a_wrong_option_is_named(
    wrong: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        race.main(wrong)
    assert caught.value.code == 2
    assert repr(wrong[1]) in capsys.readouterr().err
