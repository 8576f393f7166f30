"""`racer replay`: what it prints, what it writes, and what it says of what it cannot use."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from typing import TYPE_CHECKING, NamedTuple

import pytest

from racer import RaceReport
from racer.cli import main
from tests.racer.report.races import attempt, race

if TYPE_CHECKING:
    from pathlib import Path

RACE = race(
    attempt("direct", "connect_failed", 0.0, 0.5, error=OSError("no")),
    attempt("front", "lost_race", 0.3, 9.0, start_delay=0.3),
    attempt("soar", "connected", 8.0, 9.0, start_delay=8.0),
    winner="soar",
    duration=9.0,
)


class Done(NamedTuple):
    code: int
    out: str
    err: str


def run(*arguments: str) -> Done:
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main(["replay", *arguments])
    return Done(code, out.getvalue(), err.getvalue())


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "race.json"
    path.write_text(RACE.to_json(), encoding="utf-8")
    return str(path)


def test_it_shows_the_race_and_a_table_of_policies(file: str) -> None:
    done = run(file, "--plain")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("example.com:443 connected by soar in 9 s\n")
    table = done.out[done.out.index("policy") :]
    assert table.splitlines()[:6] == [
        "policy               won by  usable after      begun  wasted",
        "as recorded          soar    9 s               3      2",
        "all at once          soar    1 s               3      2",
        "250 ms stagger       soar    1.5 s             3      2",
        "one after the other  nobody  9.2 s, if at all  2      2",
        "kindling's tiers     nobody  8.7 s, if at all  2      2",
    ]
    assert "one after the other: not connected within 80 s; from 9.2 s on it could be" in done.out
    assert done.out.isascii()
    assert max(map(len, done.out.splitlines())) <= 80


def test_what_was_asked_for_stands_beside_it(file: str) -> None:
    done = run(
        file,
        "--delay",
        "soar=2",
        "--tier",
        "front=1",
        "--attempt-timeout",
        "front=9",
        "--timeout",
        "30",
    )
    assert done.code == 0
    assert "As asked:\nexample.com:443 connected by soar in 1.5 s\n" in done.out
    assert "as asked             soar    1.5 s" in done.out


def test_json_for_programs(file: str) -> None:
    done = run(file, "--stagger", "0.25", "--json")
    told = json.loads(done.out)
    assert told["target"] == "example.com:443"
    assert [one["name"] for one in told["replays"]] == [
        "as recorded", "all at once", "250 ms stagger", "one after the other", "kindling's tiers", "as asked",
    ]  # fmt: skip
    assert told["replays"][-1]["latest"] == 1.5
    assert RaceReport.from_json(json.dumps(told["replays"][0]["report"])) == RACE


def test_a_page_is_written(file: str, tmp_path: Path) -> None:
    out = tmp_path / "race.html"
    done = run(file, "--html", str(out), "--delay", "soar=2")
    assert done.code == 0
    text = out.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert "as asked" in text


def test_it_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(RACE.to_json().encode())))
    assert run("-").code == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--delay", "sor=1"), "no entrant of this race is called 'sor'; did you mean 'soar'?"),
        (("--delay", "soar"), "--delay takes NAME=VALUE with a number of seconds, not 'soar'"),
        (("--delay", "=1"), "--delay takes NAME=VALUE with a number of seconds, not '=1'"),
        (("--tier", "soar=1.5"), "--tier takes NAME=VALUE with a whole number, not 'soar=1.5'"),
        (("--timeout", "nan"), "the timeout must be a number of seconds, above 0, not nan"),
        (("--stagger", "0"), "the stagger must be a number of seconds, above 0, not 0.0"),
    ],
)
def test_a_wrong_option_is_told_in_one_line(file: str, options: tuple[str, ...], said: str) -> None:
    done = run(file, *options)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"racer: {said}\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file or directory"),
        ("{", "is no race report: not JSON: "),
        ("{}", "is no race report: report: 'version' is missing"),
        (race(winner="ghost").to_json(), "the winner 'ghost' is none of the attempts"),
    ],
)
def test_a_file_that_is_no_report(tmp_path: Path, content: str | None, said: str) -> None:
    path = tmp_path / "race.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    done = run(str(path))
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_page_that_cannot_be_written(file: str, tmp_path: Path) -> None:
    done = run(file, "--html", str(tmp_path))
    assert done.code == 5
    assert done.err.count("\n") == 1
