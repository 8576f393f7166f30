"""Benchmarks' files: what is written is read, and what moved is told apart from noise and from what cannot be compared."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks._machine import Machine
from benchmarks._results import (
    SCHEMA,
    Comparison,
    Figure,
    Results,
    Unusable,
    Verdict,
    share,
    spread,
)

if TYPE_CHECKING:
    from pathlib import Path

MACHINE = Machine(
    cpu="Z80", cores=2, memory=24, system="Linux", kernel="6.1", python="CPython 3.11.7", racer="0.1.0",
    commit="abc1234", versions={"anyio": "4.9"}, load=0.25, date="2026-11-30T12:00:00+00:00",
)  # fmt: skip


def figure(name: str, *values: float, unit: str = "s", lower_is_better: bool = True) -> Figure:
    return Figure(name=name, unit=unit, values=values, lower_is_better=lower_is_better)


def results(*figures: Figure, machine: Machine = MACHINE, **setting: Any) -> Results:
    return Results(
        benchmark="race", machine=machine, setting={"seed": 1} | setting, figures=figures
    )


def noisy(middle: float, *, seed: int, runs: int = 20) -> tuple[float, ...]:
    dice = random.Random(seed)
    return tuple(middle * (1 + dice.gauss(0, 0.05)) for _ in range(runs))


def verdicts(before: Results, after: Results) -> dict[str, Verdict]:
    return {move.name: move.verdict for move in Comparison.of(before, after).moves}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "race.json"
    told = replace(results(figure("a", 0.1, 0.2)), details={"more": [1, 2]})
    told.write(path)
    again = Results.read(path, benchmark="race")
    assert (again.machine, dict(again.setting), list(again.figures)) == (
        MACHINE,
        {"seed": 1},
        [figure("a", 0.1, 0.2)],
    )
    assert again.details == {"more": [1, 2]}
    assert json.loads(path.read_text(encoding="utf-8"))["schema"] == SCHEMA


def test_files_of_before_machines_had_a_pace_are_read(tmp_path: Path) -> None:
    path = tmp_path / "race.json"
    results(figure("a", 0.1)).write(path)
    data = json.loads(path.read_text(encoding="utf-8"))
    del data["machine"]["pace"]
    path.write_text(json.dumps(data), encoding="utf-8")
    assert Results.read(path).machine.pace is None
    assert "pace" not in Results.read(path).machine.words
    assert replace(MACHINE, pace=10.9e-6).words.endswith(", pace 10.9 us")


def test_a_pace_is_a_time() -> None:
    here = Machine.here()
    assert here.pace is not None
    assert 0 < here.pace < 1e-2


def test_a_median_lies_in_its_interval() -> None:
    # By hand, from the binomial distribution: of 20 values the 6th to the 15th, of 10 the 2nd to the 9th.
    assert spread(range(20)) == (9.5, 5, 14)
    assert spread(range(10)) == (4.5, 1, 8)
    assert spread([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0)
    assert spread([7.0]) == (7.0, 7.0, 7.0)


def test_an_interval_holds_the_median_as_often_as_it_says() -> None:
    dice = random.Random(1)
    held = 0
    for _ in range(2000):
        _, low, high = spread([dice.expovariate(1.0) for _ in range(20)])
        held += low <= 0.6931 <= high
    assert 0.94 <= held / 2000 <= 0.98


def test_noise_is_not_movement() -> None:
    before = results(figure("a", *noisy(1.0, seed=1)))
    assert verdicts(before, results(figure("a", *noisy(1.0, seed=2)))) == {"a": Verdict.SAME}
    assert verdicts(before, results(figure("a", *noisy(0.8, seed=2)))) == {"a": Verdict.BETTER}
    assert verdicts(before, results(figure("a", *noisy(1.2, seed=2)))) == {"a": Verdict.WORSE}
    # Of some things more is better, and exact but tiny differences are nothing to anybody.
    rate = [
        results(figure("a", *[value] * 4, unit="B/s", lower_is_better=False))
        for value in (1.0, 2.0)
    ]
    assert verdicts(*rate) == {"a": Verdict.BETTER}
    assert verdicts(*(results(figure("a", *[value] * 4)) for value in (1.0, 1.01))) == {
        "a": Verdict.SAME
    }
    assert verdicts(*(results(figure("a", *[value] * 4)) for value in (0.0, 2.0))) == {
        "a": Verdict.WORSE
    }


def test_of_too_few_values_nothing_is_said() -> None:
    one, other = results(figure("a", 1.0, 1.1, 1.2)), results(figure("a", 9.0, 9.1, 9.2))
    assert verdicts(one, other) == {"a": Verdict.FEW}
    assert "1 of too few values to tell" in list(Comparison.of(one, other).lines())


def test_shares_are_compared_as_such() -> None:
    def failing(count: int, of: int) -> Results:
        return results(figure("a", *[1.0] * count, *[0.0] * (of - count), unit="share"))

    # Wilson's interval, by hand: 0 of 20 is at most 16 %, 8 of 20 between 22 % and 61 %.
    assert share([0.0] * 20) == pytest.approx((0.0, 0.0, 0.161), abs=1e-3)
    assert share([1.0] * 8 + [0.0] * 12) == pytest.approx((0.4, 0.219, 0.613), abs=1e-3)
    assert verdicts(failing(0, 20), failing(8, 20)) == {"a": Verdict.WORSE}
    assert verdicts(failing(0, 20), failing(3, 20)) == {"a": Verdict.SAME}
    assert verdicts(failing(1, 1), failing(0, 1)) == {"a": Verdict.SAME}


def test_figures_come_and_go() -> None:
    before, after = (
        results(figure("a", 1.0), figure("b", 1.0)),
        results(figure("b", 1.0), figure("c", 1.0)),
    )
    assert verdicts(before, after) == {"a": Verdict.GONE, "b": Verdict.SAME, "c": Verdict.NEW}


def test_times_of_another_machine_stand_apart_and_ratios_do_not() -> None:
    other = replace(MACHINE, cpu="6502", load=3.0, date="2027-01-01")
    before = results(figure("t", *[1.0] * 4), figure("r", *[1.0] * 4, unit="ratio"))
    after = results(
        figure("t", *[2.0] * 4), figure("r", *[2.0] * 4, unit="ratio"), machine=other, seed=2
    )
    compared = Comparison.of(before, after)
    assert {m.name: m.verdict for m in compared.moves} == {"t": Verdict.APART, "r": Verdict.WORSE}
    assert list(compared.lines()) == [
        "another machine, so times and rates are not compared: CPU: Z80 and 6502",
        "another setting: seed: 1 and 2",
        "worse   r: 1 (1 to 1) -> 2 (2 to 2), x2.00",
        "1 not comparable: t",
    ]


def test_times_of_a_decisive_setting_stand_apart_too() -> None:
    before, after = results(figure("t", *[1.0] * 4), virtual=True), results(figure("t", *[2.0] * 4))
    compared = Comparison.of(before, after, decisive=["virtual"])
    assert list(compared.lines()) == [
        "another setting, so times and rates are not compared: virtual: True and None",
        "nothing moved beyond the noise",
        "1 not comparable: t",
    ]


def test_it_says_so_when_nothing_moved() -> None:
    before = results(figure("a", 1.0))
    assert list(Comparison.of(before, before).lines()) == [
        "nothing moved beyond the noise",
        "1 same",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read (No such file or directory); give two files that a benchmark wrote"),
        ("{", "is no JSON"),
        ("[]", "is no benchmark's file"),
        ('{"rows": []}', "is no benchmark's file"),
        ('{"schema": 99, "figures": []}', "has schema 99, and this program reads 1; measure again"),
        (
            '{"schema": 1, "figures": [], "benchmark": "soar"}',
            "holds figures of 'soar', not of 'race'",
        ),
        ('{"schema": 1, "figures": [], "benchmark": "race"}', "is damaged (KeyError: 'machine')"),
    ],
)
def test_what_is_no_file_of_ours_is_told_in_one_sentence(
    tmp_path: Path, text: str | None, said: str
) -> None:
    path = tmp_path / "x.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(Unusable) as caught:
        Results.read(path, benchmark="race")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("values", [[], ["x"], [1e400], None])
def test_damaged_values_are_refused(tmp_path: Path, values: object) -> None:
    path = tmp_path / "x.json"
    results(figure("a", 1.0)).write(path)
    data = json.loads(path.read_text(encoding="utf-8"))
    data["figures"][0]["values"] = values
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(Unusable, match="is damaged"):
        Results.read(path)


def test_where_nothing_can_be_written_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="cannot be written"):
        results().write(tmp_path)


def test_this_machine_is_described() -> None:
    here = Machine.here(["anyio", "no-such-package"])
    assert here.cpu
    assert here.cores >= 1
    assert here.python.startswith("CPython 3.")
    assert here.versions["no-such-package"] == "not installed"
    assert here.unlike(here) == []
    assert Machine.from_dict(here.to_dict() | {"of a later racer": 1}) == here
    assert here.cpu in here.words
    assert "\n" not in here.words


def test_what_makes_times_incomparable_is_named() -> None:
    other = replace(
        MACHINE, cores=8, python="CPython 3.14.0", load=9.0, date="2027-01-01", racer="0.2.0"
    )
    assert MACHINE.unlike(other) == ["cores: 2 and 8", "Python: CPython 3.11.7 and CPython 3.14.0"]
