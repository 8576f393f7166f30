"""What the race benchmark finds: exactly on virtual clocks, and that the program itself runs on real sockets."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from benchmarks import _command, _race_pages, race
from benchmarks._command import Progress
from benchmarks._dialers import DIALERS, ROUTE_TIMEOUT, STAGGER
from benchmarks._networks import DELAY, JITTER, KINDS, Authorities, World
from benchmarks._race_measuring import Plan, measure
from benchmarks._race_telling import WHO
from benchmarks._results import Results
from benchmarks._samples import Lateness, Row, Sample, figures_of, median_race, rows_of
from racer import RaceReport

ROOT = Path(__file__).parents[2]
BY_NAME = {kind.name: kind for kind in KINDS}
DEADLINE = 5.0
COLUMNS = 80
MEASURED: dict[tuple[object, ...], dict[str, Sample]] = {}
ROUND_TRIP = 2 * DELAY
MOST = 2 * (DELAY + JITTER)


@pytest.fixture(scope="module")
def authorities() -> Authorities:
    return Authorities()


async def measured(
    authorities: Authorities, network: str, *, seed: int = 1, runs: int = 1
) -> dict[str, Sample]:
    """Return the last sample of each dialer, on a virtual clock; every loop measures once."""
    key = (
        type(anyio.Event()).__module__,
        network,
        seed,
        runs,
    )  # anyio has events of each loop's own
    if key not in MEASURED:
        plan = Plan(runs=runs, seed=seed, deadline=DEADLINE, in_memory=True)
        samples = await measure(BY_NAME[network], authorities, plan)
        assert len(samples) == runs * len(DIALERS)
        MEASURED[key] = {sample.dialer: sample for sample in samples}
    return MEASURED[key]


@pytest.fixture
def some(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send three of them only."""
    few = {name: DIALERS[name] for name in ("racer", "connect_tcp", "kindling")}
    monkeypatch.setattr("benchmarks._race_measuring.DIALERS", few)


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
    assert [*FOUND, "flapping", "dns-only"] == list(BY_NAME)


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
        if sample.dialer == "kindling":
            routes = 2  # all at once
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
@pytest.mark.parametrize("network", FOUND)
async def test_what_others_start_when(authorities: Authorities, network: str) -> None:
    samples = await measured(authorities, network)
    ours, kindling, outline = (samples[name] for name in ("racer", "kindling", "outline"))
    # With two routes Outline's stagger is racer's: they start the same at the same time.
    assert (outline.winner, outline.started) == (ours.winner, ours.started)
    assert outline.seconds == pytest.approx(ours.seconds, abs=2 * JITTER)
    # kindling waits for nobody, and has the faster of both, always at the price of the other.
    assert kindling.seconds <= ours.seconds + 2 * JITTER
    assert kindling.wasted == 1
    if FOUND[network][3] in {"connection_reset", "connection_refused", "certificate_invalid"}:
        assert outline.errors == {"direct": FOUND[network][3]}


@pytest.mark.virtual_time
@pytest.mark.parametrize("network", FOUND)
async def test_who_remembers_begins_with_what_worked(
    authorities: Authorities, network: str
) -> None:
    samples = await measured(authorities, network)
    first, again = samples["racer"], samples["racer-again"]
    assert again.winner == first.winner
    # Only what the second dial began is counted.
    assert again.opened == again.started
    if first.winner == "proxy":
        assert again.seconds < first.seconds - 2 * ROUND_TRIP
        assert again.seconds < 5 * MOST + 0.05


@pytest.mark.virtual_time
@pytest.mark.usefixtures("some")
async def test_a_flapping_network_is_there_for_some_and_not_for_others(
    authorities: Authorities,
) -> None:
    plan = Plan(runs=3, seed=4, deadline=DEADLINE, in_memory=True)
    samples = await measure(BY_NAME["flapping"], authorities, plan)
    lost, cut, there = (one for one in samples if one.dialer == "connect_tcp")
    # Its SYN vanished, and was sent again after a second.
    assert (lost.opened, lost.seconds > 1.0) == (1, True)
    assert (cut.winner, cut.errors) == (None, {"direct": "connection_reset"})
    assert (there.winner, there.seconds < 0.5) == ("direct", True)
    assert all(sample.usable for sample in samples if sample.dialer != "connect_tcp")


@pytest.mark.virtual_time
async def test_a_seed_is_a_network(authorities: Authorities) -> None:
    async def took(seed: int) -> float:
        async with World.of(BY_NAME["refused"], authorities, seed=seed, in_memory=True) as world:
            return (await DIALERS["racer"](world, DEADLINE)).seconds

    first, again, other = [await took(seed) for seed in (1, 1, 2)]
    assert first == pytest.approx(again, abs=1e-9)
    assert first != pytest.approx(other, abs=1e-4)


@pytest.mark.virtual_time
@pytest.mark.usefixtures("some")
async def test_each_run_has_a_seed_of_its_own_and_another_order(authorities: Authorities) -> None:
    plan = Plan(runs=3, seed=7, deadline=DEADLINE, in_memory=True)
    samples = await measure(BY_NAME["clean"], authorities, plan)
    assert [(sample.run, sample.seed, sample.dialer) for sample in samples] == [
        (0, 7, "racer"),
        (0, 7, "connect_tcp"),
        (0, 7, "kindling"),
        (1, 8, "connect_tcp"),
        (1, 8, "kindling"),
        (1, 8, "racer"),
        (2, 9, "kindling"),
        (2, 9, "racer"),
        (2, 9, "connect_tcp"),
    ]


@pytest.mark.virtual_time
@pytest.mark.usefixtures("some")
async def test_side_by_side_everybody_has_a_network_of_its_own(authorities: Authorities) -> None:
    plan = Plan(runs=1, seed=1, deadline=DEADLINE, in_memory=True, side_by_side=True)
    samples = await measure(BY_NAME["blackhole"], authorities, plan)
    assert {(one.dialer, one.winner, one.opened) for one in samples} == {
        ("racer", "proxy", 2),
        ("connect_tcp", None, 1),
        ("kindling", "proxy", 2),
    }
    # The slowest came last, and nobody had to wait for it.
    assert [one.dialer for one in samples] == ["kindling", "racer", "connect_tcp"]


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
    assert (row.p50, row.p95, row.least, row.most, row.ratio) == (0.5, 0.9, 0.1, 0.9, 2.0)
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


def test_figures_are_times_of_who_connected_waste_and_paired_ratios() -> None:
    samples = [
        replace(SAMPLE, run=0, seconds=0.2, wasted=1),
        replace(SAMPLE, run=1, seconds=0.4),
        failing(replace(SAMPLE, run=2), 5.0, "timeout"),
        replace(SAMPLE, run=0, dialer="connect_tcp", seconds=0.1),
        failing(replace(SAMPLE, run=1, dialer="connect_tcp"), 5.0, "timeout"),
    ]
    told = {figure.name: (figure.unit, figure.values) for figure in figures_of(samples)}
    assert told == {
        "clean/racer": ("s", (0.2, 0.4)),
        "clean/racer: wasted": ("count", (1.0, 0.0, 1.0)),
        "clean/racer: failed": ("share", (0.0, 0.0, 1.0)),
        "clean/racer: to connect_tcp": ("ratio", (2.0,)),
        "clean/connect_tcp": ("s", (0.1,)),
        "clean/connect_tcp: wasted": ("count", (0.0, 1.0)),
        "clean/connect_tcp: failed": ("share", (0.0, 1.0)),
    }


def test_the_race_that_is_shown_is_the_median_one() -> None:
    def told(seconds: float) -> RaceReport:
        return RaceReport(
            target="x:1", tls=False, outcome="connected", winner="a", duration=seconds,  # type: ignore[arg-type]
            timeout=1.0, started=0.0, attempts=(),
        )  # fmt: skip

    samples = [replace(SAMPLE, seconds=s, report=told(s)) for s in (0.3, 0.1, 0.2)]
    samples.append(replace(SAMPLE, dialer="racer-again", seconds=0.15, report=told(0.15)))
    shown = median_race(samples, "clean")
    assert shown is not None
    assert shown.duration == 0.2
    assert median_race(samples, "bad") is None
    assert "report" not in samples[0].to_dict()


# --- the program ----------------------------------------------------------------------------

TIMED = {"clean": 2, "sni-reset": 2, "blackhole": 1}
"""How often some networks are gone through in a quick run."""


def run(*options: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert race.main(options) == 0
    return printed.getvalue()


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("race") / "out"


@pytest.fixture(scope="module")
def told(out: Path) -> tuple[str, dict[str, Any]]:
    """One virtual run: what was printed, and what was written."""
    networks = [option for network in TIMED for option in ("--network", network)]
    text = run("--virtual", "--quick", "--output", str(out), *networks)
    return text, json.loads((out / "race.json").read_text(encoding="utf-8"))


def test_there_is_a_table_for_each_network(told: tuple[str, dict[str, Any]]) -> None:
    head, *tables, noise, written = told[0].split("\n\n")[2:]
    assert head.startswith("Each dial has 3 s")
    assert [table.partition(":")[0] for table in tables] == list(TIMED)
    for table in tables:
        columns, *rows = table.splitlines()[-1 - len(DIALERS) :]
        assert columns.split() == [
            "p50", "p95", "least-most", "ratio", "won", "by", "tried", "waste", "fail",
        ]  # fmt: skip
        assert [row.split()[0] for row in rows] == sorted(DIALERS, key=lambda n: (n != "racer", n))
    assert noise == "On a virtual clock: exact, and work takes no time."
    assert written.startswith("written to ")
    assert written.endswith(": race.json, race.png, race.html\n")


def test_everybody_is_introduced(told: tuple[str, dict[str, Any]]) -> None:
    assert list(WHO) == list(DIALERS)
    for name in DIALERS:
        assert f"\n{name} " in told[0]


def test_who_cannot_win_is_shown_with_its_reason_and_its_time(
    told: tuple[str, dict[str, Any]],
) -> None:
    tables = {table.partition(":")[0]: table for table in told[0].split("\n\n")}
    line = next(row for row in tables["blackhole"].splitlines() if row.startswith("connect_tcp"))
    assert line.split() == ["connect_tcp", "(3000)", "(3000)", "(timeout)", "1.0", "1.0", "1/1"]
    line = next(row for row in tables["sni-reset"].splitlines() if row.startswith("connect_tcp"))
    assert line.split()[3:] == ["(connection_reset)", "1.0", "1.0", "2/2"]


def test_the_text_is_ascii_and_fits_a_terminal(told: tuple[str, dict[str, Any]]) -> None:
    text = told[0].rpartition("written to")[0]  # a folder may be called anything
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= COLUMNS


def test_the_setting_is_stated(told: tuple[str, dict[str, Any]]) -> None:
    text, figures = told
    assert figures["setting"] == {
        "seed": 1,
        "runs": None,
        "quick": True,
        "deadline": 3.0,
        "virtual": True,
        "delay": DELAY,
        "jitter": JITTER,
        "stagger": STAGGER,
        "route_timeout": ROUTE_TIMEOUT,
        "resolver": "unbound",
    }
    for stated in ("45 ms round trips", "250 ms later", "at most 2 s", "has 3 s", "(seed 1)"):
        assert stated in text


def test_samples_are_written_raw_with_their_rows(told: tuple[str, dict[str, Any]]) -> None:
    details = told[1]["details"]
    assert len(details["samples"]) == sum(TIMED.values()) * len(DIALERS)
    assert {(row["network"], row["dialer"], row["runs"]) for row in details["rows"]} == {
        (network, dialer, n) for network, n in TIMED.items() for dialer in DIALERS
    }
    assert all(set(one) == set(Row.__dataclass_fields__) for one in details["rows"])
    assert [Sample(**entry) for entry in details["samples"]]
    assert details["networks"] == {name: BY_NAME[name].words for name in TIMED}
    assert details["lateness"] is None
    for race_told in details["races"].values():
        assert RaceReport.from_json(race_told).winner in {"direct", "proxy"}


def test_a_machine_and_comparable_figures_are_written(
    told: tuple[str, dict[str, Any]], out: Path
) -> None:
    del told
    results = Results.read(out / "race.json", benchmark="race")
    assert results.machine.versions["anyio"]
    names = [figure.name for figure in results.figures]
    assert len(names) == len(set(names))
    assert {"clean/racer", "clean/racer: to connect_tcp", "blackhole/connect_tcp: failed"} <= set(
        names
    )
    assert "blackhole/connect_tcp" not in names  # it never connected: there is no time


def test_a_picture_and_a_page_are_made(told: tuple[str, dict[str, Any]], out: Path) -> None:
    del told
    assert (out / "race.png").read_bytes().startswith(b"\x89PNG")
    page = (out / "race.html").read_text(encoding="utf-8")
    for network in TIMED:
        assert f"<h2>{network}</h2>" in page
    assert page.count("<figure") == len(TIMED)
    assert 'src="data:image/png;base64,' in page
    assert "http:" not in page
    assert "https:" not in page


def test_without_pictures_there_is_a_page_all_the_same(
    told: tuple[str, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del told
    monkeypatch.setattr(_command, "has_matplotlib", lambda: False)
    options = ("--virtual", "--runs", "1", "--network", "refused", "--output", str(tmp_path))
    assert race.main(options) == 2
    assert list(tmp_path.iterdir()) == []
    text = run(*options, "--no-pictures")
    assert text.endswith("race.json, race.html\n")
    assert "<img" not in (tmp_path / "race.html").read_text(encoding="utf-8")


def test_what_is_not_there_is_drawn_as_such(tmp_path: Path) -> None:
    rows = rows_of([failing(SAMPLE, 5.0, "timeout"), replace(SAMPLE, dialer="outline")])
    _race_pages.draw(rows, tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 1000


def test_two_files_are_compared(
    told: tuple[str, dict[str, Any]], out: Path, tmp_path: Path
) -> None:
    data = json.loads(json.dumps(told[1]))
    for figure in data["figures"]:
        if figure["name"] == "clean/racer":
            figure["values"] = [value + shift for value in figure["values"] for shift in (1.0, 1.1)]
    other = tmp_path / "b.json"
    other.write_text(json.dumps(data), encoding="utf-8")
    text = run("--compare", str(out / "race.json"), str(other))
    assert "1 of too few values to tell" in text  # two and four
    other2 = tmp_path / "c.json"
    other2.write_text(json.dumps(data).replace('"seed": 1,', '"seed": 2,', 1), encoding="utf-8")
    assert "another setting: seed: 1 and 2" in run("--compare", str(other), str(other2))
    assert "nothing moved" in run("--compare", str(out / "race.json"), str(out / "race.json"))


def planned(*options: str) -> dict[str, Plan]:
    return {kind.name: plan for kind, plan in race._plans(race._parser().parse_args(options))}


def test_how_often_and_for_how_long_each_network_is_gone_through() -> None:
    plans = planned()
    assert list(plans) == list(BY_NAME)
    assert {plan.runs for plan in plans.values()} == {20}
    assert {name for name, plan in plans.items() if plan.side_by_side} == {"dns-only"}
    assert (plans["clean"].deadline, plans["dns-only"].deadline) == (5.0, 12.0)
    quick = planned("--quick")
    assert [quick[name].runs for name in ("clean", "hang", "dns-only")] == [2, 1, 1]
    assert {name for name, plan in quick.items() if plan.together} == {
        kind.name for kind in KINDS if kind.waits
    }
    # Only twelve seconds for one that needs eight: the slowest are together, and come to less than a minute.
    assert "dns-only" not in planned("--virtual")
    assert list(planned("--network", "hang", "--network", "clean", "--runs", "7")) == [
        "hang",
        "clean",
    ]


# Without unbound a small forwarder stands in, so that the way through a resolver is gone in any case.
@pytest.mark.soak
def test_where_only_dns_gets_out_soar_wins(tmp_path: Path) -> None:
    resolver = "unbound" if shutil.which("unbound", path="/usr/sbin:/usr/bin") else "forwarder"
    run(
        *("--network", "dns-only", "--runs", "1", "--resolver", resolver),
        *("--output", str(tmp_path), "--no-pictures"),
    )
    data = json.loads((tmp_path / "race.json").read_text(encoding="utf-8"))
    samples = {one["dialer"]: one for one in data["details"]["samples"]}
    winners = {name: one["winner"] for name, one in samples.items()}
    assert winners == {
        "racer": "soar", "connect_tcp": None, "fallback": "soar", "kindling": None, "outline": "soar",
        "racer-again": "soar",
    }  # fmt: skip
    assert (samples["racer"]["opened"], samples["racer"]["wasted"]) == (3, 2)


def test_it_runs_on_real_sockets(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.race", "--runs", "1", "--no-pictures"),
            *("--network", "poisoned-dns", "--output", str(tmp_path)),
        ],
        capture_output=True,
        cwd=ROOT,
        timeout=50,
        check=False,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    figures = json.loads((tmp_path / "race.json").read_text(encoding="utf-8"))
    samples = figures["details"]["samples"]
    assert [(one["network"], one["dialer"], one["winner"]) for one in samples] == [
        ("poisoned-dns", name, None if name == "connect_tcp" else "proxy") for name in DIALERS
    ]
    for sample in samples:
        assert math.isfinite(sample["seconds"])
        assert sample["seconds"] > 3 * ROUND_TRIP  # nothing is faster than the link
    lateness = figures["details"]["lateness"]
    assert 0 <= lateness["p50"] <= lateness["worst"]
    assert "This machine's noise: " in done.stdout
    assert not figures["setting"]["virtual"]


def test_who_stops_reading_ends_it_quietly(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.race", "--virtual", "--runs", "1"),
            *("--network", "refused", "--output", str(tmp_path), "--no-pictures"),
        ],
        stdout=writer,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        timeout=50,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_was_measured_before_a_run_is_cut_short_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError

    monkeypatch.setattr(race, "print_network", fail)
    options = ("--virtual", "--runs", "1", "--network", "refused", "--network", "clean")
    with pytest.raises(ExceptionGroup):
        race.main([*options, "--output", str(tmp_path), "--no-pictures"])
    kept = Results.read(tmp_path / "race.json", benchmark="race")
    assert {sample["network"] for sample in kept.details["samples"]} == {"refused"}
    assert kept.details["cut short by"] == "KeyError"
    assert "cut short by" in (tmp_path / "race.html").read_text(encoding="utf-8")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_for_terminals() -> None:
    for out, shown in ((Terminal(), True), (io.StringIO(), False)):
        progress = Progress(2, out)
        progress.step("clean, run 1, racer")
        progress.clear()
        assert (out.getvalue() == "\r\x1b[K1/2: clean, run 1, racer\r\x1b[K") is shown
        assert bool(out.getvalue()) is shown


# --- what cannot be -------------------------------------------------------------------------


def refused(*options: str) -> str:
    """Return what a run that cannot be says, in its one line."""
    with (
        contextlib.redirect_stderr(io.StringIO()) as said,
        contextlib.redirect_stdout(io.StringIO()) as printed,
    ):
        try:
            code: object = race.main(options)
        except SystemExit as exc:
            code = exc.code
    assert code == 2
    assert printed.getvalue() == ""
    assert said.getvalue().count("\n") == 1
    return said.getvalue()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--network", "blackhol"), "there is no network 'blackhol'; did you mean 'blackhole'?"),
        (("--network", "xyz"), "there is no network 'xyz'; there are clean, poisoned-dns, "),
        (("--runs", "0"), "'0' is no whole number of at least one"),
        (("--seed", "x"), "invalid int value: 'x'"),
        (("--virtual", "--network", "dns-only"), "dns-only needs sockets"),
        (("--compare", "no-such.json", "b.json"), "no-such.json cannot be read"),
        (("--compare", "pyproject.toml", "b.json"), "pyproject.toml is no JSON"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(
    options: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert said in refused(*options)


def test_where_nothing_can_be_written_nothing_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert "choose another folder with --output" in refused("--virtual", "--output", str(file))


def test_without_root_there_are_no_packets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race, "why_unavailable", lambda: "needs root")
    said = refused("--virtual", "--packets", "--output", str(tmp_path))
    assert "(needs root); run it as root on Linux, or leave --packets out" in said


def test_without_a_resolver_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks._tunnel.shutil.which", lambda *_, **__: None)
    said = refused("--network", "dns-only", "--output", str(tmp_path))
    assert "apt install unbound), or take a plain forwarder with --resolver forwarder" in said
