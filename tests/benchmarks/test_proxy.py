from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import pytest

from benchmarks import proxy
from benchmarks._proxy_world import found

pytestmark = pytest.mark.timeout(120)

LEAST = ("--quick", "--rounds", "1", "--megabytes", "1", "--connections", "3", "--crowd", "6", "--threads", "2")  # fmt: skip
COLUMNS = 130


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """One run with the least of it: what was printed, and what was written."""
    file = tmp_path_factory.mktemp("proxy") / "figures.json"
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert proxy.main([*LEAST, "--loops", "asyncio", "--json", str(file)]) == 0
    return printed.getvalue(), json.loads(file.read_text(encoding="utf-8"))


def test_each_proxy_that_is_here_has_its_row(told: tuple[str, dict[str, Any]]) -> None:
    rows = told[1]["rows"]
    rivals = [name for name in ("microsocks", "dante") if found(name)]
    assert [row["name"] for row in rows] == ["none", *rivals, "racer/asyncio"]
    for row in rows:
        assert row["down"] > 0
        assert row["up"] > 0
        assert 0 < row["first_byte"] <= row["first_byte_p95"]
        assert row["rate"] > 0


def test_the_table_fits_and_has_a_line_for_each_row(told: tuple[str, dict[str, Any]]) -> None:
    text, figures = told
    lines = text.splitlines()
    assert max(map(len, lines)) <= COLUMNS
    for row in figures["rows"]:
        assert any(line.startswith(f"{row['name']} ") for line in lines)
