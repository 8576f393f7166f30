from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest

from benchmarks import soar_codec

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = 80


@pytest.mark.parametrize("group", soar_codec.GROUPS)
def test_every_operation_of_a_group_can_be_done_and_done_again(group: str) -> None:
    operations = soar_codec.GROUPS[group]()
    assert operations
    names = [operation.name for operation in operations]
    assert len(set(names)) == len(names)
    for operation in operations:
        for work in (operation.work, operation.rival):
            if work is not None:
                first, again = work(), work()
                assert type(first) is type(again)
        assert operation.reference is None or operation.reference > 0


def test_what_is_measured_is_printed_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soar_codec, "_BLOCK_SECONDS", 1e-5)
    file = tmp_path / "figures.json"
    assert soar_codec.main(["--rounds", "2", "--json", str(file)]) == 0

    told = json.loads(file.read_text(encoding="utf-8"))
    assert told["rounds"] == 2
    rows = [
        (group, operation)
        for group, operations in soar_codec.GROUPS.items()
        for operation in operations()
    ]
    assert len(told["costs"]) == len(rows)
    for cost, (group, operation) in zip(told["costs"], rows, strict=True):
        assert (cost["group"], cost["name"]) == (group, operation.name)
        assert cost["reference"] == operation.reference
        assert math.isfinite(cost["own"])
        assert cost["own"] > 0
        assert (cost["rival"] is None) == (operation.rival is None)

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= COLUMNS
    for _, operation in rows:
        assert any(line.strip().startswith(operation.name) for line in lines)


def test_a_group_is_chosen_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    chosen: list[soar_codec.Operation] = [soar_codec.Operation("nothing", lambda: None)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(soar_codec, "GROUPS", {"one": lambda: chosen, "two": lambda: 1 / 0})
        patch.setattr(soar_codec, "_BLOCK_SECONDS", 1e-5)
        assert soar_codec.main(["--rounds", "1", "--group", "one"]) == 0
    assert "nothing" in capsys.readouterr().out


def test_the_figure_is_of_one_doing_in_microseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soar_codec, "_seconds", lambda work, times: 0.001)
    monkeypatch.setattr(soar_codec, "_BLOCK_SECONDS", 0.004)  # so four doings make a block
    operation = soar_codec.Operation("nothing", lambda: None, 7.0)
    monkeypatch.setattr(soar_codec, "GROUPS", {"one": lambda: [operation]})
    (cost,) = soar_codec.measure(["one"], 3)
    assert cost == soar_codec.Cost(
        group="one", name="nothing", own=250.0, reference=7.0, rival=None
    )
