"""A download on disk: `FILE.part` while it grows, with what is known of it beside it, and FILE when it is whole.

`FILE.part.json` says of what the beginning is a part, and how much of it is surely on the disk. Where the two do not fit
together, or are not of this download, nothing is added and nothing is lost. It keeps hashes of URLs, which may hold secrets.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import stat
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self

from racer.cli._exits import CommandError, Exit
from racer.cli._ranges import MAX_LENGTH, Have, Version

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path

__all__ = ("Part", "check_target")

_VERSION: Final = 1
_MAX_STATE: Final = 16_384  # octets
_CHECKPOINT: Final = 16 * 1024 * 1024  # octets between two that are surely on the disk


def check_target(file: Path, *, force: bool) -> None:
    """Refuse what a download must not replace.

    Raises:
        CommandError: there is something of that name.
    """
    try:
        mode = file.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
        raise CommandError(f"{file} is no file that could be replaced", Exit.WRONG_USE)
    if not force:
        msg = f"{file} exists; --force replaces it"
        raise CommandError(msg, Exit.WRONG_USE)


class Part:
    """The part of a file that is here; it blocks. Whoever opened it closes it.

    Args:
        file: what it becomes.
        url: from where.
        force: whether FILE, and a part of something else, may be replaced.

    Raises:
        CommandError: another download writes it, or it is not of this one.
        OSError: it cannot be written.

    Attributes:
        file: as given.
        have: what is here, and of what it is a part.
        place: a hash of where its representation was found, behind redirects.
    """

    def __init__(self, file: Path, url: str, *, force: bool = False) -> None:
        """Open or make it, and take it for oneself."""
        self.file = file
        self.have = Have()
        self.place = ""
        self._force = force
        self._url = _hash(url)
        self.path = file.with_name(f"{file.name}.part")
        self._state = file.with_name(f"{file.name}.part.json")
        self._out = self._open()
        try:
            self._recall()
        except BaseException:
            self._out.close()
            raise
        self._safe = self.have.offset

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close it."""
        self.close()

    def restart(self, version: Version, total: int | None, place: str) -> None:
        """Throw away what is here, for another version."""
        # In this order: never is an old beginning under a new name.
        self._out.seek(0)
        self._out.truncate()
        self.have = Have(version=version, total=total)
        self.place = _hash(place)
        self._remember(0)

    def is_from(self, place: str) -> bool:
        """Return whether what is here was found there."""
        return self.place == _hash(place)

    def write(self, data: bytes) -> None:
        """Add to what is here; what a full disk took is counted."""
        left = memoryview(data)
        while left:
            taken = self._out.write(left) or 0
            left = left[taken:]
            self.have = replace(self.have, offset=self.have.offset + taken)
        if self.have.offset - self._safe >= _CHECKPOINT:
            self._keep()

    def learn(self, total: int | None) -> None:
        """Note how long the whole is."""
        self.have = replace(self.have, total=total)

    def finish(self) -> None:
        """Make it FILE; all or nothing.

        Raises:
            CommandError: something of that name has come meanwhile.
        """
        os.fsync(self._out.fileno())
        if self._force:
            self.path.replace(self.file)
        else:
            self._take_name()
        self._state.unlink(missing_ok=True)
        self._out.close()

    def close(self) -> None:
        """Keep what is here for another time; nothing if nothing is here. Again does nothing."""
        if self._out.closed:
            return
        try:
            if self.have.offset:
                self._keep()
            else:
                self._state.unlink(missing_ok=True)
                self.path.unlink(missing_ok=True)
        finally:
            with contextlib.suppress(
                OSError
            ):  # what a full disk did not take, and was told of already
                self._out.close()

    def _take_name(self) -> None:
        try:
            # Unlike a rename, a link never replaces anything.
            os.link(self.path, self.file)
        except FileExistsError:
            check_target(self.file, force=False)
            raise
        except OSError:  # a file system without links
            check_target(self.file, force=False)
            self.path.replace(self.file)
            return
        self.path.unlink()

    def _open(self) -> FileIO:
        """Return the part's file, which nobody else writes."""
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        while True:
            # Unbuffered: who calls brings big pieces, and knows then what is written.
            out = io.FileIO(os.open(self.path, flags, 0o666), "r+b")
            try:
                self._lock(out.fileno())
                # Who had it before may have made it FILE, or thrown it away.
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(out.fileno()), self.path.lstat()):
                        return out
            except BaseException:
                out.close()
                raise
            out.close()

    def _lock(self, descriptor: int) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            msg = f"another download writes {self.path}"
            raise CommandError(msg, Exit.SYSTEM) from None
        except OSError:
            return  # a file system without locks

    def _recall(self) -> None:
        """Learn from what an earlier run left."""
        size = os.fstat(self._out.fileno()).st_size
        state = self._read()
        if size and (state is None or state["url"] != self._url) and not self._force:
            whose = "is not known to be of any download" if state is None else "is of another URL"
            msg = f"{self.path} {whose}; move it away, or let --force replace it"
            raise CommandError(msg, Exit.WRONG_USE)
        if state is None or state["url"] != self._url:
            self._out.truncate(0)
            return
        self.place = state["place"]
        offset = min(size, state["length"])
        version = Version(
            etag=state["etag"], last_modified=state["last_modified"], encoding=state["encoding"]
        )
        self.have = Have(offset=offset, version=version, total=state["total"])
        if not self.have.can_go_on:
            self.have = Have()
        self._out.truncate(self.have.offset)  # what is behind may never have reached the disk
        self._out.seek(self.have.offset)

    def _read(self) -> dict[str, Any] | None:
        """Return the state; `None` if there is none that makes sense."""
        try:
            with self._state.open("rb") as opened:
                state = json.loads(opened.read(_MAX_STATE))
        except (FileNotFoundError, ValueError, RecursionError):
            return None
        return state if _is_state(state) else None

    def _keep(self) -> None:
        """Have everything so far on the disk, and know it."""
        os.fsync(self._out.fileno())
        self._remember(self.have.offset)

    def _remember(self, length: int) -> None:
        have = self.have
        state = {
            "version": _VERSION,
            "url": self._url,
            "place": self.place,
            "etag": have.version.etag,
            "last_modified": have.version.last_modified,
            "encoding": have.version.encoding,
            "total": have.total,
            "length": length,
        }
        beside = self._state.with_name(f"{self._state.name}.new")
        beside.write_text(json.dumps(state), encoding="ascii")
        beside.replace(self._state)
        self._safe = length


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _is_state(state: object) -> bool:
    """Return whether it is what `_remember` writes."""
    if not isinstance(state, dict) or state.get("version") != _VERSION:
        return False
    texts = all(isinstance(state.get(key), str) for key in ("url", "place", "encoding"))
    tags = all(isinstance(state.get(key), str | None) for key in ("etag", "last_modified"))
    return (
        texts
        and tags
        and _is_length(state.get("length"))
        and (state.get("total") is None or _is_length(state.get("total")))
    )


def _is_length(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_LENGTH
