"""Winners in a file: read back, kept from other eyes, and never the reason that a dial fails."""

from __future__ import annotations

import json
import logging
import stat
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import pytest

from transports.proxyless._memory import Key, Memory, Winner
from transports.proxyless._store import MAX_BYTES, Store

if TYPE_CHECKING:
    from pathlib import Path

KEY = Key("home", "news.example", 443, True)


def won(now: float) -> Winner:
    return Winner(resolver="system", strategy="split:1", found_at=now)


async def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    file = anyio.Path(tmp_path / "deep" / "winners.json")
    now = anyio.current_time()
    memory, later = Memory(1000.0), Memory(1000.0)
    memory.learn(KEY, won(now - 10))
    store = Store(tmp_path / "deep" / "winners.json")
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(store.save, memory)
    assert stat.S_IMODE((await file.stat()).st_mode) == 0o600
    await store.load(later, now)
    found = later.recall(KEY, now)
    assert found is not None
    assert found.found_at == pytest.approx(now - 10, abs=5)


async def test_a_file_that_is_not_there_holds_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = Memory(1000.0)
    await Store(tmp_path / "none.json").load(memory, 0.0)
    assert (len(memory), caplog.records) == (0, [])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b'{"version": 2, "saved_at": 0, "winners": []}',
        b'{"version": 1, "saved_at": "now", "winners": []}',
        b'{"version": 1, "saved_at": 0, "winners": [7]}',
        b"[" * 100_000,
        b" " * (MAX_BYTES + 1),
    ],
)
async def test_a_file_that_cannot_be_used_is_logged(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "winners.json"
    await anyio.to_thread.run_sync(file.write_bytes, content)
    memory = Memory(1000.0)
    with caplog.at_level(logging.WARNING, logger="racer.proxyless"):
        await Store(file).load(memory, 0.0)
    assert len(memory) == 0
    assert ["could not be used" in record.message for record in caplog.records] == [True]


async def test_a_file_that_cannot_be_written_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    await anyio.to_thread.run_sync(blocked.write_text, "")
    with caplog.at_level(logging.WARNING, logger="racer.proxyless"):
        await Store(blocked / "winners.json").save(Memory(1.0))
    assert ["could not be written" in record.message for record in caplog.records] == [True]


async def test_a_clock_that_was_set_back_makes_nobody_older(tmp_path: Path) -> None:
    file = tmp_path / "winners.json"
    memory = Memory(1000.0)
    memory.learn(KEY, won(0.0))
    data = {"version": 1, "saved_at": 1e11, "winners": memory.to_data(10.0)}
    await anyio.to_thread.run_sync(file.write_text, json.dumps(data))
    later = Memory(1000.0)
    await Store(file).load(later, 500.0)
    found = later.recall(KEY, 500.0)
    assert found is not None
    assert found.found_at == 490.0
