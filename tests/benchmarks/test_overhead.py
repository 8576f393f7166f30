from __future__ import annotations

import contextlib
import io
import json
import math
from typing import Any

import pytest

from benchmarks import overhead
from benchmarks._loops import LOOPS, is_installed

# One run serves the module: several interpreters and three loops, which a busy machine takes its time for.
pytestmark = pytest.mark.timeout(240)

LEAST = ("--quick", "--pairs", "5", "--blocks", "1", "--imports", "1")
COLUMNS = 80

HERE = [loop for loop in LOOPS if is_installed(loop)]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """One run of everything with the least of it: what was printed, and what was written."""
    file = tmp_path_factory.mktemp("overhead") / "figures.json"
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert overhead.main([*LEAST, "--json", str(file)]) == 0
    return printed.getvalue(), json.loads(file.read_text(encoding="utf-8"))


def keys(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def positive(seconds: float) -> bool:
    return math.isfinite(seconds) and seconds > 0


def test_each_loop_dials_by_literal_and_by_name_with_and_without_an_sdk(
    told: tuple[str, dict[str, Any]],
) -> None:
    rows = told[1]["dials"]
    assert keys(rows, "loop", "target", "telemetry") == [
        (loop, target, telemetry)
        for loop in HERE
        for target in ("literal", "name")
        for telemetry in overhead.TELEMETRY
    ]
    for row in rows:
        assert row["pairs"] == 5
        for side in (row["connect_tcp"], row["dial"]):
            assert positive(side["median"])
            assert positive(side["p95"])
        assert row["ratio"] == row["dial"]["median"] / row["connect_tcp"]["median"]


def test_own_work_is_told_for_one_and_for_five_entrants(told: tuple[str, dict[str, Any]]) -> None:
    rows = told[1]["own"]
    assert keys(rows, "loop", "entrants", "telemetry") == [
        (loop, entrants, telemetry)
        for loop in HERE
        for entrants in (1, 5)
        for telemetry in overhead.TELEMETRY
    ]
    for row in rows:
        assert row["dials"] == 40
        assert positive(row["dial"])
        assert math.isfinite(row["share"])


def test_every_span_of_the_dials_came_out_at_the_other_end(
    told: tuple[str, dict[str, Any]],
) -> None:
    assert [row["dropped"] for row in (*told[1]["dials"], *told[1]["own"])] == [0] * 12 * len(HERE)


def test_imports_stand_beside_anyio(told: tuple[str, dict[str, Any]]) -> None:
    rows = told[1]["imports"]
    assert keys(rows, "module", "runs") == [("anyio", 1), ("racer", 1)]
    assert all(positive(row["seconds"]["median"]) for row in rows)


def test_the_tables_fit_a_terminal_and_have_a_line_for_each_row(
    told: tuple[str, dict[str, Any]],
) -> None:
    text, figures = told
    lines = text.splitlines()
    assert max(map(len, lines)) <= COLUMNS
    for loop in HERE:
        rows = [line for line in lines if line.startswith(f"{loop} ")]
        assert len(rows) == sum(row["loop"] == loop for row in figures["dials"] + figures["own"])
    assert sum(line.startswith(("anyio ", "racer  ")) for line in lines) == 2


def test_figures_say_what_they_were_measured_with(told: tuple[str, dict[str, Any]]) -> None:
    figures = told[1]
    assert figures["effort"] == {"pairs": 5, "blocks": 1, "dials": 40, "imports": 1}
    assert set(figures["versions"]) == {"anyio", "opentelemetry-sdk"}


def test_the_95th_percentile_is_taken_of_the_ordered_times() -> None:
    spread = overhead.Spread.of([float(n) for n in range(100, -1, -1)])
    assert (spread.median, spread.p95) == (50.0, 95.0)


@pytest.mark.parametrize("wrong", [("--loops", "curio"), ("--pairs", "0"), ("--blocks", "some")])
def test_a_wrong_option_is_named(
    wrong: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        overhead.main(wrong)
    assert caught.value.code == 2
    assert repr(wrong[1]) in capsys.readouterr().err
