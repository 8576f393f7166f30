"""Files that are made once, and changed by one at a time."""

from __future__ import annotations

import os
import stat
import threading
from typing import TYPE_CHECKING

import pytest

from transports.soar.program.files import alone, create

if TYPE_CHECKING:
    from pathlib import Path


def test_what_exists_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "key"
    create(path, b"one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        create(path, b"two")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        create(tmp_path / "link", b"two")
    assert path.read_bytes() == b"one"
    assert not (tmp_path / "nowhere").exists()


def test_a_write_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        create(tmp_path / "key", b"one")
    assert list(tmp_path.iterdir()) == []


def test_one_at_a_time(tmp_path: Path) -> None:
    path, order = tmp_path / "file", []
    inside = threading.Event()

    def other() -> None:
        inside.set()
        with alone(path):
            order.append("other")

    thread = threading.Thread(target=other)
    with alone(path):
        thread.start()
        inside.wait()
        thread.join(0.05)  # time in which a lock that isn't one would let it in
        order.append("first")
    thread.join()
    assert order == ["first", "other"]
