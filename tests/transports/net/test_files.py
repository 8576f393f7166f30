"""Small files, read within a bound and replaced whole."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from transports._net.files import read_bounded, write_atomically

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_written_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "new" / "folder" / "state.json"
    write_atomically(file, b"one")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    write_atomically(file, b"two")
    assert read_bounded(file, 3) == b"two"
    assert [entry.name for entry in file.parent.iterdir()] == ["state.json"]


def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "state.json"
    write_atomically(file, b"old")

    def fail(*args: object) -> None:
        raise OSError("no space left")

    for broken in ("os.fsync", "pathlib.Path.replace"):
        with monkeypatch.context() as patch, pytest.raises(OSError, match="no space"):
            patch.setattr(broken, fail)
            write_atomically(file, b"new")
        assert file.read_bytes() == b"old"
        assert list(tmp_path.iterdir()) == [file]


def test_more_than_the_bound_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(b"12345")
    with pytest.raises(ValueError, match="more than 4 octets"):
        read_bounded(file, 4)
    with pytest.raises(FileNotFoundError):
        read_bounded(tmp_path / "absent", 4)
