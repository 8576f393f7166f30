"""Small files that are read within a bound and replaced whole. These calls block: run them in a worker thread."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

__all__ = ("read_bounded", "write_atomically")


def read_bounded(path: Path, limit: int) -> bytes:
    """Return what is in the file at `path`.

    Raises:
        OSError: it cannot be read.
        ValueError: it has more than `limit` octets.
    """
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        msg = f"{path}: more than {limit} octets"
        raise ValueError(msg)
    return data


def write_atomically(path: Path, data: bytes) -> None:
    """Put `data` into the file at `path`, for its owner's eyes only (mode 0600); missing folders are made.

    Whoever reads the file, also after a crash in between, finds the old content or the new, never a part.

    Raises:
        OSError: it could not be written; the old file stands.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp makes the file with mode 0600, and in the same folder, so that the rename stays within one file system.
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
