from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from benchmarks import soar_server
from benchmarks.soar_server import hostile, memory, questions

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("kind", ["echo", "full"])
def test_every_question_of_a_run_is_answered(kind: str) -> None:
    row = questions(kind, 300)
    assert row["answers"] == 300
    assert row["octets"] == {"echo": 101, "full": 1232}[kind]
    assert row["a second"] > 0
    assert row["a CPU second"] > 0


def test_idle_sessions_are_all_there() -> None:
    assert memory(30)["sessions"] == 30


def test_hostile_messages_are_answered_and_begin_nothing() -> None:
    figures = hostile(300)
    assert figures.keys() == {"random", "mutated", "replayed"}
    for row in figures.values():
        assert row["messages"] == 300
        assert row["answered"] > 100
        assert row["silent"] == row["raised"] == row["new sessions"] == 0
        assert row["most octets more than asked"] <= 192  # SPEC 18.2


def test_a_silent_or_raising_server_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    real = soar_server._Core.ask
    calls = iter(range(1_000_000))

    def ask(self: soar_server._Core, message: bytes, source: object) -> list[bytes]:
        if len(message) >= 12 and not message[2] & 0x80 and source is not None:
            match next(calls) % 50:
                case 48:
                    return []
                case 49:
                    raise ZeroDivisionError
                case _:
                    pass
        return real(self, message, source)  # type: ignore[arg-type]

    messages = soar_server._hostile_messages

    def made(*args: object) -> object:
        found = messages(*args)  # type: ignore[arg-type]
        monkeypatch.setattr(soar_server._Core, "ask", ask)
        return found

    monkeypatch.setattr(soar_server, "_hostile_messages", made)
    row = hostile(300)["replayed"]
    assert row["raised"] == 6
    assert row["silent"] == 6


def test_the_table_is_printed_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soar_server, "questions", lambda kind, number: {"a CPU second": 1.0})
    path = tmp_path / "figures.json"
    small = ["--sessions", "3", "--messages", "10", "--rounds", "1", "--json", str(path)]
    assert soar_server.main(small) == 0
    figures = json.loads(path.read_text(encoding="utf-8"))
    assert figures.keys() == {"questions", "memory", "hostile"}
    assert figures["memory"]["sessions"] == 3
    out = capsys.readouterr().out
    assert "idle sessions:" in out
    assert out.count("\n") == 3 + 3 + 1 + 3
