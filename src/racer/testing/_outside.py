"""What a piece of code does to the world outside: IO that it should not do, files that it leaves open."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("count_open_files", "watch_io")

# What Python's audit events call the things that reach out. Reading a file is not among them: a lazy
# import does it too, and it does not wait for anybody.
_REACHES_OUT = (
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "socket.",
    "subprocess.",
)
_HARMLESS = frozenset({"socket.gethostname", "socket.getservbyname", "socket.getservbyport"})
_FD_FOLDERS = (Path("/proc/self/fd"), Path("/dev/fd"))


def count_open_files() -> int | None:
    """Return how many file descriptors the process has open, or None where the system does not tell."""
    for folder in _FD_FOLDERS:
        if folder.is_dir():
            return sum(1 for _ in folder.iterdir())
    return None


@contextmanager
def watch_io() -> Iterator[list[str]]:
    """Yield a list that fills up with each network or process call that this thread makes in the block."""
    _install()
    seen: list[str] = []
    _watching[threading.get_ident()] = seen
    try:
        yield seen
    finally:
        del _watching[threading.get_ident()]


_watching: dict[int, list[str]] = {}
_installed: list[bool] = []


def _install() -> None:
    """Add the hook, once: Python has no way to remove one."""
    if not _installed:
        _installed.append(True)
        sys.addaudithook(_hear)


def _hear(event: str, _arguments: tuple[object, ...]) -> None:
    if not _watching:
        return
    seen = _watching.get(threading.get_ident())
    if seen is not None and event.startswith(_REACHES_OUT) and event not in _HARMLESS:
        seen.append(event)
