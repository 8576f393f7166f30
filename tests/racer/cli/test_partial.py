"""FILE.part: what survives, what is thrown away, and what is never touched."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING

import pytest

from racer.cli import _partial
from racer.cli._exits import CommandError, Exit
from racer.cli._partial import Part, check_target
from racer.cli._ranges import Have, Version

if TYPE_CHECKING:
    from pathlib import Path

URL = "https://user:secret@example.com/file?key=secret"
PLACE = "https://example.com/file"
TAGGED = Version(etag='"a"')


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file"


def names(file: Path) -> list[str]:
    return sorted(each.name for each in file.parent.iterdir())


def begun(file: Path, data: bytes = b"0123456789", version: Version = TAGGED) -> None:
    with Part(file, URL) as part:
        part.restart(version, 30, PLACE)
        part.write(data)


def test_a_part_becomes_the_file_and_leaves_nothing(file: Path) -> None:
    with Part(file, URL) as part:
        part.restart(TAGGED, 5, PLACE)
        part.write(b"he")
        part.write(b"llo")
        assert names(file) == ["file.part", "file.part.json"]
        part.finish()
    assert names(file) == ["file"]
    assert file.read_bytes() == b"hello"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~umask


def test_an_empty_file_is_a_file(file: Path) -> None:
    with Part(file, URL) as part:
        part.restart(Version(), 0, PLACE)
        part.finish()
    assert file.read_bytes() == b""
    assert names(file) == ["file"]


def test_nothing_is_left_of_what_never_began(file: Path) -> None:
    with Part(file, URL):
        pass
    with Part(file, URL) as part:
        part.restart(TAGGED, 30, PLACE)
    assert names(file) == []


def test_the_next_run_goes_on_where_this_one_ended(file: Path) -> None:
    begun(file)
    with Part(file, URL) as part:
        assert part.have == Have(offset=10, version=TAGGED, total=30)
        assert part.is_from(PLACE)
        assert not part.is_from("https://example.com/other")
        part.write(b"ab")
    assert (file.parent / "file.part").read_bytes() == b"0123456789ab"


def test_no_secret_of_the_url_is_written_down(file: Path) -> None:
    begun(file)
    assert "secret" not in (file.parent / "file.part.json").read_text()


def test_what_may_not_have_reached_the_disk_is_not_counted(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_partial, "_CHECKPOINT", 10)
    part = Part(file, URL)
    part.restart(TAGGED, 30, PLACE)
    part.write(b"0123456789")
    part.write(b"abc")
    part._out.close()  # as a kill does: nothing more is written
    assert (file.parent / "file.part").read_bytes() == b"0123456789abc"
    with Part(file, URL) as again:
        assert again.have.offset == 10
    assert (file.parent / "file.part").read_bytes() == b"0123456789"


def test_a_kill_while_it_begins_again_leaves_no_old_beginning_under_a_new_name(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(file)
    part = Part(file, URL)

    def killed(length: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(part, "_remember", killed)
    with pytest.raises(KeyboardInterrupt):
        part.restart(Version(etag='"b"'), 30, PLACE)
    part._out.close()
    with Part(file, URL) as again:
        assert again.have.offset == 0


def test_a_part_that_cannot_be_gone_on_with_is_kept_and_begun_again(file: Path) -> None:
    begun(file, version=Version())
    assert (file.parent / "file.part").read_bytes() == b"0123456789"
    with Part(file, URL) as part:
        assert part.have == Have()


@pytest.mark.parametrize(
    "state",
    [
        "",
        "{",
        "[]",
        "{}",
        "[" * 10_000,
        '{"version": 2}',
        '{"version": 1, "url": 5}',
        "LENGTH -1",
        "LENGTH true",
        "LENGTH 1e3",
        "LENGTH " + "9" * 30,
        "missing",
    ],
)
def test_a_part_of_unknown_origin_is_left_alone(file: Path, state: str) -> None:
    begun(file)
    beside = file.parent / "file.part.json"
    if state == "missing":
        beside.unlink()
    elif state.startswith("LENGTH "):
        told = json.loads(beside.read_text())
        told["length"] = json.loads(state.removeprefix("LENGTH "))
        beside.write_text(json.dumps(told))
    else:
        beside.write_text(state)
    with pytest.raises(
        CommandError, match=r"file\.part is not known to be of any download"
    ) as caught:
        Part(file, URL)
    assert caught.value.code is Exit.WRONG_USE
    assert (file.parent / "file.part").read_bytes() == b"0123456789"
    with Part(file, URL, force=True) as part:
        assert part.have == Have()


def test_a_part_of_another_url_is_left_alone(file: Path) -> None:
    begun(file)
    with pytest.raises(CommandError, match="is of another URL"):
        Part(file, "https://example.com/other")
    with Part(file, URL) as part:
        assert part.have.offset == 10


def test_two_never_write_one_part(file: Path) -> None:
    with Part(file, URL) as part:
        part.restart(TAGGED, 30, PLACE)
        part.write(b"0123456789")
        with pytest.raises(CommandError, match="another download writes"):
            Part(file, URL, force=True)
        part.write(b"ab")
        assert part.have.offset == 12


def test_a_part_that_became_the_file_meanwhile_is_not_taken_for_one(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Part(file, URL)
    first.restart(TAGGED, 10, PLACE)
    first.write(b"0123456789")
    lock = Part._lock

    def late(self: Part, descriptor: int) -> None:
        monkeypatch.undo()
        first.finish()  # between the opening and the lock of the second
        lock(self, descriptor)

    monkeypatch.setattr(Part, "_lock", late)
    with Part(file, "https://example.com/other", force=True) as second:
        assert second.have == Have()
        assert file.read_bytes() == b"0123456789"


@pytest.mark.parametrize("force", [False, True])
def test_what_came_meanwhile_is_replaced_only_by_force(file: Path, force: bool) -> None:
    with Part(file, URL, force=force) as part:
        part.restart(TAGGED, 3, PLACE)
        part.write(b"new")
        file.write_bytes(b"old")
        if force:
            part.finish()
        else:
            with pytest.raises(CommandError, match="exists; --force replaces it"):
                part.finish()
    assert file.read_bytes() == (b"new" if force else b"old")
    assert names(file) == (["file"] if force else ["file", "file.part", "file.part.json"])


def test_without_links_it_is_renamed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("racer.cli._partial.os.link", refuses)
    with Part(file, URL) as part:
        part.restart(TAGGED, 3, PLACE)
        part.write(b"new")
        part.finish()
    assert names(file) == ["file"]


def test_a_link_in_the_place_of_a_part_is_not_followed(file: Path) -> None:
    precious = file.parent / "precious"
    precious.write_bytes(b"mine")
    (file.parent / "file.part").symlink_to(precious)
    with pytest.raises(OSError, match=r"symbolic links|Too many levels"):
        Part(file, URL, force=True)
    assert precious.read_bytes() == b"mine"


def test_what_exists_is_refused_before_anything(file: Path) -> None:
    check_target(file, force=False)
    file.write_bytes(b"old")
    with pytest.raises(CommandError, match="--force"):
        check_target(file, force=False)
    check_target(file, force=True)
    os.mkfifo(file.parent / "fifo")
    with pytest.raises(CommandError, match="no file that could be replaced"):
        check_target(file.parent / "fifo", force=True)


def test_a_full_disk_is_told_and_keeps_what_it_took(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Part(file, URL) as part:
        part.restart(TAGGED, 30, PLACE)
        part.write(b"0123456789")

        class Full:
            closed = False

            def __init__(self) -> None:
                self._out = part._out
                self._room = 3

            def write(self, data: memoryview) -> int:
                if not self._room:
                    raise OSError(28, "No space left on device")
                taken, self._room = self._out.write(data[: self._room]), 0
                return taken

            def fileno(self) -> int:
                return self._out.fileno()

            def close(self) -> None:
                self._out.close()

        monkeypatch.setattr(part, "_out", Full())
        with pytest.raises(OSError, match="No space"):
            part.write(b"abcdef")
        assert part.have.offset == 13
    with Part(file, URL) as again:
        assert again.have.offset == 13
    assert (file.parent / "file.part").read_bytes() == b"0123456789abc"
