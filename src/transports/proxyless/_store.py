"""Winners in a file, so that the next start need not search; written whole, for its owner's eyes only."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread

from racer.errors import ConfigError
from transports._net.files import read_bounded, write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from transports.proxyless._memory import Memory

__all__ = ("MAX_BYTES", "Store")

logger = logging.getLogger("racer.proxyless")

MAX_BYTES: Final = 1024 * 1024
"""Octets of the file; 512 winners take a tenth of it."""

_VERSION: Final = 1


class Store:
    """A file of winners. What cannot be read or written is logged and costs a search, nothing else.

    Args:
        path: where the file is, or is to be.
    """

    def __init__(self, path: Path) -> None:
        """Keep the path."""
        self._path = path
        self._is_writing = False
        self._is_wanted = False

    async def load(self, memory: Memory, now: float) -> None:
        """Put what the file holds into `memory`; a file that is not there holds nothing."""
        try:
            data = await anyio.to_thread.run_sync(read_bounded, self._path, MAX_BYTES)
            saved_at, winners = _parsed(data)
            passed = max(0.0, datetime.now(UTC).timestamp() - saved_at)
            memory.take_data(winners, now, passed=passed)
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError, ConfigError) as exc:
            logger.warning("the file of winners could not be used: %s", exc)

    async def save(self, memory: Memory) -> None:
        """Write what `memory` holds; when it is being written already, once more after that."""
        self._is_wanted = True
        if self._is_writing:
            return
        self._is_writing = True
        try:
            while self._is_wanted:
                self._is_wanted = False
                winners = memory.to_data(anyio.current_time())
                data = {
                    "version": _VERSION,
                    "saved_at": datetime.now(UTC).timestamp(),
                    "winners": winners,
                }
                text = json.dumps(data, indent=1).encode()
                await anyio.to_thread.run_sync(write_atomically, self._path, text)
        except OSError as exc:
            logger.warning("the file of winners could not be written: %s", exc)
        finally:
            self._is_writing = False


def _parsed(data: bytes) -> tuple[float, Any]:
    """Return when the file was written, by the wall clock, and what it holds.

    Raises:
        ValueError: it is no such file.
    """
    found = json.loads(data)
    saved_at = found.get("saved_at") if isinstance(found, dict) else None
    if not isinstance(saved_at, int | float) or found.get("version") != _VERSION:
        msg = "not a file of winners, or of another version"
        raise ValueError(msg)
    return float(saved_at), found.get("winners")
