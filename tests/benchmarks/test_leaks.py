from __future__ import annotations

import json
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import leaks

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = 80
LOOPS = ("asyncio", "trio")
RACES = 30

NOTHING = leaks.Census(
    races=1,
    won=1,
    cancelled=0,
    failed=0,
    fds=0,
    tasks=0,
    closing=0,
    spans=5,
    open_spans=0,
    memory=1,
)


def test_races_leave_nothing_and_the_figures_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        leaks, "_STUCK", 0.0
    )  # a stream that closes by force only takes two seconds
    file = tmp_path / "figures.json"
    assert leaks.main(["--races", str(RACES), "--json", str(file)]) == 0

    told: dict[str, list[dict[str, Any]]] = json.loads(file.read_text(encoding="utf-8"))
    assert tuple(told) == LOOPS
    for *during, rest in told.values():
        assert len(during) == 10
        assert (rest["races"], rest["failed"]) == (RACES, 0)
        assert rest["won"] + rest["cancelled"] == RACES
        assert rest["spans"] > 2 * rest["won"]  # a dial and its winner, and most of the others
        assert [rest[key] for key in ("fds", "tasks", "closing", "open_spans")] == [0] * 4

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= COLUMNS
    assert [line.partition(":")[0] for line in lines if "entrants" in line] == list(LOOPS)
    assert len([line for line in lines if line.startswith("closed")]) == len(LOOPS)


@pytest.mark.parametrize("loop", LOOPS)
def test_what_is_left_open_is_counted_and_fails_the_run(
    loop: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    forgotten: list[socket.socket] = []
    reluctant = leaks._Reluctant.aclose

    async def forget(stream: leaks._Reluctant) -> None:
        forgotten.append(socket.socket())
        await reluctant(stream)

    monkeypatch.setattr(leaks._Reluctant, "aclose", forget)
    monkeypatch.setattr(leaks, "_STUCK", 0.0)
    monkeypatch.setattr(leaks, "_SETTLE", 0.02)
    file = tmp_path / "figures.json"
    try:
        assert leaks.main(["--races", "20", "--loops", loop, "--json", str(file)]) == 1
        rest = json.loads(file.read_text(encoding="utf-8"))[loop][-1]
        assert rest["fds"] == len(forgotten) > 0
    finally:
        for one in forgotten:
            one.close()


@pytest.mark.parametrize("left", ["fds", "tasks", "closing", "open_spans"])
def test_one_thing_left_is_not_clean(left: str) -> None:
    assert NOTHING.is_clean
    assert not replace(NOTHING, **{left: 1}).is_clean
