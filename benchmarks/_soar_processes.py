"""What processes have used of the machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ("cpu_seconds",)


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the processor seconds of these so far, in steps of 10 ms; of those that are gone, and where no `/proc` is, 0."""
    return sum(map(_of, pids))


def _of(pid: int) -> float:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0.0
    # proc(5): the command's name may have spaces in it, but ends with the last parenthesis.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
