"""Files that are made once, and files that one process at a time may change. These calls block."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

try:
    import fcntl
except ImportError:  # not a Unix: nobody else is kept out
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ("alone", "create")


def create(path: Path, data: bytes) -> None:
    """Make a file that did not exist, for its owner's eyes only (mode 0600).

    Raises:
        FileExistsError: it did.
        OSError: it could not be written; there is none then.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep others out who would change the file at `path` between our reading and our writing of it.

    Raises:
        OSError: the file that says so, beside it, can't be made.
    """
    descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
