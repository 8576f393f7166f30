from __future__ import annotations

import contextlib
import io
import math
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import overhead
from benchmarks._loops import LOOPS, is_installed
from benchmarks._overhead_dials import GROWTH, TARGETS, TELEMETRY, OwnCost, Spread
from benchmarks._overhead_pages import _slope
from benchmarks._results import Results

# One run serves the module: several interpreters, which a busy machine takes its time for.
pytestmark = pytest.mark.timeout(240)

ROOT = Path(__file__).parents[2]
LEAST = overhead.Effort(
    pairs=4, blocks=1, dials=2, crowd=10, rounds=1, held=5, sessions=3, kept=2, new=1, imports=1
)
COLUMNS = 80


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Results, str]:
    """One run of everything with the least of it, on one loop: what was printed, and what was written."""
    out = tmp_path_factory.mktemp("overhead")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overhead, "QUICK", LEAST)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            options = ["--quick", "--loops", "asyncio", "--no-pictures", "--output", str(out)]
            assert overhead.main(options) == 0
    results = Results.read(out / "overhead.json", benchmark="overhead")
    return printed.getvalue(), results, (out / "overhead.html").read_text(encoding="utf-8")


def positive(seconds: float) -> bool:
    return math.isfinite(seconds) and seconds > 0


def test_dials_are_by_literal_and_by_name_with_and_without_an_sdk(
    told: tuple[str, Results, str],
) -> None:
    rows = told[1].details["dials"]
    assert [(row["target"], row["telemetry"]) for row in rows] == [
        (target, telemetry) for target in TARGETS for telemetry in TELEMETRY
    ]
    for row in rows:
        assert len(row["plain"]) == len(row["raced"]) == LEAST.pairs
        assert all(map(positive, (*row["plain"], *row["raced"], row["ratio"])))


def test_own_work_is_told_by_telemetry_and_by_entrants(told: tuple[str, Results, str]) -> None:
    details = told[1].details
    assert [(row["entrants"], row["telemetry"]) for row in details["own"]] == [
        (entrants, telemetry) for entrants in (1, 5) for telemetry in TELEMETRY
    ]
    assert [row["entrants"] for row in details["growth"]] == list(GROWTH) == [1, 2, 4, 8, 16, 32]
    for row in (*details["own"], *details["growth"]):
        assert positive(row["dial"])
        assert math.isfinite(row["share"])


def test_every_span_of_the_dials_came_out_at_the_other_end(
    told: tuple[str, Results, str],
) -> None:
    details = told[1].details
    assert [row["dropped"] for row in (*details["dials"], *details["own"])] == [0] * 12


def test_many_at_once_all_arrive(told: tuple[str, Results, str]) -> None:
    (row,) = told[1].details["crowds"]
    assert (row["dials"], row["failed"]) == (LEAST.crowd, 0)
    assert positive(row["ratio"])


def test_memory_of_more_entrants_is_more(told: tuple[str, Results, str]) -> None:
    octets = {row["what"]: row["octets"] for row in told[1].details["memory"]}
    assert (
        octets["a task that waits"]
        < octets["a dial under way, 1 entrant"]
        < octets["a dial under way, 5 entrants"]
    )
    assert octets["a task that waits"] < octets["a connection"]
    assert math.isfinite(octets["an idle session of Soar's server"])


def test_requests_are_on_kept_and_on_new_connections(told: tuple[str, Results, str]) -> None:
    rows = told[1].details["requests"]
    assert [(row["protocol"], row["connection"]) for row in rows] == [
        (protocol, connection)
        for protocol in ("HTTP/1.1", "HTTP/2")
        for connection in ("kept", "new")
    ]
    assert all(positive(row["ratio"]) for row in rows)


def test_imports_stand_beside_anyio(told: tuple[str, Results, str]) -> None:
    rows = told[1].details["imports"]
    assert [(row["module"], len(row["seconds"])) for row in rows] == [("anyio", 1), ("racer", 1)]


def test_the_tables_fit_a_terminal_and_stand_on_the_page(told: tuple[str, Results, str]) -> None:
    text, results, page = told
    lines = text.splitlines()
    assert max(map(len, lines[:-1])) <= COLUMNS
    details = results.details
    rows = [line for line in lines if line.startswith("asyncio ")]
    kinds = ("dials", "own", "crowds", "requests")
    assert len(rows) == sum(len(details[kind]) for kind in kinds) + 1  # growth is one line
    assert all(line in page for line in rows)


def test_figures_can_be_compared(
    told: tuple[str, Results, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = told[1]
    names = [figure.name for figure in results.figures]
    assert len(set(names)) >= len(names) - 2  # one entrant stands in two tables
    file = tmp_path / "x.json"
    results.write(file)
    assert overhead.main(["--compare", str(file), str(file)]) == 0
    assert "nothing moved" in capsys.readouterr().out


def test_telemetry_is_what_is_gone_without_it() -> None:
    cost = OwnCost(
        loop="asyncio",
        entrants=1,
        telemetry="traces",
        told=(5.0, 6.0, 9.0),
        untold=(3.0, 5.0, 5.0),
        dropped=0,
    )
    assert (cost.dial, cost.share) == (6.0, 2.0)
    assert _slope({1: 10.0, 2: 13.0, 4: 19.0}) == pytest.approx(3.0)


def test_the_95th_percentile_is_taken_of_the_ordered_times() -> None:
    spread = Spread.of([float(n) for n in range(100, -1, -1)])
    assert (spread.median, spread.p95, spread.least, spread.most) == (50.0, 95.0, 0.0, 100.0)


@pytest.mark.parametrize("wrong", [("--loops", "curio"), ("--pairs", "0"), ("--blocks", "some")])
def test_a_wrong_option_is_named(
    wrong: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        overhead.main(wrong)
    assert caught.value.code == 2
    assert repr(wrong[1]) in capsys.readouterr().err


def test_where_nothing_can_be_written_it_says_so_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert overhead.main(["--output", str(tmp_path / "file" / "out")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "choose another folder with --output" in said


@pytest.mark.soak
def test_all_of_a_quick_run_on_every_loop(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.overhead", "--quick", "--output", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=230
    )
    assert (done.returncode, done.stderr) == (0, "")
    details = Results.read(tmp_path / "overhead.json").details
    loops = [loop for loop in LOOPS if is_installed(loop)]
    assert [row["loop"] for row in details["crowds"]] == loops
    assert all(row["failed"] == 0 for row in details["crowds"])
    for name in ("overhead.png", "overhead-entrants.png", "overhead-http.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
