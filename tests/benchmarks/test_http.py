from __future__ import annotations

import contextlib
import io
import json
import math
from typing import Any

import pytest

from benchmarks import http

# One run serves the module.
pytestmark = pytest.mark.timeout(240)

LEAST = ("--quick", "--pairs", "2", "--new", "1", "--storm", "6", "--loops", "asyncio")
COLUMNS = 90


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """One run with the least of it: what was printed, and what was written."""
    file = tmp_path_factory.mktemp("http") / "figures.json"
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert http.main([*LEAST, "--json", str(file)]) == 0
    return printed.getvalue(), json.loads(file.read_text(encoding="utf-8"))


def test_each_library_and_protocol_is_timed_on_kept_and_on_new_connections(
    told: tuple[str, dict[str, Any]],
) -> None:
    rows = told[1]["costs"]
    assert [(row["library"], row["protocol"], row["connection"]) for row in rows] == [
        (library, protocol, connection)
        for library in ("httpx", "httpx2")
        for protocol in ("HTTP/1.1", "HTTP/2")
        for connection in ("kept", "new")
    ]
    for row in rows:
        assert math.isfinite(row["plain"])
        assert row["raced"] > 0
        assert row["ratio"] == row["raced"] / row["plain"]


def test_ours_lose_nothing_in_the_storm_and_work_afterwards(
    told: tuple[str, dict[str, Any]],
) -> None:
    rows = told[1]["storms"]
    assert len(rows) == 2 * 4
    for row in rows:
        # Those at work when the last begins may be a few more than asked for.
        assert row["answered"] + row["cancelled"] + row["lost"] == row["requests"] == 6
        if row["client"].startswith("racer"):
            assert (row["lost"], row["worst"], row["afterwards"]) == (0, "", 20)


def test_the_tables_fit_and_have_a_line_for_each_row(told: tuple[str, dict[str, Any]]) -> None:
    text, figures = told
    lines = text.splitlines()
    assert max(map(len, lines)) <= COLUMNS
    rows = [line for line in lines if line.startswith("asyncio ")]
    assert len(rows) == len(figures["costs"]) + len(figures["storms"])


def test_figures_say_what_they_were_measured_with(told: tuple[str, dict[str, Any]]) -> None:
    assert told[1]["effort"] == {"kept": 2, "new": 1, "storm": 6}
    assert {"httpx", "httpx2", "h2"} <= set(told[1]["versions"])


@pytest.mark.parametrize("wrong", [("--loops", "curio"), ("--storm", "0"), ("--pairs", "some")])
def test_a_wrong_option_is_named(
    wrong: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        http.main(wrong)
    assert caught.value.code == 2
    assert repr(wrong[1]) in capsys.readouterr().err
