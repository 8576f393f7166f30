"""Lines that are written by a thread, so that an output nobody reads holds up nothing but itself."""

from __future__ import annotations

import os
import queue
import threading
from contextlib import suppress
from typing import Final

__all__ = ("Aside",)

_MAX_WAITING: Final = 64
_LAST_WORDS: Final = 0.5  # seconds that the program's end waits for what is still to be written


class Aside:
    """Writes lines to a file descriptor.

    Not through Python's own streams: their locks, held by a thread that is stuck, would hold up the program's end too.

    Args:
        descriptor: where to; it stays open.
    """

    def __init__(self, descriptor: int) -> None:
        """Write nothing yet."""
        self._descriptor = descriptor
        self._lines: queue.Queue[bytes | None] = queue.Queue(_MAX_WAITING)
        self._thread = threading.Thread(target=self._write, name="racer lines", daemon=True)
        self._thread.start()

    def put(self, line: str) -> bool:
        """Have a line written; return `False` if too many wait already, and this one is lost. Waits for nothing."""
        try:
            self._lines.put_nowait(f"{line}\n".encode("utf-8", "backslashreplace"))
        except queue.Full:
            return False
        return True

    def close(self) -> None:
        """Wait a moment for what is still to be written."""
        with suppress(queue.Full):
            self._lines.put_nowait(None)
            self._thread.join(_LAST_WORDS)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            left = memoryview(line)
            with suppress(OSError):  # who reads has gone
                while left:
                    left = left[os.write(self._descriptor, left) :]
