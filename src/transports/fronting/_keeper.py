"""What goes on between requests: fronts are vetted ahead of need, what succeeded is remembered, newer lists are fetched."""

from __future__ import annotations

import logging
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread

from racer.errors import ConfigError, TransportError
from transports._net.files import read_bounded, write_atomically
from transports._net.yaml_documents import MAX_PACKED
from transports.fronting._memory import MAX_MEMORY, from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from transports._net.wakeup import Wakeup
    from transports.fronting._hunt import Hunter
    from transports.fronting._pool import Choice, Pool

__all__ = ("Store", "keep_proven", "keep_remembered", "keep_updated")

SAVE_DELAY: Final = 5.0
"""Seconds from a change to the file that has it, so that many changes make one file."""

RETRY_UPDATE: Final = 1800.0
"""Seconds after an update that failed."""

FILL_PAUSE: Final = 2.0
FILL_PAUSE_MOST: Final = 60.0
"""Seconds between vettings ahead of need, since a burst of them would stand out; doubled after each that fails, up to the
longest, since without a network all of them do."""

logger = logging.getLogger("racer.fronting")


class Store:
    """The files of one `Fronting`: the latest list, and the fronts that succeeded. Blocking calls; run them in a thread.

    Args:
        folder: where they are; made when something is written. `None` keeps nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        """Open nothing."""
        self._folder = folder

    def read_list(self) -> bytes | None:
        """Return the list that was kept last; `None` if there is none that could be read."""
        return self._read("fronts.yaml.gz", MAX_PACKED)

    def write_list(self, data: bytes) -> None:
        """Keep a list, in the very octets it came in."""
        self._write("fronts.yaml.gz", data)

    def read_memory(self) -> bytes | None:
        """Return what was remembered; `None` if there is nothing that could be read."""
        return self._read("fronts.json", MAX_MEMORY)

    def write_memory(self, data: bytes) -> None:
        """Keep what is remembered."""
        self._write("fronts.json", data)

    @property
    def keeps(self) -> bool:
        """Whether anything is kept."""
        return self._folder is not None

    def _read(self, name: str, limit: int) -> bytes | None:
        if self._folder is None:
            return None
        try:
            return read_bounded(self._folder / name, limit)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as exc:
            logger.warning("what was kept of fronts cannot be read: %s", exc)
            return None

    def _write(self, name: str, data: bytes) -> None:
        if self._folder is None:
            return
        try:
            write_atomically(self._folder / name, data)
        except OSError as exc:
            logger.warning("%s cannot be written, and the old one stands: %s", name, exc)


async def recall(pool: Pool, store: Store) -> None:
    """Let the pool know what was remembered; a file that is none counts as nothing."""
    data = await anyio.to_thread.run_sync(store.read_memory)
    if data is None:
        return
    try:
        remembered = from_json(data, _wall_clock())
    except ValueError as exc:
        logger.warning("what was remembered of fronts cannot be read: %s", exc)
        return
    pool.recall(remembered, anyio.current_time())


async def save(pool: Pool, store: Store) -> None:
    """Write down what the pool remembers."""
    data = to_json(pool.remember(anyio.current_time()), _wall_clock())
    await anyio.to_thread.run_sync(store.write_memory, data)


async def keep_remembered(pool: Pool, store: Store, changed: Wakeup) -> None:
    """Save what the pool remembers some seconds after each change; for ever."""
    while True:
        await changed.wait()
        await anyio.sleep(SAVE_DELAY)
        await save(pool, store)


async def keep_proven(pool: Pool, hunter: Hunter, asked: Wakeup) -> None:
    """Vet fronts ahead of need, one at a time, while there is demand; for ever."""
    pause = FILL_PAUSE
    while True:
        now = anyio.current_time()
        choice: Choice | None = pool.choose_to_vet(now)
        if choice is None:
            deadline = pool.next_deadline(now)
            await asked.wait(None if math.isinf(deadline) else deadline)
            continue
        try:
            line = await hunter.reach(choice)
        except (OSError, TransportError) as exc:
            logger.debug("a front did not prove itself: %s", exc)
            pause = min(FILL_PAUSE_MOST, 2 * pause)
        else:
            pause = FILL_PAUSE
            await line.aclose()
        await anyio.sleep(pause)


async def keep_updated(update: Callable[[], Awaitable[Any]], interval: float) -> None:
    """Update now, and every `interval` seconds; for ever. What fails is tried again sooner."""
    while True:
        try:
            await update()
        except (OSError, TransportError, ConfigError) as exc:
            logger.warning("the list of fronts stays as it is: %s", exc)
            await anyio.sleep(min(interval, RETRY_UPDATE))
        else:
            await anyio.sleep(interval)


def _wall_clock() -> float:
    """Return seconds since 1970: what is in a file outlives the loop's clock."""
    return datetime.now(UTC).timestamp()
