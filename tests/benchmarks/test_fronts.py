"""The figures on fronts and pages: every way in every world, and limits that hold end to end."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import pytest

from benchmarks import fronts

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """One run with the least of it: what was printed, and what was written."""
    file = tmp_path_factory.mktemp("fronts") / "figures.json"
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert fronts.main(["--quick", "--worlds", "4", "--json", str(file)]) == 0
    return printed.getvalue(), json.loads(file.read_text(encoding="utf-8"))


def test_every_way_is_measured_in_every_world(told: tuple[str, dict[str, Any]]) -> None:
    rows = told[1]["fronts"]
    assert len(rows) == 2 * len(fronts.WAYS) * 2
    assert {row["who"] for row in rows} == set(fronts.WAYS)
    assert {row["of"] for row in rows if row["phase"] == "first"} == {4}
    assert {row["of"] for row in rows if row["phase"] == "later"} == {80}
    assert all(row["lines"] <= row["of"] for row in rows)
    assert all(0 < row["median"] <= row["p95"] <= row["most"] <= fronts.BUDGET for row in rows)


def test_the_pool_always_finds_a_line(told: tuple[str, dict[str, Any]]) -> None:
    """On a virtual clock and in seeded worlds this is no matter of luck."""
    rows = [row for row in told[1]["fronts"] if row["who"] == "racer's pool"]
    assert all(row["lines"] == row["of"] for row in rows)


def test_what_is_promised_comes_through(told: tuple[str, dict[str, Any]]) -> None:
    rows = told[1]["amp"]
    assert [row["max_url"] for row in rows] == [2000, 8000, 16_000]
    for row in rows[:2]:
        assert row["promised"] <= row["body"]
        assert row["max_url"] - 100 < row["url"] <= row["max_url"]
    # The cache's own limit is below the last one.
    assert rows[2]["body"] < rows[2]["promised"]
    assert rows[2]["url"] <= 8192
    assert all(2.3 < row["per_byte"] < 2.4 for row in rows)


def test_both_tables_are_printed(told: tuple[str, dict[str, Any]]) -> None:
    text = told[0]
    assert "30% broken" in text
    assert "8192 octets" in text
    assert max(map(len, text.splitlines())) <= 100
